//! Bytes before leases: a queue is asked for only when there is memory for its next message (docs/protocols.md 16).
//!
//! How large that is nobody knows before it was seen once; then it is taken for as large as the last one. A queue for
//! which there is no memory waits in a line of its own, without a lease and a worker, and comes back with its share.
//! Large ones wait in the order in which they came, and small ones do not wait for large ones.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Dispatcher, Tell};
use crate::ambient::{self, HashMap, HashSet};
use crate::budget::{Budget, SMALL_BYTES, Share, Use};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::engine::candidates::Line;
use crate::engine::holdings::Place;

use super::admitting::{line_of, place_of};

/// Queues whose last message was large that are remembered, at most.
const SIZES_MAX: usize = 200_000;
/// Queues that wait for memory, at most; more are found again by the sweep.
const WAITING_MAX: usize = 200_000;

/// Who waits for memory.
pub(super) struct Rooms {
    memory: Budget,
    tell: mpsc::Sender<Tell>,
    stop: CancellationToken,
    /// The bytes that the last message took, where it was not small.
    sizes: HashMap<QueueName, usize>,
    small: Crowd,
    large: Crowd,
    /// Those that have their share and wait for a worker.
    ready: VecDeque<(QueueName, Share)>,
}

/// A line; the first of it is asked for by a task of its own.
#[derive(Debug, Default)]
struct Crowd {
    waiting: VecDeque<QueueName>,
    names: HashSet<QueueName>,
    is_asked: bool,
}

/// A queue that may be asked for, with its share.
pub(super) struct Roomy {
    pub(super) queue: QueueName,
    pub(super) url: Option<EndpointUrl>,
    pub(super) place: Place,
    pub(super) share: Share,
}

impl Rooms {
    /// Nothing is waited for any more after `stop`; memory that came is told.
    pub(super) fn new(memory: Budget, tell: mpsc::Sender<Tell>, stop: CancellationToken) -> Self {
        Self {
            memory,
            tell,
            stop,
            sizes: HashMap::default(),
            small: Crowd::default(),
            large: Crowd::default(),
            ready: VecDeque::new(),
        }
    }

    /// What a message of `queue` took last.
    pub(super) fn saw(&mut self, queue: &QueueName, bytes: usize) {
        if bytes <= SMALL_BYTES {
            self.sizes.remove(queue);
            return;
        }
        if self.sizes.len() >= SIZES_MAX {
            self.sizes.clear();
        }
        self.sizes.insert(queue.clone(), bytes);
    }

    pub(super) fn forget(&mut self, queue: &QueueName) {
        self.sizes.remove(queue);
    }

    /// What the next message of `queue` is taken for.
    pub(super) fn expected(&self, queue: &QueueName) -> usize {
        self.sizes.get(queue).copied().unwrap_or(SMALL_BYTES)
    }

    /// Whether a queue waits for memory.
    pub(super) fn somebody_waits(&self) -> bool {
        [&self.small, &self.large]
            .iter()
            .any(|crowd| crowd.is_asked || !crowd.waiting.is_empty())
    }

    fn crowd(&mut self, bytes: usize) -> &mut Crowd {
        if bytes <= SMALL_BYTES {
            &mut self.small
        } else {
            &mut self.large
        }
    }

    /// The share of the next message of `queue`; without one it waits for it.
    pub(super) fn room_for(&mut self, queue: &QueueName) -> Option<Share> {
        let bytes = self.expected(queue);
        let share = self.memory.try_take(Use::InHand, bytes);
        if share.is_none() {
            let crowd = self.crowd(bytes);
            if crowd.waiting.len() < WAITING_MAX && crowd.names.insert(queue.clone()) {
                crowd.waiting.push_back(queue.clone());
            }
            self.ask_for_room(bytes);
        }
        share
    }

    /// Has memory waited for, for the first of the line that one of so many bytes waits in.
    fn ask_for_room(&mut self, bytes: usize) {
        let is_large = bytes > SMALL_BYTES;
        let crowd = self.crowd(bytes);
        if crowd.is_asked {
            return;
        }
        let Some(queue) = crowd.waiting.pop_front() else { return };
        crowd.names.remove(&queue);
        crowd.is_asked = true;
        // What is known of it may have changed since it joined the line, which the share says when it comes.
        let expected = self.expected(&queue);
        let bytes = if is_large {
            expected.max(SMALL_BYTES + 1)
        } else {
            SMALL_BYTES
        };
        let (memory, tell, stop) = (self.memory.clone(), self.tell.clone(), self.stop.child_token());
        drop(ambient::spawn("memory for a queue", async move {
            if let Some(share) = stop.run_until_cancelled(memory.take(Use::InHand, bytes)).await {
                let _ = tell.send(Tell::Room { queue, share }).await;
            }
        }));
    }

    /// What was waited for.
    pub(super) fn came(&mut self, queue: QueueName, share: Share) {
        let bytes = share.bytes();
        self.crowd(bytes).is_asked = false;
        self.ready.push_back((queue, share));
        self.ask_for_room(bytes);
    }
}

impl Dispatcher {
    /// The next queue that waited for memory, has it, and may be asked for. One that may not for another reason waits
    /// for that without its share; for a worker alone it waits with it, as workers do not wait for memory.
    pub(super) fn next_with_room(&mut self) -> Option<Roomy> {
        while let Some((queue, share)) = self.rooms.ready.pop_front() {
            if self.holdings.get(&queue).is_some() {
                self.holdings.look_again(queue);
                continue;
            }
            let url = self.candidates.url_of(&queue).cloned();
            let live = url.as_ref().map(|url| self.outside.engine.endpoints.get(url));
            let takes = live.as_ref().is_none_or(|live| {
                live.is_available()
                    && live
                        .throttle
                        .turn_is_near_in(self.outside.engine.clock.uptime(), self.outside.engine.store_time.now())
                        .is_zero()
                    && self.holdings.slots(&live.url) < self.slots_of(live)
            });
            if !takes {
                self.candidate(queue);
                continue;
            }
            let line = live.map_or(Line::First, |live| line_of(&live));
            if !self.admits(line) {
                self.rooms.ready.push_front((queue, share));
                return None;
            }
            self.candidates.take(&queue);
            return Some(Roomy {
                queue,
                url,
                place: place_of(line),
                share,
            });
        }
        None
    }
}
