//! From the command queue to the ready queue: the wheel, the alarm and the ready queue, driven as the leader loop does.

use std::time::Duration;

use ax::domain::ready::{Place, ReadyQueue};
use ax::domain::wheel::{Tick, Wheel};
use ax::ops::clock::Clock;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::report::{Row, row};
use crate::{Wake, quantile};

/// As the leader loop has them.
const BUDGET: usize = 1024;
const BATCH: usize = 256;
const CHANNEL: usize = 4096;
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Longest delay.
const RANGE: u64 = 2000;

pub async fn rows(rate: u64, time: Duration) -> Vec<Row> {
    let (ax, peer) = (measure(Wake::Alarm, rate, time).await, measure(Wake::SleepUntil, rate, time).await);
    let case = format!("{rate}/s, delays of 0 to 2 s");
    let beside = |metric: &str, share: f64| {
        row(&case, metric, "ms").ax(quantile(&ax, share)).peer(Wake::PEER, quantile(&peer, share))
    };
    let early = ax.iter().filter(|late| **late < 0.0).count();
    vec![
        beside("trigger error, p50", 0.5),
        beside("trigger error, p99", 0.99).at_most(2.0),
        beside("trigger error, p999", 0.999),
        row(&case, "early", "triggers").ax(early as f64).at_most(0.0),
        row(&case, "triggers", "/s").ax(ax.len() as f64 / time.as_secs_f64()),
    ]
}

/// A task that is to be triggered at a monotonic reading.
struct Command {
    due: Duration,
}

/// Milliseconds from the instant a task was due to the ready queue, sorted.
async fn measure(wake: Wake, rate: u64, time: Duration) -> Vec<f64> {
    let clock = Clock::start();
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let producing = tokio::spawn(produce(clock, sender, rate, time));
    let late = tokio::spawn(turn(clock, receiver, wake)).await.expect("the loop ends");
    let sent = producing.await.expect("the producer ends");
    assert_eq!(late.len() as u64, sent, "triggers");
    let mut late: Vec<f64> = late.into_iter().map(|late| late * 1000.0).collect();
    late.sort_by(f64::total_cmp);
    late
}

/// Sends commands evenly, by the millisecond.
async fn produce(clock: Clock, sender: mpsc::Sender<Command>, rate: u64, time: Duration) -> u64 {
    let (begin, mut seed, mut sent) = (clock.mono(), 20_250_101_u64, 0);
    let mut every = tokio::time::interval(Duration::from_millis(1));
    loop {
        every.tick().await;
        let now = clock.mono();
        let due = ((now - begin).min(time).as_micros() * u128::from(rate) / 1_000_000) as u64;
        while sent < due {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let delay = Duration::from_millis((seed >> 33) % (RANGE + 1));
            if sender.send(Command { due: clock.mono() + delay }).await.is_err() {
                return sent;
            }
            sent += 1;
        }
        if now - begin >= time {
            return sent;
        }
    }
}

async fn turn(clock: Clock, mut commands: mpsc::Receiver<Command>, wake: Wake) -> Vec<f64> {
    let mut alarm = wake.alarm(clock);
    let mut wheel = Wheel::new(0);
    let mut queue = ReadyQueue::default();
    let (mut dues, mut late, mut batch, mut open) = (Vec::new(), Vec::new(), Vec::new(), true);
    while open || !wheel.is_empty() {
        let (now, mut ready) = (clock.mono(), Vec::new());
        // What is over the budget shows in `next_due`.
        let _ = wheel.advance(floor(now), BUDGET, |_, due, id| ready.push((due, id)));
        for (due, id) in &ready {
            let ready_at = Timestamp::from_millisecond(i64::try_from(*due).unwrap_or(0)).unwrap_or_default();
            queue.push(Place { priority: (*id % 10) as u8, ready_at, id: *id });
        }
        let now = clock.mono();
        late.extend(ready.iter().map(|(_, id)| {
            let due: Duration = dues[*id as usize];
            now.as_secs_f64() - due.as_secs_f64()
        }));
        while queue.pick().is_some() {}
        let latest = clock.mono() + LONGEST_SLEEP;
        alarm.set(wheel.next_due().map_or(latest, |due| Duration::from_millis(due).min(latest)));
        tokio::select! {
            biased;
            taken = commands.recv_many(&mut batch, BATCH), if open => {
                open = taken > 0;
                for command in batch.drain(..) {
                    wheel.insert(ceil(command.due), dues.len() as u64);
                    dues.push(command.due);
                }
            }
            () = alarm.rings() => {}
        }
    }
    late
}

fn floor(at: Duration) -> Tick {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

fn ceil(at: Duration) -> Tick {
    u64::try_from(at.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
