//! The broker's policies and the queues' arguments, as far as they touch order and what waits
//! (docs/protocols.md 23, 33): read every 10 s and when told, matched by ourselves. A daemon has every queue follow
//! from them, judges the dead-letter queue too, and keeps the set in the store for those who publish.

mod kept;
mod letters;
mod settle;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use self::kept::LastKept;
use super::Event;
use super::core::{Core, over_core};
use super::tell::Tell;
use super::turns::Turns;
use crate::ambient::{self, HashMap};
use crate::broker::{BrokerError, BrokerPolicy};
use crate::domain::broker_rules::{
    ALTERNATE, Declared, Judgement, Pattern, Policies, Policy, Told, could_harm, could_harm_by, judge, judge_exchange,
};
use crate::domain::findings::LONG_HOLD;
use crate::domain::id::QueueName;
use crate::domain::naming::QueueType;
use crate::domain::time::Timestamp;

/// Between two readings of the policies.
const READ: Duration = Duration::from_secs(10);
/// And at least, however often the broker tells of a change: it tells it once for each queue.
const READ_MIN: Duration = Duration::from_millis(250);
/// Between two tries with queues that somebody holds.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a broker that did not answer is not asked for arguments, in microseconds.
const QUIET_US: u64 = 10_000_000;
/// Queues whose arguments are remembered, at most.
const ARGUMENTS_MAX: usize = 200_000;

type Arguments = Arc<Vec<(String, String)>>;

/// What is known of policies and arguments.
#[derive(Debug, Default)]
pub(super) struct Rules {
    policies: RwLock<Read>,
    arguments: Mutex<KnownArguments>,
    /// Uptime in microseconds before which the broker is not asked for arguments again: it did not answer.
    quiet_until: AtomicU64,
    /// Why dead letters would not last.
    letters: RwLock<Option<String>>,
    /// Why nothing may be published through our exchange, and since when.
    exchange: RwLock<Option<(String, Timestamp)>>,
    /// What daemons keep in the store, as it was read last.
    kept: Mutex<LastKept>,
    /// Whoever reads it.
    reading: tokio::sync::Mutex<()>,
}

/// The arguments of queues: they never change while one lives.
#[derive(Debug, Default)]
struct KnownArguments {
    by_queue: HashMap<QueueName, Arguments>,
    /// Those learned last. Most queues have the same, and share them.
    last: Option<Arguments>,
}

/// The policies as they were read, and as they are judged by.
#[derive(Debug, Default)]
struct Read {
    policies: Option<Vec<BrokerPolicy>>,
    told: Told,
    judged: Arc<Policies>,
}

impl Rules {
    /// How long messages of a queue that is not a delivery queue may be in hand: half of what a policy gives its
    /// consumers, of whichever type it is.
    pub(super) fn longest_hold(&self, queue: &QueueName) -> Duration {
        let policies = self.policies();
        let timeout = |queue_type| {
            let queue = Declared {
                name: queue.as_str(),
                queue_type,
                arguments: &[],
            };
            let millis = policies.smallest(&queue, "consumer-timeout")?;
            Some(Duration::from_millis(u64::try_from(millis).ok()?) / 2)
        };
        let timeouts = [QueueType::Classic, QueueType::Quorum].into_iter().filter_map(timeout);
        timeouts.fold(LONG_HOLD, Duration::min)
    }

    /// Takes in the arguments of a listed queue. True: it had others before, so it is another queue of that name.
    pub(super) fn learn(&self, queue: &QueueName, arguments: &[(String, String)]) -> bool {
        let mut known = self.arguments.lock().unwrap_or_else(PoisonError::into_inner);
        if known.by_queue.len() >= ARGUMENTS_MAX {
            known.by_queue.clear();
        }
        let before = known.by_queue.get(queue).map(|before| **before == *arguments);
        if before == Some(true) {
            return false;
        }
        let arguments = match &known.last {
            Some(last) if **last == *arguments => Arc::clone(last),
            Some(_) | None => Arc::new(arguments.to_vec()),
        };
        known.last = Some(Arc::clone(&arguments));
        known.by_queue.insert(queue.clone(), arguments);
        before.is_some()
    }

