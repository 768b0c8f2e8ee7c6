//! Where somebody is in a list: the selected row, and what of the list is on the screen.

use std::ops::Range;

/// The selected row of a list, known by its id, and the part of the list that is on the screen.
#[derive(Clone, Debug)]
pub struct Cursor<Id> {
    /// The selected row.
    pub id: Option<Id>,
    /// Its place in the order, or where it was when its row went.
    pub place: usize,
    /// Whether somebody chose it, or did something with it; until then it is the first.
    pub moved: bool,
    /// Whether it is only the neighbour of the row that somebody chose, which went.
    pub fallen: bool,
    /// The first place on the screen.
    pub offset: usize,
    /// Rows on the screen when it was last laid out.
    pub page: usize,
}

impl<Id> Default for Cursor<Id> {
    fn default() -> Self {
        Self {
            id: None,
            place: 0,
            moved: false,
            fallen: false,
            offset: 0,
            page: 1,
        }
    }
}

impl<Id> Cursor<Id> {
    /// Selects a row, wherever it is or will be in the list.
    pub fn choose(&mut self, id: Id) {
        self.fallen = false;
        self.fix(id);
    }

    /// The row that is selected stays so, wherever it goes.
    pub(super) fn fix(&mut self, id: Id) {
        (self.id, self.moved) = (Some(id), true);
    }

    /// The places to paint where `height` of `len` rows have room: the selected one is among them.
    #[must_use]
    pub(super) fn window(&self, height: usize, len: usize) -> Range<usize> {
        let least = (self.place + 1).min(len).saturating_sub(height);
        let start = self.offset.max(least).min(self.place).min(len.saturating_sub(height));
        start..start.saturating_add(height).min(len)
    }

    /// Moves the screen so that the selected one of `len` rows is on it.
    pub(super) fn keep_in_window(&mut self, len: usize) {
        self.offset = self.window(self.page.max(1), len).start;
    }
}
