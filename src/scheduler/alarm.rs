//! The alarm of the leader loop: wakes it when the nearest timer is due. IO.
//!
//! A timerfd, since tokio's own timers round up to a millisecond and wait by milliseconds: on an idle machine they are
//! late by about one, a timerfd by some ten microseconds. Where there is none, and in tests whose time stands still,
//! tokio's sleep takes its place.
//!
//! Never early. It may ring without need: once set, it is only ever set earlier until it has rung, so that a timer
//! that is cancelled or a loop that turns often costs no system call. The loop looks at its timers and sets it again.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::warn;

use crate::ops::clock::Clock;

/// Rings once for each time it is set.
#[derive(Debug)]
pub struct Alarm {
    hand: Hand,
    /// When it rings; `None` once it has rung.
    set: Option<Duration>,
}

#[derive(Debug)]
enum Hand {
    Timer(Timer),
    Sleep {
        sleep: Pin<Box<Sleep>>,
        /// Where monotonic readings begin.
        origin: Instant,
    },
}

impl Alarm {
    /// For the monotonic readings of `clock`. To be made inside a runtime.
    pub fn new(clock: Clock) -> Self {
        if clock.is_simulated() {
            return Self::of_tokio(clock.instant(Duration::ZERO));
        }
        match Timer::new(clock) {
            Ok(timer) => Self { hand: Hand::Timer(timer), set: None },
            Err(error) => {
                warn!(%error, "there is no timerfd; timers are late by a millisecond or two");
                Self::of_tokio(clock.instant(Duration::ZERO))
            }
        }
    }

    /// Follows tokio's time, which tests stop; readings begin at `origin`.
    pub fn of_tokio(origin: Instant) -> Self {
        Self { hand: Hand::Sleep { sleep: Box::pin(sleep_until(origin)), origin }, set: None }
    }

    /// Rings at the monotonic reading `at` or before: what it was set to already is not put off.
    pub fn set(&mut self, at: Duration) {
        if self.set.is_some_and(|set| set <= at) {
            return;
        }
        self.set = Some(at);
        if at <= self.now() {
            return; // rings without the kernel's help
        }
        match &mut self.hand {
            Hand::Timer(timer) => {
                if let Err(error) = timer.set(at) {
                    warn!(%error, "the timerfd cannot be set; timers are late by a millisecond or two");
                    let origin = timer.clock.instant(Duration::ZERO);
                    self.hand = Hand::Sleep { sleep: Box::pin(sleep_until(origin + at)), origin };
                }
            }
            Hand::Sleep { sleep, origin } => sleep.as_mut().reset(*origin + at),
        }
    }

    /// Waits until it rings. Nothing is lost if the future is dropped before.
    ///
    /// What is due already rings after one yield: whoever waits for something else beside it gets a word in.
    pub async fn rings(&mut self) {
        let Some(at) = self.set else { return std::future::pending().await };
        if self.now() >= at {
            yield_now().await;
        } else {
            match &mut self.hand {
                Hand::Timer(timer) => timer.expires().await,
                Hand::Sleep { sleep, .. } => sleep.as_mut().await,
            }
        }
        self.set = None;
    }

    fn now(&self) -> Duration {
        match &self.hand {
            Hand::Timer(timer) => timer.clock.mono(),
            Hand::Sleep { origin, .. } => origin.elapsed(),
        }
    }
}

/// A timerfd on the monotonic clock.
#[derive(Debug)]
struct Timer {
    fd: AsyncFd<OwnedFd>,
    clock: Clock,
    /// What the kernel's monotonic clock showed at the clock's origin, or a little more.
    origin: Duration,
}

