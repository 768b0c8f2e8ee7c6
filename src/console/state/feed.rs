//! Lists that come from a query of their own, and only while they are in front.
//!
//! What the shared snapshot does not have (dead letters, policies, runs, the audit) is asked for when its
//! list is shown, again at the pace of the refresh as long as it stays, and not at all otherwise. One
//! question of all of them is under way at a time, and another one replaces it. A long list is asked for
//! in pages: more of it when the selection nears the end.

use std::any::Any;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::console::table::{ArrangeJob, List, Row, Table};
use crate::domain::time::Timestamp;
use crate::engine::EngineHandle;

/// Rows that are asked for at first, and so many more each time the selection nears the end.
pub const PAGE: u32 = 500;
/// Rows of a list, at most: what is behind is found by a filter.
pub const ROWS_MAX: u32 = 20_000;
/// A question that has not answered for so long is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// A list is looked for at most this share of the time: one part looking, so many parts waiting.
const WAITS_TO_LOOKS: u32 = 4;
/// No list waits longer than this for the next look, or than the last one took.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Where the rows of a list come from.
#[derive(Debug)]
pub struct Source {
    /// What it is called; no two are called alike.
    pub name: &'static str,
    /// It is not asked more often, however fast the screen is refreshed.
    pub every_min: Duration,
    /// Asks for the rows.
    pub ask: fn(EngineHandle, FeedQuery) -> Asking,
}

/// The rows of a question, or why there are none (from outside).
pub type Asking = Pin<Box<dyn Future<Output = Result<FedRows, String>> + Send>>;

/// What is asked for a list.
#[derive(Clone, Debug)]
pub struct FeedQuery {
    /// Of whom.
    pub source: &'static Source,
    /// Only what belongs to this, by its name: a group, an event type.
    pub of: Option<String>,
    /// Only those that match this expression.
    pub filter: Option<String>,
    /// At most this many; all without.
    pub limit: Option<u32>,
}

impl PartialEq for FeedQuery {
    fn eq(&self, other: &Self) -> bool {
        let key = |query: &Self| (query.source.name, query.of.clone(), query.filter.clone(), query.limit);
        key(self) == key(other)
    }
}

impl Eq for FeedQuery {}

impl FeedQuery {
    /// Everything that the source has.
    #[must_use]
    pub const fn all(source: &'static Source) -> Self {
        Self {
            source,
            of: None,
            filter: None,
            limit: None,
        }
    }

    /// At most this many.
    #[must_use]
    pub const fn first(source: &'static Source, limit: u32) -> Self {
        Self {
            source,
            of: None,
            filter: None,
            limit: Some(limit),
        }
    }

    /// How often it is asked at most.
    fn pace(&self, refresh: Duration) -> Duration {
        refresh.max(self.source.every_min)
    }

    /// How many rows at most.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(ROWS_MAX)
    }
}

/// What came of a question.
#[derive(Clone, Debug)]
pub struct Fed {
    /// Which.
    pub query: FeedQuery,
    /// When it was answered.
    pub taken_at: Timestamp,
    /// The rows, or why there are none (from outside).
    pub rows: Result<FedRows, String>,
}

/// The rows of one of the lists.
#[derive(Clone, Debug)]
pub struct FedRows(Arc<dyn OfOneList>);

/// Rows, whatever they are.
trait OfOneList: Any + Debug + Send + Sync {}

impl<R: Row> OfOneList for Batch<R> {}

impl<R: Row> From<Batch<R>> for FedRows {
    fn from(batch: Batch<R>) -> Self {
        Self(Arc::new(batch))
    }
}

impl FedRows {
    /// The rows, where they are of this kind.
    #[must_use]
    pub fn batch<R: Row>(&self) -> Option<&Batch<R>> {
        let batch: &dyn Any = &*self.0;
        batch.downcast_ref()
    }
}

/// How far what the rows were read from is itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// What is being looked through and not finished, or cannot be; safe to show.
    Says(String),
    /// It was looked through then.
    AsOf(Timestamp),
}

/// Rows, as far as they were asked for.
#[derive(Clone, Debug)]
pub struct Batch<R> {
    /// The rows.
    pub rows: Arc<Vec<Arc<R>>>,
    /// Whether there are more.
    pub more: bool,
    /// How far what they were read from is itself, where that is not when they were read.
    pub progress: Option<Progress>,
    /// What could not be read, so that there may be more rows (from outside).
    pub lacks: Option<String>,
}

impl<R> Batch<R> {
    /// Rows that are as new as their answer.
    #[must_use]
    pub fn new(rows: Vec<Arc<R>>, more: bool) -> Self {
        Self {
            rows: Arc::new(rows),
            more,
            progress: None,
            lacks: None,
        }
    }
}

/// A list with how it is fed, whatever its rows.
pub trait Listing {
    /// The list.
    fn list(&self) -> &dyn List;
    /// The list, to be changed.
    fn list_mut(&mut self) -> &mut dyn List;
    /// How it is fed; `None` for one that the snapshot has.
    fn feed(&self) -> Option<&Feed>;
    /// How it is fed, to be changed.
    fn feed_mut(&mut self) -> Option<&mut Feed>;
    /// Takes the rows that were asked for, where they are this list's.
    fn take(&mut self, rows: &FedRows, taken_at: Timestamp, now: Timestamp) -> Option<ArrangeJob>;
    /// Asks for more rows from now on when the selection nears the end of those that are there.
    fn grow(&mut self);
}

