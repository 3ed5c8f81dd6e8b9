//! A small world for the election: electors on clocks of their own, one Lease, and a network that delays, loses and
//! refuses. Times are milliseconds of true time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Action, Config, Elector, LeaseRecord, LossReason, Notice};

/// True time at which every world starts, by a wall clock that is right.
pub const EPOCH_MS: i64 = 1_790_000_000_000;

/// What the network and the API server do with one call.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    /// Until the request is carried out; `None` = it never arrives.
    pub there: Option<u64>,
    /// From then to the answer; `None` = the answer is lost.
    pub back: Option<u64>,
    /// The API server answers an error; a write is not carried out.
    pub refused: bool,
}

pub const QUICK: Fate = Fate { there: Some(2), back: Some(2), refused: false };
pub const HANGS: Fate = Fate { there: None, back: None, refused: false };
pub const REFUSED: Fate = Fate { there: Some(2), back: Some(2), refused: true };

/// What people and machines do meanwhile.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    Delete,
    /// `kubectl edit`: another holder.
    Steal,
    /// `kubectl edit`: no holder, everything else as it was.
    Empty,
    /// Something beside the claim.
    Label,
    Crash(usize),
    /// Gives the Lease back, then starts anew under another identity.
    Release(usize),
    Freeze(usize, u64),
    RaiseTerm(usize),
    /// Its wall clock is set, by so many milliseconds.
    StepWall(usize, i64),
}

/// A wrong election, to prove that the checker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    None,
    TrustFromTheAnswer,
    NoResourceVersion,
    CreatorDoesNotWait,
}

/// A stretch in which a node could start something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    pub node: usize,
    pub term: u64,
    pub from: u64,
    pub until: u64,
}

struct Flight {
    action: Action,
    lands_at: Option<u64>,
    /// When the answer, or the timeout, reaches the caller.
    ends_at: u64,
    /// `None` = it will time out.
    answer_at: Option<u64>,
    refused: bool,
    result: Option<Result<Option<LeaseRecord>, ()>>,
}

pub struct Node {
    pub elector: Elector,
    pub notices: Vec<(u64, Notice)>,
    /// True times at which it wrote.
    pub writes: Vec<u64>,
    config: Config,
    origin: u64,
    wall_off: i64,
    starts: u32,
    wakes_at: u64,
    frozen_until: u64,
    flight: Option<Flight>,
    open: Option<Stretch>,
    /// What a mutant believes beyond the end of trust.
    too_long: Option<Stretch>,
    /// (start, answer) of the calls that were answered, for a mutant.
    answered: Vec<(u64, u64)>,
    dead: bool,
}

/// Decides the fate of (node, now, call).
type Network = Box<dyn FnMut(usize, u64, &Action) -> Fate>;

pub struct World {
    pub now: u64,
    pub lease: Option<LeaseRecord>,
    pub nodes: Vec<Node>,
    pub stretches: Vec<Stretch>,
    version: u64,
    mutant: Mutant,
    /// Requests whose callers no longer wait.
    strays: Vec<(u64, Action)>,
    events: Vec<(u64, Event)>,
    fate: Network,
}

impl World {
    pub fn new(fate: impl FnMut(usize, u64, &Action) -> Fate + 'static) -> Self {
        Self {
            now: 0,
            lease: None,
            nodes: Vec::new(),
            stretches: Vec::new(),
            version: 100,
            mutant: Mutant::None,
            strays: Vec::new(),
            events: Vec::new(),
            fate: Box::new(fate),
        }
    }

    pub fn quick() -> Self {
        Self::new(|_, _, _| QUICK)
    }

