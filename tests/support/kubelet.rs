//! Plays the kubelet of a namespace whose pods are on no real node.
//!
//! IO: watches the pods that the real controllers make, binds each to a node that need not exist, starts what its
//! Deployment's [`Plan`] says on a loopback address of its own, and reports it Running and Ready. A pod that is deleted is
//! told, waited for up to its grace period, and then removed by force, as a kubelet does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::process::Process;
use super::script::{self, Script};
use super::wait::secs;
use super::{background, cluster};

/// The label by which a pod's plan is found.
pub const APP_LABEL: &str = "app.kubernetes.io/name";
/// Holds an address for one pod, machine-wide.
const RESERVING_PORT: u16 = 17_999;
const NODE: &str = "ax-test-node";

/// What runs in the pods of one Deployment.
#[derive(Clone)]
pub enum Plan {
    /// A scripted worker inside this process.
    Script(Script),
    /// A program; `Program::prepare` turns the pod into its command line.
    Program(Program),
    /// Nothing: connections are refused.
    Nothing,
}

/// A real worker process.
#[derive(Clone)]
pub struct Program {
    pub program: String,
    /// From pod, address and the pod's folder to arguments and environment.
    pub prepare: Prepare,
}

pub type Prepare = Arc<dyn Fn(&Pod, SocketAddr, &Path) -> Arguments + Send + Sync>;

/// Of a program: its arguments and its environment.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    pub args: Vec<String>,
    pub envs: Vec<(String, String)>,
}

#[derive(Clone)]
struct Planned {
    plan: Plan,
    port: u16,
}

/// One per namespace.
pub struct Kubelet {
    inner: Arc<Inner>,
    stop: CancellationToken,
}

struct Inner {
    namespace: String,
    dir: PathBuf,
    plans: Mutex<HashMap<String, Planned>>,
    pods: Mutex<HashMap<String, Arc<PlayedPod>>>,
}

/// A pod as its kubelet knows it.
pub struct PlayedPod {
    pub name: String,
    pub uid: String,
    pub app: String,
    pub address: SocketAddr,
    plan: Plan,
    pod: Pod,
    dir: PathBuf,
    api: Api<Pod>,
    /// Keeps the address for this pod.
    _reserved: TcpListener,
    state: Mutex<State>,
    ready: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    script: Option<CancellationToken>,
    process: Option<Arc<Process>>,
    starts: u32,
}

impl Kubelet {
    pub fn start(kubeconfig: &Path, namespace: &str, dir: &Path) -> Arc<Self> {
        let inner = Arc::new(Inner {
            namespace: namespace.to_owned(),
            dir: dir.to_owned(),
            plans: Mutex::default(),
            pods: Mutex::default(),
        });
        let kubelet = Arc::new(Self { inner: inner.clone(), stop: CancellationToken::new() });
        let (kubeconfig, stop) = (kubeconfig.to_owned(), kubelet.stop.clone());
        background::runtime().spawn(async move {
            let client = cluster::client(&kubeconfig).await;
            stop.clone().run_until_cancelled(inner.run(client, stop)).await;
        });
        kubelet
    }

    /// What the pods of Deployment `app` run; said before the Deployment is made.
    pub fn plan(&self, app: &str, plan: Plan, port: u16) {
        self.inner.plans.lock().expect("no panic while held").insert(app.to_owned(), Planned { plan, port });
    }

