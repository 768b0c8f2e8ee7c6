//! From the API's JSON to plain data. A missing or odd field is *not known*, never zero, never an error.

use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::broker::{BrokerNode, BrokerPolicy, ExchangeBinding, ListedQueue};
use crate::domain::id::QueueName;
use crate::domain::on_broker::{NAMED_MAX, OnBroker, QueueBinding, QueueConsumer};
use crate::domain::time::Timestamp;

/// Bytes of one shown value.
const SHOWN_BYTES: usize = 1024;

/// A queue as listed; `None` when it has no usable name.
pub(super) fn queue(value: &Value, taken_at: Timestamp) -> Option<ListedQueue> {
    let name = QueueName::parse(value.get("name")?.as_str()?).ok()?;
    Some(ListedQueue {
        name,
        queue_type: text(value, "type").or_else(|| text(value.get("arguments")?, "x-queue-type")),
        ready: count(value, "messages_ready"),
        unacked: count(value, "messages_unacknowledged"),
        bytes: count(value, "message_bytes"),
        consumers: count(value, "consumers"),
        idle_since: text(value, "idle_since").and_then(|text| moment(&text)),
        oldest_at: value
            .get("head_message_timestamp")
            .and_then(Value::as_i64)
            .map(Timestamp::from_seconds),
        state: text(value, "state"),
        auto_delete: value.get("auto_delete").and_then(Value::as_bool).unwrap_or(false),
        arguments: pairs(value.get("arguments")),
        redelivered: value.get("message_stats").and_then(redelivered),
        policy: policy_in_force(value),
        taken_at,
    })
}

/// What is counted of a queue names only what happened to it.
fn redelivered(stats: &Value) -> Option<u64> {
    stats.get("redeliver").map_or(Some(0), Value::as_u64)
}

/// The name of the ordinary policy that is in force for a queue or an exchange.
pub(super) fn policy_in_force(value: &Value) -> Option<String> {
    text(value, "policy").filter(|policy| !policy.is_empty())
}

/// An ordinary policy; `None` when it has no name or pattern.
pub(super) fn policy(value: &Value) -> Option<BrokerPolicy> {
    Some(BrokerPolicy {
        name: text(value, "name")?,
        pattern: text(value, "pattern")?,
        applies_to: text(value, "apply-to").unwrap_or_else(|| "all".to_owned()),
        priority: value.get("priority").and_then(Value::as_i64).unwrap_or(0),
        operator: false,
        definition: pairs(value.get("definition")),
    })
}

/// The same of an operator policy.
pub(super) fn operator_policy(value: &Value) -> Option<BrokerPolicy> {
    policy(value).map(|policy| BrokerPolicy {
        operator: true,
        ..policy
    })
}

/// A binding; `None` when it has no destination.
pub(super) fn binding(value: &Value) -> Option<ExchangeBinding> {
    Some(ExchangeBinding {
        destination: text(value, "destination")?,
        to_exchange: text(value, "destination_type").as_deref() == Some("exchange"),
        routing_key: text(value, "routing_key").unwrap_or_default(),
    })
}

/// A node of the cluster; `None` when it has no name.
pub(super) fn node(value: &Value) -> Option<BrokerNode> {
    let flag = |name: &str| value.get(name).and_then(Value::as_bool);
    Some(BrokerNode {
        name: text(value, "name")?,
        running: flag("running"),
        memory: count(value, "mem_used"),
        memory_limit: count(value, "mem_limit"),
        disk_free: count(value, "disk_free"),
        disk_limit: count(value, "disk_free_limit"),
        files: count(value, "fd_used"),
        files_limit: count(value, "fd_total"),
        alarm: flag("mem_alarm") == Some(true) || flag("disk_free_alarm") == Some(true),
    })
}

/// The name that a client gave its connection.
pub(super) fn given_name(connection: &Value) -> Option<&str> {
    let given = connection.get("user_provided_name");
    let given = given.or_else(|| connection.get("client_properties")?.get("connection_name"));
    given?.as_str()
}

/// The name of a connection that the broker lets send nothing: the client's own, else the broker's.
pub(super) fn blocked_connection(value: &Value) -> Option<String> {
    let is_blocked = text(value, "state").is_some_and(|state| state == "blocked");
    let given = given_name(value).filter(|name| !name.is_empty());
    let name = given.map_or_else(|| text(value, "name"), |given| Some(given.to_owned()));
    name.filter(|_| is_blocked)
}

/// A queue that was asked for alone, without its bindings.
pub(super) fn on_broker(value: &Value) -> OnBroker {
    let rate = |of: &str| value.get("message_stats")?.get(of)?.get("rate")?.as_f64();
    let consumers = value.get("consumer_details").and_then(Value::as_array);
    let present = |name: &str| text(value, name).filter(|text| !text.is_empty());
    OnBroker {
        queue_type: text(value, "type"),
        state: text(value, "state"),
        node: text(value, "leader").or_else(|| text(value, "node")),
        consumers: count(value, "consumers"),
        consumer_list: consumers.into_iter().flatten().take(NAMED_MAX).map(consumer).collect(),
        in_a_second: rate("publish_details"),
        out_a_second: rate("deliver_get_details"),
        settled_a_second: rate("ack_details"),
        idle_since: text(value, "idle_since").and_then(|text| moment(&text)),
        arguments: pairs(value.get("arguments")),
        policy: policy_in_force(value),
        operator_policy: present("operator_policy"),
        in_force: pairs(value.get("effective_policy_definition")),
        bindings: Vec::new(),
    }
}

