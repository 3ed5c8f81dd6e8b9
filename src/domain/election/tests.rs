use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::sim::{EPOCH_MS, Event, Fate, HANGS, Mutant, QUICK, REFUSED, World, check};
use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn wall(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(EPOCH_MS + ms).expect("an instant")
}

fn held_by(holder: &str, seconds: u64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        duration: secs(seconds),
        renew_time: "2026-01-01T00:00:00.000000Z".to_owned(),
        term: Some(7),
        address: Some("10.9.9.9:8080".to_owned()),
        resource_version: "1".to_owned(),
        ..LeaseRecord::default()
    }
}

fn released() -> LeaseRecord {
    LeaseRecord { holder: String::new(), duration: RELEASED_DURATION, ..held_by("", 1) }
}

/// An elector that took a released Lease at `now` = 10 s, answered at once.
fn leader() -> (Elector, LeaseRecord) {
    let mut elector = Elector::new("me", Some("10.0.0.1:8080".to_owned()), Config::default());
    elector.on_read(Some(released()), secs(10));
    let Action::Write { record, .. } = elector.next(secs(10), wall(0), 0) else { panic!("takes a released Lease") };
    let record = LeaseRecord { resource_version: "2".to_owned(), ..record };
    elector.on_written(record.clone(), secs(10));
    (elector, record)
}

fn terms(world: &World, node: usize) -> Vec<u64> {
    world
        .heard(node)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::Acquired { term, .. } | Notice::TermRaised { term } => Some(*term),
            Notice::Lost { .. } | Notice::Observed { .. } => None,
        })
        .collect()
}

fn losses(world: &World, node: usize) -> Vec<(u64, LossReason)> {
    world.nodes[node]
        .notices
        .iter()
        .filter_map(|(at, notice)| match notice {
            Notice::Lost { reason } => Some((*at, *reason)),
            Notice::Acquired { .. } | Notice::TermRaised { .. } | Notice::Observed { .. } => None,
        })
        .collect()
}

#[test]
fn an_acquiring_write_keeps_the_version_and_names_the_holder_before() {
    let mut elector = Elector::new("me", Some("10.0.0.1:8080".to_owned()), Config::default());
    assert_eq!(elector.next(secs(10), wall(0), 0), Action::Read { timeout: ms(1_500) });
    elector.on_read(Some(LeaseRecord { transitions: 3, ..released() }), secs(10));
    let want = LeaseRecord {
        holder: "me".to_owned(),
        duration: secs(5),
        renew_time: "2026-09-21T14:13:20.000000Z".to_owned(),
        acquire_time: "2026-09-21T14:13:20.000000Z".to_owned(),
        transitions: 4,
        term: Some(u64::try_from(EPOCH_MS).expect("positive") + 1),
        address: Some("10.0.0.1:8080".to_owned()),
        previous_address: Some("10.9.9.9:8080".to_owned()),
        resource_version: "1".to_owned(),
    };
    assert_eq!(elector.next(secs(10), wall(0), 0), Action::Write { record: want, timeout: ms(1_500) });
}

#[test]
fn the_state_of_the_lease_decides_when_it_is_taken_and_when_starts_begin() {
    for (case, record, want) in [
        ("missing: at once, but wait", None, (true, true)),
        ("released: at once", Some(released()), (true, false)),
        ("emptied by hand: at once, but wait", Some(held_by("", 5)), (true, true)),
        (
            "no duration: at once, but wait",
            Some(LeaseRecord { duration: Duration::ZERO, ..held_by("you", 5) }),
            (true, true),
        ),
        (
            "bare object: at once, but wait",
            Some(LeaseRecord { resource_version: "1".to_owned(), ..LeaseRecord::default() }),
            (true, true),
        ),
        ("our name, not our claim: at once, but wait", Some(held_by("me", 5)), (true, true)),
        ("held", Some(held_by("you", 5)), (false, false)),
    ] {
        let mut elector = Elector::new("me", None, Config::default());
        elector.on_read(record, secs(10));
        let action = elector.next(secs(10), wall(0), 0);
        let (Action::Create { record, .. } | Action::Write { record, .. }) = action else {
            assert!(!want.0, "{case}: {action:?}");
            continue;
        };
        assert!(want.0, "{case}");
        elector.on_written(LeaseRecord { resource_version: "2".to_owned(), ..record }, ms(10_004));
        let reign = elector.reign(ms(10_004)).expect(case);
        assert_eq!(reign.trusted_until, secs(13), "{case}");
        let want = if want.1 { ms(15_004) } else { Duration::ZERO };
        assert_eq!(reign.may_start_at, want, "{case}");
    }
}

