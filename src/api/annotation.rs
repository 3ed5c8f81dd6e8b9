//! Annotations that ax reads. It writes none. Pure.

/// On a Deployment: `"true"` lets ax send tasks to its pods. Without it nothing is ever sent.
pub const WORKER: &str = "ax.dev/worker";
/// On a Deployment: places in each pod, `"1"` to `"1000"`; default 30.
pub const CREDITS_PER_POD: &str = "ax.dev/credits-per-pod";
/// On a task: W3C `traceparent` of whoever made it.
pub const TRACEPARENT: &str = "ax.dev/traceparent";
/// On a task: business trace id, in every hop and log line.
pub const TRACE_ID: &str = "ax.dev/trace-id";
/// On the Lease: the leader's term.
pub const TERM: &str = "ax.dev/term";
