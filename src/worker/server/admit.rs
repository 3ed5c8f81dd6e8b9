//! Decides what happens to a request that arrives. Pure.
//!
//! The checks have an order, and the first that speaks decides: wrong pod, lower term, the dedup rule, draining,
//! capacity. What the journal knows it tells on the way out too: the asker may be a new leader, and nobody else has
//! that answer. Every refusal promises that nothing ran. A term is remembered once its request was meant for this
//! pod, also if a later check refuses it: the sender leads, whatever room there is here.

use crate::worker::wire;

/// What the checks look at, besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// No new work is taken any more.
    pub draining: bool,
    /// Uid of the pod this process runs in.
    pub pod_uid: &'a str,
    /// How many executions may run at once.
    pub capacity: usize,
    /// How many run.
    pub running: usize,
    /// What the journal knows of this execution.
    pub known: Option<Known>,
}

/// What the journal knows of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// An attempt runs.
    Running,
    /// An attempt has ended, with this status. One that was lost in a crash has ended with a 500.
    Finished { attempt: u32, status: u16 },
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It starts now.
    Runs,
    /// It ran before; the answer it got then is given again.
    Stored { attempt: u32, status: u16 },
    /// It does not run.
    Refused(Refusal),
}

/// Why a request does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This worker is going away.
    Draining,
    /// Another pod is meant, which had this address before.
    WrongPod,
    /// A leader with a higher term was here.
    LowerTerm { highest: u64 },
    /// An attempt of this execution runs here already.
    AlreadyRunning,
    /// Every place is taken.
    Full,
}

impl Refusal {
    /// The `code` of the answer, and the reason in logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Draining => "Draining",
            Self::WrongPod => "WrongPod",
            Self::LowerTerm { .. } => "LowerTerm",
            Self::AlreadyRunning => "AlreadyRunning",
            Self::Full => "Full",
        }
    }
}

/// The highest term seen. Kept in memory only: the first request after a restart teaches it anew.
#[derive(Debug, Default)]
pub struct Terms {
    highest: Option<u64>,
}

impl Terms {
    /// Refuses a term lower than the highest seen, else remembers it.
    ///
    /// One more than a day ahead of `now_ms` is let through and not remembered: a leader whose clock was wrong
    /// once must not lock out all that come after it.
    fn check(&mut self, term: Option<u64>, now_ms: u64) -> Result<(), Refusal> {
        let Some(term) = term else {
            return Ok(());
        };
        if let Some(highest) = self.highest
            && term < highest
        {
            return Err(Refusal::LowerTerm { highest });
        }
        if term <= now_ms.saturating_add(wire::TERM_BELIEF_MILLIS) {
            self.highest = Some(term);
        }
        Ok(())
    }
}

/// Judges a dispatch of `attempt`.
pub fn dispatch(
    seen: Seen<'_>,
    attempt: u32,
    pod_uid: Option<&str>,
    term: Option<u64>,
    terms: &mut Terms,
    now_ms: u64,
) -> Admission {
    if let Err(refusal) = question(seen.pod_uid, pod_uid, term, terms, now_ms) {
        return Admission::Refused(refusal);
    }
    match seen.known {
        Some(Known::Running) => return Admission::Refused(Refusal::AlreadyRunning),
        Some(Known::Finished { attempt: ran, status }) if is_success(status) || attempt <= ran => {
            return Admission::Stored { attempt: ran, status };
        }
        Some(Known::Finished { .. }) | None => {}
    }
    if seen.draining {
        return Admission::Refused(Refusal::Draining);
    }
    if seen.running >= seen.capacity {
        return Admission::Refused(Refusal::Full);
    }
    Admission::Runs
}

/// Judges who asks: the checks that a dispatch and an inventory question share.
pub fn question(
    own_uid: &str,
    pod_uid: Option<&str>,
    term: Option<u64>,
    terms: &mut Terms,
    now_ms: u64,
) -> Result<(), Refusal> {
    if pod_uid.is_some_and(|meant| meant != own_uid) {
        return Err(Refusal::WrongPod);
    }
    terms.check(term, now_ms)
}