#[test]
fn a_creator_that_saw_a_longer_claim_waits_for_that() {
    let mut elector = Elector::new("me", None, Config::default());
    elector.on_read(Some(held_by("you", 15)), secs(10));
    elector.on_read(None, secs(11));
    let Action::Create { record, .. } = elector.next(secs(11), wall(0), 0) else { panic!("creates") };
    elector.on_written(LeaseRecord { resource_version: "2".to_owned(), ..record }, secs(11));
    assert_eq!(elector.reign(secs(11)).map(|reign| reign.may_start_at), Some(secs(26)));
}

#[test]
fn one_try_gets_half_the_deadline_or_the_time_left() {
    let (mut elector, _) = leader();
    let Action::Write { timeout, .. } = elector.next(secs(11), wall(1_000), 0) else { panic!("renews") };
    assert_eq!(timeout, ms(1_500));
    elector.on_write_failed(ms(12_500));
    assert_eq!(elector.next(ms(12_500), wall(2_500), 0), Action::Read { timeout: ms(500) });
}

#[test]
fn a_lost_answer_counts_from_the_start_of_its_call() {
    let (mut elector, _) = leader();
    let Action::Write { record, .. } = elector.next(secs(11), wall(1_000), 0) else { panic!("renews") };
    elector.on_write_failed(ms(12_500));
    elector.on_read(Some(LeaseRecord { resource_version: "3".to_owned(), ..record }), ms(12_510));
    let want = Some((secs(11), secs(14)));
    assert_eq!(elector.reign(ms(12_510)).map(|reign| (reign.proved_at, reign.trusted_until)), want);
    // The next renewal is due one retry period after that start: now.
    assert!(matches!(elector.next(ms(12_510), wall(2_510), 0), Action::Write { .. }));
}

#[test]
fn an_acquisition_answered_too_late_is_claimed_again_in_a_higher_term() {
    let mut elector = Elector::new("me", None, Config::default());
    elector.on_read(Some(released()), secs(10));
    let Action::Write { record, .. } = elector.next(secs(10), wall(0), 0) else { panic!("takes it") };
    let first = record.term;
    elector.on_written(LeaseRecord { resource_version: "2".to_owned(), ..record }, ms(13_000));
    assert_eq!(elector.reign(ms(13_000)), None);
    let Action::Write { record, .. } = elector.next(ms(13_000), wall(-5_000), 0) else { panic!("takes it again") };
    assert!(record.term > first, "{:?} after {first:?}", record.term);
}

#[test]
fn an_own_lease_no_longer_trusted_is_regained_in_a_higher_term_with_the_old_addresses() {
    let (mut elector, record) = leader();
    elector.take_notices();
    assert!(matches!(elector.next(secs(13), wall(3_000), 0), Action::Read { .. }));
    assert_eq!(elector.take_notices(), vec![Notice::Lost { reason: LossReason::TrustEnded }]);
    elector.on_read(Some(record.clone()), ms(13_002));
    let Action::Write { record: again, .. } = elector.next(ms(13_002), wall(-1_000_000), 0) else { panic!("regains") };
    assert_eq!(again.term, record.term.map(|term| term + 1), "also with the wall clock set back");
    assert_eq!(again.transitions, record.transitions);
    assert_eq!(again.acquire_time, record.acquire_time);
    assert_eq!(again.previous_address, Some("10.9.9.9:8080".to_owned()));
    elector.on_written(LeaseRecord { resource_version: "3".to_owned(), ..again }, ms(13_004));
    assert_eq!(elector.reign(ms(13_004)).map(|reign| reign.may_start_at), Some(Duration::ZERO));
}

