//! One batch of a run, window by window: journal, publish, look, record, settle.
//!
//! Without a rate a batch is a window, and that each message was confirmed is recorded before its source is settled.
//! With one a batch is a quarter of a second: journalled together, sent one by one, recorded together; what a crash
//! leaves is told apart by what is still at its source.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::future::join_all;

use super::Runs;
use super::aftermath::Aftermath;
use super::drive::Driver;
use super::order::{OrderKind, WINDOW};
use super::outgoing::{moved_message, redriven_message};
use super::plan::is_store;
use super::taken::{Halt, InHand, TakenRun};
use crate::ambient;
use crate::broker::{BrokerError, Outgoing, Published, Walk};
use crate::domain::fingerprint::Fingerprint;
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::message::Message;
use crate::domain::queue::{Decision, QueueRecord};
use crate::domain::run::{ItemState, RunState, Target};
use crate::engine::dead_letter::{LastAttempt, dead_letter};
use crate::engine::publisher::as_broker_error;
use crate::engine::traces;
use crate::store::ItemMark;

/// Between two looks at what a publish waits for.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// What is recorded of a message whose publish had no answer, until it has its outcome.
const UNANSWERED: &str = "the broker did not confirm it: it is sent again, where it still is at its source";
/// Why a discarded letter is in the store again.
const PUT_BACK: &str = "it was there when it was discarded";

/// What came of sending.
pub(super) type Sent = Result<Published, BrokerError>;

