//! Bad input, at random: no reader panics, answers against its promise, or takes long. `make fuzz SECONDS=600`.
//!
//! Inputs are the committed ones of `tests/corpus`, in order; then, until the time is up, ones that the grammar makes and
//! others with bytes changed, from a seed that is printed. What fails is made smaller and printed, to be added to the
//! corpus. There is no coverage: engines that have it need a nightly compiler, or tools of the system.
//!
//! An example to cargo, which would build all programs for a test.
#![allow(clippy::disallowed_methods, reason = "it measures with the real clocks")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "it ends by a panic")]

mod cron;
mod duration;
mod engine;
mod zone;

#[path = "../support/dice.rs"]
mod dice;
#[path = "../support/expression.rs"]
mod expression;

use std::process::ExitCode;
use std::thread;

use engine::{Target, run};

const TARGETS: [Target; 3] = [
    Target { name: "cron", tokens: cron::TOKENS, draw: expression::draw, check: cron::check },
    Target { name: "duration", tokens: duration::TOKENS, draw: duration::draw, check: duration::check },
    Target { name: "zone", tokens: zone::TOKENS, draw: zone::draw, check: zone::check },
];

fn main() -> ExitCode {
    let running = TARGETS.map(|target| thread::spawn(move || run(&target)));
    let failed = running.into_iter().map(|target| target.join()).filter(Result::is_err).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
