//! The resources of group `ax.dev`, version `v1alpha1`. Pure.
//!
//! What a user writes (`task`, `template`), what ax answers (`status`, `template_status`, `condition`), the values
//! both are made of (`duration`, `instant`, `payload`), and how the CRD files are made from them (`crd`).

pub mod annotation;
pub mod condition;
pub mod crd;
pub mod duration;
pub mod instant;
pub mod payload;
pub mod status;
pub mod task;
pub mod template;
pub mod template_status;

pub use condition::{Condition, ConditionStatus};
pub use duration::Duration;
pub use instant::Instant;
pub use payload::Payload;
pub use status::{Attempt, AxTaskStatus, Outcome, Phase, TaskError};
pub use task::{AxTask, AxTaskSpec, Retry, TemplateRef, Work, Worker};
pub use template::{AxTaskTemplate, AxTaskTemplateSpec, ConcurrencyPolicy, ScheduleSpec, TaskDefaults, TaskTemplate};
pub use template_status::AxTaskTemplateStatus;

/// API group of all resources.
pub const GROUP: &str = "ax.dev";
/// API version of all resources.
pub const VERSION: &str = "v1alpha1";
