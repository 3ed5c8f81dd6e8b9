//! ax against a real API server: admission, roles and generated files first, then the operator at work.
#![allow(clippy::disallowed_methods, reason = "tests measure with the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]

#[path = "../support/mod.rs"]
mod support;

mod admission;
mod config;
mod contract;
mod crd;
mod harness;
mod lifecycle;
mod rbac;
mod scene;
mod schedules;
mod submit;
mod takeover;
mod timing;
mod waiting;
