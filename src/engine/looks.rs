//! What looks cost at queues whose messages outlive a limited number of returns (docs/protocols.md 38): noted in the
//! store before each of them, message by message, and refused before the broker's limit is near, whoever looks.
//!
//! Every look at a queue that is not known to be free of cost goes through here: [`LookCosts::cost_of`] says what it costs,
//! [`LookCosts::look_begins`] notes or refuses it, [`LookCosts::look_ended`] or [`LookCosts::look_broke_off`] say what came of it.
//! [`Cost::walk`] says how a queue is walked so that what is given back keeps its order, [`LookCosts::first`] looks at the first
//! messages in that way.

use std::sync::Arc;
use std::time::Duration;

use crate::ambient;
use crate::broker::{BrokerError, Browsed, ListedQueue, Look, Returns, WalkOptions};
use crate::domain::broker_rules::{Looks, delivery_limit};
use crate::domain::dead_letter::Home;
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::naming::QueueType;
use crate::domain::queue::QueueKind;
use crate::domain::words::plural;
use crate::engine::EngineError;
use crate::engine::core::{Core, over_core};
use crate::engine::rules::compiled;

/// What a quorum queue writes of earlier deliveries.
const RETURNS: &str = "x-delivery-count";
/// Times that a note is tried where others note at the same time.
const TRIES: u32 = 10;
/// How long a consumer that leaves may still be counted.
const LEAVES: Duration = Duration::from_secs(2);
/// Between two looks at whether it left.
const AGAIN: Duration = Duration::from_millis(200);
/// Bytes of bodies in one look; the messages that go over it are the last ones.
const BYTES_MAX: usize = 32 << 20;

/// What a look at a queue costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Cost {
    /// As far as that is known.
    queue_type: QueueType,
    /// Where each look counts.
    counted: Option<Counted>,
}

/// A queue that counts each look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    /// Returns that a message outlives.
    limit: u64,
    /// Messages that are in somebody's hand, as far as that is known.
    in_hand: Option<u64>,
    /// How often the broker delivered messages of it again, whoever they were delivered to.
    redelivered: Option<u64>,
}

impl Counted {
    /// All messages of the queue, `ready` ones and those in somebody's hand.
    const fn present(&self, ready: Option<u64>) -> Option<u64> {
        match (ready, self.in_hand) {
            (Some(ready), Some(in_hand)) => Some(ready.saturating_add(in_hand)),
            (_, None) | (None, _) => None,
        }
    }
}

impl Cost {
    /// How such a queue is walked: where deliveries are counted, no message is taken that was not planned.
    pub(in crate::engine) fn walk(&self) -> WalkOptions {
        WalkOptions::new(Returns::of(self.queue_type, self.limit()))
    }

    /// How its first message alone is taken: no other one is touched.
    pub(in crate::engine) fn walk_head(&self) -> WalkOptions {
        let returns = match self.queue_type {
            QueueType::Classic => Returns::InPlace,
            QueueType::Quorum => Returns::AsTaken,
        };
        WalkOptions {
            window_messages: 1,
            ..WalkOptions::new(returns)
        }
    }

    /// Whether it is a quorum queue, as far as that is known.
    pub(in crate::engine) fn is_quorum(&self) -> bool {
        self.queue_type == QueueType::Quorum
    }

    /// How many returns a message outlives, where somebody has to count them.
    pub(in crate::engine) fn limit(&self) -> Option<u64> {
        Some(self.counted?.limit)
    }
}

/// A look that was noted before it began.
#[derive(Debug)]
pub(in crate::engine) struct Charge {
    queue: QueueName,
    before: Looks,
    noted: Looks,
    present: Option<u64>,
}

/// How often a message was returned before it was delivered now.
pub(in crate::engine) fn returns_of(message: &Message) -> u64 {
    let returns = message.header_integer(RETURNS).unwrap_or(0);
    u64::try_from(returns).unwrap_or(0)
}

/// Knows and notes what looks cost.
#[derive(Debug)]
pub(in crate::engine) struct LookCosts {
    core: Arc<Core>,
}

over_core!(LookCosts);

impl LookCosts {
    pub(in crate::engine) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }
}

impl LookCosts {
    /// What looks at a queue cost so far.
    pub(in crate::engine) async fn looks_at(&self, queue: &QueueName) -> Result<Looks, EngineError> {
        let kept = self.store.looks_kept(queue).await?;
        Ok(kept.as_deref().map(Looks::read).unwrap_or_default())
    }

