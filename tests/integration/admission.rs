//! What the API server takes and refuses by the CRDs alone: no operator runs here.

use ax::api::{AxTask, Duration, Phase};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::task::phase;
use crate::support::{TaskMaker, TestNamespace, task};

fn valid(name: &str) -> TaskMaker {
    task(name).worker("w")
}

async fn assert_refused(ns: &TestNamespace, maker: TaskMaker, names: &str) {
    let message = maker.refused(ns).await;
    assert!(message.contains(names), "the refusal of {} names {names:?}: {message}", maker.object());
}

/// Merge patch on the status subresource.
async fn patch_status(ns: &TestNamespace, name: &str, patch: Value) -> kube::Result<Value> {
    let patched = ns.raw("AxTask").patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(serde_json::to_value(patched).unwrap())
}

/// POST with a query and headers of the test's choice.
async fn request(
    ns: &TestNamespace,
    method: &str,
    query: &str,
    accept: &str,
    body: Option<&Value>,
) -> kube::Result<Value> {
    let uri = format!("/apis/ax.dev/v1alpha1/namespaces/{}/axtasks{query}", ns.name);
    let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let request = http::Request::builder().method(method).uri(uri).header("accept", accept);
    let request = request.header("content-type", "application/json").body(body).unwrap();
    ns.client.request(request).await
}

#[tokio::test]
async fn c001_one_target_and_at_most_one_time() {
    let ns = TestNamespace::new("c001").await;
    assert_refused(&ns, valid("both").template("t"), "exactly one of spec.templateRef and spec.worker").await;
    assert_refused(&ns, task("neither"), "exactly one of spec.templateRef and spec.worker").await;
    let both = valid("both-times").delay("5s").spec("runAt", json!("2026-12-01T08:00:00Z"));
    assert_refused(&ns, both, "at most one of spec.delay and spec.runAt").await;
    for priority in [-1, 10] {
        assert_refused(&ns, valid("priority").priority(priority), "spec.priority").await;
    }
    for priority in [0, 9] {
        valid(&format!("priority-{priority}")).priority(priority).create(&ns).await;
    }
}

#[tokio::test]
async fn c002_durations_are_gep_2257() {
    let ns = TestNamespace::new("c002").await;
    for (index, text) in ["1500ms", "3s", "1h30m", "00060m", "99999h", "0s", "99999h59m59s999ms"].iter().enumerate() {
        let created = valid(&format!("good-{index}")).delay(text).create(&ns).await;
        let stored = ns.get(&created.name).await.spec.delay.unwrap();
        assert_eq!(stored.as_str(), *text, "kept as written");
    }
    for text in ["1.5s", "-5s", "5", "1d", "100000h", "", "1s 1s", "1s1s1s1s1s", "3 weeks"] {
        assert_refused(&ns, valid("bad").delay(text), "spec.delay").await;
    }
    let long: Duration = "99999h".parse().unwrap();
    assert_eq!(long.get().as_secs(), 359_996_400);
    valid("day").timeout("24h").create(&ns).await;
    for text in ["24h1s", "0s", "0ms"] {
        assert_refused(&ns, valid("bad").timeout(text), "timeout must be more than 0s and at most 24h").await;
    }
}

#[tokio::test]
async fn what_a_task_waits_for_is_fixed_and_checked() {
    let ns = TestNamespace::new("waits").await;
    let name = valid("t").spec("dependsOn", json!(["a"])).spec("concurrencyKey", json!("k")).create(&ns).await.name;
    let bare = valid("bare").create(&ns).await.name;
    for (task, patch, want) in [
        (&name, json!({"dependsOn": ["a", "b"]}), "spec.dependsOn may not change"),
        (&name, json!({"dependsOn": null}), "spec.dependsOn may not change"),
        (&bare, json!({"dependsOn": ["a"]}), "spec.dependsOn may not change"),
        (&name, json!({"concurrencyKey": "other"}), "spec.concurrencyKey may not change"),
        (&bare, json!({"concurrencyKey": "k"}), "spec.concurrencyKey may not change"),
    ] {
        let message = ns.refused_patch(task, json!({"spec": patch})).await;
        assert!(message.contains(want), "{patch}: {message}");
    }
    for (field, value, want) in [
        ("startDeadline", json!("0s"), "startDeadline must be more than 0s"),
        ("dependsOn", json!([]), "spec.dependsOn"),
        ("dependsOn", json!(["a", "a"]), "spec.dependsOn"),
        ("dependsOn", json!(["Not A Name"]), "spec.dependsOn"),
        ("concurrencyKey", json!(""), "spec.concurrencyKey"),
        ("concurrencyKey", json!("x".repeat(129)), "spec.concurrencyKey"),
    ] {
        let message = valid("bad").spec(field, value.clone()).refused(&ns).await;
        assert!(message.contains(want), "{field} {value}: {message}");
    }
    // Until the first start a deadline may be moved, then no more.
    ns.patch_spec(&bare, json!({"startDeadline": "5m"})).await;
    patch_status(&ns, &bare, json!({"status": {"startTime": "2026-12-01T08:00:00.000000Z"}})).await.unwrap();
    let message = ns.refused_patch(&bare, json!({"spec": {"startDeadline": "9m"}})).await;
    assert!(message.contains("spec.startDeadline may change only before the first start"), "{message}");
}

