//! The calendar in whole days: day 0 is 1970-01-01. Pure, total, without a last year.

/// Year, month 1 to 12, day 1 to 31.
pub type Date = (i64, u32, u32);

/// The date of a day. The year counts from March here, so that the leap day is its last.
pub fn date(day: i64) -> Date {
    let shifted = day + 719_468; // from 0000-03-01
    let era = shifted.div_euclid(146_097); // 400 years
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day_of_month as u32)
}

/// Days of a month.
pub fn month_length(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 is Sunday.
pub fn weekday(day: i64) -> u32 {
    (day + 4).rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;
    use jiff::civil::date as jiff_date;

    #[test]
    fn agrees_with_jiff_on_every_day_of_its_calendar() {
        let epoch = jiff_date(1970, 1, 1);
        let mut day = i64::from((jiff::civil::Date::MIN - epoch).get_days());
        let mut each = jiff::civil::Date::MIN;
        while each < jiff::civil::Date::MAX {
            let (year, month, of_month) = date(day);
            let got = (year, month, of_month, weekday(day), month_length(year, month));
            let want = (
                i64::from(each.year()),
                each.month() as u32,
                each.day() as u32,
                each.weekday().to_sunday_zero_offset() as u32,
                each.days_in_month() as u32,
            );
            assert_eq!(got, want, "{each}");
            // Every day of three eras, then in steps that meet every month and weekday.
            let step = if (1600..2800).contains(&each.year()) { 1 } else { 17 };
            let Ok(later) = each.checked_add(step.days()) else { break };
            (each, day) = (later, day + step);
        }
    }
}
