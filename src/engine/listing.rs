//! The broker's last listing as this process has it: bounded, and each number with its age.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::broker::{ListedQueue, QueuePage};
use crate::domain::id::QueueName;

/// Queues kept, at most.
const KEPT_MAX: usize = 200_000;

/// Listed queues by name.
#[derive(Debug, Default)]
pub(super) struct Listing {
    queues: Mutex<HashMap<QueueName, ListedQueue>>,
}

impl Listing {
    /// Takes a page in; a first page that is the whole list replaces everything.
    pub(super) fn put(&self, page: u32, listed: &QueuePage) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if page == 1 && !listed.more {
            queues.clear();
        }
        for queue in &listed.queues {
            if queues.len() < KEPT_MAX || queues.contains_key(&queue.name) {
                queues.insert(queue.name.clone(), queue.clone());
            }
        }
    }

    /// What is known of one queue.
    pub(super) fn get(&self, queue: &QueueName) -> Option<ListedQueue> {
        self.queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(queue)
            .cloned()
    }
}
