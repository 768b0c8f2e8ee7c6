//! Records of success: kept in memory and flushed every 250 ms by one writer (docs/protocols.md 18).
//!
//! Bounded while the store is away: what answers said is kept up to some bytes; beyond so many successes only the
//! newest of each queue is kept and the others are counted with it; of queues beyond that nothing is, which is a number
//! on a screen, never a message. What clears a stored head is always kept: there are no more of those than heads.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ambient::{self, HashMap};
use crate::domain::id::QueueName;
use crate::store::{StoreHandle, Success};

/// How often successes are flushed.
const FLUSH: Duration = Duration::from_millis(250);
/// Successes kept each by itself while the store is away, at most.
const BUFFER_MAX: usize = 50_000;
/// Bytes of what their answers said, at most.
const SNIPPETS_MAX: usize = 8 * 1024 * 1024;
/// Successes handed to the store at once, at most.
const BATCH_MAX: usize = 5_000;

/// Collects successes.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    waiting: Mutex<Waiting>,
}

/// What the store does not have yet, oldest first.
#[derive(Debug, Default)]
struct Waiting {
    successes: Vec<Success>,
    snippet_bytes: usize,
    /// Where the newest one of each queue is; made when it is asked for, and wrong once something was taken out.
    newest: Option<HashMap<QueueName, usize>>,
}

impl Recorder {
    /// Takes one in; never waits.
    pub(super) fn push(&self, success: Success) {
        self.lock().push(success, BUFFER_MAX);
    }

    /// Flushes until `stop`, and once more after it.
    pub(super) async fn run(&self, store: StoreHandle, stop: CancellationToken) {
        loop {
            let stopped = stop.is_cancelled();
            self.flush(&store).await;
            if stopped {
                return;
            }
            ambient::wait(&stop, FLUSH).await;
        }
    }

    /// Hands everything that waits to the store; what it did not take is kept.
    pub(super) async fn flush(&self, store: &StoreHandle) {
        self.flush_what_waits(|batch| record(store, batch)).await;
    }

