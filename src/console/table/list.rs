//! Moving in a list: what every list does, whatever its rows.

use std::ops::Range;
use std::sync::Arc;

use super::{
    ArrangeJob, Arranged, Asked, Columns, Cursor, Filtering, INLINE_MAX, Job, Layout, ListFilter, Marking, Marks,
    Order, Row, Table, Whole, arrange,
};
use crate::console::table::export::{Records, Shown};
use crate::domain::time::Timestamp;
use crate::engine::snapshot::Snapshot;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first row.
    First,
    /// The last row.
    Last,
}

/// A list, whatever its rows: the rows that are shown, and the selected one.
pub trait List: Columns + Filtering + Marking {
    /// Sorts and filters the rows of a snapshot, or for a list that is fed otherwise the rows that it has: at
    /// once, or by the job.
    fn arrange_from(&mut self, snapshot: Option<&Snapshot>, now: Timestamp) -> Option<ArrangeJob>;
    /// Takes an order that was found; false when it is another list's, or not the newest that was asked for.
    fn take(&mut self, found: &Arranged) -> bool;
    /// Rows that are shown, on the screen or not.
    fn len(&self) -> usize;
    /// Whether none is shown.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The rows that are shown, for a file.
    fn records(&self, now: Timestamp) -> Arc<dyn Records>;
    /// Whether a row is selected.
    fn has_selection(&self) -> bool;
    /// Where the selected row stands in memory, 0 without one: a row that did not change stays there.
    fn selected_place(&self) -> usize;
    /// The list is laid out with this many rows on the screen.
    fn set_page(&mut self, page: usize);
    /// Moves the selection.
    fn step(&mut self, by: isize);
    /// Moves the selection to an end.
    fn jump(&mut self, to: End);
    /// Selects the row at a position.
    fn point(&mut self, position: usize);
    /// The selected row stays selected, wherever it goes: something is done with it.
    fn fix_selection(&mut self);
    /// Whether the selected row is only the neighbour of the one that somebody chose, which went.
    fn has_fallen(&self) -> bool;
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self {
            rows: Arc::default(),
            order: Arc::default(),
            taken_at: None,
            cursor: Cursor::default(),
            layout: Layout::of::<R>(),
            marks: Marks::default(),
            filter: ListFilter::default(),
            before_filter: None,
            asked: Asked {
                ticket: 0,
                arriving: None,
            },
            whole: None,
        }
    }
}

impl<R: Row> Table<R> {
    /// The row at a position of the list.
    #[must_use]
    pub fn row(&self, position: usize) -> Option<&Arc<R>> {
        let index = usize::try_from(*self.order.get(position)?).ok()?;
        self.rows.get(index)
    }

    /// The selected row, when it is shown.
    #[must_use]
    pub fn selected_row(&self) -> Option<&Arc<R>> {
        let row = self.row(self.cursor.place)?;
        (self.cursor.id.as_ref() == Some(&row.id())).then_some(row)
    }

    /// Every row that is shown, in order.
    pub fn shown_rows(&self) -> impl Iterator<Item = &Arc<R>> {
        (0..self.order.len()).filter_map(|position| self.row(position))
    }

    /// The positions to paint where `height` rows have room: the selected one is among them.
    #[must_use]
    pub fn window(&self, height: usize) -> Range<usize> {
        self.cursor.window(height, self.order.len())
    }