#[test]
fn a_raise_writes_at_once_and_only_upwards() {
    let (mut elector, record) = leader();
    let term = record.term.expect("a term");
    elector.take_notices();
    assert!(elector.raise_term_above(term - 1, wall(0)));
    assert!(elector.saw_term(term, wall(0)));
    assert_eq!(elector.next(ms(10_100), wall(100), 0), Action::Wait { until: secs(11) });
    assert!(!elector.raise_term_above(term + 100_000_000, wall(100)), "over a day ahead");
    assert_eq!(elector.next(ms(10_100), wall(100), 0), Action::Wait { until: secs(11) });
    assert!(elector.raise_term_above(term + 5, wall(100)));
    let Action::Write { record, .. } = elector.next(ms(10_100), wall(100), 0) else { panic!("raises") };
    assert_eq!(record.term, Some(term + 6));
    elector.on_written(LeaseRecord { resource_version: "3".to_owned(), ..record }, ms(10_102));
    assert_eq!(elector.take_notices(), vec![Notice::TermRaised { term: term + 6 }]);
    assert_eq!(elector.reign(ms(10_102)).map(|reign| reign.term), Some(term + 6));
    assert_eq!(elector.next(ms(10_102), wall(102), 0), Action::Wait { until: ms(11_100) });
    assert!(elector.saw_term(term + 9, wall(200)));
    let Action::Write { record, .. } = elector.next(ms(10_200), wall(200), 0) else { panic!("raises") };
    assert_eq!(record.term, Some(term + 10));
}

#[test]
fn terms_on_the_lease_and_in_statuses_count_unless_a_day_ahead() {
    let now = u64::try_from(EPOCH_MS).expect("positive");
    for (case, lease, status, want) in [
        ("both low", 7, 9, now + 1),
        ("the Lease's is higher", now + 50, 9, now + 51),
        ("a status's is higher", 7, now + 60, now + 61),
        ("both not believed", now + 90_000_000, u64::MAX, now + 1),
    ] {
        let mut elector = Elector::new("me", None, Config::default());
        elector.saw_term(status, wall(0));
        elector.on_read(Some(LeaseRecord { term: Some(lease), ..released() }), secs(10));
        let Action::Write { record, .. } = elector.next(secs(10), wall(0), 0) else { panic!("takes it") };
        assert_eq!(record.term, Some(want), "{case}");
    }
}

#[test]
fn a_release_names_nobody_keeps_the_term_and_ends_trust_first() {
    let (mut elector, record) = leader();
    elector.take_notices();
    elector.release(ms(10_500));
    assert_eq!(elector.reign(ms(10_500)), None);
    assert_eq!(elector.take_notices(), vec![Notice::Lost { reason: LossReason::Released }]);
    let Action::Write { record: release, .. } = elector.next(ms(10_500), wall(500), 0) else { panic!("releases") };
    assert_eq!(release.occupancy(), Occupancy::Released);
    assert_eq!((release.term, &release.address), (record.term, &record.address));
    assert_eq!(release.resource_version, "2");
    elector.on_written(LeaseRecord { resource_version: "3".to_owned(), ..release }, ms(10_502));
    assert_eq!(elector.next(ms(10_502), wall(502), 0), Action::Stop);
}

#[test]
fn a_release_of_what_others_hold_or_nobody_answers_for_just_stops() {
    let (mut elector, _) = leader();
    elector.on_read(Some(LeaseRecord { resource_version: "9".to_owned(), ..held_by("you", 5) }), ms(10_100));
    elector.release(ms(10_500));
    assert_eq!(elector.next(ms(10_500), wall(500), 0), Action::Stop);

    let world = World::new(|_, now, _| if now < 4_000 { QUICK } else { HANGS })
        .lease(released())
        .node(Config::default(), 0, 0, 0)
        .at(4_100, Event::Release(0))
        .run(8_000);
    assert_eq!(losses(&world, 0), vec![(4_100, LossReason::Released)]);
}

#[test]
fn a_holder_that_must_not_start_yet_hands_its_wait_on() {
    let world = World::quick()
        .node(Config::default(), 0, 0, 0)
        .node(Config::default(), 500, 77, 0)
        .at(2_000, Event::Release(0))
        .run(12_000);
    assert_eq!(world.led(0), vec![]);
    let led = world.led(1);
    assert!(led[0].0 >= 7_000, "{led:?}");
    check(&world.stretches).expect("one leader");
}

