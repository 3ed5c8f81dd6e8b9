//! What the fake API server keeps: objects, one revision counter, and what has happened since the last compaction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ax::ops::clock::Clock;
use ax::ops::dice::Dice;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::answer::Refusal;

/// A kind that is served.
#[derive(Debug)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    /// Has `/status`, and a generation.
    pub status: bool,
    /// A PUT makes what is not there.
    pub made_by_update: bool,
}

const fn kind(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource { group, version, plural, kind, status: true, made_by_update: false }
}

pub const RESOURCES: [Resource; 7] = [
    kind("ax.dev", "v1alpha1", "axtasks", "AxTask"),
    kind("ax.dev", "v1alpha1", "axtasktemplates", "AxTaskTemplate"),
    kind("apps", "v1", "deployments", "Deployment"),
    kind("apps", "v1", "replicasets", "ReplicaSet"),
    kind("", "v1", "pods", "Pod"),
    Resource { status: false, made_by_update: true, ..kind("coordination.k8s.io", "v1", "leases", "Lease") },
    Resource { status: false, ..kind("events.k8s.io", "v1", "events", "Event") },
];

pub fn resource(plural: &str) -> usize {
    RESOURCES.iter().position(|r| r.plural == plural).unwrap_or_else(|| panic!("the fake API server has no {plural}"))
}

impl Resource {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As messages name it: `axtasks.ax.dev`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// One version of an object. Its text is made once, for all lists and watches.
#[derive(Debug)]
pub struct Object {
    pub value: Value,
    pub text: String,
    pub revision: u64,
}

impl Object {
    pub fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

#[derive(Debug, Clone)]
pub struct Event {
    pub revision: u64,
    pub namespace: String,
    pub before: Option<Arc<Object>>,
    pub after: Arc<Object>,
    pub deleted: bool,
}

/// Namespace and name; lists come in this order.
pub type Key = (String, String);

/// The objects of one kind.
#[derive(Debug)]
pub struct Shelf {
    pub objects: BTreeMap<Key, Arc<Object>>,
    /// In the order of revisions.
    pub log: VecDeque<Event>,
    /// Rings when something is added to the log.
    pub bell: Arc<Notify>,
}

/// The rest of a list that is read in pages, as it was at its revision.
#[derive(Debug)]
pub struct Rest {
    pub revision: u64,
    pub objects: VecDeque<Arc<Object>>,
}

#[derive(Debug)]
pub struct Store {
    pub revision: u64,
    /// Nothing older than this is known any more.
    pub compacted: u64,
    pub shelves: Vec<Shelf>,
    pub rests: BTreeMap<u64, Rest>,
    pub next_rest: u64,
    pub dice: Dice,
    clock: Clock,
}

impl Store {
    pub fn new(clock: Clock, dice: Dice) -> Self {
        let shelf = |_| Shelf { objects: BTreeMap::new(), log: VecDeque::new(), bell: Arc::default() };
        Self {
            revision: 1000,
            compacted: 1000,
            shelves: RESOURCES.iter().map(shelf).collect(),
            rests: BTreeMap::new(),
            next_rest: 1,
            dice,
            clock,
        }
    }

    pub fn get(&self, resource: usize, key: &Key) -> Result<Arc<Object>, Refusal> {
        let found = self.shelves[resource].objects.get(key);
        found.cloned().ok_or_else(|| Refusal::not_found(&RESOURCES[resource], &key.1))
    }

    pub fn create(&mut self, resource: usize, namespace: &str, mut value: Value) -> Result<Arc<Object>, Refusal> {
        let Resource { status, .. } = RESOURCES[resource];
        if !value["metadata"].is_object() {
            return Err(Refusal::bad_request("metadata is missing"));
        }
        if value["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
            let Some(stem) = value["metadata"]["generateName"].as_str() else {
                return Err(Refusal::invalid("metadata.name: Required value: name or generateName is required"));
            };
            let name = format!("{stem}{:05x}", self.dice.below(1 << 20));
            value["metadata"]["name"] = json!(name);
        }
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = (namespace.to_owned(), name);
        if self.shelves[resource].objects.contains_key(&key) {
            return Err(Refusal::already_exists(&RESOURCES[resource], &key.1));
        }
        let uid = self.dice.uuid().to_string();
        let created = self.whole_seconds();
        let metadata = &mut value["metadata"];
        metadata["uid"] = json!(uid);
        metadata["namespace"] = json!(namespace);
        metadata["creationTimestamp"] = json!(created);
        if status {
            metadata["generation"] = json!(1);
            if let Some(object) = value.as_object_mut() {
                object.remove("status");
            }
        }
        Ok(self.put(resource, key, None, value))
    }

    /// Replaces an object by `value`, or its status alone; what users may not change stays.
    pub fn update(
        &mut self,
        resource: usize,
        key: &Key,
        mut value: Value,
        status_only: bool,
    ) -> Result<Arc<Object>, Refusal> {
        let before = self.get(resource, key)?;
        let wants = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !wants.is_empty() && wants != before.revision.to_string() {
            return Err(Refusal::conflict(&RESOURCES[resource], &key.1));
        }
        let old = &before.value;
        if status_only {
            let mut whole = old.clone();
            whole["status"] = value["status"].take();
            value = whole;
        } else {
            for field in ["uid", "namespace", "name", "creationTimestamp", "generation", "deletionTimestamp"] {
                match old["metadata"].get(field) {
                    Some(kept) => value["metadata"][field] = kept.clone(),
                    None => _ = value["metadata"].as_object_mut().and_then(|m| m.remove(field)),
                }
            }
            if RESOURCES[resource].status {
                match old.get("status") {
                    Some(status) => value["status"] = status.clone(),
                    None => _ = value.as_object_mut().and_then(|fields| fields.remove("status")),
                }
                if !same_but_metadata(&value, old) {
                    let generation = old["metadata"]["generation"].as_u64().unwrap_or(0) + 1;
                    value["metadata"]["generation"] = json!(generation);
                }
            }
        }
        complete(resource, &mut value, before.revision);
        if value == *old {
            return Ok(before); // nothing changed: no revision, no event
        }
        if old["metadata"].get("deletionTimestamp").is_some() && !held(&value) && held(old) {
            return Ok(self.remove(resource, key, &before));
        }
        Ok(self.put(resource, key.clone(), Some(before), value))
    }

