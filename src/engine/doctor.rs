//! What an operator should mend: broker, rights, plugins, store, clock, daemons, queues.

use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, over_core};
use super::expiring::Lifetimes;
use super::health::Healing;
use super::queues::Queues;
use super::rules::PolicyGuard;
use super::view::Check;
use crate::broker::BrokerNode;
use crate::domain::words::{count, lasts, plural_of, size};

/// Clocks that differ by more than this are worth a warning, in seconds.
const SKEW_S: u64 = 2;

/// Of its memory or its files, in percent, a node may use so much before it is worth a warning.
const USED_PERCENT: u64 = 80;
/// So many times what a disk has to have free is worth no warning yet.
const FREE_TIMES: u64 = 2;
/// Connections that are named.
const NAMED_MAX: usize = 5;

/// How long an incident is told of.
const INCIDENT: Duration = Duration::from_hours(1);
/// Lines of the audit that are looked through for it, the newest.
const AUDIT: u32 = 200;

#[derive(Debug)]
pub(super) struct Doctor {
    core: Arc<Core>,
    queues: Arc<Queues>,
    lifetimes: Arc<Lifetimes>,
    policy_guard: Arc<PolicyGuard>,
    healing: Arc<Healing>,
}

over_core!(Doctor);

impl Doctor {
    pub(super) fn new(core: &Arc<Core>, queues: &Arc<Queues>, healing: &Arc<Healing>) -> Self {
        Self {
            core: Arc::clone(core),
            queues: Arc::clone(queues),
            lifetimes: Arc::clone(&queues.expiring.lifetimes),
            policy_guard: Arc::clone(&healing.policy_guard),
            healing: Arc::clone(healing),
        }
    }

    /// Everything.
    pub(super) async fn checks(&self) -> Vec<Check> {
        let mut checks = self.broker_checks().await;
        checks.extend(self.store_checks().await);
        checks.extend(self.owner_check().await);
        checks.extend(self.incident_checks().await);
        checks.extend(self.daemon_checks().await);
        checks.extend(self.queues.intake_checks().await);
        checks.extend(self.policy_guard.checks().await);
        checks.extend(self.queues.preflight_checks().await);
        checks.extend(self.lifetimes.checks().await);
        checks
    }

    async fn broker_checks(&self) -> Vec<Check> {
        let health = self.broker.health().await;
        let version = health.version.as_deref().unwrap_or("unknown version");
        let mut checks = vec![match &health.problem {
            None if health.reachable => Check::fine("broker", format!("{} {version}", self.broker.kind())),
            problem => Check::broken(
                "broker",
                problem.clone().unwrap_or_else(|| "not reachable".to_owned()),
                health
                    .mend
                    .as_deref()
                    .unwrap_or("check broker.url, and that the broker runs"),
            ),
        }];
        if let Some(alarm) = &health.blocked {
            checks.push(Check::broken(
                "alarm",
                alarm.clone(),
                "free memory or disk on the broker: it takes no publishes",
            ));
        }
        checks.extend(health.nodes.iter().map(node_check));
        checks.extend(blocked_check(&health.blocked_connections));
        if !self.broker.is_embedded() {
            checks.push(match &health.management_problem {
                None if health.management => Check::fine("management", "answers".to_owned()),
                problem => Check::warning(
                    "management",
                    problem.clone().unwrap_or_else(|| "does not answer".to_owned()),
                    "enable rabbitmq_management and check broker.management_url: without it depths and policies are unknown",
                ),
            });
            checks.push(match (&health.problem, health.events) {
                (Some(_), _) => Check::warning(
                    "event exchange",
                    "not known".to_owned(),
                    "fix what is wrong with the broker, and ask again",
                ),
                (None, true) => Check::fine("event exchange", "there".to_owned()),
                (None, false) => Check::warning(
                    "event exchange",
                    "not there".to_owned(),
                    "enable rabbitmq_event_exchange: new queues of foreign publishers are found faster",
                ),
            });
        }
        checks.extend(
            health
                .warnings
                .into_iter()
                .map(|text| Check::warning("broker", text, "see the documentation of the broker")),
        );
        checks
    }

