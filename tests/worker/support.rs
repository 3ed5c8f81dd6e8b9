//! A running `ax-worker`, and a client that sends it what it is told to, well-formed or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ax::ops::clock::Clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub const POD: &str = "pod-a";
/// Longer than anything here should take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker to be started, whose tasks run `script` with sh in the journal's directory's neighbour `work`.
pub struct Setup {
    script: String,
    concurrency: usize,
    args: Vec<String>,
    before: String,
    home: Arc<tempfile::TempDir>,
}

pub fn sh(script: &str) -> Setup {
    Setup {
        script: script.to_owned(),
        concurrency: 4,
        args: Vec::new(),
        before: String::new(),
        home: Arc::new(tempfile::tempdir().unwrap()),
    }
}

impl Setup {
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Shell commands that run in the worker's process before it is the worker.
    pub fn before(mut self, commands: &str) -> Self {
        self.before = commands.to_owned();
        self
    }

    pub fn command(&self) -> Command {
        let work = self.home.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{} exec \"$@\"", self.before), "sh"])
            .arg(env!("CARGO_BIN_EXE_ax-worker"))
            .args(["exec", "--listen", "127.0.0.1:0", "--pod-uid", POD])
            .args(["--log-level", "debug,hyper=off"])
            .arg("--journal-dir")
            .arg(self.home.path().join("journal"))
            .args(["--concurrency", &self.concurrency.to_string()])
            .args(&self.args)
            .args(["--", "sh", "-c", &self.script])
            .current_dir(work)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    pub fn start(self) -> Worker {
        let mut child = self.command().spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut first = String::new();
        let address = loop {
            let line = lines.next().expect("it ended before it listened").unwrap();
            first.push_str(&line);
            first.push('\n');
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["msg"] == "listening" {
                break line["address"].as_str().unwrap().parse().unwrap();
            }
        };
        let log = Arc::new(Mutex::new(first));
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = sink.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Worker { setup: self, child, address, log }
    }
}

pub struct Worker {
    setup: Setup,
    child: Child,
    pub address: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// The same worker again on the same journal, after the signal has ended this one.
    pub fn restart(mut self, signal: Signal) -> Self {
        self.signal(signal);
        self.wait();
        let again = Setup {
            script: self.setup.script.clone(),
            concurrency: self.setup.concurrency,
            args: self.setup.args.clone(),
            before: self.setup.before.clone(),
            home: Arc::clone(&self.setup.home),
        };
        again.start()
    }

    pub fn second_on_the_same_journal(&self) -> Command {
        self.setup.command()
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.setup.home.path().join("work").join(file)
    }

    /// What the tasks' scripts have written into a file.
    pub fn file(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Creates the file for which a script waits.
    pub fn release(&self, file: &str) {
        std::fs::write(self.path(file), "").unwrap();
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub fn inventory(&self, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", "/ax/v1/executions", headers, b"")
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: w\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        // A worker that does not want the body may close before it has all of it.
        let _ = stream.write_all(body);
        read_answer(stream)
    }

    /// Free places, by the worker's own word.
    pub fn room(&self) -> String {
        self.get("/healthz").header("ratelimit").to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A dispatch to be sent.
#[derive(Clone)]
pub struct Task {
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

pub fn task(id: &str) -> Task {
    Task { headers: Vec::new(), body: b"null".to_vec() }
        .with("ce-specversion", "1.0")
        .with("ce-id", id)
        .with("ce-axattempt", "1")
        .with("Ax-Pod-Uid", POD)
}

impl Task {
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub fn attempt(self, attempt: u32) -> Self {
        self.with("ce-axattempt", &attempt.to_string())
    }

    pub fn term(self, term: u64) -> Self {
        self.with("ce-axterm", &term.to_string())
    }

    pub fn timeout(self, timeout: &str) -> Self {
        self.with("Request-Timeout", timeout)
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn post(&self, worker: &Worker) -> Answer {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        worker.send("POST", "/tasks", &headers, &self.body)
    }

    /// Posts it, and has a thread wait for the answer.
    pub fn begin(&self, worker: &Worker) -> JoinHandle<Answer> {
        let stream = self.send_only(worker);
        std::thread::spawn(move || read_answer(stream))
    }

    /// Posts it and leaves the connection to the caller.
    pub fn send_only(&self, worker: &Worker) -> TcpStream {
        let mut stream = TcpStream::connect(worker.address).unwrap();
        let mut head = String::from("POST /tasks HTTP/1.1\r\nHost: w\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&self.body).unwrap();
        stream
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The header's value, empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Reads one answer, by its length: the connection may stay open.
pub fn read_answer(stream: TcpStream) -> Answer {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let mut answer = Answer { status, headers, body: String::new() };
    let length: usize = answer.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    answer.body = String::from_utf8(body).unwrap();
    answer
}

/// Waits until it holds; fails when it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !holds() {
        assert!(clock.mono() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process runs; one that is dead and only not reaped does not.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| {
        let state = stat.rsplit(')').next().map(str::trim_start);
        state.is_some_and(|state| !state.starts_with('Z'))
    })
}
