//! Which queue is next, and in which place it stands (docs/protocols.md 16, 35).
//!
//! First the endpoint's free slot, then a place. URLs that answer this process, URLs that answered an earlier one, URLs
//! that nobody has tried and URLs that are known to hang wait in lines of their own. The dispatcher looks how old the open requests are, and moves
//! those that hang out of the workers; attempts pay nothing for it.

use std::sync::Arc;
use std::time::Duration;

use super::bounds::{Bounds, FirstContacts};
use super::rooms::Roomy;
use super::{ANSWER_MAX, Asked, Dispatcher, Looks, Tell, micros};
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::candidates::{Line, Turn};
use crate::engine::endpoints::{LiveEndpoint, SLOW_AFTER, SLOW_AFTER_UNSEEN, Standing};
use crate::engine::holdings::{Holding, Place, Probe};
use crate::engine::worker::{Control, OpenRequest};
use crate::store::QueueUrl;

/// Between two looks at the workers while nobody waits.
const LOOK: Duration = Duration::from_millis(250);
/// Between two looks while somebody waits, or the standing of a URL changed.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// Every URL that stands aside is asked again after this long: what this process knows heals by itself.
const RECALL_ALL: Duration = Duration::from_mins(1);

/// Queues of which the store is asked at once whose they are, and the pause before it is asked again.
const WHOSE_AT_ONCE: usize = 500;
const WHOSE_PAUSE: Duration = Duration::from_millis(250);

/// Whose turn it is to be asked: half of them are those that answer.
const ORDER: [Source; 8] = [
    Source::Line(Line::Answering),
    Source::Line(Line::First),
    Source::Line(Line::Answering),
    Source::Line(Line::Remembered),
    Source::Line(Line::Answering),
    Source::Unknown,
    Source::Line(Line::Answering),
    Source::Line(Line::Silent),
];

/// Where the next queue may come from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Line(Line),
    /// Queues whose URL is not known.
    Unknown,
}

/// What a look at the workers found.
struct Move {
    queue: QueueName,
    to: Place,
    /// It proceeds again, and there is no room for it.
    ends_turn: bool,
}

impl Dispatcher {
    /// The next queue that may be asked for; its slot and its place are taken.
    pub(super) fn next_candidate(&mut self) -> Option<Asked> {
        loop {
            let Roomy {
                queue,
                url,
                place,
                share,
            } = match self.next_with_room() {
                Some(roomy) => roomy,
                None => self.first_with_room()?,
            };
            let asking = Holding::Asking {
                url,
                probe: Probe::No,
                place,
                share: Some(share),
            };
            match self.holdings.begin(&queue, asking) {
                Some(claim) => return Some(Asked { queue, claim }),
                None => self.holdings.look_again(queue),
            }
        }
    }

    /// The first in line for which there is memory; those before it wait for theirs.
    fn first_with_room(&mut self) -> Option<Roomy> {
        loop {
            let (queue, url, place) = self.first_waiting()?;
            if let Some(share) = self.rooms.room_for(&queue) {
                return Some(Roomy {
                    queue,
                    url,
                    place,
                    share,
                });
            }
        }
    }

    fn first_waiting(&mut self) -> Option<(QueueName, Option<EndpointUrl>, Place)> {
        for _ in 0..ORDER.len() {
            self.order = (self.order + 1) % ORDER.len();
            match ORDER[self.order] {
                Source::Unknown if self.admits(Line::First) => {
                    if let Some(queue) = self.candidates.next_unknown() {
                        return Some((queue, None, Place::First));
                    }
                }
                Source::Line(line) if self.admits(line) => {
                    if let Some((queue, url)) = self.next_of(line) {
                        return Some((queue, Some(url), place_of(line)));
                    }
                }
                Source::Unknown | Source::Line(_) => {}
            }
        }
        None
    }

    fn next_of(&mut self, line: Line) -> Option<(QueueName, EndpointUrl)> {
        let mut near = Vec::new();
        let slow_full = self.slow_is_full();
        let store_now = self.outside.engine.store_time.now();
        let (engine, holdings) = (&self.outside.engine, &self.holdings);
        let queues_per_request = self.bounds.queues_per_request(holdings.places());
        let next = self.candidates.next(line, |url| {
            let live = engine.endpoints.get(url);
            let of = line_of(&live);
            let near_in = live.throttle.turn_is_near_in(engine.clock.uptime(), store_now);
            let used = holdings.slots(url);
            if !live.is_available() || used >= slots_of(&live, queues_per_request, store_now) {
                Turn::Aside
            } else if slow_full && used > 0 && holdings.hangs(url) {
                // One that hangs says what the next one would do.
                Turn::Aside
            } else if !near_in.is_zero() {
                near.push((url.clone(), near_in));
                Turn::Aside
            } else if of == line {
                Turn::Takes
            } else {
                Turn::Elsewhere(of)
            }
        });
        let now = self.outside.uptime();
        for (url, near_in) in near {
            self.looks.turns.set(url, now.saturating_add(micros(near_in)));
        }
        next
    }

