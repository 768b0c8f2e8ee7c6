//! Putting saved messages back: into their queue, declared again as it was where it is gone, or into another one.
//!
//! They need no binding. A job's queue is bound again by its name, as whoever publishes to it expects, and the other queues
//! of its job are declared with it, as submitting does: who connects to the job consumes all of them. What a queue of others
//! was bound to its owner knows, and the plan says that it is his.
//!
//! Published with confirms, window by window, looked after the target, and only then forgotten here
//! (docs/protocols.md 12): a crash in between puts at most one window back twice.

use std::collections::BTreeMap;
use std::time::Duration;

use super::EXPIRES;
use super::act::failed;
use super::order::{ExpiringOutcome, ExpiringResult};
use crate::broker::{Outgoing, Published};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::job::{self, JobId, JobPart};
use crate::domain::message::{Message, decode};
use crate::domain::storable::storable;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::expiring::Saves;
use crate::engine::room::{Load, warn_of_room};
use crate::store::{SaveRecord, SaveState, SaveTaken, SavedMessage};
use crate::telemetry::names;

/// Messages that are put back at once.
pub(super) const WINDOW: u32 = 500;

impl Saves {
    pub(super) async fn restore_saves(
        &self,
        saves: &[String],
        to: Option<&QueueName>,
    ) -> Result<Vec<ExpiringOutcome>, EngineError> {
        self.as_somebody("restore", |me| async move {
            let mut outcomes = Vec::with_capacity(saves.len());
            for save in saves {
                let record = match self.restorable(me, save).await? {
                    Ok(record) => record,
                    Err((queue, why)) => {
                        outcomes.push(ExpiringOutcome::left(&queue, why));
                        continue;
                    }
                };
                let restored = self.restore(me, &record, to).await;
                self.store.save_free(save, me).await?;
                outcomes.push(match restored {
                    Ok(outcome) => outcome,
                    Err(error) => failed(&record.queue, error)?,
                });
            }
            Ok(outcomes)
        })
        .await
    }

    /// The save, in our hand and ended; or its queue, and why it is left.
    async fn restorable(
        &self,
        me: IncarnationId,
        save: &str,
    ) -> Result<Result<SaveRecord, (QueueName, String)>, EngineError> {
        let missing = || EngineError::unknown_id("save", save, "expiring saves");
        let record = self.store.save_get(save).await?.ok_or_else(missing)?;
        if record.state == SaveState::Taking
            && let Err(error) = self.end_left_save(me, save).await
        {
            return Ok(Err((record.queue, chain(&error))));
        }
        match self.take_save(me, save).await? {
            SaveTaken::Taken(record) => Ok(Ok(*record)),
            SaveTaken::Busy => Ok(Err((record.queue, "another process works on it".to_owned()))),
            SaveTaken::Missing => Err(missing()),
        }
    }

    async fn restore(
        &self,
        me: IncarnationId,
        record: &SaveRecord,
        to: Option<&QueueName>,
    ) -> Result<ExpiringOutcome, EngineError> {
        let target = to.unwrap_or(&record.queue);
        match (to, job::of_queue(target.as_str())) {
            (None, Some((id, _))) => self.job_again(&id, &arguments(&record.arguments)).await?,
            (None, None) => self.declared_again(target, &arguments(&record.arguments)).await?,
            (Some(_), _) if self.broker.queue_detail(target).await?.is_none() => {
                return Ok(ExpiringOutcome::left(
                    &record.queue,
                    format!("there is no queue {:?}", target.as_str()),
                ));
            }
            (Some(_), _) => {}
        }
        // Again, as it is now: what was put back before may have filled it.
        warn_of_room(self, &BTreeMap::from([(target.clone(), load(record))])).await?;
        let mut outcome = ExpiringOutcome::of(target.clone(), ExpiringResult::Restored);
        outcome.save = Some(record.id.clone());
        loop {
            let window = self.store.saved_messages(&record.id, None, WINDOW).await?;
            if window.is_empty() {
                break;
            }
            if let Some(why) = self.put_back(me, &record.id, target, &window, &mut outcome).await? {
                outcome.result = ExpiringResult::Left(why);
                break;
            }
        }
        metrics::counter!(names::MESSAGES_RESTORED).increment(outcome.messages);
        tracing::info!(save = ?record.id, queue = ?target, messages = outcome.messages, "saved messages are put back");
        Ok(outcome)
    }

