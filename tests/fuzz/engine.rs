//! Makes inputs, watches what they do, and makes small what fails.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::dice::Dice;

/// What `make test` spends on the three, side by side.
const SECONDS: u64 = 10;
/// What one input may take, all its questions together. Where nothing is optimised it is slower by far.
fn limit() -> Duration {
    Duration::from_millis(number("AX_FUZZ_LIMIT_MS").unwrap_or(200))
}

/// A reader to be fed.
pub struct Target {
    /// The folder of its corpus.
    pub name: &'static str,
    /// What mutations insert beside random bytes.
    pub tokens: &'static [&'static str],
    /// Makes an input that is mostly good.
    pub draw: fn(&mut Dice) -> String,
    /// Panics if the reader breaks a promise; true if it took the input.
    pub check: fn(&str) -> bool,
}

enum Verdict {
    Taken,
    Refused,
    Bad(String),
}

pub fn run(target: &Target) {
    let seed = number("AX_FUZZ_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 % 1_000_000_007)
    });
    let time = Duration::from_secs(number("AX_FUZZ_SECONDS").unwrap_or(SECONDS));
    let (mut inputs, mut taken, mut slowest) = (0u64, 0u64, (Duration::ZERO, String::new()));
    let mut feed = |input: &str| {
        let (verdict, took) = judge(target, input);
        if took > slowest.0 {
            slowest = (took, input.to_owned());
        }
        inputs += 1;
        match verdict {
            Verdict::Taken => taken += 1,
            Verdict::Refused => {}
            Verdict::Bad(why) => panic!("{} of seed {seed}: {why}\n  input: {:?}", target.name, smaller(target, input)),
        }
    };

    let corpus = corpus(target.name);
    corpus.iter().for_each(|input| feed(input));
    let mut dice = Dice::new(seed);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let drawn = (target.draw)(&mut dice);
        feed(&drawn);
        let base = if dice.percent(50) { &drawn } else { &corpus[dice.index(corpus.len())] };
        let other = &corpus[dice.index(corpus.len())];
        feed(&mutated(&mut dice, base, other, target.tokens));
    }
    let (slowest, input) = slowest;
    println!("{}: seed {seed}, {inputs} inputs, {taken} taken, slowest {slowest:?}: {input:?}", target.name);
}

/// What the reader made of it, and how long that took.
fn judge(target: &Target, input: &str) -> (Verdict, Duration) {
    let once = || {
        let begin = Instant::now();
        let taken = (target.check)(input);
        (taken, begin.elapsed())
    };
    let (taken, mut took) = match catch_unwind(AssertUnwindSafe(once)) {
        Ok(answer) => answer,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            return (Verdict::Bad(text.unwrap_or_default()), Duration::ZERO);
        }
    };
    // Other programs run, too: slow is what is slow every time.
    let limit = limit();
    for _ in 0..5 {
        if took > limit / 4 {
            took = took.min(once().1);
        }
    }
    let verdict = match taken {
        _ if took > limit => Verdict::Bad(format!("takes {took:?}, more than {limit:?}")),
        true => Verdict::Taken,
        false => Verdict::Refused,
    };
    (verdict, took)
}

/// A few changes of bytes, tokens and slices. What is then no text is read as text is read: with replacements.
fn mutated(dice: &mut Dice, base: &str, other: &str, tokens: &[&str]) -> String {
    let mut bytes = base.as_bytes().to_vec();
    for _ in 0..dice.between(1, 4) {
        let at = dice.index(bytes.len() + 1);
        let end = (at + dice.index(8)).min(bytes.len());
        match dice.index(7) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.insert(at, dice.roll() as u8),
            2 => bytes.insert(at, b' ' + dice.index(95) as u8),
            3 => {
                let token = dice.pick(tokens).bytes();
                bytes.splice(at..end, token);
            }
            4 => {
                let token = dice.pick(tokens).bytes();
                bytes.splice(at..at, token);
            }
            5 => bytes.extend_from_within(at..end),
            _ => {
                let from = dice.index(other.len() + 1);
                bytes.splice(at.., other.bytes().skip(from));
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The input without every part that it can do without and still fail.
fn smaller(target: &Target, input: &str) -> String {
    let mut chars: Vec<char> = input.chars().collect();
    for size in [16, 4, 1] {
        let mut at = 0;
        while at < chars.len() {
            let mut fewer = chars.clone();
            fewer.drain(at..(at + size).min(chars.len()));
            let text: String = fewer.iter().collect();
            if matches!(judge(target, &text).0, Verdict::Bad(_)) { chars = fewer } else { at += size }
        }
    }
    chars.into_iter().collect()
}

/// The committed inputs, by name. A line's end at the end of a file is an editor's.
fn corpus(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
    let texts: Vec<String> = files.iter().map(read).collect();
    assert!(!texts.is_empty(), "no corpus in {}", folder.display());
    texts.into_iter().map(|text| text.strip_suffix('\n').map_or(text.clone(), str::to_owned)).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text:?}: no number")))
}
