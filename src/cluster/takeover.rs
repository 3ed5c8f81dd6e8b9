//! The consistent reads with which a leader begins. IO.
//!
//! A warm cache may lag behind what the last leader wrote; acting on it could send a finished task again. So a leader
//! begins with a list of its own that is at least as new as its Lease.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};

use super::guarded::Guarded;
use super::watch::Scope;
use crate::api::AxTask;

const PAGE: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(30);

/// All tasks of the scopes, page by page, from the newest state, and the version they were read at.
///
/// # Errors
/// What kept the list from being complete; the caller begins anew.
pub async fn list_tasks(client: Client, scopes: &[Scope]) -> Result<(Vec<Guarded<AxTask>>, u64), String> {
    let mut tasks = Vec::new();
    let mut version = u64::MAX;
    for scope in scopes {
        let api: Api<Guarded<AxTask>> = match scope {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = tokio::time::timeout(TIMEOUT, api.list(&params))
                .await
                .map_err(|_| "no answer within 30 s".to_owned())?
                .map_err(|error| super::chain(&error))?;
            tasks.extend(page.items);
            // Without a version nothing may be concluded from what is not listed.
            let read_at = page.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0);
            version = version.min(read_at);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => break,
            }
        }
    }
    Ok((tasks, version))
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
