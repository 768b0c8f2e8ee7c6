//! How far the text on the screen is read: its first line, how payloads are laid out, and what is looked for in one.

use super::{Find, Page, Paper};
use crate::console::state::detail::PayloadForm;
use crate::domain::text::width;
use crate::engine::dead::DeadDetail;

/// Columns that long lines move at once.
const SHIFT: isize = 8;
/// So many lines are seen below the first one wherever a payload is shown.
const LINES_SEEN: usize = 3;

/// How the text of a detail is read, and the payload in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// How payloads are shown.
    pub form: PayloadForm,
    /// Whether long lines of a payload go on under themselves.
    pub wraps: bool,
    /// Of a dead letter that was edited the original, instead of what is sent.
    pub original: bool,
    /// First line of the payload that is shown, and of the text of the tab.
    pub scroll: usize,
    /// Columns of long lines that are left out, where they do not.
    pub shift: usize,
    /// The payload in front, laid out.
    pub page: Option<Page>,
    /// What is looked for in it.
    pub find: Option<Find>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            form: PayloadForm::default(),
            wraps: true,
            original: false,
            scroll: 0,
            shift: 0,
            page: None,
            find: None,
        }
    }
}

impl Reading {
    /// Another text, whose payloads are shown as those of this one.
    #[must_use]
    pub fn of_another(&self) -> Self {
        Self {
            form: self.form,
            wraps: self.wraps,
            ..Self::default()
        }
    }

    /// What a payload is laid out on.
    #[must_use]
    pub const fn paper(&self, columns: usize) -> Paper {
        Paper {
            form: self.form,
            columns,
            wrap: self.wraps,
        }
    }

    /// Whether a payload is laid out like this.
    #[must_use]
    pub fn is_laid_out(&self, paper: Paper) -> bool {
        self.page.as_ref().is_some_and(|page| page.paper == paper)
    }

    /// What is looked for is looked for in this page from now on.
    pub(super) fn put(&mut self, page: Option<Page>) {
        self.find = self.find.take().filter(|_| page.is_some());
        if let (Some(find), Some(page)) = (&mut self.find, &page) {
            find.look_again(page);
        }
        self.page = page;
    }

    /// The payload has to be laid out again.
    pub(in crate::console) fn turn_over(&mut self) {
        self.page = None;
    }

    /// Back to the beginning of the text.
    pub(in crate::console) const fn rewind(&mut self) {
        (self.scroll, self.shift) = (0, 0);
    }

    /// Moves the text, as far as its last line.
    pub(in crate::console) fn scroll_by(&mut self, by: isize, last: usize) {
        self.scroll = self.scroll.saturating_add_signed(by).min(last);
    }

    /// Moves long lines.
    pub(in crate::console) fn shift_by(&mut self, by: isize) {
        let longest = self.page.iter().flat_map(|page| &page.lines);
        let longest = longest.map(|line| line.to - line.from).max().unwrap_or(0);
        let moved = self.shift.saturating_add_signed(by.saturating_mul(SHIFT));
        self.shift = moved.min(longest.saturating_sub(1));
    }

    /// Shows payloads in the next form; of a letter that was edited, first the original in this one.
    pub(in crate::console) fn next_form(&mut self, letter: Option<&DeadDetail>) {
        self.original = !self.original && letter.is_some_and(|letter| letter.edited.is_some());
        if !self.original {
            self.form = self.form.next();
        }
        self.rewind();
        self.turn_over();
    }

    /// Long lines go on under themselves, or not.
    pub(in crate::console) fn switch_wrap(&mut self) {
        self.wraps = !self.wraps;
        self.rewind();
        self.turn_over();
    }

    /// Looks for a text from the first line on that is seen; `above`: lines that stand before the payload.
    pub(in crate::console) fn look_for(&mut self, text: &str, above: usize) {
        let Some(page) = &self.page else { return };
        let seen = self.scroll.saturating_sub(above);
        let from = page.lines.get(seen).map_or(0, |line| line.from);
        self.find = (!text.is_empty()).then(|| Find::new(text, page, from));
        self.show_found(above);
    }

    /// The next place of what is looked for, or the one before.
    pub(in crate::console) fn step_found(&mut self, by: isize, above: usize) {
        if let Some(find) = &mut self.find {
            find.step(by);
        }
        self.show_found(above);
    }

    /// Moves the text so that the place in front is seen.
    fn show_found(&mut self, above: usize) {
        let (Some(page), Some(place)) = (&self.page, self.find.as_ref().and_then(Find::place)) else {
            return;
        };
        let line = page.line_of(place);
        let first = self.scroll.saturating_sub(above);
        if self.scroll < above || line < first || line >= first + LINES_SEEN {
            self.scroll = above + line.saturating_sub(1);
        }
        let before = page.lines.get(line).and_then(|line| page.text.get(line.from..place));
        let column = before.map_or(0, width);
        let columns = page.paper.columns;
        if page.paper.wrap || column + LINES_SEEN < columns {
            self.shift = 0;
        } else if column < self.shift || column >= self.shift + columns / 2 {
            self.shift = column.saturating_sub(columns / 4);
        }
    }
}
