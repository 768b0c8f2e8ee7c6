//! The broker's policies and the queues' arguments, as far as they touch order and what waits
//! (PROTOCOLS.md 23): read every 10 s and when told, matched by ourselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use regex::Regex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::dispatch::Tell;
use crate::broker::BrokerPolicy;
use crate::domain::broker_rules::{Judgement, Policies, Policy, judge};
use crate::domain::id::QueueName;

/// Between two readings of the policies.
const READ: Duration = Duration::from_secs(10);
/// How long a broker that did not answer is not asked for arguments, in microseconds.
const QUIET_US: u64 = 10_000_000;
/// Queues whose arguments are remembered, at most.
const ARGUMENTS_MAX: usize = 200_000;

type Arguments = Arc<Vec<(String, String)>>;

/// What is known of policies and arguments.
#[derive(Debug, Default)]
pub(super) struct Rules {
    policies: RwLock<(Vec<BrokerPolicy>, Arc<Policies>)>,
    /// They never change while a queue lives.
    arguments: Mutex<HashMap<QueueName, Arguments>>,
    /// Uptime in microseconds before which the broker is not asked for arguments again: it did not answer.
    quiet_until: AtomicU64,
}

impl Rules {
    /// Takes in the arguments of a listed queue.
    pub(super) fn learn(&self, queue: &QueueName, arguments: &[(String, String)]) {
        let mut known = self.arguments.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ARGUMENTS_MAX {
            known.clear();
        }
        if !known.contains_key(queue) {
            known.insert(queue.clone(), Arc::new(arguments.to_vec()));
        }
    }

    /// The queue is gone; one of its name may come back with other arguments.
    pub(super) fn forget(&self, queue: &QueueName) {
        self.arguments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(queue);
    }

    fn arguments_of(&self, queue: &QueueName) -> Option<Arguments> {
        self.arguments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(queue)
            .cloned()
    }

    fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.policies.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Takes in the policies; true when they changed.
    fn replace(&self, read: Vec<BrokerPolicy>) -> bool {
        let mut policies = self.policies.write().unwrap_or_else(PoisonError::into_inner);
        if policies.0 == read {
            return false;
        }
        let compiled = Arc::new(compiled(&read));
        *policies = (read, compiled);
        true
    }
}

/// The vhost's policies as the domain matches them.
pub(super) fn compiled(policies: &[BrokerPolicy]) -> Policies {
    let compiled = policies.iter().map(|policy| Policy {
        name: policy.name.clone(),
        pattern: Regex::new(&policy.pattern).ok(),
        apply_to: policy.applies_to.clone(),
        priority: policy.priority,
        operator: policy.operator,
        definition: policy.definition.clone(),
    });
    Policies::new(compiled.collect())
}

impl Inner {
    /// What policies and arguments mean for a queue; asks the broker once for arguments that no listing
    /// told. What cannot be read is a warning, not a stop.
    pub(super) async fn judge_queue(&self, queue: &QueueName) -> Judgement {
        let mut arguments = self.rules.arguments_of(queue);
        let now = u64::try_from(self.clock.uptime().as_micros()).unwrap_or(u64::MAX);
        if arguments.is_none() && now >= self.rules.quiet_until.load(Ordering::Relaxed) {
            match self.broker.queue_detail(queue).await {
                Ok(Some(detail)) => {
                    self.rules.learn(queue, &detail.arguments);
                    arguments = Some(Arc::new(detail.arguments));
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(queue = ?queue, error = ?error, "arguments are not checked");
                    self.rules
                        .quiet_until
                        .store(now.saturating_add(QUIET_US), Ordering::Relaxed);
                }
            }
        }
        let naming = &self.settings.naming;
        judge(
            queue.as_str(),
            naming.queue_type,
            arguments.as_ref().map(|a| a.as_slice()),
            &self.rules.policies(),
        )
    }

    /// Reads the policies; queues whose judgement changed are looked at anew.
    pub(super) async fn watch_rules(self: Arc<Self>, tell: mpsc::Sender<Tell>, generation: CancellationToken) {
        while !generation.is_cancelled() {
            self.read_rules(&tell).await;
            tokio::select! {
                () = tokio::time::sleep(READ) => {}
                () = self.policies_moved.notified() => {}
                () = generation.cancelled() => {}
            }
        }
    }

    pub(super) async fn read_rules(&self, tell: &mpsc::Sender<Tell>) {
        match self.broker.policies().await {
            Ok(read) => {
                if self.rules.replace(read)
                    && let Err(error) = self.judge_known(tell).await
                {
                    tracing::warn!(error = ?error, "a changed broker policy is applied at the next attach");
                }
            }
            Err(error) => tracing::debug!(error = ?error, "broker policies are as last read"),
        }
    }

    /// A changed policy: every known queue that it touches is taken once, so that its row, its binding and
    /// its delivery follow.
    async fn judge_known(&self, tell: &mpsc::Sender<Tell>) -> Result<(), crate::store::StoreError> {
        let policies = self.rules.policies();
        let mut pages = self.queue_pages(None);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let arguments = self.rules.arguments_of(&row.name);
                let now = judge(
                    row.name.as_str(),
                    self.settings.naming.queue_type,
                    arguments.as_ref().map(|a| a.as_slice()),
                    &policies,
                );
                if now.breaks_order.is_some() != row.refused.is_some()
                    || now.destroys.is_some() != row.refusing.is_some()
                {
                    let _ = tell.send(Tell::LetGo(row.name.clone())).await;
                    let _ = tell.send(Tell::Candidate(row.name.clone())).await;
                }
            }
        }
        Ok(())
    }
}
