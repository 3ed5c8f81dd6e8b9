//! What the operator relies on in an API server, asked of the real one (`tests/integration`) and of the fake one of the
//! simulation (`tests/sim`) alike: so the fake one may stand in.
//!
//! Where the two differ, the fake one is wrong.

use std::time::Duration;

use ax::api::AxTask;
use futures::{StreamExt as _, TryStreamExt as _};
use http::header::ACCEPT;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
    WatchEvent, WatchParams,
};
use kube::core::{ApiResource, GroupVersionKind, Request};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

/// Runs a macro over the names of all cases.
macro_rules! every_case {
    ($run:ident) => {
        $run! {
            a_created_task_has_what_the_server_sets,
            what_is_there_cannot_be_created_again,
            lists_come_in_pages_of_one_version,
            a_continue_token_that_is_none_is_refused,
            fields_select,
            a_watch_goes_on_from_a_version,
            every_event_has_a_version_of_its_own,
            a_watch_from_zero_begins_with_what_is_there,
            a_watch_sees_what_leaves_its_selection_as_deleted,
            a_watch_ends_in_time_and_sends_bookmarks,
            a_version_that_is_too_old_is_told_so,
            a_status_patch_needs_the_version_it_was_decided_on,
            a_status_patch_leaves_the_rest_alone,
            a_spec_edit_raises_the_generation_and_leaves_the_status_alone,
            a_patch_that_changes_nothing_makes_no_version,
            null_removes_and_lists_are_replaced,
            metadata_alone_can_be_asked_for,
            a_deletion_has_preconditions,
            what_is_gone_is_not_found,
            a_replaced_task_keeps_its_status_and_identity,
            a_finalizer_holds_what_is_deleted,
            a_pod_on_a_node_is_marked_before_it_goes,
            a_dependent_goes_with_its_owner,
            a_lease_is_replaced_only_at_its_version,
            a_lease_is_made_anew_by_a_put_without_uid,
            answers_say_when,
        }
    };
}
pub(crate) use every_case;

/// Where a case plays: a namespace of its own.
pub struct Place {
    pub client: Client,
    pub namespace: String,
}

impl Place {
    fn tasks(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("ax.dev", "v1alpha1", "AxTask");
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk(&gvk))
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn make(&self, name: &str) -> DynamicObject {
        self.tasks().create(&PostParams::default(), &task(name)).await.expect("a task can be made")
    }

    async fn patch_status(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        self.tasks().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    async fn patch(&self, name: &str, patch: Value) -> kube::Result<DynamicObject> {
        self.tasks().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// The newest version of the namespace's tasks.
    async fn version(&self) -> String {
        let list = self.tasks().list(&ListParams::default()).await.expect("a list");
        list.metadata.resource_version.expect("a version")
    }

    /// The next events of a watch but for bookmarks: type and name.
    async fn events(&self, params: &WatchParams, from: &str, count: usize) -> Vec<(&'static str, String)> {
        let events = self.tasks().watch(params, from).await.expect("a watch").boxed();
        let told = events.try_filter_map(async |event| {
            Ok(match event {
                WatchEvent::Added(object) => Some(("ADDED", object.name_any())),
                WatchEvent::Modified(object) => Some(("MODIFIED", object.name_any())),
                WatchEvent::Deleted(object) => Some(("DELETED", object.name_any())),
                WatchEvent::Bookmark(_) => None,
                WatchEvent::Error(status) => panic!("{status:?}"),
            })
        });
        let told = told.take(count).try_collect::<Vec<_>>();
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("events within 20 s").expect("events")
    }
}

fn task(name: &str) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "ax.dev/v1alpha1", "kind": "AxTask",
        "metadata": {"name": name, "labels": {"made": name}},
        "spec": {"worker": {"deployment": "w"}, "delay": "1h"},
    }))
    .expect("a task")
}

fn lease(name: &str, holder: &str) -> Lease {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5, "renewTime": "2026-12-01T08:00:00.000000Z"},
    }))
    .expect("a Lease")
}

/// Code and reason of a refusal.
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("a refusal was wanted, not {other:?}"),
    }
}

fn conflict() -> (u16, String) {
    (409, "Conflict".to_owned())
}

