//! `/readyz` says within seconds what stops publishing or delivery, and waits for nothing.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::healing::{not_ready, not_ready_saying};
use super::scene::{BOUND, Scene, executions};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::relay::Relay;
use crate::support::servers::{Database, Vhost, unique_name};
use crate::support::wait::{patient, stays_absent, wait_until};

/// A daemon on a vhost with a user of its own, which is an administrator.
pub(super) struct Private {
    pub(super) installation: Installation,
    pub(super) vhost: Vhost,
    user: String,
}

impl Private {
    pub(super) async fn new() -> Self {
        let (vhost, user) = (Vhost::create().await, unique_name("user"));
        let mut private = Self {
            installation: Installation::on_rabbit(&vhost),
            vhost,
            user,
        };
        private.password("first").await;
        private.rights(".*").await;
        for key in ["url", "management_url"] {
            let node = &private.vhost.node;
            let mut url = url::Url::parse(if key == "url" { &node.amqp } else { &node.management }).unwrap();
            url.set_username(&private.user).unwrap();
            url.set_password(Some("first")).unwrap();
            private
                .installation
                .set("broker", key, url.as_str().trim_end_matches('/'));
        }
        private
    }

    async fn password(&self, password: &str) {
        self.user_is(&json!({"password": password, "tags": "administrator"}))
            .await;
    }

    pub(super) async fn tags(&self, tags: &str) {
        self.user_is(&json!({"password": "first", "tags": tags})).await;
    }

    async fn user_is(&self, user: &Value) {
        self.vhost
            .manage("PUT", &format!("/api/users/{}", self.user), Some(user))
            .await;
    }

    async fn rights(&self, write: &str) {
        self.rights_to(".*", write).await;
    }

    async fn rights_to(&self, configure: &str, write: &str) {
        let rights = json!({"configure": configure, "write": write, "read": ".*"});
        let path = format!("/api/permissions/{}/{}", self.vhost.name, self.user);
        self.vhost.manage("PUT", &path, Some(&rights)).await;
    }

    async fn limit(&self, connections: i64) {
        self.limit_of("max-connections", connections).await;
    }

    async fn limit_of(&self, what: &str, most: i64) {
        let path = format!("/api/user-limits/{}/{what}", self.user);
        self.vhost.manage("PUT", &path, Some(&json!({"value": most}))).await;
    }

    async fn channels(&self, most: i64) {
        let path = format!("/api/user-limits/{}/max-channels", self.user);
        self.vhost.manage("PUT", &path, Some(&json!({"value": most}))).await;
    }

    async fn close_connections(&self) {
        let close = ["close_all_user_connections", &self.user, "a test closes them"];
        self.vhost.node.control(&close).await;
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let request = self.vhost.node.request("DELETE", &format!("/api/users/{}", self.user));
        let _ = request.send_blocking();
    }
}

