//! A broker is delivered by the daemons of one store.

use crate::support::daemon::Installation;
use crate::support::servers::Vhost;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_of_another_store_is_refused_until_it_is_adopted() {
    let vhost = Vhost::create().await;
    let (first, second) = (Installation::on_rabbit(&vhost), Installation::on_rabbit(&vhost));
    // Nobody's yet: commands look, and write nothing.
    first.run(&["endpoints"]).await.expect_code(0);
    let exchanges = vhost
        .manage("GET", &format!("/api/exchanges/{}", vhost.name), None)
        .await
        .text();
    assert!(!exchanges.contains("redrive"), "a command wrote something: {exchanges}");

    let mut daemon = first.daemon().await;
    first.run(&["endpoints"]).await.expect_code(0);
    let mut refused = second.spawn_daemon();
    assert_eq!(refused.wait().await.code(), Some(78), "{}", refused.log());
    assert!(refused.log().contains("redrive store adopt"), "{}", refused.log());
    let looked = second.run(&["endpoints"]).await.expect_code(78);
    assert!(looked.stderr.contains("store adopt"), "{}", looked.stderr);
    let doctor = second.run(&["doctor", "--json"]).await.json();
    let identity = doctor
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "identity");
    assert_eq!(identity.unwrap()["result"], "broken", "{doctor}");

    let planned = second.run(&["store", "adopt", "--dry-run"]).await.expect_code(0);
    assert!(
        planned.stdout.contains("another store") || planned.stdout.contains("the store"),
        "{}",
        planned.stdout
    );
    second
        .run(&["--read-only", "store", "adopt", "--yes"])
        .await
        .expect_code(5);
    second.run(&["store", "adopt", "--yes"]).await.expect_code(0);
    // The daemon of the store that had it stops by itself.
    assert_eq!(daemon.wait().await.code(), Some(78), "{}", daemon.log());
    first.run(&["endpoints"]).await.expect_code(78);
    let mut daemon = second.daemon().await;
    let audit = second.run(&["audit", "--json"]).await.expect_code(0).json();
    assert!(
        audit
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line["command"] == "store adopt"),
        "{audit}"
    );
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}
