//! What an operator should look at first, found once a snapshot and not once a frame.

use std::cmp::Reverse;
use std::sync::Arc;

use super::row::{EndpointRow, QueueRow};
use crate::ambient::HashSet;
use crate::domain::endpoint::EndpointState;
use crate::domain::queue::QueueState;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Rows of each kind that are kept, at most.
pub const WORST_MAX: usize = 20;

/// The worst endpoints and queues of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worst {
    /// Endpoints that are not available, or get nothing of what waits until a person has them go on: most waiting first,
    /// then the worse state.
    pub endpoints: Vec<Arc<EndpointRow>>,
    /// How many are available, and get nothing of what waits until a person has them go on.
    pub held: usize,
    /// Queues that stand still for a reason of their own, not their endpoint's: the worse state first.
    pub queues: Vec<Arc<QueueRow>>,
    /// How many such queues there are.
    pub queues_in_all: usize,
    /// Since when the endpoint that is not available longest is in that state.
    pub down_since: Option<Timestamp>,
}

impl Worst {
    /// Those of these rows; looks at each once.
    #[must_use]
    pub fn of(queues: &[Arc<QueueRow>], endpoints: &[Arc<EndpointRow>]) -> Self {
        let down = || {
            endpoints
                .iter()
                .filter(|row| row.endpoint.state != EndpointState::Available)
        };
        let held = || endpoints.iter().filter(|row| row.is_held());
        let down_urls: HashSet<&EndpointUrl> = down().map(|row| &row.endpoint.url).collect();
        let of_one_down = |row: &QueueRow| row.url.as_deref().is_some_and(|url| down_urls.contains(url));
        let of_one_paused = |row: &QueueRow| !row.paused && row.waits_for_resumed_endpoint();
        let mut queues_in_all = 0;
        let by_itself = queues
            .iter()
            .filter(|row| row.state.is_some_and(stands_by_itself) && !of_one_down(row) && !of_one_paused(row))
            .inspect(|_| queues_in_all += 1);
        Self {
            endpoints: first(down().chain(held()), |row| {
                (Reverse(row.waiting), row.rank(), row.endpoint.shown_since())
            }),
            held: held().count(),
            queues: first(by_itself, |row| (row.rank(), Reverse(row.depth()), row.name.clone())),
            queues_in_all,
            down_since: down().map(|row| row.endpoint.since).min(),
        }
    }
}

/// Whether a queue in this state needs a look that its endpoint's row does not give.
const fn stands_by_itself(state: QueueState) -> bool {
    match state {
        QueueState::Quarantined
        | QueueState::Refused
        | QueueState::Parked
        | QueueState::BrokerBlocked
        | QueueState::Unowned
        | QueueState::Paused => true,
        QueueState::EndpointDisabled
        | QueueState::EndpointUnavailable
        | QueueState::WaitingRetry
        | QueueState::RateLimited
        | QueueState::Delivering
        | QueueState::Ended
        | QueueState::Empty => false,
    }
}

/// The first few by `key`, kept sorted while looking: most rows cost one comparison.
fn first<'a, R: 'a, K: Ord>(rows: impl Iterator<Item = &'a Arc<R>>, key: impl Fn(&R) -> K) -> Vec<Arc<R>> {
    let mut kept: Vec<(K, &Arc<R>)> = Vec::with_capacity(WORST_MAX + 1);
    for row in rows {
        let rank = key(row);
        if kept.len() == WORST_MAX && kept.last().is_some_and(|(last, _)| *last <= rank) {
            continue;
        }
        let place = kept.partition_point(|(other, _)| *other <= rank);
        kept.insert(place, (rank, row));
        kept.truncate(WORST_MAX);
    }
    kept.into_iter().map(|(_, row)| Arc::clone(row)).collect()
}
