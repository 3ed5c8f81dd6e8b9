//! Packed records in chunks, chunks in lists: where the wheel's ticks lie. Pure.
//!
//! A record is 16 bytes and a chunk holds 64 of them, so that a cascade streams through memory instead of chasing one
//! pointer a timer. Slots and chunks point to a list object, and so a slot's content is detached in one step.
//!
//! A record that is taken out leaves no hole: the last one of its list takes its place, and its cell is told. Only a
//! list that is being fired keeps its order, and closes the gap within the chunk.
//!
//! Chunks lie in pages; only the last page is given back, and what it still holds moves down, a few chunks a call, once
//! less than a quarter of all chunks is used.

use super::Tick;
use super::level::{NONE, Slot};
use super::pages::Pages;

/// Records of a chunk.
pub(super) const CHUNK: usize = 64;
/// Chunks of a page.
const PAGE: usize = 64;
/// Records of a page.
const PAGE_RECORDS: usize = CHUNK * PAGE;
/// Chunks kept beside four times those in use.
const SPARE: usize = 2 * PAGE;

/// A record's place: chunk and index.
pub(super) type Position = u32;

/// A timer, as the wheel sorts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub due: Tick,
    pub cell: u32,
    /// Order within a tick; wraps.
    pub seq: u32,
}

impl Record {
    const EMPTY: Self = Self { due: 0, cell: 0, seq: 0 };
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    next: u32,
    prev: u32,
    list: u32,
    /// Records before this one are gone: moved or fired.
    first: u8,
    len: u8,
}

impl Chunk {
    const EMPTY: Self = Self { next: NONE, prev: NONE, list: NONE, first: 0, len: 0 };
}

/// What a list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// No list: its object is free.
    Free,
    /// The content of a slot.
    Slot(Slot),
    /// Taken out of its slot, to be placed anew.
    Cascading,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
    pub len: u32,
    last_seq: u32,
    pub role: Role,
    /// In the order of insertion from head to tail.
    pub sorted: bool,
    /// Has begun to fire: stays sorted.
    pub firing: bool,
}

#[derive(Debug)]
pub(super) struct Store {
    pages: Vec<Box<[Record]>>,
    chunks: Vec<Chunk>,
    /// Free chunks of each page.
    free: Vec<u64>,
    /// Pages with a free chunk.
    open: Pages,
    used: usize,
    lists: Vec<List>,
    free_lists: Vec<u32>,
}

impl Store {
    pub fn new() -> Self {
        Self {
            pages: Vec::new(),
            chunks: Vec::new(),
            free: Vec::new(),
            open: Pages::default(),
            used: 0,
            lists: Vec::new(),
            free_lists: Vec::new(),
        }
    }

