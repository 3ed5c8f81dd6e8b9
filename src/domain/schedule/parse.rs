//! A cron expression, read into its fields or refused with a reason. Pure, total.

use super::fields::Fields;
use super::item::{DAY, HOUR, Kind, MINUTE, MONTH, WEEKDAY, read as read_field};
use super::{CRON, Refused, Why, hint, refused};

/// Longer expressions are not read.
const LONGEST: usize = 128;

/// What each short form stands for.
pub const SHORT: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The fields in their order.
pub const KINDS: [&Kind; 5] = [&MINUTE, &HOUR, &DAY, &MONTH, &WEEKDAY];

/// Reads an expression that has a day to fire on.
pub fn read(expression: &str) -> Result<Fields, Refused> {
    let fields = read_fields(expression).map_err(|why| refused(Why::InvalidSchedule, CRON, expression, &why))?;
    if fields.has_a_day() {
        Ok(fields)
    } else {
        let why = "never fires: none of its months has such a day";
        Err(refused(Why::ScheduleNeverFires, CRON, expression, why))
    }
}

/// Reads the text alone; it may name a day that no calendar has.
pub fn read_fields(expression: &str) -> Result<Fields, String> {
    if expression.len() > LONGEST {
        return Err(format!("{} bytes are too long; at most {LONGEST}", expression.len()));
    }
    if let Some(odd) = expression.chars().find(|c| !c.is_ascii()) {
        return Err(hint::not_ascii(expression, odd));
    }
    let text = expression.trim_ascii();
    if let Some(why) = hint::foreign(text) {
        return Err(why);
    }
    let text = SHORT.iter().find(|(short, _)| *short == text).map_or(text, |(_, long)| long);
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    let &[minute, hour, day, month, weekday] = parts.as_slice() else {
        return Err(hint::wrong_count(&parts));
    };
    five([minute, hour, day, month, weekday])
}

/// Every field that cannot be read is named, not the first alone.
fn five(texts: [&str; 5]) -> Result<Fields, String> {
    let mut wrong = Vec::new();
    let mut read = |kind: &Kind, text: &str| read_field(kind, text).map_err(|why| wrong.push(why)).ok();
    let [minute, hour, day, month, weekday] = std::array::from_fn(|n| read(KINDS[n], texts[n]));
    let (Some(minute), Some(hour), Some(day), Some(month), Some(weekday)) = (minute, hour, day, month, weekday) else {
        return Err(wrong.join("; "));
    };
    Ok(Fields {
        minutes: minute.bits,
        // No field but the minute goes beyond 31.
        hours: hour.bits as u32,
        days: day.bits as u32,
        months: month.bits as u32,
        weekdays: weekday.bits as u32,
        either_day: !day.open && !weekday.open,
        follows: minute.starred || hour.starred,
    })
}
