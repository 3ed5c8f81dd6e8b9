//! The calls of the election: one GET, POST or PUT of the Lease, within its time. IO.

use std::time::Duration;

use http::{Response, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{GetParams, PostParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Resource as _};

use super::object;
use crate::cluster::client::{self, Connector};
use crate::cluster::server_clock::ServerClock;
use crate::domain::election::LeaseRecord;
use crate::ops::clock::Clock;

/// Why a call failed. Whether a failed write landed is for the election to find out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to connect to the API server")]
    Connect(#[source] client::Error),
    #[error("failed to build the request")]
    Build(#[source] kube::core::request::Error),
    #[error("failed to write the Lease as JSON")]
    Encode(#[source] serde_json::Error),
    #[error("failed to read the answer as a Lease")]
    Decode(#[source] serde_json::Error),
    #[error("failed to reach the API server")]
    Send(#[source] kube::Error),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the API server answered {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("the Lease changed since it was read")]
    Outdated,
}

impl Error {
    /// Static label for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connect(_) => "ConnectFailed",
            Self::Build(_) => "BuildFailed",
            Self::Encode(_) => "EncodeFailed",
            Self::Decode(_) => "DecodeFailed",
            Self::Send(_) => "SendFailed",
            Self::TimedOut(_) => "TimedOut",
            Self::Refused { .. } => "Refused",
            Self::Outdated => "Outdated",
        }
    }

    /// Whether the connection is to blame: the next call takes a fresh one.
    fn is_of_connection(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Send(_) | Self::TimedOut(_) => true,
            Self::Build(_) | Self::Encode(_) | Self::Decode(_) | Self::Refused { .. } | Self::Outdated => false,
        }
    }
}

/// Reaches one Lease.
pub struct Caller {
    connector: Connector,
    client: Option<Client>,
    namespace: String,
    name: String,
    requests: Request,
    /// The object as last read: what others put on it is kept.
    object: Option<Lease>,
    clock: Clock,
    server_clock: ServerClock,
}

impl Caller {
    pub fn new(connector: Connector, namespace: &str, name: &str, clock: Clock, server_clock: ServerClock) -> Self {
        Self {
            connector,
            client: None,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            requests: Request::new(Lease::url_path(&(), Some(namespace))),
            object: None,
            clock,
            server_clock,
        }
    }

    /// The Lease as the API server has it, from no cache; `None` = there is none.
    pub async fn read(&mut self, until: Duration) -> Result<Option<LeaseRecord>, Error> {
        let request = self.requests.get(&self.name, &GetParams::default()).map_err(Error::Build)?;
        match self.send(request, until).await {
            Ok(record) => Ok(Some(record)),
            Err(Error::Refused { status: StatusCode::NOT_FOUND, .. }) => {
                self.object = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes it; fails if there is one.
    pub async fn create(&mut self, record: &LeaseRecord, until: Duration) -> Result<LeaseRecord, Error> {
        let lease = object::write(&object::new(&self.namespace, &self.name), record);
        let body = serde_json::to_vec(&lease).map_err(Error::Encode)?;
        let request = self.requests.create(&PostParams::default(), body).map_err(Error::Build)?;
        self.send(request, until).await
    }

    /// Replaces the version that the record was decided on, and no other.
    pub async fn replace(&mut self, record: &LeaseRecord, until: Duration) -> Result<LeaseRecord, Error> {
        let base = self.object.as_ref().filter(|base| {
            base.metadata.resource_version.as_ref() == Some(&record.resource_version) && base.metadata.uid.is_some()
        });
        let lease = object::write(base.ok_or(Error::Outdated)?, record);
        let body = serde_json::to_vec(&lease).map_err(Error::Encode)?;
        let request = self.requests.replace(&self.name, &PostParams::default(), body).map_err(Error::Build)?;
        self.send(request, until).await
    }

    async fn send(&mut self, request: http::Request<Vec<u8>>, until: Duration) -> Result<LeaseRecord, Error> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.connector.connect().map_err(Error::Connect)?,
        };
        let left = until.saturating_sub(self.clock.mono());
        let exchanged = tokio::time::timeout_at(self.clock.instant(until), self.exchange(&client, request)).await;
        let result = exchanged.unwrap_or(Err(Error::TimedOut(left)));
        if !result.as_ref().is_err_and(Error::is_of_connection) {
            self.client = Some(client);
        }
        let lease = result?;
        let record = object::read(&lease);
        self.object = Some(lease);
        Ok(record)
    }

    async fn exchange(&self, client: &Client, request: http::Request<Vec<u8>>) -> Result<Lease, Error> {
        let sent = self.clock.now().wall;
        let response = client.send(request.map(Body::from)).await.map_err(Error::Send)?;
        if let Some(date) = date(&response) {
            self.server_clock.observe(sent, self.clock.now().wall, date);
        }
        let status = response.status();
        let body = response.into_body().collect().await.map_err(Error::Send)?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(Error::Decode);
        }
        let message = serde_json::from_slice::<Status>(&body).map_or_else(|_| String::new(), |status| status.message);
        Err(Error::Refused { status, message })
    }
}

fn date(response: &Response<Body>) -> Option<Timestamp> {
    let text = response.headers().get(header::DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_header_is_read() {
        let response = Response::builder()
            .header(header::DATE, "Tue, 01 Dec 2026 08:00:00 GMT")
            .body(Body::empty())
            .expect("a response");
        assert_eq!(date(&response), "2026-12-01T08:00:00Z".parse().ok());
        assert_eq!(date(&Response::new(Body::empty())), None);
    }
}
