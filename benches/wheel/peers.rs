//! The wheel and its peers behind one interface.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ax::domain::wheel::{Progress, TimerId, Wheel};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

/// Timers of milliseconds with a number each.
pub trait Timers {
    type Id: Copy;
    const NAME: &'static str;
    fn new() -> Self;
    fn insert(&mut self, due: u64, payload: u64) -> Self::Id;
    fn cancel(&mut self, id: Self::Id) -> bool;
    /// What is to be done before [`Timers::advance`] and is not measured.
    fn wind(&mut self, _to: u64) {}
    fn advance(&mut self, to: u64, sink: impl FnMut(u64));
}

impl Timers for Wheel<u64> {
    type Id = TimerId;
    const NAME: &'static str = "ax";

    fn new() -> Self {
        Self::new(0)
    }

    fn insert(&mut self, due: u64, payload: u64) -> TimerId {
        self.insert(due, payload)
    }

    fn cancel(&mut self, id: TimerId) -> bool {
        self.cancel(id).is_some()
    }

    fn advance(&mut self, to: u64, mut sink: impl FnMut(u64)) {
        let progress = self.advance(to, usize::MAX, |_, _, payload| sink(payload));
        assert_eq!(progress, Progress::Done);
    }
}

/// tokio-util's, on a clock that stands still but for [`Timers::wind`], polled without tokio's budget.
pub struct Delays {
    queue: DelayQueue<u64>,
    origin: Instant,
    now: u64,
    runtime: Runtime,
}

impl Timers for Delays {
    type Id = Key;
    const NAME: &'static str = "DelayQueue";

    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let (queue, origin) = {
            let _inside = runtime.enter();
            (DelayQueue::new(), Instant::now())
        };
        Self { queue, origin, now: 0, runtime }
    }

    fn insert(&mut self, due: u64, payload: u64) -> Key {
        let _inside = self.runtime.enter();
        self.queue.insert_at(payload, self.origin + Duration::from_millis(due))
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }

    fn wind(&mut self, to: u64) {
        self.runtime.block_on(tokio::time::advance(Duration::from_millis(to - self.now)));
        self.now = to;
    }

    fn advance(&mut self, _: u64, mut sink: impl FnMut(u64)) {
        let _inside = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        // Outside of a task there is no budget.
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            sink(expired.into_inner());
        }
    }
}

/// A heap; what is cancelled stays in it until its time.
pub struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Number in the order, and payload; number 0 is free.
    slots: Vec<(u64, u64)>,
    free: Vec<u32>,
    seq: u64,
}

impl Timers for Heap {
    type Id = (u32, u64);
    const NAME: &'static str = "BinaryHeap";

    fn new() -> Self {
        Self { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), seq: 0 }
    }

    fn insert(&mut self, due: u64, payload: u64) -> (u32, u64) {
        self.seq += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, 0));
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = (self.seq, payload);
        self.heap.push(Reverse((due, self.seq, slot)));
        (slot, self.seq)
    }

    fn cancel(&mut self, (slot, seq): (u32, u64)) -> bool {
        let armed = self.slots[slot as usize].0 == seq;
        if armed {
            self.slots[slot as usize].0 = 0;
            self.free.push(slot);
        }
        armed
    }

    fn advance(&mut self, to: u64, mut sink: impl FnMut(u64)) {
        while self.heap.peek().is_some_and(|Reverse((due, _, _))| *due <= to) {
            let Some(Reverse((_, seq, slot))) = self.heap.pop() else { return };
            if self.slots[slot as usize].0 == seq {
                sink(self.slots[slot as usize].1);
                self.slots[slot as usize].0 = 0;
                self.free.push(slot);
            }
        }
    }
}

pub struct Map {
    map: BTreeMap<(u64, u64), u64>,
    seq: u64,
}

impl Timers for Map {
    type Id = (u64, u64);
    const NAME: &'static str = "BTreeMap";

    fn new() -> Self {
        Self { map: BTreeMap::new(), seq: 0 }
    }

    fn insert(&mut self, due: u64, payload: u64) -> (u64, u64) {
        self.seq += 1;
        self.map.insert((due, self.seq), payload);
        (due, self.seq)
    }

    fn cancel(&mut self, id: (u64, u64)) -> bool {
        self.map.remove(&id).is_some()
    }

    fn advance(&mut self, to: u64, mut sink: impl FnMut(u64)) {
        while let Some(first) = self.map.first_entry().filter(|first| first.key().0 <= to) {
            sink(first.remove());
        }
    }
}
