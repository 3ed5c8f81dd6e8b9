//! ax runs delayed, scheduled, event-driven and manual tasks as plain Kubernetes resources.
//!
//! The map. Imports only go down; `api` and `domain` are pure: no clock, no client, no runtime.
//!
//! ```text
//! bin          arguments and wiring
//! dispatcher   the hand that sends: connections by pod uid, outcomes, ask-again, inventory questions
//! scheduler    the leader loop: task records, timers, ready queues, credits, status writes
//! cluster      the door to the API server: Lease, watches, status patches, Events
//! worker       the HTTP contract: wire names, the operator's connections, the ax-worker server
//! domain       PURE  lifecycle, wheel, schedule, election, retry, ready queue, credits, effective values
//! api          PURE  AxTask, AxTaskTemplate, conditions, durations, names
//! ops          a shelf beside the floors: clock, logs, health server
//! ```
//!
//! `ARCHITECTURE.md` follows one task through the named functions.

pub mod api;
pub mod cluster;
pub mod dispatcher;
pub mod domain;
pub mod ops;
pub mod scheduler;
pub mod worker;
