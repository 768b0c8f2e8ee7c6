//! What this process cannot read at present, each source for itself, and since when.
//!
//! A list that lacks something says what, so that nothing unread passes for nothing at all.

use std::error::Error;

use super::error::chain;
use super::view::{Source, Unread};
use super::{Engine, EngineError, core::Core};
use crate::broker::BrokerError;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;

/// Why less is known of a queue than is in it: a quorum queue keeps the order of so many messages only.
pub(super) const CUT: &str = "there are more messages than can be looked at in one go";
/// Sources whose first failure is remembered, at most.
const REMEMBERED_MAX: usize = 1_000;

/// What is said of a queue that was read in part.
pub(super) fn cut_off(queue: &QueueName, now: Timestamp) -> Unread {
    Unread {
        source: Source::Queue(queue.clone()),
        reason: CUT.to_owned(),
        since: now,
    }
}

impl Core {
    /// Where the listing of queues comes from.
    pub(super) fn listing_source(&self) -> Source {
        if self.broker.is_embedded() {
            Source::Broker
        } else {
            Source::Management
        }
    }

    /// It was read.
    pub(super) fn is_read(&self, source: &Source) {
        self.seen.sources.failing().remove(source);
    }

    /// It could not be read, and since when it is so.
    pub(super) fn unread(&self, source: Source, error: &dyn Error) -> Unread {
        let now = self.clock.now();
        let mut failing = self.seen.sources.failing();
        let since = failing.get(&source).copied().unwrap_or(now);
        if failing.len() < REMEMBERED_MAX {
            failing.insert(source.clone(), since);
        }
        Unread {
            source,
            reason: chain(error),
            since,
        }
    }

    /// A listing without which there is no answer: it was not read, unless the login is wrong, which somebody has to mend
    /// first.
    pub(super) fn listed<T>(&self, read: Result<T, BrokerError>) -> Result<T, EngineError> {
        let source = self.listing_source();
        match read {
            Ok(read) => {
                self.is_read(&source);
                Ok(read)
            }
            Err(error @ BrokerError::Login { .. }) => Err(error.into()),
            Err(error) => Err(EngineError::Unread(Box::new(self.unread(source, &error)))),
        }
    }
}

impl Engine {
    /// What a failed question lacks, where it failed because something cannot be read.
    ///
    /// # Errors
    /// The error itself, where it says something else.
    pub fn unread(&self, error: EngineError) -> Result<Unread, EngineError> {
        match error {
            EngineError::Unread(unread) => Ok(*unread),
            EngineError::Broker(error) => Ok(self.0.unread(Source::Broker, &error)),
            EngineError::Store(error) => Ok(self.0.unread(Source::Store, &error)),
            other @ (EngineError::Invalid { .. }
            | EngineError::InvalidPolicy(_)
            | EngineError::RefusedUrl { .. }
            | EngineError::NotFound { .. }
            | EngineError::Expired { .. }
            | EngineError::Refused { .. }
            | EngineError::OtherOwner { .. }
            | EngineError::Unconfirmed { .. }
            | EngineError::TooLarge { .. }
            | EngineError::Busy { .. }) => Err(other),
        }
    }
}
