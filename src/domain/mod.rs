//! Every decision ax takes. Pure: no clock, client, runtime or randomness; `now` and rolls are arguments.

pub mod answer;
pub mod credit;
pub mod dispatch;
pub mod effective;
pub mod election;
pub mod execution_id;
pub mod gate;
pub mod lifecycle;
pub mod offset;
pub mod pool;
pub mod ready;
pub mod report;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod text;
pub mod ticks;
pub mod wall_clock;
pub mod wheel;
