//! The real `ax-worker`, over real sockets, with shell commands for tasks.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail tests")]

mod answers;
mod dedup;
mod ending;
mod limits;
mod refusals;
mod support;
