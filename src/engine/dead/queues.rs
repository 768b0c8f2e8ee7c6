//! The queues that dead letters are in: of what kind each is, how many it has, since when, and which queues they come
//! from. Arguments, policies and bindings say that, and so do the letters themselves.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::targets::{FEEDERS_MAX, Feeder};
use super::{DeadLetters, DeadPage, DeadQueueView, sum};
use crate::ambient::HashMap;
use crate::domain::dead_letter::{DeadQueueKind, EVENT_TABLE, Home};
use crate::domain::filter::{FieldValue, Fields};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::fields::{DEAD_QUEUE_FIELDS, count, span, text};
use crate::engine::paging::{bounded, offset_of};
use crate::engine::sieve;
use crate::engine::view::Page;
use crate::store::DeadOrigin;

/// Origins of letters that are read, those of most letters first.
const ORIGINS_MAX: u32 = 10_000;

/// Which queues of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadQueuesQuery {
    /// A filter expression (docs/contract.md, *Filters*).
    pub filter: Option<String>,
    /// `name`, `kind`, `letters`, `first_failed_at` or `last_failed_at`, with a leading `-` for descending; the one with
    /// the most letters first where nothing is said.
    pub sort: Option<String>,
    /// At most this many (1 to 1,000).
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<String>,
    /// How long to wait for looks under way before answering with what was seen so far.
    pub patience: Duration,
}

/// A queue of dead letters.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeadQueueRow {
    /// The queue, and what is known of it.
    pub queue: DeadQueueView,
    /// When the first of its letters failed first, of those that were seen.
    pub first_failed_at: Option<Timestamp>,
    /// When the last of them failed last.
    pub last_failed_at: Option<Timestamp>,
    /// The queues that they come from, those of most letters first; at most 50 are named.
    pub fed_by: Vec<Feeder>,
}

impl DeadQueueView {
    /// How many dead letters are in it, where that is known.
    #[must_use]
    pub fn letters(&self) -> Option<u64> {
        sum::letters(self)
    }

    /// Whether it was looked at before this time only, and has another number of messages since; the next look is due
    /// soon.
    #[must_use]
    pub fn changed_since_looked(&self, at: Timestamp) -> bool {
        let may_be_looked_at = self.problem.is_none() && !self.consumed && self.looking.is_none();
        may_be_looked_at
            && self.ready.is_some()
            && self.ready != self.messages
            && self.looked_at.is_some_and(|looked| looked < at)
    }
}

/// A queue of dead letters as a filter sees it.
#[derive(Debug)]
struct DeadQueueFields<'a> {
    /// The queue.
    row: &'a DeadQueueRow,
    /// What time it is.
    now: Timestamp,
}

impl Fields for DeadQueueFields<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        let (row, queue) = (self.row, &self.row.queue);
        match name {
            "name" | "queue" => text(Some(queue.name.as_str())),
            "kind" => text(queue.kind.map(DeadQueueKind::as_str)),
            "letters" => count(queue.letters()),
            "consumed" => FieldValue::Bool(queue.consumed),
            "age" => span(row.first_failed_at.map(|at| self.now.since(at))),
            "fed_by" => {
                let names = row
                    .fed_by
                    .iter()
                    .flat_map(|from| [Some(from.queue.as_str()), from.exchange.as_deref()]);
                let names: Vec<&str> = names.flatten().filter(|name| !name.is_empty()).collect();
                FieldValue::Text(names.join(" ").into())
            }
            "problem" => text(queue.problem.as_deref()),
            _ => FieldValue::Missing,
        }
    }
}

impl DeadLetters {
    pub(in crate::engine) async fn dead_queue_page(
        self: &Arc<Self>,
        query: &DeadQueuesQuery,
    ) -> Result<DeadPage<DeadQueueRow>, EngineError> {
        let filter = query.filter.as_deref().map(|text| sieve::read(text, DEAD_QUEUE_FIELDS));
        let mut sieve = self.sieve(filter.transpose()?);
        let order = order(query.sort.as_deref())?;
        let (offset, limit) = (offset_of(query.cursor.as_deref())?, bounded(query.limit) as usize);
        let looked = self.dead_looks(query.patience).await?;
        looked.must_be_read()?;
        let rows = self.rows(&looked.views).await?;
        let now = looked.now;
        let mut rows = sieve
            .keep(rows, |filter, row| filter.matches(&DeadQueueFields { row, now }))
            .await?;
        rows.sort_by(order);
        let end = offset.saturating_add(limit);
        Ok(DeadPage {
            page: Page {
                next_cursor: (rows.len() > end).then(|| end.to_string()),
                items: rows.into_iter().skip(offset).take(limit).collect(),
                taken_at: now,
                problems: Vec::new(),
            },
            as_of: looked.as_of(None),
            queues: looked.views,
            problems: looked.problems,
        })
    }

