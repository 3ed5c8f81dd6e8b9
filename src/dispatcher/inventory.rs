//! The inventory question: which executions does this pod know? IO.

use std::time::Duration;

use http::{HeaderMap, Method};
use hyper::body::Bytes;
use tokio::time::timeout;
use tracing::debug;

use super::{Hand, Told};
use crate::domain::dispatch::{Destination, Inventory, Listed};
use crate::worker::client::{Exchange, Outgoing, Reply};
use crate::worker::wire::{self, InventoryState};

/// A pod that has not answered by then counts as silent.
const TIMEOUT: Duration = Duration::from_secs(2);
/// 1,000 entries of 100 bytes, and room to spare.
const READ: usize = 256 * 1024;

pub(super) async fn run(hand: Hand, pod: Destination, reign: u64) {
    let inventory = timeout(TIMEOUT, ask(&hand, &pod)).await.unwrap_or(Inventory::Silent);
    debug!(pod = %pod.name, answer = ?inventory, "inventory");
    hand.tell(Told::Inventory { pod, reign, inventory }).await;
}

async fn ask(hand: &Hand, pod: &Destination) -> Inventory {
    let outgoing = Outgoing {
        method: Method::GET,
        path: wire::INVENTORY_PATH.to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        read: READ,
    };
    // The question starts nothing: it may go out before the lease lets work start.
    let term = || hand.leadership.grant(hand.clock.mono()).map(|grant| grant.term);
    match hand.connections.exchange(pod, outgoing, wire::TERM, term).await {
        Exchange::Answered(reply) => read(&reply),
        Exchange::NotTrusted | Exchange::Unsent(_) | Exchange::Cut(_) => Inventory::Silent,
    }
}

fn read(reply: &Reply) -> Inventory {
    match reply.status {
        200 => match serde_json::from_slice::<wire::Inventory>(&reply.body) {
            Ok(inventory) => Inventory::Lists(inventory.executions.iter().filter_map(listed).collect()),
            Err(_) => Inventory::KeepsNone,
        },
        404 | 405 | 501 => Inventory::KeepsNone,
        412 => Inventory::LowerTerm(reply.header(wire::TERM).and_then(|t| t.trim().parse().ok())),
        _ => Inventory::Silent,
    }
}

/// A released execution is not at that pod any more.
fn listed(entry: &wire::InventoryEntry) -> Option<Listed> {
    let finished = match entry.state {
        InventoryState::Released => return None,
        InventoryState::Finished => true,
        InventoryState::Running | InventoryState::Other => false,
    };
    Some(Listed { execution: entry.id.parse().ok()?, attempt: entry.attempt, finished })
}
