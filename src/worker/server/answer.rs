//! The answers a worker gives. Pure.
//!
//! An [`Answer`] is what the journal keeps: what is said about an execution, now and whenever it is asked for
//! again. A [`Reply`] is an answer on one connection, with what is true only at that moment.

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;

use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::admit::Refusal;
use super::exec::{Ending, Output};
use super::request::Invalid;
use crate::worker::wire::{self, Problem};

/// Exit code by which a command says that no retry will help: `EX_DATAERR` of `sysexits.h`.
const EXIT_FINAL: i32 = 65;
/// Most of the log that goes into an answer, bytes.
const MAX_LOG: usize = 2 * 1024;

/// What is said about an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Overrules whether a failure is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// JSON, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

impl Answer {
    /// An error with a body that says which.
    pub fn problem(status: StatusCode, problem: &Problem) -> Self {
        Self {
            status: status.as_u16(),
            retryable: None,
            // A struct of strings always serialises.
            body: serde_json::to_string(problem).unwrap_or_default(),
        }
    }

    /// What a command's end means.
    pub fn of(output: &Output) -> Self {
        let (status, code, title) = match &output.ending {
            Ending::Exited(status) => match (status.code(), status.signal()) {
                (Some(0), _) => return Self::success(&output.stdout, output.stdout_cut),
                (Some(EXIT_FINAL), _) => (
                    StatusCode::UNPROCESSABLE_ENTITY,
                    format!("Exit{EXIT_FINAL}"),
                    format!("the command exited with {EXIT_FINAL}: final"),
                ),
                (Some(code), _) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("Exit{code}"),
                    format!("the command exited with {code}"),
                ),
                (None, signal) => {
                    let signal = signal.unwrap_or_default();
                    (
                        StatusCode::INTERNAL_SERVER_ERROR,
                        format!("Signal{signal}"),
                        format!("the command was killed by signal {signal}"),
                    )
                }
            },
            Ending::TimedOut => (
                StatusCode::GATEWAY_TIMEOUT,
                "TimedOut".to_owned(),
                "the command ran into its timeout and was stopped".to_owned(),
            ),
            Ending::Stopped => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "WorkerStopped".to_owned(),
                "the command was stopped because its worker had to go".to_owned(),
            ),
            Ending::Failed(error) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "NotStarted".to_owned(),
                format!("the command could not be started: {}", error.kind()),
            ),
        };
        let log = log_tail(&output.stderr);
        let mut answer = Self::problem(
            status,
            &Problem { code: Some(code), title: Some(title), detail: None, log: (!log.is_empty()).then_some(log) },
        );
        if status == StatusCode::UNPROCESSABLE_ENTITY {
            answer.retryable = Some(false);
        }
        answer
    }

    /// An attempt that had started when the worker died, found in the journal by the next one.
    pub fn lost() -> Self {
        Self::problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            &problem("WorkerRestarted", "the worker died while the command ran; how far it got is not known"),
        )
    }

    /// Stdout as the result: JSON as it stands, anything else as a JSON string, nothing as nothing.
    fn success(stdout: &[u8], cut: bool) -> Self {
        let text = String::from_utf8_lossy(stdout);
        let text = text.trim();
        let body = if text.is_empty() {
            String::new()
        } else if !cut && text.len() <= wire::MAX_RESPONSE_READ && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            text.to_owned()
        } else {
            json_string(text, wire::MAX_RESPONSE_READ)
        };
        Self { status: 200, retryable: None, body }
    }
}

/// An answer on its way to one asker.
#[derive(Debug)]
pub struct Reply {
    answer: Answer,
    headers: HeaderMap,
}

impl Reply {
    /// No execution began, for this reason.
    pub fn refused(refusal: Refusal) -> Self {
        let (status, title) = match refusal {
            Refusal::Draining => {
                (StatusCode::SERVICE_UNAVAILABLE, "this worker takes no new work: it is shutting down")
            }
            Refusal::WrongPod => (StatusCode::MISDIRECTED_REQUEST, "the request is meant for another pod"),
            Refusal::LowerTerm { .. } => (StatusCode::PRECONDITION_FAILED, "a leader with a higher term was here"),
            Refusal::AlreadyRunning => (StatusCode::CONFLICT, "an attempt of this execution runs here"),
            Refusal::Full => (StatusCode::TOO_MANY_REQUESTS, "every place is taken"),
        };
        let reply = Self::problem(status, refusal.reason(), title);
        match refusal {
            Refusal::Draining => reply.retry_after(5).closing(),
            Refusal::WrongPod => reply,
            Refusal::LowerTerm { highest } => reply.header(HeaderName::from_static(wire::TERM), &highest.to_string()),
            Refusal::AlreadyRunning | Refusal::Full => reply.retry_after(1),
        }
    }

