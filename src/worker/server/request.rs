//! What a dispatch says in its headers. Pure.
//!
//! Everything is checked before anything is used: a header that is missing, sent twice, or carries a control
//! character or a wrong number is refused by name. A value from outside becomes an environment value of the
//! command, or a log field, and nothing else.

use std::time::Duration;

use http::HeaderMap;

use crate::api::duration;
use crate::worker::wire;

/// How long an attempt may run whose request names no timeout: the longest that a task may ask for.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest execution id that is taken; ax sends UUIDs.
const MAX_ID: usize = 128;

/// A valid dispatch, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Execution id, the dedup key.
    pub id: String,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// The sender's term; without one no term is compared or remembered.
    pub term: Option<u64>,
    /// The pod that is meant.
    pub pod_uid: Option<String>,
    /// What remains of the attempt's time.
    pub timeout: Duration,
    /// The environment that the command gets on top of the worker's own.
    pub env: Vec<(String, String)>,
}

/// A header that makes a request unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Its name, lower case.
    pub header: String,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl Request {
    /// Reads a dispatch's head; the first bad header is named.
    pub fn parse(headers: &HeaderMap) -> Result<Self, Invalid> {
        if let Some(version) = one(headers, wire::CE_SPECVERSION)?
            && version != "1.0"
        {
            return Err(invalid(wire::CE_SPECVERSION, "is not 1.0"));
        }
        let id = one(headers, wire::CE_ID)?.ok_or_else(|| invalid(wire::CE_ID, "is missing"))?;
        if id.is_empty() || id.len() > MAX_ID {
            return Err(invalid(wire::CE_ID, "is empty or longer than 128 bytes"));
        }
        let attempt: u32 = number(headers, wire::CE_ATTEMPT)?.ok_or_else(|| invalid(wire::CE_ATTEMPT, "is missing"))?;
        if attempt == 0 {
            return Err(invalid(wire::CE_ATTEMPT, "counts from 1"));
        }
        let _: Option<u32> = number(headers, wire::CE_MAX_ATTEMPTS)?;
        let timeout = match one(headers, wire::REQUEST_TIMEOUT)? {
            Some(text) => {
                text.parse::<duration::Duration>().map_err(|_| invalid(wire::REQUEST_TIMEOUT, "is no duration"))?.get()
            }
            None => DEFAULT_TIMEOUT,
        };
        Ok(Self {
            id,
            attempt,
            term: number(headers, wire::CE_TERM)?,
            pod_uid: one(headers, wire::POD_UID)?,
            timeout,
            env: environment(headers)?,
        })
    }

    /// A value of the command's environment, for log fields.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Who asks for an inventory: `Ax-Pod-Uid` and `Ax-Term`.
pub fn asker(headers: &HeaderMap) -> Result<(Option<String>, Option<u64>), Invalid> {
    Ok((one(headers, wire::POD_UID)?, number(headers, wire::TERM)?))
}

/// Every CloudEvents attribute as `AX_<NAME>`, ax's own without their `ax` prefix, and `TRACEPARENT`.
fn environment(headers: &HeaderMap) -> Result<Vec<(String, String)>, Invalid> {
    let mut env: Vec<(String, String)> = Vec::new();
    let attributes = headers
        .keys()
        .filter_map(|name| name.as_str().strip_prefix("ce-"))
        .filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()));
    // ax's own go first: an extension of somebody else's that would have the same name does not get it.
    let (own, other): (Vec<&str>, Vec<&str>) = attributes.partition(|name| name.starts_with("ax"));
    for attribute in own.into_iter().chain(other) {
        let short = attribute.strip_prefix("ax").unwrap_or(attribute);
        let name = format!("AX_{}", short.to_ascii_uppercase());
        let header = format!("ce-{attribute}");
        if let Some(value) = one(headers, &header)?
            && !env.iter().any(|(taken, _)| *taken == name)
        {
            env.push((name, value));
        }
    }
    if let Some(topic) = one(headers, wire::CE_SUBJECT)? {
        env.retain(|(name, _)| name != "AX_TOPIC");
        env.push(("AX_TOPIC".to_owned(), topic));
    }
    if let Some(parent) = one(headers, wire::TRACEPARENT)? {
        env.push(("TRACEPARENT".to_owned(), parent));
    }
    Ok(env)
}

