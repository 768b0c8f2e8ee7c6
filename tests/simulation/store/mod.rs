//! The record in memory, behind the engine's seam of stores: what delivery asks of it, decided by the rules that both
//! databases share. What nothing in a simulated run asks for it refuses.
//!
//! A process has a handle of its own. Its calls take a while there and back, and may not arrive, or lose their answer.

mod dead_letters;
mod deliveries;
mod endpoints;
mod events;
mod incarnations;
mod policies;
mod queues;
mod runs;
mod seam;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive::internals::ambient::{self, Clock};
use redrive::internals::domain::attempt::Attempt;
use redrive::internals::domain::endpoint::Endpoint;
use redrive::internals::domain::event::{Event, EventType, Reference};
use redrive::internals::domain::id::{Epoch, IncarnationId, QueueName, StoreId};
use redrive::internals::domain::queue::QueueRecord;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{
    Evidence, HeadTerms, Incarnation, ItemRecord, KeptKind, KeptMessage, NewAudit, PolicyScope, PolicyVersion,
    RunRecord, StoreError, WaitingHead, WaitingQuery,
};
use tokio::time::Instant;

/// What a call takes at most, one way.
const WAY_US: u64 = 1_500;

/// The database.
#[derive(Clone)]
pub struct Database(Arc<Shared>);

struct Shared {
    clock: Clock,
    rows: Mutex<Rows>,
    /// What is to be seen of processes: a fact of their machines, which no copy of the rows brings back.
    evidence: Mutex<BTreeMap<IncarnationId, Evidence>>,
    /// What is to be seen of a process that lives.
    living: Evidence,
    slow_until: Mutex<Option<Instant>>,
    id: StoreId,
}

/// Everything that is committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    incarnations: BTreeMap<IncarnationId, Known>,
    fingerprint: Option<String>,
    epoch: i64,
    generation: i64,
    queues: BTreeMap<QueueName, QueueRecord>,
    /// Of which a message was refused, and when last.
    refused: BTreeMap<QueueName, (EndpointUrl, Timestamp)>,
    endpoints: BTreeMap<EndpointUrl, Endpoint>,
    attempts: Vec<Attempt>,
    audit: Vec<NewAudit>,
    named: BTreeMap<String, (Option<IncarnationId>, Epoch)>,
    broker: Option<String>,
    letters: Vec<String>,
    /// What a policy applies to the head of a queue by, and until when its receiver asked to be left alone.
    terms: BTreeMap<QueueName, (HeadTerms, Option<Timestamp>)>,
    policies: Vec<PolicyVersion>,
    runs: BTreeMap<String, runs::Run>,
    /// The queues that runs take from, each with its run.
    run_sources: BTreeMap<QueueName, String>,
    kept: BTreeMap<(KeptKind, String), KeptMessage>,
    claims: BTreeMap<QueueName, dead_letters::Claimed>,
    table: events::Table,
}

/// Everything that was committed at one time.
#[derive(Debug)]
pub struct Copy(Rows);

/// An incarnation's row.
#[derive(Clone, Debug)]
struct Known {
    row: Incarnation,
    fingerprint: Option<String>,
}

/// What happens to the calls of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// They do not arrive.
    Unheard,
    /// They are done, and the answer is lost, of one in two.
    Unanswered,
}

