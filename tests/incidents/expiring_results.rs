//! 5. Results that nobody fetched are about to expire: they are kept, go with their queue, and are back when asked for.
//!
//! `-` what is lost first, `*` all of it, `V` `y` into the store; the day after `w` what was saved, `*` `R` `y` back into
//! their queues: 8 keys, of which 4 save them.

use serde_json::{Value, json};

use super::operator::{Operator, Seat};
use super::outside::{audited, filled, holds, json, listed, messages, put};
use crate::runs::scene::Scene;
use crate::support::wait::wait_until;

const NIGHTLY: &str = "reports.nightly";
/// Long enough to be seen and saved, short enough to be waited for.
const LIVES_MS: u64 = 60_000;

async fn play(seat: Seat) {
    let mut scene = Scene::postgres().await;
    scene.installation.set("console", "refresh_s", 1);
    let mut daemon = scene.installation.daemon().await;
    let job = json(&scene.installation, &["job", "submit", "--ttl", "1800"]).await;
    let result = job["queues"]["result"].as_str().unwrap();
    put(&scene.vhost, result, 1).await;
    filled(&scene.vhost, NIGHTLY, json!({"x-expires": LIVES_MS}), 3).await;
    let counted = |rows: &[Value]| rows.iter().filter_map(|row| row["messages"].as_u64()).sum::<u64>() == 4;
    listed(
        &scene.installation,
        &["expiring", "list"],
        "the broker's statistics",
        counted,
    )
    .await;

    let mut operator = Operator::seated(seat, &scene.installation, &daemon).await;
    operator.sees(&["within the hour", "messages in 2 queues expire"]).await;
    operator.press("-");
    operator
        .sees(&["Time left", "Expires", NIGHTLY, "expires at", "V save now"])
        .await;
    operator.press("*");
    operator.sees(&["marked"]).await;
    operator.asks("V").await;
    operator.sees(&["save", NIGHTLY, "2 shown"]).await;
    operator.accepts().await;
    operator.sees(&["saved 2 queues with 4 messages"]).await;
    holds(&scene.vhost, result, 0).await;
    let saves = listed(&scene.installation, &["expiring", "saves"], "two saves", |rows| {
        rows.len() == 2
    })
    .await;
    let kept: u64 = saves.iter().filter_map(|save| save["messages"].as_u64()).sum();
    assert_eq!(kept, 4, "{saves:?}");
    wait_until("the nightly queue to expire", super::outside::BOUND, async || {
        messages(&scene.vhost, NIGHTLY).await.is_none().then_some(())
    })
    .await;

    operator.press("w");
    operator.sees(&["what was saved", "◆ kept", NIGHTLY]).await;
    operator.press("*");
    operator.sees(&["2 marked"]).await;
    operator.asks("R").await;
    operator.sees(&["restore", NIGHTLY]).await;
    operator.accepts().await;
    operator.sees(&["restored 2 queues with 4 messages"]).await;

    holds(&scene.vhost, NIGHTLY, 3).await;
    holds(&scene.vhost, result, 1).await;
    assert_eq!(audited(&scene.installation, &[], "expiring restore").await.len(), 1);
    operator.leave().await;
    assert_eq!(daemon.stop().await, Some(0));
}

at_both_seats!(play);