    pub fn chunks_used(&self) -> usize {
        self.used
    }

    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE_RECORDS * size_of::<Record>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.lists.capacity() * size_of::<List>()
    }

    pub fn new_list(&mut self, role: Role) -> u32 {
        let list = List { head: NONE, tail: NONE, len: 0, last_seq: 0, role, sorted: true, firing: false };
        if let Some(free) = self.free_lists.pop() {
            self.lists[free as usize] = list;
            return free;
        }
        self.lists.push(list);
        (self.lists.len() - 1) as u32
    }

    /// The list is empty and forgotten.
    pub fn free_list(&mut self, list: u32) {
        debug_assert!(self.lists[list as usize].head == NONE, "list {list} is not empty");
        self.lists[list as usize].role = Role::Free;
        self.free_lists.push(list);
    }

    pub fn list(&self, list: u32) -> &List {
        &self.lists[list as usize]
    }

    pub fn list_mut(&mut self, list: u32) -> &mut List {
        &mut self.lists[list as usize]
    }

    pub fn record(&self, position: Position) -> Record {
        self.pages[position as usize / PAGE_RECORDS][position as usize % PAGE_RECORDS]
    }

    fn write(&mut self, position: Position, record: Record) {
        self.pages[position as usize / PAGE_RECORDS][position as usize % PAGE_RECORDS] = record;
    }

    /// Appends; returns where the record lies.
    pub fn push(&mut self, list: u32, record: Record) -> Position {
        let object = &mut self.lists[list as usize];
        object.sorted &= object.len == 0 || is_before(object.last_seq, record.seq);
        object.last_seq = record.seq;
        object.len += 1;
        let tail = object.tail;
        let has_room = self.chunks.get(tail as usize).is_some_and(|chunk| usize::from(chunk.len) < CHUNK);
        let chunk = if has_room { tail } else { self.append_chunk(list) };
        let index = self.chunks[chunk as usize].len;
        self.chunks[chunk as usize].len += 1;
        let position = chunk * CHUNK as u32 + u32::from(index);
        self.write(position, record);
        position
    }

    /// Takes a record out; `moved` is told which others lie elsewhere now. Returns the role of a list that has become
    /// empty by it, which is freed.
    pub fn remove(&mut self, position: Position, mut moved: impl FnMut(u32, Position)) -> Option<(u32, Role)> {
        let mut chunk = position / CHUNK as u32;
        let list = self.chunks[chunk as usize].list;
        if self.lists[list as usize].firing {
            let end = chunk * CHUNK as u32 + u32::from(self.chunks[chunk as usize].len);
            for from in position + 1..end {
                let record = self.record(from);
                self.write(from - 1, record);
                moved(record.cell, from - 1);
            }
        } else {
            chunk = self.lists[list as usize].tail;
            let last = chunk * CHUNK as u32 + u32::from(self.chunks[chunk as usize].len) - 1;
            if last != position {
                let record = self.record(last);
                self.write(position, record);
                moved(record.cell, position);
                self.lists[list as usize].sorted = false;
            }
        }
        let object = &mut self.chunks[chunk as usize];
        object.len -= 1;
        if object.first == object.len {
            self.unlink(chunk);
        }
        let object = &mut self.lists[list as usize];
        object.len -= 1;
        let role = object.role;
        (object.len == 0).then(|| {
            self.free_list(list);
            (list, role)
        })
    }

    /// The first chunk of a list, and where its records lie: `(chunk, from, to)`.
    pub fn head(&self, list: u32) -> Option<(u32, Position, Position)> {
        let head = self.lists[list as usize].head;
        let chunk = self.chunks.get(head as usize)?;
        let base = head * CHUNK as u32;
        Some((head, base + u32::from(chunk.first), base + u32::from(chunk.len)))
    }

    /// The first `count` records of the first chunk have been dealt with.
    pub fn consume(&mut self, list: u32, count: u32) {
        let object = &mut self.lists[list as usize];
        object.len -= count;
        self.chunks[object.head as usize].first += count as u8;
    }

    /// Frees the first chunk of a list: it is used up.
    pub fn unlink_head(&mut self, list: u32) {
        self.unlink(self.lists[list as usize].head);
    }

    /// Brings a list into the order of insertion; `moved` is told where the records lie now.
    pub fn sort(&mut self, list: u32, scratch: &mut Vec<u64>, mut moved: impl FnMut(u32, Position)) {
        // Ages count from half the range before the newest, so that a wrap in between changes nothing.
        let origin = self.lists[list as usize].last_seq.wrapping_add(1 << 31);
        let Some(due) = self.head(list).map(|(_, from, _)| self.record(from).due) else { return };
        scratch.clear();
        let mut at = self.lists[list as usize].head;
        while at != NONE {
            let chunk = self.chunks[at as usize];
            for index in chunk.first..chunk.len {
                let record = self.record(at * CHUNK as u32 + u32::from(index));
                scratch.push(u64::from(record.seq.wrapping_sub(origin)) << 32 | u64::from(record.cell));
            }
            at = chunk.next;
        }
        scratch.sort_unstable();
        let mut sorted = scratch.iter();
        let mut at = self.lists[list as usize].head;
        while at != NONE {
            let chunk = self.chunks[at as usize];
            for (index, key) in (chunk.first..chunk.len).zip(&mut sorted) {
                let (cell, seq) = (*key as u32, ((key >> 32) as u32).wrapping_add(origin));
                let position = at * CHUNK as u32 + u32::from(index);
                self.write(position, Record { due, cell, seq });
                moved(cell, position);
            }
            at = chunk.next;
        }
        let object = &mut self.lists[list as usize];
        object.sorted = true;
        if let Some(newest) = scratch.last() {
            object.last_seq = ((newest >> 32) as u32).wrapping_add(origin);
        }
    }

    fn append_chunk(&mut self, list: u32) -> u32 {
        let chunk = self.take_chunk();
        let tail = self.lists[list as usize].tail;
        self.chunks[chunk as usize] = Chunk { prev: tail, list, ..Chunk::EMPTY };
        match self.chunks.get_mut(tail as usize) {
            Some(before) => before.next = chunk,
            None => self.lists[list as usize].head = chunk,
        }
        self.lists[list as usize].tail = chunk;
        chunk
    }

    fn take_chunk(&mut self) -> u32 {
        let page = self.open.any().unwrap_or_else(|| self.grow());
        self.take_chunk_of(page)
    }

    fn take_chunk_of(&mut self, page: usize) -> u32 {
        let index = self.free[page].trailing_zeros() as usize;
        self.free[page] &= self.free[page] - 1;
        if self.free[page] == 0 {
            self.open.remove(page);
        }
        self.used += 1;
        (page * PAGE + index) as u32
    }

    fn grow(&mut self) -> usize {
        let page = self.pages.len();
        self.pages.push(vec![Record::EMPTY; PAGE_RECORDS].into_boxed_slice());
        self.chunks.resize(self.chunks.len() + PAGE, Chunk::EMPTY);
        self.free.push(u64::MAX);
        self.open.insert(page);
        page
    }

    fn unlink(&mut self, chunk: u32) {
        let Chunk { next, prev, list, .. } = self.chunks[chunk as usize];
        match self.chunks.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.lists[list as usize].tail = prev,
        }
        match self.chunks.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.lists[list as usize].head = next,
        }
        self.free_chunk(chunk);
    }

    fn free_chunk(&mut self, chunk: u32) {
        self.chunks[chunk as usize].list = NONE;
        let (page, index) = (chunk as usize / PAGE, chunk as usize % PAGE);
        self.free[page] |= 1 << index;
        self.open.insert(page);
        self.used -= 1;
    }

    /// Gives memory back in small steps: a page, or a chunk of the last page moved down.
    pub fn give_back(&mut self, steps: usize, mut moved: impl FnMut(u32, Position)) {
        for _ in 0..steps {
            if self.pages.len() * PAGE <= 4 * self.used + SPARE {
                return;
            }
            let last = self.pages.len() - 1;
            if self.free[last] == u64::MAX {
                self.pages.pop();
                self.free.pop();
                self.open.remove(last);
                self.chunks.truncate(last * PAGE);
                if self.chunks.capacity() > 4 * self.chunks.len() {
                    self.chunks.shrink_to(2 * self.chunks.len());
                }
                continue;
            }
            let from = last * PAGE + (63 - (!self.free[last]).leading_zeros() as usize);
            let Some(page) = self.open.lowest().filter(|page| *page < last) else { return };
            self.move_down(from as u32, page, &mut moved);
        }
    }

    fn move_down(&mut self, from: u32, page: usize, moved: &mut impl FnMut(u32, Position)) {
        let to = self.take_chunk_of(page);
        let chunk = self.chunks[from as usize];
        for index in u32::from(chunk.first)..u32::from(chunk.len) {
            let (record, position) = (self.record(from * CHUNK as u32 + index), to * CHUNK as u32 + index);
            self.write(position, record);
            moved(record.cell, position);
        }
        self.chunks[to as usize] = chunk;
        match self.chunks.get_mut(chunk.next as usize) {
            Some(after) => after.prev = to,
            None => self.lists[chunk.list as usize].tail = to,
        }
        match self.chunks.get_mut(chunk.prev as usize) {
            Some(before) => before.next = to,
            None => self.lists[chunk.list as usize].head = to,
        }
        self.free_chunk(from);
    }
}

