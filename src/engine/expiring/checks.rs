//! What `doctor` says of queues that go by themselves: what is lost soon, and what should have gone.

use super::{ExpiringQuery, ExpiringQueue};
use crate::domain::words::plural;
use crate::engine::error::chain;
use crate::engine::expiring::Lifetimes;
use crate::engine::view::Check;

const NAME: &str = "expiring";

impl Lifetimes {
    /// Uses no queue. What cannot be listed is not judged.
    pub(in crate::engine) async fn checks(&self) -> Vec<Check> {
        let page = match self.list(&ExpiringQuery::default()).await {
            Ok(page) => page,
            Err(error) => return vec![Check::unread(NAME, &chain(&error))],
        };
        let over = |queue: &&ExpiringQueue| queue.over && self.is_leftover(&queue.name);
        let mut checks = vec![self.soon_lost(page.total, page.soon.queues, page.soon.messages)];
        checks.extend(leftovers(page.items.iter().filter(over).count()));
        checks
    }

    fn soon_lost(&self, total: u64, queues: u64, messages: u64) -> Check {
        if queues == 0 {
            let found = format!(
                "{}; nothing is lost within the hour",
                plural(total, "queue with a lifetime", "queues with a lifetime")
            );
            return Check::fine(NAME, found);
        }
        let found = format!(
            "{} within the hour, with {} in it",
            plural(queues, "queue goes", "queues go"),
            plural(messages, "message", "messages")
        );
        if self.settings.save_before_expiry {
            return Check::fine(NAME, format!("{found}; a daemon saves them before"));
        }
        Check::warning(
            NAME,
            found,
            "`expiring list` names them and `expiring save` keeps what is in one; with janitor.save_before_expiry = true a daemon does that by itself",
        )
    }
}

fn leftovers(count: usize) -> Option<Check> {
    let found = plural(count as u64, "queue outlived its time", "queues outlived their time");
    (count > 0).then(|| {
        Check::warning(
            &format!("{NAME}: leftovers"),
            format!("{found} and would stay for ever"),
            "`expiring purge` removes what nobody uses; what is in it is kept for a while",
        )
    })
}
