//! What an operator should mend on the broker: it is asked for everything but what the store has to be known for.

use crate::broker::{Broker, BrokerError, BrokerHealth, BrokerNode, EventExchange};
use crate::domain::words::{count, plural_of, size};
use crate::engine::view::Check;

/// Of its memory or its files, in percent, a node may use so much before it is worth a warning.
const USED_PERCENT: u64 = 80;
/// So many times what a disk has to have free is worth no warning yet.
const FREE_TIMES: u64 = 2;
/// Connections that are named.
const NAMED_MAX: usize = 5;

/// Reachable, its alarms, its nodes, the management API, the event exchange.
pub async fn broker_checks(broker: &dyn Broker) -> Vec<Check> {
    let health = broker.health().await;
    let version = health.version.as_deref().unwrap_or("unknown version");
    let mut checks = vec![match &health.problem {
        None if health.reachable => Check::fine("broker", format!("{} {version}", broker.kind())),
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
    if !broker.is_embedded() {
        checks.push(management_check(&health));
        checks.push(events_check(&health));
    }
    checks.extend(
        health
            .warnings
            .into_iter()
            .map(|text| Check::warning("broker", text, "see the documentation of the broker")),
    );
    checks
}

fn management_check(health: &BrokerHealth) -> Check {
    match &health.management_problem {
        None if health.management => Check::fine("management", "answers".to_owned()),
        problem => Check::warning(
            "management",
            problem.clone().unwrap_or_else(|| "does not answer".to_owned()),
            &format!(
                "{}: without it depths and policies are unknown",
                health
                    .management_mend
                    .as_deref()
                    .unwrap_or("enable rabbitmq_management and check broker.management_url")
            ),
        ),
    }
}

fn events_check(health: &BrokerHealth) -> Check {
    let name = "event exchange";
    match (&health.problem, &health.events) {
        (Some(_), _) => Check::warning(
            name,
            "not known".to_owned(),
            "fix what is wrong with the broker, and ask again",
        ),
        (None, EventExchange::There) => Check::fine(name, "there".to_owned()),
        (None, EventExchange::Refused { found, mend }) => Check::warning(name, found.clone(), mend),
        (None, EventExchange::Absent) => Check::warning(
            name,
            "not there".to_owned(),
            "enable rabbitmq_event_exchange: new queues of foreign publishers are found faster",
        ),
    }
}

/// With its own mend, where it has one.
pub(super) fn broken(name: &str, error: &BrokerError, mend: &str) -> Check {
    Check::broken(name, error.found(), error.mend().unwrap_or(mend))
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
