//! A run: a long operation over many messages, and what each of its states allows.
//!
//! A run is *planned* (its items frozen), then *running* under a lease; a person pauses, resumes or cancels it
//! at any time, which takes effect between two windows. After its canary it asks before it goes on.

mod pace;
pub mod phase;
mod speed;
mod target;

use super::named::named;

pub use pace::{Pace, eta};
pub use phase::Phase;
pub use speed::Speed;
pub use target::{Target, routes};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum RunState {
    /// Its items are frozen, nothing is done yet.
    Planned,
    /// It is worked on, or waits for somebody who works on it.
    Running,
    /// Its first items are done: a person looks before it goes on.
    Canary,
    /// A person paused it.
    Paused,
    /// Every item has its outcome.
    Done,
    /// It stopped with a reason before its end; what is left can be resumed.
    Failed,
    /// A person ended it before its end.
    Cancelled,
}

/// What a person wants of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum RunWish {
    /// Stop after the window in flight.
    Pause,
    /// Go on.
    Resume,
    /// End it; what is done stays done.
    Cancel,
}

named! {
    /// The word of docs/contract.md.
    RunState {
        Self::Planned => "planned",
        Self::Running => "running",
        Self::Canary => "canary",
        Self::Paused => "paused",
        Self::Done => "done",
        Self::Failed => "failed",
        Self::Cancelled => "cancelled",
    }
}

impl RunState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Planned,
        Self::Running,
        Self::Canary,
        Self::Paused,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The state of that word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether nothing more happens by itself.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// What becomes of it when a person wants `wish`; `None` where that makes no sense.
    #[must_use]
    pub const fn after(self, wish: RunWish) -> Option<Self> {
        match (self, wish) {
            (Self::Running, RunWish::Pause) => Some(Self::Paused),
            (Self::Paused | Self::Canary | Self::Failed, RunWish::Resume) => Some(Self::Running),
            (Self::Planned | Self::Running | Self::Canary | Self::Paused | Self::Failed, RunWish::Cancel) => {
                Some(Self::Cancelled)
            }
            (_, RunWish::Pause | RunWish::Resume | RunWish::Cancel) => None,
        }
    }
}

impl RunWish {
    /// As typed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
        }
    }

    /// The states in which it makes sense.
    #[must_use]
    pub fn possible_from(self) -> Vec<RunState> {
        RunState::ALL
            .into_iter()
            .filter(|state| state.after(self).is_some())
            .collect()
    }
}

/// Where one item of a run stands: each step is recorded before the next one is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum ItemState {
    /// Nothing was done.
    Planned,
    /// Its publish may have happened.
    Journalled,
    /// The broker confirmed it at its target; its source is not settled yet.
    Published,
    /// Settled at its source: done.
    Settled,
    /// It could not be done; it is where it was.
    Failed,
    /// There was nothing to do: somebody else took it meanwhile.
    Skipped,
    /// The broker returned it: nothing takes it at its target. It is where it was.
    Returned,
}

impl ItemState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Planned,
        Self::Journalled,
        Self::Published,
        Self::Settled,
        Self::Failed,
        Self::Skipped,
        Self::Returned,
    ];

    /// As stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Journalled => "journalled",
            Self::Published => "published",
            Self::Settled => "settled",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Returned => "returned",
        }
    }

    /// The state of that word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether it has its outcome.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Settled | Self::Failed | Self::Skipped | Self::Returned)
    }
}

/// How many items have which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RunCounts {
    /// Settled.
    pub done: u64,
    /// Failed or returned.
    pub failed: u64,
    /// Skipped.
    pub skipped: u64,
}

impl RunCounts {
    /// With one more item of this outcome; a state that is no outcome changes nothing.
    pub const fn count(&mut self, state: ItemState) {
        match state {
            ItemState::Settled => self.done += 1,
            ItemState::Failed | ItemState::Returned => self.failed += 1,
            ItemState::Skipped => self.skipped += 1,
            ItemState::Planned | ItemState::Journalled | ItemState::Published => {}
        }
    }

    /// Items that have an outcome.
    #[must_use]
    pub const fn settled(&self) -> u64 {
        self.done + self.failed + self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for state in RunState::ALL {
            assert_eq!(RunState::parse(state.as_str()), Some(state));
        }
        for state in ItemState::ALL {
            assert_eq!(ItemState::parse(state.as_str()), Some(state));
        }
        assert_eq!(RunState::parse("flying"), None);
    }

    #[test]
    fn each_state_allows_what_makes_sense() {
        use RunState::{Canary, Cancelled, Done, Failed, Paused, Planned, Running};
        assert_eq!(RunWish::Pause.possible_from(), [Running]);
        assert_eq!(RunWish::Resume.possible_from(), [Canary, Paused, Failed]);
        assert_eq!(
            RunWish::Cancel.possible_from(),
            [Planned, Running, Canary, Paused, Failed]
        );
        for over in [Done, Cancelled] {
            assert!(over.is_over() && over.after(RunWish::Resume).is_none() && over.after(RunWish::Cancel).is_none());
        }
        assert_eq!(Planned.after(RunWish::Resume), None, "a plan is executed, not resumed");
    }

    #[test]
    fn counts_take_outcomes_only() {
        let mut counts = RunCounts::default();
        for state in ItemState::ALL {
            counts.count(state);
        }
        assert_eq!((counts.done, counts.failed, counts.skipped), (1, 2, 1));
        assert_eq!(counts.settled(), 4);
    }
}
