//! Makes runs and deletes old ones, by the leader alone. IO.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::core::{PartialObjectMeta, Request};
use kube::{Client, Resource as _};
use tracing::debug;

use super::guarded::Guarded;
use super::lease::Leadership;
use super::room::Room;
use super::status::METADATA_ONLY;
use crate::api::AxTask;
use crate::ops::clock::Clock;

/// A call that takes longer is given up; whether it was applied shows when it is repeated, since names are taken once.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What became of a run.
#[derive(Debug)]
pub enum Made {
    /// It is there.
    Done,
    /// The name was taken, by this.
    Taken(Box<Guarded<AxTask>>),
    /// The API server will not have it: repeating it would fail the same way.
    Refused(String),
    /// It may or may not be there.
    Failed(String),
    /// This replica may not write any more.
    NotLeader,
}

/// One run to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Which object.
    pub namespace: String,
    /// Which object.
    pub name: String,
    /// And no other of that name.
    pub uid: String,
    /// As it was when that was decided.
    pub resource_version: String,
    /// The term it was decided under.
    pub term: u64,
}

/// Makes and deletes.
#[derive(Clone)]
pub struct RunMaker {
    client: Client,
    room: Arc<Room>,
    leadership: Leadership,
    clock: Clock,
}

impl RunMaker {
    /// A maker in the room that it shares with status writes.
    pub fn new(client: Client, room: Arc<Room>, leadership: Leadership, clock: Clock) -> Self {
        Self { client, room, leadership, clock }
    }

    /// Makes a run. One whose name is taken is read, so that the caller can tell whether it is the same.
    pub async fn make(&self, run: &AxTask, term: u64) -> Made {
        let Some(_place) = self.room.for_run().await else { return Made::NotLeader };
        if !self.leads(term) {
            return Made::NotLeader;
        }
        let (namespace, name) = (run.metadata.namespace.as_deref(), run.metadata.name.as_deref());
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return Made::Refused("the run has no namespace or name".to_owned());
        };
        match tokio::time::timeout(TIMEOUT, self.create(namespace, run)).await {
            Err(_) => Made::Failed("no answer within 10 s".to_owned()),
            Ok(Ok(())) => Made::Done,
            Ok(Err(kube::Error::Api(status))) => match status.code {
                409 if status.reason == "AlreadyExists" => self.read(namespace, name).await,
                // A quota that is full or a right that is missing may be mended meanwhile; a namespace that goes is not.
                403 if !status.message.contains("being terminated") => Made::Failed(status.message.clone()),
                400 | 403 | 404 | 413 | 422 => Made::Refused(status.message.clone()),
                500 if status.message.contains("too large") => Made::Refused(status.message.clone()),
                code => Made::Failed(format!("{code}: {}", status.message)),
            },
            Ok(Err(error)) => Made::Failed(super::chain(&error)),
        }
    }

    async fn create(&self, namespace: &str, run: &AxTask) -> Result<(), kube::Error> {
        let body = serde_json::to_vec(run).map_err(kube::Error::SerdeError)?;
        let mut request = Request::new(AxTask::url_path(&(), Some(namespace)))
            .create(&PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(METADATA_ONLY));
        let _: PartialObjectMeta<AxTask> = self.client.request(request).await?;
        Ok(())
    }

    async fn read(&self, namespace: &str, name: &str) -> Made {
        let api: Api<Guarded<AxTask>> = Api::namespaced(self.client.clone(), namespace);
        match tokio::time::timeout(TIMEOUT, api.get_opt(name)).await {
            Err(_) => Made::Failed("no answer within 10 s".to_owned()),
            Ok(Ok(Some(task))) => Made::Taken(Box::new(task)),
            Ok(Ok(None)) => Made::Failed("its name was taken, and is free again".to_owned()),
            Ok(Err(error)) => Made::Failed(super::chain(&error)),
        }
    }

    /// Deletes a run, if it still is what it was. What fails is decided again by the caller's next look.
    pub async fn delete(&self, removal: Removal) {
        let Some(_place) = self.room.for_write().await else { return };
        if !self.leads(removal.term) {
            return;
        }
        let api: Api<PartialObjectMeta<AxTask>> = Api::namespaced(self.client.clone(), &removal.namespace);
        let preconditions = Preconditions { uid: Some(removal.uid), resource_version: Some(removal.resource_version) };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match tokio::time::timeout(TIMEOUT, api.delete(&removal.name, &params)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => debug!(task = %removal.name, error = %super::chain(&error), "an old run was not deleted"),
            Err(_) => debug!(task = %removal.name, "an old run was not deleted: no answer within 10 s"),
        }
    }

    /// The last check before the bytes go out.
    fn leads(&self, term: u64) -> bool {
        self.leadership.grant(self.clock.mono()).is_some_and(|grant| grant.term == term)
    }
}