    /// What a look at this queue costs. What is declared by us costs nothing, and is known without the management API;
    /// of what others declared nothing is known without it.
    pub(in crate::engine) async fn cost_of(&self, queue: &QueueName) -> Result<Cost, EngineError> {
        if Home::of(queue) != Home::Broker {
            return Ok(Cost::default());
        }
        let listed = match self.broker.queue_detail(queue).await {
            Ok(Some(listed)) => listed,
            // The look itself says that there is none.
            Ok(None) => return Ok(Cost::default()),
            Err(error) if self.is_declared_by_us(queue) => {
                tracing::debug!(queue = ?queue, error = ?error, "a queue of ours is looked at as it was declared");
                return Ok(Cost {
                    queue_type: self.settings.naming.queue_type,
                    counted: None,
                });
            }
            // It can be known once somebody answers again.
            Err(
                error @ (BrokerError::Unreachable { .. } | BrokerError::Management { .. } | BrokerError::Login { .. }),
            ) => {
                return self.listed(Err(error));
            }
            Err(error) => {
                return Err(EngineError::Refused {
                    why: format!(
                        "queue {:?} is not looked at: whether a look costs its messages a delivery is not known ({})",
                        queue.as_str(),
                        crate::engine::error::chain(&error)
                    ),
                });
            }
        };
        let queue_type = listed.declared().queue_type;
        let limit = match queue_type {
            QueueType::Quorum => self.limit_of(&listed).await?,
            QueueType::Classic => None,
        };
        let counted = limit.map(|limit| Counted {
            limit,
            in_hand: listed.unacked,
            redelivered: listed.redelivered,
        });
        Ok(Cost { queue_type, counted })
    }

    /// The first messages of a queue, which all come back in their order: of a quorum queue it takes what was given back
    /// before too. Of a delivery queue that is one the caller takes the first message only, and a worker may have it next.
    pub(in crate::engine) async fn first(
        &self,
        queue: &QueueName,
        cost: &Cost,
        limit: u32,
    ) -> Result<Vec<Browsed>, BrokerError> {
        if cost.walk().returns != Returns::InTurn || self.kind_of(queue) == QueueKind::Delivery {
            return self.broker.browse(queue, limit).await;
        }
        let options = WalkOptions {
            window_messages: limit,
            ..cost.walk()
        };
        let Some(mut walk) = self.walk(queue, options).await? else {
            return Ok(Vec::new());
        };
        let (mut seen, limit) = (Vec::new(), usize::try_from(limit).unwrap_or(usize::MAX));
        let mut bytes = 0;
        while seen.len() < limit && bytes <= BYTES_MAX {
            let walked = walk.next(limit - seen.len()).await?;
            if walked.is_empty() {
                break;
            }
            bytes += walked.iter().map(|one| one.message.body.len()).sum::<usize>();
            seen.extend(walked.into_iter().map(|one| Browsed {
                position: u32::try_from(one.position).unwrap_or(u32::MAX),
                redelivered: one.redelivered,
                message: one.message,
            }));
        }
        walk.close().await?;
        Ok(seen)
    }

    fn is_declared_by_us(&self, queue: &QueueName) -> bool {
        match self.kind_of(queue) {
            QueueKind::Delivery | QueueKind::DeadLetter | QueueKind::Wake | QueueKind::Job => true,
            QueueKind::Intake | QueueKind::Foreign => false,
        }
    }

    /// Refuses a queue that somebody consumes; answers how many messages are ready. One of ours that just let go may
    /// be counted for a moment, and on a quorum queue so may a look that ended.
    pub(in crate::engine) async fn unconsumed(&self, queue: &QueueName) -> Result<u64, EngineError> {
        let deadline = self.clock.uptime() + LEAVES;
        loop {
            let Look::Present { ready, consumers } = self.broker.look(queue).await? else {
                return Ok(0);
            };
            if consumers == 0 {
                return Ok(ready);
            }
            if self.clock.uptime() >= deadline {
                return Err(EngineError::Refused {
                    why: format!(
                        "queue {:?} has {}: a look would take messages out of their hands and bring \
                         them out of order; stop what consumes it first",
                        queue.as_str(),
                        plural(consumers, "consumer", "consumers")
                    ),
                });
            }
            ambient::sleep(AGAIN).await;
        }
    }

