//! The election's loop: does what `domain::election` decides, one call at a time. IO: GET, POST, PUT and watch of one
//! Lease.
//!
//! Nothing here decides. The loop reads the clocks *before* it asks for the next step, so that trust runs from the
//! start of a call; it publishes what the election says before and after each; and it never waits for anybody who
//! listens. Only a release ends it.

mod call;
mod leadership;
mod object;
mod watch;

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot, watch as watched};
use tracing::{info, warn};

use self::call::{Caller, Error};
pub use self::leadership::{Grant, Leadership, Trust};
use super::chain;
use super::client::Connector;
pub use super::server_clock::ServerClock;
use crate::domain::election::{Action, Config, Elector, LeaseRecord, LossReason, Notice, ROLL_MAX};
pub use crate::domain::offset::OffsetBounds;
use crate::ops::clock::{Clock, Reading};
use crate::ops::dice::Dice;

/// Clocks further apart than this are warned of, at most so often.
const OFFSET_LIMIT: SignedDuration = SignedDuration::from_secs(2);
const OFFSET_WARN_INTERVAL: Duration = Duration::from_secs(60);
/// Starts of writes that may still be proved: there are never more than a few.
const STARTS_KEPT: usize = 16;

/// Which Lease, and who we are.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    /// Where the Lease [`LEASE_NAME`] is.
    pub namespace: String,
    /// Name of this replica, usually the pod's. Something random is added: no two starts share an identity.
    pub identity: String,
    /// Where this replica takes callbacks.
    pub address: Option<String>,
    /// Checked by the caller.
    pub election: Config,
    /// For what is added to the identity, and for the spread of the pauses.
    pub dice: Dice,
}

/// The Lease of every installation.
pub const LEASE_NAME: &str = "ax-leader";

/// What the loop is told.
#[derive(Debug)]
pub enum LeaseCommand {
    /// A term seen in a status.
    SawTerm(u64),
    /// A worker refused our term and named this one.
    RaiseTermAbove(u64),
    /// Give the Lease back and end; answered when done. Whatever needs leadership must have stopped.
    Release(oneshot::Sender<()>),
}

/// What the loop tells. For acting, [`Leadership`] counts: an event may come late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The last `Observed` before it names the former holder's address.
    Acquired {
        term: u64,
        may_start_at: Duration,
    },
    TermRaised {
        term: u64,
    },
    Lost {
        reason: LossReason,
    },
    /// The Lease names another holder than before; `None` = nobody.
    Observed {
        holder: Option<String>,
        address: Option<String>,
        previous_address: Option<String>,
    },
}

impl From<Notice> for LeaseEvent {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Acquired { term, may_start_at, .. } => Self::Acquired { term, may_start_at },
            Notice::TermRaised { term } => Self::TermRaised { term },
            Notice::Lost { reason } => Self::Lost { reason },
            Notice::Observed { holder, address, previous_address } => {
                Self::Observed { holder, address, previous_address }
            }
        }
    }
}

/// Takes part in the election until told to release.
pub async fn run(
    config: LeaseConfig,
    connector: impl Into<Connector>,
    clock: Clock,
    mut commands: mpsc::Receiver<LeaseCommand>,
    events: mpsc::Sender<LeaseEvent>,
    leadership: Leadership,
    server_clock: ServerClock,
) {
    let LeaseConfig { namespace, identity, address, election, mut dice } = config;
    let identity = format!("{identity}_{}", dice.uuid().simple());
    let connector = connector.into();
    let mut caller = Caller::new(connector.clone(), &namespace, LEASE_NAME, clock, server_clock.clone());
    let (hint, mut hints) = watched::channel(None);
    let mut watch = pin!(watch::run(connector, &namespace, LEASE_NAME, hint));
    let mut seat = Seat {
        elector: Elector::new(identity, address, election),
        clock,
        server_clock,
        leadership,
        events,
        outbox: VecDeque::new(),
        starts: VecDeque::new(),
        released: Vec::new(),
        commands_open: true,
        warned_at: None,
    };
    loop {
        // 1. What is to be done, by clocks read before it is.
        let start = seat.read_clocks();
        let wall = seat.server_clock.at(start.wall);
        let action = seat.elector.next(start.mono, wall, roll(&mut dice));
        seat.publish();

        // 2. Do it; hear commands meanwhile.
        let call = match action {
            Action::Wait { until } => {
                let mut rest = pin!(tokio::time::sleep_until(clock.instant(until)));
                // In a fixed order, so that nothing depends on chance. None starves: all but commands are rare.
                tokio::select! {
                    biased;
                    () = &mut rest => {}
                    command = commands.recv(), if seat.commands_open => seat.obey(command),
                    Ok(()) = hints.changed() => {
                        if hints.borrow_and_update().as_deref() != seat.elector.holder() {
                            seat.elector.nudge(clock.mono());
                        }
                    }
                    true = seat.flush() => {}
                    never = &mut watch => match never {},
                }
                continue;
            }
            Action::Stop => break,
            Action::Read { timeout } => Call::Read { until: start.mono + timeout },
            Action::Create { record, timeout } => Call::Create { record, until: start.mono + timeout },
            Action::Write { record, timeout } => Call::Write { record, until: start.mono + timeout },
        };
        let reading = matches!(call, Call::Read { .. });
        if !reading {
            seat.started(start);
        }
        let answer = {
            let mut answer = pin!(call.make(&mut caller));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answer => break answer,
                    command = commands.recv(), if seat.commands_open => seat.obey(command),
                    never = &mut watch => match never {},
                }
            }
        };

        // 3. Learn from the answer.
        let now = seat.read_clocks().mono;
        match answer {
            Ok(record) if reading => seat.elector.on_read(record, now),
            Ok(Some(record)) => seat.elector.on_written(record, now),
            Ok(None) => seat.elector.on_write_failed(now),
            Err(error) => {
                let leading = seat.elector.reign(now).is_some();
                warn!(reason = error.reason(), error = chain(&error), leading, "lease call failed");
                if reading { seat.elector.on_read_failed(now) } else { seat.elector.on_write_failed(now) }
            }
        }
        seat.publish();
        seat.warn_of_offset(now);
    }
    for released in seat.released.drain(..) {
        let _ = released.send(()); // whoever asked may have gone
    }
    while let Some(event) = seat.outbox.pop_front() {
        let _ = seat.events.try_send(event);
    }
}

