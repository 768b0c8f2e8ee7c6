//! Pushes whose rows another session has locked: a person in an open transaction, or a program of others.
//!
//! Promises: those of one key keep their order; no more than a few sessions wait for locks, so that everything else has
//! one; each push is answered within twice the patience of a call, and as many wait as fit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::gathered::{OPERATION, Waiting, closed, push_alone, unreachable_because};
use crate::ambient::{self, timeout};
use crate::domain::event::NewEvent;
use crate::domain::time::Timestamp;
use crate::store::postgres::error::locked;
use crate::store::postgres::session::Sessions;
use crate::store::{Pushed, StoreError};

/// Sessions that wait for locks.
const SESSIONS: usize = 2;
/// Pushes that wait aside; beyond it they are refused.
const WAITING_MAX: usize = 1_024;

/// What pushes coalesce on.
type Key = (String, String, Option<Timestamp>);

/// Where they wait.
pub(super) struct Aside {
    sessions: Arc<Sessions>,
    keys: Arc<Mutex<Keys>>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Keys {
    /// Behind the push that is under way.
    behind: HashMap<Key, VecDeque<Waiting>>,
    count: usize,
}

impl Aside {
    pub(super) fn over(sessions: &Arc<Sessions>) -> Self {
        Self {
            sessions: Arc::clone(sessions),
            keys: Arc::default(),
            places: Arc::new(Semaphore::new(SESSIONS)),
        }
    }

    /// Those of `group` whose key nobody waits for here; the others wait behind those of their key.
    pub(super) fn without_locked(&self, group: Vec<Waiting>) -> Vec<Waiting> {
        let mut keys = lock(&self.keys);
        if keys.behind.is_empty() {
            return group;
        }
        let mut free = Vec::with_capacity(group.len());
        for one in group {
            let is_full = keys.count >= WAITING_MAX;
            match keys.behind.get_mut(&key(&one.event)) {
                None => free.push(one),
                Some(_) if is_full => one.answer(Err(locked(OPERATION))),
                Some(behind) => {
                    behind.push_back(one);
                    keys.count += 1;
                }
            }
        }
        free
    }

    /// Pushes each of these by itself; no other one of their keys is under way.
    pub(super) fn take(&self, these: Vec<Waiting>) {
        for one in these {
            {
                let mut keys = lock(&self.keys);
                if keys.count >= WAITING_MAX {
                    one.answer(Err(locked(OPERATION)));
                    continue;
                }
                keys.count += 1;
                keys.behind.insert(key(&one.event), VecDeque::new());
            }
            let (sessions, keys, places) = (
                Arc::clone(&self.sessions),
                Arc::clone(&self.keys),
                Arc::clone(&self.places),
            );
            drop(ambient::spawn("locked push", async move {
                push_in_order(&sessions, &keys, &places, one).await;
            }));
        }
    }
}

/// The first push of a key, then those that came behind it. What one waited for in vain, the others need not wait for.
async fn push_in_order(sessions: &Sessions, keys: &Mutex<Keys>, places: &Semaphore, first: Waiting) {
    let key = key(&first.event);
    let mut next = Some(first);
    while let Some(one) = next {
        let pushed = push_in_place(sessions, places, &one.event).await;
        let why = match &pushed {
            Err(StoreError::Unreachable { source, .. }) => Some(source.to_string()),
            Ok(_) | Err(_) => None,
        };
        // Before the answer: who pushes after it does not stand behind what is over.
        let mut behind = VecDeque::new();
        {
            let mut keys = lock(keys);
            keys.count = keys.count.saturating_sub(1);
            if why.is_some() {
                behind = keys.end(&key);
                next = None;
            } else {
                next = keys.next(&key);
            }
        }
        one.answer(pushed);
        for one in behind {
            one.answer(Err(why
                .as_deref()
                .map_or_else(|| locked(OPERATION), unreachable_because)));
        }
    }
}

async fn push_in_place(sessions: &Sessions, places: &Semaphore, event: &NewEvent) -> Result<Pushed, StoreError> {
    match timeout(sessions.patience, places.acquire()).await {
        Ok(Ok(_place)) => push_alone(sessions, event).await,
        Ok(Err(_)) => Err(closed()),
        Err(_) => Err(locked(OPERATION)),
    }
}

fn lock(keys: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keys {
    /// The next of this key, after one that was pushed.
    fn next(&mut self, key: &Key) -> Option<Waiting> {
        let next = self.behind.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.end(key);
        }
        next
    }

    /// Nobody waits for this key any more; those that did.
    fn end(&mut self, key: &Key) -> VecDeque<Waiting> {
        let behind = self.behind.remove(key).unwrap_or_default();
        self.count = self.count.saturating_sub(behind.len());
        behind
    }
}

fn key(event: &NewEvent) -> Key {
    let (event_type, reference, nbf) = event.key();
    (event_type.to_owned(), reference.to_owned(), nbf)
}