    /// All queues of a job, the result's last. They are bound also where whoever declared one died before that.
    async fn job_again(&self, id: &JobId, arguments: &[(String, String)]) -> Result<(), EngineError> {
        for part in JobPart::ALL {
            let queue = id.queue(part);
            self.declared_again(&queue, arguments).await?;
            self.broker.bind(&queue).await?;
        }
        Ok(())
    }

    /// Nothing where it is there.
    async fn declared_again(&self, queue: &QueueName, arguments: &[(String, String)]) -> Result<(), EngineError> {
        if self.broker.queue_detail(queue).await?.is_none() {
            self.broker.declare_again(queue, arguments).await?;
        }
        Ok(())
    }

    /// One window; why the rest is left.
    async fn put_back(
        &self,
        me: IncarnationId,
        save: &str,
        target: &QueueName,
        window: &[SavedMessage],
        outcome: &mut ExpiringOutcome,
    ) -> Result<Option<String>, EngineError> {
        let (mut outgoing, mut places) = (Vec::new(), Vec::new());
        let mut problem = None;
        for saved in window {
            let Some(message) = decode(&saved.message) else {
                problem = Some(format!("message {} of the save cannot be read", saved.place));
                break;
            };
            places.push((saved.place, saved.bytes));
            outgoing.push(Outgoing {
                exchange: String::new(),
                routing_key: target.as_str().to_owned(),
                message: sent(&message),
            });
        }
        let published = self.broker.publish_many(&outgoing).await;
        let mut done = Vec::new();
        for ((place, bytes), published) in places.into_iter().zip(published) {
            match published {
                Ok(Published::Accepted) => done.push((place, bytes)),
                Ok(Published::Returned) => problem = Some(format!("queue {:?} is gone", target.as_str())),
                Ok(Published::Refused(why) | Published::NotNow(why)) => problem = Some(why),
                Err(error) => problem = Some(chain(&error)),
            }
        }
        // A queue that is being deleted confirms what it loses.
        if self.broker.queue_detail(target).await?.is_none() {
            return Ok(Some(format!("queue {:?} is gone", target.as_str())));
        }
        let dropped: Vec<u64> = done.iter().map(|(place, _)| *place).collect();
        if !self.store.saved_drop(save, me, &dropped).await? {
            return Ok(Some(
                "this process was taken for dead: run the command again".to_owned(),
            ));
        }
        outcome.messages += done.len() as u64;
        outcome.bytes += done.iter().map(|(_, bytes)| bytes).sum::<u64>();
        Ok(problem)
    }
}

/// As it was, but for what a broker writes itself, and for what would lose it, or send it elsewhere too.
fn sent(message: &Message) -> Message {
    let mut message = storable(message).message;
    message
        .headers
        .retain(|(name, _)| !matches!(name.as_str(), "x-delivery-count" | "x-acquired-count"));
    message
}

/// What of a save is put back: those that were before are taken to be as large as the others.
pub(super) fn load(record: &SaveRecord) -> Load {
    Load {
        messages: record.left,
        bytes: record.bytes.saturating_mul(record.left) / record.messages.max(1),
    }
}

/// How long a queue with these saved arguments lives unused, where they say it.
pub(super) fn lifetime_in(document: &str) -> Option<Duration> {
    let arguments = arguments(document);
    let (_, millis) = arguments
        .iter()
        .find(|(name, _)| name.strip_prefix("x-") == Some(EXPIRES))?;
    millis.parse().ok().map(Duration::from_millis)
}

/// The arguments that the queue had.
fn arguments(document: &str) -> Vec<(String, String)> {
    let read: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(document);
    read.unwrap_or_default()
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::HeaderValue;

    #[test]
    fn what_is_put_back_goes_nowhere_else_and_stays() {
        let header = |name: &str| (name.to_owned(), HeaderValue::text("x"));
        let saved = Message {
            expiration: Some("1".to_owned()),
            user_id: Some("somebody".to_owned()),
            transient: true,
            reply_to: Some("answers".to_owned()),
            headers: vec![header("CC"), header("x-delivery-count"), header("mine")],
            ..Message::default()
        };
        let expected = Message {
            reply_to: Some("answers".to_owned()),
            headers: vec![header("mine")],
            ..Message::default()
        };
        assert_eq!(sent(&saved), expected);
    }
}