/// A process' way to the database.
#[derive(Clone)]
pub struct Handle {
    database: Database,
    trouble: Arc<Mutex<Option<(Trouble, Instant)>>>,
    own: Arc<Mutex<Vec<IncarnationId>>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Database {
    /// With a locked file for each process that lives, as SQLite has it.
    pub fn new(clock: Clock) -> Self {
        Self::with_evidence(clock, Evidence::Alive)
    }

    /// `living` is what is to be seen of a process that lives.
    pub fn with_evidence(clock: Clock, living: Evidence) -> Self {
        Self(Arc::new(Shared {
            clock,
            rows: Mutex::default(),
            evidence: Mutex::default(),
            living,
            slow_until: Mutex::default(),
            id: StoreId::parse(&ambient::new_id()).expect("an id"),
        }))
    }

    pub fn handle(&self) -> Handle {
        Handle {
            database: self.clone(),
            trouble: Arc::default(),
            own: Arc::default(),
        }
    }

    /// What is committed at this moment: what a standby has.
    pub fn copy(&self) -> Copy {
        Copy(self.rows().clone())
    }

    /// The standby takes over: what was committed, and answered, after its copy is lost.
    pub fn fail_over(&self, copy: Copy) {
        *self.rows() = copy.0;
    }

    /// A run as it stands, with its items in their order.
    pub fn run(&self, run: &str) -> Option<(RunRecord, Vec<ItemRecord>)> {
        let rows = self.rows();
        let found = rows.runs.get(run)?;
        Some((found.record.clone(), found.items.values().cloned().collect()))
    }

    /// Whether somebody alive works on a run.
    pub fn is_worked_on(&self, run: &str) -> bool {
        let rows = self.rows();
        let owner = rows.runs.get(run).and_then(|run| run.record.owner);
        owner.is_some_and(|owner| rows.is_alive(owner))
    }

    /// The versions of a policy, the oldest first.
    pub fn policies_of(&self, scope: &PolicyScope) -> Vec<PolicyVersion> {
        let rows = self.rows();
        let of_scope = rows.policies.iter().filter(|version| version.scope == *scope);
        of_scope.cloned().collect()
    }

    /// Heads that wait, of what was published directly.
    pub fn waiting(&self) -> Vec<WaitingHead> {
        let query = WaitingQuery {
            scope: PolicyScope::default(),
            after: None,
            limit: 1_000,
        };
        let now = self.0.clock.now();
        self.rows().heads_waiting(now, &query)
    }

    /// The event table as it stands.
    pub fn events(&self) -> Vec<Event> {
        self.rows().table.events.values().cloned().collect()
    }

    /// What was handled, in this order: row, reference and revision.
    pub fn handled(&self) -> Vec<(i64, Reference, i64)> {
        self.rows().table.handled.clone()
    }

    /// The rows of a type, those that are gone too.
    pub fn rows_of(&self, event_type: &EventType) -> BTreeSet<i64> {
        let rows = self.rows();
        let of_type = rows.table.types.iter().filter(|(_, known)| *known == event_type);
        of_type.map(|(id, _)| *id).collect()
    }

    /// How many notifications of events wait to be published, and which never can be.
    pub fn outbox(&self) -> (usize, Vec<String>) {
        let rows = self.rows();
        (rows.table.outbox.len(), rows.table.buried.clone())
    }

    /// What was discarded and is kept.
    pub fn discarded(&self) -> Vec<KeptMessage> {
        let rows = self.rows();
        let discarded = rows.kept.values().filter(|kept| kept.kind == KeptKind::Discarded);
        discarded.cloned().collect()
    }

    pub fn slow_for(&self, span: Duration) {
        *self.0.slow_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + span);
    }

    /// The files by which processes are known to live are gone.
    pub fn files_gone(&self) {
        for seen in self.evidence().values_mut() {
            *seen = Evidence::Missing;
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evidence(&self) -> MutexGuard<'_, BTreeMap<IncarnationId, Evidence>> {
        self.0.evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_slow(&self) -> bool {
        let until = *self.0.slow_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }
}

impl Handle {
    /// Its process is gone: the lock on its file is free, or its session ended.
    pub fn kill(&self) {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut evidence = self.database.evidence();
        for id in own {
            match evidence.get(&id) {
                Some(Evidence::Alive) => drop(evidence.insert(id, Evidence::Dead)),
                Some(Evidence::Connected) => drop(evidence.insert(id, Evidence::Missing)),
                Some(Evidence::Dead | Evidence::Missing) | None => {}
            }
        }
    }

    pub fn trouble(&self, trouble: Trouble, span: Duration) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some((trouble, Instant::now() + span));
    }

    fn troubled(&self) -> Option<Trouble> {
        let trouble = *self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble
            .filter(|(_, until)| Instant::now() < *until)
            .map(|(trouble, _)| trouble)
    }

    /// One call: there, done at once and whole, and back.
    async fn answer<T>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&mut Rows, Timestamp) -> T + Send,
    ) -> Result<T, StoreError> {
        self.way().await;
        let trouble = self.troubled();
        if trouble == Some(Trouble::Unheard) {
            return Err(unreachable(operation));
        }
        let now = self.database.0.clock.now();
        let answer = call(&mut self.database.rows(), now);
        self.way().await;
        if trouble == Some(Trouble::Unanswered) && ambient::random().is_multiple_of(2) {
            return Err(unreachable(operation));
        }
        Ok(answer)
    }

    async fn way(&self) {
        let factor = if self.database.is_slow() { 200 } else { 1 };
        ambient::sleep(Duration::from_micros(ambient::random() % WAY_US * factor)).await;
    }
}

fn unreachable(operation: &'static str) -> StoreError {
    StoreError::Unreachable {
        operation,
        source: "nobody answers".into(),
    }
}

fn absent<T>(operation: &'static str) -> Result<T, StoreError> {
    Err(StoreError::Failed {
        operation,
        source: "the model of the store cannot".into(),
    })
}
