//! Answers to queries: which service has which.

mod handover;

use super::query::{Answer, Query, bounded};
use super::view::{AttemptView, Page};
use super::{EngineError, Inner};
use crate::store::{AttemptQuery, AuditEntry, RunQuery};

pub use handover::{Handover, HandoverPart};

impl Inner {
    pub(super) async fn answer(self: &std::sync::Arc<Self>, query: Query) -> Result<Answer, EngineError> {
        Ok(match query {
            Query::Queues(query) => Answer::Queues(self.queues.queues(&query).await?),
            Query::Queue(name) => Answer::Queue(Box::new(self.queues.queue(&name).await?)),
            Query::Browse { queue, limit } => Answer::Browsed(self.queues.browse(&queue, limit).await?),
            Query::Endpoints {
                not_available,
                limit,
                cursor,
            } => Answer::Endpoints(
                self.endpoints
                    .endpoint_views(not_available, limit, cursor.as_deref())
                    .await?,
            ),
            Query::Endpoint(url) => Answer::Endpoint(Box::new(self.endpoints.endpoint_view(&url).await?)),
            Query::Retries { within, limit } => Answer::Retries(self.endpoints.retries(within, limit).await?),
            Query::Attempts(query) => Answer::Attempts(self.attempt_views(query).await?),
            Query::Audit { before, limit } => Answer::Audit(self.audit_page(before, limit).await?),
            Query::AuditVerify => Answer::AuditVerified(self.audit_verify().await?),
            Query::Policies => Answer::Policies(self.policies.policy_views().await?),
            Query::Policy(scope) => Answer::Policy(Box::new(self.policies.policy_view(&scope).await?)),
            Query::PolicyHistory(scope) => Answer::PolicyHistory(self.policies.policy_versions(&scope).await?),
            Query::PolicyPreview { document, scope } => {
                Answer::PolicyPreview(Box::new(self.policies.policy_preview(&document, scope.as_ref()).await?))
            }
            Query::Dead(query) => Answer::Dead(self.dead_letters.dead_list(&query).await?),
            Query::DeadGroups(query) => Answer::DeadGroups(self.dead_letters.dead_groups(&query).await?),
            Query::DeadLetter { id, patience } => {
                Answer::DeadLetter(Box::new(self.dead_letters.dead_detail(&id, patience).await?))
            }
            Query::Incarnations => Answer::Incarnations(self.store.incarnations().await?),
            Query::Runs { before, limit } => {
                let query = RunQuery {
                    before,
                    limit,
                    ..RunQuery::default()
                };
                let items = self.runs.run_reader.run_views(&query).await?;
                let full = items.len() == usize::try_from(limit).unwrap_or(usize::MAX);
                Answer::Runs(Page {
                    problems: Vec::new(),
                    next_cursor: items.last().filter(|_| full).map(|last| last.record.id.clone()),
                    taken_at: self.clock.now(),
                    items,
                })
            }
            Query::Run { id, after, limit } => {
                Answer::Run(Box::new(self.runs.run_reader.run_detail(&id, after, limit).await?))
            }
            Query::Expiring(query) => Answer::Expiring(self.queues.expiring.list(&query).await?),
            Query::Saves(query) => Answer::Saves(self.queues.expiring.saves(&query).await?),
            Query::Handover(span) => Answer::Handover(Box::new(self.handover(span).await?)),
            Query::Doctor => Answer::Doctor(self.observation.doctor.checks().await),
            Query::Events(question) => Answer::Events(self.event_table.answer_about_events(question).await?),
            Query::Readiness => Answer::Readiness(self.daemon.healing.readiness()),
        })
    }

    async fn attempt_views(&self, query: AttemptQuery) -> Result<Page<AttemptView>, EngineError> {
        let query = AttemptQuery {
            limit: bounded(query.limit),
            ..query
        };
        self.daemon.delivery.recorder.flush(&self.store).await;
        Ok(Page {
            problems: Vec::new(),
            items: self.store.attempts(&query).await?,
            next_cursor: None,
            taken_at: self.clock.now(),
        })
    }

    async fn audit_page(&self, before: Option<i64>, limit: u32) -> Result<Page<AuditEntry>, EngineError> {
        let limit = bounded(limit);
        let items = self.store.audit_list(before, limit).await?;
        let full = items.len() == limit as usize;
        let next_cursor = items.last().filter(|_| full).map(|entry| entry.id.to_string());
        Ok(Page {
            problems: Vec::new(),
            items,
            next_cursor,
            taken_at: self.clock.now(),
        })
    }
}
