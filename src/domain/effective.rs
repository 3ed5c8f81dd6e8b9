//! What holds for a task now: its own fields, else its template's, else the defaults. Pure.

use std::time::Duration;

use crate::api::{AxTaskSpec, AxTaskTemplateSpec, Payload, Retry, TaskDefaults, Worker};

/// Priority where nobody says.
pub const DEFAULT_PRIORITY: u8 = 5;
/// Timeout of an attempt where nobody says.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Retries where nobody says.
pub const DEFAULT_MAX_RETRIES: u32 = 3;
/// Waits before retries where nobody says.
pub const DEFAULT_DELAYS: [Duration; 3] = [Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(600)];
/// Jitter where nobody says.
pub const DEFAULT_JITTER_PERCENT: u32 = 10;
/// Ended runs that are kept where nobody says: Succeeded, Canceled, Dead and Unknown.
pub const DEFAULT_HISTORY: (usize, usize, usize) = (3, 3, 100);
/// Port where nobody says.
pub const DEFAULT_PORT: u16 = 8080;

/// What holds for the next attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// Where it is sent.
    pub target: Target,
    /// Chooses the handler.
    pub topic: Option<String>,
    /// What is sent.
    pub payload: Option<Payload>,
    /// 0 to 9.
    pub priority: u8,
    /// Of one attempt.
    pub timeout: Duration,
    /// When a failure is repeated.
    pub retry: RetryRules,
    /// At most one task with this key runs in the namespace.
    pub key: Option<String>,
    /// At most so many tasks of the template run.
    pub max_concurrent: Option<u32>,
}

/// Where a task is sent: a Deployment of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Name of the Deployment.
    pub deployment: String,
    /// Port, declared by one of its containers.
    pub port: u16,
    /// Path of the request.
    pub path: String,
}

/// When a failure is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryRules {
    /// Attempts after the first.
    pub max_retries: u32,
    /// Waits before them; not empty.
    pub delays: Vec<Duration>,
    /// Spread of a wait either way.
    pub jitter_percent: u32,
    /// Codes that are never repeated.
    pub non_retryable: Vec<String>,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            max_retries: DEFAULT_MAX_RETRIES,
            delays: DEFAULT_DELAYS.to_vec(),
            jitter_percent: DEFAULT_JITTER_PERCENT,
            non_retryable: Vec::new(),
        }
    }
}

/// What made the task due; travels to the worker by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A run that a schedule made.
    Schedule,
    /// A run that `ax.dev/trigger` made.
    Manual,
    /// `spec.delay`.
    Delay,
    /// `spec.runAt`.
    RunAt,
    /// Neither.
    Immediate,
}

impl Trigger {
    /// Of a task that is no run.
    pub fn of(spec: &AxTaskSpec) -> Self {
        match (&spec.delay, &spec.run_at) {
            (Some(_), _) => Self::Delay,
            (None, Some(_)) => Self::RunAt,
            (None, None) => Self::Immediate,
        }
    }

    /// The name, as workers see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Manual => "Manual",
            Self::Delay => "Delay",
            Self::RunAt => "RunAt",
            Self::Immediate => "Immediate",
        }
    }
}

/// Why nothing holds: what the task needs is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The template it refers to does not exist.
    Template(String),
    /// Neither templateRef nor worker: admission refuses that, an older schema may not have.
    Worker,
}

/// Merges a task with its template, field by field.
///
/// # Errors
/// [`Missing`], if there is no worker to be found.
pub fn effective(task: &AxTaskSpec, template: Option<&AxTaskTemplateSpec>) -> Result<Effective, Missing> {
    let worker = match (&task.template_ref, &task.worker, template) {
        (Some(_), _, Some(template)) => &template.worker,
        (Some(reference), _, None) => return Err(Missing::Template(reference.name.clone())),
        (None, Some(worker), _) => worker,
        (None, None, _) => return Err(Missing::Worker),
    };
    let none = TaskDefaults::default();
    let defaults = defaults(template).unwrap_or(&none);
    let own = task.work.as_ref();
    let inherited = defaults.work.as_ref();
    Ok(Effective {
        target: target(worker),
        topic: own.and_then(|w| w.topic.clone()).or_else(|| inherited.and_then(|w| w.topic.clone())),
        payload: own.and_then(|w| w.payload.clone()).or_else(|| inherited.and_then(|w| w.payload.clone())),
        priority: task
            .priority
            .or(defaults.priority)
            .and_then(|p| u8::try_from(p).ok())
            .map_or(DEFAULT_PRIORITY, |p| p.min(9)),
        timeout: task.timeout.as_ref().or(defaults.timeout.as_ref()).map_or(DEFAULT_TIMEOUT, |d| d.get()),
        retry: retry(task.retry.as_ref(), defaults.retry.as_ref()),
        key: task.concurrency_key.as_ref().or(defaults.concurrency_key.as_ref()).cloned(),
        max_concurrent: template.and_then(|t| t.max_concurrent).and_then(|n| u32::try_from(n).ok()),
    })
}