    pub fn mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = mutant;
        self
    }

    pub fn lease(mut self, record: LeaseRecord) -> Self {
        self.version += 1;
        self.lease = Some(LeaseRecord { resource_version: self.version.to_string(), ..record });
        self
    }

    /// A replica that starts at `starts_at`, with a monotonic clock `origin` ahead and a wall clock `wall_off` ahead.
    pub fn node(mut self, config: Config, starts_at: u64, origin: u64, wall_off: i64) -> Self {
        let index = self.nodes.len();
        self.nodes.push(Node {
            elector: elector(index, 0, config),
            notices: Vec::new(),
            writes: Vec::new(),
            config,
            origin,
            wall_off,
            starts: 0,
            wakes_at: starts_at,
            frozen_until: 0,
            flight: None,
            open: None,
            too_long: None,
            answered: Vec::new(),
            dead: false,
        });
        self
    }

    pub fn at(mut self, ms: u64, event: Event) -> Self {
        self.events.push((ms, event));
        self.events.sort_by_key(|(at, _)| *at);
        self
    }

    pub fn run(mut self, until: u64) -> Self {
        while let Some(next) = self.next_instant().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.step();
        }
        self.now = until;
        for index in 0..self.nodes.len() {
            self.close(index);
        }
        self
    }

    /// What the nodes heard, in order.
    pub fn heard(&self, node: usize) -> Vec<&Notice> {
        self.nodes[node].notices.iter().map(|(_, notice)| notice).collect()
    }

    /// When a node could start things.
    pub fn led(&self, node: usize) -> Vec<(u64, u64)> {
        self.stretches.iter().filter(|s| s.node == node).map(|s| (s.from, s.until)).collect()
    }

    fn next_instant(&self) -> Option<u64> {
        let nodes = self.nodes.iter().filter(|node| !node.dead).map(|node| {
            let wakes = node.flight.as_ref().map_or(node.wakes_at, |flight| flight.ends_at);
            wakes.max(node.frozen_until)
        });
        let landings = self.nodes.iter().filter_map(|node| node.flight.as_ref()?.lands_at);
        nodes
            .chain(landings)
            .chain(self.strays.iter().map(|(at, _)| *at))
            .chain(self.events.first().map(|(at, _)| *at))
            .min()
    }

    fn step(&mut self) {
        if let Some(at) = self.strays.iter().position(|(at, _)| *at <= self.now) {
            let (_, action) = self.strays.swap_remove(at);
            let _ = self.carry_out(&action);
            return;
        }
        if self.events.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, event) = self.events.remove(0);
            self.happen(event);
            return;
        }
        for index in 0..self.nodes.len() {
            let due = self.nodes[index].flight.as_ref().is_some_and(|f| f.lands_at.is_some_and(|at| at <= self.now));
            if due {
                self.land(index);
                return;
            }
        }
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let wakes = node.flight.as_ref().map_or(node.wakes_at, |flight| flight.ends_at).max(node.frozen_until);
            if !node.dead && wakes <= self.now {
                self.wake(index);
                return;
            }
        }
    }

    fn land(&mut self, index: usize) {
        let Some(flight) = self.nodes[index].flight.as_mut() else { return };
        flight.lands_at = None;
        let (action, refused) = (flight.action.clone(), flight.refused);
        let result = if refused { Err(()) } else { self.carry_out(&action) };
        if let Some(flight) = self.nodes[index].flight.as_mut() {
            flight.result = Some(result);
        }
    }

    /// The API server.
    fn carry_out(&mut self, action: &Action) -> Result<Option<LeaseRecord>, ()> {
        match action {
            Action::Read { .. } => Ok(self.lease.clone()),
            Action::Create { record, .. } => {
                if self.lease.is_some() && self.mutant != Mutant::NoResourceVersion {
                    return Err(());
                }
                Ok(Some(self.store(record)))
            }
            Action::Write { record, .. } => {
                let stored = self.lease.as_ref().ok_or(())?;
                if stored.resource_version != record.resource_version && self.mutant != Mutant::NoResourceVersion {
                    return Err(());
                }
                Ok(Some(self.store(record)))
            }
            Action::Wait { .. } | Action::Stop => Err(()),
        }
    }

    fn store(&mut self, record: &LeaseRecord) -> LeaseRecord {
        self.version += 1;
        let stored = LeaseRecord { resource_version: self.version.to_string(), ..record.clone() };
        self.lease = Some(stored.clone());
        stored
    }

    fn wake(&mut self, index: usize) {
        let now = self.now;
        let node = &mut self.nodes[index];
        let mono = node.mono(now);
        if let Some(flight) = node.flight.take() {
            let answered = flight.answer_at.is_some_and(|at| at <= flight.ends_at);
            let reading = matches!(flight.action, Action::Read { .. });
            match flight.result.filter(|_| answered) {
                Some(Ok(record)) if reading => node.elector.on_read(record, mono),
                Some(Ok(Some(record))) => node.elector.on_written(record, mono),
                Some(Ok(None) | Err(())) | None if reading => node.elector.on_read_failed(mono),
                Some(Ok(None) | Err(())) | None => node.elector.on_write_failed(mono),
            }
            if let Some((_, answer)) = node.answered.last_mut() {
                *answer = now;
            }
            if let Some(at) = flight.lands_at.filter(|_| !flight.refused) {
                self.strays.push((at, flight.action));
            }
        }
        self.ask(index);
        self.measure(index);
    }

    fn ask(&mut self, index: usize) {
        let now = self.now;
        let node = &mut self.nodes[index];
        let (mono, wall) = (node.mono(now), node.wall(now));
        // Statuses carry the terms of those who started something; every replica watches them.
        for stretch in &self.stretches {
            node.elector.saw_term(stretch.term, wall);
        }
        let roll = u32::try_from(now * 7_919 % 1_000_001).expect("a roll");
        let action = node.elector.next(mono, wall, roll);
        let timeout = match &action {
            Action::Wait { until } => {
                assert!(*until > mono, "waits for the past: until={until:?} now={mono:?}");
                node.wakes_at = now + ms(*until - mono).max(1);
                return;
            }
            Action::Stop => {
                self.measure(index);
                let node = &mut self.nodes[index];
                node.starts += 1;
                node.elector = elector(index, node.starts, node.config);
                node.wakes_at = now + 2_000;
                return;
            }
            Action::Read { timeout } => ms(*timeout),
            Action::Create { timeout, .. } | Action::Write { timeout, .. } => {
                node.writes.push(now);
                node.answered.push((now, now));
                ms(*timeout)
            }
        };
        let fate = (self.fate)(index, now, &action);
        let lands_at = fate.there.map(|there| now + there);
        let answer_at = lands_at.and_then(|at| fate.back.map(|back| at + back));
        let ends_at = answer_at.unwrap_or(u64::MAX).min(now + timeout.max(1));
        node.flight = Some(Flight { action, lands_at, ends_at, answer_at, refused: fate.refused, result: None });
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Delete => self.lease = None,
            Event::Steal => self.edit(|lease| lease.holder = "x".to_owned()),
            Event::Empty => self.edit(|lease| lease.holder = String::new()),
            Event::Label => self.edit(|_| ()),
            Event::Crash(index) => {
                if let Some(flight) = self.nodes[index].flight.take()
                    && let Some(at) = flight.lands_at
                {
                    self.strays.push((at, flight.action));
                }
                self.nodes[index].dead = true;
                self.close(index);
            }
            Event::Release(index) => {
                let mono = self.nodes[index].mono(now);
                self.nodes[index].elector.release(mono);
                self.nodes[index].wakes_at = now;
            }
            Event::Freeze(index, for_ms) => self.nodes[index].frozen_until = now + for_ms,
            Event::RaiseTerm(index) => {
                let node = &mut self.nodes[index];
                let (mono, wall) = (node.mono(now), node.wall(now));
                if let Some(reign) = node.elector.reign(mono) {
                    node.elector.raise_term_above(reign.term + 7, wall);
                }
                node.wakes_at = now;
            }
            Event::StepWall(index, by) => self.nodes[index].wall_off += by,
        }
        for index in 0..self.nodes.len() {
            self.measure(index);
        }
    }

    fn edit(&mut self, edit: impl FnOnce(&mut LeaseRecord)) {
        if let Some(mut lease) = self.lease.clone() {
            edit(&mut lease);
            self.store(&lease);
        }
    }

    /// Notes since when, and until when, the node can start things.
    fn measure(&mut self, index: usize) {
        self.close(index);
        let (now, mutant) = (self.now, self.mutant);
        let node = &mut self.nodes[index];
        for notice in node.elector.take_notices() {
            node.notices.push((now, notice));
        }
        if node.dead {
            return;
        }
        let Some(reign) = node.elector.reign(node.mono(now)) else {
            let overdue = matches!(node.notices.last(), Some((_, Notice::Lost { reason: LossReason::TrustEnded })));
            node.open = node.too_long.clone().filter(|stretch| overdue && now < stretch.until);
            if let Some(open) = &mut node.open {
                open.from = now;
            }
            return;
        };
        let mut from = node.truth(reign.may_start_at).max(now);
        let until = node.truth(reign.trusted_until);
        if mutant == Mutant::CreatorDoesNotWait {
            from = now;
        }
        let stretch = Stretch { node: index, term: reign.term, from, until };
        if mutant == Mutant::TrustFromTheAnswer {
            let proved = node.truth(reign.proved_at);
            let late = node.answered.iter().find(|(start, _)| *start == proved).map_or(0, |(start, end)| end - start);
            node.too_long = Some(Stretch { until: until + late, ..stretch.clone() });
        }
        node.open = (from < until).then_some(stretch);
    }

    fn close(&mut self, index: usize) {
        let Some(mut open) = self.nodes[index].open.take() else { return };
        open.until = open.until.min(self.now);
        if open.from >= open.until {
            return;
        }
        match self.stretches.iter_mut().rev().find(|s| s.node == index) {
            Some(last) if last.until == open.from && last.term == open.term => last.until = open.until,
            Some(_) | None => self.stretches.push(open),
        }
    }
}