#[test]
fn a_change_beside_the_claim_costs_no_leadership() {
    let world = World::quick()
        .lease(released())
        .node(Config::default(), 0, 0, 0)
        .at(2_500, Event::Label)
        .at(2_600, Event::Label)
        .run(10_000);
    assert_eq!(losses(&world, 0), vec![]);
    assert_eq!(terms(&world, 0).len(), 1);
}

#[test]
fn c061_a_killed_leader_is_followed_within_seven_seconds_and_in_the_calm_profile_within_twenty() {
    for (case, config, most) in [("default", Config::default(), 6_500), ("calm", Config::calm(), 18_500)] {
        let world = World::quick()
            .lease(released())
            .node(config, 0, 0, 0)
            .node(config, 321, 5_000_000, 0)
            .at(10_000, Event::Crash(0))
            .run(40_000);
        let led = world.led(1);
        assert!(led[0].0 <= 10_000 + most, "{case}: {led:?}");
        check(&world.stretches).expect(case);
    }
}

#[test]
fn c063_trust_runs_from_the_start_of_the_call_not_from_its_answer() {
    // Renewals start at 2, 3, ... s. The one at 4.008 is answered after 1.4 s; nothing after it is.
    let slow = Fate { there: Some(100), back: Some(1_300), refused: false };
    let world = World::new(move |_, now, _| match now {
        0..4_000 => QUICK,
        4_000..5_000 => slow,
        _ => HANGS,
    })
    .lease(released())
    .node(Config::default(), 0, 0, 0)
    .run(20_000);
    let start = *world.nodes[0].writes.iter().find(|at| **at >= 4_000).expect("a write");
    assert_eq!(world.led(0), vec![(8, start + 3_000)]);
    assert_eq!(losses(&world, 0), vec![(start + 3_000, LossReason::TrustEnded)]);
}

#[test]
fn c064_refused_renewals_end_trust_at_the_deadline_and_one_slow_call_does_not() {
    let world = World::new(|_, now, action| match (now, action) {
        (5_500..12_000, Action::Write { .. }) => REFUSED,
        _ => QUICK,
    })
    .lease(released())
    .node(Config::default(), 0, 0, 0)
    .run(20_000);
    let last_good = *world.nodes[0].writes.iter().rfind(|at| **at < 5_500).expect("a write");
    assert_eq!(losses(&world, 0), vec![(last_good + 3_000, LossReason::TrustEnded)]);
    let terms = terms(&world, 0);
    assert!(terms.len() == 2 && terms[0] < terms[1], "{terms:?}");

    let slow = Fate { there: Some(500), back: Some(500), refused: false };
    let mut calls = 0;
    let world = World::new(move |_, _, _| {
        calls += 1;
        if calls % 5 == 0 { slow } else { QUICK }
    })
    .lease(released())
    .node(Config::default(), 0, 0, 0)
    .run(60_000);
    assert_eq!(losses(&world, 0), vec![]);
}

#[test]
fn c064_a_refusing_api_server_is_not_flooded() {
    let world = World::new(|_, _, _| REFUSED).node(Config::default(), 0, 0, 0).run(60_000);
    assert_eq!(world.nodes[0].writes, Vec::<u64>::new());
    let world = World::new(|_, _, action| if matches!(action, Action::Read { .. }) { QUICK } else { REFUSED })
        .node(Config::default(), 0, 0, 0)
        .run(60_000);
    assert!(world.nodes[0].writes.len() <= 61, "{}", world.nodes[0].writes.len());
}

#[test]
fn c065_the_records_own_duration_counts_not_the_candidates() {
    let world = World::quick().lease(held_by("old", 60)).node(Config::default(), 1_000, 0, 0).run(70_000);
    let first = *world.nodes[0].writes.first().expect("a takeover");
    assert!((61_000..61_100).contains(&first), "{first}");
}

#[test]
fn c066_wall_clocks_off_by_ten_minutes_change_nothing() {
    for (case, off_a, off_b) in [("ahead", 600_000, -600_000), ("behind", -600_000, 600_000)] {
        let world = World::quick()
            .lease(released())
            .node(Config::default(), 0, 0, off_a)
            .node(Config::default(), 250, 987_654_321, off_b)
            .at(30_000, Event::Crash(0))
            .run(60_000);
        let last_change = *world.nodes[0].writes.last().expect("writes");
        let taken = world.led(1)[0].0;
        assert!((last_change + 5_000..=last_change + 7_000).contains(&taken), "{case}: {taken} after {last_change}");
        let (a, b) = (terms(&world, 0), terms(&world, 1));
        assert!(b[0] > a[0], "{case}: {b:?} after {a:?}");
        check(&world.stretches).expect(case);
    }
}

