//! After the canary: a person looks, or the run itself watches for a while whether anything fails: dies
//! again, or makes its endpoint unavailable. With a ramp it goes on part by part, each some times as large as what
//! is done, and watched like the canary. What a run that watches itself sends after that is watched on the way.
//!
//! A part passes only on a look that began after its last message was sent and its watch was over, and that saw every
//! queue in which its messages would be dead. Until there is one the run says what it could not see, and waits.

use std::time::Duration;

use super::drive::Driver;
use super::taken::{Halt, TakenRun};
use crate::ambient::HashSet;
use crate::domain::id::QueueName;
use crate::domain::run::{RunState, Target, phase};
use crate::domain::time::Timestamp;
use crate::engine::EngineError;
use crate::engine::dead::Died;
use crate::store::QueuesOnly;

/// Between two looks at the endpoints while a run goes on.
const LOOK: Duration = Duration::from_secs(2);
/// Between two looks at the dead letters while a run goes on, at least.
const LOOK_AT_LETTERS: Duration = Duration::from_secs(5);
/// What a person does then.
const ASKS: &str = "look at them, then `run resume` sends the rest unwatched, or `run cancel`";

impl Driver<'_> {
    /// Whether as many are done as are to be done before somebody looks, and more are left.
    pub(super) fn is_canary_done(&self) -> bool {
        self.run
            .record
            .canary
            .is_some_and(|canary| self.journal.counts.done >= canary)
            && self.journal.counts.settled() < self.run.record.total
    }

    /// Nothing when the run goes on by itself; else what a person is told.
    pub(super) async fn looked(&mut self, after: &Halt) -> Result<Option<String>, Halt> {
        let after_canary = *after == Halt::Canary;
        let done = self.journal.counts.done;
        let Some(watch) = self.run.watch_time() else {
            return Ok(Some(format!(
                "{done} are done: look at them, then `run resume` or `run cancel`"
            )));
        };
        let until = self.run.engine.clock.uptime() + if after_canary { watch } else { Duration::ZERO };
        let mut look_at = self.run.engine.clock.uptime() + LOOK;
        loop {
            let now = self.run.engine.clock.uptime();
            let is_over = now >= until;
            let looks = is_over || now >= look_at;
            if looks {
                look_at = now + LOOK_AT_LETTERS;
            }
            let trouble = if looks {
                self.run.trouble(done).await
            } else {
                self.run.trouble_with_targets(done).await
            };
            let saying = match trouble {
                Ok(Trouble::None) if is_over => break,
                Ok(Trouble::None) => phase::watching(done, until.saturating_sub(now)),
                Ok(Trouble::NotSeen(why)) => phase::not_seen(done, &why),
                Ok(Trouble::Told(trouble)) => return Ok(Some(trouble)),
                Err(error) => {
                    let halt = Halt::from(error);
                    let Halt::Waits(why) = halt else { return Err(halt) };
                    why
                }
            };
            self.journal.wait(&self.run, saying).await?;
        }
        if after_canary {
            self.next_stage().await?;
        }
        let now = self.run.engine.clock.uptime();
        self.looked_at = (now, now);
        Ok(None)
    }

    /// Whether what a run that watches itself sends fails; looked at now and then, on the way. The dead
    /// letters are seen only while no source is walked.
    pub(super) async fn watch(&mut self) -> Result<(), Halt> {
        let Some(watch) = self.run.watch_time().filter(|_| self.run.record.canary.is_some()) else {
            return Ok(());
        };
        let now = self.run.engine.clock.uptime();
        if now.saturating_sub(self.looked_at.0) < LOOK {
            return Ok(());
        }
        self.looked_at.0 = now;
        if let Some(trouble) = self.run.failing(self.journal.counts.done).await? {
            return Err(Halt::Trouble(trouble));
        }
        if now.saturating_sub(self.looked_at.1) < watch.max(LOOK_AT_LETTERS) {
            return Ok(());
        }
        Err(Halt::Look)
    }

    /// Recorded, so that whoever takes the run over does not watch the same again.
    async fn next_stage(&mut self) -> Result<(), Halt> {
        let total = self.run.record.total;
        let next = match self.run.document.ramp {
            Some(ramp) => self.journal.counts.done.saturating_mul(u64::from(ramp)).clamp(1, total),
            None => total,
        };
        if !self
            .run
            .engine
            .store
            .run_stage(&self.run.record.id, self.run.record.epoch, next)
            .await?
        {
            let state = self.journal.say(&self.run, None).await;
            return Err(state
                .filter(|state| *state != RunState::Running)
                .map_or(Halt::Lost, Halt::Asked));
        }
        self.run.record.canary = Some(next);
        Ok(())
    }
}

