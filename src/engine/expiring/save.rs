//! Moving the messages of a queue into the store (docs/protocols.md 20): each window is durable here before it is
//! settled there, up to the number that was there at the beginning; what arrives meanwhile stays.
//!
//! Whoever dies in between leaves a save that is `taking`, with at most its last two windows in both places. Whoever
//! goes on compares those with the head of the queue and settles what is equal, so that nothing is there twice. Only
//! where messages repeat themselves in every byte nobody can tell: then a window stays in both.

use std::time::Duration;

use super::act::Who;
use super::order::{ExpiringOutcome, ExpiringResult};
use crate::ambient;
use crate::broker::{BrokerError, DeliveryTag, ListedQueue, Look, Walk, Walked};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::message::{Message, decode, encode};
use crate::engine::EngineError;
use crate::engine::death::Watched;
use crate::engine::error::chain;
use crate::engine::expiring::Saves;
use crate::store::{NewSave, SaveBegun, SaveTaken, SaveWindow, SavedMessage};
use crate::telemetry::names;

/// Messages that are kept and settled at once.
const WINDOW: usize = 1_000;
/// Bytes of them.
const WINDOW_BYTES: usize = 8 << 20;
/// Headers that count how often a message was handed out: no two looks see the same.
const COUNTED: [&str; 2] = ["x-delivery-count", "x-acquired-count"];

/// How long a save that another holds is waited for: longer than it takes to find that one dead.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Waiting for somebody who may be dead.
struct Patience {
    since: Duration,
    watched: Watched,
}

impl Patience {
    fn new(since: Duration) -> Self {
        Self {
            since,
            watched: Watched::default(),
        }
    }
}

/// What was taken out of a queue.
#[derive(Debug, Default)]
struct Taken {
    messages: u64,
    bytes: u64,
    /// Why it is not all.
    problem: Option<String>,
    /// Whether everything that was kept is surely out of its queue.
    settled: bool,
}

impl Saves {
    /// Moves what is in a queue now into the store.
    pub(super) async fn save_queue(
        &self,
        me: IncarnationId,
        queue: &QueueName,
        who: &Who,
    ) -> Result<ExpiringOutcome, EngineError> {
        let Some(listed) = self.broker.queue_detail(queue).await? else {
            return Ok(ExpiringOutcome::left(queue, "it is gone already"));
        };
        let Look::Present { ready, consumers } = self.broker.look(queue).await? else {
            return Ok(ExpiringOutcome::left(queue, "it is gone already"));
        };
        if consumers > 0 {
            return Ok(ExpiringOutcome::left(queue, "it got a consumer"));
        }
        let save = match self.begin_save(me, &listed, who).await? {
            Ok(save) => save,
            Err(why) => return Ok(ExpiringOutcome::left(queue, why)),
        };
        let taken = self.take(me, &save, &listed, ready).await;
        if taken.settled {
            self.store.save_end(&save, me).await?;
        } else if let Err(error) = self.end_left_save(me, &save).await {
            tracing::warn!(save = ?save, error = ?error, "a save that broke off is ended later");
        }
        metrics::counter!(names::MESSAGES_SAVED, "cause" => who.cause.as_str()).increment(taken.messages);
        tracing::info!(queue = ?queue, save = ?save, messages = taken.messages, cause = who.cause.as_str(), "messages are saved");
        // Its time began anew with this.
        self.store.lifetime_forget(queue).await?;
        Ok(ExpiringOutcome {
            save: (taken.messages > 0).then_some(save),
            messages: taken.messages,
            bytes: taken.bytes,
            ..ExpiringOutcome::of(
                queue.clone(),
                taken.problem.map_or(ExpiringResult::Saved, ExpiringResult::Left),
            )
        })
    }

