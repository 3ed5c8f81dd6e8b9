//! What a worker's HTTP answer means. Pure.
//!
//! | status | meaning |
//! |---|---|
//! | 2xx but 202 | succeeded, the body is the result |
//! | 202 | accepted: not served yet, a failure that is not repeated, since the work may be under way |
//! | 409 | an attempt of this execution runs there: look again |
//! | 412, 421, 429, 503 with Retry-After | refused: nothing ran, another pod may take it now |
//! | 408, 425, other 5xx | failed, repeated |
//! | anything else | failed, not repeated |

use std::time::Duration;

use jiff::Timestamp;

use super::text::{clean, clean_bytes};

/// What is kept of a result, bytes.
pub const MAX_RESULT: usize = 4096;
/// What is kept of an error code, bytes.
pub const MAX_CODE: usize = 64;
/// What is kept of an error title, bytes.
pub const MAX_TITLE: usize = 128;
/// What is kept of an error detail, bytes.
pub const MAX_DETAIL: usize = 1024;
/// What is kept of a log tail, bytes.
pub const MAX_LOG: usize = 2048;
/// A `Retry-After` is cut to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// The shortest wait a worker may ask for where ax comes back by itself: zero would be a hot loop.
const SHORTEST: Duration = Duration::from_secs(1);
/// How soon a 409 is looked at again where the worker does not say.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How long a pod that answered 429 rests where it does not say.
const REST: Duration = Duration::from_secs(1);

/// An answer, as far as it decides anything.
#[derive(Debug, Clone, Default)]
pub struct Answer<'a> {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After`, verbatim.
    pub retry_after: Option<&'a str>,
    /// `Ax-Retryable`, verbatim.
    pub retryable: Option<&'a str>,
    /// `Ax-Term`, verbatim.
    pub term: Option<&'a str>,
    /// As much of the body as was read.
    pub body: &'a [u8],
    /// Whether the body was longer, or broke off.
    pub cut: bool,
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done; the result as text.
    Succeeded {
        /// At most [`MAX_RESULT`] bytes; `None` for an empty body.
        result: Option<String>,
        /// Whether something was cut off.
        truncated: bool,
    },
    /// An attempt of this execution runs there already; ask again after this.
    Busy(Duration),
    /// Nothing ran.
    Refused(Refused),
    /// It ran, and failed.
    Failed(Failure),
}

/// Why a pod did not take a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// 429: no room.
    Full(Duration),
    /// 503 with Retry-After: draining.
    Draining(Duration),
    /// 421: not the pod that was meant.
    WrongPod,
    /// 412: it has seen a higher term.
    LowerTerm(Option<u64>),
    /// No connection, or cut before the first byte.
    Unreachable(String),
}

impl Refused {
    /// In words, for a task's message.
    pub fn as_text(&self) -> String {
        match self {
            Self::Full(_) => "it has no room (429)".to_owned(),
            Self::Draining(_) => "it is draining (503 with Retry-After)".to_owned(),
            Self::WrongPod => "it is another pod (421)".to_owned(),
            Self::LowerTerm(_) => "it has seen a newer leader (412)".to_owned(),
            Self::Unreachable(why) => format!("it cannot be reached: {why}"),
        }
    }
}

/// Why an attempt failed. Every text is cut to its limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// `HTTP500` where the worker names none.
    pub code: String,
    /// One line.
    pub title: Option<String>,
    /// More.
    pub detail: Option<String>,
    /// Tail of the work's log.
    pub log: Option<String>,
    /// Whether the budget may be spent on another attempt.
    pub retryable: bool,
    /// The worker asks not to be tried before this.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that ax itself states.
    pub fn stated(code: &str, title: impl Into<String>) -> Self {
        Self { code: code.to_owned(), title: Some(title.into()), retryable: true, ..Self::default() }
    }

    /// Code and title in one line.
    pub fn as_text(&self) -> String {
        match &self.title {
            Some(title) => format!("{}: {title}", self.code),
            None => self.code.clone(),
        }
    }
}

/// Judges an answer; `now` only to read a `Retry-After` that is a date.
pub fn verdict(answer: &Answer<'_>, now: Timestamp) -> Verdict {
    let after = answer.retry_after.and_then(|text| retry_after(text, now));
    match answer.status {
        202 => Verdict::Failed(Failure {
            code: "HTTP202".to_owned(),
            title: Some(
                "accepted work (202) is not served by this version of ax; answer when the work is done".to_owned(),
            ),
            retryable: false,
            ..Failure::default()
        }),
        200..=299 => {
            let (text, cut) = clean_bytes(answer.body, MAX_RESULT);
            let result = (!text.is_empty()).then_some(text);
            Verdict::Succeeded { result, truncated: cut || answer.cut }
        }
        409 => Verdict::Busy(after.unwrap_or(LOOK_AGAIN).max(SHORTEST)),
        412 => Verdict::Refused(Refused::LowerTerm(answer.term.and_then(|t| t.trim().parse().ok()))),
        421 => Verdict::Refused(Refused::WrongPod),
        429 => Verdict::Refused(Refused::Full(after.unwrap_or(REST).max(SHORTEST))),
        503 if after.is_some() => Verdict::Refused(Refused::Draining(after.unwrap_or(REST).max(SHORTEST))),
        status => {
            let by_status = matches!(status, 408 | 425 | 500..=599);
            let retryable = match answer.retryable.map(str::trim) {
                Some("true") => true,
                Some("false") => false,
                _ => by_status,
            };
            Verdict::Failed(Failure { retryable, retry_after: after, ..problem(status, answer.body) })
        }
    }
}

