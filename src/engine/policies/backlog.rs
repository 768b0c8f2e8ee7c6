//! What already waits, under a policy that changed: read page by page, judged by the one function that judges
//! failures, and moved while it still waits as it was read.

use std::collections::BTreeSet;

use super::view::{Forecast, ForecastLine};
use super::{Book, scope_of};
use crate::ambient;
use crate::domain::policy::{Failing, Rescheduled, RetryPolicy, reschedule};
use crate::domain::url::EndpointUrl;
use crate::engine::core::Core;
use crate::store::{HeadMove, MoveTo, PolicyScope, StoreError, WaitingHead, WaitingQuery};

/// Heads read, and moved in one transaction, at most.
const PAGE: u32 = 1_000;
/// Heads that a forecast names, at most; all are counted.
const LINES_MAX: usize = 200;

/// A policy that is not saved yet, in the place of the saved one.
pub(super) struct Supposed<'a> {
    pub(super) scope: &'a PolicyScope,
    pub(super) policy: Option<&'a RetryPolicy>,
}

/// Heads that wait, page by page.
pub(super) struct Backlog<'a> {
    engine: &'a Core,
    query: Option<WaitingQuery>,
    supposed: Option<Supposed<'a>>,
}

/// A head, and what its policy says of it now.
pub(super) struct Judged {
    head: WaitingHead,
    to: Rescheduled,
    attempts_allowed: u32,
}

impl<'a> Backlog<'a> {
    pub(super) fn new(engine: &'a Core, scope: &PolicyScope, supposed: Option<Supposed<'a>>) -> Self {
        let query = WaitingQuery {
            scope: scope.clone(),
            after: None,
            limit: PAGE,
        };
        Self {
            engine,
            query: Some(query),
            supposed,
        }
    }

    /// The next page; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Judged>>, StoreError> {
        let Some(query) = self.query.take() else {
            return Ok(None);
        };
        let heads = self.engine.store.heads_waiting(&query).await?;
        let book = self.book(&heads).await?;
        if heads.len() == PAGE as usize {
            let after = heads.last().map(|head| head.queue.clone());
            self.query = Some(WaitingQuery { after, ..query });
        }
        Ok(Some(heads.into_iter().map(|head| judge(head, &book)).collect()))
    }

    async fn book(&self, heads: &[WaitingHead]) -> Result<Book, StoreError> {
        let scopes: BTreeSet<(Option<&str>, Option<&EndpointUrl>)> = heads
            .iter()
            .flat_map(|head| {
                let event_type = head.event_type.as_deref();
                [(event_type, None), (event_type, Some(&head.url))]
            })
            .collect();
        let scopes: Vec<PolicyScope> = scopes.into_iter().map(|(name, url)| scope_of(name, url)).collect();
        let mut book = self.engine.book(&scopes).await?;
        if let Some(supposed) = &self.supposed {
            book.suppose(supposed.scope, supposed.policy.cloned());
        }
        Ok(book)
    }
}

fn judge(head: WaitingHead, book: &Book) -> Judged {
    let (policy, _) = book.applicable(head.event_type.as_deref(), &head.url);
    let failing = Failing {
        message: &head.head.message,
        own: head.own,
        failures: head.head.failures,
        url_failures: head.endpoint.as_ref().map(|endpoint| endpoint.attempts),
        last_failed_at: head.head.last_failed_at,
        asked_until: head.asked_until,
    };
    Judged {
        to: reschedule(&failing, policy),
        attempts_allowed: policy.schedule_with(head.own).attempts(),
        head,
    }
}

impl Judged {
    /// How it moves; `None` when it stays as it is, or is in an attempt, whose end the policy judges.
    pub(super) fn moves(&self) -> Option<HeadMove> {
        if self.is_in_attempt() || !self.differs() {
            return None;
        }
        let head = &self.head.head;
        let endpoint = self.head.endpoint.as_ref();
        Some(HeadMove {
            queue: self.head.queue.clone(),
            message: head.message.clone(),
            failures: head.failures,
            last_failed_at: head.last_failed_at,
            endpoint: endpoint.map(|endpoint| (self.head.url.clone(), endpoint.epoch)),
            to: match self.to {
                Rescheduled::At { at, phase } => MoveTo::At { at, phase },
                Rescheduled::Parked => MoveTo::Parked,
                Rescheduled::DeadLettered => MoveTo::DeadLettered {
                    decision: ambient::new_id(),
                },
            },
            attempts_allowed: self.attempts_allowed,
        })
    }

    fn is_in_attempt(&self) -> bool {
        self.head.endpoint.as_ref().is_some_and(|endpoint| endpoint.probing)
    }

    fn differs(&self) -> bool {
        let head = &self.head.head;
        let same_place = match self.to {
            Rescheduled::At { at, phase } => self.head.next_attempt_at() == Some(at) && head.phase == Some(phase),
            Rescheduled::Parked => self.head.next_attempt_at().is_none(),
            Rescheduled::DeadLettered => false,
        };
        !same_place || head.attempts_allowed != self.attempts_allowed
    }
}

impl Forecast {
    pub(super) fn count(&mut self, judged: &Judged) {
        self.waiting += 1;
        if judged.is_in_attempt() {
            self.in_attempt += 1;
            return;
        }
        let before = judged.head.next_attempt_at();
        let count = match (before, judged.to) {
            (Some(before), Rescheduled::At { at, .. }) if at < before => &mut self.sooner,
            (Some(before), Rescheduled::At { at, .. }) if at > before => &mut self.later,
            (None, Rescheduled::At { .. }) => &mut self.going_on,
            (Some(_), Rescheduled::Parked) => &mut self.parked,
            (_, Rescheduled::DeadLettered) => &mut self.dead_lettered,
            (Some(_), Rescheduled::At { .. }) | (None, Rescheduled::Parked) => &mut self.unchanged,
        };
        *count += 1;
        if judged.differs() && self.lines.len() < LINES_MAX {
            self.lines.push(judged.line(before));
        }
    }
}

impl Judged {
    fn line(&self, before: Option<crate::domain::time::Timestamp>) -> ForecastLine {
        ForecastLine {
            queue: self.head.queue.clone(),
            url: self.head.url.clone(),
            probes: self.head.endpoint.is_some(),
            attempt: self.head.head.failures + 1,
            of_before: self.head.head.attempts_allowed,
            of: self.attempts_allowed,
            before,
            after: self.to,
        }
    }

    /// Whether it would be given up at once.
    pub(super) fn ends(&self) -> bool {
        let parks = self.to == Rescheduled::Parked && self.head.next_attempt_at().is_some();
        !self.is_in_attempt() && (parks || self.to == Rescheduled::DeadLettered)
    }

    /// Which message, for the hash of a plan.
    pub(super) fn identity(&self) -> (&str, &str, Rescheduled) {
        (self.head.queue.as_str(), self.head.head.message.as_str(), self.to)
    }
}
