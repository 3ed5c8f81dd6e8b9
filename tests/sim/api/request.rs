//! What a request to the API server asks for.

use std::collections::BTreeMap;

use super::answer::{Form, Refusal};
use super::store::{Object, RESOURCES};

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Target {
    pub resource: usize,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub status: bool,
}

impl Target {
    pub fn of(path: &str) -> Result<Self, Refusal> {
        let unknown = || Refusal { code: 404, reason: "NotFound", message: format!("no such path: {path}") };
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version) = match parts.first() {
            Some(&"api") if parts.len() > 1 => ("", parts.drain(..2).nth(1).unwrap_or_default()),
            Some(&"apis") if parts.len() > 2 => {
                let head: Vec<&str> = parts.drain(..3).collect();
                (head[1], head[2])
            }
            _ => return Err(unknown()),
        };
        let namespace = match parts.first() {
            Some(&"namespaces") if parts.len() > 2 => parts.drain(..2).nth(1).map(str::to_owned),
            _ => None,
        };
        let mut parts = parts.into_iter();
        let plural = parts.next().ok_or_else(unknown)?;
        let resource = RESOURCES
            .iter()
            .position(|r| r.group == group && r.version == version && r.plural == plural)
            .ok_or_else(unknown)?;
        let name = parts.next().map(str::to_owned);
        let status = match parts.next() {
            None => false,
            Some("status") if RESOURCES[resource].status => true,
            Some(_) => return Err(unknown()),
        };
        Ok(Self { resource, namespace, name, status })
    }
}

/// The part of a request behind `?`.
#[derive(Debug)]
pub struct Query {
    values: BTreeMap<String, String>,
    pub form: Form,
}

/// What is understood; anything else is refused, so that no test rests on what is passed over.
const KNOWN: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldManager",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "watch",
    "fieldValidation",
];

impl Query {
    pub fn of(query: &str, accept: &str) -> Result<Self, Refusal> {
        let mut values = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !KNOWN.contains(&name) {
                return Err(Refusal::not_done_here(pair));
            }
            values.insert(name.to_owned(), decoded(value));
        }
        Ok(Self { values, form: Form::of(accept) })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub fn is_set(&self, name: &str) -> bool {
        matches!(self.text(name), Some("true" | "1"))
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Refusal::bad_request(format!("{name}: Invalid value: {text:?}")))
    }

    pub fn selector(&self) -> Result<Selector, Refusal> {
        let mut pairs = Vec::new();
        for (from, root) in [("fieldSelector", ""), ("labelSelector", "/metadata/labels/")] {
            for part in self.text(from).into_iter().flat_map(|text| text.split(',')) {
                let (field, value) = part.split_once('=').ok_or_else(|| Refusal::not_done_here(part))?;
                if field.ends_with('!') || field.contains(' ') {
                    return Err(Refusal::not_done_here(part));
                }
                let pointer = match root {
                    "" => format!("/{}", field.trim_start_matches('.').replace('.', "/")),
                    _ => format!("{root}{}", field.replace('~', "~0").replace('/', "~1")),
                };
                pairs.push((pointer, value.trim_start_matches('=').to_owned()));
            }
        }
        Ok(Selector(pairs))
    }
}

/// Fields and labels that must be equal.
#[derive(Debug, Clone, Default)]
pub struct Selector(Vec<(String, String)>);

impl Selector {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn takes(&self, object: &Object) -> bool {
        let is = |pointer: &str| object.value.pointer(pointer).and_then(|v| v.as_str()).unwrap_or_default();
        self.0.iter().all(|(pointer, value)| is(pointer) == value)
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.push(u8::from_str_radix(&hex, 16).unwrap_or(b'?'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
