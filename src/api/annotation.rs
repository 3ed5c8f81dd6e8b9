//! Labels and annotations that ax reads. It writes none on what others made. Pure.

/// On a Deployment: `"true"` lets ax send tasks to its pods. Without it nothing is ever sent.
pub const WORKER: &str = "ax.dev/worker";
/// On a Deployment: places in each pod, `"1"` to `"1000"`; default 30.
pub const CREDITS_PER_POD: &str = "ax.dev/credits-per-pod";
/// On a task: W3C `traceparent` of whoever made it.
pub const TRACEPARENT: &str = "ax.dev/traceparent";
/// On a task: business trace id, in every hop and log line.
pub const TRACE_ID: &str = "ax.dev/trace-id";
/// On a template: any new value makes a run now, also while suspended.
pub const TRIGGER: &str = "ax.dev/trigger";
/// On the Lease: the leader's term.
pub const TERM: &str = "ax.dev/term";

/// Label of a run: its template's name, cut to what a label may hold.
pub const TEMPLATE_LABEL: &str = "ax.dev/template";
/// Annotation of a run that its schedule made: the nominal time.
pub const SCHEDULED_FOR: &str = "ax.dev/scheduled-for";
/// Annotation of a run that `ax.dev/trigger` made: the value.
pub const TRIGGERED_BY: &str = "ax.dev/triggered-by";
