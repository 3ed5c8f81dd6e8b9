//! What to tell somebody whose schedule cannot be read: what was understood, and what they may have meant. Pure.

use crate::api::Duration;

use super::item::Kind;
use super::parse::{KINDS, SHORT, read_fields};

/// Text from outside in quotes, its control characters escaped, cut where it gets long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Forms that other crons have and this one does not; and nothing at all.
pub fn foreign(text: &str) -> Option<String> {
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    let rest = text[word.len()..].trim_ascii();
    if word.is_empty() {
        return Some("is empty; write five fields, such as \"0 3 * * *\" for every day at 03:00".to_owned());
    }
    if let Some((prefix, zone)) = word.split_once('=') {
        let known = matches!(prefix.to_ascii_uppercase().as_str(), "TZ" | "CRON_TZ");
        return known.then(|| {
            let meant = if zone.is_empty() { "Europe/Berlin" } else { zone };
            let cron = if readable(rest) { format!(", and spec.schedule.cron: {rest:?}") } else { String::new() };
            format!("an expression has no zone in it; write spec.schedule.timeZone: {}{cron}", quoted(meant))
        });
    }
    if !word.starts_with('@') || SHORT.iter().any(|(short, _)| *short == text) {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    Some(match lower.as_str() {
        "@every" => {
            let meant = if rest.parse::<Duration>().is_ok() { rest } else { "5m" };
            format!("@every is not cron; write spec.schedule.every: {meant} in place of spec.schedule.cron")
        }
        "@reboot" => "@reboot is not cron; for work that is done once, create an AxTask".to_owned(),
        _ => {
            let names: Vec<&str> = SHORT.iter().map(|(short, _)| *short).collect();
            let known = names.join(", ");
            let meant = closest(&lower, &names, 2).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            format!("no such short form; there are {known}{meant}")
        }
    })
}

/// A number of fields that is not five.
pub fn wrong_count(parts: &[&str]) -> String {
    let count = parts.len();
    let shown: Vec<String> = parts.iter().take(8).map(|part| format!("{part:?}")).collect();
    let more = if count > 8 { " ..." } else { "" };
    let mut why = format!("5 fields expected, {count} found: {}{more}", shown.join(" "));
    let tail = |from: usize| parts.get(from..from + 5).unwrap_or_default().join(" ");
    let year = |n: usize| parts.get(n).is_some_and(|part| looks_like_a_year(part));
    let (note, meant) = match count {
        7 => ("ax has no seconds and no year field", tail(1)),
        6 if year(5) => ("ax has no year field", tail(0)),
        6 => ("ax has no seconds field", tail(1)),
        1..=4 => ("", format!("{} {}", parts.join(" "), vec!["*"; 5 - count].join(" "))),
        _ => ("", String::new()),
    };
    if count < 5 {
        let missing: Vec<&str> = KINDS[count..].iter().map(|kind| kind.name).collect();
        why += &format!("; missing: {}", missing.join(", "));
    }
    if !note.is_empty() {
        why += &format!("; {note}");
    }
    if readable(&meant) {
        why += &format!("; did you mean {meant:?}?");
    }
    why
}

/// A value that is neither number nor name.
pub fn no_value(kind: &Kind, text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    let letters = upper.trim_matches(|c: char| c.is_ascii_digit());
    if upper.contains('#') || matches!(letters, "L" | "W" | "LW") {
        return format!("{text:?} is an extension; ax has no L, W and #");
    }
    let numbers = format!("{}-{}", kind.low, kind.top);
    let Some((first, last)) = kind.names.first().zip(kind.names.last()) else {
        return format!("{text:?} is no number; write {numbers}");
    };
    let meant = upper.get(..3).and_then(|short| kind.names.iter().find(|name| **name == short));
    let meant = meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    format!("{text:?} is no value; write {numbers}, or {first} to {last}{meant}")
}

/// A range that runs backwards, as the two it stands for.
pub fn reversed(kind: &Kind, item: &str, low: u32, high: u32) -> String {
    if !item.contains('-') {
        return format!("{item:?} begins after {}; for Sunday alone write 0, from Sunday on 0/n", kind.high);
    }
    let part = |from: u32, to: u32| if from == to { format!("{from}") } else { format!("{from}-{to}") };
    let over = match (kind.top > kind.high, high) {
        (true, 0) => part(low, kind.top), // up to the second Sunday
        _ => format!("{},{}", part(low, kind.high), part(kind.low, high)),
    };
    format!("the range {item:?} runs backwards; over the end write {over}")
}

/// A character that cron does not have, often from a word processor.
pub fn not_ascii(expression: &str, odd: char) -> String {
    let plain: String = expression
        .chars()
        .map(|c| match c {
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{2217}' | '\u{ff0a}' => '*',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect();
    let meant = if readable(&plain) { format!("; did you mean {plain:?}?") } else { String::new() };
    format!("{odd:?} is not ASCII{meant}")
}

/// A zone that is not IANA's, or not in its case.
pub fn unknown_zone(name: &str, known: impl Iterator<Item = String>) -> String {
    if name.eq_ignore_ascii_case("local") {
        return "would differ from host to host; name a zone, such as \"Europe/Berlin\", or leave it out for UTC"
            .into();
    }
    let known: Vec<String> = known.collect();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let city = |full: &&&str| full.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(name));
    let meant = names.iter().find(|full| full.eq_ignore_ascii_case(name)).or_else(|| names.iter().find(city)).copied();
    match meant.or_else(|| closest(name, &names, 3)) {
        Some(meant) => format!("no such IANA time zone; did you mean {meant:?}?"),
        None => "no such IANA time zone; write one such as \"Europe/Berlin\", or leave it out for UTC".to_owned(),
    }
}

fn readable(expression: &str) -> bool {
    // A hint never asks for a hint: five fields, plain.
    expression.split_ascii_whitespace().count() == 5 && expression.is_ascii() && read_fields(expression).is_ok()
}

fn looks_like_a_year(part: &str) -> bool {
    part.split(['-', ',', '/']).any(|n| n.len() == 4 && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name that fewest edits turn `text` into, at most `limit` of them.
fn closest<'a>(text: &str, names: &[&'a str], limit: usize) -> Option<&'a str> {
    if text.len() > 40 {
        return None;
    }
    let text: Vec<u8> = text.to_ascii_lowercase().into_bytes();
    let near = names.iter().filter(|name| name.len().abs_diff(text.len()) <= limit);
    let scored = near.map(|name| (edits(&text, name.to_ascii_lowercase().as_bytes()), *name));
    scored.filter(|(edits, _)| *edits <= limit).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Insertions, deletions and replacements between two texts.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let cost = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(a.len())
}
