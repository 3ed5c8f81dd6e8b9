//! Every decision ax takes. Pure: no clock, client, runtime or randomness; `now` and rolls are arguments.

pub mod election;
pub mod execution_id;
pub mod offset;
