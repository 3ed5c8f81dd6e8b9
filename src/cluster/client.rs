//! Clients of the API server. IO: reads the kubeconfig or the pod's service account.
//!
//! Three, each with its own connections, so that a slow watch or a flood of writes never holds up a renewal. None
//! retries by itself: a PUT sent again after a 504 is answered 409 for one's own success, and a renewal that is still
//! inside the client when trust ends helps nobody. There is no read timeout either, since watches are quiet for long:
//! whoever makes another call puts a timeout round it.

use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to find out how to reach the API server")]
    Infer(#[source] kube::config::InferConfigError),
    #[error("failed to build a client of the API server")]
    Build(#[source] kube::Error),
}

impl Error {
    /// Static label for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Infer(_) => "InferConfigFailed",
            Self::Build(_) => "BuildClientFailed",
        }
    }
}

/// Makes clients with fresh connections, as often as one is needed.
#[derive(Clone)]
pub struct Connector {
    connect: Arc<dyn Fn() -> Result<Client, kube::Error> + Send + Sync>,
}

impl Connector {
    /// Clients of this configuration, without retries.
    pub fn new(config: Config) -> Self {
        let config = tuned(config);
        Self::from_fn(move || Client::try_from(config.clone()))
    }

    /// Clients made by a function, which must not retry.
    pub fn from_fn(connect: impl Fn() -> Result<Client, kube::Error> + Send + Sync + 'static) -> Self {
        Self { connect: Arc::new(connect) }
    }

    /// A client that shares no connection with any other.
    pub fn connect(&self) -> Result<Client, Error> {
        (self.connect)().map_err(Error::Build)
    }
}

/// The operator's clients.
#[derive(Clone)]
pub struct Clients {
    /// For the Lease: after a timeout it takes a fresh client, since the connection may be half-open.
    pub lease: Connector,
    /// For reads and writes of single objects.
    pub write: Client,
    /// For watches and their lists.
    pub watch: Client,
    /// Namespace of the kubeconfig's context, or the pod's own.
    pub namespace: String,
}

impl Clients {
    /// Clients from `KUBECONFIG` or the default kubeconfig, else from the pod's service account.
    pub async fn infer() -> Result<Self, Error> {
        Self::new(Config::infer().await.map_err(Error::Infer)?)
    }

    /// Clients of this configuration. Must be called inside a runtime.
    pub fn new(config: Config) -> Result<Self, Error> {
        let namespace = config.default_namespace.clone();
        // A watch ends itself after 200 s and is never silent for longer: what is, is dead.
        let mut listening = tuned(config.clone());
        listening.read_timeout = Some(WATCH_SILENCE);
        let watch = Client::try_from(listening).map_err(Error::Build)?;
        let lease = Connector::new(config);
        Ok(Self { write: lease.connect()?, watch, lease, namespace })
    }
}

impl From<Clients> for Connector {
    fn from(clients: Clients) -> Self {
        clients.lease
    }
}

/// Silence after which a watch's connection is given up, a list's too.
const WATCH_SILENCE: Duration = Duration::from_secs(230);

fn tuned(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.read_timeout = None;
    config
}
