//! Marks by id: a refresh moves none, and one whose row is hidden or gone is counted.

use std::sync::Arc;

use super::{Row, Table};

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

impl<R: Row> Table<R> {
    /// Marks the selected row, or takes its mark away.
    pub(super) fn mark_toggle(&mut self) {
        let Some(id) = self.selected_row().map(|row| row.id()) else {
            return;
        };
        if self.marks.remove(&id) {
            self.anchor = None;
        } else {
            self.marks.insert(id.clone());
            self.anchor = Some(id);
        }
        self.recount();
    }

    /// Marks from the row marked last to the selected one.
    pub(super) fn mark_to_here(&mut self) {
        let anchor = self.anchor.as_ref().and_then(|id| self.position(id));
        let here = self.cursor;
        let from = anchor.unwrap_or(here);
        let ids: Vec<R::Id> = (from.min(here)..=from.max(here))
            .filter_map(|position| self.row(position).map(|row| row.id()))
            .collect();
        self.anchor = self.row(here).map(|row| row.id());
        self.marks.extend(ids);
        self.recount();
    }

    /// Marks every row that is shown.
    pub(super) fn mark_all_shown(&mut self) {
        let ids: Vec<R::Id> = self.shown_rows().map(|row| row.id()).collect();
        self.marks.extend(ids);
        self.recount();
    }

    /// Removes all marks, also those whose rows are hidden or gone.
    pub(super) fn unmark_all(&mut self) {
        self.marks.clear();
        self.anchor = None;
        self.recount();
    }

    /// The marked rows.
    #[must_use]
    pub fn marked(&self) -> Marked<'_, R> {
        let mut hidden_or_shown: Vec<bool> = self.rows.iter().map(|row| self.marks.contains(&row.id())).collect();
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
        marked.gone = self
            .marks
            .len()
            .saturating_sub(marked.shown.len() + marked.hidden.len());
        marked
    }

    pub(super) fn recount(&mut self) {
        self.mark_counts = MarkCounts::default();
        if self.marks.is_empty() {
            return;
        }
        let marked = self.marked();
        self.mark_counts = MarkCounts {
            shown: marked.shown.len(),
            hidden: marked.hidden.len(),
            gone: marked.gone,
        };
        if R::FILTERED_BEFORE {
            // What is not among the rows may be gone, or only not asked for: the plan says which.
            self.mark_counts.hidden += std::mem::take(&mut self.mark_counts.gone);
        }
    }
}