    /// A queue whose URL is not known stands with first contacts. While there is no room for those, the store is asked
    /// whose it is: what is new for a URL that answers does not wait for URLs that nobody has tried.
    pub(super) fn ask_whose(&mut self) {
        let now = self.outside.uptime();
        if self.asked.whose || now < self.asked.whose_at || !self.candidates.unknown_waits() || self.admits(Line::First)
        {
            return;
        }
        self.asked.whose = true;
        let (engine, queues) = (
            Arc::clone(&self.outside.engine),
            self.candidates.some_unknown(WHOSE_AT_ONCE),
        );
        let asking = async move {
            let found = engine.store.queue_urls(&queues).await;
            Tell::Whose(found.unwrap_or_else(|error| {
                tracing::debug!(error = ?error, "whose queues these are waits for the store");
                Vec::new()
            }))
        };
        self.outside
            .have_answered("whose", ANSWER_MAX, asking, Tell::Whose(Vec::new()));
    }

    pub(super) fn whose(&mut self, found: Vec<QueueUrl>) {
        self.asked.whose = false;
        self.asked.whose_at = self.outside.uptime().saturating_add(micros(WHOSE_PAUSE));
        let line_of = |found: QueueUrl| {
            let live = self.outside.engine.endpoints.get(&found.url);
            if found.answered {
                live.recall(Standing::Remembered);
            }
            (found.queue, found.url, line_of(&live))
        };
        let found: Vec<_> = found.into_iter().map(line_of).collect();
        self.candidates.found(&found);
    }

    /// Whether one more from `line` may be begun.
    pub(super) fn admits(&self, line: Line) -> bool {
        let first = if self.candidates.may_wait_in(Line::First) || self.candidates.unknown_waits() {
            FirstContacts::Wait
        } else {
            FirstContacts::Absent
        };
        self.bounds.admits(line, self.holdings.places(), first)
    }

    pub(super) fn slow_is_full(&self) -> bool {
        self.bounds.slow_is_full(self.holdings.places())
    }

    /// A slot for a worker that holds a queue of `url` and had none; without one it lets go.
    pub(super) fn grant_slot(&mut self, queue: &QueueName, url: &EndpointUrl) -> bool {
        self.candidates.learn(queue, url);
        let live = self.outside.engine.endpoints.get(url);
        let line = line_of(&live);
        let granted = live.is_available()
            && live
                .throttle
                .turn_is_near_in(self.outside.engine.clock.uptime(), self.outside.engine.store_time.now())
                .is_zero()
            && self.holdings.slots(url) < self.slots_of(&live)
            && (line != Line::Silent || !self.slow_is_full())
            && self.holdings.give_slot(queue, url);
        if granted {
            self.holdings.stand(queue, place_of(line));
        }
        granted
    }

    /// The line of a queue that begins to wait.
    pub(super) fn line_of(&self, queue: &QueueName) -> Line {
        let url = self.candidates.url_of(queue);
        url.map_or(Line::First, |url| line_of(&self.outside.engine.endpoints.get(url)))
    }

    /// How many workers may be on queues of one URL.
    pub(super) fn slots_of(&self, live: &LiveEndpoint) -> usize {
        let queues_per_request = self.bounds.queues_per_request(self.holdings.places());
        slots_of(live, queues_per_request, self.outside.engine.store_time.now())
    }

    /// URLs that stood aside, and for which something changed, wait in line again.
    pub(super) fn recall(&mut self) {
        let mut changed = self.holdings.eased();
        let moved = self.outside.engine.endpoints.moved();
        self.looks.soon |= !moved.is_empty();
        changed.extend(moved);
        let now = self.outside.uptime();
        while let Some(url) = self.looks.turns.take_due(now) {
            changed.insert(url);
        }
        if now >= self.looks.recall_all_at {
            self.looks.recall_all_at = now.saturating_add(micros(RECALL_ALL));
            changed.extend(self.candidates.aside());
        }
        for url in changed {
            if self.candidates.waits(&url) {
                let line = line_of(&self.outside.engine.endpoints.get(&url));
                self.candidates.recall(&url, line);
            }
        }
    }

