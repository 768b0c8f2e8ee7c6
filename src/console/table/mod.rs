//! The one list: sorted, filtered, windowed, with its selection and marks by id.
//!
//! A [`Table`] holds the rows of one snapshot and their order; only the visible slice is ever made
//! into text. Small lists are arranged at once, large ones beside the screen's task: until that
//! answer comes, the list shows the rows it had. Selection and marks are ids, so a refresh moves
//! neither; a mark that the filter hides or that is gone is counted, never forgotten silently.

mod arrange;
mod choice;
mod complete;
mod cursor;
pub mod export;
mod filter;
mod filtering;
pub(super) mod key;
mod layout;
mod list;
mod marks;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

pub use self::arrange::arrange;
use self::arrange::{Arrange, OfOneList};
pub use self::choice::{ColumnChoice, ColumnInfo};
pub use self::complete::{Completion, complete};
pub use self::cursor::Cursor;
use self::export::Record;
pub use self::filter::ListFilter;
pub use self::filtering::{BeforeFilter, Filtering};
pub use self::layout::{Columns, Layout};
pub use self::list::{End, List};
pub use self::marks::{MarkCounts, Marked, Marking, Marks};
use crate::domain::filter::{Field, FieldValue, Filter};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::snapshot::Snapshot;

/// Lists up to this long are arranged at once.
pub const INLINE_MAX: usize = 2_000;

/// Something that can be a row.
pub trait Row: Debug + Send + Sync + Sized + 'static {
    /// What it is known by over all snapshots.
    type Id: Clone + Debug + Eq + Hash + Send + Sync + 'static;

    /// The columns, in the order of the screen.
    const COLUMNS: &'static [Column<Self>];

    /// The fields that a filter may name.
    const FIELDS: &'static [Field];

    /// The texts in which a bare word is looked for, where the filter is part of the question: those that can be looked
    /// up. Rows that are filtered here are looked through in all of their texts.
    const SEARCHED: &'static [&'static str] = &[];

    /// Whether the filter is part of the question that the rows answer: then they are not filtered here.
    const FILTERED_BEFORE: bool = false;

    /// The rows of a snapshot, and when they were read; `None` for a list that is fed otherwise.
    #[must_use]
    fn rows_of(_: &Snapshot) -> Option<(Arc<Vec<Arc<Self>>>, Timestamp)> {
        None
    }

    /// Why the rows of a snapshot could not be read.
    #[must_use]
    fn unread(_: &Snapshot) -> Option<&str> {
        None
    }

    /// Its id.
    fn id(&self) -> Self::Id;

    /// The order of two rows that are alike in the column that is sorted by.
    fn tie(&self, other: &Self) -> Ordering;

    /// The value of a field at this time; anything unknown is missing.
    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_>;

    /// Whether it is the sum of the other rows: other programs get those.
    fn is_sum(&self) -> bool {
        false
    }
    /// What is known of it, for other programs.
    #[must_use]
    fn record(&self, now: Timestamp) -> Record {
        export::by_fields(self, now)
    }
}

/// A column of a list.
#[derive(Clone, Copy, Debug)]
pub struct Column<R> {
    /// As in filters and in the command line's `--sort`.
    pub name: &'static str,
    /// As written above it.
    pub title: &'static str,
    /// How wide it is.
    pub width: ColumnWidth,
    /// Whether its text is on the right.
    pub right: bool,
    /// The lower, the longer it stays when the terminal is narrow (0: always).
    pub drop_rank: u8,
    /// Whether sorting by it begins with the greatest.
    pub greatest_first: bool,
    /// What a row is sorted by.
    pub key: fn(&R) -> SortKey<'_>,
}

/// What a row is sorted by in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortKey<'a> {
    /// A count, a rank or a time.
    Number(i64),
    /// A name.
    Text(&'a str),
    /// Unknown: behind all others, whichever the direction.
    Missing,
}

/// How wide a column is, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnWidth {
    /// Always this.
    Fixed(u16),
    /// A share of what is left, at least `min`.
    Fill {
        /// Its least width.
        min: u16,
        /// Its share.
        weight: u16,
    },
}

/// By which column, and in which direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// Index into [`Row::COLUMNS`].
    pub column: usize,
    /// Greatest first.
    pub descending: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub struct Table<R: Row> {
    /// The rows of the snapshot that is shown.
    pub rows: Arc<Vec<Arc<R>>>,
    /// Which of them are shown, in order: indices into `rows`.
    pub order: Arc<Vec<u32>>,
    /// When `rows` were read; `None`: never.
    pub taken_at: Option<Timestamp>,
    /// The selected row, and what is on the screen.
    pub cursor: Cursor<R::Id>,
    /// The columns, and by which of them it is sorted.
    pub layout: Layout,
    /// The marks.
    pub marks: Marks<R::Id>,
    /// The filter.
    pub filter: ListFilter,
    /// What Esc in the filter line goes back to; `None`: it is not being typed.
    pub before_filter: Option<BeforeFilter<R::Id>>,
    /// What was asked for last.
    pub asked: Asked<R>,
    /// The order of all of its rows, where they were sorted.
    pub whole: Option<Whole>,
}

/// The newest job for a list; an answer to an older one is dropped.
#[derive(Clone, Debug)]
pub struct Asked<R> {
    /// Which job of its list.
    pub ticket: u64,
    /// Its rows and when they were read, while they are being arranged.
    pub arriving: Option<(Arc<Vec<Arc<R>>>, Timestamp)>,
}

/// All rows in their order. A filter that is typed takes from it: sorting costs several times what looking at each row does.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What they are sorted by.
    pub sort: Sort,
    /// Indices of the rows.
    pub order: Arc<Vec<u32>>,
}

/// Sort and filter one list.
#[derive(Clone, Debug)]
pub struct Job<R: Row> {
    /// Which job of its list.
    pub ticket: u64,
    /// The rows of the newest snapshot.
    pub rows: Arc<Vec<Arc<R>>>,
    /// When they were read.
    pub taken_at: Timestamp,
    /// The filter.
    pub filter: Option<Filter>,
    /// The order.
    pub sort: Sort,
    /// The time for ages.
    pub now: Timestamp,
    /// These rows in this order, where they were sorted before.
    pub whole: Option<Whole>,
}

/// Sort and filter one of the lists, whatever its rows.
#[derive(Clone, Debug)]
pub struct ArrangeJob(Arc<dyn Arrange>);

/// The order that a job found, with the rows it is about.
#[derive(Clone, Debug)]
pub struct Order<R: Row> {
    /// Of which job.
    pub ticket: u64,
    /// The rows.
    pub rows: Arc<Vec<Arc<R>>>,
    /// When they were read.
    pub taken_at: Timestamp,
    /// Indices into `rows`.
    pub order: Arc<Vec<u32>>,
    /// All rows in this order, where they were sorted.
    pub whole: Option<Whole>,
}

/// What came of an [`ArrangeJob`]: the order of one of the lists.
#[derive(Clone, Debug)]
pub struct Arranged(Arc<dyn OfOneList>);

/// A retry is known by the queue whose head is tried, else by its URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RetryId {
    /// The head of this queue.
    Queue(QueueName),
    /// Whatever comes next for this URL.
    Url(EndpointUrl),
    /// Neither is known.
    Unknown,
}
