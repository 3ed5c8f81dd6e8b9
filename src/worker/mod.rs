//! The HTTP contract between ax and a worker pod.
//!
//! `wire` names what both sides share; `server` is the worker's side (`ax-worker`), `client` the operator's.

pub mod client;
pub mod server;
pub mod wire;
