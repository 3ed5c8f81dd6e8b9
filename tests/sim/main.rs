//! ax on simulated time: the operator's own loops on a clock that a test moves, against a small fake API server, with
//! simulated workers. Days pass in seconds, and the same seed gives the same run. Cases that take longer than a minute of
//! real time are told here.
//!
//! ```ignore
//! let sim = Sim::new(11).slow_election().operators(2).worker("w", 30);
//! sim.run_for("1m");                        // a leader is there
//! sim.task("t").delay("6h").create();       // as a user; for the Deployment `w`
//! sim.run_for("7h");
//! assert_eq!(sim.starts("t").len(), 1);     // what the workers began, with times since the simulation began
//! assert_eq!(sim.phase("t"), Phase::Succeeded);
//! ```
//!
//! A test is a plain `#[test]`; time passes only in `run_for`, `run_until`, `stop` and `block_on`, and stands still between
//! them. The order of the makers counts: `election` before `operators`.
//!
//! | to | call |
//! |---|---|
//! | choose what a worker answers, and after how long | `workers("w", pods, credits, \|start\| Answer::status(500).after("20s"))` |
//! | edit, delete or look at any object | `make`, `patch`, `patch_object`, `delete`, `object`; `get`, `status`, `phase` of a task |
//! | hurt a replica | `crash(i)` (kill -9), `stop(i)` (SIGTERM), `network(i, State::Silent)`; `leader()` says which leads |
//! | hurt a worker | `lose_pod("w-0")` |
//! | set the wall clocks | `step_wall(by)`, or `replicas[i].machine.step_wall(by)` for one |
//! | lose the history of watches (410) | `server.store().compact()` |
//! | count what the API server was asked | `calls`, `calls_since` |
//! | compare runs | `fingerprint` |
//!
//! A call takes 1 to 3 ms each way, and so does an event of a watch; the seed says how long, and so who comes first.
//! `slow_election` renews every 15 s instead of every second: an hour then costs about 0.4 s of real time instead of 3.
//! `AX_SIM_LOG=debug` shows the replicas' logs.
//!
//! The fake API server (`api/`) does what `tests/contract` asks of the real one as well. It does *not*: validate or prune
//! (no schema, no CEL; of defaults only `suspend` and `phase`), server-side apply and other patches than merge patches,
//! delete or watch collections by path, stale reads, priority and fairness, managed fields, namespaces, roles, controllers
//! (the stage makes ReplicaSets and pods itself), and it collects garbage at once. A request for what it does not do is
//! answered 501 or 415.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends by a panic")]
#![allow(dead_code, reason = "later scenarios use the rest")]

mod api;
mod contract;
mod failover;
mod replica;
mod retries;
mod schedules;
mod stage;
mod timing;
mod worker;

pub use stage::Sim;