    /// The pods of Deployment `app` that run, by name.
    pub fn pods(&self, app: &str) -> Vec<Arc<PlayedPod>> {
        let pods = self.inner.pods.lock().expect("no panic while held");
        let mut pods: Vec<_> = pods.values().filter(|pod| pod.app == app).cloned().collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    /// Ends every worker and the playing.
    pub fn stop(&self) {
        self.stop.cancel();
        let pods: Vec<_> = self.inner.pods.lock().expect("no panic while held").drain().collect();
        for (_, pod) in pods {
            pod.kill9();
        }
    }
}

impl Inner {
    async fn run(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let api: Api<Pod> = Api::namespaced(client, &self.namespace);
        let mut seen: HashMap<String, watch::Sender<Option<Pod>>> = HashMap::new();
        let mut events = std::pin::pin!(watcher::watcher(api.clone(), watcher::Config::default()));
        loop {
            let event = match events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                // The watcher starts again by itself; a killed API server is part of some tests.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            match event {
                Event::Apply(pod) | Event::InitApply(pod) => {
                    let uid = pod.uid().unwrap_or_default();
                    if let Some(sender) = seen.get(&uid) {
                        sender.send_replace(Some(pod));
                        continue;
                    }
                    let (sender, receiver) = watch::channel(Some(pod.clone()));
                    seen.insert(uid, sender);
                    let life = self.clone().life(api.clone(), pod, receiver);
                    let stop = stop.clone();
                    tokio::spawn(async move { stop.run_until_cancelled(life).await });
                }
                Event::Delete(pod) => {
                    if let Some(sender) = seen.get(&pod.uid().unwrap_or_default()) {
                        sender.send_replace(None);
                    }
                }
                Event::Init | Event::InitDone => {}
            }
        }
    }

    /// One pod from its binding to its end.
    async fn life(self: Arc<Self>, api: Api<Pod>, pod: Pod, mut latest: watch::Receiver<Option<Pod>>) {
        let app = pod.labels().get(APP_LABEL).cloned().unwrap_or_default();
        let Some(planned) = self.plans.lock().expect("no panic while held").get(&app).cloned() else {
            return;
        };
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        bind(&api, &name).await;
        let (ip, reserved) = reserve(planned.port);
        let dir = self.dir.join(&name);
        std::fs::create_dir_all(&dir).expect("a pod's folder");
        let played = Arc::new(PlayedPod {
            name,
            uid: uid.clone(),
            app,
            address: SocketAddr::new(ip, planned.port),
            plan: planned.plan,
            pod,
            dir,
            api: api.clone(),
            _reserved: reserved,
            state: Mutex::default(),
            ready: watch::Sender::new(true),
        });
        played.run_worker().await;
        self.pods.lock().expect("no panic while held").insert(uid.clone(), played.clone());
        let terminating = |pod: &Option<Pod>| pod.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
        if !terminating(&latest.borrow()) {
            played.report(true).await;
        }
        let Ok(end) = latest.wait_for(terminating).await.map(|pod| pod.clone()) else { return };
        if let Some(pod) = end {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
            played.terminate(secs(u64::try_from(grace).unwrap_or(0)), &mut latest).await;
            remove(&api, &pod).await;
        }
        played.kill9();
        self.pods.lock().expect("no panic while held").remove(&uid);
    }
}

impl PlayedPod {
    /// Starts the worker and waits until it accepts connections.
    async fn run_worker(&self) {
        match &self.plan {
            Plan::Script(script) => {
                let stop = CancellationToken::new();
                let serve = script.clone().serve(self.name.clone(), self.uid.clone(), self.address, stop.clone());
                background::runtime().spawn(serve);
                self.with_state(|state| state.script = Some(stop));
            }
            Plan::Program(program) => {
                let arguments = (program.prepare)(&self.pod, self.address, &self.dir);
                // Beside the operators' logs, where a failed test's dump finds it.
                let log = self.dir.with_extension("log");
                let process = Process::start(&self.name, &program.program, &arguments.args, &arguments.envs, &log);
                self.with_state(|state| state.process = Some(Arc::new(process)));
            }
            Plan::Nothing => {}
        }
        self.with_state(|state| state.starts += 1);
        if !matches!(self.plan, Plan::Nothing) {
            self.wait_listening().await;
        }
    }

