//! What the broker lists, reduced to what is shown of it.
//!
//! Measured on RabbitMQ 3.10.8 with 2,000 queues: all queues with their exact counts in one answer
//! 0.12 s; a page of 500 with statistics 0.17 s, and its counts lag by 5 s and more. So the counts come
//! from the one answer, whatever the number of queues. Only the time of the oldest message is in the
//! statistics alone: it is asked for where one page has it, or where somebody waits for a whole answer.

use super::Queues;
use super::preflight::Preflight;
use super::seen::Seen;
use super::world::Absence;
use crate::ambient::HashMap;
use crate::broker::{BrokerError, ListedQueue, WhichQueues};
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::view::Unread;

/// Queues of a page, the most that the management API gives.
const PAGE: usize = 500;

/// Of which queues the time of the oldest message is asked for, beyond those whose broker says it anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Oldest {
    /// Of all.
    Everywhere,
    /// Of all where they fit on one page, else of none.
    OnePage,
    /// Of none.
    Nowhere,
}

/// What the broker lists, as far as it could be read.
#[derive(Debug)]
pub(in crate::engine) struct Listing {
    pub(in crate::engine) seen: Vec<Seen>,
    /// Why nothing is known of any queue.
    pub(in crate::engine) unread: Option<Unread>,
    /// The user whom the broker did not let in, where that is why.
    pub(in crate::engine) wrong_login: Option<String>,
}

impl Listing {
    /// Where nothing else was read either, that there is nothing is what nobody could see.
    pub(in crate::engine) fn must_be_read(&self) -> Result<(), EngineError> {
        match (&self.wrong_login, &self.unread) {
            (Some(user), _) => Err(BrokerError::Login { user: user.clone() }.into()),
            (None, Some(unread)) => Err(EngineError::Unread(Box::new(unread.clone()))),
            (None, None) => Ok(()),
        }
    }

    /// What it means that a queue is not in it; `None`: it was read, and has no such queue.
    pub(super) fn absence(&self) -> Option<Absence> {
        let unread = self.unread.as_ref()?;
        Some(Absence::Unread(unread.reason.clone()))
    }
}

impl Queues {
    /// Everything that the broker lists, in no order.
    pub(in crate::engine) async fn seen(&self, oldest: Oldest) -> Result<Vec<Seen>, BrokerError> {
        let listed = self.broker.queues_all().await?.queues;
        Ok(self.seen_in(listed, oldest).await)
    }

    /// What was listed, with what will surprise about each queue.
    pub(in crate::engine) async fn seen_in(&self, listed: Vec<ListedQueue>, oldest: Oldest) -> Vec<Seen> {
        let listed = self.with_companions(listed);
        let preflight = self.preflight(&listed).await;
        let mut seen: Vec<Seen> = listed
            .into_iter()
            .map(|queue| self.seen_by(queue, &preflight))
            .collect();
        let unsaid = seen
            .iter()
            .any(|queue| queue.ready.is_some_and(|ready| ready > 0) && queue.oldest_at.is_none());
        let is_asked = match oldest {
            Oldest::Nowhere => false,
            Oldest::OnePage => seen.len() <= PAGE,
            Oldest::Everywhere => true,
        };
        if unsaid && is_asked {
            let oldest = self.oldest().await;
            for queue in seen.iter_mut().filter(|queue| queue.oldest_at.is_none()) {
                queue.oldest_at = oldest.get(&queue.name).copied();
            }
        }
        seen
    }

    /// A listed queue with what it is for, and what will surprise about it.
    pub(super) fn seen_by(&self, queue: ListedQueue, preflight: &Preflight) -> Seen {
        let kind = preflight.kind(self.kind_of(&queue.name), &queue.name);
        Seen {
            kind: Some(kind),
            findings: preflight.findings(kind, &queue),
            ..Seen::from(queue)
        }
    }

    /// Everything, or why it could not be read.
    pub(in crate::engine) async fn seen_if_possible(&self, oldest: Oldest) -> Listing {
        let seen = self.seen(oldest).await;
        self.listing(seen)
    }
}

impl Queues {
    /// What was read, or why it was not.
    pub(in crate::engine) fn listing(&self, seen: Result<Vec<Seen>, BrokerError>) -> Listing {
        let source = self.listing_source();
        match seen {
            Ok(seen) => {
                self.is_read(&source);
                Listing {
                    seen,
                    unread: None,
                    wrong_login: None,
                }
            }
            Err(error) => {
                tracing::warn!(error = ?error, "depths are unknown");
                Listing {
                    seen: Vec::new(),
                    unread: Some(self.unread(source, &error)),
                    wrong_login: if let BrokerError::Login { user } = error {
                        Some(user)
                    } else {
                        None
                    },
                }
            }
        }
    }

    /// When the oldest messages were published. One that cannot be asked for is not known.
    async fn oldest(&self) -> HashMap<QueueName, Timestamp> {
        let mut oldest = HashMap::default();
        let naming = &self.settings.naming;
        let mut each = |queue: ListedQueue| {
            if let Some(at) = queue.oldest_at {
                let name = naming.companion_of(&queue.name).unwrap_or(queue.name);
                let known = oldest.entry(name).or_insert(at);
                *known = at.min(*known);
            }
        };
        let read = self.broker.queues_listed(&WhichQueues::All.into(), &mut each).await;
        if let Err(error) = read {
            tracing::debug!(error = ?error, "the age of messages is unknown");
        }
        oldest
    }
}
