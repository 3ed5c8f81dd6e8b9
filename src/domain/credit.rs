//! How much room a pod has. Pure.
//!
//! Credits are capacity minus the set of live executions, recomputed from that set each time, never a counter that
//! could drift.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

/// Places in a pod where its Deployment does not say.
pub const DEFAULT_CREDITS: u32 = 30;
/// How long what a worker said of its room is believed.
const ROOM_BELIEVED: Duration = Duration::from_secs(10);

/// What a worker said of itself on its last answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Capacity (`q` of `RateLimit-Policy`).
    pub capacity: Option<u32>,
    /// Room (`r` of `RateLimit`).
    pub room: Option<u32>,
}

/// The books of one pod. `now` is a monotonic reading.
#[derive(Debug, Default)]
pub struct Books {
    /// Executions there without a persisted outcome, and timed-out ones not yet free; by execution the attempt.
    live: HashMap<Uuid, u32>,
    capacity_said: Option<u32>,
    /// Room said, when, and how many were sent since.
    room_said: Option<(u32, Duration, u32)>,
    /// After a 429: no more than this many at once; grows by one per finished execution.
    learned: Option<u32>,
    rest_until: Option<Duration>,
    /// Connections refused in a row; lengthens the rest.
    unreachable: u32,
}

impl Books {
    /// Takes a credit. `false` if this attempt holds one here already.
    pub fn take(&mut self, execution: Uuid, attempt: u32) -> bool {
        if let Some((_, _, sent)) = &mut self.room_said {
            *sent += 1;
        }
        self.live.insert(execution, attempt) != Some(attempt)
    }

    /// Gives the credit of one attempt back; of another attempt's or of none nothing happens.
    pub fn give_back(&mut self, execution: &Uuid, attempt: u32) -> bool {
        if self.live.get(execution) != Some(&attempt) {
            return false;
        }
        self.live.remove(execution);
        if let Some(limit) = &mut self.learned {
            *limit += 1;
        }
        true
    }

    /// Whether an execution holds a credit here.
    pub fn holds(&self, execution: &Uuid) -> bool {
        self.live.contains_key(execution)
    }

    /// How many executions are live here.
    pub fn live(&self) -> u32 {
        u32::try_from(self.live.len()).unwrap_or(u32::MAX)
    }

    /// Free places under `configured` credits per pod.
    pub fn free(&self, configured: u32, now: Duration) -> u32 {
        if self.rests(now) {
            return 0;
        }
        let limit = configured.min(self.capacity_said.unwrap_or(u32::MAX)).min(self.learned.unwrap_or(u32::MAX));
        let by_count = limit.saturating_sub(self.live());
        match self.room_said {
            Some((room, at, sent)) if now.saturating_sub(at) <= ROOM_BELIEVED => {
                by_count.min(room.saturating_sub(sent))
            }
            _ => by_count,
        }
    }

    /// Takes in what the worker said on an answer.
    pub fn heard(&mut self, said: RateLimit, now: Duration) {
        self.unreachable = 0;
        if let Some(capacity) = said.capacity {
            self.capacity_said = Some(capacity.max(1));
        }
        self.room_said = said.room.map(|room| (room, now, 0));
        if self.learned.is_some_and(|limit| limit >= self.capacity_said.unwrap_or(1000)) {
            self.learned = None;
        }
    }

    /// The worker answered 429: it has no room beyond what is live there. The refused send is already given back.
    pub fn full(&mut self) {
        self.learned = Some(self.live().max(1));
    }

    /// Nothing is sent for a while.
    pub fn rest(&mut self, until: Duration) {
        self.rest_until = self.rest_until.max(Some(until));
    }

    /// No connection: after three in a row the pod rests 10 s, doubling to 5 min.
    pub fn out_of_reach(&mut self, now: Duration) {
        self.unreachable = self.unreachable.saturating_add(1);
        if self.unreachable >= 3 {
            let doublings = (self.unreachable - 3).min(5);
            self.rest(now + Duration::from_secs(10 << doublings).min(Duration::from_secs(300)));
        }
    }

    /// Whether the pod rests.
    pub fn rests(&self, now: Duration) -> bool {
        self.rest_until.is_some_and(|until| now < until)
    }

    /// When a resting pod may be tried again.
    pub fn rest_until(&self) -> Option<Duration> {
        self.rest_until
    }

    /// The executions live here.
    pub fn executions(&self) -> impl Iterator<Item = (&Uuid, u32)> {
        self.live.iter().map(|(id, attempt)| (id, *attempt))
    }
}

/// Reads `"ax";q=16;qu="concurrent-requests"` and `"ax";r=7`: one parameter of the item list.
pub fn rate_limit_parameter(header: &str, name: &str) -> Option<u32> {
    header.split(',').next()?.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        (key.trim() == name).then(|| value.trim().parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    const T0: Duration = Duration::from_secs(100);

    #[test]
    fn free_is_capacity_minus_the_live_set() {
        let mut books = Books::default();
        assert!(books.take(id(1), 1));
        assert!(!books.take(id(1), 1), "asking again takes no second credit");
        assert_eq!(books.free(30, T0), 29);
        assert!(!books.give_back(&id(1), 2), "another attempt's");
        assert!(books.give_back(&id(1), 1));
        assert!(!books.give_back(&id(1), 1), "none comes back twice");
        assert_eq!(books.free(30, T0), 30);
    }

    #[test]
    fn the_worker_s_own_capacity_and_room_count() {
        let mut books = Books::default();
        books.heard(RateLimit { capacity: Some(4), room: Some(2) }, T0);
        assert_eq!(books.free(30, T0), 2);
        books.take(id(1), 1);
        assert_eq!(books.free(30, T0), 1);
        assert_eq!(books.free(30, T0 + Duration::from_secs(11)), 3, "room is believed for 10 s");
    }

    #[test]
    fn after_a_429_the_limit_is_what_is_live_and_grows_with_each_end() {
        let mut books = Books::default();
        books.take(id(1), 1);
        books.take(id(2), 1);
        books.full();
        assert_eq!(books.free(30, T0), 0);
        books.give_back(&id(1), 1);
        assert_eq!(books.free(30, T0), 2);
    }

    #[test]
    fn three_refused_connections_in_a_row_bring_a_rest_that_doubles() {
        let mut books = Books::default();
        for want in [None, None, Some(10), Some(20), Some(40)] {
            books.out_of_reach(T0);
            assert_eq!(books.rest_until().map(|until| (until - T0).as_secs()), want);
        }
        assert_eq!(books.free(30, T0), 0);
    }

    #[test]
    fn reads_the_header_of_the_draft() {
        assert_eq!(rate_limit_parameter("\"ax\";q=16;qu=\"concurrent-requests\"", "q"), Some(16));
        assert_eq!(rate_limit_parameter("\"ax\";r=7", "r"), Some(7));
        for bad in ["", "\"ax\"", "\"ax\";r=-1", "\"ax\";r=99999999999", "r=7"] {
            assert_eq!(rate_limit_parameter(bad, "r"), None, "{bad}");
        }
    }
}
