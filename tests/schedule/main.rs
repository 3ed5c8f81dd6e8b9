//! Schedules against models that share no code with them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail tests")]

mod changes;
mod compare;
mod other;
mod pairs;
mod rule;

#[path = "../support/dice.rs"]
mod dice;
#[path = "../support/expression.rs"]
mod expression;
