//! The journal: which executions have started and how they ended, so that a restart repeats nothing.
//!
//! IO: one thread of its own owns the file, and writes what has gathered meanwhile in one go. A record is in the
//! operating system's hands when [`Journal::append`] returns. That survives the death of this process and of its
//! container, if the directory outlives it (an `emptyDir` does); it is not forced to the disk, so a node's power
//! loss may take the last seconds, and the pod with them.

mod file;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::answer::Answer;
use file::File;

/// Most appends that go into one write.
const BATCH: usize = 256;

/// One attempt: started, or with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Execution id; a later record of the same replaces an earlier one.
    pub id: String,
    /// Attempt number.
    pub attempt: u32,
    /// When this was written, in Unix milliseconds.
    pub at: i64,
    /// `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory or a file in it.
    #[error("failed to open the journal in {}", dir.display())]
    Open { dir: PathBuf, source: std::io::Error },
    /// Two workers with one journal would each run what the other runs.
    #[error("the journal in {} belongs to another running worker", dir.display())]
    InUse { dir: PathBuf },
    /// A record could not be written; none of it is left in the file.
    #[error("failed to write to the journal")]
    Write(#[source] std::io::Error),
    /// The thread has gone.
    #[error("the journal is closed")]
    Closed,
}

/// A handle to the journal's thread.
#[derive(Debug, Clone)]
pub struct Journal {
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Debug)]
enum Command {
    Append(Box<Record>, oneshot::Sender<Result<(), Error>>),
    Read(String, oneshot::Sender<Option<Record>>),
    Forget(Vec<String>),
}

impl Journal {
    /// Opens the journal, creating it if need be, and returns what it holds, oldest first.
    ///
    /// No attempt is left without an answer: the ones that had only started were lost with the process that ran
    /// them, and get [`Answer::lost`] here, durably.
    pub async fn open(dir: &Path, now: i64) -> Result<(Self, Vec<Record>), Error> {
        let dir = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || open(&dir, now)).await;
        let (file, records) = opened.map_err(|_| Error::Closed)??;
        let (commands, inbox) = mpsc::unbounded_channel();
        // Not a task: a slow disk must not hold up the runtime.
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_loop(file, inbox))
            .map_err(Error::Write)?;
        Ok((Self { commands }, records))
    }

    /// Writes a record; on an error none of it counts.
    pub async fn append(&self, record: Record) -> Result<(), Error> {
        let (done, written) = oneshot::channel();
        let command = Command::Append(Box::new(record), done);
        self.commands.send(command).map_err(|_| Error::Closed)?;
        written.await.map_err(|_| Error::Closed)?
    }

    /// The last record of an execution.
    pub async fn read(&self, id: &str) -> Option<Record> {
        let (done, found) = oneshot::channel();
        let command = Command::Read(id.to_owned(), done);
        self.commands.send(command).ok()?;
        found.await.ok()?
    }

    /// Drops executions; their place in the file is freed some time later.
    pub fn forget(&self, ids: Vec<String>) {
        if !ids.is_empty() {
            // Without the thread nothing will be written either.
            let _ = self.commands.send(Command::Forget(ids));
        }
    }
}

fn open(dir: &Path, now: i64) -> Result<(File, Vec<Record>), Error> {
    let (mut file, mut records) = File::open(dir)?;
    for record in records.iter_mut().filter(|record| record.answer.is_none()) {
        record.at = now;
        record.answer = Some(Answer::lost());
        file.append(std::slice::from_ref(record)).map_err(Error::Write)?;
    }
    // The lost ones are the youngest now.
    records.sort_by_key(|record| record.at);
    Ok((file, records))
}

/// Runs until the last handle is gone. Commands take effect in the order in which they came.
fn write_loop(mut file: File, mut inbox: mpsc::UnboundedReceiver<Command>) {
    let mut batch = Vec::new();
    let mut appends = Appends::default();
    while inbox.blocking_recv_many(&mut batch, BATCH) > 0 {
        for command in batch.drain(..) {
            match command {
                Command::Append(record, done) => {
                    appends.records.push(*record);
                    appends.waiting.push(done);
                }
                Command::Read(id, found) => {
                    appends.flush(&mut file);
                    let _ = found.send(file.read(&id));
                }
                Command::Forget(ids) => {
                    appends.flush(&mut file);
                    file.forget(&ids);
                }
            }
        }
        appends.flush(&mut file);
        if let Err(error) = file.compact_if_due() {
            tracing::warn!(%error, "journal not compacted, it keeps growing");
        }
    }
}

/// Records that go into the next write, and who waits for it.
#[derive(Default)]
struct Appends {
    records: Vec<Record>,
    waiting: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Appends {
    fn flush(&mut self, file: &mut File) {
        if self.records.is_empty() {
            return;
        }
        let result = file.append(&self.records);
        self.records.clear();
        for done in self.waiting.drain(..) {
            // All of a write fails together; each of its senders learns why.
            let copy = result
                .as_ref()
                .map_err(|error| Error::Write(std::io::Error::new(error.kind(), error.to_string())))
                .copied();
            let _ = done.send(copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, attempt: u32, answer: Option<Answer>) -> Record {
        Record { id: id.to_owned(), attempt, at: 100, answer }
    }

    fn success(body: &str) -> Option<Answer> {
        Some(Answer { status: 200, retryable: None, body: body.to_owned() })
    }

    #[tokio::test]
    async fn a_restart_finds_answers_and_makes_the_started_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, records) = Journal::open(dir.path(), 1).await.unwrap();
        assert_eq!(records, []);
        for written in [record("done", 1, None), record("cut", 2, None), record("done", 1, success("7"))] {
            journal.append(written).await.unwrap();
        }
        drop(journal);

        let reopened = reopen(dir.path(), 200).await;
        let (journal, records) = reopened;
        let lost = Record { at: 200, ..record("cut", 2, Some(Answer::lost())) };
        assert_eq!(records, [record("done", 1, success("7")), lost.clone()]);
        assert_eq!(journal.read("cut").await, Some(lost.clone()), "lost for good");
        drop(journal);

        let (_, records) = reopen(dir.path(), 300).await;
        assert_eq!(records[1], lost, "not lost anew");
    }

    /// The lock of the handle just dropped is given up by its thread, a moment later.
    async fn reopen(dir: &Path, now: i64) -> (Journal, Vec<Record>) {
        loop {
            match Journal::open(dir, now).await {
                Err(Error::InUse { .. }) => tokio::task::yield_now().await,
                other => return other.unwrap(),
            }
        }
    }

    #[tokio::test]
    async fn two_workers_cannot_share_a_journal() {
        let dir = tempfile::tempdir().unwrap();
        let _first = Journal::open(dir.path(), 1).await.unwrap();
        let second = Journal::open(dir.path(), 1).await;
        assert!(matches!(second, Err(Error::InUse { .. })));
    }

    #[tokio::test]
    async fn what_is_forgotten_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(dir.path(), 1).await.unwrap();
        journal.append(record("a", 1, success("1"))).await.unwrap();
        assert_eq!(journal.read("a").await, Some(record("a", 1, success("1"))));
        journal.forget(vec!["a".to_owned()]);
        assert_eq!(journal.read("a").await, None);
    }
}
