use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::api::status::Dependency;
use crate::domain::answer::Failure;
use crate::domain::effective::RetryRules;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("an instant")
}

fn rules(max_retries: u32, delays: &[u64]) -> Rules {
    let delays = delays.iter().map(|s| Duration::from_secs(*s)).collect();
    let retry = RetryRules { max_retries, delays, jitter_percent: 0, non_retryable: vec!["CardRevoked".to_owned()] };
    Rules { retry, roll: 1_000_000 }
}

fn sent() -> Event {
    let timeout_at = at(1000);
    Event::Sent(Sent { pod: "pod-a".to_owned(), pod_uid: "uid-a".to_owned(), term: 7, timeout_at })
}

fn failed(number: u32) -> Event {
    Event::Failed { number, outcome: Outcome::Failed, failure: Failure::stated("HTTP500", "boom") }
}

fn success(number: u32) -> Event {
    Event::Succeeded { number, result: Some("{}".to_owned()), truncated: false }
}

fn wanted(suspend: bool, cancel: bool) -> Event {
    Event::Wanted { suspend, cancel, ready_at: at(0), deadline: None }
}

fn waits_for_a(waits: bool) -> Event {
    let dependency =
        Dependency { name: "a".to_owned(), uid: (!waits).then(|| "uid-of-a".to_owned()), satisfied: !waits };
    let waits = waits.then(|| (reason::DEPENDENCY_NOT_READY, "waits for a to succeed".to_owned()));
    Event::Dependencies(Dependencies { list: vec![dependency], waits })
}

fn shown(number: u32) -> Event {
    Event::Shown(Shown { number, pod: "pod-b".to_owned(), pod_uid: "uid-b".to_owned(), term: 8, timeout_at: at(1000) })
}

/// A task after these events, each of which must act.
fn life(events: &[Event]) -> Life {
    let mut life = Life::new(at(0), at(0));
    for event in events {
        let step = life.step(event.clone(), &rules(3, &[30, 120]), at(0));
        assert!(matches!(step, Step::Took(_)), "{event:?}: {step:?}");
    }
    life
}

fn in_phase(phase: Phase) -> Life {
    let mut ended = match phase {
        Phase::Pending => return life(&[]),
        Phase::Ready => return life(&[Event::Due]),
        Phase::Running => return life(&[Event::Due, sent()]),
        Phase::Retrying => return life(&[Event::Due, sent(), failed(1)]),
        Phase::Succeeded => return life(&[Event::Due, sent(), success(1)]),
        Phase::Canceled => return life(&[wanted(false, true)]),
        Phase::Dead | Phase::Unknown => life(&[Event::Bury { reason: reason::INVALID, message: String::new() }]),
    };
    ended.phase = phase;
    ended
}

const PHASES: [Phase; 8] = [
    Phase::Pending,
    Phase::Ready,
    Phase::Running,
    Phase::Retrying,
    Phase::Succeeded,
    Phase::Canceled,
    Phase::Dead,
    Phase::Unknown,
];

