//! What the tests against a real API server share.
//!
//! A test makes a [`TestNamespace`]; from it come operators ([`Operator`], child processes with a ServiceAccount of their
//! own), worker Deployments ([`WorkerDeployment`], whose pods' kubelet is played by [`kubelet`]) and tasks ([`task`]).
//! Everything waits with a deadline and says what it waited for and what it saw last.
//!
//! IO lives on two runtimes: what a test awaits, on its own; what must outlive a test's runtime (the played kubelets, the
//! scripted workers, cleaning up), on the one of [`background`].
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub mod background;
pub mod cluster;
pub mod deployment;
pub mod dump;
pub mod kubelet;
pub mod namespace;
pub mod operator;
pub mod process;
pub mod samples;
pub mod script;
pub mod task;
pub mod template;
pub mod wait;
pub mod writes;

pub use cluster::Cluster;
pub use deployment::{PodHandle, WorkerDeployment};
pub use namespace::TestNamespace;
pub use operator::Operator;
pub use script::{Gate, Inventory, Reply, Request, Script};
pub use task::{Created, TaskMaker, task};
pub use wait::eventually;
pub use writes::StatusWrites;