#[test]
fn c067_a_leader_cut_off_stops_before_its_successor_starts() {
    let world = World::new(|node, now, _| if node == 0 && (10_500..70_500).contains(&now) { HANGS } else { QUICK })
        .lease(released())
        .node(Config::default(), 0, 0, 0)
        .node(Config::default(), 250, 4_000, 0)
        .run(90_000);
    let last_good = *world.nodes[0].writes.iter().rfind(|at| **at < 10_500).expect("a write");
    assert_eq!(losses(&world, 0), vec![(last_good + 3_000, LossReason::TrustEnded)]);
    let taken = world.led(1)[0].0;
    assert!(taken > last_good + 3_000 && taken <= last_good + 7_000, "{taken} after {last_good}");
    assert_eq!(world.led(0).len(), 1, "the other leads, and keeps leading");
    check(&world.stretches).expect("one leader");
}

#[test]
fn c068_the_term_survives_the_lease_and_its_creator_waits() {
    let world = World::quick()
        .lease(released())
        .node(Config::default(), 0, 0, 0)
        .at(5_500, Event::RaiseTerm(0))
        .at(10_500, Event::Delete)
        .run(30_000);
    let (terms, led) = (terms(&world, 0), world.led(0));
    assert!(terms.windows(2).all(|pair| pair[0] < pair[1]) && terms.len() == 3, "{terms:?}");
    assert_eq!(losses(&world, 0).len(), 1);
    assert_eq!(losses(&world, 0)[0].1, LossReason::Missing);
    let last = led.last().expect("leads again");
    assert!(last.0 >= 15_500, "{led:?}");
}

#[test]
fn c071_a_holder_edited_by_hand_stops_the_leader_and_nobody_leads_for_the_duration() {
    let world = World::quick()
        .lease(released())
        .node(Config::default(), 0, 0, 0)
        .node(Config::default(), 250, 4_000, 0)
        .at(10_500, Event::Steal)
        .run(30_000);
    let lost = losses(&world, 0);
    assert!(lost[0].0 <= 12_500 && lost[0].1 == LossReason::ForeignHolder, "{lost:?}");
    let after: Vec<_> = world.stretches.iter().filter(|stretch| stretch.from > 10_500).collect();
    assert!(after[0].from >= 15_500, "{after:?}");
    assert!(after.iter().all(|stretch| stretch.node == after[0].node), "{after:?}");
    check(&world.stretches).expect("one leader");
}

#[test]
fn c074_a_wall_clock_set_back_neither_delays_a_renewal_nor_costs_the_lease() {
    let world = World::quick()
        .lease(released())
        .node(Config::default(), 0, 0, 0)
        .node(Config::default(), 250, 4_000, 0)
        .at(10_500, Event::StepWall(0, -3_600_000))
        .run(30_000);
    assert_eq!(losses(&world, 0), vec![]);
    assert_eq!(world.nodes[1].writes, Vec::<u64>::new());
    let gaps: Vec<_> = world.nodes[0].writes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap == 1_000), "{gaps:?}");
}

#[test]
fn c155_a_lease_deleted_under_a_leader_cut_off_makes_no_two_leaders() {
    for deleted_at in (10_000..13_500).step_by(250) {
        let world = World::new(|node, now, _| if node == 0 && now >= 10_005 { HANGS } else { QUICK })
            .lease(released())
            .node(Config::default(), 0, 0, 0)
            .node(Config::default(), 250, 4_000, 0)
            .at(deleted_at, Event::Delete)
            .run(30_000);
        let old = world.led(0).last().expect("led").1;
        let new = world.led(1)[0].0;
        assert!(old <= 13_100, "{old}");
        assert!(new >= deleted_at + 5_000, "{new}");
        check(&world.stretches).expect("one leader");
    }
}

