//! The filter line while it is typed: an old filter is selected, so that typing replaces it and moving keeps it.

use std::time::Duration;

use tui_input::Input;

use crate::domain::time::Timestamp;

/// Nothing typed for so long: what cannot be read is said. Before, somebody is in the middle of a word.
pub const PAUSE: Duration = Duration::from_millis(800);

/// The open line.
#[derive(Clone, Debug)]
pub struct FilterLine {
    /// What is typed.
    pub input: Input,
    /// What stands there is selected: what is typed next takes its place.
    pub selected: bool,
    /// When it was changed last.
    pub typed_at: Timestamp,
    /// Enter was pressed on what cannot be read.
    pub refused: bool,
    /// How far back in the filters of before; `None`: a new one is typed.
    pub recalled: Option<usize>,
}

impl FilterLine {
    /// With the filter that holds, selected.
    #[must_use]
    pub fn with(text: &str, now: Timestamp) -> Self {
        Self {
            input: Input::new(text.to_owned()),
            selected: !text.is_empty(),
            typed_at: now,
            refused: false,
            recalled: None,
        }
    }

    /// Whether what cannot be read is said: after a pause, or when it was to be kept.
    #[must_use]
    pub fn says_errors(&self, now: Timestamp) -> bool {
        self.refused || now >= self.says_errors_from()
    }

    /// From when on it is said without a further key.
    #[must_use]
    pub fn says_errors_from(&self) -> Timestamp {
        self.typed_at.plus(PAUSE)
    }
}
