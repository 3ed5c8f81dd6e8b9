//! What goes from the leader loop to the hand that sends, and what comes back. Pure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::answer::{Failure, Verdict};
use super::credit::RateLimit;
use crate::api::Payload;

/// One attempt to be sent to one pod. Nothing is left open: the hand only obeys.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The leader loop's name for the task.
    pub task: u64,
    /// Namespace and name, for logs.
    pub name: Arc<str>,
    /// Execution id.
    pub execution: Uuid,
    /// Attempt number.
    pub attempt: u32,
    /// Term of the leader that decided this.
    pub term: u64,
    /// The pod.
    pub pod: Destination,
    /// Path of the request.
    pub path: String,
    /// Header names and values besides those that depend on the moment.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub payload: Option<Payload>,
    /// What remains of the attempt's timeout.
    pub timeout: Duration,
    /// Whether the attempt may have reached the pod already.
    pub repeat: bool,
}

/// One pod, as it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its address and the worker's port.
    pub addr: SocketAddr,
}

/// What the hand reports of a dispatch.
#[derive(Debug, Clone)]
pub struct Report {
    /// The leader loop's name for the task.
    pub task: u64,
    /// Execution id.
    pub execution: Uuid,
    /// Attempt number.
    pub attempt: u32,
    /// Term under which it was sent.
    pub term: u64,
    /// Uid of the pod.
    pub pod: Arc<str>,
    /// What the worker said of its room.
    pub room: Option<RateLimit>,
    /// What happened.
    pub what: What,
}

/// What happened to a dispatch. All but [`What::Busy`], [`What::TimedOut`]
/// and [`What::HigherTerm`] are the last report of it.
#[derive(Debug, Clone)]
pub enum What {
    /// The worker answered.
    Answered(Verdict),
    /// Another attempt of the execution runs there; the hand looks again.
    Busy,
    /// No answer within the timeout. The place is not free yet.
    TimedOut,
    /// The request that timed out has ended, or 30 s have passed: the place is free.
    Freed,
    /// The answer came after the timeout: the place is free, and a success may still count.
    Late(Verdict),
    /// Nobody will ever answer.
    Lost(Failure),
    /// The pod that answered 409 is gone.
    NeverStarted,
    /// This replica was not trusted to send any more: nothing went out.
    NotLeader,
    /// Asked again, the worker says it has seen a higher term; the hand asks on.
    HigherTerm(Option<u64>),
}

/// What a pod says of the executions it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inventory {
    /// Execution id, attempt, and whether it still runs there.
    Lists(Vec<Listed>),
    /// It keeps none (404, 405, 501).
    KeepsNone,
    /// No answer in time.
    Silent,
    /// It has seen a higher term.
    LowerTerm(Option<u64>),
}

/// One execution a pod lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Execution id.
    pub execution: Uuid,
    /// Attempt number.
    pub attempt: u32,
    /// Whether its answer is in the pod's journal.
    pub finished: bool,
}

/// What the leader loop orders from the hand.
#[derive(Debug)]
pub enum Order {
    /// Send this.
    Send(Box<Dispatch>),
    /// Nobody there will answer what was sent before now: the pod is gone or its container restarted.
    Cut {
        /// Uid of the pod.
        pod: Arc<str>,
        /// Why, for people.
        why: &'static str,
    },
    /// Ask this pod which executions it knows.
    Ask {
        /// The pod.
        pod: Destination,
        /// The reign in which it is asked: an answer counts in no other.
        reign: u64,
    },
}
