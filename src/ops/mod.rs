//! The shelf beside the floors: clock, dice, logs, health server.

pub mod clock;
pub mod dice;
pub mod health;
pub mod logging;
