//! Dead letters that are sought by what stands in their messages, which the index does not have: every queue is walked.
//!
//! Bounded: one search takes no more of the processor than any filter, and finds [`FOUND_MAX`]. What was found is kept
//! until a queue changes, so that a list that is read again and again walks nothing again.

use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;

use super::list::Looked;
use super::outlet::Outlet;
use super::{DeadLetters, DeadQueueView, DeadSelection, DeadTarget};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::id::QueueName;
use crate::domain::time::Timestamp;
use crate::domain::words;
use crate::engine::EngineError;
use crate::engine::sieve::Sieve;
use crate::engine::sight::Sight;

/// Letters of one search.
const FOUND_MAX: usize = 10_000;
/// On their way to whoever seeks.
const AHEAD: usize = 64;

/// What was found last, and of what.
#[derive(Debug)]
pub(super) struct Found {
    selection: DeadSelection,
    is_masked: bool,
    /// The queues as they stood.
    of: Vec<Stood>,
    letters: Arc<Vec<DeadLetter>>,
}

/// A queue as it stood: any change of it makes what was found old.
type Stood = (QueueName, Option<u64>, Option<Timestamp>);

impl DeadLetters {
    /// Whether the selection names a queue that nobody's dead letters go to: it is walked for this answer alone.
    pub(super) async fn is_of_another_queue(
        &self,
        selection: &DeadSelection,
        views: &[DeadQueueView],
    ) -> Result<bool, EngineError> {
        let Some(queue) = &selection.queue else {
            return Ok(false);
        };
        if views.iter().any(|view| view.name == *queue) {
            return Ok(false);
        }
        Ok(self.another_target(queue).await?.is_some())
    }

    /// A queue that nobody's dead letters go to; it is refused where no look at it may be.
    pub(super) async fn another_target(&self, queue: &QueueName) -> Result<Option<DeadTarget>, EngineError> {
        let Some(target) = self.targets.named_target(queue).await? else {
            return Ok(None);
        };
        match target.out_of_bounds(None, &self.index.looks_of(&target).await?) {
            Some(why) => Err(EngineError::Refused {
                why: format!("queue {:?} is not looked at: {why}", queue.as_str()),
            }),
            None => Ok(Some(target)),
        }
    }

    /// The letters that match, in the order of their queues. What could not be read is said beside them.
    pub(super) async fn sought(
        &self,
        selection: &DeadSelection,
        mut sieve: Sieve,
        looked: &mut Looked,
    ) -> Result<Arc<Vec<DeadLetter>>, EngineError> {
        let views = &looked.views;
        let of: Vec<Stood> = views
            .iter()
            .map(|view| (view.name.clone(), view.ready, view.looked_at))
            .collect();
        let is_masked = matches!(Sight::present(), Sight::Masked);
        // One that is in no view has nothing by which a change of it would be seen.
        let is_seen = selection
            .queue
            .as_ref()
            .is_none_or(|queue| views.iter().any(|view| view.name == *queue));
        if is_seen
            && let Some(found) = &*self.last_sought.lock().unwrap_or_else(PoisonError::into_inner)
            && (&found.selection, found.is_masked, &found.of) == (selection, is_masked, &of)
        {
            return Ok(Arc::clone(&found.letters));
        }
        let (sender, mut receiver) = mpsc::channel(AHEAD);
        let seek = async {
            let outlet = Outlet::of(sender, &self.clock, self.settings.export_time);
            let sought = self.export_queues(selection, &mut sieve, &outlet).await;
            if outlet.is_over() {
                // What it found is less than there is, and is not kept as if it were all.
                return Err(EngineError::Invalid {
                    field: "filter".to_owned(),
                    message: format!(
                        "the filter reads messages for more than {}: narrow it to one queue or group",
                        words::lasts(self.settings.export_time)
                    ),
                });
            }
            sought
        };
        let gather = async move {
            let mut letters: Vec<DeadLetter> = Vec::new();
            while let Some(exported) = receiver.recv().await {
                let (detail, _memory) = exported?;
                if letters.len() >= FOUND_MAX {
                    return Err(EngineError::Invalid {
                        field: "filter".to_owned(),
                        message: format!(
                            "the filter finds more than {FOUND_MAX} messages: narrow it to one queue or group, or by another field"
                        ),
                    });
                }
                letters.push(detail.letter);
            }
            Ok(letters)
        };
        let (sought, letters) = tokio::join!(seek, gather);
        let letters = Arc::new(letters?);
        match sought {
            Ok(()) => {}
            // What could not be read is said beside what was found.
            Err(EngineError::Unread(unread)) => {
                if !looked.problems.iter().any(|told| told.source == unread.source) {
                    looked.problems.push(*unread);
                }
                // It may be read the next time, though the queues stand as they do now.
                return Ok(letters);
            }
            Err(error) => return Err(error),
        }
        *self.last_sought.lock().unwrap_or_else(PoisonError::into_inner) = Some(Found {
            selection: selection.clone(),
            is_masked,
            of,
            letters: Arc::clone(&letters),
        });
        Ok(letters)
    }
}