impl Timer {
    #[expect(deprecated, reason = "what replaces it is unsafe, and asks for what an OwnedFd keeps anyhow")]
    fn new(clock: Clock) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Self { fd, clock, origin: clock.kernel_origin() })
    }

    fn set(&self, at: Duration) -> io::Result<()> {
        // Zero would disarm it.
        let at = (self.origin + at).max(Duration::from_nanos(1));
        let time =
            Timespec { tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(at.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: time };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Waits until it has expired since it was set. Setting it anew takes an unread expiry back, but not what the
    /// runtime knows of it: so it is read, and only a read that would block says that there is nothing.
    async fn expires(&self) {
        let read = |fd: &OwnedFd| rustix::io::read(fd, &mut [0; 8]).map_err(io::Error::from);
        // An error would only end the wait: the loop looks at its timers, and sets it again.
        let _: io::Result<usize> = self.fd.async_io(Interest::READABLE, read).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::{sleep, timeout};

    use futures::FutureExt as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn of_timerfd() -> (Alarm, Clock) {
        let clock = Clock::start();
        let alarm = Alarm::new(clock);
        assert!(matches!(alarm.hand, Hand::Timer(_)), "this machine has a timerfd");
        (alarm, clock)
    }

    async fn rings(alarm: &mut Alarm) {
        timeout(SOON, alarm.rings()).await.expect("it rings");
    }

    #[tokio::test]
    async fn never_early_and_hardly_late() {
        let (mut alarm, clock) = of_timerfd();
        let mut late = Vec::new();
        for _ in 0..50 {
            let at = clock.mono() + Duration::from_micros(2300);
            alarm.set(at);
            rings(&mut alarm).await;
            late.push(clock.mono().checked_sub(at).expect("it rings early"));
        }
        late.sort_unstable();
        // Far more than is wanted of an idle machine, which this one need not be; `make bench-trigger` has the figure.
        assert!(late[25] <= ms(200), "late by {late:?}");
    }

    #[tokio::test]
    async fn c014_set_earlier_it_rings_earlier() {
        let (mut alarm, clock) = of_timerfd();
        alarm.set(clock.mono() + SOON * 2);
        assert!(timeout(ms(5), alarm.rings()).await.is_err());
        let at = clock.mono() + ms(20);
        alarm.set(at);
        rings(&mut alarm).await;
        assert!(clock.mono() >= at);
    }

    #[tokio::test]
    async fn c014_set_later_it_rings_as_it_was_set_and_then_anew() {
        let (mut alarm, clock) = of_timerfd();
        let (first, second) = (clock.mono() + ms(10), clock.mono() + ms(30));
        alarm.set(first);
        alarm.set(second); // the timer of the first was cancelled
        rings(&mut alarm).await;
        assert!(clock.mono() >= first);
        alarm.set(second);
        rings(&mut alarm).await;
        assert!(clock.mono() >= second);
    }

    #[tokio::test]
    async fn what_has_expired_unheard_is_not_lost() {
        let (mut alarm, clock) = of_timerfd();
        alarm.set(clock.mono() + ms(500));
        // Dropped before, and expired after nobody waits.
        assert!(alarm.rings().now_or_never().is_none());
        sleep(ms(600)).await;
        rings(&mut alarm).await;
        // What was known of that expiry says nothing of the next.
        let at = clock.mono() + ms(20);
        alarm.set(at);
        rings(&mut alarm).await;
        assert!(clock.mono() >= at);
    }

    #[tokio::test]
    async fn what_is_due_rings_again_and_again() {
        let (mut alarm, clock) = of_timerfd();
        for _ in 0..100 {
            alarm.set(clock.mono());
            rings(&mut alarm).await;
        }
        // A past that was never read does not ring for the future.
        let at = clock.mono() + ms(20);
        alarm.set(at);
        rings(&mut alarm).await;
        assert!(clock.mono() >= at);
    }

    /// The leader loop while more is due than one turn takes.
    #[tokio::test]
    async fn what_is_due_lets_others_get_a_word_in() {
        let (mut alarm, clock) = of_timerfd();
        let (sender, mut inputs) = mpsc::channel(1);
        tokio::spawn(async move {
            for n in 0..3 {
                sender.send(n).await.expect("the loop listens");
            }
        });
        let (mut heard, mut turns) = (0, 0);
        while heard < 3 {
            turns += 1;
            assert!(turns < 100, "inputs starve");
            alarm.set(clock.mono());
            tokio::select! {
                biased;
                Some(_) = inputs.recv() => heard += 1,
                () = alarm.rings() => {}
            }
        }
    }

    #[tokio::test]
    async fn what_is_not_set_does_not_ring() {
        let (mut alarm, _) = of_timerfd();
        assert!(timeout(ms(20), alarm.rings()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn follows_a_time_that_stands_still() {
        let origin = Instant::now();
        let mut alarm = Alarm::of_tokio(origin);
        let mut rang = Vec::new();
        for at in [1, 3_600_000, 3_600_001, 90_000_000] {
            alarm.set(ms(at));
            alarm.rings().await;
            rang.push(origin.elapsed());
        }
        assert_eq!(rang, [ms(1), ms(3_600_000), ms(3_600_001), ms(90_000_000)]);
    }
}
