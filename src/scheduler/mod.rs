//! The leader loop: task records, timers, ready queues, credits.
