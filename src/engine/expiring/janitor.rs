//! The janitor: one daemon sweeps through the queues with a lifetime, remembers when each was used last, tells what
//! went with what was in it, saves in time what is about to go where that is wanted, and ends what dead ones left.
//!
//! It lists and uses nothing, and spends at most a tenth of its time listing. What the broker tells of deletions
//! says whether a queue expired or who deleted it; without that, its time tells.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

use super::act::Who;
use super::order::ExpiringResult;
use super::purge::Left;
use super::{Gone, LifetimeRecord};
use crate::ambient::{self, HashMap};
use crate::broker::{BrokerError, BrokerPolicy, ListedQueue, Signal};
use crate::domain::id::{IncarnationId, QueueName};
use crate::domain::time::Timestamp;
use crate::domain::turn::{Turn, TurnKind};
use crate::domain::words::{about, plural};
use crate::engine::expiring::Janitor;
use crate::engine::rules::compiled;
use crate::engine::{EngineError, Event};
use crate::store::{NewAudit, SOON, SaveCause};
use crate::telemetry::names;

/// Between two sweeps at least, and at most unless listing itself takes more than a tenth of it.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(10);
/// Rows that are noted at once.
const NOTED: usize = 500;
/// How much later than its time a queue may be missed and count as expired, or how much earlier.
const LAG: Duration = Duration::from_secs(20);
/// Queues that are not listed any more and are asked for one by one; where more are missing, all queues are listed once.
const ASKED_MAX: usize = 200;
/// Saves of dead ones that are ended in one sweep, at most.
const LEFT_MAX: u32 = 16;
/// Queues that dead ones left unbound and are bound in one sweep, at most.
const UNBOUND_MAX: u32 = 500;

/// What one sweep came to.
struct Swept {
    /// How long it listed.
    listing: Duration,
    /// The shortest lifetime that it saw.
    shortest: Option<Duration>,
}

impl Janitor {
    /// Sweeps until the generation ends.
    pub(in crate::engine) async fn keep_lifetimes(self: Arc<Self>, me: IncarnationId, generation: CancellationToken) {
        let mut signals = self.broker.signals();
        let mut rest = REST_MIN;
        while !generation.is_cancelled() {
            match self.sweep_lifetimes(me, rest, &mut signals).await {
                Ok(Some(swept)) => {
                    let least = swept
                        .shortest
                        .map_or(REST_MAX, |shortest| (shortest / 10).clamp(REST_MIN, REST_MAX));
                    rest = least.max(swept.listing * 9);
                    metrics::histogram!(names::JANITOR_DURATION).record(swept.listing.as_secs_f64());
                }
                Ok(None) => rest = REST_MAX,
                Err(error) => {
                    tracing::debug!(error = ?error, "the janitor waits");
                    metrics::gauge!(names::EXPIRING_QUEUES).set(f64::NAN);
                    metrics::gauge!(names::EXPIRING_MESSAGES).set(f64::NAN);
                }
            }
            self.hear(&mut signals, rest, &generation).await;
        }
    }

