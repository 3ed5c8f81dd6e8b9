//! What the Lease says. Pure.

use std::time::Duration;

/// The Lease as ax reads and writes it. What is missing in the object is empty or zero here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Identity of the holder; empty = nobody.
    pub holder: String,
    /// How long the record must stand unchanged before another may take it; zero = missing.
    pub duration: Duration,
    /// Wall time of the last claim. For people; ax only compares it with what it wrote itself.
    pub renew_time: String,
    /// Wall time at which the holder took the Lease. For people.
    pub acquire_time: String,
    /// How often the holder changed. For people: deleting the Lease resets it.
    pub transitions: u32,
    /// The holder's term.
    pub term: Option<u64>,
    /// Where the holder takes callbacks. Stays when it releases: the next holder asks there first.
    pub address: Option<String>,
    /// Where the holder before this one took callbacks.
    pub previous_address: Option<String>,
    /// Version of the object that was read, and that a write must still meet.
    pub resource_version: String,
}

/// Duration that a release writes: the shortest the API server takes.
pub const RELEASED_DURATION: Duration = Duration::from_secs(1);

/// What a record says about its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupancy {
    /// Somebody claims it.
    Held,
    /// Its holder gave it back, after it had stopped.
    Released,
    /// Nobody claims it, but it does not prove either that a former holder stopped: made or emptied by hand.
    Vacant,
}

impl LeaseRecord {
    /// What the record says about its holder.
    pub fn occupancy(&self) -> Occupancy {
        let incomplete = self.duration.is_zero() || self.renew_time.is_empty();
        match (self.holder.is_empty(), incomplete) {
            (true, false) if self.duration <= RELEASED_DURATION => Occupancy::Released,
            (true, _) | (_, true) => Occupancy::Vacant,
            (false, false) => Occupancy::Held,
        }
    }

    /// Whether both make the same claim; what others added to the object does not count.
    pub fn same_claim(&self, other: &Self) -> bool {
        self.holder == other.holder
            && self.renew_time == other.renew_time
            && self.duration == other.duration
            && self.term == other.term
    }
}