    /// The id of a new save, or why there is none. What a dead one left is ended first.
    async fn begin_save(
        &self,
        me: IncarnationId,
        listed: &ListedQueue,
        who: &Who,
    ) -> Result<Result<String, String>, EngineError> {
        let arguments: serde_json::Map<String, serde_json::Value> = listed
            .arguments
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::Value::from(value.as_str())))
            .collect();
        let new = NewSave {
            id: ambient::new_id(),
            queue: listed.name.clone(),
            arguments: serde_json::Value::Object(arguments).to_string(),
            cause: who.cause,
            actor: who.actor.clone(),
            reason: who.reason.clone(),
            keep_for: self.settings.discard_keep,
            owner: me,
        };
        let mut patience = Patience::new(self.clock.uptime());
        loop {
            match self.store.save_begin(&new).await? {
                SaveBegun::Begun => return Ok(Ok(new.id)),
                SaveBegun::Left(left) => self.end_left_save(me, &left).await?,
                SaveBegun::Busy if self.is_patient(me, &mut patience).await? => {}
                SaveBegun::Busy => return Ok(Err("somebody else takes its messages at present".to_owned())),
            }
        }
    }

    /// Takes a save; one who died with it is found dead meanwhile.
    pub(super) async fn take_save(&self, me: IncarnationId, save: &str) -> Result<SaveTaken, EngineError> {
        let mut patience = Patience::new(self.clock.uptime());
        loop {
            let taken = self.store.save_take(save, me).await?;
            if !matches!(taken, SaveTaken::Busy) || !self.is_patient(me, &mut patience).await? {
                return Ok(taken);
            }
        }
    }

    /// Waits a moment and looks who is dead; false when it waited for long enough to know.
    async fn is_patient(&self, me: IncarnationId, patience: &mut Patience) -> Result<bool, EngineError> {
        if self.clock.uptime().saturating_sub(patience.since) > PATIENCE {
            return Ok(false);
        }
        let all = self.store.incarnations_living().await?;
        if self.find_dead(me, &all, &mut patience.watched).await.is_empty() {
            ambient::sleep(PAUSE).await;
        }
        Ok(true)
    }

    async fn take(&self, me: IncarnationId, save: &str, listed: &ListedQueue, limit: u64) -> Taken {
        let mut taken = Taken {
            settled: true,
            ..Taken::default()
        };
        let mut walk = match self.walk_in_order(me, &listed.name).await {
            Ok(Some(walk)) => walk,
            Ok(None) => {
                taken.problem = Some("it is gone already".to_owned());
                return taken;
            }
            Err(error) => {
                taken.problem = Some(chain(&error));
                return taken;
            }
        };
        if let Err(problem) = self.take_windows(me, save, &mut *walk, limit, &mut taken).await {
            taken.problem = Some(problem);
        }
        if let Err(error) = walk.close().await {
            taken.settled = taken.messages == 0;
            taken.problem.get_or_insert_with(|| chain(&error));
        }
        taken
    }

    async fn take_windows(
        &self,
        me: IncarnationId,
        save: &str,
        walk: &mut dyn Walk,
        limit: u64,
        taken: &mut Taken,
    ) -> Result<(), String> {
        for number in 0.. {
            let left = usize::try_from(limit.saturating_sub(taken.messages)).unwrap_or(usize::MAX);
            let (window, stop) = window(walk, taken.messages, left.min(WINDOW)).await;
            if window.is_empty() {
                return stop.map_or(Ok(()), Err);
            }
            let tags: Vec<DeliveryTag> = window.iter().map(|(tag, _)| *tag).collect();
            let messages: Vec<SavedMessage> = window
                .into_iter()
                .map(|(_, message)| SavedMessage {
                    window: number,
                    ..message
                })
                .collect();
            let (count, bytes) = (messages.len() as u64, messages.iter().map(|one| one.bytes).sum::<u64>());
            // From here on it may be in both places.
            taken.settled = false;
            match self.store.save_keep(save, me, &SaveWindow { number, messages }).await {
                Ok(true) => {}
                Ok(false) => return Err("this process was taken for dead: run the command again".to_owned()),
                Err(error) => return Err(chain(&error)),
            }
            taken.messages += count;
            taken.bytes += bytes;
            walk.settle(&tags).await.map_err(|error| chain(&error))?;
            taken.settled = true;
            if let Some(why) = stop {
                return Err(why);
            }
        }
        Ok(())
    }

    /// Ends what a dead one left in the middle: the messages of its last windows that are still at the head of their
    /// queue are settled there.
    pub(super) async fn end_left_save(&self, me: IncarnationId, save: &str) -> Result<(), EngineError> {
        let record = match self.take_save(me, save).await? {
            SaveTaken::Taken(record) => record,
            SaveTaken::Missing => return Ok(()),
            SaveTaken::Busy => {
                return Err(EngineError::Refused {
                    why: format!("save {save:?} is worked on by another process"),
                });
            }
        };
        let last = self.store.saved_last(save).await?;
        if !last.is_empty() {
            let settled = self.settle_again(me, &record.queue, &last).await?;
            tracing::info!(save = ?save, queue = ?record.queue, settled, "a save that broke off is ended");
        }
        self.store.save_end(save, me).await?;
        Ok(())
    }

    async fn settle_again(
        &self,
        me: IncarnationId,
        queue: &QueueName,
        last: &[SavedMessage],
    ) -> Result<usize, EngineError> {
        let Some(mut walk) = self.walk_in_order(me, queue).await? else {
            return Ok(0);
        };
        let settled = self.settle_equal(&mut *walk, last).await;
        let closed = walk.close().await;
        let settled = settled?;
        closed?;
        Ok(settled)
    }

    /// Walks a queue as `me`, such that what is given back keeps its order.
    async fn walk_in_order(&self, me: IncarnationId, queue: &QueueName) -> Result<Option<Box<dyn Walk>>, EngineError> {
        let cost = self.looks.cost_of(queue).await?;
        Ok(self.walk_as(me, queue, cost.walk()).await?)
    }

    async fn settle_equal(&self, walk: &mut dyn Walk, last: &[SavedMessage]) -> Result<usize, BrokerError> {
        let mut head: Vec<Walked> = Vec::new();
        while head.len() < last.len() {
            let walked = walk.next(last.len() - head.len()).await?;
            if walked.is_empty() {
                break;
            }
            head.extend(walked);
        }
        // Only what somebody had before can be what was kept.
        let had = if self.lifetimes.tells_exactly() {
            head.len()
        } else {
            head.iter().take_while(|one| one.redelivered).count()
        };
        let seen: Vec<Option<Vec<u8>>> = head
            .iter()
            .take(had)
            .map(|one| comparable(one.message.clone()))
            .collect();
        let kept: Vec<(u64, Option<Vec<u8>>)> = last
            .iter()
            .map(|one| (one.window, decode(&one.message).and_then(comparable)))
            .collect();
        let count = equal(&seen, &kept);
        let tags: Vec<DeliveryTag> = head.iter().take(count).map(|one| one.tag).collect();
        if !tags.is_empty() {
            walk.settle(&tags).await?;
        }
        Ok(count)
    }
}

