//! Status writes: merge patches with resourceVersion, by the leader alone. IO.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::ACCEPT;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{PartialObjectMeta, Request};
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::guarded::Guarded;
use super::lease::Leadership;
use super::room::Room;
use crate::api::{AxTask, AxTaskTemplate};
use crate::ops::clock::Clock;

/// A write that takes longer is given up; whether it was applied shows when the object is read again.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The answer is 0.8 KB this way, whatever the payload.
pub(super) const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// One write.
#[derive(Debug)]
pub struct StatusWrite {
    /// Which object.
    pub namespace: String,
    /// Which object.
    pub name: String,
    /// The version it was decided on.
    pub resource_version: String,
    /// What differs.
    pub status: Value,
    /// The term it was decided under.
    pub term: u64,
}

/// What became of a write.
#[derive(Debug)]
pub enum Written<K> {
    /// It is recorded; the version after it.
    Done(String),
    /// Another version was there: this one. To be decided again, never repeated.
    Conflict(Box<Guarded<K>>),
    /// The object is gone.
    Gone,
    /// It can never be recorded: repeating it would fail for ever.
    Refused(String),
    /// It may or may not be recorded.
    Failed(String),
    /// This replica may not write any more.
    NotLeader,
}

/// Writes statuses, at most so many at once.
#[derive(Clone)]
pub struct StatusWriter {
    client: Client,
    room: Arc<Room>,
    leadership: Leadership,
    clock: Clock,
}

impl StatusWriter {
    /// A writer in a room that it shares.
    pub fn new(client: Client, room: Arc<Room>, leadership: Leadership, clock: Clock) -> Self {
        Self { client, room, leadership, clock }
    }

    /// Writes a task's status.
    pub async fn task(&self, write: StatusWrite) -> Written<AxTask> {
        self.write(write).await
    }

    /// Writes a template's status.
    pub async fn template(&self, write: StatusWrite) -> Written<AxTaskTemplate> {
        self.write(write).await
    }

    async fn write<K>(&self, write: StatusWrite) -> Written<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let Some(_place) = self.room.for_write().await else { return Written::NotLeader };
        // The last check before the bytes go out.
        if self.leadership.grant(self.clock.mono()).is_none_or(|grant| grant.term != write.term) {
            return Written::NotLeader;
        }
        match tokio::time::timeout(TIMEOUT, self.patch::<K>(&write)).await {
            Err(_) => Written::Failed("no answer within 10 s".to_owned()),
            Ok(Ok(version)) => Written::Done(version),
            Ok(Err(kube::Error::Api(status))) => match status.code {
                404 => Written::Gone,
                409 => self.read_again::<K>(&write).await,
                413 | 422 | 400 => Written::Refused(status.message.clone()),
                // 500 "etcdserver: request is too large" comes without a code of its own.
                500 if status.message.contains("too large") => Written::Refused(status.message.clone()),
                code => Written::Failed(format!("{code}: {}", status.message)),
            },
            Ok(Err(error)) => Written::Failed(super::chain(&error)),
        }
    }

    async fn patch<K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>>(
        &self,
        write: &StatusWrite,
    ) -> Result<String, kube::Error> {
        let body = json!({
            "metadata": { "resourceVersion": write.resource_version },
            "status": write.status,
        });
        let mut request = Request::new(K::url_path(&(), Some(&write.namespace)))
            .patch_subresource("status", &write.name, &PatchParams::default(), &Patch::Merge(&body))
            .map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA_ONLY));
        let meta: PartialObjectMeta<AxTask> = self.client.request(request).await?;
        Ok(meta.metadata.resource_version.unwrap_or_default())
    }

    async fn read_again<K>(&self, write: &StatusWrite) -> Written<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &write.namespace);
        match tokio::time::timeout(TIMEOUT, api.get(&write.name)).await {
            Err(_) => Written::Failed("no answer within 10 s".to_owned()),
            Ok(Ok(object)) => Written::Conflict(Box::new(object)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Written::Gone,
            Ok(Err(error)) => Written::Failed(super::chain(&error)),
        }
    }
}
