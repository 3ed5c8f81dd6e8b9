//! The three intervals of the election and what must hold between them. Pure.

use std::time::Duration;

/// How long a claim lasts, how long its holder believes it, and how often it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Candidates leave a record alone until it has not changed for this long.
    pub lease_duration: Duration,
    /// The holder trusts a claim for this long, from the start of the call that made it.
    pub renew_deadline: Duration,
    /// Pause between renewals, and between a candidate's looks.
    pub retry_period: Duration,
}

/// Why a [`Config`] is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("retryPeriod must be more than 0")]
    NoRetryPeriod,
    #[error("leaseDuration ({lease_duration:?}) must be more than renewDeadline ({renew_deadline:?})")]
    LeaseTooShort { lease_duration: Duration, renew_deadline: Duration },
    #[error("renewDeadline ({renew_deadline:?}) must be more than 1.2 times retryPeriod ({retry_period:?})")]
    DeadlineTooShort { renew_deadline: Duration, retry_period: Duration },
}

impl Default for Config {
    /// Losing the Lease costs little here, so it is short: 5 s, 3 s, 1 s.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(5),
            renew_deadline: Duration::from_secs(3),
            retry_period: Duration::from_secs(1),
        }
    }
}

impl Config {
    /// For slow or busy API servers: 15 s, 10 s, 2 s.
    pub fn calm() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Whether the intervals can work together.
    ///
    /// The holder must stop before candidates may start, and must get more than one try before it stops.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { lease_duration, renew_deadline, retry_period } = *self;
        if retry_period.is_zero() {
            return Err(ConfigError::NoRetryPeriod);
        }
        if lease_duration <= renew_deadline {
            return Err(ConfigError::LeaseTooShort { lease_duration, renew_deadline });
        }
        if renew_deadline <= retry_period * 6 / 5 {
            return Err(ConfigError::DeadlineTooShort { renew_deadline, retry_period });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_must_stop_before_candidates_start_and_have_two_tries() {
        let ms = Duration::from_millis;
        for (case, lease, deadline, retry, want) in [
            ("default", 5_000, 3_000, 1_000, true),
            ("calm", 15_000, 10_000, 2_000, true),
            ("lease as short as the deadline", 3_000, 3_000, 1_000, false),
            ("deadline is 1.2 retries", 5_000, 1_200, 1_000, false),
            ("deadline just over 1.2 retries", 5_000, 1_201, 1_000, true),
            ("no retry period", 5_000, 3_000, 0, false),
        ] {
            let config = Config { lease_duration: ms(lease), renew_deadline: ms(deadline), retry_period: ms(retry) };
            assert_eq!(config.check().is_ok(), want, "{case}");
        }
        assert!(Config::default().check().is_ok());
        assert!(Config::calm().check().is_ok());
    }
}
