//! The leader loop: task records, timers, ready queues, credits, status writes.
//!
//! [`state::State`] is one synchronous struct: an [`input::Input`] goes in, [`input::Output`]s come out, `now` is an
//! argument. [`run`] is the loop around it: it waits for inputs and for the [`alarm`], and gives each output to the hand
//! that does it. One record per task uid, every event through [`crate::domain::lifecycle`], one status write at a time per
//! task, each on the resourceVersion of the last answer.

pub mod alarm;
pub mod input;
mod record;
mod request;
pub mod run;
pub mod state;
mod timers;
