//! Which pods a Deployment's tasks may go to. Pure.
//!
//! A pod belongs to a Deployment by owner uids (Deployment, ReplicaSet, Pod), never by labels, which anyone can forge.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use super::credit::DEFAULT_CREDITS;
use super::lifecycle::reason;

/// Namespace and name of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolKey {
    /// Namespace.
    pub namespace: String,
    /// Name of the Deployment.
    pub deployment: String,
}

/// A Deployment, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its uid.
    pub uid: String,
    /// Annotation `ax.dev/worker` is `"true"`.
    pub opted_in: bool,
    /// Annotation `ax.dev/credits-per-pod`, 1 to 1000.
    pub credits: Option<u32>,
    /// Container ports of its pod template.
    pub ports: Vec<u16>,
}

impl Deployment {
    /// Places in each of its pods.
    pub fn credits(&self) -> u32 {
        self.credits.unwrap_or(DEFAULT_CREDITS)
    }
}

/// A pod, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Uid of the ReplicaSet that controls it.
    pub replica_set: String,
    /// Its address.
    pub ip: Option<IpAddr>,
    /// Running and Ready.
    pub ready: bool,
    /// It has a deletion timestamp.
    pub terminating: bool,
    /// It shares the node's network.
    pub host_network: bool,
    /// Ids of its containers by name: another id means a restart.
    pub containers: BTreeMap<String, String>,
}

impl Pod {
    /// Whether tasks may be sent to it.
    pub fn takes_tasks(&self, allow_loopback: bool) -> bool {
        self.ready && !self.terminating && self.may_be_asked(allow_loopback)
    }

    /// Whether a container of the pod is another one than `before`.
    pub fn restarted_since(&self, before: &Self) -> bool {
        self.containers.iter().any(|(name, id)| before.containers.get(name).is_some_and(|old| old != id))
    }

    /// Whether ax may talk to it at all: a pod of its own network, at an address pods have.
    pub fn may_be_asked(&self, allow_loopback: bool) -> bool {
        !self.host_network && self.ip.is_some_and(|ip| is_pod_address(ip, allow_loopback))
    }
}

/// Whether an address can be a pod's. Pod status is data from outside: ax must not be led to other services.
pub fn is_pod_address(ip: IpAddr, allow_loopback: bool) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified() || ip.is_link_local() || ip.is_multicast() || ip.is_broadcast())
                && (allow_loopback || !ip.is_loopback())
        }
        IpAddr::V6(ip) => {
            !(ip.is_unspecified() || ip.is_unicast_link_local() || ip.is_multicast())
                && (allow_loopback || !ip.is_loopback())
        }
    }
}

/// All Deployments, ReplicaSets and pods, joined by owner uid.
#[derive(Debug, Default)]
pub struct Pools {
    deployments: HashMap<PoolKey, Deployment>,
    /// Deployment uid to its key.
    keys: HashMap<String, PoolKey>,
    /// ReplicaSet uid to its Deployment's uid.
    replica_sets: HashMap<String, String>,
    /// Deployment uid to its ReplicaSets' uids; in order, so that nothing depends on a hash.
    sets_of: HashMap<String, BTreeSet<String>>,
    pods: HashMap<String, Pod>,
    /// ReplicaSet uid to pod uids.
    by_replica_set: HashMap<String, BTreeSet<String>>,
}

impl Pools {
    /// Takes a Deployment in.
    pub fn set_deployment(&mut self, key: PoolKey, deployment: Deployment) {
        if let Some(old) = self.deployments.get(&key).filter(|old| old.uid != deployment.uid) {
            self.keys.remove(&old.uid);
        }
        self.keys.insert(deployment.uid.clone(), key.clone());
        self.deployments.insert(key, deployment);
    }

    /// Drops a Deployment.
    pub fn drop_deployment(&mut self, key: &PoolKey, uid: &str) {
        if self.deployments.get(key).is_some_and(|d| d.uid == uid) {
            self.deployments.remove(key);
        }
        self.keys.remove(uid);
    }

    /// Takes a ReplicaSet in.
    pub fn set_replica_set(&mut self, uid: String, deployment_uid: String) {
        self.sets_of.entry(deployment_uid.clone()).or_default().insert(uid.clone());
        self.replica_sets.insert(uid, deployment_uid);
    }

    /// Drops a ReplicaSet.
    pub fn drop_replica_set(&mut self, uid: &str) {
        let Some(deployment) = self.replica_sets.remove(uid) else { return };
        if let Some(sets) = self.sets_of.get_mut(&deployment) {
            sets.remove(uid);
            if sets.is_empty() {
                self.sets_of.remove(&deployment);
            }
        }
    }

    /// Takes a pod in; gives back what was known of it.
    pub fn set_pod(&mut self, mut pod: Pod) -> Option<Pod> {
        // Between two containers there is none for a while: the last one known is what the next is compared with.
        if let Some(before) = self.pods.get(&pod.uid) {
            for (name, id) in &before.containers {
                pod.containers.entry(name.clone()).or_insert_with(|| id.clone());
            }
        }
        self.by_replica_set.entry(pod.replica_set.clone()).or_default().insert(pod.uid.clone());
        self.pods.insert(pod.uid.clone(), pod)
    }

