//! Waiting with a deadline and a message.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

/// Probes until `Ok`; panics after `limit` with what was waited for and what the last probe saw.
pub async fn eventually<T, F, Fut>(what: impl Display, limit: Duration, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, String>>,
{
    let begin = Instant::now();
    let mut last = "nothing".to_owned();
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left.max(Duration::from_millis(1)), probe()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(seen)) => last = seen,
            Err(_) => {}
        }
        if begin.elapsed() >= limit {
            panic!("waited {limit:?} for {what}; last seen: {last}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// `eventually` for a plain condition.
pub async fn until(what: impl Display, limit: Duration, mut holds: impl FnMut() -> bool) {
    eventually(what, limit, || {
        let holds = holds();
        async move { if holds { Ok(()) } else { Err("not yet".to_owned()) } }
    })
    .await;
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
