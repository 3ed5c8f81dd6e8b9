//! A small API server, in the process and on simulated time: the one place where something stands in for the real one.
//!
//! `tests/contract` holds what it must do as the real one does, and runs against both. What it does not do is in the head
//! of `tests/sim/main.rs`; a request for something else is answered 501, so that no test rests on it by accident.

pub mod answer;
pub mod link;
pub mod request;
pub mod store;
pub mod watch;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ax::ops::clock::Clock;
use ax::ops::dice::Dice;
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use answer::Refusal;
use link::Line;
use request::{Query, Target};
use store::{Key, RESOURCES, Rest, Store};
use watch::Watch;

/// The server; clones are the same one.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    store: Mutex<Store>,
    calls: Mutex<Vec<Call>>,
    chance: Mutex<Dice>,
    clock: Clock,
}

/// One request that was answered.
#[derive(Debug, Clone)]
pub struct Call {
    /// Since the simulation began.
    pub at: Duration,
    /// Whose.
    pub who: Arc<str>,
    pub method: Method,
    /// The kind, such as `axtasks`.
    pub plural: &'static str,
    pub name: String,
    pub status: bool,
    pub watch: bool,
    pub code: u16,
    /// Of path and body, to compare runs by.
    pub hash: u64,
}

impl Call {
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }
}

type Reply = UnsyncBoxBody<Bytes, std::io::Error>;

impl Server {
    pub fn new(clock: Clock, mut dice: Dice) -> Self {
        let chance = Mutex::new(Dice::seeded(dice.roll()));
        Self(Arc::new(Inner { store: Mutex::new(Store::new(clock, dice)), calls: Mutex::default(), chance, clock }))
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().expect("the store")
    }