/// Every event in every phase: where it leads, or `None` where it is refused.
#[test]
fn every_event_in_every_phase() {
    use Phase::{Canceled, Dead, Pending, Ready, Retrying, Running, Succeeded};
    let late = |n| Event::Failed { number: n, outcome: Outcome::TimedOut, failure: Failure::stated("TimedOut", "") };
    let bury = || Event::Bury { reason: reason::INVALID, message: String::new() };
    let waits = || Event::Waits { reason: reason::WAITING_FOR_CREDIT, message: String::new() };
    let refused = || Event::Refused { number: 1, why: String::new() };
    let moved = Event::Wanted { suspend: false, cancel: false, ready_at: at(50), deadline: None };
    // Pending, Ready, Running, Retrying; the final phases refuse everything.
    let table: [(&str, Event, [Option<Phase>; 4]); 15] = [
        ("nothing new", wanted(false, false), [Some(Pending), Some(Ready), Some(Running), Some(Retrying)]),
        ("suspend", wanted(true, false), [Some(Pending), Some(Pending), Some(Running), Some(Retrying)]),
        ("cancel", wanted(false, true), [Some(Canceled), Some(Canceled), Some(Running), Some(Canceled)]),
        ("ready time moved ahead", moved, [Some(Pending), Some(Pending), Some(Running), Some(Retrying)]),
        ("due", Event::Due, [Some(Ready), None, None, None]),
        ("waits", waits(), [None, Some(Ready), None, None]),
        ("stall", Event::Stall, [None, None, None, None]),
        ("sent", sent(), [None, Some(Running), None, None]),
        ("refused", refused(), [None, None, Some(Ready), None]),
        ("busy", Event::Busy { number: 1 }, [None, None, Some(Running), None]),
        ("never started", Event::NeverStarted { number: 1 }, [None, None, Some(Ready), None]),
        ("success", success(1), [None, None, Some(Succeeded), Some(Succeeded)]),
        ("timed out", late(1), [None, None, Some(Retrying), None]),
        ("cancel grace", Event::CancelGrace, [None, None, None, None]),
        ("bury", bury(), [Some(Dead), Some(Dead), None, Some(Dead)]),
    ];
    for (case, event, want) in table {
        for (phase, want) in PHASES.into_iter().zip(want.into_iter().chain([None; 4])) {
            let mut life = in_phase(phase);
            let step = life.step(event.clone(), &rules(3, &[30, 120]), at(0));
            match want {
                Some(want) => {
                    assert!(matches!(step, Step::Took(_)), "{case} in {phase:?}: {step:?}");
                    assert_eq!(life.phase, want, "{case} in {phase:?}");
                }
                None => {
                    assert!(matches!(step, Step::Refused(_)), "{case} in {phase:?}: {step:?}");
                    assert_eq!(life, in_phase(phase), "a refused event changes nothing: {case} in {phase:?}");
                }
            }
        }
    }
}

#[test]
fn c034_retries_end_in_a_dead_letter_after_exactly_one_more_attempt() {
    for max_retries in [0, 1, 2, 10] {
        let mut life = life(&[Event::Due]);
        let rules = rules(max_retries, &[0]);
        let mut now = 0;
        while life.phase != Phase::Dead {
            now += 1;
            life.step(Event::Due, &rules, at(now));
            life.step(sent(), &rules, at(now));
            life.step(failed(life.attempt), &rules, at(now));
            assert!(now < 100, "no end");
        }
        assert_eq!((life.attempt, life.reason.as_ref()), (max_retries + 1, reason::RETRIES_EXHAUSTED));
    }
}

#[test]
fn c031_each_wait_is_the_delay_of_its_retry() {
    let rules = rules(9, &[30, 120]);
    let mut life = life(&[Event::Due]);
    let mut waits = Vec::new();
    let mut now = at(0);
    for number in 1..=4 {
        life.step(sent(), &rules, now);
        life.step(failed(number), &rules, now);
        let next = life.next_attempt_at.expect("a next attempt");
        waits.push(next.duration_since(now).as_secs());
        assert!(matches!(life.step(Event::Due, &rules, at(-1).max(now)), Step::Refused(_)), "never early");
        now = next;
        life.step(Event::Due, &rules, now);
    }
    assert_eq!(waits, [30, 120, 120, 120]);
}

#[test]
fn a_refusal_uses_no_attempt_up_and_keeps_the_place() {
    let mut life = life(&[Event::Due, sent()]);
    let queued_at = life.queued_at;
    life.step(Event::Refused { number: 1, why: "full".to_owned() }, &Rules::default(), at(5));
    assert_eq!((life.phase, life.attempt, life.refusals, life.start_time), (Phase::Ready, 0, 1, None));
    assert_eq!((life.queued_at, life.attempts.len()), (queued_at, 0));
    assert_eq!(life.reason, reason::PODS_REFUSING);
}