#[tokio::test]
async fn c004_work_may_not_change() {
    let ns = TestNamespace::new("c004").await;
    let name = valid("pay").topic("order.pay").payload(json!({"order": 1, "list": [1]})).create(&ns).await.name;
    for (case, payload) in [
        ("value", json!({"order": 2})),
        ("key renamed", json!({"order": null, "Order": 1})),
        ("type", json!({"order": "1"})),
        ("key added", json!({"more": true})),
        ("removed", Value::Null),
        ("list", json!({"list": [1, 2]})),
    ] {
        let message = ns.refused_patch(&name, json!({"spec": {"work": {"payload": payload}}})).await;
        assert!(message.contains("spec.work (topic and payload) may not change"), "{case}: {message}");
    }
    for (case, patch) in [("topic", json!({"topic": "other"})), ("work removed", Value::Null)] {
        let message = ns.refused_patch(&name, json!({"spec": {"work": patch}})).await;
        assert!(message.contains("spec.work (topic and payload) may not change"), "{case}: {message}");
    }
    // Between two attempts it is frozen just the same.
    patch_status(&ns, &name, json!({"status": {"phase": "Retrying", "attempt": 1}})).await.unwrap();
    let message = ns.refused_patch(&name, json!({"spec": {"work": {"payload": {"order": 2}}}})).await;
    assert!(message.contains("spec.work"), "{message}");
    // What is not work may change, and the same again is no change.
    ns.patch_spec(&name, json!({"priority": 9, "work": {"payload": {"order": 1}}})).await;
    // Work may not be added later either.
    let bare = valid("bare").create(&ns).await.name;
    let message = ns.refused_patch(&bare, json!({"spec": {"work": {"topic": "late"}}})).await;
    assert!(message.contains("spec.work"), "{message}");
}

#[tokio::test]
async fn target_may_not_change() {
    let ns = TestNamespace::new("target").await;
    let by_worker = valid("by-worker").create(&ns).await.name;
    let by_template = task("by-template").template("t").create(&ns).await.name;
    for (name, spec, names) in [
        (&by_worker, json!({"worker": {"deployment": "other"}}), "spec.worker may not change"),
        (&by_worker, json!({"worker": {"path": "/other"}}), "spec.worker may not change"),
        (&by_worker, json!({"worker": null, "templateRef": {"name": "t"}}), "spec.worker may not change"),
        (&by_template, json!({"templateRef": {"name": "u"}}), "spec.templateRef may not change"),
        (&by_template, json!({"templateRef": null}), "spec.templateRef may not change"),
    ] {
        let message = ns.refused_patch(name, json!({"spec": spec})).await;
        assert!(message.contains(names) && message.contains("create a new task instead"), "{message}");
    }
}

#[tokio::test]
async fn cancel_stays_true() {
    let ns = TestNamespace::new("cancel").await;
    let name = valid("stop").create(&ns).await.name;
    ns.patch_spec(&name, json!({"cancel": false})).await;
    ns.patch_spec(&name, json!({"cancel": true})).await;
    for cancel in [json!(false), Value::Null] {
        let message = ns.refused_patch(&name, json!({"spec": {"cancel": cancel}})).await;
        assert!(message.contains("spec.cancel stays true"), "{message}");
    }
}

