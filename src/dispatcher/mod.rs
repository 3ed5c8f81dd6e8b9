//! The hand that sends: it obeys the leader loop's orders and reports what happened. IO.
//!
//! One asynchronous task per attempt, so that one slow or dead pod never slows the others. The hand decides nothing
//! about a task's life; it knows the protocol: which answers end an attempt, when the same pod is asked again, and
//! how long.

mod attempt;
mod inventory;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};

use crate::cluster::lease::Leadership;
use crate::domain::dispatch::{Destination, Inventory, Order, Report};
use crate::ops::clock::Clock;
use crate::worker::client::{Connections, Dial};

/// How often idle connections are looked through.
const SWEEP: Duration = Duration::from_secs(5);

/// What the hand tells the leader loop.
#[derive(Debug)]
pub enum Told {
    /// Of a dispatch.
    Report(Report),
    /// Of an inventory question.
    Inventory {
        /// The pod.
        pod: Destination,
        /// The reign in which it was asked.
        reign: u64,
        /// Its answer.
        inventory: Inventory,
    },
}

/// What every attempt needs.
#[derive(Clone)]
struct Hand {
    connections: Connections,
    leadership: Leadership,
    clock: Clock,
    told: mpsc::Sender<Told>,
}

/// Obeys orders until the channel closes.
pub async fn run(
    leadership: Leadership,
    clock: Clock,
    dial: Dial,
    mut orders: mpsc::Receiver<Order>,
    told: mpsc::Sender<Told>,
) {
    let hand = Hand { connections: Connections::new(dial, clock), leadership, clock, told };
    // Why a pod is cut off, to its attempts in the order they began.
    let mut cuts: HashMap<Arc<str>, broadcast::Sender<&'static str>> = HashMap::new();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        // Sweeping can wait: time for it comes between two orders.
        let order = tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(order) => order,
                None => return,
            },
            _ = sweep.tick() => {
                hand.connections.sweep();
                cuts.retain(|_, cut| cut.receiver_count() > 0);
                continue;
            }
        };
        match order {
            Order::Send(dispatch) => {
                let cut = cuts.entry(dispatch.pod.uid.clone()).or_insert_with(|| broadcast::Sender::new(1));
                tokio::spawn(attempt::run(hand.clone(), *dispatch, cut.subscribe()));
            }
            Order::Cut { pod, why } => {
                hand.connections.close(&pod);
                if let Some(cut) = cuts.get(&pod) {
                    // Without an attempt there is nobody to tell.
                    let _: Result<usize, _> = cut.send(why);
                }
            }
            Order::Ask { pod, reign } => {
                tokio::spawn(inventory::run(hand.clone(), pod, reign));
            }
        }
    }
}

impl Hand {
    async fn tell(&self, told: Told) {
        // The leader loop is gone only when the process ends.
        let _: Result<(), _> = self.told.send(told).await;
    }

    /// The term under which something may go out now.
    fn trusted(&self) -> Option<u64> {
        let now = self.clock.mono();
        self.leadership.grant(now).filter(|grant| grant.may_start_at <= now).map(|grant| grant.term)
    }
}
