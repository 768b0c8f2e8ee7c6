//! What became of what a run sent: whether any of it is dead again, by a look at the queues where it would be.
//!
//! Counts decide nothing: twenty taken out and twenty dead again leave a queue as it was. A look that could not be
//! made whole is not seen, which is no answer, and never *none died*.

use std::collections::{BTreeSet, VecDeque};

use super::look::{HOLD, Horizon};
use super::targets::Targets;
use super::ways::Way;
use super::{DeadIndex, DeadTarget};
use crate::ambient;
use crate::domain::dead_letter::{HEADER_RUN, STORE};
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::run::Target;
use crate::engine::EngineError;
use crate::engine::error::chain;
use crate::engine::looks::returns_of;
use crate::engine::rules::compiled;
use crate::engine::sources::CUT;
use crate::store::DeadClaim;

/// Messages of one read.
const BATCH: usize = 2_000;

/// What a look saw of those that a run sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Died {
    /// So many are dead again.
    Seen(u64),
    /// Nobody can say, and why.
    NotSeen(String),
}

impl DeadIndex {
    /// Looks, from now on, at every queue in which messages of `run` would be dead again: those of `sources`, and where
    /// queues that `targets` lead to send their dead letters.
    pub(in crate::engine) async fn died_again(
        &self,
        run: &str,
        targets: &[Target],
        sources: &BTreeSet<String>,
    ) -> Died {
        match self.look_for(run, targets, sources).await {
            Ok(died) => died,
            Err(error) => Died::NotSeen(chain(&error)),
        }
    }

    async fn look_for(&self, run: &str, targets: &[Target], sources: &BTreeSet<String>) -> Result<Died, EngineError> {
        let graves = self.graves_of(targets, sources).await?;
        // What became a dead-letter queue a moment ago counts too.
        self.targets.forget();
        let Targets { queues, unread } = self.targets.dead_targets_found().await?;
        let known = queues.iter().filter(|queue| graves.contains(queue.name.as_str()));
        let mut watched: Vec<DeadTarget> = known.cloned().collect();
        if unread.is_some() {
            // There may be more than these: whatever is not among them is asked for by its name.
            let is_known = |name: &&String| queues.iter().any(|queue| queue.name.as_str() == name.as_str());
            for name in graves.iter().filter(|name| name.as_str() != STORE && !is_known(name)) {
                if let Ok(name) = QueueName::parse(name) {
                    watched.extend(self.targets.named_target(&name).await?);
                }
            }
        }
        let mut died = 0;
        for queue in &watched {
            match self.dead_of_run(queue, run).await? {
                Died::Seen(count) => died += count,
                Died::NotSeen(why) => return Ok(Died::NotSeen(format!("queue {:?}: {why}", queue.name.as_str()))),
            }
        }
        Ok(Died::Seen(died))
    }

    /// The names of the queues in which what these targets get would be dead.
    async fn graves_of(&self, targets: &[Target], sources: &BTreeSet<String>) -> Result<BTreeSet<String>, EngineError> {
        let mut receivers: BTreeSet<String> = BTreeSet::new();
        let mut ways = VecDeque::new();
        for target in targets {
            match target {
                Target::Queue(queue) => drop(receivers.insert(queue.as_str().to_owned())),
                // The default exchange takes each message to the queue of its key.
                Target::Exchange { exchange, routing_key } if exchange.is_empty() => {
                    receivers.insert(routing_key.clone());
                }
                Target::Exchange { exchange, routing_key } => ways.push_back(Way {
                    exchange: exchange.clone(),
                    key: Some(routing_key.clone()),
                }),
            }
        }
        receivers.append(&mut self.targets.follow(ways).await?.queues);
        let mut listed = self.broker.queues_all().await?.queues;
        listed.retain(|queue| receivers.contains(queue.name.as_str()));
        let policies = compiled(&self.broker.policies().await?);
        let mut graves = self.targets.target_names(&listed, &policies).await?;
        graves.extend(sources.iter().cloned());
        graves.insert(STORE.to_owned());
        Ok(graves)
    }

    /// How many of this queue were sent by the run. Nobody else looks meanwhile: what is in a hand cannot be seen.
    async fn dead_of_run(&self, target: &DeadTarget, run: &str) -> Result<Died, EngineError> {
        if target.ready == Some(0) && target.consumers == 0 {
            return Ok(Died::Seen(0));
        }
        if let Some(why) = target.out_of_bounds(None, &self.looks_of(target).await?) {
            return Ok(Died::NotSeen(why));
        }
        let who = format!("watch-{}-{:08x}", std::process::id(), ambient::random() & 0xffff_ffff);
        let generation = match self.store.dead_claim(&target.name, &who, None, HOLD).await? {
            DeadClaim::Claimed(generation) => generation,
            DeadClaim::Busy(by) => {
                let by = by.claimed_by.unwrap_or_else(|| "somebody".to_owned());
                return Ok(Died::NotSeen(format!("it is looked at by {by}")));
            }
        };
        let died = self.count_of_run(target, run, generation).await;
        self.store.dead_free(&target.name, generation).await?;
        died
    }

    async fn count_of_run(&self, target: &DeadTarget, run: &str, generation: i64) -> Result<Died, EngineError> {
        let charge = self.charge_look(target).await?;
        let Some(mut walk) = self.walk_letters(&target.name, target.walk()).await? else {
            return Ok(Died::Seen(0));
        };
        let (mut died, mut returns, mut horizon) = (0, Vec::new(), Horizon::of(target.ready));
        let seen = loop {
            let walked = match walk.next(BATCH).await {
                Ok(walked) => walked,
                Err(error) => break Err(EngineError::from(error)),
            };
            let is_over = horizon.saw(walked.len(), self.clock.uptime());
            let of_run = |message: &Message| message.header_text(HEADER_RUN) == Some(run);
            died += walked.iter().filter(|one| of_run(&one.message)).count() as u64;
            if target.delivery_limit.is_some() {
                returns.extend(walked.iter().map(|one| returns_of(&one.message)));
            }
            if is_over {
                break Ok(true);
            }
            if !self.store.dead_write(&target.name, generation, &[], HOLD).await? {
                break Ok(false);
            }
        };
        let cut = walk.is_cut();
        let again = walk.close().await?;
        let returns = (matches!(seen, Ok(true)) && !cut).then_some(returns);
        self.looks.look_is_over(charge, returns, again).await;
        Ok(match (seen?, cut) {
            (true, false) => Died::Seen(died),
            // One is enough to stop, however many more there are.
            _ if died > 0 => Died::Seen(died),
            (true, true) => Died::NotSeen(CUT.to_owned()),
            (false, _) => Died::NotSeen("somebody else looks at it".to_owned()),
        })
    }
}