#[tokio::test]
async fn times_may_change_only_before_the_first_start() {
    let ns = TestNamespace::new("times").await;
    let name = valid("wait").delay("1h").create(&ns).await.name;
    ns.patch_spec(&name, json!({"delay": "2h"})).await;
    ns.patch_spec(&name, json!({"delay": null, "runAt": "2030-01-01T00:00:00Z"})).await;
    patch_status(&ns, &name, json!({"status": {"startTime": "2026-12-01T08:00:00.000000Z"}})).await.unwrap();
    let message = ns.refused_patch(&name, json!({"spec": {"runAt": "2031-01-01T00:00:00Z"}})).await;
    assert!(message.contains("spec.runAt may change only before the first start"), "{message}");
    let message = ns.refused_patch(&name, json!({"spec": {"runAt": null, "delay": "1s"}})).await;
    assert!(message.contains("spec.delay may change only before the first start"), "{message}");
    ns.patch_spec(&name, json!({"priority": 1, "suspend": true})).await;
}

#[tokio::test]
async fn c032_c033_c034_retry_bounds() {
    let ns = TestNamespace::new("retry").await;
    let delays = |count: usize| json!(vec!["1s"; count]);
    valid("twenty").spec("retry", json!({"delays": delays(20)})).create(&ns).await;
    for count in [0, 21] {
        assert_refused(&ns, valid("bad").spec("retry", json!({"delays": delays(count)})), "spec.retry.delays").await;
    }
    for retries in [0, 100] {
        valid(&format!("retries-{retries}")).max_retries(retries).create(&ns).await;
    }
    for retries in [-1, 101] {
        assert_refused(&ns, valid("bad").max_retries(retries), "spec.retry.maxRetries").await;
    }
    valid("jitter").spec("retry", json!({"jitterPercent": 100})).create(&ns).await;
    for jitter in [json!(0.1), json!(-1), json!(101), json!("10")] {
        assert_refused(&ns, valid("bad").spec("retry", json!({"jitterPercent": jitter})), "spec.retry.jitterPercent")
            .await;
    }
    let codes = |count: usize| json!((0..count).map(|n| format!("E{n}")).collect::<Vec<_>>());
    valid("codes").spec("retry", json!({"nonRetryable": codes(32)})).create(&ns).await;
    assert_refused(&ns, valid("bad").spec("retry", json!({"nonRetryable": codes(33)})), "spec.retry.nonRetryable")
        .await;
    assert_refused(&ns, valid("bad").non_retryable(&["A", "A"]), "Duplicate value").await;
    assert_refused(&ns, valid("bad").non_retryable(&[""]), "spec.retry.nonRetryable").await;
}

#[tokio::test]
async fn c122_suspend_is_stored_as_false() {
    let ns = TestNamespace::new("c122").await;
    let name = valid("plain").create(&ns).await.name;
    let stored = serde_json::to_value(ns.raw("AxTask").get(&name).await.unwrap()).unwrap();
    assert_eq!(
        stored["spec"],
        json!({"suspend": false, "worker": {"deployment": "w", "port": 18080}}),
        "no other default"
    );
    let paused = valid("paused").suspended().create(&ns).await.name;
    assert!(ns.get(&paused).await.spec.suspend);
}

#[tokio::test]
async fn template_supplies_nothing_by_default() {
    let ns = TestNamespace::new("defaults").await;
    ns.template("t", "w", json!({"retry": {"maxRetries": 1}})).await;
    let stored = serde_json::to_value(ns.raw("AxTaskTemplate").get("t").await.unwrap()).unwrap();
    assert_eq!(stored["spec"]["taskTemplate"]["spec"], json!({"retry": {"maxRetries": 1}}));
    // A template may move to another worker.
    ns.template("t", "other", json!({"retry": {"maxRetries": 2}})).await;
}

#[tokio::test]
async fn a_fresh_task_is_pending_without_a_write() {
    let ns = TestNamespace::new("fresh").await;
    let name = valid("new").create(&ns).await.name;
    let stored = serde_json::to_value(ns.raw("AxTask").get(&name).await.unwrap()).unwrap();
    assert_eq!(stored["status"], json!({"phase": "Pending"}));
    assert_eq!(phase(&ns.get(&name).await), Phase::Pending);
    for (selector, want) in [("status.phase=Pending", 1), ("status.phase=Dead", 0), ("spec.templateRef.name=t", 0)] {
        let list = ns.tasks().list(&ListParams::default().fields(selector)).await.unwrap();
        assert_eq!(list.items.len(), want, "{selector}");
    }
}