enum Call {
    Read { until: Duration },
    Create { record: LeaseRecord, until: Duration },
    Write { record: LeaseRecord, until: Duration },
}

impl Call {
    async fn make(self, caller: &mut Caller) -> Result<Option<LeaseRecord>, Error> {
        match self {
            Self::Read { until } => caller.read(until).await,
            Self::Create { record, until } => caller.create(&record, until).await.map(Some),
            Self::Write { record, until } => caller.replace(&record, until).await.map(Some),
        }
    }
}

/// What stands round the elector.
struct Seat {
    elector: Elector,
    clock: Clock,
    server_clock: ServerClock,
    leadership: Leadership,
    events: mpsc::Sender<LeaseEvent>,
    /// Events that the receiver has no room for yet.
    outbox: VecDeque<LeaseEvent>,
    /// All clocks at the starts of the last writes: trust runs from one of them.
    starts: VecDeque<Reading>,
    released: Vec<oneshot::Sender<()>>,
    commands_open: bool,
    warned_at: Option<Duration>,
}

impl Seat {
    /// Reads the clocks, and ends trust if any but the monotonic one says so; that one the elector watches itself.
    fn read_clocks(&mut self) -> Reading {
        let now = self.clock.reading();
        if self.leadership.trust().is_some_and(|trust| now.mono < trust.until.mono && !trust.holds(&now)) {
            self.elector.clock_jumped();
        }
        now
    }

    fn started(&mut self, start: Reading) {
        if self.starts.len() == STARTS_KEPT {
            self.starts.pop_front();
        }
        self.starts.push_back(start);
    }

    /// Says what the elector says: first to those who act, then to those who listen.
    fn publish(&mut self) {
        let reign = self.elector.reign(self.clock.mono());
        let trust = reign.and_then(|reign| {
            let proved = self.starts.iter().find(|start| start.mono == reign.proved_at)?;
            Some(Trust::new(&reign, proved))
        });
        self.leadership.set(trust);
        for notice in self.elector.take_notices() {
            match &notice {
                Notice::Acquired { term, .. } => info!(term, "lease acquired"),
                Notice::TermRaised { term } => info!(term, "term raised"),
                Notice::Lost { reason } => warn!(reason = reason.reason(), "lease lost"),
                Notice::Observed { holder, .. } => info!(holder = holder.as_deref().unwrap_or(""), "lease holder seen"),
            }
            self.outbox.push_back(notice.into());
        }
        while let Some(event) = self.outbox.pop_front() {
            match self.events.try_send(event) {
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                Err(mpsc::error::TrySendError::Full(event)) => {
                    self.outbox.push_front(event);
                    break;
                }
            }
        }
    }

    /// Sends one event that waits for room. `false` if none does.
    async fn flush(&mut self) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        if let Ok(room) = self.events.reserve().await
            && let Some(event) = self.outbox.pop_front()
        {
            room.send(event);
        }
        true
    }

    fn obey(&mut self, command: Option<LeaseCommand>) {
        let now = self.clock.now();
        let wall = self.server_clock.at(now.wall);
        match command {
            None => self.commands_open = false,
            Some(LeaseCommand::SawTerm(term)) => {
                let believed = self.elector.saw_term(term, wall);
                warn_unless(believed, term, wall);
            }
            Some(LeaseCommand::RaiseTermAbove(term)) => {
                let believed = self.elector.raise_term_above(term, wall);
                warn_unless(believed, term, wall);
            }
            Some(LeaseCommand::Release(released)) => {
                self.elector.release(now.mono);
                self.released.push(released);
                self.publish();
            }
        }
    }

    fn warn_of_offset(&mut self, now: Duration) {
        let Some(bounds) = self.server_clock.bounds().filter(|bounds| bounds.exceeds(OFFSET_LIMIT)) else { return };
        if self.warned_at.is_some_and(|at| now < at + OFFSET_WARN_INTERVAL) {
            return;
        }
        self.warned_at = Some(now);
        warn!(offset_ms = bounds.estimate().as_millis() as i64, "our clock and the API server's are apart");
    }
}

fn warn_unless(believed: bool, term: u64, now: Timestamp) {
    if !believed {
        warn!(term, now = %now, "a term more than a day ahead is not believed");
    }
}

fn roll(dice: &mut Dice) -> u32 {
    u32::try_from(dice.below(u64::from(ROLL_MAX) + 1)).unwrap_or(0)
}
