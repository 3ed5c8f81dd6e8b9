//! Estimates how far the API server's clock is ahead of ours, from the `Date` header of its answers.
//!
//! Pure. A `Date` has whole seconds and was read somewhere between request and answer, so one answer bounds the offset
//! to a second and the round trip. Answers at different fractions of a second bound it differently: what all of them
//! allow shrinks to a few milliseconds within a minute. The bounds widen with age, since clocks drift; an answer
//! outside them means that a clock was set, and they start again from that answer.

use jiff::{SignedDuration, Timestamp};

/// Two clocks drift apart by up to this many parts in a million.
const DRIFT_PPM: i128 = 100;
/// A `Date` header is the server's time cut to whole seconds.
const DATE_UNIT: SignedDuration = SignedDuration::from_secs(1);

/// Bounds of (server clock - own clock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetBounds {
    pub lower: SignedDuration,
    pub upper: SignedDuration,
}

impl OffsetBounds {
    /// The middle: off by at most half the distance of the bounds.
    pub fn estimate(&self) -> SignedDuration {
        self.lower + (self.upper - self.lower) / 2
    }

    /// Whether the clocks are surely further apart than this.
    pub fn exceeds(&self, limit: SignedDuration) -> bool {
        self.lower > limit || self.upper < -limit
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        let both = Self { lower: self.lower.max(other.lower), upper: self.upper.min(other.upper) };
        (both.lower <= both.upper).then_some(both)
    }

    fn widen(&self, by: SignedDuration) -> Self {
        Self { lower: self.lower - by, upper: self.upper + by }
    }
}

/// Gathers answers into bounds.
#[derive(Debug, Clone, Default)]
pub struct Offset {
    known: Option<(OffsetBounds, Timestamp)>,
}

impl Offset {
    /// Takes one answer: when it was asked for and came by the own clock, and the server's `Date`.
    ///
    /// Left out if the own clock was set back in between: then it says nothing.
    pub fn observe(&mut self, sent: Timestamp, received: Timestamp, date: Timestamp) {
        if received < sent {
            return;
        }
        let sample =
            OffsetBounds { lower: date.duration_since(received), upper: date.duration_since(sent) + DATE_UNIT };
        let bounds = self
            .known
            .and_then(|(bounds, at)| bounds.widen(drift(received.duration_since(at))).intersect(&sample))
            .unwrap_or(sample);
        self.known = Some((bounds, received));
    }

    /// The bounds as of the last answer; `None` before the first.
    pub fn bounds(&self) -> Option<OffsetBounds> {
        self.known.map(|(bounds, _)| bounds)
    }

    pub fn lower(&self) -> Option<SignedDuration> {
        self.bounds().map(|bounds| bounds.lower)
    }

    pub fn upper(&self) -> Option<SignedDuration> {
        self.bounds().map(|bounds| bounds.upper)
    }

    pub fn estimate(&self) -> Option<SignedDuration> {
        self.bounds().map(|bounds| bounds.estimate())
    }
}

fn drift(age: SignedDuration) -> SignedDuration {
    SignedDuration::from_nanos_i128(age.as_nanos().abs() * DRIFT_PPM / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).expect("an instant")
    }

    fn ms(ms: i64) -> SignedDuration {
        SignedDuration::from_millis(ms)
    }

    /// What a server `ahead` ms ahead says when asked at `sent`, half of the round trip later.
    fn answer(offset: &mut Offset, sent: i64, round_trip: i64, ahead: i64) {
        let read = sent + round_trip / 2 + ahead;
        offset.observe(at(sent), at(sent + round_trip), at(read.div_euclid(1000) * 1000));
    }

    #[test]
    fn one_answer_bounds_the_offset_to_a_second_and_the_round_trip() {
        let mut offset = Offset::default();
        assert_eq!(offset.bounds(), None);
        offset.observe(at(10_200), at(10_260), at(12_000));
        let want = OffsetBounds { lower: ms(1_740), upper: ms(2_800) };
        assert_eq!(offset.bounds(), Some(want));
        assert_eq!(offset.estimate(), Some(ms(2_270)));
    }

    #[test]
    fn c066_many_answers_narrow_it_whatever_the_offset() {
        for ahead in [0, 3, 600_000, -600_000, 1_234_567] {
            let mut offset = Offset::default();
            for n in 0..60 {
                answer(&mut offset, 1_700_000_000_000 + n * 1_037, 6, ahead);
            }
            let bounds = offset.bounds().expect("answers were given");
            assert!(bounds.lower <= ms(ahead) && ms(ahead) <= bounds.upper, "{ahead} in {bounds:?}");
            assert!(bounds.upper - bounds.lower < ms(60), "{ahead}: {bounds:?}");
            assert_eq!(bounds.exceeds(ms(2_000)), ahead.abs() > 2_000, "{ahead}: {bounds:?}");
        }
    }

    #[test]
    fn a_stepped_clock_starts_the_bounds_again() {
        let mut offset = Offset::default();
        for n in 0..60 {
            answer(&mut offset, 1_700_000_000_000 + n * 1_037, 6, 0);
        }
        answer(&mut offset, 1_700_000_100_000, 6, 3_600_000);
        let bounds = offset.bounds().expect("answers were given");
        assert!(bounds.lower <= ms(3_600_000) && ms(3_600_000) <= bounds.upper, "{bounds:?}");
    }

    #[test]
    fn drift_is_followed_and_an_answer_across_a_step_is_left_out() {
        let mut offset = Offset::default();
        for n in 0..3_600 {
            answer(&mut offset, 1_700_000_000_000 + n * 1_037, 6, n / 15); // 64 ppm
        }
        let bounds = offset.bounds().expect("answers were given");
        assert!(bounds.lower <= ms(240) && ms(239) <= bounds.upper, "{bounds:?}");
        assert!(bounds.upper - bounds.lower < ms(250), "{bounds:?}");
        offset.observe(at(20_000), at(10_000), at(0));
        assert_eq!(offset.bounds(), Some(bounds));
    }
}
