//! The door to the API server: watches, status patches, runs, Events, the Lease. IO.

pub mod client;
pub mod events;
pub mod guarded;
pub mod lease;
pub mod room;
pub mod runs;
pub mod server_clock;
pub mod status;
pub mod takeover;
pub mod watch;
pub mod workloads;

/// An error and its sources, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}