impl Node {
    fn mono(&self, now: u64) -> Duration {
        Duration::from_millis(now + self.origin)
    }

    fn truth(&self, mono: Duration) -> u64 {
        ms(mono).saturating_sub(self.origin)
    }

    fn wall(&self, now: u64) -> Timestamp {
        let right = Timestamp::from_millisecond(EPOCH_MS).expect("an instant");
        let now = i64::try_from(now).expect("short");
        right + SignedDuration::from_millis(now + self.wall_off)
    }
}

fn elector(index: usize, start: u32, config: Config) -> Elector {
    Elector::new(format!("ax-{index}-{start}"), Some(format!("10.0.{start}.{index}:8080")), config)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("short")
}

/// What must never be, whatever happens: two nodes that can start things at one instant, or a term that does not grow.
pub fn check(stretches: &[Stretch]) -> Result<(), String> {
    let mut sorted: Vec<_> = stretches.iter().collect();
    sorted.sort_by_key(|stretch| (stretch.from, stretch.until));
    for pair in sorted.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if first.node != second.node && second.from < first.until {
            return Err(format!("two leaders: {first:?} and {second:?}"));
        }
        if second.term < first.term || (second.term == first.term && first.node != second.node) {
            return Err(format!("the term did not grow: {first:?} and {second:?}"));
        }
    }
    Ok(())
}
