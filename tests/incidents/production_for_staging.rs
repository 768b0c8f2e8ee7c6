//! 9. Production is taken for staging: nothing happens to it, the screen says where it is, and staging is a command away.
//!
//! `2` the queues, `X` is refused and says why; `:` profile staging `Enter`; `2`, `X`, the name, `Enter`: 9 keys. What
//! has to be changed in production is changed in a window with a reason: `2`, `:` write 15m … `Enter`, `X`, the name,
//! `Enter`, `:` read-only `Enter`: 10 keys.

use serde_json::json;

use super::Operator;
use super::outside::{audited, filled, holds, messages};
use crate::support::daemon::Installation;
use crate::support::servers::{Database, Vhost};

const QUEUE: &str = "orders.test";

/// Two places under one configuration, with a queue of the same name in both.
struct Places {
    installation: Installation,
    staging: Vhost,
    production: Vhost,
    _databases: [Database; 2],
}

async fn places() -> Places {
    let (staging, production) = (Vhost::create().await, Vhost::create().await);
    let databases = [Database::create().await, Database::create().await];
    let mut installation = Installation::on_servers(&staging, &databases[0].url());
    installation.set("console", "refresh_s", 1);
    installation.append(&format!(
        "[profile.staging]\nlabel = \"STAGING\"\ncolour = \"green\"\n\n\
         [profile.production]\nlabel = \"PRODUCTION\"\ncolour = \"red\"\nprotected = true\n\
         store = {{ url = {} }}\nbroker = {{ vhost = {} }}\n",
        json!(databases[1].url()),
        json!(production.name)
    ));
    filled(&staging, QUEUE, json!({}), 4).await;
    filled(&production, QUEUE, json!({}), 7).await;
    Places {
        installation,
        staging,
        production,
        _databases: databases,
    }
}

const IN_PRODUCTION: [&str; 2] = ["--profile", "production"];
const IN_STAGING: [&str; 2] = ["--profile", "staging"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_taken_for_staging_refuses_and_staging_is_a_command_away() {
    let places = places().await;
    let mut operator = Operator::at(&places.installation, &IN_PRODUCTION).await;
    operator.sees(&["PRODUCTION", "READ-ONLY"]).await;
    let ground = operator.ground_of("PRODUCTION").unwrap();
    assert_ne!(ground, operator.ground_of("READ-ONLY").unwrap(), "a colour of its own");
    operator.press("2");
    operator.sees(&[QUEUE, "7"]).await;
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
    operator.sees(&[QUEUE, "4"]).await;
    operator.asks("X").await;
    operator
        .sees(&[
            "on STAGING",
            "4 messages",
            "Messages are lost by this",
            "type the name of the queue",
        ])
        .await;
    operator.accepts_by_typing(QUEUE).await;
    operator.sees(&["purged orders.test: 4 messages removed"]).await;

    holds(&places.staging, QUEUE, 0).await;
    assert_eq!(messages(&places.production, QUEUE).await, Some(7));
    assert_eq!(audited(&places.installation, &IN_STAGING, "queue purge").await.len(), 1);
    assert!(
        audited(&places.installation, &IN_PRODUCTION, "queue purge")
            .await
            .is_empty()
    );
    operator.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_is_changed_in_a_window_with_a_reason_that_is_audited() {
    let places = places().await;
    let mut operator = Operator::at(&places.installation, &IN_PRODUCTION).await;
    operator.press("2");
    operator.sees(&[QUEUE, "READ-ONLY"]).await;
    operator.commands("write 15m INC-7 test data").await;
    operator.sees(&["CHANGES ALLOWED 14m", "PRODUCTION"]).await;
    operator.sees_no("READ-ONLY").await;
    operator.asks("X").await;
    operator
        .sees(&["on PRODUCTION", "7 messages", "type the name of the queue"])
        .await;
    operator.accepts_by_typing(QUEUE).await;
    operator.sees(&["purged orders.test: 7 messages removed"]).await;
    operator.commands("read-only").await;
    operator.sees(&["READ-ONLY"]).await;
    operator.sees_no("CHANGES ALLOWED").await;

    holds(&places.production, QUEUE, 0).await;
    assert_eq!(messages(&places.staging, QUEUE).await, Some(4));
    let [_, reason, _] = audited(&places.installation, &IN_PRODUCTION, "queue purge")
        .await
        .remove(0);
    assert_eq!(reason, "INC-7 test data");
    operator.leave().await;
}
