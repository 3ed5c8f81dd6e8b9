//! What others fell into; the name of the project stands beside each.

use super::*;

const DAY: Tick = 24 * 3600 * 1000;

/// tokio #8334 (the top level doubled as a ring), kube #1772.
#[test]
fn c012_a_far_timer_and_long_uptime_do_not_hold_up_a_short_one() {
    let mut wheel = Wheel::new(0);
    let far = wheel.insert(3 * 365 * DAY, 1);
    let mut now = 0;
    while now < 13 * DAY {
        now = wheel.next_due().map_or(13 * DAY, |next| next.min(13 * DAY));
        assert_eq!(fire(&mut wheel, now), []);
    }
    wheel.insert(now + 333, 2);
    assert_eq!(fire(&mut wheel, now + 332), []);
    assert_eq!(fire(&mut wheel, now + 333), [(now + 333, 2)]);
    assert_eq!(wheel.due_of(far), Some(3 * 365 * DAY));
    assert_eq!(fire(&mut wheel, 4 * 365 * DAY), [(3 * 365 * DAY, 1)]);
}

/// tokio #5536: a panic beyond 2^36 ms, or on any insert after 2.2 years; 32-bit ticks.
#[test]
fn c012_no_delay_and_no_uptime_is_too_long() {
    for now in [0, 1 << 32, 1 << 36, 800 * DAY, 1 << 62] {
        for delay in [1, 1 << 32, 1 << 36, (1 << 36) + 1, 1 << 40, 1 << 63] {
            let mut wheel = Wheel::new(now);
            wheel.insert(now + delay, delay);
            assert_eq!(fire(&mut wheel, now + delay - 1), [], "now {now}, delay {delay}");
            assert_eq!(fire(&mut wheel, now + delay), [(now + delay, delay)]);
        }
    }
}

/// netty #1961: a delay longer than a turn fired early.
#[test]
fn longer_than_a_turn_is_not_early() {
    let mut wheel = Wheel::new(10);
    wheel.insert(10 + 3 * 64 + 5, 1);
    for now in 11..10 + 3 * 64 + 5 {
        assert_eq!(fire(&mut wheel, now), []);
    }
    assert_eq!(fire(&mut wheel, 10 + 3 * 64 + 5).len(), 1);
}

/// FRR #10626: the timer of this very slot was missed, or came a turn late.
#[test]
fn the_slot_of_now_is_seen() {
    for now in [0, 63, 64, 127, 4095, 4096] {
        let mut wheel = Wheel::new(now);
        wheel.insert(now, 1);
        wheel.insert(now + 63, 2);
        wheel.insert(now + 64, 3);
        assert_eq!(wheel.next_due(), Some(now));
        assert_eq!(fire(&mut wheel, now), [(now, 1)]);
        assert_eq!(fire(&mut wheel, now + 63), [(now + 63, 2)]);
        assert_eq!(fire(&mut wheel, now + 64), [(now + 64, 3)]);
    }
}

/// glommio #44, chronos #342: only the finest level was searched, or only from the cursor on.
#[test]
fn a_later_timer_hides_no_earlier_one() {
    let mut wheel = Wheel::new(0);
    wheel.insert(128, 1); // a coarse slot that begins at 128
    fire(&mut wheel, 120);
    wheel.insert(183, 2); // level 0, later, found first
    wheel.insert(121, 3); // level 0, behind the cursor's word
    assert_eq!(wheel.next_due(), Some(121));
    assert_eq!(fire(&mut wheel, 127), [(121, 3)]);
    assert_eq!(wheel.next_due(), Some(128));
    assert_eq!(fire(&mut wheel, 500), [(128, 1), (183, 2)]);
}

/// RussellLuo/timingwheel #45: after an idle time a short timer fired at once.
#[test]
fn hours_idle_then_a_short_insert_is_not_early() {
    let mut wheel = Wheel::new(0);
    fire(&mut wheel, 5 * 3_600_000 + 17);
    let now = wheel.now();
    wheel.insert(now + 3, 1);
    assert_eq!(wheel.next_due(), Some(now + 3));
    assert_eq!(fire(&mut wheel, now + 2), []);
    assert_eq!(fire(&mut wheel, now + 3), [(now + 3, 1)]);
}

