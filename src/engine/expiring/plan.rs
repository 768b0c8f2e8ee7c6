//! What would become of queues with a lifetime: shown before it is done, and frozen.
//!
//! Planning uses no queue. What was frozen is looked at again, queue by queue, when it is done: one that somebody
//! uses meanwhile, or that holds something else, is left and said so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::order::{ExpiringOrder, Keep, PlannedQueue, Which};
use super::restore::{WINDOW, lifetime_in, load};
use super::{LifetimeRecord, facts};
use crate::domain::expiry::{Extends, extends};
use crate::domain::id::QueueName;
use crate::domain::message::decode;
use crate::domain::queue::QueueKind;
use crate::domain::storable::storable;
use crate::domain::words::{about, lasts, plural, plural_if_known, plural_of};
use crate::engine::command::{at_most, hash};
use crate::engine::expiring::Expiring;
use crate::engine::operation::each_once;
use crate::engine::room::{Load, warn_of_room};
use crate::engine::{Command, Danger, EngineError, Plan, PlanLine};
use crate::store::{SaveRecord, SaveState, SavedMessage};

/// Queues of one plan, at most.
const QUEUES_MAX: usize = 20_000;

impl Expiring {
    pub(super) async fn plan(&self, order: &ExpiringOrder) -> Result<Plan, EngineError> {
        let mut plan = match order {
            ExpiringOrder::Save(which) => self.plan_save(which).await?,
            ExpiringOrder::Purge { which, keep } => self.plan_purge(which, *keep).await?,
            ExpiringOrder::Restore { saves, to } => self.plan_restore(saves, to.as_ref()).await?,
            ExpiringOrder::Extend { which, lifetime } => self.plan_extend(which, *lifetime).await?,
        };
        plan.hash = hash(&plan);
        Ok(plan)
    }

    async fn plan_save(&self, which: &Which) -> Result<Plan, EngineError> {
        let records = self.planned(which).await?;
        let (mut lines, mut planned) = (Vec::new(), Vec::new());
        for record in &records {
            let effect = if let Some(why) = self.not_to_be_taken(record) {
                format!("left: {why}")
            } else {
                planned.push(frozen(record));
                format!(
                    "its messages are moved into the store for {}; the queue stays, and its lifetime restarts",
                    days(self.settings.discard_keep)
                )
            };
            lines.push(self.line(record, effect));
        }
        refuse_if_none(&lines, planned.len())?;
        let mut plan = draft(ExpiringOrder::Save(Which::Planned(planned)), lines, &records);
        plan.title = titled("save", &plan, "queue");
        plan.warnings.push(
            "a later consumer of such a queue does not find them there: `expiring restore` puts them back".to_owned(),
        );
        Ok(plan)
    }

    async fn plan_purge(&self, which: &Which, keep: Keep) -> Result<Plan, EngineError> {
        let records = self.planned(which).await?;
        let (mut lines, mut planned, mut quorum) = (Vec::new(), Vec::new(), false);
        for record in &records {
            let effect = match (self.not_to_be_taken(record), keep, record.messages) {
                (Some(why), _, _) => format!("left: {why}"),
                (None, _, None) => "left: nobody knows how much is in it".to_owned(),
                (None, _, Some(messages)) => {
                    quorum |= record.quorum;
                    planned.push(frozen(record));
                    match (keep, messages) {
                        (_, 0) => "deleted".to_owned(),
                        (Keep::Saved, _) => format!(
                            "deleted; its messages are in the store for {}",
                            days(self.settings.discard_keep)
                        ),
                        (Keep::Dropped, _) => "deleted; its messages are lost".to_owned(),
                    }
                }
            };
            lines.push(self.line(record, effect));
        }
        if !matches!(which, Which::Expired) {
            refuse_if_none(&lines, planned.len())?;
        }
        let order = ExpiringOrder::Purge {
            which: Which::Planned(planned),
            keep,
        };
        let mut plan = draft(order, lines, &records);
        plan.title = titled("purge", &plan, "queue");
        if keep == Keep::Dropped && plan.messages != Some(0) {
            plan.danger = Danger::Destroys;
        }
        if quorum {
            plan.warnings.push("a quorum queue knows no delete-if-unused: it is looked at twice and then deleted, and a message that comes in between is lost".to_owned());
        }
        Ok(plan)
    }