    async fn store_checks(&self) -> Vec<Check> {
        match self.store.now().await {
            Ok(now) => {
                let here = self.clock.now();
                let skew = now.since(here).max(here.since(now)).as_secs();
                let mut checks = self.version_checks().await;
                if skew > SKEW_S {
                    checks.push(Check::warning(
                        "clock",
                        format!("differs from the store's by {}", lasts(Duration::from_secs(skew))),
                        "synchronise the clocks of both hosts",
                    ));
                }
                checks
            }
            Err(error) => vec![Check::broken(
                "store",
                super::error::chain(&error),
                "check store.url, and that the database runs",
            )],
        }
    }

    async fn version_checks(&self) -> Vec<Check> {
        let kind = self.store.kind();
        match self.store.version().await {
            Ok(version) => {
                let fine = Check::fine("store", format!("{kind} {}", version.text));
                let warning = version
                    .warning
                    .map(|text| Check::warning("store", text, "see Versions in docs/operations.md"));
                [fine].into_iter().chain(warning).collect()
            }
            Err(error) => vec![Check::broken(
                "store",
                super::error::chain(&error),
                "check store.url, and that the database runs",
            )],
        }
    }

    /// Whose daemons deliver what is on the broker; nothing is said where that cannot be looked at.
    async fn owner_check(&self) -> Option<Check> {
        match self.healing.compare_owner().await {
            Ok(()) => None,
            Err(error) => Some(Check::broken(
                "identity",
                super::error::chain(&error),
                "see `redrive store adopt --help`",
            )),
        }
    }

    async fn incidents(&self) -> Result<Vec<crate::store::AuditEntry>, crate::store::StoreError> {
        let now = self.clock.now();
        let mut entries = self.store.audit_list(None, AUDIT).await?;
        entries.retain(|one| one.entry.command == super::health::COMMAND && now.since(one.at) < INCIDENT);
        Ok(entries)
    }

    /// The newest of them that is one.
    pub(super) async fn incident(&self) -> Option<String> {
        // The store has its own place in what tells of incidents.
        let all = self.incidents().await.ok()?;
        let newest = all.into_iter().find(|one| one.entry.result != super::health::BOUND)?;
        Some(format!("{}: {}", newest.entry.result, newest.entry.detail))
    }

    /// What was gone from the broker lately, as the daemons wrote it down.
    async fn incident_checks(&self) -> Vec<Check> {
        let incidents = match self.incidents().await {
            Ok(incidents) => incidents.into_iter(),
            Err(error) => return vec![Check::unread("incident", &super::error::chain(&error))],
        };
        let check = |entry: crate::store::AuditEntry| {
            let found = format!("{}: {}", entry.entry.result, entry.entry.detail);
            let mend = if entry.entry.result == super::health::WENT_BACK {
                "what was delivered since the backup may come again, and what was changed since is undone; `redrive audit` ends with the backup"
            } else {
                "find out who deleted it; `redrive audit` has it whole, and what is lost is published again by its owner"
            };
            if entry.entry.result == super::health::BOUND {
                Check::warning("incident", found, mend)
            } else {
                Check::broken("incident", found, mend)
            }
        };
        incidents.map(check).collect()
    }

    async fn daemon_checks(&self) -> Vec<Check> {
        let incarnations = match self.store.incarnations_living().await {
            Ok(incarnations) => incarnations,
            Err(error) => return vec![Check::unread("daemon", &super::error::chain(&error))],
        };
        let daemons = incarnations.iter().filter(|one| one.delivers).count();
        vec![if daemons == 0 {
            Check::warning(
                "daemon",
                "none is alive".to_owned(),
                "start `redrive --daemon`: nothing is delivered without it",
            )
        } else {
            Check::fine("daemon", format!("{daemons} alive"))
        }]
    }
}

