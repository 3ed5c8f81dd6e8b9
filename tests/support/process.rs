//! Child processes: operators and real workers. They end with the test process, also when that is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// One child, its output in a file.
pub struct Process {
    pub name: String,
    pub log: PathBuf,
    child: Mutex<Child>,
    pid: Pid,
}

impl Process {
    /// Starts `program`, output appended to `log`.
    pub fn start(name: &str, program: &str, args: &[String], envs: &[(String, String)], log: &Path) -> Self {
        let mut command = dying_with_parent(program);
        command.args(args).envs(envs.iter().map(|(k, v)| (k.as_str(), v.as_str()))).stdin(Stdio::null());
        let open = || File::options().create(true).append(true).open(log).expect("the log can be written");
        command.stdout(open()).stderr(open());
        let child = spawn(command);
        let pid = Pid::from_child(&child);
        Self { name: name.to_owned(), log: log.to_owned(), child: Mutex::new(child), pid }
    }

    pub fn signal(&self, signal: Signal) {
        // A child that is not yet reaped keeps its pid, so this never hits another process.
        if self.try_exit().is_none() {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill9(&self) {
        let mut child = self.child.lock().expect("no panic while held");
        let _ = child.kill();
        let _ = child.wait();
    }

    pub fn try_exit(&self) -> Option<ExitStatus> {
        self.child.lock().expect("no panic while held").try_wait().expect("a child can be waited for")
    }

    /// Waits for the end; panics with the log's last lines.
    pub async fn wait_exit(&self, limit: Duration) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.try_exit() {
                return status;
            }
            if begin.elapsed() > limit {
                panic!("waited {limit:?} for {} to exit; its log ends:\n{}", self.name, tail(&self.log, 30));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Resident memory, KiB.
    pub fn rss_kib(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// CPU time used so far, in steps of 10 ms: Linux tells it in hundredths of a second.
    pub fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // The name stands in parentheses and may hold anything; user and system time are the 12th and 13th after it.
        let after_name = text.rsplit(')').next().unwrap_or_default();
        let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// The last lines of a file.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// `setpriv --pdeathsig` execs the program, so the pid is the program's.
fn dying_with_parent(program: &str) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let there = *SETPRIV
        .get_or_init(|| Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success()));
    if !there {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

/// The death signal comes when the *thread* that spawned the child ends, so one thread that never does spawns all.
fn spawn(command: Command) -> Child {
    type Order = (Command, Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, receiver) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in receiver {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let program = format!("{command:?}");
    let (answer, result) = channel();
    spawner.lock().expect("no panic while held").send((command, answer)).expect("the spawner lives");
    result.recv().expect("the spawner answers").unwrap_or_else(|error| panic!("failed to start {program}: {error}"))
}
