//! What the store said of an endpoint last.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::EndpointEpoch;
use crate::domain::url::EndpointUrl;

/// When the store was asked, counted in questions to it. An answer that knows less than what was known before its
/// question comes from a store that went back (docs/protocols.md 34).
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Question(u64);

impl Question {
    /// Nothing was asked: this process wrote it.
    pub(super) const WRITTEN_HERE: Self = Self(0);

    pub(super) const fn is_written_here(self) -> bool {
        self.0 == 0
    }

    /// Whether it was asked before the answer to the question of this number.
    pub(super) const fn is_before(self, number: u64) -> bool {
        self.0 <= number
    }
}

/// Questions asked of the store so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions(Arc<AtomicU64>);

impl Questions {
    /// The store is about to be asked.
    pub(super) fn next(&self) -> Question {
        Question(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(super) fn so_far(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What an answer changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Believed {
    /// This process knows better.
    No,
    /// It says the same epoch.
    SameEpoch,
    /// It says another one.
    OtherEpoch,
}

/// An endpoint as the store has it.
#[derive(Debug)]
pub(super) struct Stored {
    is_available: AtomicBool,
    epoch: AtomicI64,
    detail: Mutex<Option<Endpoint>>,
    /// When its epoch was learned, counted in questions to the store.
    learned: AtomicU64,
}

impl Default for Stored {
    /// What nobody asked about is taken as available.
    fn default() -> Self {
        Self {
            is_available: AtomicBool::new(true),
            epoch: AtomicI64::new(0),
            detail: Mutex::new(None),
            learned: AtomicU64::new(0),
        }
    }
}

impl Stored {
    pub(super) fn is_available(&self) -> bool {
        self.is_available.load(Ordering::SeqCst)
    }

    pub(super) fn epoch(&self) -> EndpointEpoch {
        EndpointEpoch(self.epoch.load(Ordering::SeqCst))
    }

    /// What was said of it, when it is not available.
    pub(super) fn detail(&self) -> Option<Endpoint> {
        lock(&self.detail).clone()
    }

    /// Takes over what the store answered to `question`, of so many so far; `None`: it does not know this endpoint.
    pub(super) fn believe(
        &self,
        url: &EndpointUrl,
        endpoint: Option<&Endpoint>,
        question: Question,
        asked: u64,
    ) -> Believed {
        let mut detail = lock(&self.detail);
        let known = self.epoch();
        let epoch = endpoint.map_or(EndpointEpoch(0), |endpoint| endpoint.epoch);
        if epoch < known {
            if question.is_before(self.learned.load(Ordering::SeqCst)) {
                return Believed::No;
            }
            tracing::warn!(url = ?url, known = known.0, found = epoch.0, "the store went back: what it says of this endpoint holds");
        }
        if epoch != known {
            self.epoch.store(epoch.0, Ordering::SeqCst);
            self.learned.store(asked, Ordering::SeqCst);
        }
        let not_available = endpoint.filter(|endpoint| endpoint.state != EndpointState::Available);
        self.is_available.store(not_available.is_none(), Ordering::SeqCst);
        *detail = not_available.cloned();
        if epoch == known {
            Believed::SameEpoch
        } else {
            Believed::OtherEpoch
        }
    }
}