impl<R: Row> Listing for Table<R> {
    fn list(&self) -> &dyn List {
        self
    }

    fn list_mut(&mut self) -> &mut dyn List {
        self
    }

    fn feed(&self) -> Option<&Feed> {
        None
    }

    fn feed_mut(&mut self) -> Option<&mut Feed> {
        None
    }

    fn take(&mut self, _: &FedRows, _: Timestamp, _: Timestamp) -> Option<ArrangeJob> {
        None
    }

    fn grow(&mut self) {}
}

impl<R: Row> Listing for FedList<R> {
    fn list(&self) -> &dyn List {
        &self.table
    }

    fn list_mut(&mut self) -> &mut dyn List {
        &mut self.table
    }

    fn feed(&self) -> Option<&Feed> {
        Some(&self.feed)
    }

    fn feed_mut(&mut self) -> Option<&mut Feed> {
        Some(&mut self.feed)
    }

    fn take(&mut self, rows: &FedRows, taken_at: Timestamp, now: Timestamp) -> Option<ArrangeJob> {
        let batch = rows.batch::<R>()?;
        self.feed.more = batch.more;
        self.feed.progress.clone_from(&batch.progress);
        self.feed.lacks.clone_from(&batch.lacks);
        self.table.submit(Arc::clone(&batch.rows), taken_at, now)
    }

    fn grow(&mut self) {
        let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let near_the_end = self.table.cursor.place.saturating_add(page / 2) >= self.table.len();
        if self.feed.more && self.feed.asked.is_none() && near_the_end {
            self.feed.limit = self.feed.limit.saturating_add(PAGE).min(ROWS_MAX);
        }
    }
}

/// A list with how it is fed.
#[derive(Clone, Debug)]
pub struct FedList<R: Row> {
    /// The list.
    pub table: Table<R>,
    /// How it is fed.
    pub feed: Feed,
}

/// How a list is fed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The question under way, and since when.
    pub asked: Option<(FeedQuery, Timestamp)>,
    /// Something was changed since it was asked: its answer may be from before that.
    pub asks_again: bool,
    /// The question that was answered last, and when.
    pub answered: Option<(FeedQuery, Timestamp)>,
    /// How long that took.
    pub took: Duration,
    /// Why it has no answer (from outside); the rows are those of before.
    pub problem: Option<String>,
    /// Whether there are more rows than were asked for.
    pub more: bool,
    /// How far what they were read from is itself, where that is not when they were read.
    pub progress: Option<Progress>,
    /// What the last answer lacks, because it could not be read (from outside).
    pub lacks: Option<String>,
    /// Rows to ask for.
    pub limit: u32,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            asked: None,
            asks_again: false,
            answered: None,
            took: Duration::ZERO,
            problem: None,
            more: false,
            progress: None,
            lacks: None,
            limit: PAGE,
        }
    }
}

impl Feed {
    /// When this question is due: at once when it is a new one, else a refresh after its last answer.
    #[must_use]
    pub fn due_at(&self, wanted: &FeedQuery, refresh: Duration, now: Timestamp) -> Timestamp {
        match (&self.asked, &self.answered) {
            (Some((asked, since)), _) if asked == wanted => since.plus(ASK_AGAIN_AFTER),
            (None, Some((answered, at))) if answered == wanted => {
                let share = self.took.saturating_mul(WAITS_TO_LOOKS);
                at.plus(wanted.pace(refresh).max(share.min(WAIT_MAX.max(self.took))))
            }
            (Some(_) | None, _) => now,
        }
    }

    /// Notes that it is asked.
    pub fn ask(&mut self, query: FeedQuery, now: Timestamp) {
        self.asked = Some((query, now));
        self.asks_again = false;
    }

    /// Notes an answer; false when it is to a question that is not waited for any more.
    pub fn answer(&mut self, query: &FeedQuery, now: Timestamp) -> bool {
        let Some((_, since)) = self.asked.take_if(|(asked, _)| asked == query) else {
            return false;
        };
        self.took = now.since(since);
        self.answered = (!std::mem::take(&mut self.asks_again)).then(|| (query.clone(), now));
        self.problem = None;
        true
    }

    /// Notes why the answer has no rows. It only waited for what does not answer, and says nothing of what looking costs.
    pub fn fail(&mut self, problem: String) {
        self.took = Duration::ZERO;
        self.problem = Some(problem);
    }

    /// How long after an answer the same is asked again, at least.
    #[must_use]
    pub fn pause(&self, refresh: Duration) -> Duration {
        let answered = self.answered.as_ref();
        answered.map_or(refresh, |(answered, _)| answered.pace(refresh))
    }

    /// It is due at once, or as soon as the question under way is answered.
    pub fn hurry(&mut self) {
        self.answered = None;
        self.asks_again = self.asked.is_some();
    }
}

impl<R: Row> Default for FedList<R> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            feed: Feed::default(),
        }
    }
}
