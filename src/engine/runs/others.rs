//! What others do with the same messages at present: told to whoever plans beside them.

use std::collections::BTreeSet;

use super::{RunReader, RunView};
use crate::domain::id::QueueName;
use crate::domain::run::RunState;
use crate::engine::EngineError;
use crate::store::{ItemQuery, RunQuery};

/// Before the id of the run in whose name a dead-letter queue is claimed.
pub(super) const RUN_CLAIM: &str = "run ";
/// Runs that are looked through, the newest, and queues that are compared with theirs.
const RUNS_MAX: u32 = 20;
const SOURCES_MAX: usize = 20;

impl RunReader {
    /// The run in whose name a queue is claimed.
    pub(in crate::engine) async fn run_with_claim(&self, by: Option<&str>) -> Option<RunView> {
        let id = by?.strip_prefix(RUN_CLAIM)?;
        self.run_view(id).await.ok()
    }

    /// Runs that are not over and have messages of these queues before them, a sentence each.
    pub(super) async fn others_at(&self, own: &str, sources: &BTreeSet<&str>) -> Result<Vec<String>, EngineError> {
        let query = RunQuery {
            limit: RUNS_MAX,
            ..RunQuery::default()
        };
        let mut told = Vec::new();
        for run in self.run_views(&query).await? {
            if run.record.id == own || run.record.state.is_over() {
                continue;
            }
            for source in sources.iter().take(SOURCES_MAX) {
                let Ok(queue) = QueueName::parse(source) else { continue };
                let first = ItemQuery {
                    run: run.record.id.clone(),
                    source: Some(queue.clone()),
                    open: true,
                    limit: 1,
                    ..ItemQuery::default()
                };
                if !self.store.run_items(&first).await?.is_empty() {
                    let (run, done) = (at_it(&run), done(&run));
                    told.push(format!("{run}, {done} in queue {:?} already", queue.as_str()));
                }
            }
        }
        Ok(told)
    }
}

/// Who has the queue, and what to do about it.
pub(in crate::engine) fn busy(queue: &QueueName, by: Option<&str>, run: Option<&RunView>) -> String {
    let queue = queue.as_str();
    match run {
        // What to do stands in front: the line may be cut.
        Some(run) => format!(
            "{}: pause or cancel it, or wait for its end ({}; queue {queue:?}, run {})",
            at_it(run),
            done(run),
            run.record.id
        ),
        None => format!(
            "queue {queue:?} is looked at or worked on by {}: try again",
            by.unwrap_or("somebody")
        ),
    }
}

fn at_it(run: &RunView) -> String {
    let record = &run.record;
    let state = match record.state {
        RunState::Canary => "waits for an answer",
        RunState::Paused => "is paused",
        RunState::Planned | RunState::Running | RunState::Done | RunState::Failed | RunState::Cancelled => "is running",
    };
    format!("a {} of {} {state}", record.command, record.actor)
}

fn done(run: &RunView) -> String {
    format!("{} of {} done", run.record.counts.settled(), run.record.total)
}