fn number(version: &str) -> u64 {
    version.parse().expect("a version is a number")
}

fn version_of(object: &impl kube::Resource) -> String {
    object.meta().resource_version.clone().expect("a version")
}

pub async fn a_created_task_has_what_the_server_sets(place: Place) {
    let mut object = task("t");
    object.data["status"] = json!({"phase": "Dead"});
    let before = jiff::Timestamp::from_second(0).expect("an instant");
    let made = place.tasks().create(&PostParams::default(), &object).await.expect("a task");
    let meta = &made.metadata;
    assert_eq!(uuid::Uuid::parse_str(meta.uid.as_deref().expect("a uid")).expect("a UUID").get_version_num(), 4);
    let created = meta.creation_timestamp.as_ref().expect("a creation time").0;
    assert!(created > before && created.subsec_nanosecond() == 0, "whole seconds");
    assert_eq!(meta.generation, Some(1));
    assert_eq!(meta.namespace.as_deref(), Some(place.namespace.as_str()));
    assert!(number(&version_of(&made)) > 0);
    assert_eq!(made.data["spec"]["suspend"], false, "defaults of the spec");
    let status = place.tasks().get("t").await.expect("a task").data["status"].clone();
    assert_eq!(status, json!({"phase": "Pending"}), "a status that is sent along does not count");
}

pub async fn what_is_there_cannot_be_created_again(place: Place) {
    place.make("t").await;
    let again = place.tasks().create(&PostParams::default(), &task("t")).await;
    assert_eq!(refused(again), (409, "AlreadyExists".to_owned()));
}

pub async fn lists_come_in_pages_of_one_version(place: Place) {
    for name in ["c", "a", "e", "b", "d"] {
        place.make(name).await;
    }
    let mut params = ListParams::default().limit(2);
    let mut names = Vec::new();
    let mut versions = Vec::new();
    for page in [2, 2, 1] {
        let list = place.tasks().list(&params).await.expect("a page");
        assert_eq!(list.items.len(), page);
        names.extend(list.items.iter().map(kube::ResourceExt::name_any));
        versions.extend(list.metadata.resource_version);
        params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        assert_eq!(params.continue_token.is_some(), names.len() < 5);
        // What is made meanwhile is not in the pages that follow; what is deleted still is.
        if names.len() == 2 {
            place.make("bb").await;
            place.tasks().delete("e", &DeleteParams::default()).await.expect("a task can be deleted");
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    versions.dedup();
    assert_eq!(versions.len(), 1, "one version: {versions:?}");
    let list = place.tasks().list(&ListParams::default()).await.expect("a list");
    assert!(number(&list.metadata.resource_version.expect("a version")) > number(&versions[0]));
    assert_eq!(list.items.len(), 5);
}

pub async fn a_continue_token_that_is_none_is_refused(place: Place) {
    let params = ListParams::default().limit(2).continue_token("no token");
    assert_eq!(refused(place.tasks().list(&params).await), (400, "BadRequest".to_owned()));
}

pub async fn fields_select(place: Place) {
    for name in ["a", "b"] {
        place.make(name).await;
    }
    place.patch_status("b", json!({"status": {"phase": "Ready"}})).await.expect("a status");
    for (selector, want) in [
        ("metadata.name=a", vec!["a"]),
        ("status.phase=Ready", vec!["b"]),
        ("status.phase=Pending", vec!["a"]),
        ("status.phase=Pending,metadata.name=b", vec![]),
    ] {
        let list = place.tasks().list(&ListParams::default().fields(selector)).await.expect("a list");
        let names: Vec<String> = list.items.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, want, "{selector}");
    }
    let list = place.tasks().list(&ListParams::default().labels("made=b")).await.expect("a list");
    assert_eq!(list.items.len(), 1);
}

pub async fn a_watch_goes_on_from_a_version(place: Place) {
    place.make("before").await;
    let from = place.version().await;
    place.make("t").await;
    place.patch_status("t", json!({"status": {"phase": "Ready"}})).await.expect("a status");
    place.patch("t", json!({"spec": {"priority": 9}})).await.expect("an edit");
    place.tasks().delete("t", &DeleteParams::default()).await.expect("a task can be deleted");
    let events = place.events(&WatchParams::default(), &from, 4).await;
    let want = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"];
    assert_eq!(events, want.map(|kind| (kind, "t".to_owned())), "each change once, in order");
}

pub async fn every_event_has_a_version_of_its_own(place: Place) {
    let from = place.version().await;
    let made = place.make("t").await;
    place.patch("t", json!({"spec": {"priority": 9}})).await.expect("an edit");
    place.tasks().delete("t", &DeleteParams::default()).await.expect("a task can be deleted");
    let events = place.tasks().watch(&WatchParams::default(), &from).await.expect("a watch").take(3);
    let events = tokio::time::timeout(Duration::from_secs(20), events.try_collect::<Vec<_>>()).await;
    let objects: Vec<_> = events
        .expect("events within 20 s")
        .expect("events")
        .into_iter()
        .map(|event| match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => object,
            other => panic!("an object was wanted, not {other:?}"),
        })
        .collect();
    let versions: Vec<u64> = objects.iter().map(|object| number(&version_of(object))).collect();
    assert_eq!(versions[0], number(&version_of(&made)));
    assert!(versions.is_sorted_by(|one, next| one < next), "a deletion is a version too: {versions:?}");
    assert_eq!(objects[2].data["spec"]["priority"], 9, "a deletion shows what was deleted");
}

