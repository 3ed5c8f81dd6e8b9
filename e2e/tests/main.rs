//! ax on a whole cluster: real pods from the images, installed by `config/default`. One file a promise of the README.
//!
//! `make e2e` runs them. Without `KUBECONFIG`, the node cluster "demo" of `e2e/cluster` is started (as root) and left up.
//! Each test has a namespace and workers of its own; the operator is shared, so whoever disturbs it is alone meanwhile.
#![allow(clippy::disallowed_methods, reason = "tests measure with the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]

#[path = "../../tests/support/mod.rs"]
mod support;

mod api_server;
mod cluster;
mod confinement;
mod install;
mod leader;
mod operator;
mod samples;
mod scene;
mod worker_pods;
