//! Backups of a SQLite store, what is put back, and the way to PostgreSQL.

use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::servers::{Database, Vhost};
use crate::support::wait::wait_until;
use std::path::PathBuf;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(60);

/// Real rows in most tables: an endpoint that is away, policies, events in their states, a subscription, an audit.
async fn lived_in(installation: &Installation, url: &str) -> Vec<Value> {
    for command in [
        &["publish", "--execution", "run", "--url", url][..],
        &["endpoint", "disable", url, "--yes", "--reason", "it is d\u{fc}nn"],
        &["policy", "set", "--type", "t", "{}", "--yes"],
        &["event-type", "show", "t"],
        &["event", "push", "--type", "t", "--reference", "a"],
        &[
            "event",
            "push",
            "--type",
            "t",
            "--reference",
            "b",
            "--nbf",
            "2099-01-01T00:00:00Z",
        ],
        &["subscription", "add", "--type", "t", "--url", url, "--yes"],
        &["event", "cancel", "--type", "t", "--reference", "a", "--yes"],
        &["event", "push", "--type", "t", "--reference", "c"],
    ] {
        let ran = installation.run(command).await;
        assert!(matches!(ran.code, Some(0 | 4)), "{command:?}: {ran:?}");
    }
    told(installation).await
}

/// What the commands say of it.
async fn told(installation: &Installation) -> Vec<Value> {
    let mut said = Vec::new();
    for command in [
        &["queues", "--json"][..],
        &["endpoints", "--json"],
        &["audit", "--json"],
        &["event", "list", "--type", "t", "--json"],
        &["subscription", "list", "--type", "t", "--json"],
        &["policy", "history", "--type", "t", "--json"],
    ] {
        let ran = installation.run(command).await.expect_code(0).json();
        said.push(without_moments(ran));
    }
    said
}

/// Without what tells when it was looked at, how it stood at that moment, and who worked on it.
fn without_moments(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| {
                !matches!(
                    key.as_str(),
                    "taken_at"
                        | "oldest_age_s"
                        | "next_attempt_at"
                        | "warnings"
                        | "ready"
                        | "waiting"
                        | "unacked"
                        | "delivered"
                        | "owner"
                        | "state"
                        | "why"
                )
            });
            Value::Object(kept.map(|(key, value)| (key, without_moments(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_moments).collect()),
        other => other,
    }
}

