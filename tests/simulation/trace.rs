//! What happened in a run, in its order and with its time; and a number that any difference changes.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive::internals::ambient::Clock;
use redrive::internals::domain::time::Timestamp;

/// Shared by all that tells.
#[derive(Clone, Debug)]
pub struct Trace {
    clock: Clock,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug)]
struct Told {
    start: Timestamp,
    hasher: DefaultHasher,
    lines: Option<Vec<String>>,
    count: u64,
}

impl Trace {
    /// Lines are kept where somebody will read them.
    pub fn new(clock: Clock, keeps_lines: bool) -> Self {
        let told = Told {
            start: clock.now(),
            hasher: DefaultHasher::new(),
            lines: keeps_lines.then(Vec::new),
            count: 0,
        };
        Self {
            clock,
            told: Arc::new(Mutex::new(told)),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn note(&self, what: &str) {
        let mut told = self.told();
        let at = self.now().micros() - told.start.micros();
        let line = format!(
            "{:>10.3} {what}",
            std::time::Duration::from_micros(at.unsigned_abs()).as_secs_f64()
        );
        told.hasher.write(line.as_bytes());
        told.count += 1;
        if let Some(lines) = &mut told.lines {
            lines.push(line);
        }
    }

    pub fn hash(&self) -> u64 {
        self.told().hasher.finish()
    }

    pub fn lines(&self) -> Vec<String> {
        self.told().lines.clone().unwrap_or_default()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
