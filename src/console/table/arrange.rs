//! Sorts and filters: a pure function of the rows, so that it can run anywhere.

use std::any::{Any, TypeId};
use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

use super::{ArrangeJob, Arranged, Job, Order, Row, Sort, SortKey, Whole};
use crate::domain::filter::{FieldValue, Fields};
use crate::domain::time::Timestamp;

/// Which rows are shown, and in which order.
#[must_use]
pub fn arrange<R: Row>(job: &Job<R>) -> Order<R> {
    let order = match (&job.whole, &job.filter) {
        (Some(whole), None) => Arc::clone(&whole.order),
        (Some(whole), Some(_)) => {
            let in_order = whole.order.iter().copied();
            let is_left = |index: &u32| row(job, *index).is_some_and(|row| is_shown(job, row));
            Arc::new(in_order.filter(is_left).collect())
        }
        (None, _) => Arc::new(sorted(job)),
    };
    let whole = match &job.filter {
        None => Some(Whole {
            sort: job.sort,
            order: Arc::clone(&order),
        }),
        Some(_) => job.whole.clone(),
    };
    Order {
        ticket: job.ticket,
        rows: Arc::clone(&job.rows),
        taken_at: job.taken_at,
        order,
        whole,
    }
}

/// The rows that are shown; of equal ones the first stays the first. Each is asked for its key whenever it is compared:
/// the keys of a hundred thousand rows would be the most that a refresh holds.
fn sorted<R: Row>(job: &Job<R>) -> Vec<u32> {
    let key = R::COLUMNS.get(job.sort.column).map(|column| column.key);
    let rows = (0..u32::MAX).zip(job.rows.iter());
    let shown = rows.filter(|(_, row)| is_shown(job, &***row));
    let mut order: Vec<u32> = shown.map(|(index, _)| index).collect();
    order.sort_unstable_by(|a, b| match (row(job, *a), row(job, *b)) {
        (Some(one), Some(other)) => key
            .map_or(Ordering::Equal, |key| directed(key(one), key(other), job.sort))
            .then_with(|| one.tie(other))
            .then(a.cmp(b)),
        _ => Ordering::Equal,
    });
    order
}

fn is_shown<R: Row>(job: &Job<R>, row: &R) -> bool {
    let row_at = RowAt { row, now: job.now };
    job.filter.as_ref().is_none_or(|filter| filter.matches(&row_at))
}

/// A job, whatever its rows: a type of rows has one list.
pub(super) trait Arrange: Debug + Send + Sync {
    fn run(&self) -> Arranged;
    fn list(&self) -> TypeId;
}

/// An order, whatever its rows.
pub(super) trait OfOneList: Any + Debug + Send + Sync {}

impl<R: Row> Arrange for Job<R> {
    fn run(&self) -> Arranged {
        Arranged(Arc::new(arrange(self)))
    }

    fn list(&self) -> TypeId {
        TypeId::of::<R>()
    }
}

impl<R: Row> OfOneList for Order<R> {}

impl ArrangeJob {
    pub(super) fn of<R: Row>(job: Job<R>) -> Self {
        Self(Arc::new(job))
    }

    /// Does it.
    #[must_use]
    pub fn run(&self) -> Arranged {
        self.0.run()
    }

    /// Whether both are about the same list.
    #[must_use]
    pub fn has_list_of(&self, other: &Self) -> bool {
        self.0.list() == other.0.list()
    }
}

impl Arranged {
    /// The order, where it is that of a list of these rows.
    pub(super) fn of_list<R: Row>(&self) -> Option<&Order<R>> {
        let order: &dyn Any = &*self.0;
        order.downcast_ref()
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