    /// The queue is gone; one of its name may come back with other arguments.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.arguments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .by_queue
            .remove(queue);
    }

    fn arguments_of(&self, queue: &QueueName) -> Option<Arguments> {
        self.arguments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .by_queue
            .get(queue)
            .cloned()
    }

    fn policies(&self) -> Arc<Policies> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&policies.judged)
    }

    /// Takes in the policies and what the broker says of them; true when they changed, or were never read before.
    fn replace(&self, read: Vec<BrokerPolicy>, told: Told) -> bool {
        let mut policies = self.policies.write().unwrap_or_else(PoisonError::into_inner);
        if policies.policies.as_ref() == Some(&read) && policies.told == told {
            return false;
        }
        let judged = compiled(&read).with_told(told.clone());
        *policies = Read {
            policies: Some(read),
            told,
            judged: Arc::new(judged),
        };
        true
    }

    /// Whether only the broker can tell which queues some policy is for.
    pub(super) fn has_odd(&self) -> bool {
        self.policies().odd().next().is_some()
    }
}

/// The vhost's policies as the domain matches them.
pub(super) fn compiled(policies: &[BrokerPolicy]) -> Policies {
    Policies::new(policies.iter().map(matched).collect())
}

/// One whose pattern is not understood is taken to match.
fn matched(policy: &BrokerPolicy) -> Policy {
    Policy {
        name: policy.name.clone(),
        pattern: Pattern::parse(&policy.pattern),
        matches_unknown: true,
        apply_to: policy.applies_to.clone(),
        priority: policy.priority,
        operator: policy.operator,
        definition: policy.definition.clone(),
    }
}

/// Reads the broker's policies, judges queues by them, and takes those out of publishers' reach that a policy would
/// destroy or reorder.
#[derive(Debug)]
pub(super) struct PolicyGuard {
    core: Arc<Core>,
    pub(super) rules: Arc<Rules>,
    /// The broker's policies changed.
    moved: Notify,
    /// Who binds or unbinds a delivery queue under a lease of this process's delivery, or frees that.
    pub(super) bindings: Arc<Turns>,
}

over_core!(PolicyGuard);

