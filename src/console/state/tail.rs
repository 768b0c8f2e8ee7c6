//! Attempts as they are made: the newest of the log are asked for again and again, and what is new among them is kept.
//!
//! Bounded: [`ROWS_MAX`] attempts are kept, the newest. So few are asked for that most of an answer is new, and at once many
//! more when all of it is: what is over the most that one look gives is said, not hidden. What the rules of the
//! configuration mask is masked before it is kept.

use std::collections::HashSet;
use std::sync::Arc;

use crate::console::state::feed::{FedList, FedRows, Feed, Listing, Progress};
use crate::console::state::heat::Zoom;
use crate::console::table::{ArrangeJob, Layout, List};
use crate::domain::id::{Epoch, NotificationId, QueueName};
use crate::domain::mask::MaskRules;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::view::AttemptView;

/// Attempts that are kept.
pub const ROWS_MAX: usize = 2_000;
/// So many are asked for: the first where few are made, the last where very many are.
const LOOKS: [u32; 3] = [50, 200, 1_000];
/// Which of them at first.
const FIRST_LOOK: usize = 1;

/// Whose attempts are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Those of a queue.
    Queue(QueueName),
    /// Those of an endpoint.
    Url(EndpointUrl),
}

/// The attempts as they are made.
#[derive(Clone, Debug)]
pub struct TailView {
    /// They, with how they are fed.
    pub fed: FedList<AttemptView>,
    /// Whose; `None`: everybody's.
    pub of: Option<Followed>,
    /// They are shown as a map; `None`: as a list.
    pub zoom: Option<Zoom>,
    /// What is masked in errors and answers.
    pub mask: Arc<MaskRules>,
    /// Which of [`LOOKS`] is asked for.
    look: usize,
}

/// One attempt among all: a message is tried again under another lease with the same number.
type Key<'a> = (&'a NotificationId, u32, Epoch, Timestamp);

const fn key(attempt: &AttemptView) -> Key<'_> {
    (&attempt.message_id, attempt.number, attempt.epoch, attempt.started_at)
}

/// When its end was known, which is when it is seen.
#[must_use]
pub fn ended_at(attempt: &AttemptView) -> Timestamp {
    attempt
        .started_at
        .plus(std::time::Duration::from_millis(attempt.duration_ms))
}

impl Default for TailView {
    fn default() -> Self {
        Self {
            fed: FedList::default(),
            of: None,
            zoom: None,
            mask: Arc::new(MaskRules::usual()),
            look: FIRST_LOOK,
        }
    }
}

impl Followed {
    /// For a question, as one word.
    #[must_use]
    pub fn written(&self) -> String {
        match self {
            Self::Queue(name) => format!("queue {}", name.as_str()),
            Self::Url(url) => format!("url {}", url.as_str()),
        }
    }

    /// From a question.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("queue", name) => QueueName::parse(name).ok().map(Self::Queue),
            ("url", url) => EndpointUrl::parse(url).ok().map(Self::Url),
            _ => None,
        }
    }
}

impl TailView {
    /// How many of the newest are asked for.
    #[must_use]
    pub fn limit(&self) -> u32 {
        LOOKS.get(self.look).copied().unwrap_or(LOOKS[FIRST_LOOK])
    }

    /// Follows these from now on; filter, order and columns stay.
    pub(in crate::console) fn follow(&mut self, of: Option<Followed>, page: usize) {
        if self.of == of {
            return;
        }
        let mut fed: FedList<AttemptView> = FedList::default();
        fed.table.set_page(page);
        fed.table.filter = self.fed.table.filter.clone();
        fed.table.layout = Layout {
            column_offset: 0,
            ..self.fed.table.layout.clone()
        };
        (self.fed, self.of, self.look) = (fed, of, FIRST_LOOK);
    }

    /// What is new in an answer, masked, before what was kept.
    fn merged(&self, answer: &[Arc<AttemptView>]) -> (usize, Vec<Arc<AttemptView>>) {
        let kept = &self.fed.table.rows;
        let known: HashSet<Key<'_>> = kept.iter().map(|row| key(row)).collect();
        let new = answer.iter().filter(|row| !known.contains(&key(row)));
        let mut rows: Vec<Arc<AttemptView>> = new.map(|row| Arc::new(self.masked(row))).collect();
        let fresh = rows.len();
        rows.extend(kept.iter().cloned());
        rows.sort_by_key(|row| std::cmp::Reverse(ended_at(row)));
        rows.truncate(ROWS_MAX);
        (fresh, rows)
    }

    fn masked(&self, attempt: &AttemptView) -> AttemptView {
        let mut attempt = attempt.clone();
        attempt.error = attempt.error.map(|error| self.mask.text(&error).value.into_owned());
        attempt.response = attempt.response.map(|body| self.mask.body(&body).value.into_owned());
        attempt
    }