    /// Looks at the workers: requests that hang leave the workers, those that proceed again come back, and who
    /// lingers or had a turn makes room when somebody waits.
    pub(super) fn look_at_workers(&mut self) {
        let now = self.outside.uptime();
        let is_soon = self.looks.soon || self.candidates.len() > 0 || self.rooms.somebody_waits();
        if !self.looks.is_due(now, if is_soon { LOOK_SOON } else { LOOK }) {
            return;
        }
        let moves = self.moves(now);
        for Move { queue, to, ends_turn } in moves {
            if ends_turn && let Some(Holding::Working { control, .. }) = self.holdings.get(&queue) {
                control.end_turn();
            }
            self.holdings.stand(&queue, to);
        }
        self.outside
            .engine
            .slow_full
            .store(self.slow_is_full(), std::sync::atomic::Ordering::Relaxed);
    }

    fn moves(&mut self, now: u64) -> Vec<Move> {
        let waits = |line| self.candidates.may_wait_in(line);
        let (remembered, first) = (
            waits(Line::Remembered),
            waits(Line::First) || self.candidates.unknown_waits(),
        );
        let somebody = waits(Line::Answering) || remembered || first;
        let no_worker = somebody && self.holdings.places().workers() >= self.bounds.workers;
        let no_answering = no_worker || (first && !self.admits(Line::Answering));
        let no_other = no_worker
            || (first && !self.admits(Line::First))
            || ((first || remembered) && !self.admits(Line::Remembered));
        let no_memory = self.rooms.somebody_waits();
        let mut places = self.holdings.places();
        let mut bounds = Bounds {
            slow_bytes: 0,
            ..self.bounds
        };
        let mut moves = Vec::new();
        for (queue, url, control, place) in self.holdings.working() {
            let contended = url.is_some_and(|url| self.candidates.waits(url));
            let has_to_share = match place {
                Place::Answering => no_answering,
                Place::Remembered | Place::First => no_other,
                Place::Slow => false,
            };
            if contended || no_memory || has_to_share {
                control.others_wait();
            }
            let live = url.map(|url| self.outside.engine.endpoints.get(url));
            let standing = live.as_ref().map_or(Standing::Unmet, |live| live.standing());
            let hanging = hanging(control, standing, now);
            bounds.slow_bytes += hanging.map_or(0, |request| request.bytes);
            let takes_slow = bounds.takes_one_more_slow(places);
            let to = match (hanging, place_of(line_of_standing(standing))) {
                (Some(_), _) if place == Place::Slow || takes_slow => Place::Slow,
                (Some(_), _) => place,
                // A probe of a URL that answered before is counted where it began.
                (None, _) if place == Place::Slow && live.is_some_and(|live| !live.is_available()) => Place::Slow,
                (None, home) => home,
            };
            if to == place {
                continue;
            }
            let ends_turn = place == Place::Slow && no_worker;
            places.slow = places.slow + usize::from(to == Place::Slow) - usize::from(place == Place::Slow);
            moves.push(Move {
                queue: queue.clone(),
                to,
                ends_turn,
            });
        }
        self.bounds = bounds;
        moves
    }
}

/// The open request of a worker, when it is so old that it hangs.
fn hanging(control: &Control, standing: Standing, now: u64) -> Option<OpenRequest> {
    let patience = match standing {
        Standing::Answering => SLOW_AFTER,
        Standing::Unmet | Standing::Remembered | Standing::Silent => SLOW_AFTER_UNSEEN,
    };
    let old = |request: &OpenRequest| now.saturating_sub(request.since_us) >= micros(patience);
    control.open_request().filter(old)
}

pub(super) fn line_of(live: &LiveEndpoint) -> Line {
    line_of_standing(live.standing())
}

const fn line_of_standing(standing: Standing) -> Line {
    match standing {
        Standing::Answering => Line::Answering,
        Standing::Remembered => Line::Remembered,
        Standing::Unmet => Line::First,
        Standing::Silent => Line::Silent,
    }
}

/// Where a worker on a URL of this line stands while its request is young.
pub(super) const fn place_of(line: Line) -> Place {
    match line {
        Line::Answering => Place::Answering,
        Line::Remembered => Place::Remembered,
        Line::First => Place::First,
        Line::Silent => Place::Slow,
    }
}

impl Looks {
    /// Whether it is time to look at the workers, with such a pause between two looks; then the next time is later.
    fn is_due(&mut self, now: u64, pause: Duration) -> bool {
        let pause = micros(pause);
        let is_due = now >= self.last.saturating_add(pause);
        if is_due {
            (self.last, self.soon) = (now, false);
        }
        self.next = self.last.saturating_add(pause);
        is_due
    }
}

fn slots_of(live: &LiveEndpoint, queues_per_request: usize, now: Timestamp) -> usize {
    let unavailable = live
        .detail()
        .is_some_and(|detail| detail.state != EndpointState::Available);
    if unavailable || !live.is_proven() {
        1
    } else {
        live.slots(queues_per_request, now)
    }
}