/// How long after its ready time the first attempt may start.
pub fn start_deadline(task: &AxTaskSpec, template: Option<&AxTaskTemplateSpec>) -> Option<Duration> {
    let inherited = defaults(template).and_then(|d| d.start_deadline.as_ref());
    task.start_deadline.as_ref().or(inherited).map(|d| d.get())
}

/// The tasks that must have succeeded first.
pub fn depends_on<'a>(task: &'a AxTaskSpec, template: Option<&'a AxTaskTemplateSpec>) -> &'a [String] {
    let inherited = defaults(template).and_then(|d| d.depends_on.as_ref());
    task.depends_on.as_ref().or(inherited).map_or(&[], Vec::as_slice)
}

fn defaults(template: Option<&AxTaskTemplateSpec>) -> Option<&TaskDefaults> {
    template.and_then(|t| t.task_template.as_ref()).and_then(|t| t.spec.as_ref())
}

fn target(worker: &Worker) -> Target {
    Target {
        deployment: worker.deployment.clone(),
        port: worker.port.and_then(|p| u16::try_from(p).ok()).unwrap_or(DEFAULT_PORT),
        path: worker.path.clone().unwrap_or_else(|| "/".to_owned()),
    }
}

fn retry(own: Option<&Retry>, inherited: Option<&Retry>) -> RetryRules {
    fn pick<'a, T>(
        own: Option<&'a Retry>,
        inherited: Option<&'a Retry>,
        field: fn(&'a Retry) -> Option<T>,
    ) -> Option<T> {
        own.and_then(field).or_else(|| inherited.and_then(field))
    }
    let whole = |n: i32| u32::try_from(n).ok();
    let default = RetryRules::default();
    RetryRules {
        max_retries: pick(own, inherited, |r| r.max_retries).and_then(whole).unwrap_or(default.max_retries),
        delays: pick(own, inherited, |r| r.delays.as_ref())
            .filter(|delays| !delays.is_empty())
            .map_or(default.delays, |delays| delays.iter().map(|d| d.get()).collect()),
        jitter_percent: pick(own, inherited, |r| r.jitter_percent).and_then(whole).unwrap_or(default.jitter_percent),
        non_retryable: pick(own, inherited, |r| r.non_retryable.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> AxTaskSpec {
        serde_json::from_str(json).expect("a spec")
    }

    #[test]
    fn c034_each_retry_field_defaults_by_itself() {
        let task = spec(r#"{"templateRef":{"name":"t"},"retry":{"delays":["1s"]}}"#);
        let template: AxTaskTemplateSpec = serde_json::from_str(
            r#"{"worker":{"deployment":"w","port":9000},"taskTemplate":{"spec":{"work":{"topic":"a.b"},"priority":7,
                "retry":{"delays":["5m"],"jitterPercent":0}}}}"#,
        )
        .expect("a template");
        let got = effective(&task, Some(&template)).expect("effective");
        assert_eq!(got.retry.max_retries, 3);
        assert_eq!(got.retry.delays, [Duration::from_secs(1)]);
        assert_eq!(got.retry.jitter_percent, 0);
        assert_eq!((got.priority, got.topic.as_deref(), got.target.port), (7, Some("a.b"), 9000));
        assert_eq!(got.timeout, DEFAULT_TIMEOUT);
    }

    #[test]
    fn a_missing_template_is_named() {
        let task = spec(r#"{"templateRef":{"name":"nope"}}"#);
        assert_eq!(effective(&task, None), Err(Missing::Template("nope".to_owned())));
    }

    #[test]
    fn priority_zero_is_not_absent() {
        let task = spec(r#"{"worker":{"deployment":"w"},"priority":0}"#);
        assert_eq!(effective(&task, None).map(|e| e.priority), Ok(0));
    }
}
