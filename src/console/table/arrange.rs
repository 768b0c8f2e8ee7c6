//! Sorts and filters: a pure function of the rows, so that it can run anywhere.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{ArrangeJob, Arranged, Job, Order, Row, Sort, SortKey};
use crate::domain::filter::{FieldValue, Fields};
use crate::domain::time::Timestamp;

/// Which rows are shown, and in which order.
#[must_use]
pub fn arrange<R: Row>(job: &Job<R>) -> Order<R> {
    let mut keyed: Vec<(SortKey<'_>, u32)> = Vec::with_capacity(job.rows.len());
    let key = R::COLUMNS.get(job.sort.column).map(|column| column.key);
    for (index, row) in (0..u32::MAX).zip(job.rows.iter()) {
        let row_at = RowAt {
            row: &**row,
            now: job.now,
        };
        if job.filter.as_ref().is_none_or(|filter| filter.matches(&row_at)) {
            keyed.push((key.map_or(SortKey::Missing, |key| key(row)), index));
        }
    }
    keyed.sort_unstable_by(|a, b| {
        directed(a.0, b.0, job.sort).then_with(|| match (row(job, a.1), row(job, b.1)) {
            (Some(one), Some(other)) => one.tie(other).then(a.1.cmp(&b.1)),
            _ => Ordering::Equal,
        })
    });
    Order {
        ticket: job.ticket,
        rows: Arc::clone(&job.rows),
        taken_at: job.taken_at,
        order: Arc::new(keyed.into_iter().map(|(_, index)| index).collect()),
    }
}

impl ArrangeJob {
    /// Does it.
    #[must_use]
    pub fn run(&self) -> Arranged {
        match self {
            Self::Queues(job) => Arranged::Queues(arrange(job)),
            Self::Endpoints(job) => Arranged::Endpoints(arrange(job)),
            Self::Retries(job) => Arranged::Retries(arrange(job)),
            Self::Audit(job) => Arranged::Audit(arrange(job)),
            Self::Policies(job) => Arranged::Policies(arrange(job)),
            Self::Runs(job) => Arranged::Runs(arrange(job)),
            Self::DeadGroups(job) => Arranged::DeadGroups(arrange(job)),
            Self::DeadLetters(job) => Arranged::DeadLetters(arrange(job)),
            Self::EventTypes(job) => Arranged::EventTypes(arrange(job)),
            Self::EventGroups(job) => Arranged::EventGroups(arrange(job)),
            Self::Events(job) => Arranged::Events(arrange(job)),
            Self::Expiring(job) => Arranged::Expiring(arrange(job)),
            Self::Saves(job) => Arranged::Saves(arrange(job)),
        }
    }
}

fn row<R: Row>(job: &Job<R>, index: u32) -> Option<&R> {
    job.rows.get(usize::try_from(index).ok()?).map(|row| &**row)
}

/// What is unknown stays behind also when the order is turned round.
fn directed(a: SortKey<'_>, b: SortKey<'_>, sort: Sort) -> Ordering {
    let unknown = (a == SortKey::Missing).cmp(&(b == SortKey::Missing));
    let known = if sort.descending { b.cmp(&a) } else { a.cmp(&b) };
    unknown.then(known)
}

/// A row with the time that its ages are counted to.
struct RowAt<'a, R> {
    row: &'a R,
    now: Timestamp,
}

impl<R: Row> Fields for RowAt<'_, R> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        self.row.field(name, self.now)
    }
}