#[test]
fn c042_a_late_success_counts_until_a_later_attempt_has_started() {
    for (case, more, want) in [
        ("retrying", vec![], Phase::Succeeded),
        ("ready again", vec![Event::Due], Phase::Succeeded),
        ("the next answered 409", vec![Event::Due, sent(), Event::Busy { number: 2 }], Phase::Succeeded),
        ("the next has started", vec![Event::Due, sent()], Phase::Running),
    ] {
        let mut life = life(&[Event::Due, sent(), failed(1)]);
        for event in more {
            assert!(matches!(life.step(event, &rules(3, &[30]), at(60)), Step::Took(_)), "{case}");
        }
        life.step(success(1), &rules(3, &[30]), at(61));
        assert_eq!(life.phase, want, "{case}");
        if want == Phase::Succeeded {
            assert_eq!((life.attempt, life.last_outcome()), (1, Some(Outcome::Succeeded)), "{case}");
        }
    }
}

#[test]
fn c050_a_cancelled_attempt_that_fails_ends_canceled_and_a_success_first_wins() {
    let running = [Event::Due, sent(), wanted(false, true)];
    let mut life_a = life(&running);
    assert_eq!((life_a.phase, life_a.reason.as_ref()), (Phase::Running, reason::CANCEL_REQUESTED));
    life_a.step(failed(1), &rules(3, &[1]), at(1));
    assert_eq!((life_a.phase, life_a.next_attempt_at), (Phase::Canceled, None));
    let mut life_b = life(&running);
    life_b.step(success(1), &rules(3, &[1]), at(1));
    assert_eq!(life_b.phase, Phase::Succeeded);
}

#[test]
fn c049_an_unconfirmed_cancel_ends_after_30_s() {
    let mut life = life(&[Event::Due, sent(), wanted(false, true)]);
    assert_eq!(wake(&life), Some((at(30), Wake::CancelGrace)));
    assert!(matches!(life.step(Event::CancelGrace, &Rules::default(), at(29)), Step::Refused(_)));
    life.step(Event::CancelGrace, &Rules::default(), at(30));
    assert_eq!((life.phase, life.last_outcome()), (Phase::Canceled, Some(Outcome::Canceled)));
    assert!(matches!(life.step(success(1), &Rules::default(), at(31)), Step::Refused(Refusal::Final)));
}

#[test]
fn c056_a_running_task_runs_on_under_suspend_and_its_retry_waits() {
    let mut life = life(&[Event::Due, sent(), wanted(true, false), failed(1)]);
    assert_eq!((life.phase, life.reason.as_ref()), (Phase::Retrying, reason::SUSPENDED));
    assert_eq!(wake(&life), None);
    life.step(wanted(false, false), &Rules::default(), at(500));
    assert_eq!(life.reason, reason::BACKOFF);
    life.step(Event::Due, &Rules::default(), at(500));
    assert_eq!(life.phase, Phase::Ready);
}

#[test]
fn codes_that_are_not_to_be_repeated_end_the_task() {
    let mut life = life(&[Event::Due, sent()]);
    let failure = Failure::stated("CardRevoked", "no");
    life.step(Event::Failed { number: 1, outcome: Outcome::Failed, failure }, &rules(3, &[1]), at(1));
    assert_eq!((life.phase, life.reason.as_ref()), (Phase::Dead, reason::NON_RETRYABLE));
}

#[test]
fn c078_an_inventory_shows_a_send_whose_write_was_lost() {
    let mut life = life(&[Event::Due, shown(1)]);
    assert_eq!((life.phase, life.attempt), (Phase::Running, 1));
    assert_eq!(life.current.as_ref().map(|c| c.pod.as_str()), Some("pod-b"));
    life.step(success(1), &Rules::default(), at(1));
    assert_eq!(life.phase, Phase::Succeeded);
    // A pod that lists a running attempt beats the recorded one; a closed attempt shows nothing.
    let mut running = in_phase(Phase::Running);
    running.step(shown(1), &Rules::default(), at(1));
    assert_eq!(running.current.map(|c| c.pod_uid).as_deref(), Some("uid-b"));
    assert!(matches!(in_phase(Phase::Retrying).step(shown(1), &Rules::default(), at(1)), Step::Refused(_)));
}