/// Whether a stored status is a success, which nothing repeats.
fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const IDLE: Seen<'static> = Seen { draining: false, pod_uid: "pod-a", capacity: 2, running: 0, known: None };

    fn finished(attempt: u32, status: u16) -> Option<Known> {
        Some(Known::Finished { attempt, status })
    }

    fn judge(seen: Seen<'_>, attempt: u32, pod_uid: Option<&str>, term: Option<u64>) -> Admission {
        let mut terms = Terms { highest: Some(1_000) };
        dispatch(seen, attempt, pod_uid, term, &mut terms, NOW)
    }

    #[test]
    fn the_first_check_that_speaks_decides() {
        let all_wrong = Seen { draining: true, running: 2, known: Some(Known::Running), ..IDLE };
        let new = Seen { known: None, ..all_wrong };
        let failed = Seen { known: finished(1, 500), ..all_wrong };
        let full = Seen { draining: false, ..new };
        for (case, seen, attempt, pod_uid, term, want) in [
            ("wrong pod", all_wrong, 1, "pod-b", 999, Refusal::WrongPod),
            ("lower term", all_wrong, 1, "pod-a", 999, Refusal::LowerTerm { highest: 1_000 }),
            ("running", all_wrong, 1, "pod-a", 1_000, Refusal::AlreadyRunning),
            ("draining", new, 1, "pod-a", 1_000, Refusal::Draining),
            ("draining, a failure's next attempt", failed, 2, "pod-a", 1_000, Refusal::Draining),
            ("full", full, 1, "pod-a", 1_000, Refusal::Full),
        ] {
            let got = judge(seen, attempt, Some(pod_uid), Some(term));
            assert_eq!(got, Admission::Refused(want), "{case}");
        }
    }

    #[test]
    fn the_dedup_table_holds() {
        let stored = |attempt, status| Admission::Stored { attempt, status };
        for (case, known, attempt, want) in [
            ("nothing known", None, 1, Admission::Runs),
            ("nothing known, late attempt", None, 7, Admission::Runs),
            ("success, same", finished(2, 200), 2, stored(2, 200)),
            ("success, higher", finished(2, 204), 9, stored(2, 204)),
            ("success, lower", finished(2, 200), 1, stored(2, 200)),
            ("failure, same", finished(2, 500), 2, stored(2, 500)),
            ("failure, lower", finished(2, 422), 1, stored(2, 422)),
            ("failure, higher", finished(2, 422), 3, Admission::Runs),
        ] {
            let seen = Seen { known, ..IDLE };
            assert_eq!(judge(seen, attempt, None, None), want, "{case}");
        }
    }

    #[test]
    fn a_stored_answer_needs_no_room_and_no_future() {
        for status in [200, 500] {
            let seen = Seen { draining: true, running: 2, known: finished(1, status), ..IDLE };
            let want = Admission::Stored { attempt: 1, status };
            assert_eq!(judge(seen, 1, None, None), want);
        }
    }

    #[test]
    fn c133_the_remembered_term_only_grows_and_only_within_a_day() {
        let mut terms = Terms::default();
        let mut ask = |term| {
            let result = question("pod-a", Some("pod-a"), term, &mut terms, NOW);
            (result, terms.highest)
        };
        let far = NOW + wire::TERM_BELIEF_MILLIS + 1;
        assert_eq!(ask(Some(5)), (Ok(()), Some(5)));
        assert_eq!(ask(Some(9)), (Ok(()), Some(9)));
        assert_eq!(ask(Some(5)), (Err(Refusal::LowerTerm { highest: 9 }), Some(9)));
        assert_eq!(ask(None), (Ok(()), Some(9)), "no term");
        assert_eq!(ask(Some(far)), (Ok(()), Some(9)), "over a day ahead");
        assert_eq!(ask(Some(far - 1)), (Ok(()), Some(far - 1)), "just a day");
    }

    #[test]
    fn c131_another_pods_question_teaches_no_term() {
        let mut terms = Terms::default();
        let got = question("pod-a", Some("pod-b"), Some(9), &mut terms, NOW);
        assert_eq!(got, Err(Refusal::WrongPod));
        assert_eq!(terms.highest, None);
    }
}