pub async fn a_watch_from_zero_begins_with_what_is_there(place: Place) {
    place.make("a").await;
    place.make("b").await;
    place.patch("a", json!({"spec": {"priority": 9}})).await.expect("an edit");
    let params = WatchParams::default().fields("metadata.name=a");
    assert_eq!(place.events(&params, "0", 1).await, [("ADDED", "a".to_owned())]);
    let mut events = place.events(&WatchParams::default(), "0", 2).await;
    events.sort();
    assert_eq!(events, [("ADDED", "a".to_owned()), ("ADDED", "b".to_owned())]);
}

pub async fn a_watch_sees_what_leaves_its_selection_as_deleted(place: Place) {
    let from = place.version().await;
    place.make("t").await;
    place.patch_status("t", json!({"status": {"phase": "Ready"}})).await.expect("a status");
    let params = WatchParams::default().fields("status.phase=Pending");
    let want = ["ADDED", "DELETED"].map(|kind| (kind, "t".to_owned()));
    assert_eq!(place.events(&params, &from, 2).await, want);
    let params = WatchParams::default().fields("status.phase=Ready");
    assert_eq!(place.events(&params, &from, 1).await, [("ADDED", "t".to_owned())]);
}

pub async fn a_watch_ends_in_time_and_sends_bookmarks(place: Place) {
    place.make("t").await;
    let from = place.version().await;
    let begin = tokio::time::Instant::now();
    let params = WatchParams::default().timeout(5);
    let events = place.tasks().watch(&params, &from).await.expect("a watch");
    let events: Vec<_> = tokio::time::timeout(Duration::from_secs(30), events.try_collect())
        .await
        .expect("the watch ends by itself")
        .expect("it ends well");
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(15), "{took:?}");
    let bookmarks: Vec<u64> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Bookmark(bookmark) => number(&bookmark.metadata.resource_version),
            other => panic!("nothing happened, but {other:?}"),
        })
        .collect();
    assert!(!bookmarks.is_empty(), "a bookmark before the end");
    assert!(bookmarks.iter().all(|version| *version >= number(&from)), "{bookmarks:?} {from}");
}

pub async fn a_version_that_is_too_old_is_told_so(place: Place) {
    place.make("t").await;
    let mut events = place.tasks().watch(&WatchParams::default(), "1").await.expect("the watch opens").boxed();
    let first = tokio::time::timeout(Duration::from_secs(20), events.next()).await.expect("an answer within 20 s");
    match first {
        Some(Ok(WatchEvent::Error(status))) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{status:?}");
        }
        other => panic!("an ERROR event was wanted, not {other:?}"),
    }
}

