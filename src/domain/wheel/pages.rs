//! A set of page numbers that gives its lowest member fast. Pure.
//!
//! Low pages are filled first, so that high ones empty by themselves and can be given back.

/// A set of small numbers.
#[derive(Debug, Default)]
pub(super) struct Pages {
    words: Vec<u64>,
    /// The member [`Pages::any`] gave last: it is asked for far more often than it changes.
    last: usize,
}

impl Pages {
    pub fn insert(&mut self, page: usize) {
        let word = page / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (page % 64);
    }

    pub fn remove(&mut self, page: usize) {
        if let Some(word) = self.words.get_mut(page / 64) {
            *word &= !(1 << (page % 64));
        }
    }

    pub fn contains(&self, page: usize) -> bool {
        self.words.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    pub fn lowest(&self) -> Option<usize> {
        let word = self.words.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The same member as long as it is one, then the lowest.
    pub fn any(&mut self) -> Option<usize> {
        if !self.contains(self.last) {
            self.last = self.lowest()?;
        }
        Some(self.last)
    }
}