    /// The journal cannot be written, so nothing began.
    pub fn no_journal() -> Self {
        Self::problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "JournalUnwritable",
            "the journal cannot be written, and without it nothing may start",
        )
        .retry_after(5)
    }

    /// A header makes the request unusable.
    pub fn invalid(invalid: &Invalid) -> Self {
        let title = format!("header {} {}", invalid.header, invalid.fault);
        Self::problem(StatusCode::BAD_REQUEST, "InvalidHeader", &title)
    }

    /// Any other error.
    pub fn problem(status: StatusCode, code: &str, title: &str) -> Self {
        Answer::problem(status, &problem(code, title)).into()
    }

    /// A 200 with a JSON body, or with none.
    pub fn ok(body: String) -> Self {
        Answer { status: 200, retryable: None, body }.into()
    }

    /// The connection ends with this answer.
    pub fn closing(self) -> Self {
        self.header(CONNECTION, "close")
    }

    /// Says which methods the path knows.
    pub fn allow(self, method: &str) -> Self {
        self.header(ALLOW, method)
    }

    /// When to come again.
    pub fn retry_after(self, seconds: u32) -> Self {
        self.header(RETRY_AFTER, &seconds.to_string())
    }

    /// Sets a header to a value that ax spells out itself, hence a valid one.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.answer.status
    }

    /// The HTTP response.
    pub fn into_response(self) -> Response<Full<Bytes>> {
        let Self { answer, headers } = self;
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = if status.is_success() { "application/json" } else { "application/problem+json" };
        let has_body = !answer.body.is_empty();
        let mut response = Response::new(Full::new(Bytes::from(answer.body)));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        if has_body {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        response
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        let retryable = answer.retryable;
        let reply = Self { answer, headers: HeaderMap::new() };
        match retryable {
            Some(retryable) => {
                let name = HeaderName::from_static(wire::RETRYABLE);
                reply.header(name, &retryable.to_string())
            }
            None => reply,
        }
    }
}

fn problem(code: &str, title: &str) -> Problem {
    Problem { code: Some(code.to_owned()), title: Some(title.to_owned()), ..Problem::default() }
}

/// `text` as a JSON string of at most `max` bytes, quotes and escapes counted, cut between characters.
fn json_string(text: &str, max: usize) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        let before = json.len();
        let _ = match c {
            '"' | '\\' => write!(json, "\\{c}"),
            '\n' => write!(json, "\\n"),
            '\u{0}'..='\u{1f}' => write!(json, "\\u{:04x}", u32::from(c)),
            other => write!(json, "{other}"),
        };
        if json.len() >= max {
            json.truncate(before);
            break;
        }
    }
    json.push('"');
    json
}

/// The end of what the command printed to stderr, without control characters but line feeds.
fn log_tail(stderr: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(stderr)
        .chars()
        .map(|c| if c == '\t' { ' ' } else { c })
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let text = text.trim_end();
    let mut start = text.len().saturating_sub(MAX_LOG);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    fn exited(raw: i32, stdout: &[u8], cut: bool, stderr: &[u8]) -> Answer {
        Answer::of(&Output {
            ending: Ending::Exited(ExitStatus::from_raw(raw)),
            stdout: stdout.to_vec(),
            stdout_cut: cut,
            stderr: stderr.to_vec(),
        })
    }

    #[test]
    fn stdout_becomes_the_result() {
        for (case, stdout, cut, want) in [
            ("nothing", &b" \n"[..], false, ""),
            ("json as it stands", b" {\"a\": 1.0}\n", false, "{\"a\": 1.0}"),
            ("a bare number", b"3\n", false, "3"),
            ("text", b"done \"x\"\tok\n", false, r#""done \"x\"\u0009ok""#),
            ("two values are text", b"1\n2\n", false, r#""1\n2""#),
            ("cut json is text", b"[1]", true, r#""[1]""#),
            ("not utf-8", b"a\xffb", false, "\"a\u{fffd}b\""),
        ] {
            let got = exited(0, stdout, cut, b"ignored");
            assert_eq!((got.status, got.body.as_str()), (200, want), "{case}");
        }
    }

    #[test]
    fn a_long_result_is_cut_between_characters_and_stays_json() {
        let max = wire::MAX_RESPONSE_READ;
        for text in ["é".repeat(max), "\"".repeat(max), "\u{1}".repeat(max)] {
            let got = exited(0, text.as_bytes(), false, b"").body;
            assert!(got.len() <= max && got.len() > max - 8, "{}", got.len());
            let back: String = serde_json::from_str(&got).unwrap();
            assert!(text.starts_with(&back));
        }
    }

    #[test]
    fn deep_json_is_passed_on_without_recursion() {
        let deep = [b"[".repeat(20_000), b"]".repeat(20_000)].concat();
        assert_eq!(exited(0, &deep, false, b"").body.len(), deep.len());
    }

    #[test]
    fn a_failure_says_how_the_command_ended() {
        for (case, raw, status, code, retryable) in [
            ("exit 1", 1 << 8, 500, "Exit1", None),
            ("exit 65", 65 << 8, 422, "Exit65", Some(false)),
            ("exit 127", 127 << 8, 500, "Exit127", None),
            ("SIGKILL", 9, 500, "Signal9", None),
        ] {
            let got = exited(raw, b"out", false, b"why\n");
            let problem: Problem = serde_json::from_str(&got.body).unwrap();
            assert_eq!((got.status, got.retryable), (status, retryable), "{case}");
            assert_eq!(problem.code.as_deref(), Some(code), "{case}");
            assert_eq!(problem.log.as_deref(), Some("why"), "{case}");
        }
    }

    #[test]
    fn the_log_is_the_readable_end_of_stderr() {
        assert_eq!(log_tail(b"a\tb\x1b[31m\r\nc\n\n"), "a b[31m\nc");
        let long = format!("{}end", "é".repeat(MAX_LOG));
        let tail = log_tail(long.as_bytes());
        assert!(tail.len() <= MAX_LOG && tail.ends_with("éend"));
    }
}
