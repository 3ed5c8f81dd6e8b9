//! Logs as one flat JSON object a line on stdout.
//!
//! IO: writes stdout. Every line has `ts`, `level`, `msg` and `target`, then `replica` if one was given, then the
//! fields of the event and of the spans around it, side by side. Where two carry the same name the inner one
//! wins, and a field never replaces a fixed one. Field names stand in `docs/`; nothing here filters values, so
//! payloads, bodies and tokens must not be made fields at all.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::ops::clock::Clock;

/// What is logged, and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// A level (`info`), or a filter by target (`info,ax=debug`).
    pub level: String,
    /// Shape of a line.
    pub format: Format,
    /// Name of this process among its likes, usually the pod's; put into every JSON line.
    pub replica: Option<String>,
}

/// Shape of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line, for machines.
    #[default]
    Json,
    /// For a person at a terminal.
    Text,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            other => Err(format!("`{other}` is neither `json` nor `text`")),
        }
    }
}

/// Why no logs could be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is no filter.
    #[error("`{level}` is no log level")]
    Level { level: String, source: tracing_subscriber::filter::ParseError },
    /// A process has one subscriber.
    #[error("logs are set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sends the process's logs to stdout. To be called once, before the first line.
pub fn init(config: Config) -> Result<(), Error> {
    let filter =
        EnvFilter::try_new(&config.level).map_err(|source| Error::Level { level: config.level.clone(), source })?;
    let registry = tracing_subscriber::registry().with(filter);
    match config.format {
        Format::Json => registry.with(JsonLines::new(config.replica, std::io::stdout)).try_init(),
        Format::Text => registry.with(tracing_subscriber::fmt::layer().with_ansi(false)).try_init(),
    }
    .map_err(Error::Twice)
}

/// The layer that writes the JSON lines.
struct JsonLines<W> {
    clock: Clock,
    replica: Option<String>,
    writer: W,
}

impl<W> JsonLines<W> {
    fn new(replica: Option<String>, writer: W) -> Self {
        Self { clock: Clock::start(), replica, writer }
    }
}

/// Fields of one span or event, kept in the span's extensions until a line needs them.
#[derive(Debug, Default, Clone)]
struct Fields(BTreeMap<&'static str, Value>);

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            // From the innermost outwards: the first to name a field keeps it.
            if let Some(outer) = span.extensions().get::<Fields>() {
                for (name, value) in &outer.0 {
                    fields.0.entry(name).or_insert_with(|| value.clone());
                }
            }
        }
        event.record(&mut fields);

        let meta = event.metadata();
        let msg = fields.0.remove("message").unwrap_or_default();
        let ts = format!("{:.6}", self.clock.now().wall);
        let mut line = String::with_capacity(256);
        line.push('{');
        push_field(&mut line, "ts", &Value::from(ts));
        push_field(&mut line, "level", &Value::from(level_name(meta.level())));
        push_field(&mut line, "msg", &msg);
        push_field(&mut line, "target", &Value::from(meta.target()));
        if let Some(replica) = &self.replica {
            push_field(&mut line, "replica", &Value::from(replica.as_str()));
        }
        for (name, value) in &fields.0 {
            if !matches!(*name, "ts" | "level" | "msg" | "target" | "replica") {
                push_field(&mut line, name, value);
            }
        }
        line.push_str("}\n");
        // Nobody is left to be told when stdout is gone.
        let _ = self.writer.make_writer().write_all(line.as_bytes());
    }
}

fn level_name(level: &tracing::Level) -> &'static str {
    match *level {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warn",
        tracing::Level::INFO => "info",
        tracing::Level::DEBUG => "debug",
        tracing::Level::TRACE => "trace",
    }
}

/// Appends `"name":value`; `Value` prints itself as JSON on one line, with control characters escaped.
fn push_field(line: &mut String, name: &str, value: &Value) {
    let comma = if line.ends_with('{') { "" } else { "," };
    let _ = write!(line, "{comma}{}:{value}", Value::from(name));
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), Value::from(value));
    }

    /// The whole chain: an error's message does not repeat its source.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut chain = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            let _ = write!(chain, ": {cause}");
            source = cause.source();
        }
        self.0.insert(field.name(), Value::from(chain));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), Value::from(format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(act: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        let layer = JsonLines::new(Some("ax-0".to_owned()), move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        let bytes = written.0.lock().unwrap();
        String::from_utf8_lossy(&bytes).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_the_fixed_fields_and_a_parsable_time() {
        let lines = logged(|| tracing::warn!(attempt = 3, "refused"));
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        let ts = line["ts"].as_str().unwrap();
        assert!(ts.parse::<jiff::Timestamp>().is_ok(), "{ts}");
        assert_eq!(ts.len(), "2025-01-01T00:00:00.000000Z".len(), "microseconds");
        assert_eq!(line["level"], "warn");
        assert_eq!(line["msg"], "refused");
        assert_eq!(line["replica"], "ax-0");
        assert_eq!(line["attempt"], 3);
    }

    #[test]
    fn span_fields_are_flat_and_the_inner_one_wins() {
        let lines = logged(|| {
            let outer = tracing::info_span!("outer", task = "a", term = 7, reason = tracing::field::Empty);
            let _outer = outer.enter();
            let _inner = tracing::info_span!("inner", task = "b").entered();
            outer.record("reason", "Backoff");
            tracing::info!(ts = "never", term = 8, "moved");
        });
        let line = &lines[0];
        assert_eq!(line["task"], "b");
        assert_eq!(line["term"], 8);
        assert_eq!(line["reason"], "Backoff");
        assert_ne!(line["ts"], "never", "a field replaces no fixed one");
    }

    #[test]
    fn control_characters_cannot_forge_a_line() {
        let lines = logged(|| tracing::info!(topic = "a\n{\"level\":\"error\"}", "sent"));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["topic"], "a\n{\"level\":\"error\"}");
    }

    #[test]
    fn an_error_prints_its_chain_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("failed to write")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk full"));
        let lines = logged(|| {
            tracing::error!(error = &error as &(dyn std::error::Error + 'static), "journal");
        });
        assert_eq!(lines[0]["error"], "failed to write: disk full");
    }
}
