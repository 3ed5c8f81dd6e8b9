//! The line between a machine and everything else: it can be cut, and it can fall silent.

use std::io;

use tokio::sync::watch;

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
pub struct Line(watch::Receiver<State>);

/// Who may change it.
#[derive(Debug)]
pub struct Switch(watch::Sender<State>);

impl Switch {
    pub fn up() -> Self {
        Self(watch::Sender::new(State::Up))
    }

    pub fn line(&self) -> Line {
        Line(self.0.subscribe())
    }

    pub fn set(&self, state: State) {
        self.0.send_replace(state);
    }
}

impl Line {
    /// Waits until the line is cut; a silent one is found cut when it comes back.
    pub async fn cut(&mut self) -> io::Error {
        let mut was_silent = false;
        loop {
            match *self.0.borrow_and_update() {
                State::Cut => break,
                State::Up if was_silent => break,
                State::Up => {}
                State::Silent => was_silent = true,
            }
            if self.0.changed().await.is_err() {
                break; // the machine is gone
            }
        }
        io::Error::new(io::ErrorKind::ConnectionReset, "the line was cut")
    }

    pub fn state(&self) -> State {
        *self.0.borrow()
    }
}
