//! The five fields as bits, and the search for a local time that they name. Pure.
//!
//! Local times are whole seconds since 1970-01-01T00:00:00 on the local clock, without any zone.

use super::civil;

const DAY: i64 = 86_400;
/// Two 29ths of February lie at most 8 years apart (1896, 1904; 2096, 2104): no search for a day goes further.
const MONTHS: u32 = 8 * 12 + 2;

/// What the fields name. Bit n of a set stands for the number n.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    pub minutes: u64,
    pub hours: u32,
    pub days: u32,
    pub months: u32,
    /// 0 is Sunday; there is no bit 7.
    pub weekdays: u32,
    /// Both day fields say something: a day needs only one of them.
    pub either_day: bool,
    /// The minute or the hour field begins with `*`: the schedule follows the local clock.
    pub follows: bool,
}

impl Fields {
    /// Whether any calendar has a day for this.
    pub fn has_a_day(&self) -> bool {
        self.either_day || (1..=12).any(|month| self.months >> month & 1 == 1 && self.days & dates(leap(month)) != 0)
    }

    /// The first local time named at or after `from`.
    pub fn first_from(&self, from: i64) -> Option<i64> {
        let from = from.saturating_add(59).div_euclid(60) * 60;
        let today = from.div_euclid(DAY);
        if self.names_day(today)
            && let Some(minute) = self.first_minute(from.rem_euclid(DAY) / 60)
        {
            return Some(today * DAY + minute * 60);
        }
        Some(self.first_day(today + 1)? * DAY + self.first_minute(0)? * 60)
    }

    /// The last local time named at or before `to`.
    pub fn last_to(&self, to: i64) -> Option<i64> {
        let today = to.div_euclid(DAY);
        if self.names_day(today)
            && let Some(minute) = self.last_minute(to.rem_euclid(DAY) / 60)
        {
            return Some(today * DAY + minute * 60);
        }
        Some(self.last_day(today - 1)? * DAY + self.last_minute(1439)? * 60)
    }

    fn names_day(&self, day: i64) -> bool {
        let (year, month, of_month) = civil::date(day);
        self.days_of(year, month, day - i64::from(of_month) + 1) >> of_month & 1 == 1
    }

    /// The minute of the day at or after `from`.
    fn first_minute(&self, from: i64) -> Option<i64> {
        let (hour, minute) = (from / 60, from % 60);
        if self.hours >> hour & 1 == 1
            && let Some(minute) = lowest(self.minutes & u64::MAX << minute)
        {
            return Some(hour * 60 + minute);
        }
        let hour = lowest(u64::from(self.hours) & u64::MAX << (hour + 1))?;
        Some(hour * 60 + lowest(self.minutes)?)
    }

    /// The minute of the day at or before `to`.
    fn last_minute(&self, to: i64) -> Option<i64> {
        let (hour, minute) = (to / 60, to % 60);
        if self.hours >> hour & 1 == 1
            && let Some(minute) = highest(self.minutes & u64::MAX >> (63 - minute))
        {
            return Some(hour * 60 + minute);
        }
        let hour = highest(u64::from(self.hours) & !(u64::MAX << hour))?;
        Some(hour * 60 + highest(self.minutes)?)
    }

    fn first_day(&self, from: i64) -> Option<i64> {
        let (mut year, mut month, day) = civil::date(from);
        let mut first = from - i64::from(day) + 1;
        let mut rest = u32::MAX << day;
        for _ in 0..MONTHS {
            if let Some(day) = lowest((self.days_of(year, month, first) & rest).into()) {
                return Some(first + day - 1);
            }
            first += i64::from(civil::month_length(year, month));
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            rest = u32::MAX;
        }
        None
    }

    fn last_day(&self, to: i64) -> Option<i64> {
        let (mut year, mut month, day) = civil::date(to);
        let mut first = to - i64::from(day) + 1;
        let mut rest = u32::MAX >> (31 - day);
        for _ in 0..MONTHS {
            if let Some(day) = highest((self.days_of(year, month, first) & rest).into()) {
                return Some(first + day - 1);
            }
            (year, month) = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
            first -= i64::from(civil::month_length(year, month));
            rest = u32::MAX;
        }
        None
    }

    /// The days of one month that are named, bit 1 for the first; `first` is that day's number.
    fn days_of(&self, year: i64, month: u32, first: i64) -> u32 {
        if self.months >> month & 1 == 0 {
            return 0;
        }
        // One week that begins with the weekday of the first, five times over.
        let shift = civil::weekday(first);
        let week = u64::from((self.weekdays >> shift | self.weekdays << (7 - shift)) & 0x7f);
        let weekdays = ((week * 0x1020_4081) << 1) as u32;
        let named = if self.either_day { self.days | weekdays } else { self.days & weekdays };
        named & dates(civil::month_length(year, month))
    }
}

/// The days of a month of this length.
fn dates(length: u32) -> u32 {
    u32::MAX >> (31 - length) & !1
}

/// The length of a month in a leap year.
fn leap(month: u32) -> u32 {
    civil::month_length(4, month)
}

fn lowest(bits: u64) -> Option<i64> {
    (bits != 0).then(|| bits.trailing_zeros().into())
}

fn highest(bits: u64) -> Option<i64> {
    (bits != 0).then(|| (63 - bits.leading_zeros()).into())
}
