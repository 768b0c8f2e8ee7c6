//! How long attempts took and which failed, for a process that delivers none: from the newest of the attempt log.
//!
//! A look reads one row while nothing is new. Of more than [`SAMPLE`] new ones between two looks the newest count: shares
//! and times are those of a sample then, and rates are counted elsewhere.

use super::Observation;
use crate::ambient::HashSet;
use crate::domain::attempt::Attempt;
use crate::domain::id::{Epoch, NotificationId};
use crate::domain::time::Timestamp;
use crate::store::AttemptQuery;

/// Attempts that one look reads, at most.
const SAMPLE: u32 = 200;

/// What a look knows an attempt by.
type Known = (NotificationId, u32, Epoch, Timestamp);

/// Those that were read last; `None`: nobody looked yet.
#[derive(Debug, Default)]
pub(super) struct Sample(Option<HashSet<Known>>);

impl Sample {
    /// Takes in what is new since the look before; what the first one finds is of nobody knows which minute. A log that
    /// cannot be read leaves everything as it is: the look says so of the store.
    pub(super) async fn take(&mut self, engine: &Observation) {
        let of_all = |limit| AttemptQuery {
            limit,
            ..AttemptQuery::default()
        };
        let Ok(newest) = engine.store.attempts(&of_all(1)).await else {
            return;
        };
        let is_known = |attempt: &Attempt| self.0.as_ref().is_some_and(|before| before.contains(&known(attempt)));
        if self.0.is_some() && newest.first().is_none_or(is_known) {
            return;
        }
        let Ok(found) = engine.store.attempts(&of_all(SAMPLE)).await else {
            return;
        };
        let Some(before) = self.0.replace(found.iter().map(known).collect()) else {
            return;
        };
        for attempt in found.iter().filter(|attempt| !before.contains(&known(attempt))) {
            engine.seen.series.sampled(attempt);
        }
    }
}

fn known(attempt: &Attempt) -> Known {
    (
        attempt.message_id.clone(),
        attempt.number,
        attempt.epoch,
        attempt.started_at,
    )
}
