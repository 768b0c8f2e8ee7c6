//! 9. Production is taken for staging: nothing happens to it, the screen says where it is, and staging is a command away.
//!
//! `2` the queues, `X` is refused and says why; `:` profile staging `Enter`; `2`, `X`, the name, `Enter`: 9 keys. What
//! has to be changed in production is changed in a window with a reason: `2`, `:` write 15m … `Enter`, `X`, the name,
//! `Enter`, `:` read-only `Enter`: 10 keys.

use serde_json::json;

use super::Operator;
use super::outside::{audited, holds, listed, messages};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::servers::{Database, Vhost};

const IN_PRODUCTION: [&str; 2] = ["--profile", "production"];
const IN_STAGING: [&str; 2] = ["--profile", "staging"];

/// Two places under one configuration, each with its daemon, and a queue of the same execution in both.
struct Places {
    installation: Installation,
    receiver: Receiver,
    daemons: [Daemon; 2],
    staging: Vhost,
    production: Vhost,
    _databases: [Database; 2],
}

/// An installation whose endpoints are tried once an hour.
fn at(vhost: &Vhost, database: &Database) -> Installation {
    let hourly = json!({
        "retries_with_no_delay": 0, "minimum_delay_retries": 500, "minimum_delay": 3600, "maximum_delay": 3600,
        "maximum_delay_retries": 0, "backoff_retries": 0
    });
    let mut installation = Installation::on_servers(vhost, &database.url());
    installation.set("delivery", "retry_policy", hourly);
    installation
}

async fn places() -> Places {
    let (staging, production) = (Vhost::create().await, Vhost::create().await);
    let databases = [Database::create().await, Database::create().await];
    let mut installation = at(&staging, &databases[0]);
    let daemons = [
        at(&production, &databases[1]).daemon().await,
        installation.daemon().await,
    ];
    installation.set("console", "refresh_s", 1);
    installation.append(&format!(
        "[profile.staging]\nlabel = \"STAGING\"\ncolour = \"green\"\n\n\
         [profile.production]\nlabel = \"PRODUCTION\"\ncolour = \"red\"\nprotected = true\n\
         store = {{ url = {} }}\nbroker = {{ vhost = {} }}\n",
        json!(databases[1].url()),
        json!(production.name)
    ));
    let receiver = Receiver::start().await;
    receiver.behave("*", Behaviour::Status(503));
    Places {
        installation,
        receiver,
        daemons,
        staging,
        production,
        _databases: databases,
    }
}

impl Places {
    /// Notifications that cannot be delivered at present; the name of their queue.
    async fn publish(&self, profile: [&str; 2], count: u64) -> String {
        let url = self.receiver.url("/hook");
        let target = ["publish", "--execution", "load-test", "--url", &url, "--json"];
        let arguments = [profile.as_slice(), &target].concat();
        let mut queue = String::new();
        for _ in 0..count {
            let published = self.installation.run(&arguments).await.expect_code(0).json();
            published["queue"].as_str().unwrap().clone_into(&mut queue);
        }
        let down = [profile.as_slice(), &["endpoints", "--unavailable"]].concat();
        listed(&self.installation, &down, "an endpoint that is down", |rows| {
            rows.len() == 1 && rows[0]["waiting"] == count
        })
        .await;
        queue
    }

    async fn stop(mut self) {
        for daemon in &mut self.daemons {
            assert_eq!(daemon.stop().await, Some(0));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_taken_for_staging_refuses_and_staging_is_a_command_away() {
    let places = places().await;
    let real = places.publish(IN_PRODUCTION, 3).await;
    let rubbish = places.publish(IN_STAGING, 2).await;

    let mut operator = Operator::at(&places.installation, &IN_PRODUCTION).await;
    operator.sees(&["PRODUCTION", "READ-ONLY", "3 messages wait"]).await;
    let ground = operator.ground_of("PRODUCTION").unwrap();
    assert_ne!(ground, operator.ground_of("READ-ONLY").unwrap(), "a colour of its own");
    operator.press("2");
    operator.sees(&["load-test", "1–"]).await;
    operator.press("X");
    operator
        .sees(&[
            "purge: read-only: protected profile",
            ":write 15m REASON allows changes",
        ])
        .await;
    operator.commands("profile staging").await;
    operator.sees_no("PRODUCTION").await;
    operator.sees(&["STAGING", "● live"]).await;
    assert_ne!(operator.ground_of("STAGING").unwrap(), ground, "another colour");
    operator.press("2");
    operator.sees(&["load-test", "1–"]).await;
    operator.asks("X").await;
    operator
        .sees(&[
            "on STAGING",
            "2 messages",
            "Messages are lost by this",
            "type the name of the queue",
        ])
        .await;
    operator.accepts_by_typing(&rubbish).await;
    operator.sees(&["purged", "2 messages removed"]).await;

    holds(&places.staging, &rubbish, 0).await;
    assert_eq!(messages(&places.production, &real).await, Some(3));
    assert_eq!(audited(&places.installation, &IN_STAGING, "queue purge").await.len(), 1);
    assert!(
        audited(&places.installation, &IN_PRODUCTION, "queue purge")
            .await
            .is_empty()
    );
    operator.leave().await;
    places.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_is_changed_in_a_window_with_a_reason_that_is_audited() {
    let places = places().await;
    let queue = places.publish(IN_PRODUCTION, 3).await;
    let other = places.publish(IN_STAGING, 2).await;

    let mut operator = Operator::at(&places.installation, &IN_PRODUCTION).await;
    operator.press("2");
    operator.sees(&["load-test", "READ-ONLY"]).await;
    operator.commands("write 15m INC-7 load test").await;
    operator.sees(&["CHANGES ALLOWED 14m", "PRODUCTION"]).await;
    operator.sees_no("READ-ONLY").await;
    operator.asks("X").await;
    operator
        .sees(&["on PRODUCTION", "3 messages", "type the name of the queue"])
        .await;
    operator.accepts_by_typing(&queue).await;
    operator.sees(&["purged", "3 messages removed"]).await;
    operator.commands("read-only").await;
    operator.sees(&["READ-ONLY"]).await;
    operator.sees_no("CHANGES ALLOWED").await;

    holds(&places.production, &queue, 0).await;
    assert_eq!(messages(&places.staging, &other).await, Some(2));
    let [_, reason, _] = audited(&places.installation, &IN_PRODUCTION, "queue purge")
        .await
        .remove(0);
    assert_eq!(reason, "INC-7 load test");
    operator.leave().await;
    places.stop().await;
}
