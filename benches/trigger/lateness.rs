//! The alarm alone: how late it rings while nothing else goes on.

use std::time::Duration;

use ax::ops::clock::Clock;

use crate::report::{Row, row};
use crate::{Wake, quantile};

const WAKES: u64 = 400;

pub async fn rows() -> Vec<Row> {
    let (ax, peer) = (measure(Wake::Alarm).await, measure(Wake::SleepUntil).await);
    let beside = |metric: &str, share: f64| {
        row("wake-up, idle", metric, "us").ax(quantile(&ax, share)).peer(Wake::PEER, quantile(&peer, share))
    };
    let early = ax.iter().filter(|late| **late < 0.0).count();
    vec![
        row("wake-up, idle", "late, p50", "us").ax(quantile(&ax, 0.5)).at_most(50.0),
        beside("late, p50", 0.5).at_most_of_peer(0.1),
        row("wake-up, idle", "late, p99", "us").ax(quantile(&ax, 0.99)).at_most(500.0),
        beside("late, p99", 0.99).at_most_of_peer(0.3),
        row("wake-up, idle", "early", "wake-ups").ax(early as f64).at_most(0.0),
    ]
}

/// Microseconds, sorted.
async fn measure(wake: Wake) -> Vec<f64> {
    // As in the operator: a task of its own, on a thread of the runtime.
    let measuring = tokio::spawn(async move {
        let clock = Clock::start();
        let mut alarm = wake.alarm(clock);
        let mut late = Vec::new();
        for n in 0..WAKES {
            // Whole milliseconds as a wheel has them, from 2 to 12.
            let ms = u64::try_from(clock.mono().as_millis()).unwrap_or(0) + 2 + n * 7 % 11;
            let at = Duration::from_millis(ms);
            alarm.set(at);
            alarm.rings().await;
            late.push((clock.mono().as_secs_f64() - at.as_secs_f64()) * 1e6);
        }
        late.sort_by(f64::total_cmp);
        late
    });
    measuring.await.expect("it ends")
}
