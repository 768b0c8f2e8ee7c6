//! Rows that an action is about, whatever their list.

use std::sync::Arc;

use crate::console::state::State;
use crate::console::state::detail::Subject;
use crate::console::table::{Marking, Row, Table};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::engine::policies::PolicyView;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{EndpointRow, QueueRow};
use crate::engine::view::Retry;

/// A row that is pointed at, whatever its list.
#[derive(Clone, Copy, Debug)]
pub(in crate::console) enum Pointed<'a> {
    /// A queue.
    Queue(&'a QueueRow),
    /// An endpoint.
    Endpoint(&'a EndpointRow),
    /// A retry whose queue is on no list.
    Retry(&'a Retry),
    /// A policy.
    Policy(&'a PolicyView),
    /// A run.
    Run(&'a RunView),
    /// An open queue whose row does not say where it delivers to, while its detail does.
    Opened(&'a QueueRow, &'a EndpointUrl),
    /// An open detail whose row is gone.
    Subject(&'a Subject),
}

/// How many rows an action is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) enum Reach {
    /// The marked ones, else the selected one.
    Rows,
    /// One, never more.
    OneRow,
    /// All that the filter shows.
    Shown,
}

/// Rows that are pointed at.
#[derive(Debug, Default)]
pub(in crate::console) struct Rows<'a> {
    /// On the list as it is filtered.
    pub(in crate::console) shown: Vec<Pointed<'a>>,
    /// Marked, and hidden by the filter.
    pub(in crate::console) hidden: Vec<Pointed<'a>>,
    /// Marked, and gone since.
    pub(in crate::console) gone: usize,
}

impl<'a> Rows<'a> {
    pub(in crate::console) fn one(row: Pointed<'a>) -> Self {
        Self {
            shown: vec![row],
            ..Self::default()
        }
    }

    pub(in crate::console) fn marked<R: Row>(table: &'a Table<R>, point: impl Fn(&'a R) -> Pointed<'a>) -> Self {
        let marked = table.marked();
        let point = |row: &'a Arc<R>| point(row);
        Self {
            shown: marked.shown.into_iter().map(&point).collect(),
            hidden: marked.hidden.into_iter().map(&point).collect(),
            gone: marked.gone,
        }
    }

    pub(in crate::console) fn filtered<R: Row>(table: &'a Table<R>, point: impl Fn(&'a R) -> Pointed<'a>) -> Self {
        Self {
            shown: table.shown_rows().map(|row| point(row)).collect(),
            ..Self::default()
        }
    }

    /// Those of a list.
    pub(in crate::console) fn of<R: Row>(
        table: &'a Table<R>,
        reach: Reach,
        point: impl Fn(&'a R) -> Pointed<'a>,
    ) -> Self {
        match reach {
            Reach::Shown => Self::filtered(table, point),
            Reach::Rows if table.is_marked() => Self::marked(table, point),
            Reach::Rows | Reach::OneRow => match table.selected_row() {
                Some(row) => Self::one(point(row)),
                None => Self::default(),
            },
        }
    }
}

/// The snapshot has its queues by name.
pub(in crate::console) fn queue_row<'a>(state: &'a State, name: &QueueName) -> Option<&'a QueueRow> {
    let rows = &state.data.snapshot.as_ref()?.queues;
    let place = rows.binary_search_by(|row| row.name.cmp(name)).ok()?;
    rows.get(place).map(|row| &**row)
}

pub(in crate::console) fn endpoint_row<'a>(state: &'a State, url: &EndpointUrl) -> Option<&'a EndpointRow> {
    let mut rows = state.data.snapshot.as_ref()?.endpoints.iter();
    rows.find(|row| row.endpoint.url == *url).map(|row| &**row)
}
