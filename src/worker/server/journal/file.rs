//! The journal's file: lines that prove themselves, and where the last one of each execution stands.
//!
//! IO: blocking. A line is the CRC-32 of a JSON record in eight hex digits, a space, the record, a line feed. A
//! line that does not prove itself (torn by a crash, cut by a full disk) is skipped wherever it stands. The file
//! only grows, until over half of it is outdated; then the lines that count are copied to a second file, which
//! takes the first one's name. A crash in between leaves the one or the other, both complete.

use std::collections::HashMap;
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{Error, Record};

const NAME: &str = "journal";
const NEXT_NAME: &str = "journal.next";
const LOCK_NAME: &str = "lock";
/// A file smaller than this is not worth a copy.
const COMPACT_FROM: u64 = 1024 * 1024;

/// Where a line stands.
#[derive(Debug, Clone, Copy)]
struct Span {
    offset: u64,
    length: u32,
}

/// The open file.
#[derive(Debug)]
pub struct File {
    dir: PathBuf,
    file: fs::File,
    /// Bytes in the file, all of whole lines unless `torn`.
    length: u64,
    /// A failed write left a part of a line that could not be taken back.
    torn: bool,
    last: HashMap<String, Span>,
    /// Bytes of the lines in `last`.
    live: u64,
    compact_from: u64,
    /// Held as long as the file is open, released by the kernel whatever ends this process.
    _lock: fs::File,
}

impl File {
    /// Opens the file of a directory, creating both if need be, and returns the last record of each execution in
    /// the order in which they were written.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Record>), Error> {
        let failed = |source| Error::Open { dir: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        let lock = OpenOptions::new().create(true).append(true).open(dir.join(LOCK_NAME)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse { dir: dir.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let file = open_append(&dir.join(NAME)).map_err(failed)?;
        let mut journal = Self {
            dir: dir.to_owned(),
            file,
            length: 0,
            torn: false,
            last: HashMap::new(),
            live: 0,
            compact_from: COMPACT_FROM,
            _lock: lock,
        };
        let records = journal.scan().map_err(failed)?;
        Ok((journal, records))
    }

    /// Writes records with one write. On an error none of them counts, and what stands of them is taken back.
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.torn {
            bytes.push(b'\n');
        }
        let mut spans = Vec::with_capacity(records.len());
        for record in records {
            let start = bytes.len();
            let json = serde_json::to_vec(record)?;
            write!(bytes, "{:08x} ", crc32(&json))?;
            bytes.extend_from_slice(&json);
            bytes.push(b'\n');
            let length = u32::try_from(bytes.len() - start).map_err(io::Error::other)?;
            spans.push((start, length));
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // Another process's work may go on while the disk is full; ours is refused until it fits again.
            self.torn = self.torn || self.file.set_len(self.length).is_err();
            if self.torn {
                self.length = self.file.metadata()?.len();
            }
            return Err(error);
        }
        for (record, (start, length)) in records.iter().zip(spans) {
            let offset = self.length + start as u64;
            self.point(&record.id, Span { offset, length });
        }
        self.length += bytes.len() as u64;
        self.torn = false;
        Ok(())
    }

    /// The last record of an execution, if it is still known and legible.
    pub fn read(&self, id: &str) -> Option<Record> {
        let bytes = self.line(*self.last.get(id)?).ok()?;
        proven(&bytes)
    }

    /// Drops executions; the next compaction leaves their lines out.
    pub fn forget(&mut self, ids: &[String]) {
        for id in ids {
            if let Some(span) = self.last.remove(id) {
                self.live -= u64::from(span.length);
            }
        }
    }

    /// Rewrites the file once over half of it is outdated. On an error the old file stays in use.
    pub fn compact_if_due(&mut self) -> io::Result<()> {
        if self.length < self.compact_from || self.length <= 2 * self.live {
            return Ok(());
        }
        let next = self.dir.join(NEXT_NAME);
        let result = self.compact(&next);
        if result.is_err() {
            let _ = fs::remove_file(&next);
            // The disk is probably full: not again before the file has grown by half.
            self.compact_from = self.length + self.length / 2;
        }
        result
    }

    fn compact(&mut self, next: &Path) -> io::Result<()> {
        let mut spans: Vec<(String, Span)> = self.last.iter().map(|(id, span)| (id.clone(), *span)).collect();
        spans.sort_by_key(|(_, span)| span.offset);
        let _ = fs::remove_file(next);
        let mut writer = io::BufWriter::new(open_append(next)?);
        let mut length = 0;
        for (_, span) in &mut spans {
            writer.write_all(&self.line(*span)?)?;
            span.offset = length;
            length += u64::from(span.length);
        }
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(next, self.dir.join(NAME))?;
        // From here on nothing fails: file and spans change together.
        self.file = file;
        self.last = spans.into_iter().collect();
        self.length = length;
        self.live = length;
        self.torn = false;
        self.compact_from = COMPACT_FROM;
        Ok(())
    }

    /// Reads the file from its beginning and points to the last line of each execution.
    fn scan(&mut self) -> io::Result<Vec<Record>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(self.file.try_clone()?);
        let mut records: HashMap<String, Record> = HashMap::new();
        let mut line = Vec::new();
        let mut skipped = 0_u32;
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            if !line.ends_with(b"\n") {
                // Nobody was told that it is written. Left here, the next line would complete it.
                self.file.set_len(self.length)?;
                skipped += 1;
                break;
            }
            match (proven(&line), u32::try_from(read)) {
                (Some(record), Ok(length)) => {
                    let offset = self.length;
                    self.point(&record.id, Span { offset, length });
                    records.insert(record.id.clone(), record);
                }
                _ => skipped += 1,
            }
            self.length += read as u64;
        }
        if skipped > 0 {
            tracing::warn!(lines = skipped, "journal lines skipped, cut by a crash");
        }
        let mut records: Vec<Record> = records.into_values().collect();
        records.sort_by_key(|record| self.last.get(&record.id).map(|span| span.offset));
        Ok(records)
    }

    fn point(&mut self, id: &str, span: Span) {
        self.live += u64::from(span.length);
        if let Some(before) = self.last.insert(id.to_owned(), span) {
            self.live -= u64::from(before.length);
        }
    }

    fn line(&self, span: Span) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; span.length as usize];
        self.file.read_exact_at(&mut bytes, span.offset)?;
        Ok(bytes)
    }
}

