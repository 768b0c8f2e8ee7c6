//! 9. Production is taken for staging: nothing happens to it, the screen says where it is, and staging is a command away.
//!
//! `2` the queues, `V` is refused and says why; `=` the profiles, down to staging, `Enter`; `2`, `V` `y`: 8 keys. What has
//! to be changed in production is changed in a window with a reason: `2`, `W` #42 `Enter`, `V` `y`, `W` read-only again:
//! 9 keys.

use serde_json::json;

use super::operator::{DOWN, ENTER, Operator, Seat};
use super::outside::{audited, holds, listed, messages};
use crate::attached::{self, token};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::servers::{Database, Vhost};

const IN_PRODUCTION: [&str; 2] = ["--profile", "production"];
const IN_STAGING: [&str; 2] = ["--profile", "staging"];

/// Two places under one configuration, each with its daemon, and a queue of the same execution in both.
struct Places {
    installation: Installation,
    /// Elsewhere, with the same profiles: all that is known there are the daemons and their tokens.
    far: Installation,
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
    let mut far = attached::nowhere();
    for (name, colour, protected, daemon) in [
        ("staging", "green", false, &daemons[1]),
        ("production", "red", true, &daemons[0]),
    ] {
        far.append(&format!(
            "[profile.{name}]\nlabel = {:?}\ncolour = {colour:?}\nprotected = {protected}\ndaemon = {:?}\ntoken = {:?}\n",
            name.to_uppercase(),
            daemon.api,
            token(daemon)
        ));
    }
    Places {
        installation,
        far,
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

    async fn operator(&self, seat: Seat) -> Operator {
        let installation = match seat {
            Seat::Here => &self.installation,
            Seat::Far => &self.far,
        };
        Operator::at(seat, installation, &IN_PRODUCTION).await
    }

    async fn stop(mut self) {
        for daemon in &mut self.daemons {
            assert_eq!(daemon.stop().await, Some(0));
        }
    }
}

async fn staging_is_a_key_away(seat: Seat) {
    let places = places().await;
    let real = places.publish(IN_PRODUCTION, 3).await;
    let rubbish = places.publish(IN_STAGING, 2).await;

    let mut operator = places.operator(seat).await;
    operator.sees(&["PRODUCTION", "READ-ONLY", "3 messages wait"]).await;
    let ground = operator.ground_of("PRODUCTION").unwrap();
    assert_ne!(ground, operator.ground_of("READ-ONLY").unwrap(), "a colour of its own");
    operator.press("2");
    operator.sees(&["load-test", "1–"]).await;
    operator.press("V");
    operator
        .sees(&["take the head out: read-only: protected profile", "W allows changes"])
        .await;
    operator.press("=");
    operator
        .sees(&["production (this one)", "staging", "▼ 1 endpoint down"])
        .await;
    operator.press(DOWN);
    operator.press(ENTER);
    operator.sees_no("PRODUCTION").await;
    operator.sees(&["STAGING", "● live"]).await;
    assert_ne!(operator.ground_of("STAGING").unwrap(), ground, "another colour");
    operator.press("2");
    operator.sees(&["load-test", "1–"]).await;
    operator.asks("V").await;
    operator.sees(&["on STAGING", "move the first message of"]).await;
    operator.accepts().await;
    operator.sees(&["goes to the dead letters"]).await;

    holds(&places.staging, &rubbish, 1).await;
    assert_eq!(messages(&places.production, &real).await, Some(3));
    assert!(
        !audited(&places.installation, &IN_STAGING, "queue skip")
            .await
            .is_empty()
    );
    assert!(
        audited(&places.installation, &IN_PRODUCTION, "queue skip")
            .await
            .is_empty()
    );
    operator.leave().await;
    places.stop().await;
}

async fn production_is_changed_in_a_window(seat: Seat) {
    let places = places().await;
    let queue = places.publish(IN_PRODUCTION, 3).await;
    let other = places.publish(IN_STAGING, 2).await;

    let mut operator = places.operator(seat).await;
    operator.press("2");
    operator.sees(&["load-test", "READ-ONLY", "W allow changes"]).await;
    operator.press("W");
    operator.sees(&[":write 15m"]).await;
    operator.types("#42").await;
    operator.press(ENTER);
    operator.sees(&["CHANGES ALLOWED 14m", "PRODUCTION"]).await;
    operator.sees_no("READ-ONLY").await;
    operator.asks("V").await;
    operator
        .sees(&["on PRODUCTION", "move the first message of", "#42"])
        .await;
    operator.accepts().await;
    operator.sees(&["goes to the dead letters"]).await;
    operator.press("W");
    operator.sees(&["READ-ONLY"]).await;
    operator.sees_no("CHANGES ALLOWED").await;

    holds(&places.production, &queue, 2).await;
    assert_eq!(messages(&places.staging, &other).await, Some(2));
    let [_, reason, _] = audited(&places.installation, &IN_PRODUCTION, "queue skip")
        .await
        .remove(0);
    assert_eq!(reason, "#42");
    operator.leave().await;
    places.stop().await;
}

at_both_seats!(staging_is_a_key_away as refused);
at_both_seats!(production_is_changed_in_a_window as allowed);