/// The value of a header that may stand once, percent-decoded if it is a CloudEvents attribute.
fn one(headers: &HeaderMap, name: &str) -> Result<Option<String>, Invalid> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(invalid(name, "stands twice"));
    }
    let bytes = if name.starts_with("ce-") {
        percent_decoded(value.as_bytes()).ok_or_else(|| invalid(name, "is badly percent-encoded"))?
    } else {
        value.as_bytes().to_vec()
    };
    let text = String::from_utf8(bytes).map_err(|_| invalid(name, "is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(invalid(name, "has a control character"));
    }
    Ok(Some(text))
}

/// A decimal number without sign or space.
fn number<N: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Result<Option<N>, Invalid> {
    let Some(text) = one(headers, name)? else {
        return Ok(None);
    };
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(name, "is no decimal number"));
    }
    text.parse().map(Some).map_err(|_| invalid(name, "is empty or too large"))
}

fn percent_decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(*rest.next()?).to_digit(16)?;
            let low = char::from(*rest.next()?).to_digit(16)?;
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

fn invalid(header: &str, fault: &'static str) -> Invalid {
    Invalid { header: header.to_owned(), fault }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            })
            .collect()
    }

    /// A valid dispatch in which `name` has another value; an empty one takes the header out.
    fn with(name: &str, value: &str) -> HeaderMap {
        let mut map = headers(&[("ce-id", "e1"), ("ce-axattempt", "2"), ("ce-axterm", "7")]);
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.remove(&name);
        if !value.is_empty() {
            map.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    #[test]
    fn a_bad_header_is_refused_by_name() {
        for (header, value, want) in [
            ("ce-id", "", "is missing"),
            ("ce-id", "a%0ab", "has a control character"),
            ("ce-id", "a%2", "is badly percent-encoded"),
            ("ce-id", "a%+1", "is badly percent-encoded"),
            ("ce-axattempt", "", "is missing"),
            ("ce-axattempt", "0", "counts from 1"),
            ("ce-axattempt", "-1", "is no decimal number"),
            ("ce-axattempt", "+1", "is no decimal number"),
            ("ce-axattempt", "4294967296", "is empty or too large"),
            ("ce-axmaxattempts", "many", "is no decimal number"),
            ("ce-axterm", "1e3", "is no decimal number"),
            ("ce-specversion", "0.3", "is not 1.0"),
            ("ce-subject", "%ff", "is not UTF-8"),
            ("ce-anything", "%00", "has a control character"),
            ("traceparent", "a\tb", "has a control character"),
            ("request-timeout", "60", "is no duration"),
        ] {
            let got = Request::parse(&with(header, value)).unwrap_err();
            assert_eq!(got, invalid(header, want), "{header}: {value:?}");
        }
    }

    #[test]
    fn a_header_sent_twice_is_refused() {
        let mut map = with("ce-subject", "a");
        map.append("ce-id", HeaderValue::from_static("e2"));
        assert_eq!(Request::parse(&map).unwrap_err(), invalid("ce-id", "stands twice"));
    }

    #[test]
    fn absent_optional_headers_have_their_defaults() {
        let got = Request::parse(&headers(&[("ce-id", "e1"), ("ce-axattempt", "1")])).unwrap();
        assert_eq!(got.term, None);
        assert_eq!(got.pod_uid, None);
        assert_eq!(got.timeout, Duration::from_secs(86_400));
    }

    #[test]
    fn attributes_become_environment_values() {
        let got = Request::parse(&headers(&[
            ("ce-id", "e1"),
            ("ce-axattempt", "2"),
            ("ce-axmaxattempts", "4"),
            ("ce-subject", "order.close%2Fv2 %22x%22"),
            ("ce-attempt", "99"),
            ("ce-topic", "other"),
            ("ce-not_a-name", "x"),
            ("ce-axtraceid", "t%C3%A9"),
            ("traceparent", "00-aa-bb-01"),
            ("authorization", "Bearer secret"),
        ]))
        .unwrap();
        let mut env = got.env.clone();
        env.sort();
        let want = [
            ("AX_ATTEMPT", "2"),
            ("AX_ID", "e1"),
            ("AX_MAXATTEMPTS", "4"),
            ("AX_SUBJECT", "order.close/v2 \"x\""),
            ("AX_TOPIC", "order.close/v2 \"x\""),
            ("AX_TRACEID", "té"),
            ("TRACEPARENT", "00-aa-bb-01"),
        ];
        let want: Vec<_> = want.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(env, want);
    }
}