    /// Until the next sweep: what the broker tells of deletions is told at once.
    async fn hear(&self, signals: &mut Receiver<Signal>, rest: Duration, generation: &CancellationToken) {
        let deadline = ambient::sleep(rest);
        let mut deadline = std::pin::pin!(deadline);
        loop {
            tokio::select! {
                // However much is told, the sweep is not late.
                biased;
                () = generation.cancelled() => return,
                () = &mut deadline => return,
                signal = signals.recv() => match signal {
                    Ok(Signal::QueueDeleted { queue, by }) => self.deleted(&queue, by).await,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// What was told meanwhile.
    async fn heard(&self, signals: &mut Receiver<Signal>) {
        loop {
            match signals.try_recv() {
                Ok(Signal::QueueDeleted { queue, by }) => self.deleted(&queue, by).await,
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    async fn deleted(&self, queue: &QueueName, by: Option<String>) {
        match self.store.lifetime_forget(queue).await {
            Ok(Some(record)) => self.gone(&record, by.map_or(Gone::Expired, Gone::Deleted)).await,
            Ok(None) => {}
            Err(error) => tracing::debug!(error = ?error, "a deletion is told by the next sweep"),
        }
    }

    /// One sweep; `None`: another daemon is the janitor.
    async fn sweep_lifetimes(
        &self,
        me: IncarnationId,
        rest: Duration,
        signals: &mut Receiver<Signal>,
    ) -> Result<Option<Swept>, EngineError> {
        let Some(sweep) = self.store.janitor_take(me).await? else {
            return Ok(None);
        };
        let known = self.lifetimes.lifetimes_known().await?;
        let began = self.clock.uptime();
        let policies = self.broker.policies().await?;
        let read = compiled(&policies);
        let records = self.lifetimes.lifetimes_in(&policies, &known).await?;
        let listing = self.clock.uptime().saturating_sub(began);
        for noted in records.chunks(NOTED) {
            self.store.lifetimes_note(sweep, noted).await?;
        }
        self.heard(signals).await;
        let mut there = Vec::new();
        let missing = self.store.lifetimes_swept(sweep).await?;
        let all = self.all_queues(missing.len()).await;
        for record in missing {
            match self.still_there(&record, all.as_ref()).await {
                Ok(Some(listed)) => there.push(self.lifetimes.record(listed, &read, Some(&record))),
                Ok(None) => self.gone(&record, self.how_it_went(&record)).await,
                Err(error) => {
                    tracing::debug!(queue = ?record.name, error = ?error, "whether a queue is gone is asked again by the next sweep");
                    there.push(record);
                }
            }
        }
        // One that has no lifetime any more is nothing to remember.
        there.retain(|record| record.lifetime_ms.is_some() || self.lifetimes.is_leftover(&record.name));
        if !there.is_empty() {
            self.store.lifetimes_note(sweep, &there).await?;
        }
        self.gauge(&records);
        if self.settings.save_before_expiry {
            self.save_what_goes(&records, rest).await;
        }
        self.tidy_up(me, &policies).await?;
        Ok(Some(Swept {
            listing,
            shortest: records
                .iter()
                .filter_map(|one| one.lifetime_ms)
                .min()
                .map(Duration::from_millis),
        }))
    }

    /// Every queue of the broker, where so many are missing that it is not asked for each of them.
    async fn all_queues(&self, missing: usize) -> Option<Result<HashMap<QueueName, ListedQueue>, BrokerError>> {
        if missing <= ASKED_MAX {
            return None;
        }
        let all = self.broker.queues_all().await;
        Some(all.map(|all| {
            all.queues
                .into_iter()
                .map(|listed| (listed.name.clone(), listed))
                .collect()
        }))
    }

    /// Not listed, and there all the same: its lifetime was taken away, or pages moved while they were read.
    async fn still_there(
        &self,
        record: &LifetimeRecord,
        all: Option<&Result<HashMap<QueueName, ListedQueue>, BrokerError>>,
    ) -> Result<Option<ListedQueue>, BrokerError> {
        match all {
            Some(Ok(all)) => Ok(all.get(&record.name).cloned()),
            Some(Err(error)) => Err(error.clone()),
            None => self.broker.queue_detail(&record.name).await,
        }
    }

    fn gauge(&self, records: &[LifetimeRecord]) {
        let hour = self.clock.now().plus(SOON);
        let soon = records
            .iter()
            .filter(|record| record.expires_at.is_some_and(|at| at < hour))
            .map(|record| record.messages);
        // One count that is missing makes the sum unknown, not smaller.
        let soon: Option<u64> = soon.sum();
        #[expect(clippy::cast_precision_loss, reason = "numbers of queues and messages")]
        {
            metrics::gauge!(names::EXPIRING_QUEUES).set(records.len() as f64);
            metrics::gauge!(names::EXPIRING_MESSAGES).set(soon.map_or(f64::NAN, |soon| soon as f64));
        }
    }

    /// Nobody told: whether its time was over.
    fn how_it_went(&self, record: &LifetimeRecord) -> Gone {
        let now = self.clock.now();
        match record.expires_at {
            Some(at) if at <= now.plus(LAG) => Gone::Expired,
            Some(_) | None => Gone::Unknown,
        }
    }

    /// A queue is gone: logged and counted with what was in it, and audited where something was.
    async fn gone(&self, record: &LifetimeRecord, how: Gone) {
        let now = self.clock.now();
        let messages = record.messages.unwrap_or(0);
        let age = now.since(record.seen_at).as_secs();
        let by = if let Gone::Deleted(by) = &how { by.as_str() } else { "" };
        if messages > 0 {
            tracing::warn!(queue = ?record.name, how = how.as_str(), by = ?by, messages = ?record.messages, counted_s_ago = age, "a queue with a lifetime is gone with messages in it");
        } else {
            tracing::info!(queue = ?record.name, how = how.as_str(), by = ?by, messages = ?record.messages, counted_s_ago = age, "a queue with a lifetime is gone");
        }
        let with = if messages > 0 { "yes" } else { "no" };
        metrics::counter!(names::QUEUES_GONE, "how" => how.as_str(), "messages" => with).increment(1);
        if how == Gone::Expired {
            metrics::counter!(names::MESSAGES_EXPIRED).increment(messages);
        }
        if messages > 0 {
            self.audit_gone(record, &how, age).await;
            self.tell_turn(Turn {
                kind: TurnKind::MessagesLost,
                subject: record.name.as_str().to_owned(),
                text: format!(
                    "queue {} is gone ({}) with {} in it, as counted {} before",
                    record.name.as_str(),
                    how.as_str(),
                    plural(messages, "message", "messages"),
                    about(Duration::from_secs(age))
                ),
                count: Some(messages),
                at: now,
            });
        }
        self.tell(Event::QueueGone {
            queue: record.name.clone(),
            how,
            messages: record.messages,
            seen_at: record.seen_at,
        });
    }

    async fn audit_gone(&self, record: &LifetimeRecord, how: &Gone, age: u64) {
        let (actor, words) = match how {
            Gone::Expired => ("broker".to_owned(), "its time was over"),
            Gone::Deleted(by) => (format!("broker user {by}"), "deleted"),
            Gone::Unknown => ("broker".to_owned(), "gone, and nobody told why"),
        };
        let entry = NewAudit {
            actor,
            command: "expiring".to_owned(),
            target: record.name.as_str().to_owned(),
            reason: None,
            plan: None,
            result: how.as_str().to_owned(),
            detail: format!(
                "{words}, with {}, counted {} before",
                plural(record.messages.unwrap_or(0), "message", "messages"),
                about(Duration::from_secs(age))
            ),
        };
        if let Err(error) = self.store.audit_append(&entry).await {
            tracing::warn!(error = ?error, "a queue that is gone is not in the audit");
        }
    }

    /// Saves what would be gone before the sweep after the next.
    async fn save_what_goes(&self, records: &[LifetimeRecord], rest: Duration) {
        let now = self.clock.now();
        let due: Vec<&LifetimeRecord> = records.iter().filter(|record| is_due(record, now, rest)).collect();
        if due.is_empty() {
            return;
        }
        let who = Who {
            actor: "janitor".to_owned(),
            reason: Some("save_before_expiry".to_owned()),
            cause: SaveCause::Expiry,
        };
        let saving = self.saves.as_somebody("janitor", |me| {
            let (who, due) = (&who, &due);
            async move {
                for record in due {
                    // What is wrong with one queue loses no other.
                    match self.saves.save_queue(me, &record.name, who).await.map(|saved| saved.result) {
                        Ok(ExpiringResult::Left(why)) => {
                            tracing::warn!(queue = ?record.name, why = ?why, "not all of a queue that is about to expire is saved");
                        }
                        Ok(_) => {}
                        Err(error) => {
                            tracing::warn!(queue = ?record.name, error = ?error, "a queue that is about to expire cannot be saved yet");
                        }
                    }
                }
                Ok(())
            }
        });
        if let Err(error) = saving.await {
            tracing::warn!(error = ?error, "queues that are about to expire cannot be saved yet");
        }
    }

    /// What dead ones left in the middle is ended, and what was kept for its time is forgotten.
    async fn tidy_up(&self, me: IncarnationId, policies: &[BrokerPolicy]) -> Result<(), EngineError> {
        for queue in self.store.unbinding_take(me, UNBOUND_MAX).await? {
            tracing::info!(queue = ?queue, "a queue that a purge left unbound is bound again");
            self.saves.end_unbinding(&queue, Left::Queue).await;
        }
        let left = self.store.saves_left(LEFT_MAX).await?;
        if !left.is_empty() {
            self.saves.as_somebody("janitor", |me| async move {
                for save in &left {
                    if let Err(error) = self.saves.end_left_save(me, &save.id).await {
                        tracing::warn!(save = ?save.id, error = ?error, "a save that broke off cannot be ended yet");
                    }
                }
                Ok(())
            })
            .await?;
        }
        self.expiring.remove_spent_policies(policies).await
    }
}

/// Whether it would be gone with messages before it is looked at twice more; never in the first half of its life.
fn is_due(record: &LifetimeRecord, now: Timestamp, rest: Duration) -> bool {
    let (Some(at), Some(lifetime)) = (record.expires_at, record.lifetime_ms.map(Duration::from_millis)) else {
        return false;
    };
    let margin = (rest * 3).max(lifetime / 10).min(lifetime / 2);
    record.messages.unwrap_or(0) > 0 && record.consumers.unwrap_or(0) == 0 && at <= now.plus(margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(expires_s: i64, messages: u64) -> LifetimeRecord {
        LifetimeRecord {
            name: QueueName::parse("q").unwrap(),
            quorum: false,
            lifetime_ms: Some(60_000),
            argument_ms: Some(60_000),
            by_operator: false,
            consumers: Some(0),
            messages: Some(messages),
            bytes: None,
            unused_since: None,
            expires_at: Some(Timestamp::from_seconds(expires_s)),
            seen_at: Timestamp::from_seconds(0),
        }
    }

    #[test]
    fn what_goes_soon_with_messages_is_due_and_nothing_else() {
        let (now, rest) = (Timestamp::from_seconds(100), Duration::from_secs(3));
        assert!(is_due(&record(108, 1), now, rest));
        assert!(!is_due(&record(108, 0), now, rest), "nothing would be lost");
        assert!(!is_due(&record(115, 1), now, rest), "there is time");
        let long = Duration::from_secs(300);
        assert!(is_due(&record(129, 1), now, long));
        assert!(
            !is_due(&record(131, 1), now, long),
            "the first half of its life is nobody's"
        );
        let used = LifetimeRecord {
            consumers: Some(1),
            ..record(101, 1)
        };
        assert!(!is_due(&used, now, rest));
    }
}