    /// The queues with what the index says of their letters.
    async fn rows(&self, views: &[DeadQueueView]) -> Result<Vec<DeadQueueRow>, EngineError> {
        let mut spans: HashMap<String, (Option<Timestamp>, Option<Timestamp>)> = HashMap::default();
        for span in self.store.dead_spans().await? {
            let name = match span.home {
                Home::Event => EVENT_TABLE,
                Home::Broker | Home::Store => span.queue.as_str(),
            };
            let (first, last) = spans.entry(name.to_owned()).or_default();
            *first = first.iter().copied().chain(span.first_failed_at).min();
            *last = (*last).max(span.last_failed_at);
        }
        let mut origins: HashMap<String, Vec<DeadOrigin>> = HashMap::default();
        for origin in self.store.dead_origins(ORIGINS_MAX).await? {
            origins
                .entry(origin.queue.as_str().to_owned())
                .or_default()
                .push(origin);
        }
        let rows = views.iter().map(|view| {
            let (first_failed_at, last_failed_at) = spans.remove(view.name.as_str()).unwrap_or_default();
            let seen = origins.remove(view.name.as_str()).unwrap_or_default();
            DeadQueueRow {
                first_failed_at,
                last_failed_at,
                fed_by: fed_by(&view.fed_by, seen),
                queue: view.clone(),
            }
        });
        Ok(rows.collect())
    }
}

/// The queues that dead-letter into one, with those that its letters say that they died in.
fn fed_by(declared: &[Feeder], seen: Vec<DeadOrigin>) -> Vec<Feeder> {
    let mut feeders = declared.to_vec();
    for origin in seen {
        let mut is_declared = false;
        for feeder in feeders.iter_mut().filter(|feeder| feeder.queue == origin.origin) {
            (feeder.letters, feeder.is_certain, is_declared) = (origin.letters, true, true);
        }
        if !is_declared {
            feeders.push(Feeder {
                queue: origin.origin,
                exchange: None,
                routing_key: None,
                is_certain: true,
                letters: origin.letters,
            });
        }
    }
    feeders.sort_by(|a, b| b.letters.cmp(&a.letters).then_with(|| a.queue.cmp(&b.queue)));
    feeders.truncate(FEEDERS_MAX);
    feeders
}

type Order = fn(&DeadQueueRow, &DeadQueueRow) -> Ordering;

/// By a column, and by name where that is the same. Unknown values come last either way.
fn order(column: Option<&str>) -> Result<impl Fn(&DeadQueueRow, &DeadQueueRow) -> Ordering, EngineError> {
    let column = column.unwrap_or("-letters");
    let (is_descending, column) = column.strip_prefix('-').map_or((false, column), |rest| (true, rest));
    let (is_unknown, by): (fn(&DeadQueueRow) -> bool, Order) = match column {
        "name" | "queue" => (|_| false, |a, b| a.queue.name.cmp(&b.queue.name)),
        "kind" => (
            |row| row.queue.kind.is_none(),
            |a, b| {
                let word = |row: &DeadQueueRow| row.queue.kind.map(DeadQueueKind::as_str);
                word(a).cmp(&word(b))
            },
        ),
        "letters" => (
            |row| row.queue.letters().is_none(),
            |a, b| a.queue.letters().cmp(&b.queue.letters()),
        ),
        "first_failed_at" => (
            |row| row.first_failed_at.is_none(),
            |a, b| a.first_failed_at.cmp(&b.first_failed_at),
        ),
        "last_failed_at" => (
            |row| row.last_failed_at.is_none(),
            |a, b| a.last_failed_at.cmp(&b.last_failed_at),
        ),
        _ => {
            return Err(EngineError::Invalid {
                field: "sort".to_owned(),
                message: format!(
                    "sort by {column:?} is not possible; use name, kind, letters, first_failed_at or last_failed_at"
                ),
            });
        }
    };
    Ok(move |a: &DeadQueueRow, b: &DeadQueueRow| {
        let ascending = by(a, b);
        let wanted = if is_descending { ascending.reverse() } else { ascending };
        let by_name = || a.queue.name.cmp(&b.queue.name);
        is_unknown(a).cmp(&is_unknown(b)).then(wanted).then_with(by_name)
    })
}