async fn stopped(mut daemon: Daemon) {
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_store_at_work_is_put_back_when_nobody_works_with_it() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let daemon = installation.daemon().await;
    let before = lived_in(&installation, "http://127.0.0.1:9/hook").await;
    let backup = installation.path("backup.db");
    let backup = backup.to_str().unwrap();
    installation.run(&["store", "backup", backup]).await.expect_code(0);
    let twice = installation.run(&["store", "backup", backup]).await.expect_code(1);
    assert!(twice.stderr.contains("exists already"), "{twice:?}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(backup).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    // What is given after it.
    installation
        .run(&["event", "push", "--type", "t", "--reference", "later"])
        .await
        .expect_code(0);
    let last = ids(&installation).await.into_iter().max().unwrap();

    let restore = ["store", "restore", backup, "--yes"];
    let refused = installation.run(&restore).await.expect_code(5);
    assert!(refused.stderr.contains("is in use by"), "{refused:?}");
    installation.run(&["store", "restore", backup]).await.expect_code(5);
    stopped(daemon).await;
    installation.run(&restore).await.expect_code(0);

    let mut after = told(&installation).await;
    let audit = after[2].as_array_mut().unwrap();
    assert_eq!(audit.remove(0)["command"], "store restore");
    let incident = audit.remove(0);
    assert_eq!(incident["result"], "went back", "{incident}");
    assert!(
        incident["detail"].as_str().unwrap().contains("lost 1 event"),
        "{incident}"
    );
    assert_eq!(after, before);
    let doctor = installation.run(&["doctor"]).await.expect_code(1);
    assert!(doctor.stdout.contains("store went back"), "{doctor:?}");
    installation.run(&["audit", "verify"]).await.expect_code(0);
    // An id of an event is never given twice, though the store forgot that it was.
    installation
        .run(&["event", "push", "--type", "t", "--reference", "again"])
        .await
        .expect_code(0);
    let next = ids(&installation).await.into_iter().max().unwrap();
    assert!(next > last, "{next} after {last}");
    stopped(installation.daemon().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_and_is_not_in_the_backup_is_counted_before_it_is_lost_and_kept_beside() {
    let installation = Installation::embedded();
    let publish = async |execution: &str| {
        let publish = ["publish", "--execution", execution, "--url", "http://127.0.0.1:9/hook"];
        installation.run(&publish).await.expect_code(0);
    };
    let waiting = async || {
        let queues = installation.run(&["queues", "--json"]).await.expect_code(0).json();
        let ready = |queue: &Value| queue["ready"].as_u64().unwrap();
        queues.as_array().unwrap().iter().map(ready).sum::<u64>()
    };
    publish("a").await;
    let backup = installation.path("backup.db");
    let backup = backup.to_str().unwrap();
    installation.run(&["store", "backup", backup]).await.expect_code(0);
    for execution in ["a", "b", "b"] {
        publish(execution).await;
    }
    let plan = installation.run(&["store", "restore", backup, "--dry-run"]).await;
    let plan = plan.expect_code(0).stdout;
    assert!(plan.contains("3 messages that wait or are dead"), "{plan}");
    let restored = installation.run(&["store", "restore", backup, "--yes"]).await;
    restored.expect_code(0);
    assert_eq!(waiting().await, 1);
    let doctor = installation.run(&["doctor"]).await.expect_code(1);
    assert!(
        doctor.stdout.contains("lost 3 messages that wait or are dead"),
        "{doctor:?}"
    );
    let before = kept_before(&installation).unwrap();
    // It has a log while it is used, and none is made beside it.
    let plan = ["store", "restore", before.to_str().unwrap(), "--dry-run"];
    installation.run(&plan).await.expect_code(0);
    for log in ["-wal", "-shm"] {
        let beside = PathBuf::from(format!("{}{log}", before.display()));
        assert!(!beside.exists(), "{}", beside.display());
    }
    let back = ["store", "restore", before.to_str().unwrap(), "--yes"];
    installation.run(&back).await.expect_code(0);
    assert_eq!(waiting().await, 4);
}

/// The file that a restore left beside the store.
fn kept_before(installation: &Installation) -> Option<PathBuf> {
    let beside = std::fs::read_dir(installation.path("store.db").parent().unwrap()).unwrap();
    let mut beside = beside.map(|entry| entry.unwrap().path());
    beside.find(|path| path.to_string_lossy().contains("store.db.before-"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_pushed_again_since_the_backup_is_counted_and_what_waited_then_and_is_dead_now_is_not() {
    let installation = Installation::embedded();
    let receiver = Receiver::start().await;
    receiver.behave("/hook", Behaviour::Status(404));
    let url = receiver.url("/hook");
    let push = [
        "event",
        "push",
        "--type",
        "t",
        "--reference",
        "r",
        "--nbf",
        "2099-01-01T00:00:00Z",
    ];
    installation.run(&push).await.expect_code(0);
    let publish = ["publish", "--execution", "run", "--url", url.as_str()];
    installation.run(&publish).await.expect_code(0);
    let backup = installation.path("backup.db");
    let backup = backup.to_str().unwrap();
    installation.run(&["store", "backup", backup]).await.expect_code(0);
    installation.run(&push).await.expect_code(0);
    let daemon = installation.daemon().await;
    wait_until("a dead letter", Duration::from_secs(30), async || {
        let listed = installation
            .run(&["dead", "list", "--json"])
            .await
            .expect_code(0)
            .json();
        (listed.as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    stopped(daemon).await;
    let plan = installation.run(&["store", "restore", backup, "--dry-run"]).await;
    let plan = plan.expect_code(0).stdout;
    assert!(plan.contains("will be lost: 1 event"), "{plan}");
    assert!(!plan.contains("message"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_replaced_by_its_backup_and_kept_beside() {
    let installation = Installation::embedded();
    let publish = ["publish", "--execution", "a", "--url", "http://127.0.0.1:9/hook"];
    installation.run(&publish).await.expect_code(0);
    let (backup, store) = (installation.path("backup.db"), installation.path("store.db"));
    let backup = backup.to_str().unwrap();
    installation.run(&["store", "backup", backup]).await.expect_code(0);
    let damaged = "no page of a database".repeat(1_000);
    std::fs::write(&store, &damaged).unwrap();
    let planned = installation
        .run(&["store", "restore", backup, "--dry-run"])
        .await
        .expect_code(0);
    let unknown = "an unknown number of messages and events, because the file cannot be read";
    assert!(planned.stdout.contains(unknown), "{planned:?}");
    let restored = installation.run(&["store", "restore", backup, "--yes"]).await;
    restored.expect_code(0);
    let before = kept_before(&installation).unwrap();
    assert_eq!(std::fs::read_to_string(&before).unwrap(), damaged);
    // Another restore, in the same second too, keeps what the first one kept.
    let again = installation.run(&["store", "restore", backup, "--yes"]).await;
    again.expect_code(0);
    assert_eq!(std::fs::read_to_string(&before).unwrap(), damaged);
    let queues = installation.run(&["queues", "--json"]).await.expect_code(0).json();
    assert_eq!(queues[0]["ready"], 1, "{queues}");
}

async fn ids(installation: &Installation) -> Vec<i64> {
    let listed = installation.run(&["event", "list", "--type", "t", "--json"]).await;
    let listed = listed.expect_code(0).json();
    let events = listed.as_array().unwrap().iter();
    events
        .map(|event| event["id"].to_string().trim_matches('"').parse().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_whole_backup_is_not_put_back() {
    let installation = Installation::embedded();
    installation.run(&["queues"]).await.expect_code(0);
    let (torn, other) = (installation.path("torn.db"), installation.path("other.db"));
    installation
        .run(&["store", "backup", torn.to_str().unwrap()])
        .await
        .expect_code(0);
    let whole = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    super::in_file(&other, "CREATE TABLE cats (name TEXT)").await;
    let before = std::fs::read(installation.path("store.db")).unwrap();
    let (text, directory) = (installation.path("notes.txt"), installation.path("a-directory"));
    std::fs::write(&text, "this is no SQLite file, however long it is".repeat(100)).unwrap();
    std::fs::create_dir(&directory).unwrap();
    for path in [&text, &directory, &other, &installation.path("missing.db")] {
        let restore = ["store", "restore", path.to_str().unwrap(), "--yes"];
        let refused = installation.run(&restore).await.expect_code(2);
        let said = format!("{} is no backup of redrive: ", path.display());
        assert!(refused.stderr.contains(&said), "{refused:?}");
    }
    // What somebody wrote into a copy would run in every daemon; a program may have tables of its own beside ours.
    let (trap, beside) = (installation.path("trap.db"), installation.path("beside.db"));
    std::fs::write(&trap, &whole).unwrap();
    std::fs::write(&beside, &whole).unwrap();
    super::in_file(
        &trap,
        "CREATE TRIGGER trap AFTER INSERT ON Events BEGIN DELETE FROM events; END",
    )
    .await;
    let restore = ["store", "restore", trap.to_str().unwrap(), "--yes"];
    let refused = installation.run(&restore).await.expect_code(2);
    assert!(refused.stderr.contains("has the trigger \"trap\""), "{refused:?}");
    super::in_file(&beside, "CREATE TABLE staff (number TEXT)").await;
    super::in_file(
        &beside,
        "CREATE TRIGGER hired AFTER INSERT ON staff BEGIN SELECT 1; END",
    )
    .await;
    let restore = ["store", "restore", beside.to_str().unwrap(), "--dry-run"];
    installation.run(&restore).await.expect_code(0);
    for path in [&torn, &other, &installation.path("missing.db")] {
        let refused = installation
            .run(&["store", "restore", path.to_str().unwrap(), "--yes"])
            .await;
        assert!(!matches!(refused.code, Some(0 | 3)), "{path:?}: {refused:?}");
    }
    assert_eq!(std::fs::read(installation.path("store.db")).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_a_file_holds_goes_into_an_empty_database_and_its_daemons_go_on_there() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let receiver = Receiver::start().await;
    let url = receiver.url("/hook");
    let mut installation = Installation::on_rabbit(&vhost);
    let daemon = installation.daemon().await;
    lived_in(&installation, &url).await;
    let target = database.url();
    let copy = ["store", "copy", "--to", target.as_str(), "--yes", "--json"];
    let refused = installation.run(&copy).await.expect_code(5);
    assert!(refused.stderr.contains("is in use by"), "{refused:?}");
    stopped(daemon).await;
    let late = ["publish", "--execution", "run", "--url", url.as_str()];
    installation.run(&late).await.expect_code(0);
    // What later additions made goes along.
    let added = "INSERT INTO ended_subscriptions VALUES (1, 't', 'http://127.0.0.1:9/old', '{}', 1, 2); \
        INSERT INTO refused_queues VALUES ('q', 'http://127.0.0.1:9/old', 1)";
    super::in_file(&installation.path("store.db"), added).await;
    let (before, delivered) = (told(&installation).await, receiver.count());
    let copied = installation.run(&copy).await.expect_code(0).json();
    assert!(copied["rows"]["events"].as_u64() >= Some(2), "{copied}");
    assert!(copied["rows"]["audit"].as_u64() >= Some(1), "{copied}");
    for table in ["ended_subscriptions", "refused_queues"] {
        assert_eq!(copied["rows"][table], 1, "{copied}");
    }
    let refused = installation.run(&copy).await;
    assert_eq!(refused.code, Some(78), "it is not empty any more: {refused:?}");

    // The file is another store: the broker refuses it.
    let refused = installation.run(&["queues"]).await.expect_code(78);
    assert!(refused.stderr.contains("daemons of"), "{refused:?}");
    installation.set("store", "url", target.as_str());
    assert_eq!(told(&installation).await, before);
    installation.run(&["audit", "verify"]).await.expect_code(0);
    // Numbers go on where they were.
    let last = ids(&installation).await.into_iter().max().unwrap();
    installation
        .run(&["event", "push", "--type", "t", "--reference", "again"])
        .await
        .expect_code(0);
    assert!(ids(&installation).await.into_iter().max().unwrap() > last);
    let daemon = installation.daemon().await;
    installation.run(&["redeliver", &url, "--yes"]).await.expect_code(0);
    wait_until("what waited in the file's time", BOUND, async || {
        (receiver.count() > delivered).then_some(())
    })
    .await;
    stopped(daemon).await;
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    let taken: i64 = sqlx::query_scalar("SELECT count(*) FROM redrive.settings WHERE identity IS NOT NULL")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!((taken, json!(1)), (1, json!(taken)));
}