    /// Hands what waits now to `record`. What comes meanwhile waits for the next time: under load there is always more,
    /// and in a batch of its own each success would be a row.
    async fn flush_what_waits<R>(&self, record: impl Fn(Vec<Success>) -> R)
    where
        R: Future<Output = Result<(), Vec<Success>>>,
    {
        let mut left = self.lock().successes.len();
        while left > 0 {
            let batch = self.lock().take(left.min(BATCH_MAX));
            if batch.is_empty() {
                break;
            }
            left -= batch.len();
            if let Err(batch) = record(batch).await {
                self.lock().put_back(batch);
                break;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The batch again, when the store did not take it.
async fn record(store: &StoreHandle, batch: Vec<Success>) -> Result<(), Vec<Success>> {
    if let Err(error) = store.successes_record(&batch).await {
        tracing::warn!(error = ?error, count = batch.len(), "successes wait for the store");
        return Err(batch);
    }
    Ok(())
}

impl Waiting {
    fn push(&mut self, mut success: Success, most: usize) {
        if self.snippet_bytes + snippet_bytes(&success) > SNIPPETS_MAX {
            success.attempt.response = None;
        }
        if self.successes.len() < most || success.settles_head.is_some() {
            self.append(success);
        } else {
            self.count(success);
        }
    }

    fn append(&mut self, success: Success) {
        self.snippet_bytes += snippet_bytes(&success);
        if let Some(newest) = &mut self.newest {
            newest.insert(success.attempt.queue.clone(), self.successes.len());
        }
        self.successes.push(success);
    }

    /// Counts it with the one that is kept of its queue: the newer of both, unless the other one clears a head.
    fn count(&mut self, success: Success) {
        let successes = &self.successes;
        let newest = self.newest.get_or_insert_with(|| {
            let place = |(place, one): (usize, &Success)| (one.attempt.queue.clone(), place);
            successes.iter().enumerate().map(place).collect()
        });
        let Some(kept) = newest
            .get(&success.attempt.queue)
            .and_then(|at| self.successes.get_mut(*at))
        else {
            return;
        };
        let counted = kept.counted + 1 + success.counted;
        if kept.settles_head.is_none() {
            self.snippet_bytes -= snippet_bytes(kept);
            self.snippet_bytes += snippet_bytes(&success);
            *kept = success;
        }
        kept.counted = counted;
    }

    fn take(&mut self, most: usize) -> Vec<Success> {
        let count = self.successes.len().min(most);
        let batch: Vec<Success> = self.successes.drain(..count).collect();
        self.snippet_bytes -= batch.iter().map(snippet_bytes).sum::<usize>();
        self.newest = None;
        batch
    }

    /// What came meanwhile stays behind it: beyond the bound by one batch, at most.
    fn put_back(&mut self, batch: Vec<Success>) {
        self.snippet_bytes += batch.iter().map(snippet_bytes).sum::<usize>();
        self.successes.splice(0..0, batch);
        self.newest = None;
    }
}

fn snippet_bytes(success: &Success) -> usize {
    success.attempt.response.as_ref().map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attempt::Attempt;
    use crate::domain::fingerprint::Fingerprint;
    use crate::domain::id::{Epoch, NotificationId};
    use crate::domain::message::Message;
    use crate::domain::outcome::OutcomeClass;
    use crate::domain::time::Timestamp;
    use crate::domain::url::EndpointUrl;

    fn success(queue: &str, id: &str, settles_head: bool, snippet: usize) -> Success {
        let attempt = Attempt {
            message_id: NotificationId::parse(id).unwrap(),
            queue: QueueName::parse(queue).unwrap(),
            url: EndpointUrl::parse("http://example.com/").unwrap(),
            number: 1,
            epoch: Epoch(1),
            started_at: Timestamp::EPOCH,
            duration_ms: 1,
            class: OutcomeClass::Delivered,
            status: Some(204),
            error: None,
            response: Some(vec![b'x'; snippet]),
            counted: true,
        };
        Success {
            attempt,
            settles_head: settles_head.then(|| Fingerprint::of(&Message::default())),
            counted: 0,
        }
    }

    fn kept(waiting: &Waiting) -> Vec<(&str, u64)> {
        let kept = |one: &'_ Success| one.counted;
        waiting
            .successes
            .iter()
            .map(|one| (one.attempt.message_id.as_str(), kept(one)))
            .collect()
    }

    #[test]
    fn beyond_the_bound_the_newest_of_each_queue_is_kept_and_the_others_are_counted() {
        let mut waiting = Waiting::default();
        for id in ["a1", "a2", "b1"] {
            waiting.push(success(&id[..1], id, false, 0), 2);
        }
        assert_eq!(
            kept(&waiting),
            [("a1", 0), ("a2", 0)],
            "a queue beyond the bound is not kept"
        );
        waiting.push(success("a", "a3", false, 0), 2);
        waiting.push(success("a", "a4", false, 0), 2);
        assert_eq!(kept(&waiting), [("a1", 0), ("a4", 2)]);
        let batch = waiting.take(1);
        waiting.push(success("b", "b2", false, 0), 2);
        waiting.put_back(batch);
        waiting.push(success("b", "b3", false, 0), 2);
        assert_eq!(kept(&waiting), [("a1", 0), ("a4", 2), ("b3", 1)]);
    }

    #[tokio::test]
    async fn what_comes_while_a_flush_is_under_way_waits_for_the_next_one() {
        let recorder = Recorder::default();
        let flushed = Mutex::new(Vec::new());
        let record = |batch: Vec<Success>| {
            flushed.lock().unwrap().push(batch.len());
            // As fast as they are written, others are delivered.
            recorder.push(success("a", "meanwhile", false, 0));
            std::future::ready(Ok(()))
        };
        for id in ["1", "2"] {
            recorder.push(success("a", id, false, 0));
        }
        recorder.flush_what_waits(record).await;
        assert_eq!(*flushed.lock().unwrap(), [2], "one statement each time");
        recorder.flush_what_waits(record).await;
        assert_eq!(*flushed.lock().unwrap(), [2, 1]);
    }

    #[test]
    fn what_clears_a_head_is_kept_however_much_waits() {
        let mut waiting = Waiting::default();
        waiting.push(success("a", "a1", false, 0), 1);
        waiting.push(success("b", "head", true, 0), 1);
        waiting.push(success("b", "b2", false, 0), 1);
        assert_eq!(kept(&waiting), [("a1", 0), ("head", 1)]);
        let batch = waiting.take(2);
        waiting.push(success("c", "c1", false, 0), 1);
        waiting.put_back(batch);
        assert_eq!(kept(&waiting), [("a1", 0), ("head", 1), ("c1", 0)]);
    }

    #[test]
    fn what_answers_said_is_kept_up_to_its_bytes() {
        let mut waiting = Waiting::default();
        let large = SNIPPETS_MAX / 2;
        for id in ["1", "2", "3"] {
            waiting.push(success("a", id, false, large), 10);
        }
        let said: Vec<bool> = waiting
            .successes
            .iter()
            .map(|one| one.attempt.response.is_some())
            .collect();
        assert_eq!(said, [true, true, false]);
        drop(waiting.take(1));
        waiting.push(success("a", "4", false, large), 10);
        assert!(waiting.successes[2].attempt.response.is_some(), "there is room again");
    }
}
