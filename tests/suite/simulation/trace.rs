//! What happened in a simulated run, in its order and with its time.

use std::sync::{Arc, Mutex};

use redrive::internals::ambient::Clock;
use redrive::internals::domain::time::Timestamp;

/// Shared by all that tells.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    clock: Clock,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            lines: Arc::default(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// `what` happened with the message that has this body.
    pub(super) fn note(&self, what: &str, body: &[u8]) {
        let line = format!("{} {what} {}", self.now().micros(), String::from_utf8_lossy(body));
        self.lines.lock().unwrap().push(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}