pub async fn a_status_patch_needs_the_version_it_was_decided_on(place: Place) {
    let made = place.make("t").await;
    let first = json!({"metadata": {"resourceVersion": version_of(&made)}, "status": {"phase": "Ready"}});
    let written = place.patch_status("t", first.clone()).await.expect("the version is right");
    assert!(number(&version_of(&written)) > number(&version_of(&made)));
    let second = json!({"metadata": {"resourceVersion": version_of(&made)}, "status": {"phase": "Running"}});
    assert_eq!(refused(place.patch_status("t", second).await), conflict());
    assert_eq!(place.tasks().get("t").await.expect("a task").data["status"]["phase"], "Ready");
    // An edit of the spec makes it another version too.
    place.patch("t", json!({"spec": {"priority": 9}})).await.expect("an edit");
    let third = json!({"metadata": {"resourceVersion": version_of(&written)}, "status": {"phase": "Running"}});
    assert_eq!(refused(place.patch_status("t", third).await), conflict());
    // Without a version it lands on whatever is there.
    place.patch_status("t", json!({"status": {"phase": "Running"}})).await.expect("no version, no conflict");
}

pub async fn a_status_patch_leaves_the_rest_alone(place: Place) {
    let made = place.make("t").await;
    let patch = json!({
        "metadata": {"labels": {"made": "up"}, "annotations": {"a": "b"}},
        "spec": {"priority": 9},
        "status": {"phase": "Ready"},
    });
    let written = place.patch_status("t", patch).await.expect("a status");
    assert_eq!(written.metadata.labels, made.metadata.labels);
    assert_eq!(written.metadata.annotations, made.metadata.annotations);
    assert_eq!(written.metadata.generation, Some(1));
    assert_eq!(written.metadata.uid, made.metadata.uid);
    assert_eq!(written.data["spec"], made.data["spec"]);
    assert_eq!(written.data["status"]["phase"], "Ready");
}

pub async fn a_spec_edit_raises_the_generation_and_leaves_the_status_alone(place: Place) {
    place.make("t").await;
    place.patch_status("t", json!({"status": {"phase": "Ready", "reason": "Queued"}})).await.expect("a status");
    let patch = json!({"spec": {"priority": 9}, "status": {"phase": "Dead"}});
    let edited = place.patch("t", patch).await.expect("an edit");
    assert_eq!(edited.metadata.generation, Some(2));
    assert_eq!(edited.data["status"], json!({"phase": "Ready", "reason": "Queued"}));
    let labelled = place.patch("t", json!({"metadata": {"labels": {"more": "x"}}})).await.expect("a label");
    assert_eq!(labelled.metadata.generation, Some(2), "metadata is not the spec");
    assert!(number(&version_of(&labelled)) > number(&version_of(&edited)));
}

pub async fn a_patch_that_changes_nothing_makes_no_version(place: Place) {
    place.make("t").await;
    let patch = json!({"status": {"phase": "Ready"}});
    let first = place.patch_status("t", patch.clone()).await.expect("a status");
    let again = place.patch_status("t", patch).await.expect("a status");
    assert_eq!(version_of(&first), version_of(&again));
}

pub async fn null_removes_and_lists_are_replaced(place: Place) {
    place.make("t").await;
    let attempts = |numbers: &[u32]| -> Vec<Value> { numbers.iter().map(|n| json!({"number": n})).collect() };
    let first = json!({"status": {"phase": "Ready", "message": "m", "attempts": attempts(&[1, 2])}});
    place.patch_status("t", first).await.expect("a status");
    let second = json!({"status": {"message": null, "attempts": attempts(&[2, 3])}});
    let written = place.patch_status("t", second).await.expect("a status");
    assert_eq!(written.data["status"], json!({"phase": "Ready", "attempts": attempts(&[2, 3])}));
}