    async fn wait_listening(&self) {
        let begin = Instant::now();
        while tokio::net::TcpStream::connect(self.address).await.is_err() {
            if begin.elapsed() > secs(10) {
                // The test that needs this pod will say what it waited for; the log is in its dump.
                eprintln!("the worker of pod {} does not listen on {}", self.name, self.address);
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the kubelet reports: Running, the address, the conditions, the container.
    async fn report(&self, ready: bool) {
        let starts = self.with_state(|state| state.starts);
        let status = if ready { "True" } else { "False" };
        let now = jiff::Timestamp::now().to_string();
        let now = format!("{}Z", now.split('.').next().unwrap_or_default().trim_end_matches('Z'));
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now});
        let container = self.pod.spec.as_ref().and_then(|spec| spec.containers.first());
        let patch = json!({"status": {
            "phase": "Running",
            "podIP": self.address.ip().to_string(),
            "podIPs": [{"ip": self.address.ip().to_string()}],
            "startTime": now,
            "conditions": [
                condition("Initialized", "True"),
                condition("ContainersReady", status),
                condition("Ready", status),
            ],
            "containerStatuses": [{
                "name": container.map(|c| c.name.as_str()).unwrap_or("worker"),
                "image": container.and_then(|c| c.image.as_deref()).unwrap_or("none"),
                "imageID": "",
                "containerID": format!("test://{}-{starts}", self.uid),
                "ready": ready,
                "started": true,
                "restartCount": starts.saturating_sub(1),
                "state": {"running": {"startedAt": now}},
            }],
        }});
        self.patch(&patch).await;
        self.ready.send_replace(ready);
    }

    async fn patch(&self, patch: &Value) {
        for _ in 0..50 {
            match self.api.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 404 => return,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// The readiness probe's word.
    pub async fn set_ready(self: &Arc<Self>, ready: bool) {
        let pod = self.clone();
        // The API of this pod lives on the background runtime.
        let _ = background::runtime().spawn(async move { pod.report(ready).await }).await;
    }

    /// The container's process dies at once; the pod stays as it is until something else happens.
    pub fn kill9(&self) {
        let (script, process) = self.with_state(|state| (state.script.take(), state.process.take()));
        if let Some(stop) = script {
            stop.cancel();
        }
        if let Some(process) = process {
            process.kill9();
        }
    }

    /// The kubelet starts the container again: same pod, new container.
    pub async fn restart(self: &Arc<Self>) {
        self.kill9();
        let pod = self.clone();
        let restarted = background::runtime().spawn(async move {
            while !script::is_free(pod.address.ip(), pod.address.port()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            pod.run_worker().await;
            pod.report(true).await;
        });
        let _ = restarted.await;
    }

    pub fn process(&self) -> Option<Arc<Process>> {
        self.with_state(|state| state.process.clone())
    }

    /// SIGTERM, then up to `grace` for the worker to end by itself.
    async fn terminate(&self, grace: Duration, latest: &mut watch::Receiver<Option<Pod>>) {
        let process = self.process();
        if let Some(process) = &process {
            process.signal(Signal::TERM);
        }
        let ended = async {
            loop {
                let busy = match (&self.plan, &process) {
                    (_, Some(process)) => process.try_exit().is_none(),
                    (Plan::Script(script), _) => script.running_in(&self.uid) > 0,
                    _ => false,
                };
                if !busy {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep(grace) => {}
            // Removed by force meanwhile.
            _ = latest.wait_for(Option::is_none) => {}
        }
        self.kill9();
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().expect("no panic while held"))
    }
}

async fn bind(api: &Api<Pod>, name: &str) {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    });
    for _ in 0..50 {
        let bound: kube::Result<Value> =
            api.create_subresource("binding", name, &PostParams::default(), &binding).await;
        match bound {
            Ok(_) => return,
            // Bound already, or gone.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn remove(api: &Api<Pod>, pod: &Pod) {
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    for _ in 0..50 {
        match api.delete(&pod.name_any(), &now).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// A loopback address that no other pod of any test process on this machine has.
fn reserve(port: u16) -> (IpAddr, TcpListener) {
    loop {
        let random = uuid::Uuid::new_v4();
        let [a, b, c, ..] = *random.as_bytes();
        let part = |byte: u8| 1 + byte % 254;
        let ip = IpAddr::V4(Ipv4Addr::new(127, part(a), part(b), part(c)));
        if let Ok(listener) = TcpListener::bind((ip, RESERVING_PORT))
            && script::is_free(ip, port)
        {
            return (ip, listener);
        }
    }
}
