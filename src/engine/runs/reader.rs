//! Runs for people, with how fast they go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::view::{RunDetail, RunView};
use crate::domain::run::{Phase, RunState, Speed, eta};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::core::{Core, over_core};
use crate::engine::paging::{cut, id_of};
use crate::engine::view::Page;
use crate::store::{ItemQuery, RunQuery, RunRecord};

/// Runs whose speed is known, at most.
const SPEEDS_MAX: usize = 200;

/// Reads runs for people, with how fast they go.
#[derive(Debug)]
pub(in crate::engine) struct RunReader {
    core: Arc<Core>,
    speeds: Speeds,
}

over_core!(RunReader);

impl RunReader {
    pub(in crate::engine) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            speeds: Speeds::default(),
        }
    }

    pub(super) async fn run_record(&self, id: &str) -> Result<RunRecord, EngineError> {
        self.store
            .run_get(id)
            .await?
            .ok_or_else(|| EngineError::unknown_id("run", id, "run list"))
    }

    /// A run as people see it.
    pub(in crate::engine) async fn run_view(&self, id: &str) -> Result<RunView, EngineError> {
        let record = self.run_record(id).await?;
        let owners = self.store.incarnations_living().await?;
        let now = self.store.now().await?;
        Ok(self.view_of_run(record, &owners, now))
    }

    /// A page of runs, newest first, before one of them.
    pub(in crate::engine) async fn run_page(
        &self,
        before: Option<String>,
        limit: u32,
    ) -> Result<Page<RunView>, EngineError> {
        id_of(before.as_deref())?;
        let query = RunQuery {
            before,
            // One more says that there is another page.
            limit: limit.saturating_add(1),
            ..RunQuery::default()
        };
        let (items, next_cursor) = cut(self.run_views(&query).await?, limit, |run| run.record.id.clone());
        Ok(Page {
            problems: Vec::new(),
            next_cursor,
            taken_at: self.clock.now(),
            items,
        })
    }

    /// Runs, newest first.
    pub(in crate::engine) async fn run_views(&self, query: &RunQuery) -> Result<Vec<RunView>, EngineError> {
        let records = self.store.runs(query).await?;
        let owners = self.store.incarnations_living().await?;
        let now = self.store.now().await?;
        let views = records.into_iter().map(|record| self.view_of_run(record, &owners, now));
        Ok(views.collect())
    }

    fn view_of_run(&self, record: RunRecord, owners: &[crate::store::Incarnation], now: Timestamp) -> RunView {
        let recent = self.speeds.note(&record, now);
        view(record, recent, owners, now)
    }

    /// A run with a page of its items.
    pub(in crate::engine) async fn run_detail(
        &self,
        id: &str,
        after: Option<u64>,
        limit: u32,
    ) -> Result<RunDetail, EngineError> {
        let run = self.run_view(id).await?;
        let query = ItemQuery {
            run: id.to_owned(),
            after,
            limit,
            ..ItemQuery::default()
        };
        let items = self.store.run_items(&query).await?;
        let full = items.len() == usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(RunDetail {
            next_after: items.last().filter(|_| full).map(|last| last.item.ordinal),
            run,
            items,
        })
    }
}

/// How fast the runs go that this process was asked about.
#[derive(Debug, Default)]
struct Speeds(Mutex<BTreeMap<String, Speed>>);

impl Speeds {
    /// How many this run settled in the last seconds, where that is known.
    fn note(&self, record: &RunRecord, now: Timestamp) -> Option<(u64, Duration)> {
        let mut speeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.state != RunState::Running {
            speeds.remove(&record.id);
            return None;
        }
        while speeds.len() >= SPEEDS_MAX && !speeds.contains_key(&record.id) {
            // The oldest: ids are in the order of time.
            speeds.pop_first();
        }
        let speed = speeds.entry(record.id.clone()).or_default();
        speed.note(now, record.counts.settled());
        speed.recent()
    }
}

fn view(
    record: RunRecord,
    recent: Option<(u64, Duration)>,
    owners: &[crate::store::Incarnation],
    now: Timestamp,
) -> RunView {
    let left = record.total.saturating_sub(record.counts.settled());
    let since_start = || record.started_at.map(|started| now.since(started)).unwrap_or_default();
    let (done, spent) = recent.unwrap_or_else(|| (record.counts.settled(), since_start()));
    let ago = now.since(record.updated_at);
    // While it watches or waits, which its note says, nobody knows how long that takes.
    let running = record.note.is_none() && Phase::of(record.state, None, ago) == Phase::Running;
    let owner = record
        .owner
        .and_then(|owner| owners.iter().find(|one| one.id == owner))
        .map(|one| one.name.clone());
    RunView {
        eta: running.then(|| eta(left, record.rate, done, spent)).flatten(),
        owner,
        taken_at: now,
        record,
    }
}
