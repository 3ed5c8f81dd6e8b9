//! The rules of the house that a machine holds: imports only go down, and the pure floors stay pure.
//!
//! `ARCHITECTURE.md` has the map. Tests inside `src` are exempt: they may build what they need.

mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use source::uses;

/// Each floor, and what of ax it may import beside itself.
const FLOORS: [(&str, &[&str]); 9] = [
    ("api", &[]),
    ("domain", &["api"]),
    ("ops", &["api", "domain"]),
    ("cluster", &["api", "domain", "ops"]),
    ("worker", &["api", "domain", "ops"]),
    ("scheduler", &["api", "domain", "ops", "cluster", "worker::wire"]),
    ("dispatcher", &["api", "domain", "ops", "cluster", "worker", "scheduler"]),
    ("controllers", &["api", "domain", "ops", "cluster", "worker", "scheduler", "dispatcher"]),
    ("bin", &["api", "domain", "ops", "cluster", "worker", "scheduler", "dispatcher", "controllers"]),
];

/// Floors without clock, client, runtime, log, randomness or environment.
const PURE: [&str; 2] = ["api", "domain"];

/// The crates a pure floor may use, but for what `IMPURE` and `IMPURE_CALLS` take out. A new dependency is kept out
/// until it stands here.
const PURE_CRATES: [&str; 10] =
    ["http", "jiff", "k8s_openapi", "kube", "schemars", "serde", "serde_json", "serde_yaml", "thiserror", "uuid"];

/// Paths that a pure floor may not use, whole or as the beginning of a longer one.
const IMPURE: [&str; 18] = [
    "kube::Api",
    "kube::Client",
    "kube::Config",
    "kube::api::Api",
    "kube::client",
    "kube::config",
    "kube::runtime",
    "std::env",
    "std::fs",
    "std::net::TcpListener", // addresses are values, sockets are not
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::process",
    "std::thread",
    "std::time::Instant", // its `elapsed` reads the clock as well as its `now`
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
];

/// Calls that read a clock or draw at random, however the type was imported.
const IMPURE_CALLS: [&str; 6] =
    ["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now", "Uuid::new_v4", "Uuid::now_v7"];

#[derive(Debug, Clone, PartialEq, Eq)]
struct Breach {
    file: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// The breaches of one file. `file` is its path from the crate's root; `crates` are the dependencies' names.
fn breaches(file: &Path, text: &str, crates: &BTreeSet<String>) -> Vec<Breach> {
    let module = module_of(file);
    let Some(floor) = module.first().map(String::as_str) else {
        return Vec::new(); // `lib.rs` only names the floors
    };
    let mut found = Vec::new();
    for path in uses(text).paths {
        let written = path.segments.join("::");
        let what = match of_ax(&path.segments, &module) {
            Some(inner) => upward(floor, &inner).map(|why| format!("{why}: {written}")),
            None if PURE.contains(&floor) => {
                impure(&path.segments, crates).map(|why| format!("{floor} {why}: {written}"))
            }
            None => None,
        };
        if let Some(what) = what {
            found.push(Breach { file: file.to_owned(), line: path.line, what });
        }
    }
    found
}

/// `src/api/task.rs` is `api::task`.
fn module_of(file: &Path) -> Vec<String> {
    let inside = file.strip_prefix("src").unwrap_or(file).with_extension("");
    let mut module: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    module
}

/// The path from ax's root, if it is one of ax and leaves its file's module.
fn of_ax(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" | "ax" => Some(rest.to_vec()),
        "self" => of_ax(rest, module),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let mut whole = module[..module.len().saturating_sub(ups)].to_vec();
            whole.extend_from_slice(&path[ups..]);
            Some(whole)
        }
        _ => None,
    }
}

/// Why `floor` may not import `path`, which is given from ax's root.
fn upward(floor: &str, path: &[String]) -> Option<String> {
    let target = path.first()?;
    if floor == "bin" || target == floor {
        return None;
    }
    if !FLOORS.iter().any(|(name, _)| name == target) {
        return Some(format!("{target} is no floor of ax"));
    }
    let (_, allowed) = FLOORS.iter().find(|(name, _)| *name == floor)?;
    let inside = |part: &&str| {
        part.split("::").zip(path).all(|(want, got)| want == got) && part.split("::").count() <= path.len()
    };
    if allowed.iter().any(inside) { None } else { Some(format!("{floor} may not import {target}")) }
}

/// Why a pure floor may not use `path`, which is not of ax.
fn impure(path: &[String], crates: &BTreeSet<String>) -> Option<&'static str> {
    let begins = |ban: &&str| {
        let ban: Vec<&str> = ban.split("::").collect();
        ban.len() <= path.len() && ban.iter().zip(path).all(|(want, got)| want == got)
    };
    let ends = |ban: &&str| {
        let ban: Vec<&str> = ban.split("::").collect();
        path.windows(ban.len()).any(|part| part == ban.as_slice())
    };
    let root = path.first()?;
    if IMPURE.iter().any(begins) || IMPURE_CALLS.iter().any(ends) {
        return Some("is pure and may not use");
    }
    if matches!(root.as_str(), "kube" | "std") && path.last().is_some_and(|last| last == "*") && path.len() <= 3 {
        return Some("is pure and may not use everything of");
    }
    (crates.contains(root) && !PURE_CRATES.contains(&root.as_str())).then_some("is pure and may not use the crate of")
}

/// The names by which the code knows its dependencies.
fn crates(root: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).expect("Cargo.toml is read");
    let mut section = "";
    let mut names = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]"
            && let Some((name, _)) = line.split_once(['=', '.'])
        {
            names.insert(name.trim().replace('-', "_"));
        }
    }
    names
}

