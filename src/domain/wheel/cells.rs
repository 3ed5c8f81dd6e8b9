//! One cell a timer: its payload, the place of its record, and the generation its id is checked against. Pure.
//!
//! A cell stays where it is as long as its timer is armed, since the id is its number. Cells lie in pages, so that
//! growth copies nothing; a page without a timer is given back once more than three in four are empty.
//!
//! Free cells are bits, not a list: the lowest of the page in use is taken, so that a refill after cancels in any order
//! walks through memory from one end to the other.
//!
//! A generation is drawn anew from the wheel's counter at each insert. So nothing has to be remembered of a free cell
//! or of a page that was given back, and an id can name a stranger only if the same cell is taken again exactly 2^32
//! draws later.

use std::num::NonZeroU32;

use super::pages::Pages;
use super::store::Position;

/// Cells of a page.
pub(super) const PAGE: usize = 4096;
const WORDS: usize = PAGE / 64;
/// Pages given back by one call at most.
const GIVE_BACK: usize = 4;

/// What is known of an armed timer beside its record.
#[derive(Debug)]
pub(super) struct Armed<P> {
    position: Packed,
    pub generation: u32,
    pub payload: P,
}

/// A position that leaves one value free, so that an empty cell costs no byte.
#[derive(Debug, Clone, Copy)]
struct Packed(NonZeroU32);

impl Packed {
    fn new(position: Position) -> Self {
        // Position u32::MAX would take 64 GB of records before it.
        Self(NonZeroU32::new(!position).unwrap_or(NonZeroU32::MIN))
    }
}

impl<P> Armed<P> {
    pub fn position(&self) -> Position {
        !self.position.0.get()
    }
}

type Cell<P> = Option<Armed<P>>;

/// The free cells of one page.
#[derive(Debug)]
struct Room {
    free: [u64; WORDS],
    /// Words of `free` that are not zero.
    summary: u64,
    live: u32,
}

impl Room {
    const ALL: Self = Self { free: [u64::MAX; WORDS], summary: u64::MAX, live: 0 };
}

#[derive(Debug)]
pub(super) struct Cells<P> {
    /// Empty for a page that was given back.
    pages: Vec<Box<[Cell<P>]>>,
    rooms: Vec<Room>,
    /// Pages with a free cell.
    open: Pages,
    /// Pages with free cells only.
    idle: Pages,
    /// Pages that were given back.
    gone: Vec<usize>,
    /// Pages with at least one timer.
    busy: usize,
    live: usize,
}

impl<P> Cells<P> {
    pub fn new() -> Self {
        Self {
            pages: Vec::new(),
            rooms: Vec::new(),
            open: Pages::default(),
            idle: Pages::default(),
            gone: Vec::new(),
            busy: 0,
            live: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.live
    }

    /// Takes a free cell; its record's place follows by [`Cells::moved`].
    pub fn take(&mut self, generation: u32, payload: P) -> u32 {
        let page = self.open.any().unwrap_or_else(|| self.grow());
        let room = &mut self.rooms[page];
        let word = room.summary.trailing_zeros() as usize;
        let bit = room.free[word].trailing_zeros() as usize;
        room.free[word] &= room.free[word] - 1;
        if room.free[word] == 0 {
            room.summary &= !(1 << word);
            if room.summary == 0 {
                self.open.remove(page);
            }
        }
        if room.live == 0 {
            self.idle.remove(page);
            self.busy += 1;
        }
        room.live += 1;
        self.live += 1;
        let index = word * 64 + bit;
        self.pages[page][index] = Some(Armed { position: Packed(NonZeroU32::MAX), generation, payload });
        (page * PAGE + index) as u32
    }

    pub fn get(&self, cell: u32) -> Option<&Armed<P>> {
        self.pages.get(cell as usize / PAGE)?.get(cell as usize % PAGE)?.as_ref()
    }

    /// Reads cells that are about to be needed one after another, all at once: the waits for memory overlap.
    pub fn touch(&self, cells: impl Iterator<Item = u32>) {
        let some = |cell| self.get(cell).is_some();
        std::hint::black_box(cells.filter(|cell| some(*cell)).count());
    }

    /// The record of `cell` lies at `position` from now on.
    pub fn moved(&mut self, cell: u32, position: Position) {
        if let Some(armed) = &mut self.pages[cell as usize / PAGE][cell as usize % PAGE] {
            armed.position = Packed::new(position);
        }
    }

    /// Empties a cell; `None` if it was empty.
    pub fn free(&mut self, cell: u32) -> Option<Armed<P>> {
        let (page, index) = (cell as usize / PAGE, cell as usize % PAGE);
        let armed = self.pages.get_mut(page)?.get_mut(index)?.take()?;
        let room = &mut self.rooms[page];
        if room.summary == 0 {
            self.open.insert(page);
        }
        room.free[index / 64] |= 1 << (index % 64);
        room.summary |= 1 << (index / 64);
        room.live -= 1;
        self.live -= 1;
        if room.live == 0 {
            self.busy -= 1;
            self.idle.insert(page);
            self.give_back();
        }
        Some(armed)
    }

    /// A page without a timer, to be used at once.
    fn grow(&mut self) -> usize {
        let cells = (0..PAGE).map(|_| None).collect();
        let page = if let Some(page) = self.gone.pop() {
            self.pages[page] = cells;
            page
        } else {
            self.pages.push(cells);
            self.rooms.push(Room::ALL);
            self.pages.len() - 1
        };
        self.open.insert(page);
        self.idle.insert(page);
        page
    }

    fn give_back(&mut self) {
        for _ in 0..GIVE_BACK {
            if self.allocated() <= 4 * self.busy + 1 {
                return;
            }
            let Some(page) = self.idle.lowest() else { return };
            self.idle.remove(page);
            self.open.remove(page);
            self.pages[page] = Box::default();
            self.gone.push(page);
        }
    }

    fn allocated(&self) -> usize {
        self.pages.len() - self.gone.len()
    }

    pub fn bytes(&self) -> usize {
        self.allocated() * PAGE * size_of::<Cell<P>>() + self.rooms.capacity() * size_of::<Room>()
    }
}

#[cfg(test)]
impl<P> Cells<P> {
    /// The cells that hold a timer; that bits and counts agree is checked.
    pub fn armed(&self) -> Vec<u32> {
        let mut armed = Vec::new();
        for (page, room) in self.rooms.iter().enumerate() {
            let before = armed.len();
            for index in 0..PAGE {
                let free = room.free[index / 64] >> (index % 64) & 1 == 1;
                let cell = (page * PAGE + index) as u32;
                assert_eq!(free, self.get(cell).is_none(), "bit of cell {cell}");
                if !free {
                    armed.push(cell);
                }
            }
            for (word, bits) in room.free.iter().enumerate() {
                assert_eq!(room.summary >> word & 1 == 1, *bits != 0, "summary of page {page}");
            }
            let (live, gone) = (armed.len() - before, self.pages[page].is_empty());
            assert_eq!(room.live as usize, live);
            assert_eq!(self.open.contains(page), live < PAGE && !gone, "page {page} open");
            assert_eq!(self.idle.contains(page), live == 0 && !gone, "page {page} idle");
            assert_eq!(self.gone.contains(&page), gone, "page {page} gone");
        }
        assert_eq!(self.live, armed.len());
        armed
    }
}