pub async fn metadata_alone_can_be_asked_for(place: Place) {
    let made = place.make("t").await;
    let listed = place.tasks().list_metadata(&ListParams::default()).await.expect("a list");
    assert_eq!(listed.items[0].metadata.uid, made.metadata.uid);
    let patch = Patch::Merge(json!({"status": {"phase": "Ready"}}));
    let path = AxTask::url_path(&(), Some(&place.namespace));
    let mut request = Request::new(path).patch_subresource("status", "t", &PatchParams::default(), &patch).unwrap();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    request.headers_mut().insert(ACCEPT, http::HeaderValue::from_static(accept));
    let answer: Value = place.client.request(request).await.expect("an answer");
    assert_eq!((&answer["kind"], &answer["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    assert!(answer.get("spec").is_none() && answer.get("status").is_none(), "{answer}");
    let version = answer["metadata"]["resourceVersion"].as_str().expect("a version");
    assert_eq!(version, version_of(&place.tasks().get("t").await.expect("a task")));
}

pub async fn a_deletion_has_preconditions(place: Place) {
    let made = place.make("t").await;
    let edited = place.patch("t", json!({"spec": {"priority": 9}})).await.expect("an edit");
    let only = |uid: Option<String>, resource_version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::default()
    };
    let other = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let uid = made.metadata.uid.clone();
    assert_eq!(refused(place.tasks().delete("t", &only(other, None)).await.map(|_| ())), conflict());
    let old = only(uid.clone(), Some(version_of(&made)));
    assert_eq!(refused(place.tasks().delete("t", &old).await.map(|_| ())), conflict());
    let right = only(uid, Some(version_of(&edited)));
    let deleted = place.tasks().delete("t", &right).await.expect("the preconditions hold");
    assert!(deleted.right().is_some_and(|status| status.is_success()), "gone at once: a Status");
    assert!(place.tasks().get_opt("t").await.expect("an answer").is_none());
}

pub async fn what_is_gone_is_not_found(place: Place) {
    let not_found = (404, "NotFound".to_owned());
    assert_eq!(refused(place.tasks().get("t").await), not_found);
    assert_eq!(refused(place.patch_status("t", json!({"status": {"phase": "Ready"}})).await), not_found);
    assert_eq!(refused(place.patch("t", json!({"spec": {"priority": 9}})).await), not_found);
    assert_eq!(refused(place.tasks().delete("t", &DeleteParams::default()).await.map(|_| ())), not_found);
    let mut absent = task("t");
    absent.metadata.resource_version = Some("1".to_owned());
    assert_eq!(refused(place.tasks().replace("t", &PostParams::default(), &absent).await), not_found);
    // A task of the name that comes later is another.
    let first = place.make("t").await;
    place.tasks().delete("t", &DeleteParams::default()).await.expect("a task can be deleted");
    let second = place.make("t").await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
}

pub async fn a_replaced_task_keeps_its_status_and_identity(place: Place) {
    let made = place.make("t").await;
    let written = place.patch_status("t", json!({"status": {"phase": "Ready"}})).await.expect("a status");
    let mut object = task("t");
    object.data["spec"]["delay"] = json!("2h");
    object.data["status"] = json!({"phase": "Dead"});
    object.metadata.labels = None;
    object.metadata.resource_version = Some(version_of(&written));
    let replaced = place.tasks().replace("t", &PostParams::default(), &object).await.expect("the version is right");
    assert_eq!(replaced.metadata.uid, made.metadata.uid);
    assert_eq!(replaced.metadata.creation_timestamp, made.metadata.creation_timestamp);
    assert_eq!(replaced.metadata.generation, Some(2));
    assert_eq!(replaced.metadata.labels, None);
    assert_eq!((&replaced.data["spec"]["delay"], &replaced.data["status"]["phase"]), (&json!("2h"), &json!("Ready")));
    assert_eq!(refused(place.tasks().replace("t", &PostParams::default(), &object).await), conflict());
}

pub async fn a_finalizer_holds_what_is_deleted(place: Place) {
    place.make("t").await;
    let held = place.patch("t", json!({"metadata": {"finalizers": ["ax.dev/test"]}})).await.expect("a finalizer");
    let deleted = place.tasks().delete("t", &DeleteParams::default()).await.expect("a task can be deleted");
    let marked = deleted.left().expect("not gone yet: the object");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert!(number(&version_of(&marked)) > number(&version_of(&held)));
    place.patch_status("t", json!({"status": {"phase": "Ready"}})).await.expect("a status can still be written");
    place.patch("t", json!({"metadata": {"finalizers": null}})).await.expect("the finalizer goes");
    assert!(place.tasks().get_opt("t").await.expect("an answer").is_none());
}

pub async fn a_pod_on_a_node_is_marked_before_it_goes(place: Place) {
    let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.namespace);
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "nowhere", "containers": containers}});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("a pod can be made");
    let marked = pods.delete("p", &DeleteParams::default()).await.expect("a pod can be deleted").left();
    let marked = marked.expect("the kubelet is waited for: the object");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert!(pods.get_opt("p").await.expect("an answer").is_some());
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("p", &now).await.expect("a pod can be deleted by force");
    assert!(pods.get_opt("p").await.expect("an answer").is_none());
}

