//! Dead letters in the store, where those are that no queue of the broker takes (docs/protocols.md 32): walked like a
//! queue, so that looks, runs, edits and exports treat them as the others.

use async_trait::async_trait;
use bytes::Bytes;

use super::{DeadDetail, DeadIndex, DeadLetters, DeadTarget, DeadTargets};
use crate::broker::{BrokerError, DeliveryTag, Walk, WalkOptions, Walked};
use crate::domain::dead_letter::{
    self, DeadLetter, DeadLetterId, DeadQueueKind, Found, HEADER_DEAD, Home, STORE, likeness,
};
use crate::domain::id::QueueName;
use crate::domain::message::{HeaderValue, Message, decode, encode};
use crate::domain::naming::QueueType;
use crate::engine::EngineError;
use crate::engine::core::Core;
use crate::engine::error::chain;
use crate::engine::publisher::Publisher;
use crate::store::{DeadRow, NewStoredLetter, StoreError, StoreHandle, StoredLetter};

/// Letters of one read; their bodies come one by one.
const PAGE: u32 = 100;
/// Bytes of bodies that a walk hands out at once; one letter may be larger.
const AT_ONCE: u64 = 8 << 20;

impl Core {
    /// Walks a queue of the broker, or the letters in the store.
    pub(in crate::engine) async fn walk_letters(
        &self,
        queue: &QueueName,
        options: WalkOptions,
    ) -> Result<Option<Box<dyn Walk>>, BrokerError> {
        match Home::of(queue) {
            Home::Broker | Home::Event => self.walk(queue, options).await,
            Home::Store => Ok(Some(Box::new(StoredWalk {
                store: StoreHandle::clone(&self.store),
                after: None,
                position: 0,
            }))),
        }
    }
}

impl DeadTargets {
    /// The store as one of the targets, while letters are in it.
    pub(super) async fn stored_target(&self) -> Result<Option<DeadTarget>, StoreError> {
        let count = self.store.stored_letters_count().await?;
        let name = QueueName::parse(STORE).ok().filter(|_| count > 0);
        Ok(name.map(|name| DeadTarget {
            kind: DeadQueueKind::Store,
            ready: Some(count),
            ..DeadTarget::named(name, QueueType::Classic)
        }))
    }
}

impl DeadLetters {
    /// A stored dead letter with everything.
    pub(super) async fn dead_stored(&self, letter: DeadLetter) -> Result<Option<DeadDetail>, EngineError> {
        let Some(stored) = self.store.stored_letter(&letter.id).await? else {
            return Ok(None);
        };
        let body = self.store.stored_letter_body(stored.place).await?;
        let message = body.and_then(|body| whole(&stored, body));
        Ok(message.map(|message| self.detailed(letter, message)))
    }
}

impl DeadIndex {
    /// Writes what is in the store into the index, without reading bodies; `None` when the claim is lost.
    pub(super) async fn write_stored(&self, target: &DeadTarget, generation: i64) -> Result<Option<u64>, EngineError> {
        let (mut after, mut seen) = (None, 0);
        loop {
            let page = self.store.stored_letters(after, PAGE).await?;
            let rows: Vec<DeadRow> = page.iter().filter_map(|stored| row(target, stored)).collect();
            seen += rows.len() as u64;
            if !self
                .store
                .dead_write(&target.name, generation, &rows, super::look::HOLD)
                .await?
            {
                return Ok(None);
            }
            after = page.last().map(|last| last.place);
            if page.len() < PAGE as usize {
                return Ok(Some(seen));
            }
        }
    }
}

impl Publisher {
    /// Keeps a dead letter, with why the broker does not take it; one that is kept already stays as it is.
    pub(in crate::engine) async fn store_letter(&self, letter: &Message, refusal: &str) -> Result<(), EngineError> {
        let mut letter = letter.clone();
        let name = format!("{HEADER_DEAD}stored-because");
        // One that is put back says why it was there first.
        if letter.header(&name).is_none() {
            letter.headers.push((name, HeaderValue::text(refusal)));
        }
        let (id, body) = (stored_id(&letter), std::mem::take(&mut letter.body));
        let message = encode(&letter).ok_or_else(|| EngineError::TooLarge {
            why: "a header of more than 4 GiB".to_owned(),
        })?;
        let kept = NewStoredLetter {
            id,
            message: message.into(),
            body,
        };
        if self.store.stored_letter_put(&kept).await? {
            tracing::warn!(letter = ?kept.id, why = ?refusal, "no queue takes a dead letter: it is kept in the store");
        }
        Ok(())
    }

    /// Whether a dead letter is in the store already.
    pub(in crate::engine) async fn is_letter_stored(&self, letter: &Message) -> Result<bool, StoreError> {
        Ok(self.store.stored_letter(&stored_id(letter)).await?.is_some())
    }
}

/// The letters in the store as a walk: whoever walks them has the claim on the name that they are indexed under.
struct StoredWalk {
    store: StoreHandle,
    after: Option<u64>,
    position: u64,
}

#[async_trait]
impl Walk for StoredWalk {
    async fn next(&mut self, limit: usize) -> Result<Vec<Walked>, BrokerError> {
        let limit = u32::try_from(limit).unwrap_or(PAGE).clamp(1, PAGE);
        let mut walked = Vec::new();
        while walked.is_empty() {
            let page = self
                .store
                .stored_letters(self.after, limit)
                .await
                .map_err(|error| failed(&error))?;
            if page.is_empty() {
                break;
            }
            let mut bytes = 0;
            for stored in page {
                if bytes > 0 && bytes + stored.bytes > AT_ONCE {
                    break;
                }
                bytes += stored.bytes;
                self.after = Some(stored.place);
                let body = self
                    .store
                    .stored_letter_body(stored.place)
                    .await
                    .map_err(|error| failed(&error))?;
                let Some(message) = body.and_then(|body| whole(&stored, body)) else {
                    continue;
                };
                self.position += 1;
                walked.push(Walked {
                    tag: DeliveryTag(stored.place),
                    position: self.position,
                    redelivered: false,
                    exchange: String::new(),
                    routing_key: STORE.to_owned(),
                    message,
                });
            }
        }
        Ok(walked)
    }

    fn is_cut(&self) -> bool {
        false
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let places: Vec<u64> = tags.iter().map(|tag| tag.0).collect();
        self.store
            .stored_letters_drop(&places)
            .await
            .map(drop)
            .map_err(|error| failed(&error))
    }

    async fn close(self: Box<Self>) -> Result<u64, BrokerError> {
        // Nothing here counts.
        Ok(0)
    }
}

fn failed(error: &StoreError) -> BrokerError {
    BrokerError::Unreachable {
        operation: "walking stored dead letters",
        detail: chain(error),
    }
}

fn stored_id(letter: &Message) -> DeadLetterId {
    DeadLetterId::new(&likeness(STORE, letter), 1)
}

fn whole(stored: &StoredLetter, body: Bytes) -> Option<Message> {
    let message = decode(&stored.message)?;
    Some(Message { body, ..message })
}

fn row(target: &DeadTarget, stored: &StoredLetter) -> Option<DeadRow> {
    let message = decode(&stored.message)?;
    let found = Found {
        queue: &target.name,
        position: stored.place,
        redelivered: false,
        message_ttl_ms: None,
        queue_expires_at: None,
    };
    let letter = dead_letter::read(&message, &likeness(STORE, &message), 1, &found);
    Some(DeadRow {
        letter: DeadLetter {
            id: stored.id.clone(),
            size_bytes: stored.bytes,
            ..letter
        },
        copy: None,
    })
}