fn consumer(value: &Value) -> QueueConsumer {
    QueueConsumer {
        tag: shown(value.get("consumer_tag").unwrap_or(&Value::Null)),
        connection: value
            .get("channel_details")
            .and_then(|channel| text(channel, "connection_name")),
        prefetch: count(value, "prefetch_count"),
        settles: value.get("ack_required").and_then(Value::as_bool),
        active: value.get("active").and_then(Value::as_bool),
    }
}

/// What is bound to a queue, but the default exchange, which every queue is bound to.
pub(super) fn bound_to(bindings: &[Value]) -> Vec<QueueBinding> {
    let bound = bindings.iter().filter_map(|binding| {
        let exchange = text(binding, "source").filter(|source| !source.is_empty())?;
        let key = text(binding, "routing_key").unwrap_or_default();
        Some(QueueBinding { exchange, key })
    });
    bound.take(NAMED_MAX).collect()
}

fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field)?.as_str().map(str::to_owned)
}

fn count(value: &Value, field: &str) -> Option<u64> {
    value.get(field)?.as_u64()
}

/// Keys and values of an object as text, each bounded.
fn pairs(value: Option<&Value>) -> Vec<(String, String)> {
    let Some(Value::Object(object)) = value else {
        return Vec::new();
    };
    object
        .iter()
        .map(|(name, value)| (name.clone(), shown(value)))
        .collect()
}

fn shown(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    text.truncate(text.floor_char_boundary(SHOWN_BYTES));
    text
}

/// `2022-11-20 11:23:45` (3.10) or RFC 3339 (3.12 and later), UTC.
fn moment(text: &str) -> Option<Timestamp> {
    if let Ok(moment) = OffsetDateTime::parse(text, &Rfc3339) {
        return Some(Timestamp::from_seconds(moment.unix_timestamp()));
    }
    let format = "[year]-[month]-[day] [hour]:[minute]:[second]";
    let format = time::format_description::parse_borrowed::<2>(format).ok()?;
    let moment = PrimitiveDateTime::parse(text.trim(), &format).ok()?;
    Some(Timestamp::from_seconds(moment.assume_utc().unix_timestamp()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_is_missing_or_odd_is_not_known() {
        for odd in [json!(null), json!(-1), json!("7"), json!(1.5), json!({}), json!([])] {
            let listed = queue(
                &json!({"name": "q", "messages_ready": odd, "consumers": odd, "arguments": odd}),
                Timestamp::EPOCH,
            );
            let listed = listed.unwrap();
            assert_eq!(
                (listed.ready, listed.unacked, listed.consumers),
                (None, None, None),
                "{odd}"
            );
        }
        assert_eq!(
            queue(
                &json!({"name": "q", "messages_ready": 9_007_199_254_740_993_u64}),
                Timestamp::EPOCH
            )
            .unwrap()
            .ready,
            Some(9_007_199_254_740_993)
        );
    }

    #[test]
    fn a_queue_alone_tells_its_consumers_and_rates() {
        let queue = on_broker(&json!({
            "type": "quorum", "leader": "rabbit@b", "consumers": 2, "operator_policy": "",
            "message_stats": {"publish_details": {"rate": 4.5}, "deliver_get_details": {"rate": 2}, "ack_details": {"rate": "x"}},
            "consumer_details": [
                {"consumer_tag": "one", "prefetch_count": 10, "ack_required": true, "active": true,
                 "channel_details": {"connection_name": "127.0.0.1:1 -> 127.0.0.1:2"}},
                {"channel_details": []},
            ],
        }));
        assert_eq!(queue.node.as_deref(), Some("rabbit@b"));
        assert_eq!(
            (queue.in_a_second, queue.out_a_second, queue.settled_a_second),
            (Some(4.5), Some(2.0), None)
        );
        assert_eq!(queue.operator_policy, None);
        assert_eq!(queue.consumer_list[0].prefetch, Some(10));
        assert_eq!(queue.consumer_list[1].connection, None);
        let bindings = [
            json!({"source": "", "routing_key": "q"}),
            json!({"source": "orders", "routing_key": "new.#"}),
        ];
        let bound = bound_to(&bindings);
        assert_eq!(bound.len(), 1, "{bound:?}");
        assert_eq!((bound[0].exchange.as_str(), bound[0].key.as_str()), ("orders", "new.#"));
    }

    #[test]
    fn an_element_without_a_name_is_skipped() {
        for odd in [
            json!({}),
            json!({"name": 1}),
            json!({"name": ""}),
            json!(null),
            json!([1]),
        ] {
            assert_eq!(queue(&odd, Timestamp::EPOCH), None, "{odd}");
            assert_eq!(policy(&odd), None, "{odd}");
        }
    }

    #[test]
    fn both_spellings_of_a_moment_are_read() {
        let expected = Some(Timestamp::from_seconds(1_668_943_425));
        assert_eq!(moment("2022-11-20 11:23:45"), expected);
        assert_eq!(moment("2022-11-20T11:23:45.000+00:00"), expected);
        assert_eq!(moment("yesterday"), None);
    }
}
