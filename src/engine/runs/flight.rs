//! A window in flight: while the broker takes it, the next one is read and prepared, and one record says of both
//! that the one was confirmed and that the other may be sent. At most one window is in flight, and its sources are
//! settled before the next one leaves: it stays the bound of what a crash repeats.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::drive::{Driver, Halt, InHand};
use super::order::OrderKind;
use super::window::{LOOK, Outcomes, Sent, mark};
use crate::ambient;
use crate::broker::{BrokerError, Outgoing, Walk};
use crate::domain::message::Message;
use crate::domain::run::{ItemState, RunState, Target};

/// What was sent and is not confirmed yet.
pub(super) struct Flight {
    hands: Vec<InHand>,
    publishing: JoinHandle<Vec<Sent>>,
}

impl Driver<'_> {
    /// Whether a batch may be in flight while the next one is read: nothing waits for its end, and its targets are
    /// queues of others, which take messages side by side.
    pub(super) fn may_fly(&self, batch: &[InHand]) -> bool {
        let unbounded = self.run.rate.is_none() && !self.has_stages_left() && self.careful == 0;
        let plain = matches!(self.document.kind, OrderKind::Redrive | OrderKind::Move) && !self.document.head;
        unbounded && plain && batch.iter().all(|hand| !self.engine.is_ours(&hand.target))
    }

    /// Sends a batch as soon as the one before is settled.
    pub(super) async fn relay(&mut self, walk: &mut dyn Walk, batch: Vec<InHand>) -> Result<(), Halt> {
        if batch.is_empty() {
            return Ok(());
        }
        let (journal, prepared) = self.prepared(batch).await?;
        let landed = self.landed().await?;
        if landed.halt.is_some() {
            return self.settle_landed(walk, landed).await;
        }
        let ordinals: Vec<u64> = journal.iter().map(|one| one.ordinal).collect();
        let marks = landed.marks.into_iter().chain(journal).collect();
        let state = self.advance(marks, Vec::new(), Vec::new()).await?;
        let settled = self.settle(walk, landed.settle).await;
        if settled.is_err() || state != RunState::Running {
            let undone = ordinals.into_iter().map(|one| mark(one, ItemState::Planned, None));
            self.advance(undone.collect(), Vec::new(), Vec::new()).await?;
            return settled.and(Err(Halt::Asked(state)));
        }
        self.take_off(prepared);
        Ok(())
    }

    /// Nothing is in flight any more: records and settles what was.
    pub(super) async fn land(&mut self, walk: &mut dyn Walk) -> Result<(), Halt> {
        if self.flight.is_none() {
            return Ok(());
        }
        let landed = self.landed().await?;
        self.settle_landed(walk, landed).await
    }

    async fn settle_landed(&mut self, walk: &mut dyn Walk, landed: Outcomes) -> Result<(), Halt> {
        self.advance(landed.marks, Vec::new(), Vec::new()).await?;
        self.settle(walk, landed.settle).await?;
        landed.halt.map_or(Ok(()), Err)
    }

    fn take_off(&mut self, prepared: Vec<(InHand, Message)>) {
        let (hands, outgoing): (Vec<InHand>, Vec<Outgoing>) = prepared.into_iter().map(outgoing).unzip();
        let engine = Arc::clone(self.engine);
        let publishing = ambient::spawn("publish a window", async move {
            engine.broker.publish_many(&outgoing).await
        });
        self.flight = Some(Flight { hands, publishing });
    }

    /// What became of the window in flight; tells meanwhile what it waits for.
    async fn landed(&mut self) -> Result<Outcomes, Halt> {
        let Some(mut flight) = self.flight.take() else {
            return Ok(Outcomes::default());
        };
        let sent = loop {
            tokio::select! {
                sent = &mut flight.publishing => break sent,
                () = tokio::time::sleep(LOOK) => {}
            }
            self.say_blocked().await;
            if self.gives_up() {
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
        let gone = self.vanished(&flight.hands, &sent).await?;
        Ok(self.outcomes(flight.hands, sent, &gone))
    }
}

fn outgoing((hand, message): (InHand, Message)) -> (InHand, Outgoing) {
    let (exchange, routing_key) = match hand.target.clone() {
        Target::Queue(queue) => (String::new(), queue.as_str().to_owned()),
        Target::Exchange { exchange, routing_key } => (exchange, routing_key),
    };
    let outgoing = Outgoing {
        exchange,
        routing_key,
        message,
    };
    (hand, outgoing)
}