#[test]
fn a_sleep_or_a_forward_step_costs_one_new_term() {
    let (mut elector, record) = leader();
    elector.take_notices();
    elector.clock_jumped();
    assert_eq!(elector.take_notices(), vec![Notice::Lost { reason: LossReason::ClockJumped }]);
    assert!(matches!(elector.next(ms(10_500), wall(500), 0), Action::Read { .. }));
    elector.on_read(Some(record.clone()), ms(10_502));
    let Action::Write { record: again, .. } = elector.next(ms(10_502), wall(502), 0) else { panic!("regains") };
    assert!(again.term > record.term);
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let leg = prop_oneof![
        12 => (0..20_u64).prop_map(Some),
        3 => (0..1_700_u64).prop_map(Some),
        1 => (0..8_000_u64).prop_map(Some),
        1 => Just(None),
    ];
    let fate =
        (leg.clone(), leg, prop::bool::weighted(0.05)).prop_map(|(there, back, refused)| Fate { there, back, refused });
    prop::collection::vec(fate, 20..60)
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        1 => Just(Event::Delete),
        1 => Just(Event::Steal),
        1 => Just(Event::Empty),
        2 => Just(Event::Label),
        2 => (0..3_usize).prop_map(Event::Release),
        2 => (0..3_usize, 0..12_000_u64).prop_map(|(node, ms)| Event::Freeze(node, ms)),
        1 => (0..3_usize).prop_map(Event::RaiseTerm),
        1 => (0..3_usize, -300..300_i64).prop_map(|(node, by)| Event::StepWall(node, by)),
        1 => (0..2_usize).prop_map(Event::Crash),
    ];
    prop::collection::vec((0..60_000_u64, event), 0..12)
}

/// Wall clocks a little apart: the caller passes the API server's, measured. Far apart, a creator that never saw the
/// Lease before it could take a term that was used; who may start when would not change (c066, c074).
fn replicas() -> impl Strategy<Value = Vec<(u64, u64, i64)>> {
    prop::collection::vec((0..5_000_u64, 0..1_000_000_000_u64, -300..300_i64), 3)
}

/// The profiles, and one with little between the end of trust and the takeover.
fn configs() -> impl Strategy<Value = Config> {
    let tight = Config { renew_deadline: secs(4), ..Config::default() };
    prop_oneof![Just(Config::default()), Just(tight), Just(Config::calm())]
}

fn play(
    config: Config,
    fates: Vec<Fate>,
    events: Vec<(u64, Event)>,
    replicas: &[(u64, u64, i64)],
    mutant: Mutant,
) -> World {
    let mut turn = 0;
    let mut world = World::new(move |_, _, _| {
        turn += 1;
        fates[turn % fates.len()]
    })
    .mutant(mutant);
    for (starts_at, origin, wall_off) in replicas {
        world = world.node(config, *starts_at, *origin, *wall_off);
    }
    for (at, event) in events {
        world = world.at(at, event);
    }
    world.run(80_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_two_leaders_and_the_term_only_grows(
        config in configs(),
        fates in fates(),
        events in events(),
        replicas in replicas(),
    ) {
        let world = play(config, fates, events, &replicas, Mutant::None);
        if let Err(error) = check(&world.stretches) {
            prop_assert!(false, "{error}");
        }
    }
}

#[test]
fn the_checker_catches_wrong_elections() {
    for mutant in [Mutant::TrustFromTheAnswer, Mutant::NoResourceVersion, Mutant::CreatorDoesNotWait] {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let strategy = (configs(), fates(), events(), replicas());
        let caught = (0..3_000).any(|_| {
            let (config, fates, events, replicas) = strategy.new_tree(&mut runner).expect("a case").current();
            check(&play(config, fates, events, &replicas, mutant).stretches).is_err()
        });
        assert!(caught, "{mutant:?} is not caught");
    }
}

#[test]
fn the_sound_election_does_lead_most_of_the_time() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (fates(), replicas());
    let mut led = 0;
    for _ in 0..100 {
        let (fates, replicas) = strategy.new_tree(&mut runner).expect("a case").current();
        let world = play(Config::default(), fates, Vec::new(), &replicas, Mutant::None);
        led += world.stretches.iter().map(|stretch| stretch.until - stretch.from).sum::<u64>();
    }
    assert!(led > 100 * 80_000 / 2, "{led}");
}
