//! What is known of the broker at present, for `doctor`, `readyz` and the status line.
//!
//! Never an error: what cannot be asked is a sentence that says how to mend it.

use super::{RabbitMq, listen, wire};
use crate::broker::{BrokerError, BrokerHealth, EventExchange};
use crate::domain::broker_rules::{CHECKED, Version, facts};
use crate::domain::naming::QueueType;

/// Asks the broker and the management API.
pub(super) async fn health(broker: &RabbitMq) -> BrokerHealth {
    let mut health = BrokerHealth {
        blocked: broker.publisher.alarm_reason(),
        ..BrokerHealth::default()
    };
    match broker.admin.enter().await {
        Ok(()) => {
            health.reachable = true;
            exchange(broker, &mut health).await;
        }
        Err(error) => {
            health.reachable = !matches!(error, BrokerError::Unreachable { .. });
            health.problem = Some(error.found());
            health.mend = error.mend().map(str::to_owned);
            if let BrokerError::Login { user } = error {
                health.wrong_login = Some(user);
            }
        }
    }
    management(broker, &mut health).await;
    cluster(broker, &mut health).await;
    if health.version.is_none() && health.reachable {
        health.version = wire::greeting(&broker.dialer).await.version;
        health
            .warnings
            .extend(health.version.as_deref().and_then(unchecked_series));
    }
    health.events = match broker.listeners.events() {
        EventExchange::Absent if health.reachable && !broker.listeners.have_begun() => {
            listen::event_exchange(&broker.dialer).await
        }
        found @ (EventExchange::Absent | EventExchange::There | EventExchange::Refused { .. }) => found,
    };
    health
}

/// Whether the exchange of our settings is there.
async fn exchange(broker: &RabbitMq, health: &mut BrokerHealth) {
    let problem = match broker.admin.spare.exchange_stands(broker.admin.exchange()).await {
        Ok(true) => return,
        Ok(false) => BrokerError::NoExchange {
            exchange: broker.admin.exchange().as_str().to_owned(),
        },
        Err(error) => broker.admin.error("look for the exchange", &error),
    };
    health.warnings.push(problem.to_string());
}

pub(super) async fn management(broker: &RabbitMq, health: &mut BrokerHealth) {
    let Some(management) = &broker.management else {
        health.management_problem = Some("broker.management_url is not set: no listing, no policies".to_owned());
        health.management_mend = Some("set it to http[s]://[user:password@]host:port".to_owned());
        return;
    };
    match management.overview().await {
        Err(error) => {
            health.management_problem = Some(error.found());
            health.management_mend = error.mend().map(str::to_owned);
        }
        Ok(overview) => {
            health.management = true;
            health
                .warnings
                .extend(overview.version.as_deref().and_then(unchecked_series));
            if !overview.statistics {
                health
                    .warnings
                    .push("the management API collects no statistics: counts of listings are not known".to_owned());
            }
            health.version = overview.version;
            if health.reachable
                && let Some(why) = other_cluster(
                    wire::greeting(&broker.dialer).await.cluster.as_deref(),
                    overview.cluster.as_deref(),
                )
            {
                health.management = false;
                health.management_problem = Some(why);
                health.management_mend = Some("give the broker.management_url of the broker of broker.url".to_owned());
                return;
            }
            if let Ok(Some(alarm)) = management.alarms().await {
                health.blocked.get_or_insert(alarm);
            }
            dead_letters(broker, health).await;
        }
    }
}

/// Asks for the nodes, and for those whom an alarm keeps from publishing; what may not be asked is not told.
async fn cluster(broker: &RabbitMq, health: &mut BrokerHealth) {
    let Some(management) = broker.management.as_ref().filter(|_| health.management) else {
        return;
    };
    health.nodes = management.nodes().await.unwrap_or_default();
    if health.blocked.is_some() {
        health.blocked_connections = management.blocked_connections().await.unwrap_or_default();
    }
}

/// Checks what a quorum family needs to keep its order, on the queue that we declare ourselves.
async fn dead_letters(broker: &RabbitMq, health: &mut BrokerHealth) {
    let naming = &broker.settings.naming;
    let Ok(queue) = crate::domain::id::QueueName::parse(&naming.dead_letter_queue()) else {
        return;
    };
    let Some(management) = &broker.management else { return };
    let Ok(Some(found)) = management.queue(management.vhost(), &queue, &broker.clock).await else {
        return;
    };
    if found
        .queue_type
        .as_deref()
        .is_some_and(|found| found != naming.queue_type.as_str())
    {
        health.warnings.push(format!(
            "{:?} is not of type {}",
            queue.as_str(),
            naming.queue_type.as_str()
        ));
    }
    let limited = found.arguments.iter().any(|(name, _)| name == "x-delivery-limit");
    let version = health.version.as_deref().and_then(Version::parse);
    if let Some(limit) = facts(version).default_limit
        && naming.queue_type == QueueType::Quorum
        && !limited
    {
        health.warnings.push(format!(
            "{:?} has no x-delivery-limit: this broker drops a message after {limit} returns",
            queue.as_str()
        ));
    }
}

/// Whether the two are not of one broker; a broker that does not say its name may be.
fn other_cluster(broker: Option<&str>, management: Option<&str>) -> Option<String> {
    let (broker, management) = broker
        .zip(management)
        .filter(|(broker, management)| broker != management)?;
    Some(format!(
        "broker.management_url leads to the broker {management:?}, and broker.url to {broker:?}"
    ))
}

fn unchecked_series(version: &str) -> Option<String> {
    let (oldest, newest) = CHECKED;
    (!Version::parse(version)?.is_checked()).then(|| {
        format!(
            "RabbitMQ {version} is not one of the series that were checked ({}.{} to {}.{})",
            oldest.major, oldest.minor, newest.major, newest.minor
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_management_api_of_another_broker_is_named() {
        assert_eq!(other_cluster(Some("rabbit@a"), Some("rabbit@a")), None);
        assert_eq!(other_cluster(None, Some("rabbit@a")), None);
        let why = other_cluster(Some("rabbit@b"), Some("rabbit@a")).unwrap();
        assert!(why.contains("\"rabbit@a\", and broker.url to \"rabbit@b\""), "{why}");
    }

    #[test]
    fn only_unchecked_series_are_warned_of() {
        for (version, warned) in [
            ("3.10.8", false),
            ("4.3.5", false),
            ("3.9.29", true),
            ("5.0.0", true),
            ("odd", false),
        ] {
            assert_eq!(unchecked_series(version).is_some(), warned, "{version}");
        }
    }
}