/// go-zero #3619: a step a tick after a stall.
#[test]
fn a_stall_of_24_hours_costs_what_is_due() {
    let (mut wheel, mut below) = (Wheel::new(0), random(1));
    for name in 0..20_000 {
        wheel.insert(below(DAY), name);
    }
    let mut last = 0;
    let progress = wheel.advance(DAY, usize::MAX, |_, due, _| {
        assert!(due >= last);
        last = due;
    });
    assert_eq!(progress, Progress::Done);
    let stats = wheel.stats();
    assert_eq!(stats.fires, 20_000);
    assert!(stats.moves <= 5 * 20_000, "{stats:?}");
    wheel.check_empty();
}

/// The same, with nothing due: an empty jump is one look at the bitmaps.
#[test]
fn an_empty_jump_moves_nothing() {
    let mut wheel = Wheel::new(5);
    wheel.insert(1 << 41, 1);
    assert_eq!(fire(&mut wheel, 5 + (1 << 40)), []);
    assert!(wheel.stats().moves <= 1);
    assert_eq!(fire(&mut wheel, 1 << 41).len(), 1);
}

/// tokio #2473, Agrona: an id used after firing panicked, or cancelled a stranger.
#[test]
fn an_id_used_after_firing_does_nothing() {
    let mut wheel = Wheel::new(0);
    let id = wheel.insert(1, 1);
    fire(&mut wheel, 1);
    assert_eq!(wheel.cancel(id), None);
    assert!(!wheel.reschedule(id, 9));
    let other = wheel.insert(2, 2);
    assert_eq!(wheel.cancel(id), None);
    assert_eq!(wheel.cancel(other), Some(2));
    assert_eq!(wheel.cancel(other), None);
}

/// tokio #849, tokio #2285: the driver sleeps until `next_due`, so an earlier insert must move it, and the cancel of
/// the earliest may leave it early.
#[test]
fn c014_an_earlier_insert_moves_the_next_due() {
    let mut wheel = Wheel::new(0);
    let late = wheel.insert(10_000, 1);
    let early = wheel.insert(1000, 2);
    assert!(wheel.next_due() <= Some(1000));
    assert_eq!(wheel.cancel(early), Some(2));
    // Wakes, does nothing, sleeps on; the second is on time.
    let mut wakes = 0;
    while wheel.due_of(late).is_some() {
        let next = wheel.next_due().expect("one is armed");
        assert!(next <= 10_000);
        let want: &[_] = if next == 10_000 { &[(10_000, 1)] } else { &[] };
        assert_eq!(fire(&mut wheel, next), want);
        wakes += 1;
    }
    assert!(wakes <= 4, "{wakes} wake-ups");
    wheel.check_empty();
}

/// netty #2541: what was cancelled stayed until its time.
#[test]
fn a_storm_of_cancels_gives_the_memory_back() {
    let (mut wheel, mut below) = (Wheel::new(0), random(2));
    let mut ids: Vec<_> = (0..100_000).map(|name| wheel.insert(below(DAY), name)).collect();
    let full = wheel.stats();
    assert!(full.chunks >= 100_000 / CHUNK);
    for at in (1..ids.len()).rev() {
        ids.swap(at, below(at as u64 + 1) as usize);
    }
    for id in ids.drain(1000..) {
        assert!(wheel.cancel(id).is_some());
    }
    wheel.check();
    let rest = wheel.stats();
    // A thousand records in at most one half-empty chunk a slot; a cell cannot move, so its page stays.
    assert!(rest.chunks <= 1000 / CHUNK + wheel.levels.occupied().len(), "{rest:?}");
    let store = wheel.store.bytes();
    assert!(store * 2 < full.bytes / 2, "{store} bytes of records are left of {}", full.bytes);
    for id in ids {
        assert!(wheel.cancel(id).is_some());
    }
    wheel.check_empty();
    assert!(wheel.stats().bytes * 6 < full.bytes, "{} bytes are left of {}", wheel.stats().bytes, full.bytes);
}