async fn ready_again(daemon: &mut Daemon) {
    daemon.wait_until_ready().await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_wrong_now_is_told() {
    let private = Private::new().await;
    let mut daemon = private.installation.daemon().await;
    private.password("second").await;
    private.close_connections().await;
    not_ready_saying(&daemon, "broker", "login failed").await;
    private.password("first").await;
    ready_again(&mut daemon).await;
}

/// Each channel beyond the limit ends its connection, with all that is consumed on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_channels_makes_queues_take_turns_and_is_told() {
    let (private, receiver) = (Private::new().await, Receiver::start().await);
    receiver.behave("/hook", Behaviour::Status(200).after(Duration::from_millis(300)));
    private.channels(12).await;
    let mut daemon = private.installation.daemon().await;
    for number in 0..48 {
        let body = json!({
            "execution_id": format!("e{}", number % 24), "url": receiver.url("/hook"), "body": "x", "id": format!("n{number}"),
        });
        wait_until(format!("publish {number} to be taken"), BOUND, async || {
            (daemon.post("/v1/notifications", &body).await.status == 202).then_some(())
        })
        .await;
    }
    wait_until("a refused queue to be told", BOUND, async || {
        let said = daemon.get("/readyz").await.json();
        let degraded = said["degraded"].as_array().unwrap().clone();
        degraded
            .iter()
            .any(|one| one["part"] == "queues" && one["problem"].as_str().unwrap().contains("set_user_limits"))
            .then_some(())
    })
    .await;
    wait_until("a queue that says why it waits", BOUND, async || {
        let queues = daemon.get("/v1/queues?limit=100").await.json();
        let mut why = queues["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|queue| &queue["why"]["text"]);
        why.any(|why| why.as_str().is_some_and(|why| why.contains("could not attach it")))
            .then_some(())
    })
    .await;
    wait_until("everything to be delivered", BOUND, async || {
        (receiver.delivered() >= 48).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_limit_that_is_reached_is_told_in_the_brokers_words() {
    let private = Private::new().await;
    let mut daemon = private.installation.daemon().await;
    private.limit(0).await;
    private.close_connections().await;
    let said = not_ready_saying(&daemon, "broker", "user connection limit (0) is reached").await;
    assert!(said.contains("set_user_limits"), "{said}");
    let doctor = private.installation.run(&["doctor", "--json"]).await.json();
    let broker = doctor
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "broker")
        .unwrap()
        .clone();
    assert!(
        broker["found"].as_str().unwrap().contains("user connection limit"),
        "{broker}"
    );
    private.limit(-1).await;
    ready_again(&mut daemon).await;
}

/// The broker ends the whole connection over a channel more than the user may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_queues_than_the_user_may_have_channels_for_are_delivered_by_and_by() {
    let mut private = Private::new().await;
    let receiver = Receiver::start().await;
    receiver.behave(
        "*",
        Behaviour::After(Duration::from_millis(300), Box::new(Behaviour::Status(200))),
    );
    private.installation.set("delivery", "linger_s", 1);
    let mut daemon = private.installation.daemon().await;
    let channels = private.vhost.node.control(&["-q", "list_channels", "user"]).await;
    let ours = channels.lines().filter(|user| *user == private.user).count();
    private
        .limit_of("max-channels", i64::try_from(ours).unwrap() + 12)
        .await;
    for number in 0..24 {
        let body = json!({"execution_id": format!("e{number}"), "url": receiver.url("/hook"), "body": {}});
        wait_until("a publish", BOUND, async || {
            let sent = daemon.request("POST", "/v1/notifications").json(&body).send().await;
            (sent.status == 202).then_some(())
        })
        .await;
    }
    wait_until("all of them", BOUND, async || {
        let ids: HashSet<String> = receiver.seen().into_iter().map(|seen| seen.id).collect();
        (ids.len() == 24).then_some(())
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_was_taken_away_is_told() {
    let private = Private::new().await;
    let mut daemon = private.installation.daemon().await;
    private.rights("^nothing$").await;
    let said = not_ready(&daemon, "broker").await;
    assert!(said.contains("missing"), "{said}");
    let rights = doctor_finds(&private.installation, "rights").await;
    assert_eq!(rights["result"], "broken", "{rights}");
    assert!(rights["found"].as_str().unwrap().contains("is missing"), "{rights}");
    assert!(rights["mend"].as_str().unwrap().contains("set_permissions"), "{rights}");
    private.installation.run(&["doctor"]).await.expect_code(1);
    let publish = ["publish", "--execution", "e", "--url", "http://127.0.0.1:9/"];
    let refused = private.installation.run(&publish).await.expect_code(78).stderr;
    assert!(
        refused.contains("write access to exchange") && !refused.contains("ACCESS_REFUSED"),
        "{refused}"
    );
    private.rights(".*").await;
    assert_eq!(doctor_finds(&private.installation, "rights").await["result"], "fine");
    ready_again(&mut daemon).await;
}

/// What `doctor` finds under this name.
async fn doctor_finds(installation: &Installation, name: &str) -> Value {
    let checks = installation.run(&["doctor", "--json"]).await.json();
    let found = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {checks}")).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_has_beside_each_finding_what_helps_against_it() {
    let private = Private::new().await;
    let mut daemon = private.installation.daemon().await;
    private.tags("").await;
    let management = doctor_finds(&private.installation, "management").await;
    let mend = management["mend"].as_str().unwrap();
    assert!(
        mend.contains("set_user_tags") && !mend.contains("enable rabbitmq_management"),
        "{management}"
    );
    // A user with rights on one vhost only: that the exchange is not there is more than one knows.
    let events = doctor_finds(&private.installation, "event exchange").await;
    assert!(
        events["found"].as_str().unwrap().contains("may not enter vhost /"),
        "{events}"
    );
    assert!(events["mend"].as_str().unwrap().contains("amq"), "{events}");
    let path = format!("/api/permissions/{}/{}", private.vhost.name, private.user);
    private.vhost.manage("DELETE", &path, None).await;
    let broker = doctor_finds(&private.installation, "broker").await;
    assert!(broker["mend"].as_str().unwrap().contains("set_permissions"), "{broker}");
    private.rights(".*").await;
    ready_again(&mut daemon).await;
    private.password("second").await;
    let broker = doctor_finds(&private.installation, "broker").await;
    assert!(broker["found"].as_str().unwrap().contains("login failed"), "{broker}");
    assert_eq!(broker["mend"], "check broker.url and REDRIVE_BROKER_URL");
}

/// A publish to a queue that is not there yet.
async fn publish_new(daemon: &Daemon, execution: &str) -> u16 {
    let body = json!({"execution_id": execution, "url": "http://127.0.0.1:9/hook", "body": "b"});
    daemon.post("/v1/notifications", &body).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_only_a_new_queue_meets_is_told_and_its_end_too() {
    let private = Private::new().await;
    let mut daemon = private.installation.daemon().await;
    let limit = format!("/api/vhost-limits/{}/max-queues", private.vhost.name);
    private.vhost.manage("PUT", &limit, Some(&json!({"value": 1}))).await;
    let said = not_ready(&daemon, "broker").await;
    assert!(
        said.contains("queue limit in vhost") && said.contains("set_vhost_limits"),
        "{said}"
    );
    assert_eq!(publish_new(&daemon, "limited").await, 503);
    // A process of its own, which met no limit before.
    let publish = ["publish", "--execution", "limited", "--url", "http://127.0.0.1:9/"];
    let refused = private.installation.run(&publish).await.expect_code(69).stderr;
    assert!(
        refused.contains("set_vhost_limits") && !refused.contains("other arguments"),
        "{refused}"
    );
    private.vhost.manage("DELETE", &limit, None).await;
    daemon.wait_until_ready().await;
    assert_eq!(publish_new(&daemon, "limited").await, 202);
    ready_again(&mut daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_to_nothing_but_the_queues_that_there_are_are_told() {
    let private = Private::new().await;
    let mut daemon = private.installation.daemon().await;
    for (configure, write) in [
        (r"^redrive\.(wake|dead|identity.*|[0-9a-f]+)$", ".*"),
        (".*", r"^redrive\.(wake|dead|identity.*|[0-9a-f]+)$"),
    ] {
        private.rights_to(configure, write).await;
        let said = not_ready(&daemon, "broker").await;
        assert!(said.contains("a new queue") && said.contains("missing"), "{said}");
        assert_eq!(publish_new(&daemon, "without-rights").await, 503);
        private.rights(".*").await;
        daemon.wait_until_ready().await;
    }
    // What was refused half-way is not left.
    let is_probe = |queue: &Value| {
        queue["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("redrive.probe."))
    };
    wait_until("no queue of a check", BOUND, async || {
        (!private.vhost.queues().await.iter().any(is_probe)).then_some(())
    })
    .await;
    ready_again(&mut daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queues_of_checks_are_listed_nowhere() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let mut daemon = installation.daemon().await;
    let is_probe = |queue: &Value| queue["name"].as_str().is_some_and(|name| name.contains("probe"));
    stays_absent("a queue of a check", Duration::from_secs(6), async || {
        let listed = daemon.get("/v1/queues?limit=1000").await.json();
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|queue| is_probe(queue))
            .cloned()
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_no_writes_is_told() {
    let vhost = Vhost::create().await;
    let database = Database::create().await;
    let mut daemon = Installation::on_servers(&vhost, &database.url()).daemon().await;
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    let name = database.url().rsplit_once('/').unwrap().1.to_owned();
    for read_only in ["on", "off"] {
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        for statement in [
            format!("ALTER DATABASE \"{name}\" SET default_transaction_read_only = {read_only}"),
            others.to_owned(),
        ] {
            let statement = AssertSqlSafe(statement);
            sqlx::query(statement).execute(&mut connection).await.unwrap();
        }
        if read_only == "on" {
            not_ready(&daemon, "store").await;
            let checks = daemon.get("/v1/doctor").await.text();
            assert!(checks.contains("its heartbeats do not reach the store"), "{checks}");
        }
    }
    connection.close().await.unwrap();
    ready_again(&mut daemon).await;
}

/// Evidence of life is a row (docs/protocols.md, rule 3): while somebody holds it nobody can prove anything by it, and
/// a daemon that cannot prove its life stops by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_holds_on_a_daemons_own_row_stops_it_no_longer_than_it_is_held() {
    let mut scene = Scene::servers().await;
    scene.hasten();
    let mut daemon = scene.installation.daemon().await;
    let all = executions(5, 2);
    scene.publish_all(&all, 4).await;
    scene.delivered(20).await;
    let mut somebody = PgConnection::connect(scene.postgres()).await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM redrive.incarnations FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut somebody).await.unwrap();
    not_ready(&daemon, "delivering").await;
    for (execution, path) in &all {
        scene.publish(execution, path, 5).await;
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut somebody).await.unwrap();
    somebody.close().await.unwrap();
    daemon.wait_until_ready().await;
    scene.finish(&mut [&mut daemon], 1).await;
}

async fn publish(daemon: &Daemon, number: u32) -> u16 {
    publish_new(daemon, &format!("run-{number}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_file_that_was_deleted_takes_no_publish() {
    let installation = Installation::embedded();
    let mut daemon = installation.daemon().await;
    assert_eq!(publish(&daemon, 1).await, 202);
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        std::fs::remove_file(installation.path(name)).unwrap();
    }
    // Not one more is confirmed, from the very first on.
    for number in 2..6 {
        assert_eq!(publish(&daemon, number).await, 503);
    }
    let said = not_ready(&daemon, "store").await;
    assert!(said.contains("store.db") && said.contains("deleted"), "{said}");
    daemon.kill().await;
}

/// All of a SQLite file that nobody uses is in the file itself: what ends with its process may leave some in the log.
pub(super) async fn settle(file: &Path) {
    let url = format!("sqlite://{}", file.display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let settle = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)");
    settle.execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// A store that worked elsewhere and ended in order.
async fn another_store() -> Installation {
    let other = Installation::embedded();
    let mut daemon = other.daemon().await;
    assert_eq!(publish(&daemon, 1).await, 202);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    settle(&other.path("store.db")).await;
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_file_that_another_one_was_put_over_takes_no_publish() {
    let other = another_store().await;
    for way in ["mv", "cp", "truncate"] {
        let installation = Installation::embedded();
        let (from, to) = (other.path("store.db"), installation.path("store.db"));
        let mut daemon = installation.daemon().await;
        for number in 1..4 {
            assert_eq!(publish(&daemon, number).await, 202);
        }
        match way {
            // Another file by this name.
            "mv" => {
                let moved = installation.path("moved.db");
                std::fs::copy(&from, &moved).unwrap();
                std::fs::rename(moved, &to).unwrap();
            }
            // The same file with other content.
            "cp" => assert!(std::fs::copy(&from, &to).unwrap() > 0),
            _ => {
                let file = std::fs::OpenOptions::new().write(true).open(&to).unwrap();
                file.set_len(0).unwrap();
            }
        }
        for number in 4..8 {
            assert_eq!(publish(&daemon, number).await, 503, "{way}");
        }
        let said = not_ready(&daemon, "store").await;
        assert!(said.contains("store.db") && said.contains("replaced"), "{way}: {said}");
        assert_eq!(publish(&daemon, 8).await, 503, "{way}");
        daemon.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_confirms_nothing_that_it_cannot_keep_and_is_over_when_there_is_room() {
    let installation = Installation::embedded();
    // No file of the daemon may grow past this: writes fail as they do on a full disk.
    let mut daemon = installation.spawn_daemon_after("trap '' XFSZ; ulimit -S -f 8192");
    daemon.wait_until_ready().await;
    let large = "x".repeat(100_000);
    let publish_large = async |execution: &str| {
        let body = json!({"execution_id": execution, "url": "http://127.0.0.1:9/hook", "body": large});
        daemon.post("/v1/notifications", &body).await.status
    };
    let mut confirmed = Vec::new();
    while confirmed.len() < 500 && publish_large(&format!("run-{}", confirmed.len())).await == 202 {
        confirmed.push(format!("run-{}", confirmed.len()));
    }
    assert!(
        (10..500).contains(&confirmed.len()),
        "{} were confirmed",
        confirmed.len()
    );
    // There may be room for less still: now there is none at all.
    let limit = |fsize: &str| {
        let arguments = ["--pid", &daemon.pid().to_string(), fsize];
        let made = std::process::Command::new("prlimit").args(arguments).status();
        assert!(made.unwrap().success());
    };
    limit("--fsize=4096:");
    not_ready(&daemon, "store").await;
    assert_eq!(publish_large("full").await, 503);
    let checks = daemon.get("/v1/doctor").await.json().to_string();
    assert!(checks.contains("can be read, and takes no writes"), "{checks}");

    limit("--fsize=unlimited");
    wait_until("a publish that is confirmed", BOUND, async || {
        (publish_large("room").await == 202).then_some(())
    })
    .await;
    confirmed.push("room".to_owned());
    let listed = daemon.get("/v1/queues?limit=1000").await.json();
    let waits = |execution: &&String| {
        let name = format!("redrive.{execution}.");
        let of_it = |queue: &&Value| queue["name"].as_str().is_some_and(|found| found.starts_with(&name));
        let queue = listed["items"].as_array().unwrap().iter().find(of_it);
        // One of them may be in hand: it probes the endpoint.
        let count = |key: &str| queue.and_then(|queue| queue[key].as_u64()).unwrap_or(0);
        count("ready") + count("unacked") >= 1
    };
    let lost: Vec<_> = confirmed.iter().filter(|execution| !waits(execution)).collect();
    assert!(lost.is_empty(), "{lost:?} were confirmed");
    daemon.wait_until_ready().await;
    // Since when it is so is no matter of when somebody asks.
    let delivering = async || daemon.get("/readyz").await.json()["delivering"].clone();
    assert_eq!(delivering().await, delivering().await);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_file_that_was_deleted_beside_a_broker_is_told() {
    let vhost = Vhost::create().await;
    let installation = Installation::on_rabbit(&vhost);
    let mut daemon = installation.daemon().await;
    std::fs::remove_file(installation.path("store.db")).unwrap();
    let said = not_ready(&daemon, "store").await;
    assert!(said.contains("was deleted while it was open"), "{said}");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_management_api_that_hangs_is_degraded_and_holds_nothing_up() {
    let mut scene = Scene::servers().await;
    let management = scene.vhost.as_ref().unwrap().node.management.clone();
    let relay = Relay::to(&management).await;
    scene.installation.set(
        "broker",
        "management_url",
        relay.through(&management).trim_end_matches('/'),
    );
    let mut daemon = scene.installation.daemon().await;
    scene.publish_all(&executions(2, 2), 2).await;
    scene.delivered(4).await;
    relay.silence();
    let slowest = wait_until("management to be told as degraded", BOUND, async || {
        let begun = Instant::now();
        let answer = daemon.get("/readyz").await;
        let took = begun.elapsed();
        assert!(took < patient(Duration::from_secs(2)), "readyz took {took:?}");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let degraded = answer.json()["degraded"].as_array().unwrap().clone();
        degraded.iter().any(|one| one["part"] == "management").then_some(took)
    })
    .await;
    assert!(slowest < patient(Duration::from_secs(2)));
    // Known to hang: rows come at once, with numbers that are unknown.
    let begun = Instant::now();
    let listed = daemon.get("/v1/queues").await;
    assert!(
        begun.elapsed() < patient(Duration::from_secs(5)),
        "{:?}",
        begun.elapsed()
    );
    let items: Vec<Value> = listed.json()["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(items.iter().all(|row| row["ready"].is_null()), "{items:?}");
    let begun = Instant::now();
    let dead = daemon.get("/v1/dead").await;
    assert_eq!(dead.status, 200, "{}", dead.text());
    assert!(
        begun.elapsed() < patient(Duration::from_secs(5)),
        "{:?}",
        begun.elapsed()
    );
    for (execution, path) in executions(2, 2) {
        scene.publish(&execution, &path, 3).await;
    }
    relay.heal_for_new_connections();
    wait_until("numbers again", BOUND, async || {
        let items = daemon.get("/v1/queues").await.json()["items"].as_array()?.clone();
        items
            .iter()
            .filter(|row| row["kind"] == "delivery")
            .all(|row| row["ready"] == 0)
            .then_some(())
    })
    .await;
    scene.finish(&mut [&mut daemon], 0).await;
}