    /// Takes an order that was found; false when it is not the newest that was asked for.
    ///
    /// The selected row stays on its line of the screen; at the top of the list the top stays in sight. Before
    /// anybody chose a row, the first one is selected: the worst one, whichever that is.
    pub fn adopt(&mut self, found: &Order<R>) -> bool {
        if found.ticket != self.asked.ticket {
            return false;
        }
        let line = self.cursor.place.saturating_sub(self.cursor.offset);
        self.asked.arriving = None;
        self.rows = Arc::clone(&found.rows);
        self.order = Arc::clone(&found.order);
        self.taken_at = Some(found.taken_at);
        self.whole.clone_from(&found.whole);
        let chosen = self.cursor.id.as_ref().filter(|_| self.cursor.moved);
        let place = chosen.and_then(|id| self.position(id));
        let last = self.order.len().saturating_sub(1);
        self.cursor.place = place.unwrap_or(self.cursor.place).min(last);
        if place.is_none() && !self.order.is_empty() {
            self.cursor.fallen |= chosen.is_some();
            self.cursor.id = self.row(self.cursor.place).map(|row| row.id());
        }
        if self.cursor.offset > 0 || self.cursor.place >= self.cursor.page {
            self.cursor.offset = self.cursor.place.saturating_sub(line);
        }
        self.cursor.keep_in_window(self.order.len());
        self.recount();
        true
    }

    pub(super) fn position(&self, id: &R::Id) -> Option<usize> {
        self.shown_rows().position(|row| row.id() == *id)
    }

    fn select(&mut self, position: usize) {
        let position = position.min(self.order.len().saturating_sub(1));
        if let Some(id) = self.row(position).map(|row| row.id()) {
            self.cursor.place = position;
            self.cursor.choose(id);
        }
        self.cursor.keep_in_window(self.order.len());
    }

    /// Small lists at once; for a large one the job, whose answer comes back through [`Table::adopt`].
    pub fn submit(&mut self, rows: Arc<Vec<Arc<R>>>, taken_at: Timestamp, now: Timestamp) -> Option<ArrangeJob> {
        self.asked.ticket += 1;
        let is_theirs = |whole: &&Whole| Arc::ptr_eq(&self.rows, &rows) && whole.sort == self.layout.sort;
        let job = Job {
            ticket: self.asked.ticket,
            whole: self.whole.as_ref().filter(is_theirs).cloned(),
            rows,
            taken_at,
            filter: self.filter.applied.clone().filter(|_| !R::FILTERED_BEFORE),
            sort: self.layout.sort,
            now,
        };
        if job.rows.len() > INLINE_MAX {
            self.asked.arriving = Some((Arc::clone(&job.rows), taken_at));
            return Some(ArrangeJob::of(job));
        }
        self.adopt(&arrange(&job));
        None
    }
}

impl<R: Row> List for Table<R> {
    fn arrange_from(&mut self, snapshot: Option<&Snapshot>, now: Timestamp) -> Option<ArrangeJob> {
        let has = || Some((Arc::clone(&self.rows), self.taken_at?));
        let newest = snapshot.and_then(R::rows_of);
        let (rows, taken_at) = newest.or_else(|| self.asked.arriving.clone()).or_else(has)?;
        self.submit(rows, taken_at, now)
    }

    fn take(&mut self, found: &Arranged) -> bool {
        let found = found.of_list::<R>();
        found.is_some_and(|order| self.adopt(order))
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn records(&self, now: Timestamp) -> Arc<dyn Records> {
        Arc::new(Shown {
            rows: Arc::clone(&self.rows),
            order: Arc::clone(&self.order),
            now,
        })
    }

    fn has_selection(&self) -> bool {
        self.selected_row().is_some()
    }

    fn selected_place(&self) -> usize {
        self.selected_row().map_or(0, |row| Arc::as_ptr(row).addr())
    }

    fn set_page(&mut self, page: usize) {
        self.cursor.page = page.max(1);
        self.cursor.keep_in_window(self.order.len());
    }

    fn step(&mut self, by: isize) {
        self.select(self.cursor.place.saturating_add_signed(by));
    }

    fn jump(&mut self, to: End) {
        self.select(match to {
            End::First => 0,
            End::Last => usize::MAX,
        });
    }

    fn point(&mut self, position: usize) {
        self.select(position);
    }

    fn fix_selection(&mut self) {
        if let Some(id) = self.selected_row().map(|row| row.id()) {
            self.cursor.fix(id);
        }
    }

    fn has_fallen(&self) -> bool {
        self.cursor.fallen
    }
}
