//! A watch: what has happened since a revision, then what happens, with bookmarks, until its time is over.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Server;
use super::answer::{Form, Refusal};
use super::link::{Line, State};
use super::request::{Query, Selector};
use super::store::{Event, Object, RESOURCES};

/// Events in one chunk at most.
const CHUNK: usize = 500;
/// How often a bookmark is sent; another comes shortly before the end.
const BOOKMARK: Duration = Duration::from_secs(60);
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long a watch lasts that does not say.
const LASTS: Duration = Duration::from_secs(45 * 60);

pub struct Watch {
    server: Server,
    line: Line,
    resource: usize,
    namespace: Option<String>,
    selector: Selector,
    form: Form,
    /// Objects to be told of before anything that happened.
    first: Vec<Arc<Object>>,
    /// Everything up to here has been told.
    told: u64,
    bell: Arc<Notify>,
    until: Instant,
    bookmark: Option<Instant>,
    over: bool,
}

impl Watch {
    pub fn new(
        server: &Server,
        line: Line,
        resource: usize,
        namespace: Option<String>,
        query: &Query,
    ) -> Result<Self, Refusal> {
        let selector = query.selector()?;
        let store = server.store();
        let from = query.number("resourceVersion")?.unwrap_or(0);
        let mut first = Vec::new();
        if from == 0 {
            let objects = store.shelves[resource].objects.iter();
            let inside = objects.filter(|(key, _)| namespace.as_ref().is_none_or(|namespace| key.0 == *namespace));
            first = inside.map(|(_, object)| object.clone()).filter(|object| selector.takes(object)).collect();
        }
        let now = Instant::now();
        let until = now + query.number("timeoutSeconds")?.map_or(LASTS, Duration::from_secs);
        let bookmark = query.is_set("allowWatchBookmarks").then(|| next_bookmark(now, until));
        Ok(Self {
            server: server.clone(),
            line,
            resource,
            namespace,
            selector,
            form: query.form,
            first,
            told: if from == 0 { store.revision } else { from },
            bell: store.shelves[resource].bell.clone(),
            until,
            bookmark,
            over: false,
        })
    }

    pub fn body(self) -> StreamBody<impl Stream<Item = Result<Frame<Bytes>, std::io::Error>>> {
        StreamBody::new(futures::stream::unfold(self, |mut watch| async move {
            let chunk = watch.next().await?;
            Some((chunk.map(|text| Frame::data(Bytes::from(text))), watch))
        }))
    }

    async fn next(&mut self) -> Option<Result<String, std::io::Error>> {
        if self.over {
            return None;
        }
        let bell = self.bell.clone();
        loop {
            if self.line.state() != State::Up {
                self.over = true;
                return Some(Err(self.line.cut().await));
            }
            let rung = bell.notified();
            match self.known() {
                Ok(text) if text.is_empty() => {}
                Ok(text) => return Some(Ok(text)),
                Err(refusal) => {
                    self.over = true;
                    return Some(Ok(line("ERROR", &refusal.status().to_string())));
                }
            }
            let now = Instant::now();
            if now >= self.until {
                return None;
            }
            if self.bookmark.is_some_and(|at| now >= at) {
                self.bookmark = Some(next_bookmark(now, self.until));
                return Some(Ok(self.bookmark_line()));
            }
            let next = self.bookmark.map_or(self.until, |at| at.min(self.until));
            tokio::select! {
                biased;
                cut = self.line.cut() => {
                    self.over = true;
                    return Some(Err(cut));
                }
                () = rung => {
                    let travels = self.server.latency();
                    tokio::time::sleep(travels).await;
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// What there is to tell now.
    fn known(&mut self) -> Result<String, Refusal> {
        let first: Vec<_> = std::mem::take(&mut self.first);
        if !first.is_empty() {
            return Ok(first.iter().map(|object| line("ADDED", &self.form.text(object))).collect());
        }
        let server = self.server.clone();
        let store = server.store();
        if self.told < store.compacted {
            let oldest = store.compacted + 1;
            return Err(Refusal::expired(format!("too old resource version: {} ({oldest})", self.told)));
        }
        let log = &store.shelves[self.resource].log;
        let mut text = String::new();
        let begin = log.partition_point(|event| event.revision <= self.told);
        for event in log.range(begin..).take(CHUNK) {
            self.told = event.revision;
            if self.namespace.as_ref().is_none_or(|namespace| event.namespace == *namespace)
                && let Some(verb) = self.verb(event)
            {
                text.push_str(&line(verb, &self.form.text(&event.after)));
            }
        }
        Ok(text)
    }

    /// What an event is to one who sees only some objects.
    fn verb(&self, event: &Event) -> Option<&'static str> {
        let was = event.before.as_ref().is_some_and(|before| self.selector.takes(before));
        let is = !event.deleted && self.selector.takes(&event.after);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
        }
    }

    fn bookmark_line(&mut self) -> String {
        self.told = self.told.max(self.server.store().revision);
        let resource = &RESOURCES[self.resource];
        let (kind, version) = match self.form {
            Form::Whole => (resource.kind, resource.api_version()),
            Form::MetadataOnly => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
        };
        let metadata = json!({"resourceVersion": self.told.to_string(), "creationTimestamp": null});
        let mut object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        if resource.kind.starts_with("AxTask") && self.form == Form::Whole {
            object["spec"] = json!({});
        }
        line("BOOKMARK", &object.to_string())
    }
}

/// After a minute, or a moment before the end.
fn next_bookmark(now: Instant, until: Instant) -> Instant {
    let last = until.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(now + BOOKMARK, |last| last.min(now + BOOKMARK))
}

fn line(verb: &str, object: &str) -> String {
    format!("{{\"type\":\"{verb}\",\"object\":{object}}}\n")
}
