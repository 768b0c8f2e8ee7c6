//! The spare connection: what is looked at and declared is asked on it.
//!
//! A refusal (404, 406) closes its channel, so what is asked has a channel to itself meanwhile; one that lived through it
//! is kept and used again, because opening and closing a channel costs a broker more than most questions do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::asks::{self, Asked, flags};
use super::dialer::{Dialer, Slot};
use super::failure::CallError;
use super::feed::{Came, Feed, Tap};
use super::frames::ShortString;
use crate::broker::{BrokerError, Look};
use crate::domain::naming::Argument;

/// What is asked at the same time, at most; each on a channel of its own.
const AT_ONCE: usize = 8;
/// Times that something is begun where the connection ends meanwhile.
const LOST_TRIES: u32 = 4;

/// The connection, opened when something is asked.
#[derive(Debug)]
pub(super) struct Spare {
    dialer: Arc<Dialer>,
    role: &'static str,
    slot: Slot<Feed>,
    places: Semaphore,
    /// Channels on which nothing is asked now.
    idle: Mutex<Vec<Tap>>,
}

impl Spare {
    /// A connection of this role.
    pub(super) fn new(dialer: Arc<Dialer>, role: &'static str) -> Self {
        Self {
            dialer,
            role,
            slot: Slot::new(),
            places: Semaphore::new(AT_ONCE),
            idle: Mutex::default(),
        }
    }

    /// Opens it, if it is not open.
    pub(super) async fn open(&self) -> Result<Arc<Feed>, BrokerError> {
        self.slot.get(Feed::open(&self.dialer, self.role)).await
    }

    pub(super) async fn close(&self) {
        self.slot.close().await;
        self.idle().clear();
    }

    /// Asks all of it at once. It may be done twice: where the connection ends before the answer, it is asked again.
    pub(super) async fn ask(&self, asked: &[Asked]) -> Result<Answer, CallError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.ask_once(asked).await {
                Err(CallError::Ended(_)) if tries < LOST_TRIES => {}
                answered => return answered,
            }
        }
    }

    /// Asks what is not known to be harmless the second time.
    pub(super) async fn ask_once(&self, asked: &[Asked]) -> Result<Answer, CallError> {
        // It is never closed.
        let _place = self.places.acquire().await;
        let tap = self.tap().await?;
        let answer = Answer {
            arguments: tap.call(asked).await?,
            got: tap.got(),
        };
        // One that something was refused on is closed, and one whose question was given up may have answers to come.
        self.idle().push(tap);
        Ok(answer)
    }

    /// An exact look.
    pub(super) async fn look(&self, queue: &ShortString) -> Result<Look, CallError> {
        match self.ask(&[asks::look(queue)]).await {
            Ok(answer) => answer.looked(),
            Err(error) if error.says_missing(queue.as_str()) => Ok(Look::Missing),
            Err(error) => Err(error),
        }
    }

    /// Whether a queue goes with its last consumer. A declaration asks it that never makes one: a new queue may not have its
    /// argument, and of one that is there the broker names the first difference, the argument last.
    pub(super) async fn is_auto_delete(&self, queue: &ShortString) -> Result<bool, CallError> {
        const NEVER: &[(&str, Argument)] = &[("x-message-ttl", Argument::Integer(-1))];
        for flags in [flags::DURABLE, flags::NONE] {
            match self.ask(&[asks::declare(queue, flags, NEVER)]).await {
                // A broker may overlook what differs of a quorum queue, which never goes so.
                Ok(_) => return Ok(false),
                Err(error) if error.differs_in("durable") => {}
                Err(error) if error.code() == Some(406) => return Ok(error.differs_in("auto_delete")),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether an exchange is there.
    pub(super) async fn exchange_stands(&self, name: &ShortString) -> Result<bool, CallError> {
        match self.ask(&[asks::exchange_look(name)]).await {
            Ok(_) => Ok(true),
            Err(error) if error.says_missing_exchange(name.as_str()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A channel on which nothing else is asked.
    async fn tap(&self) -> Result<Tap, CallError> {
        let feed = self
            .open()
            .await
            .map_err(|error| CallError::Unopened(Box::new(error)))?;
        loop {
            let kept = self.idle().pop();
            let Some(tap) = kept else {
                return feed.channel("").await;
            };
            if tap.is_on(&feed) {
                return Ok(tap);
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Tap>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a question.
#[derive(Debug)]
pub(super) struct Answer {
    /// Of the last answer.
    arguments: Vec<u8>,
    /// What was taken out of a queue, unless that was the last that was asked.
    pub(super) got: Option<Came>,
}

impl Answer {
    /// What the answer to a look says.
    pub(super) fn looked(&self) -> Result<Look, CallError> {
        asks::looked(&self.arguments)
    }
}
