//! Hints that the Lease changed, so that a release is taken over at once. IO: one watch, on connections of its own.
//!
//! A hint only makes the election read the Lease, so one that is late or wrong costs a read, and none at all costs
//! nothing but the time to the next poll.

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use tokio::sync::watch;
use tracing::debug;

use super::super::{chain, client};
use crate::cluster::client::Connector;

/// A held Lease changes every second or two: a watch silent for longer is dead.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
const WATCH_TIMEOUT_SECONDS: u32 = 200;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The holder that the watch showed last; `None` = no Lease, or held by nobody.
pub type Hint = Option<String>;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to connect")]
    Connect(#[source] client::Error),
    #[error("failed to watch the Lease")]
    Watch(#[source] kube::Error),
    #[error("the API server ended the watch: {0}")]
    Ended(String),
    #[error("the watch was silent for too long")]
    Silent,
}

/// Watches for ever.
pub async fn run(connector: Connector, namespace: &str, name: &str, hints: watch::Sender<Hint>) -> Infallible {
    let mut pause = FIRST_PAUSE;
    loop {
        let mut seen = false;
        match follow(&connector, namespace, name, &hints, &mut seen).await {
            Ok(()) => {}
            Err(error) => debug!(error = chain(&error), "lease watch broke; polling goes on"),
        }
        pause = if seen { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(pause).await;
    }
}

async fn follow(
    connector: &Connector,
    namespace: &str,
    name: &str,
    hints: &watch::Sender<Hint>,
    seen: &mut bool,
) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(connector.connect().map_err(Error::Connect)?, namespace);
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_TIMEOUT_SECONDS);
    let opened = tokio::time::timeout(IDLE_LIMIT, api.watch(&params, "0")).await.map_err(|_| Error::Silent)?;
    let mut events = opened.map_err(Error::Watch)?.boxed();
    loop {
        let event = tokio::time::timeout(IDLE_LIMIT, events.next()).await.map_err(|_| Error::Silent)?;
        let hint = match event {
            None => return Ok(()),
            Some(Err(error)) => return Err(Error::Watch(error)),
            Some(Ok(WatchEvent::Error(status))) => return Err(Error::Ended(status.message.clone())),
            Some(Ok(WatchEvent::Bookmark(_))) => continue,
            Some(Ok(WatchEvent::Deleted(_))) => None,
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty())
            }
        };
        *seen = true;
        hints.send_replace(hint);
    }
}
