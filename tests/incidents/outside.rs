//! What is asked from outside of the console: the broker's management API, the receiver's record, commands.

use serde_json::Value;

use crate::faults::scene::Scene;
use crate::support::daemon::Installation;
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

pub(super) use crate::faults::scene::BOUND;
pub(super) use crate::support::daemon::who;

/// What a command prints as JSON.
pub(super) async fn json(installation: &Installation, arguments: &[&str]) -> Value {
    let with_json: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    installation.run(&with_json).await.expect_code(0).json()
}

/// What a command says about a list, once it says it.
pub(super) async fn listed(
    installation: &Installation,
    arguments: &[&str],
    what: &str,
    is: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    wait_until(what, BOUND, async || {
        let rows = json(installation, arguments).await.as_array()?.clone();
        is(&rows).then_some(rows)
    })
    .await
}

/// Messages in a queue as the management API counts them; `None`: there is no such queue.
pub(super) async fn messages(vhost: &Vhost, queue: &str) -> Option<u64> {
    let queues = vhost.queues().await;
    let found = queues.iter().find(|row| row["name"] == queue)?;
    found["messages"].as_u64()
}

/// Until the management API counts so many messages in a queue.
pub(super) async fn holds(vhost: &Vhost, queue: &str, count: u64) {
    wait_until(format!("{count} messages in {queue}"), BOUND, async || {
        (messages(vhost, queue).await == Some(count)).then_some(())
    })
    .await;
}

/// What the audit says was done by a command, newest first, as (who, why, result); plans aside.
pub(super) async fn audited(installation: &Installation, arguments: &[&str], command: &str) -> Vec<[String; 3]> {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["audit"]).collect();
    let audit = json(installation, &arguments).await;
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines = audit.as_array().expect("the audit is a list");
    lines
        .iter()
        .filter(|line| line["command"] == command && line["result"] != "planned")
        .map(|line| ["actor", "reason", "result"].map(|key| text(line, key)))
        .collect()
}

/// What was delivered from a queue, in the order in which the receiver had it.
pub(super) fn delivered(scene: &Scene, execution: &str, path: &str) -> Vec<String> {
    let queue = scene.queue(execution, path);
    let attempts = scene.receiver.attempts();
    let from_there = attempts.iter().filter(|attempt| attempt.queue() == queue.as_str());
    from_there
        .filter(|attempt| attempt.succeeded())
        .map(|attempt| attempt.id().to_owned())
        .collect()
}

/// The names that a scene gives to the notifications of an execution.
pub(super) fn numbered(execution: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| format!("{execution}-{number}"))
        .collect()
}

/// A queue of somebody else's with messages in it.
pub(super) async fn filled(vhost: &Vhost, queue: &str, arguments: Value, count: u32) {
    let path = format!("/api/queues/{}/{queue}", vhost.name);
    let declared = serde_json::json!({"durable": true, "arguments": arguments});
    vhost.manage("PUT", &path, Some(&declared)).await;
    put(vhost, queue, count).await;
}

/// More messages for a queue.
pub(super) async fn put(vhost: &Vhost, queue: &str, count: u32) {
    let path = format!("/api/exchanges/{}/amq.default/publish", vhost.name);
    for number in 0..count {
        let message = serde_json::json!({
            "properties": {"delivery_mode": 2}, "routing_key": queue, "payload": format!("{queue} {number}"),
            "payload_encoding": "string"
        });
        vhost.manage("POST", &path, Some(&message)).await;
    }
}