fn open_append(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().create(true).read(true).append(true).open(path)
}

/// The record of a line whose checksum holds.
fn proven(line: &[u8]) -> Option<Record> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (sum, json) = line.split_at_checked(9)?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?.trim_end(), 16).ok()?;
    if sum != crc32(json) {
        return None;
    }
    serde_json::from_slice(json).ok()
}

/// CRC-32 (IEEE 802.3).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| CRC_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::*;

    fn record(id: &str, attempt: u32) -> Record {
        Record { id: id.to_owned(), attempt, at: 0, answer: Some(Answer::lost()) }
    }

    fn ids(records: &[Record]) -> Vec<(&str, u32)> {
        records.iter().map(|record| (record.id.as_str(), record.attempt)).collect()
    }

    fn reopen(dir: &Path) -> (File, Vec<Record>) {
        File::open(dir).unwrap()
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_crash_at_any_byte_costs_only_the_line_it_cuts() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = reopen(dir.path());
        file.append(&[record("a", 1)]).unwrap();
        let kept = file.length;
        file.append(&[record("b", 1)]).unwrap();
        let whole = file.length;
        drop(file);
        let path = dir.path().join(NAME);
        let bytes = fs::read(&path).unwrap();
        for cut in kept..whole {
            fs::write(&path, &bytes[..cut as usize]).unwrap();
            let (mut file, records) = reopen(dir.path());
            assert_eq!(ids(&records), [("a", 1)], "cut at {cut}");
            file.append(&[record("c", 1)]).unwrap();
            assert_eq!(file.read("c"), Some(record("c", 1)), "cut at {cut}");
            drop(file);
            let (_, records) = reopen(dir.path());
            assert_eq!(ids(&records), [("a", 1), ("c", 1)], "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_line_is_skipped_and_the_ones_after_it_count() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = reopen(dir.path());
        file.append(&[record("a", 1), record("b", 1), record("c", 1)]).unwrap();
        let damaged = file.last["b"].offset as usize + 20;
        drop(file);
        let path = dir.path().join(NAME);
        let mut bytes = fs::read(&path).unwrap();
        bytes[damaged] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(ids(&reopen(dir.path()).1), [("a", 1), ("c", 1)]);
    }

    #[test]
    fn the_last_record_of_an_execution_counts_in_its_later_place() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = reopen(dir.path());
        file.append(&[record("a", 1), record("b", 1)]).unwrap();
        file.append(&[record("a", 2)]).unwrap();
        assert_eq!(file.read("a"), Some(record("a", 2)));
        drop(file);
        assert_eq!(ids(&reopen(dir.path()).1), [("b", 1), ("a", 2)]);
    }

    #[test]
    fn compaction_keeps_what_counts_and_only_that() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = reopen(dir.path());
        file.append(&[record("forgotten", 1), record("kept", 1)]).unwrap();
        file.forget(&["forgotten".to_owned()]);
        let mut attempt = 0;
        while file.length < COMPACT_FROM {
            attempt += 1;
            file.append(&[record("again", attempt)]).unwrap();
        }
        file.compact_if_due().unwrap();
        assert_eq!(file.length, file.live);
        assert!(file.length < 1_000, "{}", file.length);
        assert_eq!(file.read("kept"), Some(record("kept", 1)));
        file.append(&[record("after", 1)]).unwrap();
        assert_eq!(file.read("after"), Some(record("after", 1)));
        assert!(!dir.path().join(NEXT_NAME).exists());
        drop(file);
        let want = [("kept", 1), ("again", attempt), ("after", 1)];
        assert_eq!(ids(&reopen(dir.path()).1), want);
    }

    #[test]
    fn a_failed_write_leaves_nothing_to_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = reopen(dir.path());
        file.append(&[record("a", 1)]).unwrap();
        let writable = std::mem::replace(&mut file.file, fs::File::open(dir.path().join(NAME)).unwrap());
        assert!(file.append(&[record("a", 2), record("b", 1)]).is_err());
        assert_eq!(file.read("a"), Some(record("a", 1)));
        assert_eq!(file.read("b"), None);
        file.file = writable;
        file.append(&[record("c", 1)]).unwrap();
        assert_eq!(file.read("c"), Some(record("c", 1)), "offsets still hold");
        drop(file);
        assert_eq!(ids(&reopen(dir.path()).1), [("a", 1), ("c", 1)]);
    }
}