/// Every Rust file below `folder`, in order, without those of `#[cfg(test)] mod name;`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    let mut tests = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of src is read") {
            let path = entry.expect("an entry of src is read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a file of src is read");
                // Where `mod name;` of this file finds its text.
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                let below = if stem == "mod" || stem == "lib" { folder.clone() } else { folder.join(&stem) };
                tests.extend(uses(&text).test_modules.iter().map(|name| below.join(name)));
                files.push(path);
            }
        }
    }
    files.retain(|file| !tests.iter().any(|test| file.with_extension("") == *test || file.starts_with(test)));
    files.sort();
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn imports_go_down_and_pure_floors_stay_pure() {
    let crates = crates(root());
    let mut found = Vec::new();
    for file in files(&root().join("src")) {
        let text = std::fs::read_to_string(&file).expect("a file of src is read");
        let name = file.strip_prefix(root()).expect("src is below the root");
        found.extend(breaches(name, &text, &crates));
    }
    let list: Vec<String> = found.iter().map(Breach::to_string).collect();
    assert!(list.is_empty(), "the rules of ARCHITECTURE.md are broken:\n{}", list.join("\n"));
}

#[test]
fn every_folder_of_src_has_its_place() {
    let mut got = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("src")).expect("src is read") {
        let path = entry.expect("an entry of src is read").path();
        if path.is_dir() {
            got.insert(path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
        }
    }
    got.retain(|folder| !FLOORS.iter().any(|(name, _)| name == folder));
    assert!(got.is_empty(), "give these folders of src a floor in this test: {got:?}");
}

#[test]
fn a_breach_is_shown_with_its_line() {
    let crates = ["tokio", "tracing", "jiff", "kube", "uuid", "tokio_util"].map(str::to_owned).into();
    let domain = "\
//! use tokio::time; is only talk
use crate::api::Phase;
use crate::{api::Duration, cluster::Lease};
use super::super::worker;
use std::{collections::BTreeMap, env, time::{Duration as D, Instant}};
fn now() -> jiff::Timestamp { jiff::Timestamp::now() }
async fn wait() { tokio::time::sleep(D::ZERO).await }
use kube::{CustomResource, Client};
use tracing::info;
fn id() -> Uuid { uuid::Uuid::new_v4() }
use tokio_util as quiet;
use std::time::*;
fn ask(pod: std::net::IpAddr) { std::net::TcpStream::connect(pod) }
fn fine() { self::now(); super::other::x(); \"crate::bin::x\"; }
#[cfg(test)]
mod tests { use crate::scheduler::Loop; fn x() { tokio::spawn(y()) } }
";
    let got: Vec<String> =
        breaches(Path::new("src/domain/due.rs"), domain, &crates).iter().map(Breach::to_string).collect();
    let want = [
        "src/domain/due.rs:3: domain may not import cluster: crate::cluster::Lease",
        "src/domain/due.rs:4: domain may not import worker: super::super::worker",
        "src/domain/due.rs:5: domain is pure and may not use: std::env",
        "src/domain/due.rs:5: domain is pure and may not use: std::time::Instant",
        "src/domain/due.rs:6: domain is pure and may not use: jiff::Timestamp::now",
        "src/domain/due.rs:7: domain is pure and may not use the crate of: tokio::time::sleep",
        "src/domain/due.rs:8: domain is pure and may not use: kube::Client",
        "src/domain/due.rs:9: domain is pure and may not use the crate of: tracing::info",
        "src/domain/due.rs:10: domain is pure and may not use: uuid::Uuid::new_v4",
        "src/domain/due.rs:11: domain is pure and may not use the crate of: tokio_util",
        "src/domain/due.rs:12: domain is pure and may not use everything of: std::time::*",
        "src/domain/due.rs:13: domain is pure and may not use: std::net::TcpStream::connect",
    ];
    assert_eq!(got, want);
}

#[test]
fn each_floor_imports_its_own_side_only() {
    let none = BTreeSet::new();
    for (file, import, want) in [
        ("src/cluster/lease.rs", "crate::worker::wire", Some("cluster may not import worker")),
        ("src/worker/client.rs", "crate::cluster::Error", Some("worker may not import cluster")),
        ("src/scheduler/mod.rs", "crate::worker::wire::TERM", None),
        ("src/scheduler/mod.rs", "crate::worker::client::Pool", Some("scheduler may not import worker")),
        ("src/scheduler/mod.rs", "crate::worker", Some("scheduler may not import worker")),
        ("src/scheduler/mod.rs", "super::dispatcher", Some("scheduler may not import dispatcher")),
        ("src/dispatcher/send.rs", "crate::worker::client::Pool", None),
        ("src/controllers/task.rs", "crate::dispatcher::Handle", None),
        ("src/ops/health.rs", "crate::cluster::Lease", Some("ops may not import cluster")),
        ("src/api/task.rs", "super::Duration", None),
        ("src/api/task.rs", "crate::domain::retry", Some("api may not import domain")),
        ("src/api/task.rs", "crate::Everything", Some("Everything is no floor of ax")),
        ("src/bin/ax-operator.rs", "ax::controllers::run", None),
        ("src/lib.rs", "crate::api::Phase", None),
    ] {
        let got: Vec<String> =
            breaches(Path::new(file), &format!("use {import};"), &none).into_iter().map(|found| found.what).collect();
        let want: Vec<String> = want.iter().map(|why| format!("{why}: {import}")).collect();
        assert_eq!(got, want, "{file} {import}");
    }
}