#[tokio::test]
async fn status_given_at_create_is_dropped() {
    let ns = TestNamespace::new("drop").await;
    let forged = valid("forged").at(&["status"], json!({"phase": "Succeeded", "attempt": 7}));
    let name = forged.create(&ns).await.name;
    let stored = ns.get(&name).await;
    assert_eq!((phase(&stored), stored.status.unwrap().attempt), (Phase::Pending, None));
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let ns = TestNamespace::new("apart").await;
    let name = valid("two-doors").create(&ns).await.name;
    let both = json!({"spec": {"priority": 3}, "status": {"phase": "Ready"}, "metadata": {"labels": {"a": "b"}}});
    let by_status = patch_status(&ns, &name, both.clone()).await.unwrap();
    assert_eq!(by_status["status"]["phase"], "Ready");
    assert_eq!(by_status["spec"]["priority"], Value::Null, "the status door takes no spec");
    assert_eq!(by_status["metadata"]["generation"], 1);
    let by_spec = ns.try_patch(&name, json!({"spec": {"priority": 3}, "status": {"phase": "Dead"}})).await.unwrap();
    let by_spec = serde_json::to_value(by_spec).unwrap();
    assert_eq!((&by_spec["spec"]["priority"], &by_spec["status"]["phase"]), (&json!(3), &json!("Ready")));
    assert_eq!(by_spec["metadata"]["generation"], 2);
}

#[tokio::test]
async fn succeeded_and_canceled_are_final() {
    let ns = TestNamespace::new("final").await;
    for end in ["Succeeded", "Canceled"] {
        let name = valid(&end.to_lowercase()).create(&ns).await.name;
        patch_status(&ns, &name, json!({"status": {"phase": end}})).await.unwrap();
        for other in [json!("Pending"), json!("Dead"), Value::Null] {
            let error = patch_status(&ns, &name, json!({"status": {"phase": other}})).await.unwrap_err();
            assert!(error.to_string().contains("Succeeded and Canceled are final"), "{end} to {other}: {error}");
        }
        let error = patch_status(&ns, &name, json!({"status": null})).await.unwrap_err();
        assert!(error.to_string().contains("Succeeded and Canceled are final"), "{end} to nothing: {error}");
        patch_status(&ns, &name, json!({"status": {"phase": end, "observedGeneration": 2}})).await.unwrap();
    }
    for (end, name) in [("Dead", "dead"), ("Unknown", "unknown")] {
        valid(name).create(&ns).await;
        patch_status(&ns, name, json!({"status": {"phase": end}})).await.unwrap();
        patch_status(&ns, name, json!({"status": {"phase": "Pending"}})).await.unwrap();
    }
}

#[tokio::test]
async fn status_is_bounded_and_unknown_fields_are_dropped() {
    let ns = TestNamespace::new("bounds").await;
    let name = valid("status").create(&ns).await.name;
    let now = "2026-12-01T08:00:00.000000Z";
    for (case, status) in [
        ("message", json!({"message": "x".repeat(2049)})),
        ("result", json!({"result": "x".repeat(4097)})),
        ("phase", json!({"phase": "Lost"})),
        ("attempt number", json!({"attempts": [{"number": 0}]})),
        ("two attempts of one number", json!({"attempts": [{"number": 1}, {"number": 1}]})),
        (
            "condition reason",
            json!({"conditions": [
            {"type": "A", "status": "True", "reason": "", "message": "", "lastTransitionTime": now}]}),
        ),
        (
            "condition status",
            json!({"conditions": [
            {"type": "A", "status": "Yes", "reason": "R", "message": "", "lastTransitionTime": now}]}),
        ),
    ] {
        let error = patch_status(&ns, &name, json!({"status": status})).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 422), "{case}: {error}");
    }
    let stored = patch_status(&ns, &name, json!({"status": {"later": 1, "attempts": [{"number": 1, "later": 1}]}}));
    let stored = stored.await.unwrap();
    assert_eq!(stored["status"], json!({"phase": "Pending", "attempts": [{"number": 1}]}));
}

#[tokio::test]
async fn a_stale_status_write_is_a_conflict() {
    let ns = TestNamespace::new("stale").await;
    let name = valid("raced").create(&ns).await.name;
    let old = ns.get(&name).await.resource_version().unwrap();
    ns.patch_spec(&name, json!({"priority": 1})).await;
    let patch = json!({"metadata": {"resourceVersion": old}, "status": {"phase": "Running"}});
    let error = patch_status(&ns, &name, patch).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "{error}");
}