/// The next messages, as many as are kept at once, and why there are no more.
async fn window(walk: &mut dyn Walk, first: u64, want: usize) -> (Vec<(DeliveryTag, SavedMessage)>, Option<String>) {
    let (mut window, mut bytes) = (Vec::new(), 0);
    while window.len() < want && bytes < WINDOW_BYTES {
        let walked = match walk.next(want - window.len()).await {
            Ok(walked) if walked.is_empty() => break,
            Ok(walked) => walked,
            // What is in hand cannot be settled any more.
            Err(error) => return (Vec::new(), Some(chain(&error))),
        };
        for one in walked {
            let size = one.message.body.len();
            let Some(message) = encode(&one.message).filter(|_| one.message.is_whole()) else {
                let why = "a message of it cannot be kept as it is: its headers are nested too deeply, or too large";
                return (window, Some(why.to_owned()));
            };
            bytes += size;
            let message = SavedMessage {
                place: first + window.len() as u64,
                window: 0,
                message,
                bytes: size as u64,
                exchange: one.exchange,
                routing_key: one.routing_key,
            };
            window.push((one.tag, message));
        }
    }
    (window, None)
}

/// Without what changes with each look.
fn comparable(mut message: Message) -> Option<Vec<u8>> {
    message.headers.retain(|(name, _)| !COUNTED.contains(&name.as_str()));
    encode(&message)
}

/// How many messages at the head of the queue are the last ones that were kept: the last two windows, the last one,
/// or none. Messages that repeat themselves prove nothing: what comes next may be the same once more.
fn equal(seen: &[Option<Vec<u8>>], kept: &[(u64, Option<Vec<u8>>)]) -> usize {
    let last_window = kept.last().map_or(0, |(window, _)| *window);
    let from_last = kept.iter().position(|(window, _)| *window == last_window).unwrap_or(0);
    for from in [0, from_last] {
        let expected = &kept[from..];
        let same = seen.len() >= expected.len()
            && expected
                .iter()
                .zip(seen)
                .all(|((_, kept), seen)| kept.is_some() && kept == seen);
        if same && !repeats(kept) && !repeats(expected) {
            return expected.len();
        }
    }
    0
}

/// Whether it is one sequence several times over.
fn repeats(kept: &[(u64, Option<Vec<u8>>)]) -> bool {
    let is_period = |period: usize| kept.iter().zip(&kept[period..]).all(|(one, next)| one.1 == next.1);
    (1..=kept.len() / 2).any(is_period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<Option<Vec<u8>>> {
        text.bytes().map(|byte| Some(vec![byte])).collect()
    }

    fn kept(windows: &[&str]) -> Vec<(u64, Option<Vec<u8>>)> {
        (0..)
            .zip(windows)
            .flat_map(|(window, text)| bytes(text).into_iter().map(move |one| (window, one)))
            .collect()
    }

    #[test]
    fn what_is_still_at_the_head_is_recognised_and_nothing_else() {
        assert_eq!(equal(&bytes("abcdx"), &kept(&["ab", "cd"])), 4);
        assert_eq!(equal(&bytes("cdxyz"), &kept(&["ab", "cd"])), 2);
        assert_eq!(equal(&bytes("cx"), &kept(&["ab", "cd"])), 0);
        assert_eq!(equal(&bytes("c"), &kept(&["ab", "cd"])), 0, "a window goes as one");
        assert_eq!(equal(&bytes(""), &kept(&["ab", "cd"])), 0);
        assert_eq!(equal(&bytes("ax"), &kept(&["a"])), 1);
    }

    #[test]
    fn messages_that_are_all_alike_prove_nothing() {
        assert_eq!(equal(&bytes("aaaa"), &kept(&["aa"])), 0);
        assert_eq!(equal(&bytes("aaaa"), &kept(&["bb", "aa"])), 0);
    }

    #[test]
    fn messages_that_repeat_themselves_prove_nothing_either() {
        assert_eq!(
            equal(&bytes("abab"), &kept(&["abab"])),
            0,
            "the next ones look the same"
        );
        assert_eq!(equal(&bytes("abcabc"), &kept(&["abc", "abc"])), 0);
        assert_eq!(equal(&bytes("abax"), &kept(&["xx", "aba"])), 3);
    }
}
