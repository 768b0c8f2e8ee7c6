//! Sums over the rows: of the whole, and of each endpoint.

use std::sync::Arc;

use super::kept;
use super::rows::Moves;
use crate::ambient::{HashMap, HashSet};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::queues::seen::Seen;
use crate::engine::row::QueueRow;
use crate::engine::series::Key;
use crate::engine::snapshot::{EndpointRow, Totals};

/// Messages, and the time of the oldest one.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// One count that is missing makes the sum unknown, not smaller.
    waiting: Option<u64>,
    /// Without those behind a head that waits for a person.
    untried: Option<u64>,
    /// When the first of these may be tried.
    first_at: Option<Timestamp>,
    oldest_at: Option<Timestamp>,
}

impl Sum {
    const NOTHING: Self = Self {
        waiting: Some(0),
        untried: Some(0),
        first_at: None,
        oldest_at: None,
    };

    fn add(&mut self, row: &QueueRow) {
        let with = |sum: Option<u64>| sum.zip(row.depth()).map(|(sum, depth)| sum.saturating_add(depth));
        self.waiting = with(self.waiting);
        if row.state != Some(QueueState::Parked) {
            self.untried = with(self.untried);
            if row.depth() != Some(0) {
                self.first_at = earlier(self.first_at, row.next_attempt_at().or(Some(Timestamp::EPOCH)));
            }
        }
        if row.depth() != Some(0) {
            self.oldest_at = earlier(self.oldest_at, row.oldest_at());
        }
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What the broker lists, as far as it makes a difference to sums.
#[derive(Debug)]
pub(super) struct Listed {
    /// It was read at least once.
    pub(super) known: bool,
    /// Queues that it lists without their counts.
    pub(super) uncounted: HashSet<QueueName>,
}

impl Listed {
    /// `read_at`: when the broker was read last.
    pub(super) fn of(seen: &[Seen], read_at: Option<Timestamp>) -> Self {
        let uncounted = seen.iter().filter(|seen| seen.ready.is_none());
        Self {
            known: read_at.is_some(),
            uncounted: uncounted.map(|seen| seen.name.clone()).collect(),
        }
    }

    /// In the store, and not on the broker: nothing is in it.
    fn is_gone(&self, row: &QueueRow) -> bool {
        self.known && row.ready().is_none() && !self.uncounted.contains(&row.name)
    }
}

/// The sums of all rows. `delivered` is known by the observer alone.
pub(super) fn totals(
    queues: &[Arc<QueueRow>],
    endpoints: &[Arc<EndpointRow>],
    listed: &Listed,
    dead_letter_queue: &str,
) -> Totals {
    let mut totals = Totals::default();
    let (mut waiting, mut stuck) = (Sum::NOTHING, Sum::NOTHING);
    for row in queues {
        if row.name.as_str() == dead_letter_queue {
            totals.dead_own = row.depth();
        }
        if row.kind != QueueKind::Delivery {
            continue;
        }
        if let Some(place) = row.rank() {
            totals.queues_by_state[place] += 1;
        }
        if listed.is_gone(row) {
            continue;
        }
        waiting.add(row);
        if !matches!(row.state, Some(QueueState::Delivering | QueueState::Empty)) {
            stuck.add(row);
        }
    }
    for place in endpoints.iter().filter_map(|row| row.rank()) {
        totals.endpoints_by_state[place] += 1;
    }
    let down = |row: &&Arc<EndpointRow>| row.endpoint.state != EndpointState::Available;
    totals.down_waiting = Some(0);
    for row in endpoints.iter().filter(down) {
        totals.down_waiting = totals
            .down_waiting
            .zip(row.waiting)
            .map(|(sum, waiting)| sum.saturating_add(waiting));
        totals.down_oldest_at = earlier(totals.down_oldest_at, row.oldest_at);
    }
    totals.waiting = waiting.waiting.filter(|_| listed.known);
    totals.stuck = stuck.waiting.filter(|_| listed.known);
    totals.oldest_at = waiting.oldest_at;
    totals
}

/// Rows of endpoints; those that did not change are the last snapshot's. `delivered` is what was delivered since then.
pub(super) fn endpoint_rows(
    endpoints: Vec<(Endpoint, u64)>,
    queues: &[Arc<QueueRow>],
    listed: &Listed,
    last: &Arc<Vec<Arc<EndpointRow>>>,
    delivered: &HashMap<Arc<EndpointUrl>, u64>,
    (now, moves): (Timestamp, Moves<'_>),
) -> Arc<Vec<Arc<EndpointRow>>> {
    let mut sums: HashMap<&EndpointUrl, Sum> = HashMap::default();
    for row in queues.iter().filter(|row| !listed.is_gone(row)) {
        if let Some(url) = &row.url {
            sums.entry(url).or_insert(Sum::NOTHING).add(row);
        }
    }
    let known: HashMap<&EndpointUrl, &Arc<EndpointRow>> = last.iter().map(|row| (&row.endpoint.url, row)).collect();
    let rows = endpoints.into_iter().map(|(endpoint, queues)| {
        let sum = sums.get(&endpoint.url).copied().unwrap_or(Sum::NOTHING);
        let before = known.get(&endpoint.url).copied();
        let new = delivered.get(&endpoint.url).copied().unwrap_or(0);
        let waiting = sum.waiting.filter(|_| listed.known);
        let row = EndpointRow {
            moving: moves
                .series
                .moving(Key::endpoint(moves.naming, &endpoint.url), moves.uptime),
            pace: endpoint.pace_says(waiting, now),
            delivered: before.map_or(0, |row| row.delivered).saturating_add(new),
            queues,
            waiting,
            oldest_at: sum.oldest_at,
            endpoint: endpoint.with_untried(sum.untried.filter(|_| listed.known), sum.first_at),
        };
        kept::item(row, before)
    });
    kept::list(rows.collect(), last)
}