    async fn plan_restore(&self, saves: &[String], to: Option<&QueueName>) -> Result<Plan, EngineError> {
        if let Some(why) = to.and_then(|to| self.settings.naming.keeps_nothing(to)) {
            return Err(EngineError::Invalid {
                field: "to".to_owned(),
                message: format!("to {why}"),
            });
        }
        let saves = each_once(saves);
        let mut lines = Vec::new();
        let (mut messages, mut bytes, mut unbound) = (0, 0, Vec::new());
        let mut taken_off = TakenOff::default();
        let mut sent: BTreeMap<QueueName, Load> = BTreeMap::new();
        for id in &saves {
            let record = self.store.save_get(id).await?;
            let record = record.ok_or_else(|| EngineError::unknown_id("save", id, "expiring saves"))?;
            if record.state == SaveState::Restored {
                return Err(EngineError::Refused {
                    why: format!("save {id:?} was restored already"),
                });
            }
            let target = to.unwrap_or(&record.queue);
            let exists = self.broker.queue_detail(target).await?.is_some();
            let effect = match (exists, to) {
                (true, _) => format!("put behind what is in queue {:?}", target.as_str()),
                (false, None) => self.declared_again(&record),
                (false, Some(_)) => {
                    return Err(EngineError::NotFound {
                        what: format!("queue {:?}", target.as_str()),
                    });
                }
            };
            if !exists && self.kind_of(target) != QueueKind::Job {
                unbound.push(format!(
                    "queue {:?} is made again without its bindings: until its owner binds it, only these messages reach it",
                    target.as_str()
                ));
            }
            messages += record.left;
            bytes += record.bytes;
            *sent.entry(target.clone()).or_default() += load(&record);
            let window = self.store.saved_messages(id, None, WINDOW).await?;
            taken_off.look_at(&window, record.left);
            lines.push(PlanLine {
                target: record.queue.as_str().to_owned(),
                now: format!("{} in save {id}", plural(record.left, "message", "messages")),
                effect,
            });
        }
        let order = ExpiringOrder::Restore {
            saves: saves.clone(),
            to: to.cloned(),
        };
        let mut plan = draft(order, lines, &[]);
        plan.messages = Some(messages);
        plan.title = format!(
            "restore {} ({bytes} bytes) of {}",
            plural(messages, "message", "messages"),
            plural_of(saves.len(), "save", "saves")
        );
        let twice = plural(messages.min(WINDOW.into()), "message", "messages");
        plan.warnings
            .push(format!("if redrive crashes, up to {twice} may be put back twice"));
        plan.warnings.extend(unbound);
        plan.warnings.extend(taken_off.says());
        plan.warnings.extend(warn_of_room(self, &sent).await?);
        Ok(plan)
    }

    /// What is said of a queue that is gone, and its job's others with it.
    fn declared_again(&self, record: &SaveRecord) -> String {
        let lives = lifetime_in(&record.arguments).map(lasts);
        let (others, whose) = match self.kind_of(&record.queue) {
            QueueKind::Job => (", with the other queues of its job that are gone", "their"),
            QueueKind::Delivery | QueueKind::Wake | QueueKind::DeadLetter | QueueKind::Intake | QueueKind::Foreign => {
                ("", "its")
            }
        };
        let begins = lives.map(|span| format!("; {whose} lifetime of {span} begins again"));
        format!(
            "put into the queue, which is declared again as it was{others}{}",
            begins.unwrap_or_default()
        )
    }

    async fn plan_extend(&self, which: &Which, lifetime: Option<Duration>) -> Result<Plan, EngineError> {
        let records = self.planned(which).await?;
        let (mut lines, mut planned) = (Vec::new(), Vec::new());
        for record in &records {
            let effect = match extends(&facts::living(record), lifetime) {
                Extends::No(why) => format!("left: {why}"),
                Extends::Redeclare => {
                    planned.push(frozen(record));
                    "declared again: its lifetime restarts".to_owned()
                }
                Extends::Policy => {
                    planned.push(frozen(record));
                    format!(
                        "a broker policy for it alone lets it live for {} unused",
                        lasts(lifetime.unwrap_or_default())
                    )
                }
            };
            lines.push(self.line(record, effect));
        }
        refuse_if_none(&lines, planned.len())?;
        let order = ExpiringOrder::Extend {
            which: Which::Planned(planned),
            lifetime,
        };
        let mut plan = draft(order, lines, &records);
        plan.title = titled("extend", &plan, "queue");
        Ok(plan)
    }

    /// The queues that are meant, as they are now.
    async fn planned(&self, which: &Which) -> Result<Vec<LifetimeRecord>, EngineError> {
        let names: Vec<QueueName> = match which {
            Which::Expired => {
                let now = self.clock.now();
                let mut records = self.lifetimes.lifetimes_listed().await?;
                records
                    .retain(|record| self.lifetimes.is_leftover(&record.name) && self.lifetimes.is_over(record, now));
                records.truncate(QUEUES_MAX);
                records.sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(records);
            }
            Which::Queues(names) => {
                at_most(names.len(), "queues", "name fewer")?;
                each_once(names)
            }
            Which::Planned(planned) => planned.iter().map(|one| one.name.clone()).collect(),
        };
        if names.is_empty() {
            return Err(EngineError::Invalid {
                field: "queues".to_owned(),
                message: "queues is empty: name at least one".to_owned(),
            });
        }
        let mut records = Vec::with_capacity(names.len());
        for name in names {
            let record = self.lifetimes.lifetime_now(&name).await?;
            records.push(record.ok_or_else(|| EngineError::Expired {
                queue: name.as_str().to_owned(),
            })?);
        }
        Ok(records)
    }

