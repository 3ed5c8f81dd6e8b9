//! The line between a machine and everything else: it can be cut, and it can fall silent.
//!
//! Who waits is woken in order: tokio's `watch` would wake by chance.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Up,
    /// Nothing comes through, and nobody is told.
    Silent,
    /// What is open breaks, what is asked is refused.
    Cut,
}

/// One end; clones see the same line.
#[derive(Debug, Clone)]
pub struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

impl Line {
    pub fn up() -> Self {
        Self(Arc::new(Shared { state: Mutex::new(State::Up), changed: Notify::new() }))
    }

    pub fn set(&self, state: State) {
        *self.0.state.lock().expect("a line") = state;
        self.0.changed.notify_waiters();
    }

    pub fn state(&self) -> State {
        *self.0.state.lock().expect("a line")
    }

    /// Waits until the line is cut; a silent one is found cut when it comes back.
    pub async fn cut(&self) -> io::Error {
        let mut was_silent = false;
        loop {
            let changed = self.0.changed.notified();
            match self.state() {
                State::Cut => break,
                State::Up if was_silent => break,
                State::Up => {}
                State::Silent => was_silent = true,
            }
            changed.await;
        }
        io::Error::new(io::ErrorKind::ConnectionReset, "the line was cut")
    }
}