#[tokio::test]
async fn c143_no_reference_leaves_the_namespace() {
    let ns = TestNamespace::new("c143").await;
    for (field, value) in [
        ("templateRef", json!({"name": "x", "namespace": "other"})),
        ("worker", json!({"deployment": "x", "namespace": "other"})),
    ] {
        let object = task(&format!("abroad-{}", field.to_lowercase())).spec(field, value.clone());
        let strict = request(&ns, "POST", "?fieldValidation=Strict", "application/json", Some(&object.object())).await;
        let error = strict.unwrap_err().to_string();
        assert!(error.contains(&format!("unknown field \"spec.{field}.namespace\"")), "{error}");
        let name = object.create(&ns).await.name;
        let stored = serde_json::to_value(ns.raw("AxTask").get(&name).await.unwrap()).unwrap();
        assert_eq!(stored["spec"][field]["namespace"], Value::Null, "dropped");
    }
    for name in ["../secret", "a/b", "..", ".", "a/../b", "A", "x_y", "", "-x"] {
        assert_refused(&ns, task("bad").template(name), "spec.templateRef.name").await;
        assert_refused(&ns, task("bad").worker(name), "spec.worker.deployment").await;
    }
    for path in ["tasks", "http://x/", "/a b", "/a?b", "/a#b", "/\r\nHost: x"] {
        let object = task("bad").spec("worker", json!({"deployment": "x", "path": path}));
        assert_refused(&ns, object, "spec.worker.path").await;
    }
    for port in [0, -1, 65_536] {
        let object = task("bad").spec("worker", json!({"deployment": "x", "port": port}));
        assert_refused(&ns, object, "spec.worker.port").await;
    }
    for topic in ["", "a\nb", "a\rb", &"x".repeat(129)] {
        assert_refused(&ns, valid("bad").topic(topic), "spec.work.topic").await;
    }
}

/// An object that the API server takes and ax cannot read is a task that never runs: the two must agree.
#[tokio::test]
async fn whatever_is_accepted_can_be_decoded() {
    let ns = TestNamespace::new("decode").await;
    let mut makers: Vec<(String, TaskMaker)> = [
        json!(null),
        json!(1),
        json!("text"),
        json!([1.0, 12345678901234567890_u64, -9007199254740993_i64]),
        json!({"a": {"b": []}, "\u{0}": "\u{7f}é\u{2028}"}),
    ]
    .into_iter()
    .map(|payload| (format!("payload {:.40}", payload.to_string()), valid("x").payload(payload)))
    .collect();
    for run_at in [
        "2026-12-01T08:00:00Z",
        "2026-12-01T08:00:00.123456789+14:00",
        "2026-12-01t08:00:00z",
        "2026-12-01T08:00:00",
        "2026-12-01 08:00:00Z",
        "2026-12-01T08:00Z",
        "2026-12-01T24:00:00Z",
        "2026-12-01T23:59:60Z",
        "2026-12-01T08:00:00,5Z",
        "2026-12-01T08:00:00.1234567890123Z",
        "2026-12-01T08:00:00+0200",
        "2026-12-01T08:00:00+25:00",
        "2026-12-01T08:00:00-99:99",
        "2026-02-30T08:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "+12026-01-01T00:00:00Z",
        "2026-12-01T08:00:00-00:00",
        "2026-12-01T08:00:00[Europe/Berlin]",
        "tomorrow",
        "",
    ] {
        makers.push((format!("runAt {run_at}"), valid("x").spec("runAt", json!(run_at))));
    }
    for delay in ["0h0m0s0ms", "0000s", "5h5h5h5h", "1ms1h", "99999h99999h99999h99999h"] {
        makers.push((format!("delay {delay}"), valid("x").delay(delay)));
    }
    let mut unread = Vec::new();
    for (index, (case, maker)) in makers.into_iter().enumerate() {
        let name = format!("accepted-{index}");
        if maker.at(&["metadata", "name"], json!(name)).try_create(&ns).await.is_err() {
            continue;
        }
        if let Err(error) = ns.tasks().get(&name).await {
            unread.push(format!("{case}: {error}"));
        }
    }
    // As text: no JSON library here would build it.
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let object = valid("deep").payload(json!("deep")).object().to_string().replace("\"deep\"}", &format!("{deep}}}"));
    let uri = format!("/apis/ax.dev/v1alpha1/namespaces/{}/axtasks", ns.name);
    let post = http::Request::post(uri).header("content-type", "application/json").body(object.into_bytes()).unwrap();
    if ns.client.request_text(post).await.is_ok()
        && let Err(error) = ns.tasks().get("deep").await
    {
        unread.push(format!("payload 5000 deep: {error}"));
    }
    assert!(unread.is_empty(), "accepted by the API server, not readable by ax:\n{}", unread.join("\n"));
}