    /// Drops a pod.
    pub fn drop_pod(&mut self, uid: &str) -> Option<Pod> {
        let pod = self.pods.remove(uid)?;
        if let Some(pods) = self.by_replica_set.get_mut(&pod.replica_set) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_replica_set.remove(&pod.replica_set);
            }
        }
        Some(pod)
    }

    /// A Deployment.
    pub fn deployment(&self, key: &PoolKey) -> Option<&Deployment> {
        self.deployments.get(key)
    }

    /// A pod.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid)
    }

    /// All pods, of whatever owner.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// All Deployments.
    pub fn deployments(&self) -> impl Iterator<Item = (&PoolKey, &Deployment)> {
        self.deployments.iter()
    }

    /// The Deployment a pod belongs to, in the pod's own namespace.
    pub fn key_of(&self, pod: &Pod) -> Option<&PoolKey> {
        let deployment = self.replica_sets.get(&pod.replica_set)?;
        self.keys.get(deployment).filter(|key| key.namespace == pod.namespace)
    }

    /// The pods of a Deployment, in the order of ReplicaSets and uids.
    pub fn pods_of<'a>(&'a self, key: &'a PoolKey) -> impl Iterator<Item = &'a Pod> {
        let sets = self.deployments.get(key).and_then(|d| self.sets_of.get(&d.uid));
        sets.into_iter()
            .flatten()
            .filter_map(|set| self.by_replica_set.get(set))
            .flatten()
            .filter_map(|uid| self.pods.get(uid))
            .filter(|pod| pod.namespace == key.namespace)
    }

    /// What keeps tasks of this pool and port from being queued, if anything; for people too.
    pub fn why_blocked(&self, key: &PoolKey, port: u16) -> Option<(&'static str, String)> {
        let PoolKey { namespace, deployment: name } = key;
        let Some(deployment) = self.deployments.get(key) else {
            return Some((
                reason::WORKER_NOT_FOUND,
                format!(
                    "Deployment {name} does not exist in namespace {namespace}; create it, or correct worker.deployment"
                ),
            ));
        };
        if !deployment.opted_in {
            return Some((
                reason::WORKER_NOT_OPTED_IN,
                format!(
                    "Deployment {name} does not carry the annotation ax.dev/worker: \"true\"; set it to let ax send tasks to its pods"
                ),
            ));
        }
        if !deployment.ports.contains(&port) {
            return Some((
                reason::PORT_NOT_DECLARED,
                format!(
                    "Deployment {name} declares no containerPort {port} (it declares {:?}); declare it, or correct worker.port",
                    deployment.ports
                ),
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, set: &str, namespace: &str) -> Pod {
        Pod {
            namespace: namespace.to_owned(),
            name: format!("pod-{uid}"),
            uid: uid.to_owned(),
            replica_set: set.to_owned(),
            ip: "10.0.0.7".parse().ok(),
            ready: true,
            terminating: false,
            host_network: false,
            containers: BTreeMap::new(),
        }
    }

    fn key(namespace: &str) -> PoolKey {
        PoolKey { namespace: namespace.to_owned(), deployment: "w".to_owned() }
    }

    #[test]
    fn pods_are_joined_by_owner_uid_in_whatever_order_they_are_seen() {
        let mut pools = Pools::default();
        pools.set_pod(pod("p1", "rs1", "a"));
        pools.set_replica_set("rs1".to_owned(), "d1".to_owned());
        let deployment = Deployment { uid: "d1".to_owned(), opted_in: true, credits: None, ports: vec![8080] };
        pools.set_deployment(key("a"), deployment.clone());
        assert_eq!(pools.pods_of(&key("a")).count(), 1);
        assert_eq!(pools.key_of(&pod("p1", "rs1", "a")), Some(&key("a")));
        // The same name made again owns none of the old pods.
        pools.set_deployment(key("a"), Deployment { uid: "d2".to_owned(), ..deployment });
        assert_eq!(pools.pods_of(&key("a")).count(), 0);
    }

    #[test]
    fn a_restart_is_seen_across_the_moment_without_a_container() {
        let with = |id: Option<&str>| {
            let containers = id.map(|id| ("c".to_owned(), id.to_owned())).into_iter().collect();
            Pod { containers, ..pod("p1", "rs1", "a") }
        };
        let mut pools = Pools::default();
        pools.set_pod(with(Some("one")));
        let between = pools.set_pod(with(None)).expect("known");
        assert!(!pools.pod("p1").expect("a pod").restarted_since(&between));
        let before = pools.set_pod(with(Some("two"))).expect("known");
        assert!(pools.pod("p1").expect("a pod").restarted_since(&before));
    }

    #[test]
    fn c143_a_pod_of_another_namespace_is_never_in_the_pool() {
        let mut pools = Pools::default();
        pools.set_replica_set("rs1".to_owned(), "d1".to_owned());
        let deployment = Deployment { uid: "d1".to_owned(), opted_in: true, credits: None, ports: vec![] };
        pools.set_deployment(key("a"), deployment);
        pools.set_pod(pod("p1", "rs1", "b"));
        assert_eq!(pools.pods_of(&key("a")).count(), 0);
        assert_eq!(pools.key_of(&pod("p1", "rs1", "b")), None);
    }

    #[test]
    fn c145_addresses_that_are_no_pod_s_are_refused() {
        for (ip, want) in [
            ("10.244.0.7", true),
            ("fd00::7", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("169.254.169.254", false),
            ("::ffff:169.254.169.254", false),
            ("fe80::1", false),
            ("224.0.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
        ] {
            let ip = ip.parse().expect("an address");
            assert_eq!(is_pod_address(ip, false), want, "{ip}");
        }
        assert!(is_pod_address("127.1.0.5".parse().expect("an address"), true));
        let host = Pod { host_network: true, ..pod("p", "rs", "a") };
        assert!(!host.takes_tasks(true));
    }
}