    pub fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().expect("the calls").clone()
    }

    /// A client at the other end of `line`. Must be called inside the runtime.
    pub fn client(&self, who: &str, line: &Line) -> Client {
        let (server, line, who) = (self.clone(), line.clone(), Arc::<str>::from(who));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, line, who) = (server.clone(), line.clone(), who.clone());
            async move { server.exchange(who, line, request).await }
        });
        Client::new(service, "default")
    }

    /// How long something travels, one way.
    pub fn latency(&self) -> Duration {
        Duration::from_millis(1 + self.0.chance.lock().expect("the dice").below(3))
    }

    async fn exchange(
        &self,
        who: Arc<str>,
        line: Line,
        request: Request<Body>,
    ) -> Result<Response<Reply>, std::io::Error> {
        let (there, back) = (self.latency(), self.latency());
        let handled = line.clone();
        let answered = async {
            tokio::time::sleep(there).await;
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            let response = self.answer(who, handled, &head, &body);
            tokio::time::sleep(back).await;
            Ok(response)
        };
        tokio::select! {
            biased;
            cut = line.cut() => Err(cut),
            // A silent line swallows the answer, even if what was asked for was done.
            answered = answered => match line.state() {
                link::State::Up => answered,
                link::State::Silent | link::State::Cut => Err(line.cut().await),
            },
        }
    }

    fn answer(&self, who: Arc<str>, line: Line, head: &http::request::Parts, body: &[u8]) -> Response<Reply> {
        let accept = head.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let content = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let target = Target::of(head.uri.path());
        let query = Query::of(head.uri.query().unwrap_or_default(), accept);
        let (mut plural, mut name, mut status, mut watch) = ("", String::new(), false, false);
        if let Ok(target) = &target {
            plural = RESOURCES[target.resource].plural;
            name = target.name.clone().unwrap_or_default();
            status = target.status;
        }
        let result = target.and_then(|target| {
            let query = query?;
            watch = query.is_set("watch");
            if watch && head.method == Method::GET {
                let field = target.name.is_none();
                if !field {
                    return Err(Refusal::not_done_here("a watch of one object by its path"));
                }
                let watch = Watch::new(self, line, target.resource, target.namespace, &query)?;
                return Ok((200, watch.body().boxed_unsync()));
            }
            self.handle(&head.method, &target, &query, content, body).map(|(code, text)| (code, full(text)))
        });
        let (code, body_out) = result.unwrap_or_else(|refusal| (refusal.code, full(refusal.status().to_string())));
        let mut hasher = DefaultHasher::new();
        (head.uri.path(), body).hash(&mut hasher);
        let method = head.method.clone();
        let at = self.0.clock.mono();
        let call = Call { at, who, method, plural, name, status, watch, code, hash: hasher.finish() };
        self.0.calls.lock().expect("the calls").push(call);
        let date = self.0.clock.now().wall.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        Response::builder()
            .status(code)
            .header(header::DATE, date)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body_out)
            .expect("a response")
    }

    fn handle(
        &self,
        method: &Method,
        target: &Target,
        query: &Query,
        content: &str,
        body: &[u8],
    ) -> Result<(u16, String), Refusal> {
        let Target { resource, namespace, name, status } = target;
        let resource = *resource;
        let json = |what: &[u8]| match what {
            [] => Ok(Value::Null),
            text => serde_json::from_slice::<Value>(text).map_err(|e| Refusal::bad_request(e.to_string())),
        };
        let key = || -> Result<Key, Refusal> {
            let namespace = namespace.clone().ok_or_else(|| Refusal::bad_request("a namespace is needed"))?;
            Ok((namespace, name.clone().ok_or_else(|| Refusal::bad_request("a name is needed"))?))
        };
        let text = |object: &store::Object| query.form.text(object);
        match (method, name) {
            (&Method::GET, None) => Ok((200, self.list(resource, namespace.as_deref(), query)?)),
            (&Method::GET, Some(_)) => Ok((200, text(&*self.store().get(resource, &key()?)?))),
            (&Method::POST, None) => {
                let namespace = namespace.as_deref().ok_or_else(|| Refusal::bad_request("a namespace is needed"))?;
                let made = self.store().create(resource, namespace, json(body)?)?;
                Ok((201, text(&made)))
            }
            (&Method::PUT, Some(_)) => {
                let (code, object) = self.replace(resource, &key()?, json(body)?, *status)?;
                Ok((code, text(&object)))
            }
            (&Method::PATCH, Some(_)) => {
                if !content.starts_with("application/merge-patch+json") {
                    return Err(Refusal::unsupported_media(format!("the fake API server does not do {content}")));
                }
                let patched = self.patch(resource, &key()?, &json(body)?, *status)?;
                Ok((200, text(&patched)))
            }
            (&Method::DELETE, Some(_)) => {
                let (object, gone) = self.store().delete(resource, &key()?, &json(body)?)?;
                let answer =
                    if gone { answer::deleted(&RESOURCES[resource], &object).to_string() } else { text(&object) };
                Ok((200, answer))
            }
            _ => Err(Refusal::not_done_here(&format!("{method} of a collection"))),
        }
    }

    /// A PUT.
    fn replace(
        &self,
        resource: usize,
        key: &Key,
        value: Value,
        status: bool,
    ) -> Result<(u16, Arc<store::Object>), Refusal> {
        let mut store = self.store();
        let wants_uid = value["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()).map(str::to_owned);
        match store.get(resource, key) {
            Ok(existing) => {
                if wants_uid.is_some_and(|uid| uid != existing.uid()) {
                    return Err(Refusal::precondition(&RESOURCES[resource], &key.1, "uid"));
                }
                if value["metadata"]["resourceVersion"].as_str().unwrap_or_default().is_empty() {
                    return Err(Refusal::invalid(
                        "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
                    ));
                }
                Ok((200, store.update(resource, key, value, status)?))
            }
            Err(_) if RESOURCES[resource].made_by_update && wants_uid.is_none() => {
                Ok((201, store.create(resource, &key.0, value)?))
            }
            Err(_) if RESOURCES[resource].made_by_update => {
                Err(Refusal::precondition(&RESOURCES[resource], &key.1, "uid"))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// A merge patch.
    pub fn patch(
        &self,
        resource: usize,
        key: &Key,
        patch: &Value,
        status: bool,
    ) -> Result<Arc<store::Object>, Refusal> {
        let mut store = self.store();
        let mut value = store.get(resource, key)?.value.clone();
        answer::merge(&mut value, patch);
        store.update(resource, key, value, status)
    }

    fn list(&self, resource: usize, namespace: Option<&str>, query: &Query) -> Result<String, Refusal> {
        if query.text("resourceVersionMatch").is_some_and(|how| how != "NotOlderThan") {
            return Err(Refusal::not_done_here("resourceVersionMatch=Exact"));
        }
        let selector = query.selector()?;
        let limit = query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let mut store = self.store();
        let mut rest = match query.text("continue") {
            Some(token) => {
                let id = token.parse().map_err(|_| Refusal::bad_request("continue key is not valid"))?;
                store.rests.remove(&id).ok_or_else(|| {
                    Refusal::expired("The provided continue parameter is too old to display a consistent list result.")
                })?
            }
            None => {
                let objects = store.shelves[resource].objects.iter();
                let inside = objects.filter(|(key, _)| namespace.is_none_or(|namespace| key.0 == namespace));
                let objects: VecDeque<_> =
                    inside.map(|(_, object)| object.clone()).filter(|object| selector.takes(object)).collect();
                Rest { revision: store.revision, objects }
            }
        };
        let count = limit.map_or(rest.objects.len(), |limit| limit.min(rest.objects.len()));
        let page: Vec<_> = rest.objects.drain(..count).collect();
        let revision = rest.revision;
        let token = (!rest.objects.is_empty()).then(|| {
            let (id, remaining) = (store.next_rest, rest.objects.len());
            store.next_rest += 1;
            store.rests.insert(id, rest);
            (id.to_string(), remaining)
        });
        Ok(answer::list(&RESOURCES[resource], query.form, &page, revision, token))
    }
}

fn full(text: String) -> Reply {
    Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed_unsync()
}