    /// Deletes, or marks for deletion what a finalizer or a kubelet holds.
    pub fn delete(&mut self, resource: usize, key: &Key, options: &Value) -> Result<(Arc<Object>, bool), Refusal> {
        let object = self.get(resource, key)?;
        for (field, is) in [("uid", object.uid().to_owned()), ("resourceVersion", object.revision.to_string())] {
            if options["preconditions"][field].as_str().is_some_and(|wants| wants != is) {
                return Err(Refusal::precondition(&RESOURCES[resource], &key.1, field));
            }
        }
        let grace = options["gracePeriodSeconds"].as_u64();
        let by_kubelet = RESOURCES[resource].plural == "pods" && object.value["spec"]["nodeName"].is_string();
        if held(&object.value) || (by_kubelet && grace != Some(0)) {
            if object.value["metadata"].get("deletionTimestamp").is_some() {
                return Ok((object, false));
            }
            let mut value = object.value.clone();
            value["metadata"]["deletionTimestamp"] = json!(self.whole_seconds());
            return Ok((self.put(resource, key.clone(), Some(object), value), false));
        }
        Ok((self.remove(resource, key, &object), true))
    }

    /// Forgets what has happened: older versions are too old to watch or page on from.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.rests.clear();
        for shelf in &mut self.shelves {
            shelf.log.clear();
            shelf.bell.notify_waiters();
        }
    }

    fn put(&mut self, resource: usize, key: Key, before: Option<Arc<Object>>, mut value: Value) -> Arc<Object> {
        self.revision += 1;
        let revision = self.revision;
        complete(resource, &mut value, revision);
        let text = value.to_string();
        let after = Arc::new(Object { value, text, revision });
        let namespace = key.0.clone();
        self.shelves[resource].objects.insert(key, after.clone());
        self.log(resource, Event { revision, namespace, before, after: after.clone(), deleted: false });
        after
    }

    fn remove(&mut self, resource: usize, key: &Key, object: &Arc<Object>) -> Arc<Object> {
        self.revision += 1;
        let revision = self.revision;
        self.shelves[resource].objects.remove(key);
        let mut value = object.value.clone();
        value["metadata"]["resourceVersion"] = json!(revision.to_string());
        let text = value.to_string();
        let after = Arc::new(Object { value, text, revision });
        let event = Event {
            revision,
            namespace: key.0.clone(),
            before: Some(object.clone()),
            after: after.clone(),
            deleted: true,
        };
        self.log(resource, event);
        self.collect_garbage();
        after
    }

    /// What has owners, and none that is left, goes too. At once: the real one takes a moment.
    fn collect_garbage(&mut self) {
        let uids: BTreeSet<String> =
            self.shelves.iter().flat_map(|s| s.objects.values()).map(|o| o.uid().to_owned()).collect();
        let mut orphans = Vec::new();
        for (resource, shelf) in self.shelves.iter().enumerate() {
            for (key, object) in &shelf.objects {
                let owners = object.value["metadata"]["ownerReferences"].as_array();
                let gone = |owner: &Value| !owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
                if owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(gone)) {
                    orphans.push((resource, key.clone()));
                }
            }
        }
        for (resource, key) in orphans {
            // One that an orphan before it took along is gone already.
            _ = self.delete(resource, &key, &Value::Null);
        }
    }

    fn whole_seconds(&self) -> String {
        let wall = self.clock.now().wall;
        jiff::Timestamp::from_second(wall.as_second()).expect("an instant").to_string()
    }

    fn log(&mut self, resource: usize, event: Event) {
        let shelf = &mut self.shelves[resource];
        shelf.log.push_back(event);
        shelf.bell.notify_waiters();
    }
}

fn same_but_metadata(one: &Value, other: &Value) -> bool {
    let fields = |value: &'_ Value| value.as_object().map_or(0, |fields| fields.len());
    let same = |(name, value): (&String, &Value)| name == "metadata" || other.get(name) == Some(value);
    fields(one) == fields(other) && one.as_object().is_some_and(|fields| fields.iter().all(same))
}

fn held(value: &Value) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Type, version, and what the CRDs' schemas default.
fn complete(resource: usize, value: &mut Value, revision: u64) {
    let Resource { kind, plural, .. } = RESOURCES[resource];
    value["apiVersion"] = json!(RESOURCES[resource].api_version());
    value["kind"] = json!(kind);
    value["metadata"]["resourceVersion"] = json!(revision.to_string());
    if plural == "axtasks" {
        if value["spec"].is_object() && value["spec"].get("suspend").is_none() {
            value["spec"]["suspend"] = json!(false);
        }
        if value["status"].get("phase").is_none() {
            value["status"]["phase"] = json!("Pending");
        }
    }
    if let Some(object) = value.as_object_mut()
        && object.get("status").is_some_and(Value::is_null)
    {
        object.remove("status");
    }
}
