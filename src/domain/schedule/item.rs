//! One field: a list of values, ranges and steps, read into bits. Pure, total.

use super::hint;

/// What a field may hold.
pub struct Kind {
    pub name: &'static str,
    pub low: u32,
    /// The end of `*`, and of `n/step`.
    pub high: u32,
    /// The largest number that may be written: weekdays have a second Sunday.
    pub top: u32,
    /// Names of the values from `low` on.
    pub names: &'static [&'static str],
}

pub const MINUTE: Kind = Kind { name: "minute", low: 0, high: 59, top: 59, names: &[] };
pub const HOUR: Kind = Kind { name: "hour", low: 0, high: 23, top: 23, names: &[] };
pub const DAY: Kind = Kind { name: "day of month", low: 1, high: 31, top: 31, names: &[] };
pub const MONTH: Kind = Kind {
    name: "month",
    low: 1,
    high: 12,
    top: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
pub const WEEKDAY: Kind =
    Kind { name: "day of week", low: 0, high: 6, top: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };

/// One field, read.
pub struct Field {
    pub bits: u64,
    /// `*`, `?`, `*/1`, or a list with one of these: says nothing.
    pub open: bool,
    /// Begins with `*` or `?`.
    pub starred: bool,
}

/// Reads one field, or says what is wrong with it.
pub fn read(kind: &Kind, text: &str) -> Result<Field, String> {
    let mut field = Field { bits: 0, open: false, starred: text.starts_with(['*', '?']) };
    for item in text.split(',') {
        let (bits, open) = read_item(kind, item).map_err(|why| format!("{} {text:?}: {why}", kind.name))?;
        field.bits |= bits;
        field.open |= open;
    }
    Ok(field)
}

fn read_item(kind: &Kind, item: &str) -> Result<(u64, bool), String> {
    if item.is_empty() {
        return Err("a value is missing beside a comma".to_owned());
    }
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(read_step(kind, item, step)?)),
        None => (item, None),
    };
    let all = matches!(range, "*" | "?");
    let (low, high) = if all {
        (kind.low, kind.high)
    } else if let Some((low, high)) = range.split_once('-') {
        (read_value(kind, low, item)?, read_value(kind, high, item)?)
    } else {
        let value = read_value(kind, range, item)?;
        (value, if step.is_some() { kind.high } else { value })
    };
    if low > high {
        return Err(hint::reversed(kind, item, low, high));
    }
    let step = step.unwrap_or(1);
    let mut bits = (low..=high).step_by(step).fold(0, |bits, value| bits | 1u64 << value);
    if kind.top > kind.high {
        bits = (bits | bits >> kind.top) & !(1 << kind.top); // the second Sunday is the first
    }
    Ok((bits, all && step == 1))
}

fn read_step(kind: &Kind, item: &str, text: &str) -> Result<usize, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the step in {item:?} is no number; write */5, or 10-40/5"));
    }
    match text.parse::<u16>() {
        Ok(0) => Err(format!("the step in {item:?} is 0; a step is at least 1")),
        Ok(step) => Ok(step.into()),
        Err(_) => Err(format!("the step in {item:?} is too large; {} goes to {}", kind.name, kind.high)),
    }
}

fn read_value(kind: &Kind, text: &str, item: &str) -> Result<u32, String> {
    if text.is_empty() {
        return Err(format!("a value is missing in {item:?}"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let value = text.parse().unwrap_or(u32::MAX);
        return if (kind.low..=kind.top).contains(&value) {
            Ok(value)
        } else {
            Err(format!("{text} is not in {}-{}", kind.low, kind.top))
        };
    }
    let named = kind.names.iter().zip(kind.low..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|(_, value)| value).ok_or_else(|| hint::no_value(kind, text))
}
