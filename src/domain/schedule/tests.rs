use std::time::Duration;

use jiff::Timestamp;

use super::{Refused, Schedule, Why};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn cron(expression: &str, zone: &str) -> Schedule {
    Schedule::cron(expression, Some(zone)).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(expression: &str, zone: Option<&str>) -> Refused {
    match Schedule::cron(expression, zone) {
        Ok(read) => panic!("{expression:?} was read as {read:?}"),
        Err(refused) => refused,
    }
}

/// The runs after `from` are `want`, and asked backwards the same.
fn runs(schedule: &Schedule, from: &str, want: &[&str]) {
    let mut now = at(from);
    for want in want {
        let next = schedule.next(now).expect("a next run");
        assert_eq!(next, at(want), "{schedule:?} after {now}");
        now = next;
    }
    let mut end = now + Duration::from_nanos(1);
    for want in want.iter().rev() {
        let previous = schedule.previous(end).expect("a previous run");
        assert_eq!(previous, at(want), "{schedule:?} before {end}");
        end = previous;
    }
    let earlier = schedule.previous(end);
    assert!(earlier.is_none_or(|earlier| earlier <= at(from)), "{schedule:?}: {earlier:?} lies after {from}");
}

#[test]
fn c082_what_is_not_cron_is_refused_and_says_what_is_meant() {
    for (expression, want) in [
        ("15/0 * * * *", "the step in \"15/0\" is 0"),
        ("*/0 * * * *", "minute \"*/0\": the step in \"*/0\" is 0"),
        ("10 * * 12737123 *", "month \"12737123\": 12737123 is not in 1-12"),
        ("40 13 * * 3L", "day of week \"3L\": \"3L\" is an extension"),
        ("0 0 1W * *", "day of month \"1W\": \"1W\" is an extension"),
        ("0 0 * * 1#2", "ax has no L, W and #"),
        ("0 30 10 * * *", "5 fields expected, 6 found"),
        ("0 30 10 * * *", "ax has no seconds field; did you mean \"30 10 * * *\"?"),
        ("30 10 * * * 2026", "ax has no year field; did you mean \"30 10 * * *\"?"),
        ("0 30 10 * * * 2026", "7 found"),
        ("30 10", "missing: day of month, month, day of week; did you mean \"30 10 * * *\"?"),
        ("TZ=UTC 0 5 * * *", "spec.schedule.timeZone: \"UTC\", and spec.schedule.cron: \"0 5 * * *\""),
        ("CRON_TZ=Asia/Tokyo 0 5 * * *", "spec.schedule.timeZone: \"Asia/Tokyo\""),
        ("TZ=", "an expression has no zone in it"),
        ("TZ=UTC", "an expression has no zone in it"),
        ("@reboot", "@reboot is not cron"),
        ("@every 5m", "write spec.schedule.every: 5m"),
        ("@every 1.5h\u{7}", "write spec.schedule.every: 5m"),
        ("@Hourly", "did you mean \"@hourly\"?"),
        ("@dayly", "did you mean \"@daily\"?"),
        ("@", "there are @hourly, @daily"),
        ("@hourly x", "no such short form"),
        ("", "is empty"),
        (" \t\n", "is empty"),
        (", * * * *", "a value is missing beside a comma"),
        ("1,,2 * * * *", "a value is missing beside a comma"),
        ("1, * * * *", "a value is missing beside a comma"),
        ("* 22-2 * * *", "write 22-23,0-2"),
        ("* * * NOV-FEB *", "write 11-12,1-2"),
        ("* * * * FRI-SUN", "write 5-7"),
        ("* * * * 7/2", "from Sunday on 0/n"),
        ("60 24 0 13 8", "minute \"60\": 60 is not in 0-59; hour \"24\": 24 is not in 0-23; day of month \"0\""),
        ("* * * JUNE *", "did you mean JUN?"),
        ("* * * * Monday", "did you mean MON?"),
        ("* * * * x", "write 0-7, or SUN to SAT"),
        ("MON * * * *", "write 0-59"),
        ("** * * * *", "\"**\" is no number"),
        ("*-5 * * * *", "\"*\" is no number"),
        ("-5 * * * *", "a value is missing in \"-5\""),
        ("5- * * * *", "a value is missing in \"5-\""),
        ("1-2-3 * * * *", "\"2-3\" is no number"),
        ("+5 * * * *", "\"+5\" is no number"),
        ("1/ * * * *", "the step in \"1/\" is no number"),
        ("/5 * * * *", "a value is missing in \"/5\""),
        ("*/5/2 * * * *", "the step in \"*/5/2\" is no number"),
        ("*/99999 * * * *", "is too large"),
        ("4294967296 * * * *", "4294967296 is not in 0-59"),
        ("0 9\u{2013}17 * * *", "did you mean \"0 9-17 * * *\"?"),
        ("\u{661} * * * *", "is not ASCII"),
        ("* * * * * * * * * *", "10 found: \"*\" \"*\" \"*\" \"*\" \"*\" \"*\" \"*\" \"*\" ..."),
        ("\0 * * * *", "\"\\0\" is no number"),
    ] {
        let refused = refusal(expression, None);
        assert_eq!((refused.reason, refused.field), (Why::InvalidSchedule, "spec.schedule.cron"), "{refused}");
        assert!(refused.message.starts_with("spec.schedule.cron "), "{refused}");
        assert!(refused.message.contains(want), "{expression:?} says: {refused}");
    }
    let long = format!("{} * * * *", "0,".repeat(60) + "0");
    assert!(refusal(&long, None).message.contains("129 bytes are too long"), "one more than 128");
    assert!(Schedule::cron(&long[2..], None).is_ok());
}

#[test]
fn c083_a_step_counts_from_the_start_of_its_range() {
    let hours = &["2026-08-01T01:00:00Z", "2026-08-01T02:00:00Z"];
    runs(&cron("*/60 * * * *", "UTC"), "2026-08-01T00:00:00Z", hours);
    let from = "2026-08-01T00:50:00Z";
    let quarters = &["2026-08-01T01:00:00Z", "2026-08-01T01:15:00Z", "2026-08-01T01:30:00Z"];
    runs(&cron("0/15 * * * *", "UTC"), from, quarters);
    let sevens = &["2026-08-01T00:56:00Z", "2026-08-01T01:00:00Z", "2026-08-01T01:07:00Z"];
    runs(&cron("*/7 * * * *", "UTC"), from, sevens);
    let open = &["2026-08-01T01:05:00Z", "2026-08-01T01:25:00Z", "2026-08-01T01:45:00Z", "2026-08-01T02:05:00Z"];
    runs(&cron("5/20 * * * *", "UTC"), from, open);
}

#[test]
fn c084_a_day_that_never_comes_is_refused_and_a_leap_day_is_found() {
    for expression in ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *", "0 0 30,31 2 ?", "0 0 30 FEB */1"] {
        let refused = refusal(expression, None);
        assert_eq!(refused.reason, Why::ScheduleNeverFires, "{refused}");
        assert!(refused.message.contains("never fires"), "{refused}");
    }
    for expression in ["0 0 30 2 1", "0 0 31 2,3 *", "0 0 29 2 *", "0 0 31 4 0-6"] {
        assert!(Schedule::cron(expression, None).is_ok(), "{expression}");
    }
    let leap = cron("0 0 29 2 *", "UTC");
    runs(&leap, "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]);
    assert_eq!(leap.previous(at("2104-02-29T00:00:00Z")), Some(at("2096-02-29T00:00:00Z")));
}

#[test]
fn c085_weeks_begin_where_they_should() {
    let from = "2026-08-01T00:00:01Z"; // a Saturday
    for (expression, want) in [
        ("0 0 * * 0", "2026-08-02T00:00:00Z"),
        ("0 0 * * 7", "2026-08-02T00:00:00Z"),
        ("0 0 * * sUn", "2026-08-02T00:00:00Z"),
        ("0 0 * * 1", "2026-08-03T00:00:00Z"),
        ("0 0 * * 6", "2026-08-08T00:00:00Z"),
        ("0 0 * * 6-7", "2026-08-02T00:00:00Z"),
        ("0 0 * * 1-7/6", "2026-08-02T00:00:00Z"),
        ("@weekly", "2026-08-02T00:00:00Z"),
        ("@hourly", "2026-08-01T01:00:00Z"),
        ("@daily", "2026-08-02T00:00:00Z"),
        ("@midnight", "2026-08-02T00:00:00Z"),
        ("@monthly", "2026-09-01T00:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        (" 00\t05  * aug,DEC  ?\n", "2026-08-01T05:00:00Z"),
    ] {
        runs(&cron(expression, "UTC"), from, &[want]);
    }
}

#[test]
fn c086_of_two_restricted_day_fields_either_is_enough() {
    let july = |days: &[u32]| days.iter().map(|day| format!("2012-07-{day:02}T00:00:00Z")).collect::<Vec<_>>();
    let check = |expression: &str, want: Vec<String>| {
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        runs(&cron(expression, "UTC"), "2012-07-09T00:00:00Z", &want);
    };
    let august = ["2012-08-01T00:00:00Z".to_owned(), "2012-08-05T00:00:00Z".to_owned()];
    check("0 0 1,15 * Sun", [&july(&[15, 22, 29])[..], &august].concat());
    check("0 0 */2 * Sun", july(&[11, 13, 15, 17, 19, 21, 22, 23]));
    check("0 0 15 * */2", july(&[10, 12, 14, 15]));
    check("0 0 */1 * Sun", july(&[15, 22]));
    check("0 0 ? * Sun", july(&[15, 22]));
    check("0 0 15,* * Sun", july(&[15, 22]));
    check("0 0 1-31 * Sun", july(&[10, 11, 12]));
}

#[test]
fn c087_a_repeated_fixed_time_runs_at_its_first_pass() {
    let berlin = cron("0 2 * * *", "Europe/Berlin");
    runs(&berlin, "2023-10-28T12:00:00Z", &["2023-10-29T00:00:00Z", "2023-10-30T01:00:00Z"]);
    let (first, second) = (at("2023-10-29T00:00:00Z"), at("2023-10-29T01:00:00Z"));
    let during_the_second_pass = at("2023-10-29T01:30:00Z");
    assert_eq!(berlin.next(second - Duration::from_nanos(1)), Some(at("2023-10-30T01:00:00Z")));
    assert_eq!(berlin.next(during_the_second_pass), Some(at("2023-10-30T01:00:00Z")));
    assert_eq!(berlin.previous(during_the_second_pass), Some(first));
}

#[test]
fn c088_a_skipped_fixed_time_runs_right_after_the_gap() {
    let (los_angeles, new_york) = ("America/Los_Angeles", "America/New_York");
    let want = &["2025-03-09T10:00:00Z", "2025-03-10T09:00:00Z"];
    runs(&cron("0 2 * * *", los_angeles), "2025-03-09T00:00:00Z", want);
    let want = &["2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z"];
    runs(&cron("30 2 * * *", new_york), "2025-03-09T00:00:00Z", want);
    let want = &["2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"];
    runs(&cron("30 1 * * *", new_york), "2025-11-02T00:00:00Z", want);
}

#[test]
fn c089_lists_of_fixed_times_and_both_day_fields_in_a_zone() {
    let want = &["2022-03-12T10:33:00Z", "2022-03-13T10:00:00Z", "2022-03-14T09:33:00Z"];
    runs(&cron("33 2 * * *", "America/Los_Angeles"), "2022-03-11T12:00:00Z", want);
    let want = &["2021-11-07T08:33:00Z", "2021-11-07T08:44:00Z", "2021-11-08T09:33:00Z"];
    runs(&cron("33,44 1 * * *", "America/Los_Angeles"), "2021-11-07T00:00:00-07:00", want);
    let want = &["2005-01-02T00:01:00Z", "2005-01-09T00:01:00Z", "2005-01-16T00:01:00Z"];
    runs(&cron("1 0 2 1 0", "Europe/London"), "2004-10-31T01:07:03Z", want);
}

#[test]
fn two_skipped_times_are_one_run() {
    let want = &["2022-03-13T10:00:00Z", "2022-03-13T10:15:00Z", "2022-03-14T09:00:00Z"];
    runs(&cron("0,30 2 * * *", "America/Los_Angeles"), "2022-03-13T00:00:00-08:00", &[want[0], want[2]]);
    runs(&cron("0,15 2,3 * * *", "America/Los_Angeles"), "2022-03-13T00:00:00-08:00", want);
}

#[test]
fn c091_what_begins_with_a_star_follows_the_local_clock() {
    let zone = "America/Los_Angeles";
    let (autumn, spring) = ("2022-11-06T07:59:59Z", "2022-03-13T08:59:59Z");
    let on = |times: &[&str]| times.iter().map(|time| format!("2022-11-06T{time}:00Z")).collect::<Vec<_>>();
    for (expression, want) in [
        ("0 * * * *", on(&["08:00", "09:00", "10:00"])),
        ("@hourly", on(&["08:00", "09:00", "10:00"])),
        ("*/30 * * * *", on(&["08:00", "08:30", "09:00", "09:30", "10:00"])),
        ("?/30 * * * *", on(&["08:00", "08:30", "09:00", "09:30", "10:00"])),
        ("*/30 1 * * *", on(&["08:00", "08:30", "09:00", "09:30"])),
        ("0,30 0-23 * * *", on(&["08:00", "08:30", "10:00", "10:30"])),
    ] {
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        runs(&cron(expression, zone), autumn, &want);
    }
    runs(&cron("0 * * * *", zone), spring, &["2022-03-13T09:00:00Z", "2022-03-13T10:00:00Z"]);
    runs(&cron("*/30 2 * * *", zone), spring, &["2022-03-14T09:00:00Z", "2022-03-14T09:30:00Z"]);
}

#[test]
fn a_day_that_a_zone_left_out_or_had_twice() {
    // Samoa had no 2011-12-30, and Kwajalein's 1969-09-30 came twice.
    let apia = cron("0 12 * * *", "Pacific/Apia");
    runs(&apia, "2011-12-29T00:00:00Z", &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
    let hourly = cron("0 */12 * * *", "Pacific/Apia");
    let want = &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"];
    runs(&hourly, "2011-12-29T12:00:00Z", want);
    let kwajalein = cron("0 6 * * *", "Pacific/Kwajalein");
    runs(&kwajalein, "1969-09-28T19:00:00Z", &["1969-09-29T19:00:00Z", "1969-10-01T18:00:00Z"]);
}

#[test]
fn c093_next_is_always_later_and_previous_always_earlier() {
    runs(&cron("0 2 * * 0-5", "America/Los_Angeles"), "2022-03-12T12:00:00Z", &["2022-03-13T10:00:00Z"]);
    runs(&cron("0 2 * * *", "America/New_York"), "2025-03-09T06:30:00Z", &["2025-03-09T07:00:00Z"]);
    let ends = ["-009999-01-02T01:59:59Z", "9999-12-30T22:00:00.999999999Z"].map(at);
    assert_eq!(ends, [Timestamp::MIN, Timestamp::MAX]);
    let second = Duration::from_secs(1);
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Dublin", "Africa/Casablanca"] {
        for expression in ["* * * * *", "0 0 29 2 *", "59 23 31 12 *", "*/7 1 1 1 1", "0 2 * * 0", "* 2 29 2 *"] {
            let schedule = cron(expression, zone);
            for from in [ends[0], ends[0] + second, Timestamp::UNIX_EPOCH, ends[1] - second, ends[1]] {
                let (next, previous) = (schedule.next(from), schedule.previous(from));
                assert!(next.is_none_or(|next| next > from), "{schedule:?} {from} {next:?}");
                assert!(previous.is_none_or(|previous| previous < from), "{schedule:?} {from} {previous:?}");
            }
            assert!(schedule.next(ends[0]).is_some() && schedule.previous(ends[0]).is_none());
            assert!(schedule.next(ends[1]).is_none() && schedule.previous(ends[1]).is_some());
        }
    }
}

#[test]
fn parts_of_a_second_are_neither_lost_nor_doubled() {
    let schedule = cron("* * * * *", "UTC");
    for minute in ["1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z", "2026-08-01T00:00:00Z"].map(at) {
        let nano = Duration::from_nanos(1);
        assert_eq!(schedule.next(minute - nano), Some(minute));
        assert_eq!(schedule.next(minute), Some(minute + Duration::from_secs(60)));
        assert_eq!(schedule.next(minute + nano), Some(minute + Duration::from_secs(60)));
        assert_eq!(schedule.previous(minute + nano), Some(minute));
        assert_eq!(schedule.previous(minute), Some(minute - Duration::from_secs(60)));
        assert_eq!(schedule.previous(minute - nano), Some(minute - Duration::from_secs(60)));
    }
}

#[test]
fn c094_zones_are_ianas_in_exact_case_and_never_the_hosts() {
    for (zone, want) in [
        ("AMERICA/new_york", "did you mean \"America/New_York\"?"),
        ("Europe/Berln", "did you mean \"Europe/Berlin\"?"),
        ("rome", "did you mean \"Europe/Rome\"?"),
        ("utc", "did you mean \"UTC\"?"),
        ("Local", "would differ from host to host"),
        ("Mars/Base", "no such IANA time zone"),
        ("Etc/Unknown", "no such IANA time zone"),
        ("", "no such IANA time zone"),
        ("/etc/localtime", "no such IANA time zone"),
        ("../Europe/Rome", "did you mean \"Europe/Rome\"?"),
        ("+01:00", "no such IANA time zone"),
        ("EST5EDT,M3.2.0,M11.1.0", "no such IANA time zone"),
        ("Europe/Berlin\0", "did you mean \"Europe/Berlin\"?"),
    ] {
        let refused = refusal("0 0 * * *", Some(zone));
        assert_eq!((refused.reason, refused.field), (Why::UnknownTimeZone, "spec.schedule.timeZone"), "{refused}");
        assert!(refused.message.contains(want), "{zone:?} says: {refused}");
    }
    let Schedule::Cron(rome) = cron("0 0 * * *", "Europe/Rome") else { panic!("a cron") };
    assert_eq!(rome.zone().name(), "Europe/Rome");
    for zone in ["UTC", "Etc/UTC", "US/Pacific", "Asia/Calcutta", "EST5EDT", "Etc/GMT+5"] {
        assert!(Schedule::cron("0 0 * * *", Some(zone)).is_ok(), "{zone}");
    }
}

#[test]
fn c099_an_interval_counts_from_its_anchor_and_never_drifts() {
    let day = |hours: &[&str]| hours.iter().map(|hour| format!("2026-08-01T{hour}:00Z")).collect::<Vec<_>>();
    let check = |anchor: &str, from: &str, hours: &[&str]| {
        let schedule = Schedule::every(Duration::from_secs(6 * 3600), at(anchor)).expect("an interval");
        let want = day(hours);
        runs(&schedule, from, &want.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let created = "2026-08-01T00:45:00Z";
    check(created, created, &["06:45", "12:45", "18:45"]);
    check(created, "2026-08-01T08:00:00Z", &["12:45", "18:45"]);
    check("2026-01-01T00:00:00Z", created, &["06:00", "12:00", "18:00"]);
    check("2026-08-01T12:00:00Z", created, &["12:00", "18:00"]);

    let tens = Schedule::every(Duration::from_secs(10), at(created)).expect("an interval");
    let mut now = at(created);
    for fire in 1..=1000u64 {
        now = tens.next(now).expect("a run");
        assert_eq!(now, at(created) + Duration::from_secs(10 * fire));
    }
    assert_eq!(now.duration_since(at(created)).as_secs(), 10_000);
}

#[test]
fn an_interval_has_no_run_before_its_anchor_and_none_past_the_calendar() {
    let anchor = at("2026-08-01T00:00:00.25Z");
    let odd = Schedule::every(Duration::from_millis(1500), anchor).expect("an interval");
    assert_eq!(odd.next(Timestamp::MIN), Some(anchor));
    assert_eq!(odd.previous(anchor), None);
    assert_eq!(odd.previous(anchor + Duration::from_nanos(1)), Some(anchor));
    assert_eq!(odd.next(anchor), Some(at("2026-08-01T00:00:01.75Z")));
    assert_eq!(odd.next(Timestamp::MAX), None);
    for every in [Duration::MAX, Duration::from_secs(1)] {
        let schedule = Schedule::every(every, Timestamp::MIN).expect("an interval");
        assert_eq!(schedule.previous(Timestamp::MIN), None);
        assert!(schedule.previous(Timestamp::MAX).is_some_and(|previous| previous < Timestamp::MAX));
        assert_eq!(schedule.next(Timestamp::MAX), None);
    }
    let refused = Schedule::every(Duration::from_millis(999), anchor).expect_err("too short");
    assert_eq!((refused.reason.as_str(), refused.field), ("InvalidSchedule", "spec.schedule.every"));
    assert_eq!(refused.to_string(), "spec.schedule.every 999ms: an interval is at least 1s; write 1s or more");
}
