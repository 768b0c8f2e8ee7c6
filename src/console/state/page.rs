//! A page that lies over the view and is asked for: when it opens, and again while it is open.

use crate::domain::time::Timestamp;

/// What such a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Every profile of the configuration.
    Profiles,
    /// What doctor finds.
    Health,
}

/// The open page.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// What it shows.
    pub kind: PageKind,
    /// The selected line; where nothing is selected, the first that is shown.
    pub line: usize,
    /// Answers that are to come.
    pub awaited: usize,
    /// When it is asked again; `None`: answers are to come.
    pub due_at: Option<Timestamp>,
}