impl TakenRun<'_> {
    /// Whether somebody is to look before all are done.
    pub(super) fn has_stages_left(&self) -> bool {
        self.record.canary.is_some_and(|canary| canary < self.record.total)
    }

    /// For how long a run watches itself, and how often it looks at the dead letters on its way.
    fn watch_time(&self) -> Option<Duration> {
        self.document.canary_watch_s.map(Duration::from_secs)
    }

    /// What became of those that were sent, where it is not well.
    async fn trouble(&self, done: u64) -> Result<Trouble, EngineError> {
        if let Trouble::Told(failing) = self.trouble_with_targets(done).await? {
            return Ok(Trouble::Told(failing));
        }
        let targets: Vec<Target> = self.targets().collect();
        let died = self
            .engine
            .dead_index
            .died_again(&self.record.id, &targets, &self.document.sources);
        Ok(match died.await {
            Died::Seen(0) => Trouble::None,
            Died::Seen(again) => Trouble::Told(format!("{again} died again after {done} were done: {ASKS}")),
            Died::NotSeen(why) => Trouble::NotSeen(why),
        })
    }

    /// The same without a look at dead letters, which costs more.
    async fn trouble_with_targets(&self, done: u64) -> Result<Trouble, EngineError> {
        Ok(self.failing(done).await?.map_or(Trouble::None, Trouble::Told))
    }

    fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        self.document.targets.keys().filter_map(|text| Target::decode(text))
    }

    /// A whole second before the run began, as deaths are told.
    fn began(&self) -> Timestamp {
        let began = self.record.started_at.unwrap_or(self.record.created_at);
        Timestamp::from_seconds(began.seconds())
    }

    /// An endpoint that this run sends to and that ceased to be available since it began.
    async fn failing(&self, done: u64) -> Result<Option<String>, EngineError> {
        let began = self.began();
        let lost = self.engine.store.endpoints_not_available().await?;
        let lost: Vec<_> = lost.into_iter().filter(|endpoint| endpoint.since >= began).collect();
        if lost.is_empty() {
            return Ok(None);
        }
        let ours = self.engine.settings.naming.exchange();
        let targets: HashSet<QueueName> = self.targets().filter_map(|target| queue_of(target, &ours)).collect();
        for endpoint in lost {
            let mut pages = self.engine.queue_pages(QueuesOnly::OfUrl(endpoint.url.clone()));
            while let Some(queues) = pages.next().await? {
                if queues.iter().any(|queue| targets.contains(&queue.name)) {
                    let why = match (&endpoint.last_status, &endpoint.last_error) {
                        (Some(status), _) => format!(", it answered {status}"),
                        (None, Some(error)) => format!(": {error}"),
                        (None, None) => String::new(),
                    };
                    return Ok(Some(format!(
                        "{} is {} since {done} were done{why}: {ASKS}",
                        endpoint.url.as_str(),
                        endpoint.state.as_str(),
                    )));
                }
            }
        }
        Ok(None)
    }
}

/// How it stands with what was sent.
enum Trouble {
    None,
    /// What a person is told.
    Told(String),
    /// Nobody can say, and why.
    NotSeen(String),
}

/// The queue that a target is, where its key alone says so.
fn queue_of(target: Target, ours: &str) -> Option<QueueName> {
    match target {
        Target::Queue(queue) => Some(queue),
        Target::Exchange { exchange, routing_key } if exchange.is_empty() || exchange == ours => {
            QueueName::parse(&routing_key).ok()
        }
        Target::Exchange { .. } => None,
    }
}
