//! Random cron expressions that ax reads: every form of the grammar.

use super::dice::Dice;

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Five fields. Most name few minutes; some name a day that never comes.
pub fn draw(dice: &mut Dice) -> String {
    let minute = field(dice, 0, 59, &[], 12);
    let hour = field(dice, 0, 23, &[], 35);
    let day = field(dice, 1, 31, &[], 60);
    let month = field(dice, 1, 12, &MONTHS, 70);
    let weekday = field(dice, 0, 7, &WEEKDAYS, 60);
    format!("{minute} {hour} {day} {month} {weekday}")
}

/// One field; `open` times in a hundred it says nothing.
fn field(dice: &mut Dice, low: i64, high: i64, names: &[&str], open: u64) -> String {
    if dice.percent(open) {
        return dice.pick(&["*", "*", "*", "?", "*/1"]).to_owned();
    }
    let items = if dice.percent(65) { 1 } else { dice.between(2, 4) };
    let items: Vec<String> = (0..items).map(|_| item(dice, low, high, names)).collect();
    items.join(",")
}

fn item(dice: &mut Dice, low: i64, high: i64, names: &[&str]) -> String {
    let widest = high - low;
    let step = dice.between(1, widest.min(30));
    let from = dice.between(low, high);
    let to = dice.between(from, high);
    match dice.index(100) {
        0..50 => value(dice, from, low, names),
        50..65 => format!("{}-{}", value(dice, from, low, names), value(dice, to, low, names)),
        65..80 => format!("{from}-{to}/{step}"),
        80..90 => format!("*/{step}"),
        // The second Sunday has nothing to step to.
        90..98 => format!("{}/{step}", from.min(high - 1)),
        _ => "*".to_owned(),
    }
}

/// A number, with or without a zero before it, or its name in some case.
fn value(dice: &mut Dice, value: i64, low: i64, names: &[&str]) -> String {
    match names.get((value - low) as usize) {
        // SUN is 0: behind a number it would run backwards.
        Some(name) if dice.percent(30) => {
            if dice.percent(50) {
                (*name).to_owned()
            } else {
                name.to_lowercase()
            }
        }
        _ if dice.percent(10) => format!("{value:02}"),
        _ => value.to_string(),
    }
}