#[test]
fn a_life_survives_its_own_status() {
    for phase in PHASES {
        let before = in_phase(phase);
        let status = crate::domain::report::status(&before, &Default::default(), 1, 7, at(0));
        let seen = Seen { ready_at: before.ready_at, suspend: false, cancel: before.cancel, deadline: None };
        let after = Life::resume(&status, seen, at(0));
        assert_eq!(after.phase, before.phase);
        assert_eq!(after.current, before.current, "{phase:?}");
        let again = crate::domain::report::status(&after, &status, 1, 7, at(9));
        assert_eq!(again, status, "{phase:?}: a takeover alone writes nothing");
    }
}

#[test]
fn a_short_task_is_written_once() {
    // Due at once, sent at once, ended within 250 ms: only the end is worth a write.
    let mut life = life(&[Event::Due]);
    assert_eq!(write_at(&life, false, true, at(0)), Some(at(1)));
    life.step(sent(), &Rules::default(), at(0));
    let shown_at = write_at(&life, false, true, at(0)).expect("a time");
    assert_eq!(shown_at.duration_since(at(0)).as_millis(), 250);
    life.step(success(1), &Rules::default(), at(0));
    assert_eq!(write_at(&life, false, true, at(0)), Some(at(0)));
    // Pending: a write only if it is due in over 10 s.
    let soon = Life::new(at(10), at(0));
    let far = Life::new(at(11), at(0));
    assert_eq!(write_at(&soon, false, true, at(0)), None);
    assert_eq!(write_at(&far, false, true, at(0)), Some(at(0)));
}

#[test]
fn c057_a_deadline_binds_the_first_start_alone() {
    let wanted =
        Event::Wanted { suspend: false, cancel: false, ready_at: at(0), deadline: Some(Duration::from_secs(30)) };
    let mut waiting = life(&[wanted.clone(), Event::Due]);
    assert_eq!(wake(&waiting), Some((at(30), Wake::Deadline)));
    assert!(matches!(waiting.step(Event::DeadlinePassed, &Rules::default(), at(29)), Step::Refused(_)));
    assert!(matches!(waiting.step(Event::DeadlinePassed, &Rules::default(), at(30)), Step::Took(_)));
    assert_eq!((waiting.phase, waiting.reason.as_ref()), (Phase::Dead, reason::DEADLINE_EXCEEDED));
    assert_eq!(waiting.attempt, 0);
    // Suspended, it passes all the same; once started, it is of no more consequence.
    let suspended =
        Event::Wanted { suspend: true, cancel: false, ready_at: at(0), deadline: Some(Duration::from_secs(30)) };
    assert_eq!(wake(&life(&[suspended])), Some((at(30), Wake::Deadline)));
    let mut retrying = life(&[wanted, Event::Due, sent(), failed(1)]);
    assert!(matches!(retrying.step(Event::DeadlinePassed, &Rules::default(), at(99)), Step::Refused(_)));
}

#[test]
fn a_task_is_not_due_before_its_dependencies_have_succeeded() {
    let mut waiting = life(&[waits_for_a(true)]);
    assert_eq!(waiting.reason, reason::DEPENDENCY_NOT_READY);
    assert_eq!(wake(&waiting), None);
    assert!(matches!(waiting.step(Event::Due, &Rules::default(), at(9)), Step::Refused(_)));
    waiting.step(waits_for_a(false), &Rules::default(), at(9));
    assert_eq!(wake(&waiting), Some((at(0), Wake::Due)));
    assert!(matches!(waiting.step(Event::Due, &Rules::default(), at(9)), Step::Took(_)));
    assert_eq!(waiting.dependencies[0].uid.as_deref(), Some("uid-of-a"));
}