impl Driver<'_> {
    /// Journals a batch and sends it window by window, at its pace. Each window is settled at its source before the
    /// next one is sent, so that a window is all that a crash may repeat.
    pub(super) async fn send_batch(&mut self, walk: &mut dyn Walk, batch: Vec<InHand>) -> Result<(), Halt> {
        let mut left: VecDeque<(InHand, Message)> = self.journalled(batch).await?.into();
        while !left.is_empty() {
            let size = self.run.window().min(left.len());
            let sent = match self.keep_pace(size).await {
                Ok(()) => {
                    let window = left.drain(..size).collect();
                    self.send_settled(walk, window).await
                }
                Err(halt) => Err(halt),
            };
            if let Err(halt) = sent {
                self.unsent(&left).await?;
                return Err(halt);
            }
        }
        if self.run.record.rate.is_some() && !self.journal.pending.is_empty() {
            self.journal.record(&self.run, Vec::new()).await?;
        }
        Ok(())
    }

    async fn send_settled(&mut self, walk: &mut dyn Walk, window: Vec<(InHand, Message)>) -> Result<(), Halt> {
        let (settle, halt) = self.send(window).await?;
        self.settle(walk, settle).await?;
        halt.map_or(Ok(()), Err)
    }

    /// What was journalled and is not sent after all is as it was.
    async fn unsent(&mut self, left: &VecDeque<(InHand, Message)>) -> Result<(), Halt> {
        if left.is_empty() {
            return Ok(());
        }
        let marks = left
            .iter()
            .map(|(hand, _)| mark(hand.ordinal, ItemState::Planned, None));
        self.journal.record(&self.run, marks.collect()).await.map(drop)
    }

    /// Records that these may be sent from now on; answers each with what is to be sent.
    pub(super) async fn journalled(&mut self, batch: Vec<InHand>) -> Result<Vec<(InHand, Message)>, Halt> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (journal, prepared) = self.prepared(batch).await?;
        self.journal(journal).await?;
        Ok(prepared)
    }

    /// What is to be sent, and what is to be journalled before.
    pub(super) async fn prepared(
        &mut self,
        batch: Vec<InHand>,
    ) -> Result<(Vec<ItemMark>, Vec<(InHand, Message)>), Halt> {
        let edited = self.run.edited(&batch).await?;
        let prepared = batch.into_iter().map(|hand| {
            let (message, dropped) = self
                .run
                .outgoing(&hand, edited.get(&hand.letter), self.hold.row.as_ref());
            let mark = ItemMark {
                ordinal: hand.ordinal,
                state: ItemState::Journalled,
                reason: None,
                dropped,
            };
            (mark, (hand, message))
        });
        Ok(prepared.unzip())
    }

    /// Sends what is journalled; answers what may be settled at its source now, and what the run has to wait for
    /// before it goes on.
    pub(super) async fn send(&mut self, window: Vec<(InHand, Message)>) -> Result<(Vec<InHand>, Option<Halt>), Halt> {
        let (window, outgoing): (Vec<InHand>, Vec<(Target, Message)>) = window
            .into_iter()
            .map(|(hand, message)| {
                let target = hand.target.clone();
                (hand, (target, message))
            })
            .unzip();
        let sent = self.publish(outgoing).await?;
        let after = self.run.aftermath(&window, &sent).await?;
        self.record(window, sent, &after).await
    }

    /// Records that the window may be published from now on, unless a person stopped the run meanwhile.
    async fn journal(&mut self, journal: Vec<ItemMark>) -> Result<(), Halt> {
        let undone: Vec<ItemMark> = journal
            .iter()
            .map(|mark| ItemMark {
                state: ItemState::Planned,
                dropped: None,
                ..mark.clone()
            })
            .collect();
        let state = self.journal.record(&self.run, journal).await?;
        if state == RunState::Running {
            return Ok(());
        }
        self.journal.record(&self.run, undone).await?;
        Err(Halt::Asked(state))
    }

    /// Publishes a window; tells meanwhile what it waits for. A broker may take nothing for as long as it likes.
    pub(super) async fn publish(&self, outgoing: Vec<(Target, Message)>) -> Result<Vec<Sent>, Halt> {
        self.run.engine.may_manage(self.run.manager.id())?;
        let publishing = self.run.publish_window(outgoing);
        let mut publishing = std::pin::pin!(publishing);
        loop {
            tokio::select! {
                biased;
                sent = &mut publishing => return Ok(sent),
                () = ambient::sleep(LOOK) => {}
            }
            self.journal.say_blocked(&self.run).await;
            if self.run.gives_up() {
                return Err(Halt::Stopped);
            }
        }
    }

    /// Records each outcome; what is unknown stays journalled and is found again.
    async fn record(
        &mut self,
        window: Vec<InHand>,
        sent: Vec<Sent>,
        after: &Aftermath,
    ) -> Result<(Vec<InHand>, Option<Halt>), Halt> {
        let Outcomes { marks, settle, halt } = self.outcomes(window, sent, after);
        // What is paced is recorded with its batch, and what is restored when it is forgotten; but for what went wrong.
        let later = self.run.record.rate.is_some() || self.run.document.kind == OrderKind::Restore;
        let confirmed = marks.iter().all(|mark| mark.state == ItemState::Published);
        if !(later && confirmed) {
            self.journal.record(&self.run, marks).await?;
        }
        Ok((settle, halt))
    }

    /// What came of each, counted.
    pub(super) fn outcomes(&mut self, window: Vec<InHand>, sent: Vec<Sent>, after: &Aftermath) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (hand, sent) in window.into_iter().zip(sent) {
            let (state, reason) = match after.outcome(&hand.target, sent) {
                Ok(outcome) => outcome,
                Err(error) => {
                    let Some(why) = self.refusal(&hand.target, &error) else {
                        // It is open, and where a later pass does not find it, nobody may take it for sent.
                        outcomes.marks.push(unanswered(hand.ordinal));
                        outcomes.halt = Some(Halt::from(error));
                        continue;
                    };
                    self.care.refusing.insert(hand.target.clone(), why.clone());
                    (ItemState::Failed, Some(why))
                }
            };
            self.journal.counts.count(state);
            outcomes.marks.push(mark(hand.ordinal, state, reason));
            if state == ItemState::Published {
                if self.run.document.kind == OrderKind::Redrive {
                    let now = self.run.engine.clock.now();
                    traces::redriven(&hand.source, &hand.message, &self.run.record.id, now);
                }
                outcomes.settle.push(hand);
            }
        }
        outcomes
    }
}