impl PolicyGuard {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            rules: Arc::default(),
            moved: Notify::new(),
            bindings: Arc::default(),
        }
    }

    /// A policy, or a queue that one is about, is another one.
    pub(super) fn look_again(&self) {
        self.moved.notify_one();
    }

    /// What policies and arguments mean for a queue; asks the broker once for arguments that no listing
    /// told. What cannot be read is a warning, not a stop.
    pub(super) async fn judge_queue(&self, queue: &QueueName) -> Judgement {
        let mut arguments = self.rules.arguments_of(queue);
        let now = u64::try_from(self.clock.uptime().as_micros()).unwrap_or(u64::MAX);
        if arguments.is_none() && now >= self.rules.quiet_until.load(Ordering::Relaxed) {
            match self.broker.queue_detail(queue).await {
                Ok(Some(detail)) => {
                    self.rules.learn(queue, &detail.arguments);
                    arguments = Some(Arc::new(detail.arguments));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(queue = ?queue, error = ?error, "arguments are not checked");
                    self.rules
                        .quiet_until
                        .store(now.saturating_add(QUIET_US), Ordering::Relaxed);
                }
            }
        }
        self.judged(queue, arguments.as_ref().map(|known| known.as_slice()))
    }

    /// By the policies as they were read last.
    fn judged(&self, queue: &QueueName, arguments: Option<&[(String, String)]>) -> Judgement {
        let queue_type = self.settings.naming.queue_type;
        judge(queue.as_str(), queue_type, arguments, &self.rules.policies())
    }

    /// Reads the policies, and has every queue follow from them.
    pub(super) async fn watch(self: Arc<Self>, tell: mpsc::Sender<Tell>, generation: CancellationToken) {
        let (mut read_at, mut unsettled) = (None, Unsettled::None);
        while !generation.is_cancelled() {
            let now = self.clock.uptime();
            if read_at.is_none_or(|at| now.saturating_sub(at) >= READ) {
                if self.read_rules().await {
                    unsettled = Unsettled::Unknown;
                }
                // As the pause below counts it: else each second reading is left out.
                read_at = Some(now);
            }
            unsettled = self.settle_rules(unsettled, &tell, &generation).await;
            let pause = match &unsettled {
                Unsettled::None => READ.saturating_sub(self.clock.uptime().saturating_sub(now)),
                Unsettled::Unknown | Unsettled::Queues(_) => SETTLE,
            };
            tokio::select! {
                biased;
                () = generation.cancelled() => {}
                () = self.moved.notified() => {
                    ambient::sleep(READ_MIN).await;
                    read_at = None;
                }
                () = ambient::sleep(pause) => {}
            }
        }
    }

    /// True when some queue may have to follow: the policies changed, or some of them could harm, and a queue that
    /// came since has to be looked at too.
    pub(super) async fn read_rules(&self) -> bool {
        let read = match self.broker.policies().await {
            Ok(read) => read,
            Err(error) => {
                tracing::debug!(error = ?error, "broker policies are as last read");
                return false;
            }
        };
        let told = self.ask_of_odd(&read).await;
        let now = self.clock.uptime();
        let changed = self.rules.replace(read.clone(), told);
        let document = kept::written(&read, &self.rules.policies());
        self.rules.kept_here(document.clone(), now);
        self.judge_exchange();
        self.judge_letters().await;
        if let Err(error) = self.store.broker_policies_keep(&document).await {
            tracing::debug!(error = ?error, "publishers do not know the broker's policies as they are now");
        }
        changed || could_harm(&self.rules.policies())
    }

    /// What the broker says is in force for what is ours, where some pattern is not understood that could harm. What
    /// cannot be asked is taken for the worst.
    async fn ask_of_odd(&self, read: &[BrokerPolicy]) -> Told {
        let asked = self.ask_what_is_in_force(&compiled(read)).await;
        asked.unwrap_or_else(|error| {
            tracing::warn!(error = ?error, "a policy whose pattern is not understood is taken for the worst");
            Told::default()
        })
    }

    async fn ask_what_is_in_force(&self, policies: &Policies) -> Result<Told, BrokerError> {
        let odd: Vec<&Policy> = policies.odd().collect();
        let sets = |wanted: &(dyn Fn(&str) -> bool + Sync)| {
            let mut keys = odd.iter().flat_map(|policy| &policy.definition);
            keys.any(|(key, _)| wanted(key))
        };
        let (naming, mut told) = (&self.settings.naming, Told::default());
        if sets(&could_harm_by) {
            let listed = self.broker.queues_all().await?.queues.into_iter();
            let ours = listed.filter(|queue| queue.name.as_str().starts_with(&naming.prefix));
            told.queues = ours
                .map(|queue| (queue.name.as_str().to_owned(), queue.policy))
                .collect();
        }
        if sets(&|key| key == ALTERNATE)
            && let Some(found) = self.broker.exchange_detail(&naming.exchange()).await?
        {
            told.exchanges.insert(naming.exchange(), found.policy);
        }
        Ok(told)
    }

    /// Judges our exchange by the policies as they were read last.
    fn judge_exchange(&self) {
        let judged = judge_exchange(&self.settings.naming.exchange(), &self.rules.policies());
        let mut exchange = self.rules.exchange.write().unwrap_or_else(PoisonError::into_inner);
        match (&judged, exchange.as_ref()) {
            (Some(reason), None) => {
                tracing::error!(reason = ?reason, "nothing is published and nothing is dead-lettered");
                self.tell(Event::Incident(format!("nothing is published: {reason}")));
            }
            (None, Some(_)) => tracing::info!("what no queue takes comes back to its publisher again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let since = exchange.as_ref().map_or_else(|| self.clock.now(), |(_, since)| *since);
        *exchange = judged.map(|reason| (reason, since));
    }

    /// What is still not as it is judged after it was tried.
    async fn settle_rules(
        self: &Arc<Self>,
        unsettled: Unsettled,
        tell: &mpsc::Sender<Tell>,
        stop: &CancellationToken,
    ) -> Unsettled {
        let tried = async {
            let rows = match unsettled {
                Unsettled::None => return Ok(Vec::new()),
                Unsettled::Unknown => self.find_unsettled().await?,
                Unsettled::Queues(queues) => self.still_unsettled(&queues).await?,
            };
            self.settle(rows, tell, stop).await
        };
        match tried.await {
            Ok(left) if left.is_empty() => Unsettled::None,
            Ok(left) => Unsettled::Queues(left),
            Err(error) => {
                tracing::warn!(error = ?error, "a changed broker policy is not applied to every queue yet");
                Unsettled::Unknown
            }
        }
    }
}

/// Queues that are not as they are judged.
#[derive(Debug)]
enum Unsettled {
    None,
    /// Nobody looked yet.
    Unknown,
    /// These.
    Queues(Vec<QueueName>),
}