#[test]
fn c104_a_replaced_run_ends_canceled_whatever_it_was_doing() {
    let replaced = || Event::Replaced { by: "newer".to_owned() };
    for phase in [Phase::Pending, Phase::Ready, Phase::Retrying] {
        let mut life = in_phase(phase);
        life.step(replaced(), &Rules::default(), at(1));
        assert_eq!((life.phase, life.reason.as_ref()), (Phase::Canceled, reason::REPLACED), "{phase:?}");
    }
    let mut running = in_phase(Phase::Running);
    running.step(replaced(), &Rules::default(), at(1));
    assert_eq!((running.phase, running.reason.as_ref()), (Phase::Running, reason::CANCEL_REQUESTED));
    // A successor reads it from the status.
    let status = crate::domain::report::status(&running, &Default::default(), 1, 7, at(1));
    let seen = Seen { ready_at: at(0), suspend: false, cancel: false, deadline: None };
    let mut after = Life::resume(&status, seen, at(2));
    assert_eq!(wake(&after), Some((at(31), Wake::CancelGrace)));
    after.step(failed(1), &rules(3, &[1]), at(3));
    assert_eq!((after.phase, after.reason.as_ref()), (Phase::Canceled, reason::REPLACED));
    assert!(matches!(in_phase(Phase::Succeeded).step(replaced(), &Rules::default(), at(1)), Step::Refused(_)));
}

fn any_event() -> impl Strategy<Value = Event> {
    let number = 0..6u32;
    let from_the_worker = prop_oneof![
        number.clone().prop_map(|number| Event::Refused { number, why: "full".to_owned() }),
        number.clone().prop_map(|number| Event::Busy { number }),
        number.clone().prop_map(|number| Event::NeverStarted { number }),
        number.clone().prop_map(success),
        number.clone().prop_map(failed),
        number.prop_map(shown),
    ];
    prop_oneof![
        1 => (any::<bool>(), prop::bool::weighted(0.05), 0..100i64, prop::option::of(1..200u64)).prop_map(
            |(suspend, cancel, ready, deadline)| {
                let deadline = deadline.map(Duration::from_secs);
                Event::Wanted { suspend, cancel, ready_at: at(ready), deadline }
            }),
        1 => any::<bool>().prop_map(waits_for_a),
        1 => Just(Event::DeadlinePassed),
        1 => prop::bool::weighted(0.05).prop_map(|_| Event::Replaced { by: "newer".to_owned() }),
        4 => Just(Event::Due),
        4 => Just(sent()),
        6 => from_the_worker,
        1 => Just(Event::Stall),
        1 => Just(Event::CancelGrace),
        2 => prop_oneof![Just(reason::WORKER_NOT_FOUND), Just(reason::WAITING_FOR_CREDIT)]
            .prop_map(|reason| Event::Waits { reason, message: String::new() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Whatever happens in whatever order: what a life must always be.
    #[test]
    fn random_sequences_keep_the_invariants(events in prop::collection::vec((any_event(), 0..40i64), 1..80)) {
        let mut life = Life::new(at(0), at(0));
        let rules = rules(3, &[5, 30]);
        let (mut now, mut highest) = (0, 0);
        for (event, wait) in events {
            now += wait;
            let before = life.clone();
            let step = life.step(event.clone(), &rules, at(now));
            if let Step::Refused(_) = step {
                prop_assert_eq!(&life, &before, "refused, yet changed: {:?}", event);
            }
            if before.phase.is_final() {
                prop_assert_eq!(life.phase, before.phase, "a final phase changed by {:?}", event);
            }
            prop_assert_eq!(life.phase == Phase::Running, life.current.is_some());
            prop_assert!(life.attempt <= 4, "more attempts than the budget allows");
            // A number is used again only if its attempt never ran: refused, or answered 409.
            let undone = matches!(event, Event::Refused { .. } | Event::NeverStarted { .. } | Event::Succeeded { .. });
            prop_assert!(undone || life.attempt >= highest, "numbers only grow");
            highest = life.attempt;
            let open = life.attempts.iter().filter(|a| a.outcome.is_none()).count();
            prop_assert_eq!(open, usize::from(life.current.is_some()), "one open entry while one runs: {:?}", life);
            let numbers: Vec<i32> = life.attempts.iter().map(|a| a.number).collect();
            prop_assert!(numbers.is_sorted_by(|a, b| a < b), "entries in order, none twice");
            let wins = life.attempts.iter().filter(|a| a.outcome == Some(Outcome::Succeeded)).count();
            prop_assert_eq!(wins, usize::from(life.phase == Phase::Succeeded), "never two successes");
            prop_assert_eq!(life.finish_time.is_some(), life.phase.is_final());
        }
    }
}