    /// Notes one more look at all messages of a queue, `ready` ones and those in somebody's hand; refuses it where it
    /// could be one too many for one of them. `None`: it costs nothing.
    pub(in crate::engine) async fn look_begins(
        &self,
        queue: &QueueName,
        cost: &Cost,
        ready: Option<u64>,
    ) -> Result<Option<Charge>, EngineError> {
        let Some(counted) = &cost.counted else { return Ok(None) };
        let present = counted.present(ready);
        let charged = |before: &Looks, redelivered| match before.refusal(present, counted.limit, redelivered) {
            Some(why) => Err(why),
            None => Ok(before.charged(present)),
        };
        self.note_look(queue, counted, present, charged).await.map(Some)
    }

    /// A run takes and passes messages of such a queue: its plan judged that, message by message.
    pub(in crate::engine) async fn run_passes(
        &self,
        queue: &QueueName,
        cost: &Cost,
    ) -> Result<Option<Charge>, EngineError> {
        let Some(counted) = &cost.counted else { return Ok(None) };
        let passed = |before: &Looks, _| Ok(before.passed());
        self.note_look(queue, counted, None, passed).await.map(Some)
    }

    async fn note_look(
        &self,
        queue: &QueueName,
        counted: &Counted,
        present: Option<u64>,
        after: impl Fn(&Looks, Option<u64>) -> Result<Looks, String>,
    ) -> Result<Charge, EngineError> {
        let mut redelivered = counted.redelivered;
        for _ in 0..TRIES {
            let kept = self.store.looks_kept(queue).await?;
            let before = kept.as_deref().map(Looks::read).unwrap_or_default();
            if redelivered.is_some_and(|count| count < before.told_last()) {
                // Others heard of more: only one that is asked for after them says that the broker counts from zero again.
                redelivered = self
                    .cost_of(queue)
                    .await?
                    .counted
                    .and_then(|counted| counted.redelivered);
            }
            let refused = |why| EngineError::Refused {
                why: format!("queue {:?} is not looked at: {why}", queue.as_str()),
            };
            let noted = after(&before, redelivered).map_err(refused)?;
            let told = |looks: Looks| match redelivered {
                Some(redelivered) => looks.told(redelivered),
                None => looks,
            };
            let (before, noted) = (told(before), told(noted));
            let text = noted.written();
            if self.store.looks_keep(queue, kept.as_deref(), &text).await? {
                return Ok(Charge {
                    queue: queue.clone(),
                    before,
                    noted,
                    present,
                });
            }
        }
        Err(EngineError::Refused {
            why: format!("queue {:?} is looked at by others; try again", queue.as_str()),
        })
    }

    /// A look that was charged for is over: it saw messages with these numbers of returns, or, without them, broke off.
    pub(in crate::engine) async fn look_is_over(&self, charge: Option<Charge>, returns: Option<Vec<u64>>, again: u64) {
        match (charge, returns) {
            (Some(charge), Some(returns)) => self.look_ended(charge, returns, again).await,
            (Some(charge), None) => self.look_broke_off(charge, again).await,
            (None, _) => {}
        }
    }

    /// The look saw messages with these numbers of returns, from the head on; `again` of all that the broker delivered
    /// to it were delivered before. Where others looked meanwhile, what they noted holds, which is more.
    pub(in crate::engine) async fn look_ended(&self, charge: Charge, returns: Vec<u64>, again: u64) {
        let seen = charge.before.seen(returns, charge.present).again(again);
        self.correct_note(&charge, &seen).await;
    }

    /// The look, or the run, did not see all that it was charged for: that stays as it was noted.
    pub(in crate::engine) async fn look_broke_off(&self, charge: Charge, again: u64) {
        let broken = charge.noted.clone().again(again);
        self.correct_note(&charge, &broken).await;
    }

    async fn correct_note(&self, charge: &Charge, now: &Looks) {
        let (noted, now) = (charge.noted.written(), now.written());
        if let Err(error) = self.store.looks_keep(&charge.queue, Some(&noted), &now).await {
            tracing::debug!(queue = ?charge.queue, error = ?error, "a look counts for all messages that it could have seen");
        }
    }

    /// How many returns a message of this queue outlives; `None`: looks cost nothing.
    async fn limit_of(&self, listed: &ListedQueue) -> Result<Option<u64>, BrokerError> {
        let policies = compiled(&self.broker.policies().await?);
        Ok(delivery_limit(
            &listed.declared(),
            &policies,
            self.broker.version().await,
        ))
    }
}
