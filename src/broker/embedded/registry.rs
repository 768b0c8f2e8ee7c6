//! Who in this process is attached to which queue, and what was handed out.
//!
//! The oldest attachment of a queue is the active one, the next follows when it goes: a single active
//! consumer, as the other broker has it. Between processes the engine's lease does that.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What one attachment shares with the rest of the process.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Something may be new for it: a message, its turn, its end. Keeps one permit, so nothing is missed.
    pub(super) wake: Notify,
    /// The queue was deleted.
    pub(super) cancelled: AtomicBool,
    /// Messages handed out and not settled.
    pub(super) in_hand: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Registry {
    /// The last message that was there when this process opened the file.
    opened_behind: i64,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// By the queue's id, oldest attachment first; never an empty entry.
    attached: HashMap<i64, VecDeque<Arc<Slot>>>,
    /// The last place handed out, of queues whose attachment went with unsettled messages.
    handed_out: HashMap<i64, i64>,
    /// Why the head of a queue cannot be read, until that is told.
    damaged: HashMap<i64, String>,
}

impl Registry {
    /// `opened_behind` is the last message that is in the file already.
    pub(super) fn new(opened_behind: i64) -> Self {
        Self {
            opened_behind,
            tables: Mutex::default(),
        }
    }

    /// The head of a queue cannot be read.
    pub(super) fn damage(&self, queue: i64, why: String) {
        self.lock().damaged.insert(queue, why);
    }

    /// Why the head of a queue cannot be read; told once, then it may be tried again.
    pub(super) fn damaged(&self, queue: i64) -> Option<String> {
        self.lock().damaged.remove(&queue)
    }

    /// Registers an attachment behind those that are there.
    pub(super) fn attach(&self, queue: i64) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        self.lock()
            .attached
            .entry(queue)
            .or_default()
            .push_back(Arc::clone(&slot));
        slot
    }

    /// Ends an attachment, which handed out everything up to place `handed_to`, and wakes the next one.
    pub(super) fn detach(&self, queue: i64, slot: &Arc<Slot>, handed_to: i64) {
        let mut tables = self.lock();
        if !slot.cancelled.load(Ordering::Acquire) {
            tables.remember(queue, handed_to, slot);
        }
        let Some(slots) = tables.attached.get_mut(&queue) else {
            return;
        };
        slots.retain(|other| !Arc::ptr_eq(other, slot));
        match slots.front() {
            Some(next) => next.wake.notify_one(),
            None => {
                tables.attached.remove(&queue);
            }
        }
    }

    pub(super) fn is_active(&self, queue: i64, slot: &Arc<Slot>) -> bool {
        let tables = self.lock();
        let front = tables.attached.get(&queue).and_then(VecDeque::front);
        front.is_some_and(|front| Arc::ptr_eq(front, slot))
    }

    /// The place up to which messages of a queue may have been handed out before: by an attachment that left something
    /// unsettled, or by another process.
    pub(super) fn handed_before(&self, queue: i64) -> i64 {
        let handed_out = self.lock().handed_out.get(&queue).copied();
        handed_out.unwrap_or(0).max(self.opened_behind)
    }

    /// How many are attached, and how many messages they have in hand.
    pub(super) fn usage(&self, queue: i64) -> Usage {
        let tables = self.lock();
        tables.attached.get(&queue).map_or(Usage::default(), |slots| Usage {
            consumers: slots.len() as u64,
            in_hand: slots.iter().map(|slot| slot.in_hand.load(Ordering::Acquire)).sum(),
        })
    }

    /// Something was published.
    pub(super) fn wake(&self, queue: i64) {
        if let Some(slots) = self.lock().attached.get(&queue) {
            for slot in slots {
                slot.wake.notify_one();
            }
        }
    }

    /// Something may have happened to any queue.
    pub(super) fn wake_all(&self) {
        for slot in self.lock().attached.values().flatten() {
            slot.wake.notify_one();
        }
    }

    /// The queue was deleted: its attachments end.
    pub(super) fn deleted(&self, queue: i64) {
        let mut tables = self.lock();
        tables.handed_out.remove(&queue);
        tables.damaged.remove(&queue);
        if let Some(slots) = tables.attached.get(&queue) {
            for slot in slots {
                slot.cancelled.store(true, Ordering::Release);
                slot.wake.notify_one();
            }
        }
    }

    /// Nothing under this lock can panic half-way, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Keeps the place that `slot` handed out up to only while something up to it is unsettled, so that the map stays
    /// small.
    fn remember(&mut self, queue: i64, handed_to: i64, slot: &Slot) {
        let before = self.handed_out.get(&queue).copied().unwrap_or(0);
        if slot.in_hand.load(Ordering::Acquire) > 0 {
            self.handed_out.insert(queue, handed_to.max(before));
        } else if handed_to >= before {
            self.handed_out.remove(&queue);
        }
    }
}

/// Use of a queue by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) consumers: u64,
    pub(super) in_hand: u64,
}
