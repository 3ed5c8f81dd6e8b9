//! Leader election against a real API server. Each test has a namespace of its own.
#![expect(clippy::panic, reason = "helpers of tests fail tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ax::cluster::client::{Clients, Connector};
use ax::cluster::lease::{self, Grant, Leadership, LeaseCommand, LeaseConfig, LeaseEvent, ServerClock};
use ax::domain::election::{Config, LossReason};
use ax::ops::clock::Clock;
use ax::ops::dice::Dice;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

async fn config() -> kube::Config {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/cluster/cluster");
    let run = |args: &[&str]| {
        let output = Command::new(&script).args(args).output().expect("the cluster script runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["up", "--tier", "control-plane", "--name", "test"]);
    let path = run(&["kubeconfig", "--name", "test"]);
    let kubeconfig = Kubeconfig::read_from(path.trim()).expect("a kubeconfig");
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config")
}

/// A namespace, and what people do to the Lease in it.
struct Scene {
    config: kube::Config,
    client: kube::Client,
    namespace: String,
    clock: Clock,
}

impl Scene {
    async fn new() -> Self {
        let config = config().await;
        let client = Clients::new(config.clone()).expect("clients").write;
        let namespace = format!("lease-{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let object = json!({ "metadata": { "name": namespace } });
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(object).expect("a namespace");
        namespaces.create(&PostParams::default(), &object).await.expect("created");
        Self { config, client, namespace, clock: Clock::start() }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn lease(&self) -> Value {
        serde_json::to_value(self.leases().get(lease::LEASE_NAME).await.expect("a Lease")).expect("json")
    }

    async fn patch(&self, patch: Value) {
        let params = PatchParams::default();
        self.leases().patch(lease::LEASE_NAME, &params, &Patch::Merge(patch)).await.expect("patched");
    }

    /// A Lease that its last holder gave back, so that the first leader need not wait.
    async fn released(&self) {
        let object = json!({
            "metadata": { "name": lease::LEASE_NAME, "labels": { "team": "a" } },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z" },
        });
        let object = serde_json::from_value(object).expect("a Lease");
        self.leases().create(&PostParams::default(), &object).await.expect("created");
    }

    fn replica(&self, name: &str) -> Replica {
        self.replica_over(name, self.config.clone())
    }

    fn replica_over(&self, name: &str, config: kube::Config) -> Replica {
        let (commands, commands_end) = mpsc::channel(8);
        let (events_end, events) = mpsc::channel(64);
        let leadership = Leadership::default();
        let server_clock = ServerClock::new();
        let lease = LeaseConfig {
            namespace: self.namespace.clone(),
            identity: name.to_owned(),
            address: Some(format!("{name}:8080")),
            election: Config::default(),
            dice: Dice::drawn(),
        };
        let running = tokio::spawn(lease::run(
            lease,
            Connector::new(config),
            self.clock,
            commands_end,
            events_end,
            leadership.clone(),
            server_clock.clone(),
        ));
        Replica { commands, events, leadership, server_clock, clock: self.clock, running }
    }

    async fn end(self, replicas: impl IntoIterator<Item = Replica>) {
        for replica in replicas {
            replica.running.abort();
        }
        let namespaces: Api<Namespace> = Api::all(self.client);
        let _ = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
    }
}

struct Replica {
    commands: mpsc::Sender<LeaseCommand>,
    events: mpsc::Receiver<LeaseEvent>,
    leadership: Leadership,
    server_clock: ServerClock,
    clock: Clock,
    running: tokio::task::JoinHandle<()>,
}

impl Replica {
    fn grant(&self) -> Option<Grant> {
        self.leadership.grant(self.clock.mono())
    }

    async fn event<T>(&mut self, within: Duration, what: &str, wanted: impl Fn(LeaseEvent) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the loop runs");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(within, found).await.unwrap_or_else(|_| panic!("no {what} within {within:?}"))
    }

    async fn acquired(&mut self, within: Duration) -> (u64, Duration) {
        self.event(within, "acquisition", |event| match event {
            LeaseEvent::Acquired { term, may_start_at } => Some((term, may_start_at)),
            _ => None,
        })
        .await
    }

    async fn lost(&mut self, within: Duration) -> LossReason {
        self.event(within, "loss", |event| match event {
            LeaseEvent::Lost { reason } => Some(reason),
            _ => None,
        })
        .await
    }

    async fn release(&self) {
        let (done, answer) = oneshot::channel();
        self.commands.send(LeaseCommand::Release(done)).await.expect("the loop runs");
        answer.await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_lease_is_taken_over_at_once_and_foreign_marks_stay() {
    let scene = Scene::new().await;
    scene.released().await;
    let mut a = scene.replica("a");
    let (first, may_start_at) = a.acquired(secs(2)).await;
    assert_eq!(may_start_at, Duration::ZERO);
    assert_eq!(a.grant().map(|grant| grant.term), Some(first));
    let mut b = scene.replica("b");
    b.event(secs(2), "sight of a", |event| match event {
        LeaseEvent::Observed { holder: Some(_), address, .. } if address.as_deref() == Some("a:8080") => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(b.grant(), None);
    tokio::time::sleep(secs(3)).await; // renewals and polls go on
    assert_eq!(a.grant().map(|grant| grant.term), Some(first));

    a.release().await;
    let released_at = scene.clock.mono();
    assert_eq!(a.grant(), None);
    let (second, may_start_at) = b.acquired(secs(1)).await;
    let took = scene.clock.mono() - released_at;
    assert!(took < Duration::from_millis(200), "{took:?}");
    assert!(second > first && may_start_at == Duration::ZERO, "{second} after {first}");
    let lease = scene.lease().await;
    assert_eq!(lease["metadata"]["labels"]["team"], "a");
    assert_eq!(lease["metadata"]["annotations"]["ax.dev/term"], second.to_string());
    assert_eq!(lease["metadata"]["annotations"]["ax.dev/callback-address"], "b:8080");
    assert_eq!(lease["metadata"]["annotations"]["ax.dev/previous-address"], "a:8080");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 5);
    assert_eq!(lease["spec"]["leaseTransitions"], 2);
    assert!(a.running.is_finished() || tokio::time::timeout(secs(1), &mut a.running).await.is_ok());

    let bounds = b.server_clock.bounds().expect("measured");
    assert!(bounds.lower <= bounds.upper && bounds.lower.as_secs().abs() < 2, "{bounds:?}");
    scene.end([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c071_a_holder_edited_by_hand_stops_the_leader_and_nobody_leads_for_five_seconds() {
    let scene = Scene::new().await;
    scene.released().await;
    let mut a = scene.replica("a");
    let (first, _) = a.acquired(secs(2)).await;
    scene.patch(json!({ "spec": { "holderIdentity": "x" } })).await;
    let edited_at = scene.clock.mono();
    assert_eq!(a.lost(secs(2)).await, LossReason::ForeignHolder);
    assert_eq!(a.grant(), None);
    let (second, _) = a.acquired(secs(8)).await;
    let took = scene.clock.mono() - edited_at;
    assert!((secs(5)..secs(7)).contains(&took), "{took:?}");
    assert!(second > first, "{second} after {first}");
    scene.end([a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c068_a_deleted_lease_is_made_anew_in_a_higher_term_and_its_creator_waits() {
    let scene = Scene::new().await;
    let mut a = scene.replica("a");
    let (first, may_start_at) = a.acquired(secs(2)).await;
    assert!(may_start_at > scene.clock.mono() + secs(4), "the first creator waits too");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    scene.leases().delete(lease::LEASE_NAME, &DeleteParams::default()).await.expect("deleted");
    let deleted_at = scene.clock.mono();
    assert_eq!(a.lost(secs(2)).await, LossReason::Missing);
    let (second, may_start_at) = a.acquired(secs(2)).await;
    assert!(second > first, "{second} after {first}");
    assert!(may_start_at >= deleted_at + secs(5), "{may_start_at:?} after {deleted_at:?}");
    assert_eq!(a.grant().map(|grant| grant.may_start_at), Some(may_start_at));
    scene.end([a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_is_raised_at_once_and_a_label_costs_nothing() {
    let scene = Scene::new().await;
    scene.released().await;
    let mut a = scene.replica("a");
    let (term, _) = a.acquired(secs(2)).await;
    scene.patch(json!({ "metadata": { "labels": { "team": "b" } } })).await;
    a.commands.send(LeaseCommand::RaiseTermAbove(term + 41)).await.expect("the loop runs");
    let raised = a
        .event(secs(1), "raise", |event| match event {
            LeaseEvent::TermRaised { term } => Some(term),
            LeaseEvent::Lost { reason } => panic!("lost: {reason:?}"),
            _ => None,
        })
        .await;
    assert_eq!(raised, term + 42);
    assert_eq!(a.grant().map(|grant| grant.term), Some(term + 42));
    let lease = scene.lease().await;
    assert_eq!(lease["metadata"]["annotations"]["ax.dev/term"], (term + 42).to_string());
    assert_eq!(lease["metadata"]["labels"]["team"], "b");
    scene.end([a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c067_a_leader_whose_connections_go_silent_stops_before_its_successor_starts() {
    let scene = Scene::new().await;
    scene.released().await;
    let (through, silent) = silenceable(&scene.config).await;
    let mut a = scene.replica_over("a", through);
    let (first, _) = a.acquired(secs(3)).await;
    let mut b = scene.replica("b");
    b.event(secs(2), "sight of a", |event| matches!(event, LeaseEvent::Observed { holder: Some(_), .. }).then_some(()))
        .await;
    silent.store(true, Ordering::SeqCst);
    let cut_at = scene.clock.mono();
    let (mut old_ended, mut new_began) = (None, None);
    while new_began.is_none() && scene.clock.mono() < cut_at + secs(9) {
        let (old, new) = (a.grant(), b.grant());
        assert!(old.is_none() || new.is_none(), "two leaders");
        let now = scene.clock.mono();
        old_ended = old_ended.or(old.is_none().then_some(now));
        new_began = new_began.or(new.is_some().then_some(now));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let old_ended = old_ended.expect("the old leader stops") - cut_at;
    let new_began = new_began.expect("a new leader starts") - cut_at;
    assert!(old_ended <= secs(3) + Duration::from_millis(50), "{old_ended:?}");
    assert!(new_began <= secs(7), "{new_began:?}");
    assert_eq!(a.lost(secs(1)).await, LossReason::TrustEnded);
    let (second, _) = b.acquired(secs(1)).await;
    assert!(second > first, "{second} after {first}");

    // The way is open again: the old leader sees the new one, on a fresh connection.
    silent.store(false, Ordering::SeqCst);
    a.event(secs(4), "sight of b", |event| match event {
        LeaseEvent::Observed { address, .. } if address.as_deref() == Some("b:8080") => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(a.grant(), None);
    scene.end([a, b]).await;
}

/// A way to the API server whose connections, once silenced, stay open and say nothing more.
async fn silenceable(config: &kube::Config) -> (kube::Config, Arc<AtomicBool>) {
    let host = config.cluster_url.host().expect("a host").to_owned();
    let target = format!("{host}:{}", config.cluster_url.port_u16().expect("a port"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let silent = Arc::new(AtomicBool::new(false));
    let seen = silent.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let (target, silent) = (target.clone(), seen.clone());
            tokio::spawn(async move {
                let far = TcpStream::connect(target).await.expect("the API server");
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                tokio::join!(pass(near_read, far_write, silent.clone()), pass(far_read, near_write, silent));
            });
        }
    });
    let mut through = config.clone();
    through.cluster_url = format!("https://{address}").parse().expect("a url");
    through.tls_server_name = Some(host);
    (through, silent)
}

async fn pass(from: tokio::net::tcp::OwnedReadHalf, mut to: tokio::net::tcp::OwnedWriteHalf, silent: Arc<AtomicBool>) {
    use tokio::io::AsyncWriteExt as _;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if from.readable().await.is_err() {
            return;
        }
        match from.try_read(&mut buffer) {
            Ok(0) => return,
            // Silent once is silent for ever: the bytes are lost, the connection stays.
            Ok(_) if silent.load(Ordering::SeqCst) => std::future::pending::<()>().await,
            Ok(read) => {
                if to.write_all(&buffer[..read]).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
