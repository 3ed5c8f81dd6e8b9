//! The hand that sends.
