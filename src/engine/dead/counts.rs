//! How many dead letters there are, queue by queue.

use std::collections::BTreeMap;

use crate::engine::{EngineError, Inner};

impl Inner {
    /// Dead letters by queue, of those that could be read; and whether these are all.
    pub(in crate::engine) async fn dead_counts(&self) -> Result<(BTreeMap<String, u64>, bool), EngineError> {
        let found = self.dead_targets_found().await?;
        let mut whole = found.unread.is_none();
        let mut counts = BTreeMap::new();
        for target in found.queues.iter() {
            match target.ready {
                Some(ready) => {
                    let depth = ready + target.unacked.unwrap_or(0);
                    counts.insert(target.name.as_str().to_owned(), depth);
                }
                None => whole = false,
            }
        }
        Ok((counts, whole))
    }
}
