//! The consistent reads with which a leader begins. IO.
//!
//! A warm cache may lag behind what the last leader wrote; acting on it could send a finished task again, or make runs
//! that were made. So a leader begins with lists of its own that are at least as new as its Lease.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::guarded::Guarded;
use super::watch::Scope;
use crate::api::{AxTask, AxTaskTemplate};

const PAGE: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a leader begins with, from the newest state, and the version each kind was read at.
#[derive(Debug, Default)]
pub struct Listing {
    pub tasks: Vec<Guarded<AxTask>>,
    pub tasks_at: u64,
    pub templates: Vec<Guarded<AxTaskTemplate>>,
    pub templates_at: u64,
}

/// All tasks and templates of the scopes.
///
/// # Errors
/// What kept the lists from being complete; the caller begins anew.
pub async fn list(client: Client, scopes: &[Scope]) -> Result<Listing, String> {
    // Templates first: a run is never older than what it is made from.
    let (templates, templates_at) = list_kind(&client, scopes).await?;
    let (tasks, tasks_at) = list_kind(&client, scopes).await?;
    Ok(Listing { tasks, tasks_at, templates, templates_at })
}

/// Page by page.
async fn list_kind<K>(client: &Client, scopes: &[Scope]) -> Result<(Vec<Guarded<K>>, u64), String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Debug,
{
    let mut objects = Vec::new();
    let mut version = u64::MAX;
    for scope in scopes {
        let api: Api<Guarded<K>> = match scope {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = tokio::time::timeout(TIMEOUT, api.list(&params))
                .await
                .map_err(|_| "no answer within 30 s".to_owned())?
                .map_err(|error| super::chain(&error))?;
            objects.extend(page.items);
            // Without a version nothing may be concluded from what is not listed.
            let read_at = page.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0);
            version = version.min(read_at);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => break,
            }
        }
    }
    Ok((objects, version))
}

/// These pods, of namespace and name, as far as they exist: a cache that does not know a pod may only be behind.
///
/// # Errors
/// What kept one from being read; the caller begins anew.
pub async fn fetch_pods(client: Client, pods: Vec<(String, String)>) -> Result<Vec<Pod>, String> {
    let mut found = Vec::new();
    for (namespace, name) in pods {
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let pod = tokio::time::timeout(TIMEOUT, api.get_opt(&name))
            .await
            .map_err(|_| "no answer within 30 s".to_owned())?
            .map_err(|error| super::chain(&error))?;
        found.extend(pod);
    }
    Ok(found)
}
