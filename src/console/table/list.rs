//! Moving in a list: what every list does, whatever its rows.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::{
    ArrangeJob, Arranged, BeforeFilter, ColumnChoice, ColumnInfo, Completion, INLINE_MAX, Job, ListFilter, MarkCounts,
    Order, Row, Sort, Table, arrange, complete,
};
use crate::console::table::export::{Records, Shown};
use crate::domain::filter::FieldValue;
use crate::domain::time::Timestamp;
use crate::engine::snapshot::Snapshot;

/// More different values than this are no help.
const VALUES_MAX: usize = 40;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first row.
    First,
    /// The last row.
    Last,
}

/// A list, whatever its rows.
pub trait List {
    /// Takes an order that was found; false when it is another list's, or not the newest that was asked for.
    fn take(&mut self, found: &Arranged) -> bool;
    /// Rows that are shown, on the screen or not.
    fn len(&self) -> usize;
    /// Whether none is shown.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether a row is selected.
    fn has_selection(&self) -> bool;
    /// Where the selected row stands in memory, 0 without one: a row that did not change stays there.
    fn selected_place(&self) -> usize;
    /// Where the marks are.
    fn mark_counts(&self) -> MarkCounts;
    /// Whether there is a mark, wherever its row is.
    fn is_marked(&self) -> bool {
        let marks = self.mark_counts();
        marks.shown + marks.hidden + marks.gone > 0
    }
    /// Whether a range of marks can begin somewhere.
    fn has_anchor(&self) -> bool;
    /// The filter.
    fn filter(&self) -> &ListFilter;
    /// The list is laid out with this many rows on the screen.
    fn set_page(&mut self, page: usize);
    /// Moves the selection.
    fn step(&mut self, by: isize);
    /// Moves the selection to an end.
    fn jump(&mut self, to: End);
    /// Selects the row at a position.
    fn point(&mut self, position: usize);
    /// Moves the columns.
    fn shift(&mut self, by: isize);
    /// Sorts by the next column, in that column's own direction.
    fn sort_next(&mut self);
    /// Turns the order round.
    fn sort_reverse(&mut self);
    /// Every column in its place.
    fn columns(&self) -> Vec<ColumnInfo>;
    /// Shows or hides the column at a place.
    fn column_toggle(&mut self, place: usize);
    /// Moves the column at a place; answers where it is then.
    fn column_move(&mut self, place: usize, by: isize) -> usize;
    /// Every column, as the list opens with them.
    fn columns_reset(&mut self);
    /// Shows the columns of these names alone, in this order; answers those that there are none of.
    fn columns_show(&mut self, names: &[&str]) -> Vec<String>;
    /// Whether somebody chose columns.
    fn is_arranged(&self) -> bool;
    /// Sorts as the list opens.
    fn sort_as_opened(&mut self);
    /// Sorts by the column of that name, in its own direction or the other way; false: there is none.
    fn sort_by(&mut self, name: &str, other_way: bool) -> bool;
    /// The column that is sorted by, and whether the greatest comes first; `None`: as the list opens.
    fn sorted_by(&self) -> Option<(&'static str, bool)>;
    /// What the filter line could go on with where its cursor is.
    fn completion(&self, text: &str, cursor: usize, now: Timestamp) -> Completion;
    /// The rows that are shown, for a file.
    fn records(&self, now: Timestamp) -> Arc<dyn Records>;
    /// Marks or unmarks the selected row.
    fn mark(&mut self);
    /// Marks from the last mark to the selected row.
    fn mark_range(&mut self);
    /// Marks every row that is shown.
    fn mark_shown(&mut self);
    /// Removes all marks.
    fn unmark(&mut self);
    /// The filter line is opened.
    fn filter_begin(&mut self);
    /// The text of the filter line.
    fn filter_write(&mut self, text: &str);
    /// The filter line is left and what it says stays; false when it cannot be read.
    fn filter_keep(&mut self) -> bool;
    /// The filter line is left and everything is as it was before.
    fn filter_restore(&mut self);
    /// Sorts and filters the rows of a snapshot, or for a list that is fed otherwise the rows that it has: at
    /// once, or by the job.
    fn arrange_from(&mut self, snapshot: Option<&Snapshot>, now: Timestamp) -> Option<ArrangeJob>;
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self {
            rows: Arc::default(),
            order: Arc::default(),
            taken_at: None,
            filter: ListFilter::default(),
            sort: Sort {
                column: 0,
                descending: R::COLUMNS.first().is_some_and(|column| column.greatest_first),
            },
            selected: None,
            cursor: 0,
            offset: 0,
            page: 1,
            columns: ColumnChoice::all(R::COLUMNS.len()),
            column_offset: 0,
            moved: false,
            marks: HashSet::new(),
            anchor: None,
            mark_counts: MarkCounts::default(),
            before_filter: None,
            ticket: 0,
            arriving: None,
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
        let row = self.row(self.cursor)?;
        (self.selected.as_ref() == Some(&row.id())).then_some(row)
    }

    /// Every row that is shown, in order.
    pub fn shown_rows(&self) -> impl Iterator<Item = &Arc<R>> {
        (0..self.order.len()).filter_map(|position| self.row(position))
    }

    /// The positions to paint where `height` rows have room: the selected one is among them.
    #[must_use]
    pub fn window(&self, height: usize) -> Range<usize> {
        let len = self.order.len();
        let least = (self.cursor + 1).min(len).saturating_sub(height);
        let start = self.offset.max(least).min(self.cursor).min(len.saturating_sub(height));
        start..start.saturating_add(height).min(len)
    }

    /// Takes an order that was found; false when it is not the newest that was asked for.
    ///
    /// The selected row stays on its line of the screen; at the top of the list the top stays in sight. Before
    /// anybody moved, the first row is selected: the worst one, whichever that is.
    pub fn adopt(&mut self, found: &Order<R>) -> bool {
        if found.ticket != self.ticket {
            return false;
        }
        let line = self.cursor.saturating_sub(self.offset);
        self.arriving = None;
        self.rows = Arc::clone(&found.rows);
        self.order = Arc::clone(&found.order);
        self.taken_at = Some(found.taken_at);
        let chosen = self.selected.as_ref().filter(|_| self.moved);
        let place = chosen.and_then(|id| self.position(id));
        self.cursor = place.unwrap_or(self.cursor).min(self.order.len().saturating_sub(1));
        if place.is_none() && !self.order.is_empty() {
            self.selected = self.row(self.cursor).map(|row| row.id());
        }
        if self.offset > 0 || self.cursor >= self.page {
            self.offset = self.cursor.saturating_sub(line);
        }
        self.keep_in_window();
        self.recount();
        true
    }

    pub(super) fn position(&self, id: &R::Id) -> Option<usize> {
        self.shown_rows().position(|row| row.id() == *id)
    }

    /// The values that a field of text has, where they are few.
    fn values(&self, field: &str, now: Timestamp) -> Vec<String> {
        let mut values: BTreeSet<String> = BTreeSet::new();
        for row in self.rows.iter().take(INLINE_MAX) {
            match row.field(field, now) {
                FieldValue::Text(text) => values.insert(text.into_owned()),
                FieldValue::Words(words) => values.insert(words.first().copied().unwrap_or_default().to_owned()),
                FieldValue::Missing | FieldValue::Number(_) | FieldValue::Duration(_) | FieldValue::Bool(_) => false,
            };
            if values.len() > VALUES_MAX {
                return Vec::new();
            }
        }
        values.into_iter().collect()
    }

    fn select(&mut self, position: usize) {
        let position = position.min(self.order.len().saturating_sub(1));
        if let Some(id) = self.row(position).map(|row| row.id()) {
            self.cursor = position;
            self.selected = Some(id);
            self.moved = true;
        }
        self.keep_in_window();
    }

    fn keep_in_window(&mut self) {
        self.offset = self.window(self.page.max(1)).start;
    }

    /// Small lists at once; for a large one the job, whose answer comes back through [`Table::adopt`].
    pub fn submit(&mut self, rows: Arc<Vec<Arc<R>>>, taken_at: Timestamp, now: Timestamp) -> Option<ArrangeJob> {
        self.ticket += 1;
        let job = Job {
            ticket: self.ticket,
            rows,
            taken_at,
            filter: self.filter.applied.clone().filter(|_| !R::FILTERED_BEFORE),
            sort: self.sort,
            now,
        };
        if job.rows.len() > INLINE_MAX {
            self.arriving = Some((Arc::clone(&job.rows), taken_at));
            return Some(ArrangeJob::of(job));
        }
        self.adopt(&arrange(&job));
        None
    }
}

impl<R: Row> List for Table<R> {
    fn take(&mut self, found: &Arranged) -> bool {
        let found = found.of_list::<R>();
        found.is_some_and(|order| self.adopt(order))
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn has_selection(&self) -> bool {
        self.selected_row().is_some()
    }

    fn selected_place(&self) -> usize {
        self.selected_row().map_or(0, |row| Arc::as_ptr(row).addr())
    }

    fn mark_counts(&self) -> MarkCounts {
        self.mark_counts
    }

    fn has_anchor(&self) -> bool {
        self.anchor.is_some()
    }

    fn filter(&self) -> &ListFilter {
        &self.filter
    }

    fn set_page(&mut self, page: usize) {
        self.page = page.max(1);
        self.keep_in_window();
    }

    fn step(&mut self, by: isize) {
        self.select(self.cursor.saturating_add_signed(by));
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

    fn shift(&mut self, by: isize) {
        let movable = self.columns.shown().count();
        self.column_offset = self
            .column_offset
            .saturating_add_signed(by)
            .min(movable.saturating_sub(1));
    }

    fn sort_next(&mut self) {
        let column = (self.sort.column + 1) % R::COLUMNS.len().max(1);
        let descending = R::COLUMNS.get(column).is_some_and(|column| column.greatest_first);
        self.sort = Sort { column, descending };
    }

    fn sort_reverse(&mut self) {
        self.sort.descending = !self.sort.descending;
    }

    fn columns(&self) -> Vec<ColumnInfo> {
        let info = |(index, shown): (usize, bool)| {
            let column = R::COLUMNS.get(index)?;
            let sorted = (self.sort.column == index).then_some(self.sort.descending == column.greatest_first);
            Some(ColumnInfo {
                name: column.name,
                title: column.title,
                shown,
                sorted,
            })
        };
        self.columns.iter().filter_map(info).collect()
    }

    fn column_toggle(&mut self, place: usize) {
        self.columns.toggle(place);
    }

    fn column_move(&mut self, place: usize, by: isize) -> usize {
        self.columns.move_by(place, by)
    }

    fn columns_reset(&mut self) {
        self.columns = ColumnChoice::all(R::COLUMNS.len());
    }

    fn columns_show(&mut self, names: &[&str]) -> Vec<String> {
        let place = |name: &str| R::COLUMNS.iter().position(|column| column.name == name);
        let mut known: Vec<usize> = Vec::new();
        for index in names.iter().filter_map(|name| place(name)) {
            if !known.contains(&index) {
                known.push(index);
            }
        }
        if !known.is_empty() {
            self.columns.show_only(&known);
        }
        let unknown = names.iter().filter(|name| place(name).is_none());
        unknown.map(|name| (*name).to_owned()).collect()
    }

    fn is_arranged(&self) -> bool {
        self.columns.is_chosen()
    }

    fn sort_as_opened(&mut self) {
        self.sort = Self::default().sort;
    }

    fn sort_by(&mut self, name: &str, other_way: bool) -> bool {
        let found = R::COLUMNS.iter().position(|column| column.name == name);
        if let Some(column) = found {
            let greatest_first = R::COLUMNS.get(column).is_some_and(|column| column.greatest_first);
            self.sort = Sort {
                column,
                descending: greatest_first != other_way,
            };
        }
        found.is_some()
    }

    fn sorted_by(&self) -> Option<(&'static str, bool)> {
        let opens_with = Self::default().sort;
        let column = R::COLUMNS.get(self.sort.column).filter(|_| self.sort != opens_with)?;
        Some((column.name, self.sort.descending))
    }

    fn completion(&self, text: &str, cursor: usize, now: Timestamp) -> Completion {
        complete(text, cursor, R::FIELDS, |field| self.values(field, now))
    }

    fn records(&self, now: Timestamp) -> Arc<dyn Records> {
        Arc::new(Shown {
            rows: Arc::clone(&self.rows),
            order: Arc::clone(&self.order),
            now,
        })
    }

    fn mark(&mut self) {
        self.mark_toggle();
    }

    fn mark_range(&mut self) {
        self.mark_to_here();
    }

    fn mark_shown(&mut self) {
        self.mark_all_shown();
    }

    fn unmark(&mut self) {
        self.unmark_all();
    }

    fn filter_begin(&mut self) {
        self.before_filter = Some(BeforeFilter {
            text: self.filter.text.clone(),
            selected: self.selected.clone(),
        });
    }

    fn filter_write(&mut self, text: &str) {
        self.filter.write::<R>(text);
    }

    fn filter_keep(&mut self) -> bool {
        let readable = self.filter.settle::<R>();
        if readable {
            self.before_filter = None;
        }
        readable
    }

    fn filter_restore(&mut self) {
        if let Some(before) = self.before_filter.take() {
            self.filter.write::<R>(&before.text);
            self.filter.settle::<R>();
            self.selected = before.selected;
        }
    }

    fn arrange_from(&mut self, snapshot: Option<&Snapshot>, now: Timestamp) -> Option<ArrangeJob> {
        let has = || Some((Arc::clone(&self.rows), self.taken_at?));
        let newest = snapshot.and_then(R::rows_of);
        let (rows, taken_at) = newest.or_else(|| self.arriving.clone()).or_else(has)?;
        self.submit(rows, taken_at, now)
    }
}