pub async fn a_dependent_goes_with_its_owner(place: Place) {
    let owner = place.make("owner").await;
    let pods: Api<Pod> = Api::namespaced(place.client.clone(), &place.namespace);
    let pod = json!({
        "metadata": {
            "name": "p",
            "ownerReferences": [{
                "apiVersion": "ax.dev/v1alpha1", "kind": "AxTask", "name": "owner", "uid": owner.metadata.uid,
                "controller": true,
            }],
        },
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("a pod can be made");
    place.tasks().delete("owner", &DeleteParams::background()).await.expect("a task can be deleted");
    for _ in 0..300 {
        if pods.get_opt("p").await.expect("an answer").is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the pod outlives its owner");
}

pub async fn a_lease_is_replaced_only_at_its_version(place: Place) {
    let leases = place.leases();
    let params = PostParams::default();
    let made = leases.create(&params, &lease("l", "a")).await.expect("a Lease can be made");
    assert_eq!(refused(leases.create(&params, &lease("l", "b")).await), (409, "AlreadyExists".to_owned()));
    let held = |holder: &str| {
        let mut lease = made.clone();
        lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
        lease.metadata.annotations.get_or_insert_default().insert("ax.dev/term".to_owned(), holder.to_owned());
        lease
    };
    let renewed = leases.replace("l", &params, &held("b")).await.expect("the version is right");
    assert_eq!(renewed.metadata.uid, made.metadata.uid);
    assert_eq!(renewed.metadata.annotations.as_ref().unwrap()["ax.dev/term"], "b");
    let renew_time = renewed.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    assert_eq!(renew_time, made.spec.as_ref().and_then(|spec| spec.renew_time.clone()));
    assert_eq!(refused(leases.replace("l", &params, &held("c")).await), conflict());
    let holder = leases.get("l").await.expect("a Lease").spec.and_then(|spec| spec.holder_identity);
    assert_eq!(holder.as_deref(), Some("b"));
    // A Lease of another uid is another Lease.
    let mut other = renewed.clone();
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    assert_eq!(refused(leases.replace("l", &params, &other).await), conflict());
    // Without a version there is no replacing.
    let bare = Lease { metadata: ObjectMeta { resource_version: None, ..renewed.metadata.clone() }, ..renewed };
    assert_eq!(refused(leases.replace("l", &params, &bare).await), (422, "Invalid".to_owned()));
}

pub async fn a_lease_is_made_anew_by_a_put_without_uid(place: Place) {
    let leases = place.leases();
    let params = PostParams::default();
    let made = leases.create(&params, &lease("l", "a")).await.expect("a Lease can be made");
    leases.delete("l", &DeleteParams::default()).await.expect("a Lease can be deleted");
    assert_eq!(refused(leases.replace("l", &params, &made).await), conflict(), "with its uid it is not made anew");
    let without = lease("l", "b");
    let anew = leases.replace("l", &params, &without).await.expect("a PUT makes a Lease");
    assert_ne!(anew.metadata.uid, made.metadata.uid);
}

pub async fn answers_say_when(place: Place) {
    let uri = format!("{}/none", Lease::url_path(&(), Some(&place.namespace)));
    let request = http::Request::get(uri).body(kube::client::Body::empty()).expect("a request");
    let response = place.client.send(request).await.expect("an answer");
    assert_eq!(response.status(), 404);
    let date = response.headers()["date"].to_str().expect("text").to_owned();
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&date).expect("a date");
    let made = place.make("t").await;
    let created = made.metadata.creation_timestamp.expect("a creation time").0;
    assert!(created.duration_since(date).as_secs().abs() <= 2, "{created} {date}");
}
