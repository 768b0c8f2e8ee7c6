//! The list of keys while it is open: what is looked for in it, and what is seen of it.

use tui_input::Input;

/// The open help.
#[derive(Clone, Debug, Default)]
pub struct Help {
    /// What is typed: only what has these words is shown.
    pub input: Input,
    /// First line that is shown.
    pub scroll: usize,
}