    /// Why nothing is taken out of a queue.
    fn not_to_be_taken(&self, record: &LifetimeRecord) -> Option<String> {
        if record.consumers.unwrap_or(0) > 0 {
            return Some("somebody consumes it".to_owned());
        }
        match self.kind_of(&record.name) {
            QueueKind::Delivery | QueueKind::Wake | QueueKind::DeadLetter | QueueKind::Intake => {
                Some("it is one of redrive's own queues, which do not expire".to_owned())
            }
            QueueKind::Job | QueueKind::Foreign => None,
        }
    }

    fn line(&self, record: &LifetimeRecord, effect: String) -> PlanLine {
        let now = self.clock.now();
        let mut text = plural_if_known(record.messages, "message", "messages");
        if let Some(bytes) = record.bytes {
            let _ = write!(text, ", {bytes} bytes");
        }
        if let Some(since) = record.unused_since {
            let _ = write!(text, ", unused for {}", about(now.since(since)));
        }
        PlanLine {
            target: record.name.as_str().to_owned(),
            now: text,
            effect,
        }
    }
}

/// What messages that are put back do not keep; the first window of each save is looked at.
#[derive(Default)]
struct TakenOff {
    names: BTreeSet<&'static str>,
    looked_at: u64,
    in_all: u64,
}

impl TakenOff {
    fn look_at(&mut self, window: &[SavedMessage], left: u64) {
        let messages = window.iter().filter_map(|saved| decode(&saved.message));
        self.names
            .extend(messages.flat_map(|message| storable(&message).taken_off.into_iter().map(|(name, _)| name)));
        self.looked_at += window.len() as u64;
        self.in_all += left;
    }

    fn says(&self) -> Option<String> {
        let mut names: Vec<&str> = self.names.iter().copied().collect();
        let last = names.pop()?;
        let names = if names.is_empty() {
            last.to_owned()
        } else {
            format!("{} and {last}", names.join(", "))
        };
        let some = if self.looked_at < self.in_all {
            format!(", in the first {} that were looked at", self.looked_at)
        } else {
            String::new()
        };
        Some(format!(
            "put back without {names}{some}: with these they could be lost, refused, reordered or sent elsewhere too"
        ))
    }
}

fn frozen(record: &LifetimeRecord) -> PlannedQueue {
    PlannedQueue {
        name: record.name.clone(),
        messages: record.messages,
        bytes: record.bytes,
        unused_since: record.unused_since,
    }
}

fn draft(order: ExpiringOrder, lines: Vec<PlanLine>, records: &[LifetimeRecord]) -> Plan {
    let planned: Vec<&QueueName> = order.queues();
    let chosen: crate::ambient::HashSet<&QueueName> = planned.into_iter().collect();
    let of_plan = records.iter().filter(|record| chosen.contains(&record.name));
    let messages = of_plan.map(|record| record.messages).sum::<Option<u64>>();
    drop(chosen);
    Plan {
        command: Command::Expiring(order),
        title: String::new(),
        lines,
        warnings: Vec::new(),
        messages,
        danger: Danger::Reversible,
        hash: String::new(),
        run: None,
        ends_reason: None,
        names: Vec::new(),
    }
}

fn titled(verb: &str, plan: &Plan, what: &str) -> String {
    let count = if let Command::Expiring(order) = &plan.command {
        order.queues().len()
    } else {
        plan.lines.len()
    };
    let messages = plural_if_known(plan.messages, "message", "messages");
    format!("{verb} {} with {messages}", plural_of(count, what, &format!("{what}s")))
}

/// A plan that does nothing is refused with its reason.
fn refuse_if_none(lines: &[PlanLine], planned: usize) -> Result<(), EngineError> {
    let Some(first) = lines.first().filter(|_| planned == 0) else {
        return Ok(());
    };
    Err(EngineError::Refused {
        why: format!("queue {:?} is {}", first.target, first.effect),
    })
}

fn days(span: Duration) -> String {
    let seconds = span.as_secs();
    if seconds.is_multiple_of(86_400) {
        format!("{} d", seconds / 86_400)
    } else {
        format!("{seconds} s")
    }
}
