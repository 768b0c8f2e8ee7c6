//! What services do: push, claim, and say that something is done. Nobody is asked.

use std::time::Duration;

use metrics::counter;

use super::EventTable;
use super::{Claim, ClaimRequest, ClaimSpan, Finished, Pushed};
use crate::ambient;
use crate::domain::event::{CLAIM_EVENTS, CLAIM_S, EventError, EventType, NewEvent, Reference, check_batch};
use crate::engine::{Engine, EngineError};
use crate::store::{ClaimOutcome, EventBatch, NewClaim, PushOutcome};
use crate::telemetry::names;

impl Engine {
    /// Pushes one event; answers after a commit that survives a power loss.
    ///
    /// # Errors
    /// The field that is wrong, or the store.
    pub async fn event_push(&self, event: NewEvent) -> Result<Pushed, EngineError> {
        event.check(self.0.clock.now())?;
        let mut pushed = self.0.events.table.push_events(vec![event]).await?;
        pushed.pop().ok_or_else(|| EngineError::Refused {
            why: "the store answered nothing".to_owned(),
        })
    }

    /// Pushes a batch, wholly or not at all; answers in its order.
    ///
    /// # Errors
    /// The field that is wrong with the index of its element, or the store.
    pub async fn events_push(&self, events: Vec<NewEvent>) -> Result<Vec<Pushed>, EngineError> {
        check_batch(&events, self.0.clock.now())?;
        self.0.events.table.push_events(events).await
    }

    /// Claims events; `None` when nothing is due.
    ///
    /// # Errors
    /// The field that is out of bounds, an unknown type, or the store.
    pub async fn claim_create(&self, request: &ClaimRequest) -> Result<Option<Claim>, EngineError> {
        if !CLAIM_EVENTS.contains(&request.limit) {
            return Err(EventError::of("limit", "must be 1 to 20").into());
        }
        let new = NewClaim {
            id: ambient::new_id(),
            event_type: request.event_type.clone(),
            limit: request.limit,
            span: ClaimSpan {
                ttl: claim_span("ttl", request.ttl_s)?,
                grace: Some(claim_span("grace", request.grace_s)?),
            },
        };
        match self.0.store.claim_create(&new).await? {
            ClaimOutcome::UnknownType => Err(unknown_type(&request.event_type)),
            ClaimOutcome::Claimed { claim, moved } => {
                if moved > 0 {
                    tracing::info!(event_type = ?request.event_type, moved, "events were claimed too often and moved");
                    self.0.events.table.count_moved(&request.event_type, moved);
                }
                Ok(claim)
            }
        }
    }

    /// Prolongs a claim.
    ///
    /// # Errors
    /// The field that is out of bounds, a claim that holds nothing (any more), or the store.
    pub async fn claim_renew(
        &self,
        event_type: &EventType,
        claim: &str,
        ttl_s: u64,
        grace_s: Option<u64>,
    ) -> Result<Claim, EngineError> {
        let span = ClaimSpan {
            ttl: claim_span("ttl", ttl_s)?,
            grace: grace_s.map(|grace| claim_span("grace", grace)).transpose()?,
        };
        self.0.events.event_type(event_type).await?;
        let renewed = self.0.store.claim_renew(event_type, claim, span).await?;
        renewed.ok_or_else(|| no_claim(claim))
    }

    /// Gives the events of a claim back; answers how many.
    ///
    /// # Errors
    /// An unknown type, a claim that holds nothing (any more), or the store.
    pub async fn claim_release(&self, event_type: &EventType, claim: &str) -> Result<u64, EngineError> {
        self.0.events.event_type(event_type).await?;
        match self.0.store.claim_release(event_type, claim).await? {
            0 => Err(no_claim(claim)),
            released => {
                self.0.events.table.wake(std::iter::once(event_type));
                Ok(released)
            }
        }
    }

    /// An event of a claim is done. One that was pushed anew meanwhile stays, and that is a success too.
    ///
    /// # Errors
    /// An unknown type, an event that is not there or is not this claim's, or the store.
    pub async fn claim_done(
        &self,
        event_type: &EventType,
        reference: &Reference,
        claim: &str,
    ) -> Result<Finished, EngineError> {
        self.0.events.event_type(event_type).await?;
        match self.0.store.claim_done(event_type, reference, claim).await? {
            Finished::Gone => Err(EngineError::NotFound {
                what: format!("event {:?}", reference.as_str()),
            }),
            Finished::Stale => Err(EngineError::Refused {
                why: format!("claim_id {claim:?} does not hold event {:?}", reference.as_str()),
            }),
            finished @ (Finished::Done
            | Finished::Requeued
            | Finished::Retried
            | Finished::Dead
            | Finished::Released
            | Finished::Superseded) => {
                self.0.events.table.count_ended(event_type, finished);
                Ok(finished)
            }
        }
    }
}

impl EventTable {
    async fn push_events(&self, events: Vec<NewEvent>) -> Result<Vec<Pushed>, EngineError> {
        let batch = EventBatch {
            events,
            ..EventBatch::default()
        };
        match self.store.events_push(&batch).await? {
            PushOutcome::Pushed(pushed) => {
                self.note_pushed(&batch.events, &pushed);
                Ok(pushed)
            }
            PushOutcome::Fenced => Err(EngineError::Refused {
                why: "the lease of this push is lost".to_owned(),
            }),
        }
    }

    fn count_moved(&self, event_type: &EventType, moved: u64) {
        let label = self.meters.label(event_type);
        counter!(names::EVENTS_MOVED, "type" => label).increment(moved);
    }

    fn count_ended(&self, event_type: &EventType, how: Finished) {
        self.meters.of(event_type).ended(how);
    }

    /// Counts what was pushed, and wakes whoever handles it here.
    pub(super) fn note_pushed(&self, events: &[NewEvent], pushed: &[Pushed]) {
        self.meters.pushed(events, pushed);
        self.wakes.wake(events.iter().map(|event| &event.event_type));
    }
}

pub(super) fn unknown_type(event_type: &EventType) -> EngineError {
    EngineError::NotFound {
        what: format!("event type {:?}", event_type.as_str()),
    }
}

fn no_claim(claim: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("claim {claim:?} with events"),
    }
}

fn claim_span(field: &str, seconds: u64) -> Result<Duration, EventError> {
    if CLAIM_S.contains(&seconds) {
        Ok(Duration::from_secs(seconds))
    } else {
        Err(EventError::of(field, "must be 60 to 43,200 seconds"))
    }
}