impl TakenRun<'_> {
    /// Messages that are sent together.
    pub(super) fn window(&self) -> usize {
        self.record
            .rate
            .map_or(WINDOW, |rate| usize::try_from(rate / 100).unwrap_or(1).max(1))
    }

    fn outgoing(
        &self,
        hand: &InHand,
        edited: Option<&Message>,
        row: Option<&QueueRecord>,
    ) -> (Message, Option<String>) {
        let message = &hand.message;
        match self.document.kind {
            OrderKind::Redrive => redriven_message(hand.source.as_str(), edited.unwrap_or(message), &self.record.id),
            OrderKind::Skip if is_buried(hand) => (self.skipped(hand, row), None),
            OrderKind::Move | OrderKind::Skip | OrderKind::Restore => moved_message(message),
            OrderKind::Discard => (message.clone(), None),
        }
    }

    /// The dead letter of a head that a person skipped.
    fn skipped(&self, hand: &InHand, row: Option<&QueueRecord>) -> Message {
        let decision = Decision {
            id: self.record.id.clone(),
            message: hand
                .message
                .message_id
                .as_deref()
                .and_then(|id| NotificationId::parse(id).ok())
                .unwrap_or_else(NotificationId::unnamed),
            fingerprint: Some(Fingerprint::of(&hand.message)),
            reason: "skipped".to_owned(),
            epoch: self.record.epoch,
        };
        // What is known of the head may be about the one behind this.
        let head = row.and_then(|row| row.head.as_ref());
        let head = head.filter(|head| head.fingerprint.is_none_or(|known| Some(known) == decision.fingerprint));
        let last = LastAttempt {
            status: head.and_then(|head| head.last_status),
            error: head.and_then(|head| head.last_error.clone()),
            ..LastAttempt::default()
        };
        dead_letter(
            &hand.message,
            &hand.source,
            &decision,
            head,
            &last,
            self.engine.clock.now(),
        )
    }

    /// Publishes a window, each message to its target: one after the other where it is a delivery queue of ours
    /// (docs/protocols.md 9 and 10; one that ended is created again), side by side everywhere else. Dead letters that
    /// are made here go where those of the workers go.
    async fn publish_window(&self, outgoing: Vec<(Target, Message)>) -> Vec<Sent> {
        let mut sent: Vec<Option<Sent>> = outgoing.iter().map(|_| None).collect();
        let mut foreign = (Vec::new(), Vec::new());
        let mut buried = Vec::new();
        let mut ours: BTreeMap<QueueName, Vec<(usize, Message)>> = BTreeMap::new();
        for (index, (target, message)) in outgoing.into_iter().enumerate() {
            if is_store(&target) || (self.document.kind == OrderKind::Skip && !self.engine.planner.is_ours(&target)) {
                buried.push((index, target, message));
                continue;
            }
            if self.engine.planner.is_ours(&target)
                && let Target::Queue(queue) = target
            {
                ours.entry(queue).or_default().push((index, message));
                continue;
            }
            let (exchange, routing_key) = target.into_address();
            foreign.0.push(index);
            foreign.1.push(Outgoing {
                exchange,
                routing_key,
                message,
            });
        }
        let each_queue = ours.into_iter().map(|(queue, messages)| async move {
            if self.document.head {
                self.publish_to_head(queue, messages).await
            } else {
                self.engine.publish_in_order(&queue, messages).await
            }
        });
        let each_letter = buried.into_iter().map(|(index, target, message)| async move {
            let put = if is_store(&target) {
                self.engine.publisher.store_letter(&message, PUT_BACK).await
            } else {
                self.engine.publisher.bury_again(&message).await
            };
            (index, put.map(|()| Published::Accepted).map_err(as_broker_error))
        });
        let (of_letters, of_ours, of_foreign) = tokio::join!(join_all(each_letter), join_all(each_queue), async {
            if foreign.1.is_empty() {
                Vec::new()
            } else {
                self.engine.broker.publish_many(&foreign.1).await
            }
        });
        for (index, one) in of_ours
            .into_iter()
            .flatten()
            .chain(of_letters)
            .chain(foreign.0.into_iter().zip(of_foreign))
        {
            sent[index] = Some(one);
        }
        let unsent = || {
            Err(BrokerError::Unreachable {
                operation: "publish",
                detail: "it was not sent".to_owned(),
            })
        };
        sent.into_iter().map(|one| one.unwrap_or_else(unsent)).collect()
    }
}

/// What came of a window.
#[derive(Default)]
pub(super) struct Outcomes {
    pub(super) marks: Vec<ItemMark>,
    /// What may be settled at its source.
    pub(super) settle: Vec<InHand>,
    /// What the run has to wait for.
    pub(super) halt: Option<Halt>,
}

/// Whether a head that is skipped goes to the dead letters, and not to the end of its queue.
fn is_buried(hand: &InHand) -> bool {
    hand.target != Target::Queue(hand.source.clone())
}

/// Sent, as far as anybody knows, and not confirmed.
fn unanswered(ordinal: u64) -> ItemMark {
    mark(ordinal, ItemState::Journalled, Some(UNANSWERED.to_owned()))
}

pub(super) fn mark(ordinal: u64, state: ItemState, reason: Option<String>) -> ItemMark {
    ItemMark {
        ordinal,
        state,
        reason,
        dropped: None,
    }
}

impl Runs {
    /// Messages of one delivery queue: n+1 only after n is settled.
    async fn publish_in_order(&self, queue: &QueueName, messages: Vec<(usize, Message)>) -> Vec<(usize, Sent)> {
        let mut sent = Vec::with_capacity(messages.len());
        for (index, message) in messages {
            let one = self.publisher.publish_again(queue, message).await;
            let stops = one.is_err();
            sent.push((index, one));
            if stops {
                break;
            }
        }
        sent
    }
}