/// A node of the broker with what it uses of what it has.
fn node_check(node: &BrokerNode) -> Check {
    let is_near = |used: Option<u64>, limit: Option<u64>| {
        let (used, limit) = used.zip(limit).unwrap_or((0, 1));
        used.saturating_mul(100) >= limit.saturating_mul(USED_PERCENT)
    };
    let memory = node.memory.zip(node.memory_limit);
    let memory = memory.map(|(used, limit)| format!("memory {} of {}", size(used), size(limit)));
    let disk = node.disk_free.zip(node.disk_limit);
    let disk = disk.map(|(free, limit)| format!("disk {} free, at least {}", size(free), size(limit)));
    let files = node.files.zip(node.files_limit);
    let files = files.map(|(open, limit)| format!("{} of {} files open", count(open), count(limit)));
    let known: Vec<String> = [memory, disk, files].into_iter().flatten().collect();
    let found = if known.is_empty() {
        node.name.clone()
    } else {
        format!("{}: {}", node.name, known.join(", "))
    };
    if node.running == Some(false) {
        return Check::broken(
            "node",
            format!("{} does not run", node.name),
            "start it, or take it out of the cluster",
        );
    }
    if node.alarm {
        return Check::broken("node", found, "free memory or disk on it: it takes no publishes");
    }
    let is_full = node
        .disk_free
        .zip(node.disk_limit)
        .is_some_and(|(free, limit)| free < limit.saturating_mul(FREE_TIMES));
    if is_near(node.memory, node.memory_limit) || is_near(node.files, node.files_limit) || is_full {
        return Check::warning(
            "node",
            found,
            "free some before it is used up: then it takes no publishes, or no connections",
        );
    }
    Check::fine("node", found)
}

/// Who is kept from publishing.
fn blocked_check(connections: &[String]) -> Option<Check> {
    let named = connections.iter().take(NAMED_MAX).map(String::as_str);
    let named: Vec<&str> = named.collect();
    let more = connections.len() - named.len();
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    (!connections.is_empty()).then(|| {
        Check::warning(
            "blocked connections",
            format!(
                "{}: {}{more}",
                plural_of(
                    connections.len(),
                    "connection publishes nothing",
                    "connections publish nothing"
                ),
                named.join(", ")
            ),
            "they go on when the alarm ends",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::view::CheckResult;

    fn node() -> BrokerNode {
        BrokerNode {
            name: "rabbit@db-7".to_owned(),
            running: Some(true),
            memory: Some(100 << 20),
            memory_limit: Some(1 << 30),
            disk_free: Some(30 << 30),
            disk_limit: Some(50 << 20),
            files: Some(60),
            files_limit: Some(1_024),
            alarm: false,
        }
    }

    #[test]
    fn a_node_is_told_with_what_it_uses_of_what_it_has() {
        let fine = node_check(&node());
        assert_eq!(fine.result, CheckResult::Fine);
        assert_eq!(
            fine.found,
            "rabbit@db-7: memory 100.0 MiB of 1.0 GiB, disk 30.0 GiB free, at least 50.0 MiB, 60 of 1,024 files open"
        );
        let result = |change: fn(&mut BrokerNode)| {
            let mut node = node();
            change(&mut node);
            node_check(&node).result
        };
        assert_eq!(result(|node| node.memory = Some(900 << 20)), CheckResult::Warning);
        assert_eq!(result(|node| node.files = Some(1_000)), CheckResult::Warning);
        assert_eq!(result(|node| node.disk_free = Some(60 << 20)), CheckResult::Warning);
        assert_eq!(result(|node| node.alarm = true), CheckResult::Broken);
        assert_eq!(result(|node| node.running = Some(false)), CheckResult::Broken);
        // What is not known is no reason for anything.
        let unknown = BrokerNode {
            name: "rabbit@db-8".to_owned(),
            ..BrokerNode::default()
        };
        assert_eq!(node_check(&unknown), Check::fine("node", "rabbit@db-8".to_owned()));
    }

    #[test]
    fn blocked_connections_are_named_up_to_a_bound() {
        assert_eq!(blocked_check(&[]), None);
        let names: Vec<String> = (1..=7).map(|number| format!("shop-{number}")).collect();
        let found = blocked_check(&names).unwrap().found;
        assert_eq!(
            found,
            "7 connections publish nothing: shop-1, shop-2, shop-3, shop-4, shop-5 and 2 more"
        );
    }
}