#[tokio::test]
async fn c125_columns_print_the_future_as_text() {
    let ns = TestNamespace::new("c125").await;
    let name = valid("later").topic("order.close").priority(7).create(&ns).await.name;
    let due = "2099-12-01T08:00:00.000000Z";
    let status = json!({"phase": "Pending", "reason": "Delayed", "readyTime": due, "attempt": 2,
        "attempts": [{"number": 1, "pod": "p-1"}, {"number": 2, "pod": "p-2"}]});
    patch_status(&ns, &name, json!({"status": status})).await.unwrap();
    let table = request(&ns, "GET", "", "application/json;as=Table;v=v1;g=meta.k8s.io", None).await.unwrap();
    let columns: Vec<(String, bool)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap().to_owned(), column["priority"] != 0))
        .collect();
    let shown: Vec<&str> = columns.iter().filter(|(_, wide)| !wide).map(|(name, _)| name.as_str()).collect();
    assert_eq!(shown, ["Name", "Phase", "Reason", "Due", "Attempts", "Progress", "Age"]);
    let wide: Vec<&str> = columns.iter().filter(|(_, wide)| *wide).map(|(name, _)| name.as_str()).collect();
    assert_eq!(wide, ["Priority", "Topic", "Template", "Pod", "Finished", "Message"]);
    let cell = |name: &str| &table["rows"][0]["cells"][columns.iter().position(|(column, _)| column == name).unwrap()];
    assert_eq!(cell("Due"), due);
    assert_eq!((cell("Attempts"), cell("Pod"), cell("Priority")), (&json!(2), &json!("p-2"), &json!(7)));
    assert!(!table["rows"][0].to_string().contains("<invalid>"), "{}", table["rows"][0]["cells"]);
}

#[tokio::test]
async fn apply_of_the_same_manifest_changes_nothing() {
    let ns = TestNamespace::new("drift").await;
    let object =
        valid("same").topic("a").payload(json!({"n": 1.5})).max_retries(1).delays(&["1s"]).delay("1h").object();
    // The default of status.phase costs one version at the second apply; from then on there is no drift.
    let mut versions = Vec::new();
    for _ in 0..4 {
        ns.apply_value(&object).await;
        let stored: AxTask = ns.get("same").await;
        assert_eq!(stored.metadata.generation, Some(1));
        versions.push(stored.resource_version());
    }
    assert_eq!(versions[1], versions[2]);
    assert_eq!(versions[2], versions[3]);
}

#[tokio::test]
async fn a_template_is_bounded_as_its_tasks_are() {
    let ns = TestNamespace::new("template").await;
    let create = async |name: &str, spec: Value| {
        let object = json!({"apiVersion": "ax.dev/v1alpha1", "kind": "AxTaskTemplate", "metadata": {"name": name}, "spec": spec});
        ns.raw("AxTaskTemplate").create(&Default::default(), &serde_json::from_value(object).unwrap()).await
    };
    let with = |spec: Value| json!({"worker": {"deployment": "w"}, "taskTemplate": {"spec": spec}});
    create("good", with(json!({"priority": 9, "timeout": "24h", "retry": {"maxRetries": 100}}))).await.unwrap();
    for (case, spec, names) in [
        ("no worker", json!({}), "spec.worker"),
        ("no deployment", json!({"worker": {}}), "spec.worker.deployment"),
        ("priority", with(json!({"priority": 10})), "spec.taskTemplate.spec.priority"),
        ("timeout", with(json!({"timeout": "0s"})), "timeout must be more than 0s"),
        ("retries", with(json!({"retry": {"maxRetries": 101}})), "spec.taskTemplate.spec.retry.maxRetries"),
        ("delays", with(json!({"retry": {"delays": []}})), "spec.taskTemplate.spec.retry.delays"),
        ("topic", with(json!({"work": {"topic": ""}})), "spec.taskTemplate.spec.work.topic"),
    ] {
        let error = create("bad", spec).await.unwrap_err().to_string();
        assert!(error.contains(names), "{case}: {error}");
    }
    // What only a task may say is no field of a template.
    create("extra", with(json!({"delay": "5s", "suspend": true, "cancel": true, "priority": 1}))).await.unwrap();
    let stored = serde_json::to_value(ns.raw("AxTaskTemplate").get("extra").await.unwrap()).unwrap();
    assert_eq!(stored["spec"]["taskTemplate"]["spec"], json!({"priority": 1}));
}