/// Reads an RFC 9457 body leniently: what is not there, or not text, is left out.
fn problem(status: u16, body: &[u8]) -> Failure {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Lenient {
        code: Option<serde_json::Value>,
        title: Option<serde_json::Value>,
        detail: Option<serde_json::Value>,
        log: Option<serde_json::Value>,
    }
    let text = |value: Option<serde_json::Value>, limit| match value {
        Some(serde_json::Value::String(text)) => Some(clean(&text, limit).0).filter(|text| !text.is_empty()),
        _ => None,
    };
    let read: Lenient = serde_json::from_slice(body).unwrap_or_default();
    Failure {
        code: text(read.code, MAX_CODE).unwrap_or_else(|| format!("HTTP{status}")),
        title: text(read.title, MAX_TITLE),
        detail: text(read.detail, MAX_DETAIL),
        log: text(read.log, MAX_LOG),
        retryable: false,
        retry_after: None,
    }
}

/// Seconds or an HTTP date (RFC 9110, 10.2.3), at most an hour.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Duration::try_from(at.duration_since(now)).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(status: u16, retry_after: Option<&str>, retryable: Option<&str>, body: &str) -> Verdict {
        let answer = Answer { status, retry_after, retryable, body: body.as_bytes(), ..Answer::default() };
        verdict(&answer, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn c126_every_status_has_its_meaning() {
        let failed = |v: &Verdict| match v {
            Verdict::Failed(failure) => Some(failure.retryable),
            _ => None,
        };
        for status in [200, 201, 204, 206, 299] {
            assert!(matches!(judge(status, None, None, ""), Verdict::Succeeded { .. }), "{status}");
        }
        for status in [301, 302, 400, 401, 404, 410, 422, 424, 451] {
            assert_eq!(failed(&judge(status, None, None, "")), Some(false), "{status}");
        }
        for status in [408, 425, 500, 502, 503, 504, 599] {
            assert_eq!(failed(&judge(status, None, None, "")), Some(true), "{status}");
        }
        assert_eq!(failed(&judge(202, None, None, "")), Some(false));
        assert_eq!(failed(&judge(404, None, Some("true"), "")), Some(true));
        assert_eq!(failed(&judge(500, None, Some("false"), "")), Some(false));
        assert_eq!(judge(409, None, None, ""), Verdict::Busy(LOOK_AGAIN));
        assert_eq!(judge(429, None, None, ""), Verdict::Refused(Refused::Full(REST)));
        assert_eq!(judge(503, Some("7"), None, ""), Verdict::Refused(Refused::Draining(Duration::from_secs(7))));
        assert_eq!(judge(503, Some("0"), None, ""), Verdict::Refused(Refused::Draining(SHORTEST)));
        assert_eq!(judge(409, Some("0"), None, ""), Verdict::Busy(SHORTEST));
        assert_eq!(judge(421, None, None, ""), Verdict::Refused(Refused::WrongPod));
        assert_eq!(judge(412, None, None, ""), Verdict::Refused(Refused::LowerTerm(None)));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_an_hour() {
        let now = Timestamp::from_second(1_700_000_000).expect("an instant");
        assert_eq!(retry_after("3", now), Some(Duration::from_secs(3)));
        assert_eq!(retry_after("99999999", now), Some(MAX_RETRY_AFTER));
        assert_eq!(retry_after("Tue, 14 Nov 2023 22:13:30 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(retry_after("Tue, 14 Nov 2000 22:13:30 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }

    #[test]
    fn c045_long_texts_are_cut_never_refused() {
        let long = "x".repeat(1 << 20);
        let Verdict::Succeeded { result: Some(result), truncated: true } = judge(200, None, None, &long) else {
            panic!("a cut success");
        };
        assert_eq!(result.len(), MAX_RESULT);
        let body = format!(r#"{{"code":"{long}","title":"{long}","detail":3,"log":"{long}"}}"#);
        let Verdict::Failed(failure) = judge(500, None, None, &body) else { panic!("a failure") };
        assert_eq!((failure.code.len(), failure.log.map(|l| l.len())), (MAX_CODE, Some(MAX_LOG)));
        assert_eq!(failure.detail, None);
    }

    #[test]
    fn a_body_that_is_no_problem_keeps_the_status_as_code() {
        for body in ["", "boom", "[1,2]", "{\"code\": 7}", "{\"code\": \"\"}"] {
            let Verdict::Failed(failure) = judge(500, None, None, body) else { panic!("a failure") };
            assert_eq!(failure.code, "HTTP500", "{body}");
        }
    }
}
