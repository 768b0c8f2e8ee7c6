//! Windows in flight: while the broker takes one, what came of the one before is recorded together with what comes
//! next, and settled at its source. At most two are sent and not settled, each of half a [`WINDOW`], so that a window
//! stays the bound of what a crash repeats; one leaves when the one before is confirmed, so that their order holds.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::drive::Driver;
use super::order::OrderKind;
use super::order::WINDOW;
use super::taken::{Halt, InHand, TakenRun};
use super::window::{LOOK, Sent, mark};
use crate::ambient;
use crate::broker::{BrokerError, Outgoing, Published, Walk};
use crate::domain::message::Message;
use crate::domain::run::{ItemState, RunState};

/// Messages that are in flight together.
pub(super) const FLIGHT: usize = WINDOW / 2;

/// What was sent and is not confirmed yet.
pub(super) struct Flight {
    hands: Vec<InHand>,
    publishing: JoinHandle<Vec<Sent>>,
}

impl Driver<'_> {
    /// Whether a batch may be in flight while the next one is read: nothing waits for its end, and its targets are
    /// queues of others, which take messages side by side.
    pub(super) fn may_fly(&self, batch: &[InHand]) -> bool {
        let unbounded = self.run.record.rate.is_none() && !self.run.has_stages_left() && self.care.careful == 0;
        unbounded && self.run.sends_away() && batch.iter().all(|hand| !self.run.engine.planner.is_ours(&hand.target))
    }

    /// Sends a batch as soon as the one before is confirmed; the one before that is settled by then.
    pub(super) async fn relay(&mut self, walk: &mut dyn Walk, batch: Vec<InHand>) -> Result<(), Halt> {
        if batch.is_empty() {
            return Ok(());
        }
        let (journal, prepared) = self.prepared(batch).await?;
        let ordinals: Vec<u64> = journal.iter().map(|one| one.ordinal).collect();
        let landed = std::mem::take(&mut self.landed);
        let marks = landed.marks.into_iter().chain(journal).collect();
        let state = self.journal.record(&self.run, marks).await?;
        let before = match self.settle(walk, landed.settle).await {
            Ok(()) if state != RunState::Running => Err(Halt::Asked(state)),
            Ok(()) => self.confirmed().await,
            Err(halt) => Err(halt),
        };
        let cleared = match before {
            Ok(before) if before.is_whole() => {
                self.take_off(prepared);
                return self.judge(before).await;
            }
            // What failed of it for good holds nothing up.
            Ok(before) => match self.judge(before).await {
                Ok(()) => {
                    self.take_off(prepared);
                    return Ok(());
                }
                Err(halt) => Err(halt),
            },
            Err(halt) => Err(halt),
        };
        let undone = ordinals.into_iter().map(|one| mark(one, ItemState::Planned, None));
        self.journal.record(&self.run, undone.collect()).await?;
        cleared
    }

    /// Nothing is in flight any more: records and settles what was. Whatever fails of it, nothing is left for a later
    /// walk, in which it would have other tags.
    pub(super) async fn land(&mut self, walk: &mut dyn Walk) -> Result<(), Halt> {
        let recorded = self.record_landed(walk).await;
        let landed = match self.confirmed().await {
            Ok(confirmed) => self.judge(confirmed).await,
            Err(halt) => Err(halt),
        };
        let last = self.record_landed(walk).await;
        recorded.and(last).and(landed)
    }

    /// Records and settles what was confirmed.
    async fn record_landed(&mut self, walk: &mut dyn Walk) -> Result<(), Halt> {
        let landed = std::mem::take(&mut self.landed);
        if landed.marks.is_empty() {
            return Ok(());
        }
        self.journal.record(&self.run, landed.marks).await?;
        self.settle(walk, landed.settle).await
    }

    fn take_off(&mut self, prepared: Vec<(InHand, Message)>) {
        let (hands, outgoing): (Vec<InHand>, Vec<Outgoing>) = prepared.into_iter().map(outgoing).unzip();
        let engine = Arc::clone(self.run.engine);
        let publishing = ambient::spawn("publish a window", async move {
            engine.broker.publish_many(&outgoing).await
        });
        self.flight = Some(Flight { hands, publishing });
    }

    /// Until the window in flight has its answers; tells meanwhile what it waits for.
    async fn confirmed(&mut self) -> Result<Confirmed, Halt> {
        let Some(mut flight) = self.flight.take() else {
            return Ok(Confirmed::default());
        };
        let sent = loop {
            tokio::select! {
                biased;
                sent = &mut flight.publishing => break sent,
                () = ambient::sleep(LOOK) => {}
            }
            self.journal.say_blocked(&self.run).await;
            if self.run.gives_up() {
                flight.publishing.abort();
                return Err(Halt::Stopped);
            }
        };
        let sent = sent.unwrap_or_else(|error| {
            let lost = BrokerError::Unreachable {
                operation: "publish",
                detail: error.to_string(),
            };
            flight.hands.iter().map(|_| Err(lost.clone())).collect()
        });
        let hands = flight.hands;
        Ok(Confirmed { hands, sent })
    }

    /// What came of a window is to be recorded; an error is what the run has to wait for.
    async fn judge(&mut self, confirmed: Confirmed) -> Result<(), Halt> {
        let Confirmed { hands, sent } = confirmed;
        let after = self.run.aftermath(&hands, &sent).await?;
        self.landed = self.outcomes(hands, sent, &after);
        self.landed.halt.take().map_or(Ok(()), Err)
    }
}

impl TakenRun<'_> {
    /// Whether messages are sent to the end of other queues.
    pub(super) fn sends_away(&self) -> bool {
        matches!(self.document.kind, OrderKind::Redrive | OrderKind::Move) && !self.document.head
    }
}

/// A window with the broker's answers.
#[derive(Default)]
struct Confirmed {
    hands: Vec<InHand>,
    sent: Vec<Sent>,
}

impl Confirmed {
    /// Whether each message has an answer that will not change: what comes behind them is in order then.
    fn is_whole(&self) -> bool {
        let is_settled = |sent: &Sent| sent.as_ref().is_ok_and(|sent| !matches!(sent, Published::NotNow(_)));
        self.sent.iter().all(is_settled)
    }
}

fn outgoing((hand, message): (InHand, Message)) -> (InHand, Outgoing) {
    let (exchange, routing_key) = hand.target.clone().into_address();
    let outgoing = Outgoing {
        exchange,
        routing_key,
        message,
    };
    (hand, outgoing)
}
