//! What a run does at a moment, in one word for lists, bars, toasts and programs: its state, and what it says that it
//! waits for.
//!
//! The sentences of a run that watches itself are written here and read here, so that nothing shown beside them can
//! say something else.

use std::fmt;
use std::time::Duration;

use super::RunState;

const GOES_ON: &str = "; it goes on in ";
const NOT_SEEN: &str = "; not seen yet what became of them: ";

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: it was planned.
    Planned,
    /// It sends.
    Running,
    /// It looks whether what it sent comes to grief, for so long.
    Watching(Duration),
    /// It could not see what became of what it sent, and waits until it can.
    NotSeenYet,
    /// It waits for the answer of a person.
    Asks,
    /// A person stopped it for a while.
    Paused,
    /// It is over, and how.
    Over(RunState),
}

impl Phase {
    /// Of a run in this state that says this, and said it so long ago.
    #[must_use]
    pub fn of(state: RunState, note: Option<&str>, ago: Duration) -> Self {
        match state {
            RunState::Planned => Self::Planned,
            RunState::Canary => Self::Asks,
            RunState::Paused => Self::Paused,
            RunState::Done | RunState::Failed | RunState::Cancelled => Self::Over(state),
            RunState::Running => match note {
                Some(note) if note.contains(NOT_SEEN) => Self::NotSeenYet,
                Some(note) => watch_left(note).map_or(Self::Running, |left| Self::Watching(left.saturating_sub(ago))),
                None => Self::Running,
            },
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Planned => f.write_str(RunState::Planned.as_str()),
            Self::Running => f.write_str(RunState::Running.as_str()),
            Self::Watching(left) => write!(f, "watching {} s", left.as_secs()),
            Self::NotSeenYet => f.write_str("not seen yet"),
            Self::Asks => f.write_str("asks"),
            Self::Paused => f.write_str(RunState::Paused.as_str()),
            Self::Over(state) => f.write_str(state.as_str()),
        }
    }
}

/// What a run says while it watches what it sent.
#[must_use]
pub fn watching(done: u64, left: Duration) -> String {
    format!(
        "{done} are done{GOES_ON}{} s when none dies again and no endpoint of theirs fails",
        left.as_secs()
    )
}

/// What a run says that cannot see what became of what it sent.
#[must_use]
pub fn not_seen(done: u64, why: &str) -> String {
    format!("{done} are done{NOT_SEEN}{why}. `run cancel` leaves the rest where it is")
}

fn watch_left(note: &str) -> Option<Duration> {
    let (_, rest) = note.split_once(GOES_ON)?;
    let (seconds, _) = rest.split_once(" s ")?;
    seconds.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_says_is_what_it_is_shown_to_do() {
        let says = |state, note: Option<&str>, ago| Phase::of(state, note, Duration::from_secs(ago)).to_string();
        let note = watching(20, Duration::from_secs(6));
        assert_eq!(says(RunState::Running, Some(&note), 2), "watching 4 s");
        assert_eq!(says(RunState::Running, Some(&note), 9), "watching 0 s");
        let note = not_seen(20, "queue \"dead\": it is looked at by somebody");
        assert_eq!(says(RunState::Running, Some(&note), 0), "not seen yet");
        assert_eq!(says(RunState::Running, Some("broker is blocked"), 0), "running");
        assert_eq!(says(RunState::Running, None, 0), "running");
        assert_eq!(says(RunState::Canary, Some("20 are done"), 0), "asks");
        assert_eq!(says(RunState::Paused, None, 0), "paused");
        assert_eq!(says(RunState::Done, None, 0), "done");
    }
}
