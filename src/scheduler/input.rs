//! What goes into the leader loop, and what it wants done. Pure values.

use k8s_openapi::api::core::v1::Pod;

use crate::api::{AxTask, AxTaskTemplate};
use crate::cluster::events::Told;
use crate::cluster::runs::{Made, Removal};
use crate::cluster::status::{StatusWrite, Written};
use crate::cluster::takeover::Listing;
use crate::cluster::watch::Change;
use crate::domain::dispatch::{Destination, Inventory, Order, Report};

/// Namespace and name of a task or template.
pub type Name = (String, String);

/// What the leader loop learns.
#[derive(Debug)]
pub enum Input {
    /// The API server says.
    Change(Change),
    /// The hand that sends says.
    Report(Report),
    /// A task's status write has ended.
    TaskWritten { task: u64, serial: u64, result: Written<AxTask> },
    /// A template's status write has ended.
    TemplateWritten { template: Name, serial: u64, result: Written<AxTaskTemplate> },
    /// The making of a run has ended.
    RunMade { template: Name, run: String, serial: u64, result: Made },
    /// The lists with which a leader begins.
    Listed { reign: u64, result: Result<Listing, String> },
    /// Of the pods a leader's caches did not know, those that exist.
    Fetched { reign: u64, result: Result<Vec<Pod>, String> },
    /// A pod's answer to an inventory question.
    Inventory { pod: Destination, reign: u64, inventory: Inventory },
    /// This replica leads from now on.
    Acquired { term: u64, may_start_at: std::time::Duration },
    /// It leads on under a higher term.
    TermRaised { term: u64 },
    /// It leads no more.
    Lost,
    /// It shall stop: nothing more is sent, what is known is written.
    Stop,
}

/// What the leader loop wants done.
#[derive(Debug)]
pub enum Output {
    /// For the hand that sends.
    Order(Order),
    /// Write this task's status. `task` is the leader loop's own name for it, `serial` comes back with the answer.
    WriteTask { task: u64, serial: u64, write: StatusWrite },
    /// Write this template's status.
    WriteTemplate { template: Name, serial: u64, write: StatusWrite },
    /// Make this run of a template. `serial` comes back with the answer.
    MakeRun { template: Name, serial: u64, run: Box<AxTask>, term: u64 },
    /// Delete this run, of which its template keeps no more.
    RemoveRun(Removal),
    /// Tell this by an Event.
    Tell(Told),
    /// List all tasks and templates from the newest state, for this reign.
    List { reign: u64 },
    /// Read these pods, of namespace and name, for this reign.
    FetchPods { reign: u64, pods: Vec<Name> },
    /// A term was seen somewhere.
    SawTerm(u64),
    /// A worker has seen a higher term than this leader's.
    RaiseTermAbove(u64),
}
