//! Queues that go by themselves: what of them is lost soon.

use std::time::Duration;

use super::State;
use crate::domain::time::Timestamp;

/// What is soon.
const SOON: Duration = Duration::from_hours(1);

/// What is lost within the hour when nobody comes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct LostSoon {
    /// Messages, as far as their number is known.
    pub(in crate::console) messages: u64,
    /// The queues that they are in.
    pub(in crate::console) queues: u64,
    /// When the first of them goes.
    pub(in crate::console) first_at: Timestamp,
}

/// What is lost within the hour; `None`: nothing, as far as it is known.
pub(in crate::console) fn lost_soon(state: &State) -> Option<LostSoon> {
    let end = state.now.plus(SOON);
    let rows = state.expiring.table.rows.iter();
    let soon = rows.filter(|row| row.messages != Some(0));
    let soon = soon.filter_map(|row| Some((row, row.expires_at?)));
    let soon = soon.filter(|(_, at)| *at > state.now && *at <= end);
    let mut lost: Option<LostSoon> = None;
    for (row, at) in soon {
        let sum = lost.get_or_insert(LostSoon {
            messages: 0,
            queues: 0,
            first_at: at,
        });
        sum.messages += row.messages.unwrap_or(0);
        sum.queues += 1;
        sum.first_at = sum.first_at.min(at);
    }
    lost
}
