//! The cases all structures go through, and what is wanted of them.

use std::collections::HashMap;

use ax::domain::wheel::Wheel;

use crate::cpu::{Cpu, Random, median};
use crate::peers::{Delays, Heap, Map, Timers};
use crate::report::{Row, row};

const DAY: u64 = 24 * 3600 * 1000;
/// Calls of `advance` that a range is cut into.
const STEPS: u64 = 2000;

/// Where figures go: case and metric.
type Figures = Vec<(String, &'static str, f64)>;

struct Session {
    cpu: Cpu,
    random: Random,
    out: Figures,
}

/// What was delivered, to be compared with what was inserted.
#[derive(Default)]
struct Tally {
    count: u64,
    sum: u64,
}

impl Tally {
    fn take(&mut self, payload: u64) {
        self.count += 1;
        self.sum += payload;
    }

    fn check(&self, count: u64) {
        assert_eq!((self.count, self.sum), (count, count * (count - 1) / 2), "deliveries");
    }
}

impl Session {
    fn note(&mut self, case: &str, metric: &'static str, value: f64) {
        self.out.push((case.to_owned(), metric, value));
    }

    /// Filled with `first`, cancelled in random order, filled with `dues`.
    fn aged<T: Timers>(&mut self, case: &str, first: &[u64], dues: &[u64]) -> T {
        let mut timers = T::new();
        let mut ids: Vec<T::Id> = first.iter().zip(0..).map(|(due, payload)| timers.insert(*due, payload)).collect();
        self.random.shuffle(&mut ids);
        // A DelayQueue looks through the nearest slot at each removal: this one has it alone.
        let guard = timers.insert(1, 0);
        let count = dues.len() as f64;
        let (took, gone) = self.cpu.time(|| ids.iter().filter(|id| timers.cancel(**id)).count());
        assert_eq!(gone, dues.len());
        self.note(case, "cancel", took / count);
        timers.cancel(guard);
        let (took, ()) = self.cpu.time(|| {
            for (due, payload) in dues.iter().zip(0..) {
                timers.insert(*due, payload);
            }
        });
        self.note(case, "insert, refill", took / count);
        timers
    }

    fn advance<T: Timers>(&self, timers: &mut T, to: u64, sink: impl FnMut(u64)) -> f64 {
        timers.wind(to);
        self.cpu.time(|| timers.advance(to, sink)).0
    }

    /// Insert, cancel and fire.
    fn fire<T: Timers>(&mut self, within: &str, range: u64, count: u64) {
        let case = format!("{count} in {within}");
        let dues: Vec<u64> = (0..count).map(|_| 2 + self.random.below(range - 1)).collect();
        let (mut timers, mut tally, mut took) = (self.aged::<T>(&case, &dues, &dues), Tally::default(), 0.0);
        for step in 1..=STEPS {
            took += self.advance(&mut timers, range * step / STEPS, |payload| tally.take(payload));
        }
        tally.check(count);
        self.note(&case, "fire", took / count as f64);
    }

    /// Whatever fires is armed again.
    fn rolling<T: Timers>(&mut self, within: &str, range: u64, count: u64) {
        let case = format!("rolling {within}, {count}");
        let mut timers = T::new();
        for payload in 0..count {
            timers.insert(1 + self.random.below(range), payload);
        }
        let (mut due, mut took, mut worst, mut fired) = (Vec::new(), 0.0, 0f64, 0);
        for step in 1..=3 * STEPS {
            let now = range * step / STEPS;
            let advance = self.advance(&mut timers, now, |payload| due.push(payload));
            let next: Vec<(u64, u64)> =
                due.drain(..).map(|payload| (now + 1 + self.random.below(range), payload)).collect();
            let (insert, ()) = self.cpu.time(|| {
                for (due, payload) in &next {
                    timers.insert(*due, *payload);
                }
            });
            // Two ranges of warm-up.
            if step > 2 * STEPS {
                took += advance + insert;
                worst = worst.max(advance);
                fired += next.len();
            }
        }
        self.note(&case, "fire and insert", took / fired as f64);
        self.note(&case, "worst advance", worst / 1e6);
    }

    /// One call takes all.
    fn at_once<T: Timers>(&mut self, case: &str, metric: &'static str, dues: &[u64], to: u64, all: bool) {
        let spread: Vec<u64> = dues.iter().map(|_| 100 + self.random.below(DAY)).collect();
        let (mut timers, mut tally) = (self.aged::<T>("", &spread, dues), Tally::default());
        let took = self.advance(&mut timers, to, |payload| tally.take(payload));
        if all {
            tally.check(dues.len() as u64);
        }
        self.note(case, metric, took / dues.len() as f64);
    }

    fn all<T: Timers>(&mut self, big: bool) {
        let counts: &[u64] = if big { &[1_000_000] } else { &[10_000, 100_000] };
        for count in counts {
            self.fire::<T>("2 s", 2000, *count);
            self.fire::<T>("24 h", DAY, *count);
        }
        if !big {
            self.rolling::<T>("2 s", 2000, 100_000);
            self.at_once::<T>("100000 on one tick", "fire", &vec![5000; 100_000], 5000, true);
            return;
        }
        self.rolling::<T>("2 s", 2000, 1_000_000);
        self.rolling::<T>("60 s", 60_000, 1_000_000);
        self.rolling::<T>("24 h", DAY, 1_000_000);
        let slot = 64u64.pow(3);
        let dues: Vec<u64> = (0..1_000_000).map(|_| 2 * slot + self.random.below(slot)).collect();
        self.at_once::<T>("cascade of 1000000, aged", "a move", &dues, 2 * slot, false);
        let dues: Vec<u64> = (0..1_000_000).map(|_| 1 + self.random.below(DAY)).collect();
        self.at_once::<T>("catch-up of 24 h, 1000000 due", "fire", &dues, DAY, true);
    }
}

fn session<T: Timers>(big: bool) -> Figures {
    let mut session = Session { cpu: Cpu::new(), random: Random(7), out: Vec::new() };
    session.all::<T>(big);
    session.out
}

/// Name of a structure, and its part of the work.
type Peer = (&'static str, fn(bool) -> Figures);

const PEERS: [Peer; 4] = [
    (<Wheel<u64> as Timers>::NAME, session::<Wheel<u64>>),
    (Delays::NAME, session::<Delays>),
    (Heap::NAME, session::<Heap>),
    (Map::NAME, session::<Map>),
];

/// All repetitions of one figure, by structure.
type Measured = HashMap<(String, &'static str, &'static str), Vec<f64>>;

pub fn rows(say: impl Fn(&str)) -> Vec<Row> {
    let (mut measured, mut random) = (Measured::new(), Random(8));
    let asked = std::env::var("AX_BENCH_REPEAT").ok().and_then(|text| text.parse().ok());
    for (big, repetitions) in [(false, asked.unwrap_or(3)), (true, asked.unwrap_or(2))] {
        for repetition in 1..=repetitions {
            let mut peers = PEERS;
            random.shuffle(&mut peers);
            for (name, session) in peers {
                let size = if big { "1000000" } else { "up to 100000" };
                say(&format!("{size}, {repetition} of {repetitions}: {name}"));
                for (case, metric, value) in session(big) {
                    measured.entry((case, metric, name)).or_default().push(value);
                }
            }
        }
    }
    targets(&measured)
}

fn targets(measured: &Measured) -> Vec<Row> {
    let of = |case: &str, metric: &'static str, name: &'static str| measured[&(case.to_owned(), metric, name)].clone();
    let unit = |metric: &str| if metric == "worst advance" { "ms" } else { "ns" };
    // Beside a peer: medians, and the median of the ratios of each repetition.
    let beside = |case: &str, metric: &'static str, peer: &'static str, share: Option<f64>| {
        let (mut ax, mut other) = (of(case, metric, "ax"), of(case, metric, peer));
        let mut ratios: Vec<f64> = ax.iter().zip(&other).map(|(ax, other)| ax / other).collect();
        let row = row(case, metric, unit(metric)).ax(median(&mut ax)).peer(peer, median(&mut other));
        let row = row.ratio(median(&mut ratios));
        share.map_or(row.clone(), |share| row.at_most_of_peer(share))
    };
    let most = |case: &str, metric: &'static str, limit: f64| {
        row(case, metric, unit(metric)).ax(median(&mut of(case, metric, "ax"))).at_most(limit)
    };
    let (queue, map, heap) = (Delays::NAME, Map::NAME, Heap::NAME);
    let mut rows = Vec::new();
    for (count, gated) in [("10000", false), ("100000", true), ("1000000", true)] {
        let million = count == "1000000";
        for (within, fire, ordered) in [("2 s", 0.15, 0.7), ("24 h", 0.2, 1.6)] {
            let case = format!("{count} in {within}");
            rows.push(beside(&case, "fire", queue, gated.then_some(fire)));
            rows.push(beside(&case, "fire", map, million.then_some(ordered)));
            rows.push(beside(&case, "fire", heap, None));
            rows.push(beside(&case, "insert, refill", queue, Some(if million { 0.25 } else { 0.35 })));
            rows.push(beside(&case, "insert, refill", map, None));
            rows.push(beside(&case, "cancel", queue, Some(0.3)));
            rows.push(beside(&case, "cancel", map, million.then_some(0.15)));
        }
    }
    for (case, share, worst) in [
        ("rolling 2 s, 100000", 0.25, 0.05),
        ("rolling 2 s, 1000000", 0.15, 0.02),
        ("rolling 60 s, 1000000", 0.25, 0.2),
        ("rolling 24 h, 1000000", 0.25, 0.2),
    ] {
        rows.push(beside(case, "fire and insert", queue, Some(share)));
        rows.push(beside(case, "fire and insert", map, None));
        rows.push(beside(case, "fire and insert", heap, None));
        rows.push(beside(case, "worst advance", queue, Some(worst)));
        rows.push(beside(case, "worst advance", map, None));
    }
    rows.push(most("rolling 2 s, 1000000", "worst advance", 2.0));
    for (case, metric, share, limit) in [
        ("100000 on one tick", "fire", 0.1, 16.0),
        ("cascade of 1000000, aged", "a move", 0.15, 25.0),
        ("catch-up of 24 h, 1000000 due", "fire", 0.2, 120.0),
    ] {
        rows.push(beside(case, metric, queue, Some(share)));
        rows.push(most(case, metric, limit));
    }
    rows
}