    /// How many are asked for next, by how many of an answer were new.
    fn pace(&mut self, fresh: usize, of: usize, is_first: bool) {
        let many = usize::try_from(self.limit()).unwrap_or(usize::MAX);
        let all_new = fresh >= many && of >= many && !is_first;
        let says = "more attempts than one look gives: some are not shown";
        self.fed.feed.progress = (all_new && self.look + 1 == LOOKS.len()).then(|| Progress::Says(says.to_owned()));
        if fresh.saturating_mul(2) > many {
            self.look = (self.look + 1).min(LOOKS.len() - 1);
        } else if fresh.saturating_mul(8) < many {
            self.look = self.look.saturating_sub(1);
        }
    }
}

impl Listing for TailView {
    fn list(&self) -> &dyn List {
        &self.fed.table
    }

    fn list_mut(&mut self) -> &mut dyn List {
        &mut self.fed.table
    }

    fn feed(&self) -> Option<&Feed> {
        Some(&self.fed.feed)
    }

    fn feed_mut(&mut self) -> Option<&mut Feed> {
        Some(&mut self.fed.feed)
    }

    fn take(&mut self, rows: &FedRows, taken_at: Timestamp, now: Timestamp) -> Option<ArrangeJob> {
        let batch = rows.batch::<AttemptView>()?;
        let is_first = self.fed.table.taken_at.is_none();
        let (fresh, merged) = self.merged(&batch.rows);
        self.pace(fresh, batch.rows.len(), is_first);
        // Rows that are as they were need no new order, unless their ages are filtered by.
        let rows = if fresh == 0 {
            Arc::clone(&self.fed.table.rows)
        } else {
            Arc::new(merged)
        };
        self.fed.table.submit(rows, taken_at, now)
    }

    fn grow(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::state::feed::Batch;
    use crate::domain::outcome::OutcomeClass;

    fn attempt(second: i64, number: u32) -> Arc<AttemptView> {
        Arc::new(AttemptView {
            message_id: NotificationId::parse(&format!("m-{second}")).unwrap(),
            queue: QueueName::parse("q").unwrap(),
            url: EndpointUrl::parse("http://receiver.example/").unwrap(),
            number,
            epoch: Epoch::default(),
            started_at: Timestamp::from_seconds(second),
            duration_ms: 1,
            class: OutcomeClass::Failed,
            status: Some(503),
            error: Some("password=hunter2 was refused".to_owned()),
            response: Some(br#"{"password":"hunter2"}"#.to_vec()),
            counted: true,
        })
    }

    fn answered(tail: &mut TailView, seconds: std::ops::Range<i64>) {
        let rows: Vec<_> = seconds.rev().map(|second| attempt(second, 1)).collect();
        let now = Timestamp::from_seconds(1_000_000);
        assert!(tail.take(&Batch::new(rows, false).into(), now, now).is_none());
    }

    #[test]
    fn what_comes_again_is_kept_once_and_the_newest_stands_first() {
        let mut tail = TailView::default();
        answered(&mut tail, 0..10);
        answered(&mut tail, 5..12);
        let seconds: Vec<i64> = tail
            .fed
            .table
            .shown_rows()
            .map(|row| row.started_at.seconds())
            .collect();
        assert_eq!(seconds, (0..12).rev().collect::<Vec<_>>());
    }

    #[test]
    fn however_long_it_is_followed_no_more_than_the_bound_is_kept() {
        let mut tail = TailView::default();
        for look in 0..10 {
            answered(&mut tail, look * 900..(look + 1) * 900);
        }
        assert_eq!(tail.fed.table.rows.len(), ROWS_MAX);
        let newest = tail.fed.table.rows.first().map(|row| row.started_at.seconds());
        assert_eq!(newest, Some(8_999));
    }

    #[test]
    fn the_more_is_new_the_more_is_asked_for_and_what_is_over_the_most_is_said() {
        let mut tail = TailView::default();
        answered(&mut tail, 0..200);
        assert_eq!(tail.limit(), 1_000);
        answered(&mut tail, 10_000..11_000);
        assert!(matches!(tail.fed.feed.progress, Some(Progress::Says(_))));
        for look in 0..3 {
            answered(&mut tail, 10_001 + look..11_001 + look);
        }
        assert_eq!((tail.limit(), &tail.fed.feed.progress), (50, &None));
    }

    #[test]
    fn a_credential_in_an_answer_is_not_kept() {
        let mut tail = TailView::default();
        answered(&mut tail, 0..1);
        let kept = format!("{:?}", tail.fed.table.rows);
        let response = tail.fed.table.rows[0].response.clone().unwrap();
        assert!(!String::from_utf8_lossy(&response).contains("hunter2"), "{kept}");
    }

    #[test]
    fn another_object_begins_anew_with_the_same_filter() {
        let mut tail = TailView::default();
        tail.list_mut().filter_write("outcome = failed");
        answered(&mut tail, 0..10);
        tail.follow(Some(Followed::Queue(QueueName::parse("q").unwrap())), 20);
        assert!(tail.fed.table.rows.is_empty());
        assert_eq!(tail.list().filter().text, "outcome = failed");
        let of = tail.of.as_ref().map(|of| Followed::read(&of.written()));
        assert_eq!(of, Some(tail.of.clone()));
    }
}
