//! Runs one command as a process group of its own, and leaves nothing of it behind.
//!
//! IO: processes. The payload goes in and both outputs come out at the same time, so that neither side waits for
//! the other, and of what comes out only a bounded part is kept. However the command ends, its group is killed
//! afterwards: a child that it left in the background does not outlive its attempt. Accepted race: the group is
//! signalled by number right after its leader was reaped; the number cannot be another group's unless the
//! kernel's process ids went around once in between. A child that starts a session of its own leaves the group,
//! and is not found.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hyper::body::Bytes;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::drain::Phase;
use super::request::Request;
use crate::worker::wire;

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// How long outputs are still read once the group is dead: only somebody outside of it can hold them open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often a group is looked at while it is awaited.
const LOOK: Duration = Duration::from_millis(20);
/// How long a killed group is awaited: a process in an uninterruptible wait dies when that is over, not before.
const CLEARING: Duration = Duration::from_secs(2);
/// Stderr kept, bytes; more than an answer shows, since control characters are taken out later.
const STDERR_KEPT: usize = 4 * 1024;

/// What every task runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// Path, or a name looked up in `PATH`.
    pub name: OsString,
    /// Its arguments; nothing of a request ever becomes one.
    pub args: Vec<OsString>,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub ending: Ending,
    /// The beginning of stdout.
    pub stdout: Vec<u8>,
    /// Stdout was longer.
    pub stdout_cut: bool,
    /// The end of stderr.
    pub stderr: Vec<u8>,
}

/// How a command ended.
#[derive(Debug)]
pub enum Ending {
    /// By itself, or by somebody else's signal.
    Exited(ExitStatus),
    /// Its time was over.
    TimedOut,
    /// The worker had to go.
    Stopped,
    /// It could not be started, or the kernel does not tell how it ended.
    Failed(io::Error),
}

impl Ending {
    /// For logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Exited(_) => "Exited",
            Self::TimedOut => "TimedOut",
            Self::Stopped => "Stopped",
            Self::Failed(_) => "NotStarted",
        }
    }
}

/// Runs the command to its end, its timeout, or the worker's.
pub async fn run(program: &Program, request: &Request, payload: Bytes, mut phase: watch::Receiver<Phase>) -> Output {
    let mut stdout = Head::default();
    let mut stderr = Tail::default();
    let ending = match spawn(program, request) {
        Ok(mut child) => {
            let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let streams = async {
                tokio::join!(feed(pipes.0, &payload), stdout.fill(pipes.1), stderr.fill(pipes.2),);
            };
            let life = live(&mut child, request.timeout, &mut phase);
            tokio::pin!(streams, life);
            tokio::select! {
                ending = &mut life => {
                    let _ = timeout(LAST_WORDS, streams).await;
                    ending
                }
                () = &mut streams => life.await,
            }
        }
        Err(error) => Ending::Failed(error),
    };
    Output { ending, stdout: stdout.kept, stdout_cut: stdout.cut, stderr: stderr.kept }
}

fn spawn(program: &Program, request: &Request) -> io::Result<Child> {
    Command::new(&program.name)
        .args(&program.args)
        .envs(request.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Sees a command to its end; its group is dead when this returns.
async fn live(child: &mut Child, limit: Duration, phase: &mut watch::Receiver<Phase>) -> Ending {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let ending = tokio::select! {
        status = child.wait() => match status {
            Ok(status) => Ending::Exited(status),
            Err(error) => Ending::Failed(error),
        },
        () = sleep(limit) => Ending::TimedOut,
        () = reached(phase, Phase::Stopping) => Ending::Stopped,
    };
    let Some(group) = group else {
        return ending;
    };
    // An error of a signal means that nobody is left to get it.
    if matches!(ending, Ending::TimedOut | Ending::Stopped) {
        let _ = kill_process_group(group, Signal::TERM);
        tokio::select! {
            () = gone(child, group) => {}
            () = sleep(GRACE) => {}
            () = reached(phase, Phase::Killing) => {}
        }
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = timeout(CLEARING, gone(child, group)).await;
    ending
}

/// Returns once nobody of the group is left.
async fn gone(child: &mut Child, group: Pid) {
    let _ = child.wait().await;
    loop {
        // Orphans of the group are this process's to reap if it is the container's first.
        while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
        if test_kill_process_group(group).is_err() {
            return;
        }
        sleep(LOOK).await;
    }
}

async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        // Nobody is left to move it.
        std::future::pending::<()>().await;
    }
}

/// Writes the payload and closes the pipe. A command may end, or close it, without reading.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload).await;
    }
}

/// The beginning of a stream; the rest is read and dropped.
#[derive(Debug, Default)]
struct Head {
    kept: Vec<u8>,
    cut: bool,
}

impl Head {
    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        read_all(stream, |bytes| {
            let room = wire::MAX_RESPONSE_READ - self.kept.len();
            self.cut |= bytes.len() > room;
            self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        })
        .await;
    }
}

/// The end of a stream.
#[derive(Debug, Default)]
struct Tail {
    kept: Vec<u8>,
}

impl Tail {
    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        read_all(stream, |bytes| {
            let bytes = &bytes[bytes.len().saturating_sub(STDERR_KEPT)..];
            let surplus = (self.kept.len() + bytes.len()).saturating_sub(STDERR_KEPT);
            self.kept.drain(..surplus);
            self.kept.extend_from_slice(bytes);
        })
        .await;
    }
}

/// Hands over what a stream gives, to its end; an error is one.
async fn read_all(stream: Option<impl AsyncRead + Unpin>, mut each: impl FnMut(&[u8])) {
    let Some(mut stream) = stream else {
        return;
    };
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        each(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_keeps_the_beginning_and_says_that_it_cut() {
        let max = wire::MAX_RESPONSE_READ;
        for (length, cut) in [(0, false), (max, false), (max + 1, true), (3 * max, true)] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut head = Head::default();
            head.fill(Some(&bytes[..])).await;
            assert_eq!(head.cut, cut, "{length}");
            assert_eq!(head.kept, bytes[..length.min(max)], "{length}");
        }
    }

    #[tokio::test]
    async fn a_tail_keeps_the_end() {
        for length in [0, 10, STDERR_KEPT, STDERR_KEPT + 1, 5 * STDERR_KEPT + 7] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut tail = Tail::default();
            tail.fill(Some(&bytes[..])).await;
            let want = &bytes[length.saturating_sub(STDERR_KEPT)..];
            assert_eq!(tail.kept, want, "{length}");
        }
    }
}