/// tokio #6584: a timer put back into the slot that is walked.
#[test]
fn cancel_and_insert_into_the_slot_being_cascaded() {
    let mut wheel = Wheel::new(0);
    let ids: Vec<_> = (0..200).map(|name| wheel.insert(128 + name % 64, name)).collect();
    let mut fired = Vec::new();
    for round in 0..20 {
        let progress = wheel.advance(127 + 64, 10, |_, _, name| fired.push(name));
        if wheel.cancel(ids[199 - round]).is_some() {
            wheel.insert(128, 1000 + round as u64);
        }
        wheel.check();
        assert_eq!(progress, Progress::More);
    }
    while wheel.advance(127 + 64, 10, |_, _, name| fired.push(name)) == Progress::More {}
    assert_eq!(fired.len(), 200);
    wheel.check_empty();
}

/// systemd #6036: the wall clock was set back, and timers waited for years.
#[test]
fn a_clock_set_back_is_followed() {
    let mut wheel = Wheel::new(400 * DAY);
    let armed = wheel.insert(400 * DAY + 1000, 1);
    wheel.rebase(35 * DAY);
    wheel.check();
    assert_eq!(wheel.due_of(armed), Some(400 * DAY + 1000), "an instant stays an instant");
    wheel.insert(35 * DAY + 500, 2);
    assert!(wheel.next_due() <= Some(35 * DAY + 500));
    assert_eq!(fire(&mut wheel, 35 * DAY + 500), [(35 * DAY + 500, 2)]);
    // And forward again: what was missed is due now.
    wheel.rebase(401 * DAY);
    assert_eq!(wheel.next_due(), Some(401 * DAY));
    assert_eq!(fire(&mut wheel, 401 * DAY), [(401 * DAY, 1)]);
}

#[test]
fn a_rebase_in_the_middle_of_a_slot_loses_nobody() {
    let mut wheel = Wheel::new(0);
    for name in 0..100 {
        wheel.insert(1000, name);
    }
    let mut fired = Vec::new();
    assert_eq!(wheel.advance(1000, 150, |_, _, name| fired.push(name)), Progress::More);
    wheel.rebase(500);
    wheel.check();
    assert_eq!(wheel.advance(1000, usize::MAX, |_, _, name| fired.push(name)), Progress::Done);
    assert_eq!(fired, (0..100).collect::<Vec<_>>());
    wheel.check_empty();
}

/// 100k on one tick, with a budget.
#[test]
fn a_storm_on_one_tick_keeps_its_order_and_the_budget() {
    const TIMERS: u64 = 100_000;
    let mut wheel = Wheel::new(0);
    for name in 0..TIMERS {
        wheel.insert(5000, name);
    }
    let (mut want, mut calls) = (0, 0);
    loop {
        let mut fired = 0;
        let progress = wheel.advance(5000, 1024, |_, _, name| {
            assert_eq!(name, want);
            want += 1;
            fired += 1;
        });
        calls += 1;
        assert!(fired <= 1024);
        if progress == Progress::Done {
            break;
        }
    }
    assert_eq!(want, TIMERS);
    assert!(calls <= (3 * TIMERS).div_ceil(1024), "{calls} calls");
    wheel.check_empty();
}

/// A million in one coarse slot, with a budget: every call is short, and the last timer comes.
#[test]
fn a_million_in_one_slot_keep_the_budget() {
    const TIMERS: u64 = 200_000; // a million takes long unoptimized; `make bench-wheel` has it
    let mut wheel = Wheel::new(0);
    for name in 0..TIMERS {
        wheel.insert(262_144 + name % 4096, name);
    }
    let (mut fired, mut moves) = (0, 0);
    while wheel.advance(1 << 20, 1024, |_, _, _| fired += 1) == Progress::More {
        let stats = wheel.stats();
        assert!(stats.moves + stats.fires - moves <= 1024);
        moves = stats.moves + stats.fires;
    }
    assert_eq!(fired, TIMERS);
    assert_eq!(wheel.stats().worst_slot as u64, TIMERS);
}
