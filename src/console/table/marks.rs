//! Marks by id: a refresh moves none, and one whose row is hidden or gone is counted.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Row, Table};

/// The marks of a list.
#[derive(Clone, Debug)]
pub struct Marks<Id> {
    /// Marked rows.
    pub ids: HashSet<Id>,
    /// The row marked last: where a range begins.
    pub anchor: Option<Id>,
    /// Where they are.
    pub counts: MarkCounts,
}

/// Where the marks of a list are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkCounts {
    /// On the list as it is filtered.
    pub shown: usize,
    /// Hidden by the filter.
    pub hidden: usize,
    /// Their rows are gone.
    pub gone: usize,
}

impl MarkCounts {
    /// How many there are, wherever their rows are.
    #[must_use]
    pub const fn all(self) -> usize {
        self.shown + self.hidden + self.gone
    }
}

/// The rows behind the marks of a list, in its order where they are shown.
#[derive(Debug)]
pub struct Marked<'a, R> {
    /// On the list as it is filtered.
    pub shown: Vec<&'a Arc<R>>,
    /// Hidden by the filter.
    pub hidden: Vec<&'a Arc<R>>,
    /// Marks whose rows are gone.
    pub gone: usize,
}

/// Marks in a list.
pub trait Marking {
    /// Where the marks are.
    fn mark_counts(&self) -> MarkCounts;
    /// Whether there is a mark, wherever its row is.
    fn is_marked(&self) -> bool {
        self.mark_counts().all() > 0
    }
    /// Whether a range of marks can begin somewhere.
    fn has_anchor(&self) -> bool;
    /// Marks the selected row, or takes its mark away.
    fn mark(&mut self);
    /// Marks from the row marked last to the selected one.
    fn mark_range(&mut self);
    /// Marks every row that is shown.
    fn mark_shown(&mut self);
    /// Removes all marks, also those whose rows are hidden or gone.
    fn unmark(&mut self);
}

impl<Id> Default for Marks<Id> {
    fn default() -> Self {
        Self {
            ids: HashSet::new(),
            anchor: None,
            counts: MarkCounts::default(),
        }
    }
}

impl<R: Row> Marking for Table<R> {
    fn mark_counts(&self) -> MarkCounts {
        self.marks.counts
    }

    fn has_anchor(&self) -> bool {
        self.marks.anchor.is_some()
    }

    fn mark(&mut self) {
        let Some(id) = self.selected_row().map(|row| row.id()) else {
            return;
        };
        if self.marks.ids.remove(&id) {
            self.marks.anchor = None;
        } else {
            self.marks.ids.insert(id.clone());
            self.marks.anchor = Some(id);
        }
        self.recount();
    }

    fn mark_range(&mut self) {
        let anchor = self.marks.anchor.as_ref().and_then(|id| self.position(id));
        let here = self.cursor.place;
        let from = anchor.unwrap_or(here);
        let ids: Vec<R::Id> = (from.min(here)..=from.max(here))
            .filter_map(|position| self.row(position).map(|row| row.id()))
            .collect();
        self.marks.anchor = self.row(here).map(|row| row.id());
        self.marks.ids.extend(ids);
        self.recount();
    }

    fn mark_shown(&mut self) {
        let ids: Vec<R::Id> = self.shown_rows().map(|row| row.id()).collect();
        self.marks.ids.extend(ids);
        self.recount();
    }

    fn unmark(&mut self) {
        self.marks.ids.clear();
        self.marks.anchor = None;
        self.recount();
    }
}

impl<R: Row> Table<R> {
    /// The marked rows.
    #[must_use]
    pub fn marked(&self) -> Marked<'_, R> {
        let mut hidden_or_shown: Vec<bool> = self.rows.iter().map(|row| self.marks.ids.contains(&row.id())).collect();
        let mut marked = Marked {
            shown: Vec::new(),
            hidden: Vec::new(),
            gone: 0,
        };
        for index in self.order.iter().filter_map(|index| usize::try_from(*index).ok()) {
            if hidden_or_shown.get(index).copied().unwrap_or(false) {
                hidden_or_shown[index] = false;
                marked.shown.extend(self.rows.get(index));
            }
        }
        let rest = self.rows.iter().zip(&hidden_or_shown).filter(|(_, hidden)| **hidden);
        marked.hidden.extend(rest.map(|(row, _)| row));
        let seen = marked.shown.len() + marked.hidden.len();
        marked.gone = self.marks.ids.len().saturating_sub(seen);
        marked
    }

    pub(super) fn recount(&mut self) {
        self.marks.counts = MarkCounts::default();
        if self.marks.ids.is_empty() {
            return;
        }
        let marked = self.marked();
        self.marks.counts = MarkCounts {
            shown: marked.shown.len(),
            hidden: marked.hidden.len(),
            gone: marked.gone,
        };
        if R::FILTERED_BEFORE {
            // What is not among the rows may be gone, or only not asked for: the plan says which.
            self.marks.counts.hidden += std::mem::take(&mut self.marks.counts.gone);
        }
    }
}
