//! A broker is delivered by the daemons of one store.

use redrive::internals::domain::id::StoreId;
use redrive::internals::engine::{Access, Command, EngineError};

use crate::console::pty::Pty;
use crate::engine::stage::{Ground, Stage};
use crate::support::daemon::Installation;
use crate::support::servers::{Database, Vhost};

async fn nothing_is_made(vhost: &Vhost, by: &str) {
    let exchanges = vhost
        .manage("GET", &format!("/api/exchanges/{}", vhost.name), None)
        .await
        .text();
    assert!(!exchanges.contains("redrive"), "{by} made an exchange: {exchanges}");
    let queues = vhost.queues().await;
    assert!(queues.is_empty(), "{by} made a queue: {queues:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_looks_makes_nothing_on_a_broker_that_is_nobodys() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let (body, queue) = (
        installation.path("body"),
        "redrive.run.0123456789abcdef0123456789abcdef",
    );
    std::fs::write(&body, "b").unwrap();
    let body = body.to_str().unwrap();
    let publish = [
        "publish",
        "--execution",
        "run",
        "--url",
        "http://127.0.0.1:9/hook",
        "--body-file",
        body,
    ];
    for (command, codes) in [
        (&["doctor"][..], &[0, 1][..]),
        (&["queues"], &[0]),
        (&["endpoints"], &[0]),
        (&["dead", "list"], &[0]),
        (&["queue", "browse", queue], &[1, 4]),
        (&["queue", "why", queue], &[0, 4]),
        // It has no exchange to go to, and makes none: that is a daemon's.
        (&publish, &[78]),
    ] {
        let outcome = installation.run(command).await;
        let code = outcome.code.unwrap();
        assert!(codes.contains(&code), "{command:?}: {outcome:?}");
        nothing_is_made(&vhost, &format!("{command:?}")).await;
    }
}

/// Without the management API the broker says it when it is connected to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_names_the_versions_of_broker_and_store() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let mut installation = Installation::on_servers(&vhost, &database.url());
    let mut said = Vec::new();
    for management in [vhost.node.management.as_str(), "http://127.0.0.1:1"] {
        installation.set("broker", "management_url", management);
        let doctor = installation.run(&["doctor", "--json"]).await.json();
        let found = |name: &str| {
            let checks = doctor.as_array().unwrap();
            let check = checks
                .iter()
                .find(|check| check["name"] == name && check["result"] == "fine");
            check.unwrap_or_else(|| panic!("{name}: {doctor}"))["found"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let is_version = |text: &str| text.split('.').next().is_some_and(|major| major.parse::<u32>().is_ok());
        let (broker, store) = (found("broker"), found("store"));
        assert!(broker.strip_prefix("rabbitmq ").is_some_and(is_version), "{broker}");
        assert!(store.strip_prefix("postgres ").is_some_and(is_version), "{store}");
        said.push((broker, store));
    }
    assert_eq!(said[0], said[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_hosts_of_a_database_are_refused_at_once() {
    let vhost = Vhost::create().await;
    let url = "postgres://redrive:secret@db-1.example:5432,db-2.example:5432/redrive?target_session_attrs=read-write";
    let installation = Installation::on_servers(&vhost, url);
    let outcome = installation.run(&["queues"]).await.expect_code(78);
    assert!(outcome.stderr.contains("several hosts"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("secret"), "{}", outcome.stderr);
    let mut daemon = installation.spawn_daemon();
    assert_eq!(daemon.wait().await.code(), Some(78), "{}", daemon.log());
    assert!(daemon.log().contains("several hosts"), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_of_another_store_says_so_and_shows_nothing() {
    let vhost = Vhost::create().await;
    let (first, second) = (Installation::on_rabbit(&vhost), Installation::on_rabbit(&vhost));
    let mut daemon = first.daemon().await;
    let mut console = Pty::start(&second.program(&[]), (120, 40));
    assert_eq!(console.ended().await, 78);
    let screen = console.screen().replace('\n', " ");
    assert!(
        screen.contains("another store") || screen.contains("the store"),
        "{screen}"
    );
    assert!(screen.contains("redrive store adopt"), "{screen}");
    // That of the store whose the broker is goes on.
    let mut console = Pty::start(&first.program(&[]), (120, 40));
    console.shows("live").await;
    console.key("q");
    assert_eq!(console.ended().await, 0);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

/// A console may be open for days.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_on_a_broker_that_was_given_to_another_store_since() {
    let mut stage = Stage::quiet(Ground::rabbit_sqlite().await, |_| {}).await;
    let queue = stage.publish("run", "/hook").await.queue;
    let other = StoreId::parse("01234567-89ab-cdef-0123-456789abcdef").unwrap();
    stage.broker.adopt(&other).await.unwrap();
    let plan = stage.engine.plan(Command::PauseQueue(queue.clone())).await.unwrap();
    let grant = Access::Operator.grant("tester", None).unwrap();
    let refused = stage.engine.execute(&plan, &grant).await;
    assert!(matches!(refused, Err(EngineError::OtherOwner { .. })), "{refused:?}");
    assert_eq!(stage.store.queue_get(&queue).await.unwrap().unwrap().pause, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_of_another_store_is_refused_until_it_is_adopted() {
    let vhost = Vhost::create().await;
    let (first, second) = (Installation::on_rabbit(&vhost), Installation::on_rabbit(&vhost));
    // Nobody's yet: commands look, and write nothing.
    first.run(&["endpoints"]).await.expect_code(0);
    nothing_is_made(&vhost, "endpoints").await;

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
