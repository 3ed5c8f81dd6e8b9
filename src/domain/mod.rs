//! Every decision ax takes. Pure: no clock, client, runtime or randomness; `now` and rolls are arguments.

pub mod execution_id;