/// Whether `a` was drawn before `b`, if fewer than 2^31 draws lie between.
fn is_before(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) > 0
}

#[cfg(test)]
impl Store {
    /// Positions of a list from head to tail; that links, counts and the order it claims are right is checked.
    pub fn positions(&self, list: u32) -> Vec<Position> {
        let (object, mut positions, mut prev) = (self.lists[list as usize], Vec::new(), NONE);
        let mut at = object.head;
        while at != NONE {
            let chunk = self.chunks[at as usize];
            assert_eq!((chunk.list, chunk.prev), (list, prev), "chunk {at}");
            assert!(chunk.first < chunk.len && usize::from(chunk.len) <= CHUNK, "chunk {at} is used up");
            positions.extend((chunk.first..chunk.len).map(|index| at * CHUNK as u32 + u32::from(index)));
            (prev, at) = (at, chunk.next);
        }
        assert_eq!((object.tail, object.len as usize), (prev, positions.len()), "list {list}");
        let in_order = positions.windows(2).all(|two| is_before(self.record(two[0]).seq, self.record(two[1]).seq));
        assert!(in_order || !object.sorted, "list {list} says that it is sorted");
        positions
    }

    /// The lists that are not free; that the chunks in use are theirs is checked.
    pub fn live_lists(&self) -> Vec<u32> {
        let lists: Vec<u32> =
            (0..self.lists.len() as u32).filter(|list| self.lists[*list as usize].role != Role::Free).collect();
        assert_eq!(lists.len() + self.free_lists.len(), self.lists.len());
        let free: u32 = self.free.iter().map(|bits| bits.count_ones()).sum();
        assert_eq!(self.chunks.len() - free as usize, self.used);
        assert_eq!(self.chunks.iter().filter(|chunk| chunk.list != NONE).count(), self.used);
        for (page, bits) in self.free.iter().enumerate() {
            assert_eq!(self.open.contains(page), *bits != 0, "page {page} open");
        }
        lists
    }
}
