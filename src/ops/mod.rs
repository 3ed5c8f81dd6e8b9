//! The shelf beside the floors: clock, logs, health server.

pub mod clock;
pub mod health;
pub mod logging;
