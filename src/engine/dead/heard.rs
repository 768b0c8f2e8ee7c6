//! The groups of dead letters as the watch hears of them, after short looks at what grew.
//!
//! Looking never costs here: a queue with a delivery limit, with a consumer, or with more than a short look takes is
//! left to whoever asks for it, and told of by its number alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{DeadIndex, DeadTarget};
use crate::ambient::HashMap;
use crate::domain::broker_rules::Looks;
use crate::domain::id::QueueName;
use crate::domain::turn::Group;
use crate::engine::EngineError;
use crate::store::{DeadGroupQuery, DeadQueue};

/// Messages of a short look, at most.
const SHORT: u64 = 2_000;
/// Between two short looks at one queue.
const AGAIN: Duration = Duration::from_mins(1);
/// Between two readings of the groups where no look was made.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// Groups that are told apart, at most.
const GROUPS_MAX: u32 = 1_000;

/// When (uptime) what was looked at last.
#[derive(Debug, Default)]
pub(in crate::engine) struct Heard {
    looked: HashMap<QueueName, Duration>,
    read_at: Option<Duration>,
}

impl DeadIndex {
    /// The groups by fingerprint; `None`: nobody looked since they were read last.
    pub(in crate::engine) async fn hear_groups(
        self: &Arc<Self>,
        heard: &mut Heard,
    ) -> Result<Option<BTreeMap<String, Group>>, EngineError> {
        let begun = self.clock.uptime();
        let now = self.store.now().await?;
        let known = self.store.dead_queues().await?;
        let found = self.targets.dead_targets_found().await?;
        heard.looked.retain(|_, at| begun.saturating_sub(*at) < AGAIN);
        let mut has_looked = false;
        for target in found.queues.iter() {
            let before = known.iter().find(|known| known.name == target.name);
            let is_due = !heard.looked.contains_key(&target.name) && target.is_due(before, now);
            if is_due && is_short(target, before) {
                heard.looked.insert(target.name.clone(), begun);
                Arc::clone(self).look_at(target.clone()).await;
                has_looked = true;
            }
        }
        let is_old = heard.read_at.is_none_or(|at| begun.saturating_sub(at) >= READ_AGAIN);
        if !has_looked && !is_old {
            return Ok(None);
        }
        heard.read_at = Some(begun);
        let query = DeadGroupQuery {
            queue: None,
            recent_since: now,
            before_since: now,
            limit: GROUPS_MAX,
        };
        let groups = self.store.dead_groups(&query).await?.into_iter().map(|group| {
            let seen = Group {
                what: group.what,
                place: group.place,
                count: group.count,
            };
            (group.fingerprint, seen)
        });
        Ok(Some(groups.collect()))
    }
}

fn is_short(target: &DeadTarget, known: Option<&DeadQueue>) -> bool {
    target.delivery_limit.is_none()
        && target.ready.is_some_and(|ready| ready <= SHORT)
        && target.out_of_bounds(known, &Looks::default()).is_none()
}
