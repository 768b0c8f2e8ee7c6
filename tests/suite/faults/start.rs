//! What keeps the program from starting is a clear error with its exit code: the field and the mend.

use lapin::options::{ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::scene::{BOUND, Scene};
use crate::support::daemon::{Installation, free_port};
use crate::support::servers::{Database, RabbitAddress, Vhost, unique_name};
use crate::support::wait::wait_until;

/// A daemon that does not start: its exit code, and words that its last lines contain.
async fn check(installation: &Installation, code: i32, words: &[&str]) {
    let mut daemon = installation.spawn_daemon();
    let ended = daemon.wait().await;
    let log = daemon.log();
    assert_eq!(ended.code(), Some(code), "{log}");
    for word in words {
        assert!(log.contains(word), "no {word:?} in:\n{log}");
    }
}

/// The same for a command.
async fn check_command(installation: &Installation, code: i32, words: &[&str]) {
    let outcome = installation
        .run(&["publish", "--execution", "e", "--url", "http://127.0.0.1:9/"])
        .await;
    let outcome = outcome.expect_code(code);
    for word in words {
        assert!(outcome.stderr.contains(word), "no {word:?} in {outcome:?}");
    }
}

/// Broker, its management API, database and daemon, each at a port that nothing listens on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_refused_is_told_in_words_wherever_it_leads() {
    let at = format!("127.0.0.1:{}", free_port());
    let mut broker = Installation::embedded();
    broker.set("broker", "url", format!("amqp://u:s3cret@{at}"));
    broker.set("broker", "management_url", format!("http://u:s3cret@{at}"));
    let mut store = Installation::embedded();
    store.set("store", "url", format!("postgres://u:s3cret@{at}/d"));
    store.set("broker", "url", format!("amqp://u:s3cret@{at}"));
    store.leave_the_store_as_it_is();
    let mut daemon = Installation::embedded();
    daemon.leave_the_store_as_it_is();
    daemon.append(&format!("\n[profile.far]\ndaemon = \"http://{at}\"\n"));
    for (installation, arguments) in [
        (
            &broker,
            ["publish", "--execution", "e", "--url", "http://127.0.0.1:9/"].as_slice(),
        ),
        (&broker, &["vhost", "make"]),
        (&store, &["store", "migrate"]),
        (&daemon, &["queues", "--profile", "far"]),
    ] {
        let outcome = installation.run(arguments).await.expect_code(69);
        let words = format!("connection refused: nothing listens at {at}");
        assert!(outcome.stderr.contains(&words), "{arguments:?}: {outcome:?}");
        assert!(
            !outcome.stderr.contains("os error") && !outcome.stderr.contains("s3cret"),
            "{arguments:?}: {outcome:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_looks_at_the_broker_also_where_the_database_is_away() {
    let vhost = Vhost::create().await;
    let at = format!("127.0.0.1:{}", free_port());
    let installation = Installation::on_servers(&vhost, &format!("postgres://u:s3cret@{at}/d"));
    let checks = installation.run(&["doctor", "--json"]).await.expect_code(1).json();
    let find = |name: &str| {
        let found = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {checks}")).clone()
    };
    assert_eq!(find("broker")["result"], "fine", "{checks}");
    assert_eq!(find("management")["result"], "fine", "{checks}");
    let store = find("store");
    assert_eq!(store["result"], "broken", "{checks}");
    assert_eq!(store["mend"], "check store.url, and that the database runs", "{checks}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_database_says_is_told_without_the_lines_of_its_source() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let missing = format!("{}x", database.url());
    let installation = Installation::on_servers(&vhost, &missing);
    let told = installation.run(&["queues"]).await.expect_code(78).stderr;
    assert!(told.contains("does not exist") && !told.contains("at line"), "{told}");
}

/// `url` with another login.
fn as_user(url: &str, user: &str) -> String {
    let mut url = url::Url::parse(url).unwrap();
    url.set_username(user).unwrap();
    url.set_password(Some("s3cret")).unwrap();
    url.to_string()
}

/// A user without any tag, with all rights on the vhost; removed with the value.
pub(super) struct User<'a> {
    name: String,
    vhost: &'a Vhost,
}

impl<'a> User<'a> {
    pub(super) async fn create(vhost: &'a Vhost) -> Self {
        let name = unique_name("user");
        let login = json!({"password": "s3cret", "tags": ""});
        vhost.manage("PUT", &format!("/api/users/{name}"), Some(&login)).await;
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        let path = format!("/api/permissions/{}/{name}", vhost.name);
        vhost.manage("PUT", &path, Some(&rights)).await;
        Self { name, vhost }
    }

    pub(super) fn installation(&self) -> Installation {
        let mut installation = Installation::on_rabbit(self.vhost);
        let node = &self.vhost.node;
        installation.set("broker", "url", as_user(&node.amqp, &self.name));
        installation.set("broker", "management_url", as_user(&node.management, &self.name));
        installation
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // A node that is gone took its users along.
        let path = format!("/api/users/{}", self.name);
        let _ = self.vhost.node.request("DELETE", &path).send_blocking();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_key_names_the_nearest_one() {
    let mut installation = Installation::embedded();
    installation.set("delivery", "wrokers", 3);
    check(&installation, 78, &["delivery.wrokers", "workers"]).await;
    check_command(&installation, 78, &["delivery.wrokers", "workers"]).await;
}

/// What may be free a moment later ends with a code after which systemd starts the daemon again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_somebody_has_is_no_wrong_configuration() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let free = format!("127.0.0.1:{}", free_port());
    for (listen, probe, named) in [
        (taken.as_str(), None, "api.listen"),
        (&free, Some(taken.as_str()), "api.probe"),
        (&free, Some("192.0.2.1:8471"), "api.probe"),
    ] {
        let mut installation = Installation::embedded();
        installation.set("api", "listen", listen);
        if let Some(probe) = probe {
            installation.set("api", "probe", probe);
        }
        let outcome = installation.run(&["--daemon"]).await.expect_code(1);
        assert!(outcome.stderr.contains(named), "{outcome:?}");
    }
    let mut installation = Installation::embedded();
    let path = installation.path("api.sock");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    installation.set("api", "unix", path.to_str().unwrap());
    check(&installation, 1, &["api.unix", "another process listens there"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_in_a_profile_of_a_daemon_elsewhere_is_refused() {
    let mut installation = Installation::embedded();
    installation.append("\n[profile.far]\ndaemon = \"https://redrive.example:8470\"\n");
    let outcome = installation
        .run(&["--daemon", "--profile", "far"])
        .await
        .expect_code(78);
    assert!(outcome.stderr.contains("https://redrive.example:8470"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_the_configuration_looks_at_the_profiles_that_are_not_in_use() {
    let mut installation = Installation::embedded();
    installation
        .append("\n[profile.far]\ndaemon = \"https://redrive.example\"\ntoken = { file = \"/nowhere/token\" }\n");
    let outcome = installation.run(&["config", "check"]).await.expect_code(0);
    assert!(
        outcome.stderr.contains("profile far") && outcome.stderr.contains("/nowhere/token"),
        "{outcome:?}"
    );
    installation.append("\n[profile.later.delivery]\nworkers = 0\n");
    let outcome = installation.run(&["config", "check"]).await.expect_code(78);
    assert!(outcome.stderr.contains("profile.later.delivery.workers"), "{outcome:?}");
    installation.run(&["queues"]).await.expect_code(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_that_cannot_be_read_are_warned_of() {
    let mut installation = Installation::embedded();
    installation.set_environment("SSL_CERT_FILE", "/nowhere/ca.pem");
    // What is in there would be enough.
    installation.set_environment("SSL_CERT_DIR", "");
    let outcome = installation.run(&["config", "check"]).await.expect_code(0);
    assert!(
        outcome.stderr.contains("SSL_CERT_FILE names /nowhere/ca.pem"),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_that_no_daemon_delivers_says_so() {
    let installation = Installation::embedded();
    let publish = ["publish", "--execution", "e", "--url", "http://127.0.0.1:9/"];
    let alone = installation.run(&publish).await.expect_code(0);
    assert!(alone.stderr.contains("no daemon works with this store"), "{alone:?}");
    let mut daemon = installation.daemon().await;
    let delivered = installation.run(&publish).await.expect_code(0);
    assert!(!delivered.stderr.contains("no daemon"), "{delivered:?}");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_a_log_for_programs_is_json() {
    let mut installation = Installation::embedded();
    installation.set_environment("REDRIVE_LOG_FORMAT", "json");
    let mut daemon = installation.daemon().await;
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    let log = daemon.log();
    assert!(log.contains("listening on http://127.0.0.1:"), "{log}");
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_are_a_login_and_never_shown() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("broker", "url", as_user(&vhost.node.amqp, "nobody"));
    installation.set("broker", "management_url", as_user(&vhost.node.management, "nobody"));
    check(&installation, 78, &["nobody", "broker.url"]).await;
    let told = installation.run(&["queues"]).await;
    assert!(
        !told.stderr.contains("s3cret") && !told.stdout.contains("s3cret"),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_management_tag_delivers_in_a_vhost_that_exists() {
    let vhost = Vhost::create().await;
    let user = User::create(&vhost).await;
    let installation = user.installation();
    let receiver = crate::support::receiver::Receiver::start().await;
    let mut daemon = installation.daemon().await;
    let body = json!({"execution_id": "e", "url": receiver.url("/hook"), "body": "x"});
    assert_eq!(daemon.post("/v1/notifications", &body).await.status, 202);
    wait_until("the delivery", BOUND, async || {
        (receiver.delivered() == 1).then_some(())
    })
    .await;
    let doctor = installation.run(&["doctor", "--json"]).await;
    assert!(doctor.stdout.contains("set_user_tags"), "{doctor:?}");
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_management_tag_cannot_make_the_vhost() {
    let vhost = Vhost::create().await;
    let user = User::create(&vhost).await;
    let mut installation = user.installation();
    installation.set("broker", "vhost", unique_name("missing"));
    check(&installation, 78, &["set_user_tags", &user.name]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_vhost_that_may_not_be_made_is_named() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    let missing = unique_name("missing");
    installation.set("broker", "vhost", missing.as_str());
    installation.set("broker", "provision", false);
    check(&installation, 78, &[&missing, "add_vhost"]).await;
    check_command(&installation, 78, &[&missing, "add_vhost"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_management_api_is_named_when_the_vhost_has_to_be_made() {
    let vhost = Vhost::create().await;
    let mut installation = Installation::on_rabbit(&vhost);
    installation.set("broker", "vhost", unique_name("missing"));
    let nowhere = format!("http://guest:guest@127.0.0.1:{}", free_port());
    installation.set("broker", "management_url", nowhere);
    check(&installation, 69, &["rabbitmq-plugins enable rabbitmq_management"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_hold_every_letter_is_refused_before_the_first_table() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let latin = Database::create_like("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").await;
    let refused = ["LATIN1", "UTF8"];
    check(&Installation::on_servers(&vhost, &latin.url()), 78, &refused).await;
    let mut connection = PgConnection::connect(&latin.url()).await.unwrap();
    let made = sqlx::query("SELECT FROM pg_namespace WHERE nspname = 'redrive'");
    assert!(made.fetch_optional(&mut connection).await.unwrap().is_none());
    let installation = Installation::on_servers(&vhost, &database.url());
    assert_eq!(installation.daemon().await.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_a_newer_version_is_refused() {
    let database = Database::create().await;
    let mut installation = Installation::on_servers(&Vhost::create().await, &database.url());
    installation.set("store", "url", database.url());
    drop(
        redrive::internals::store::postgres::PostgresStore::connect(&database.url())
            .await
            .unwrap(),
    );
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    let raise = "INSERT INTO redrive.schema_changes VALUES (99, '', 0)";
    sqlx::query(raise).execute(&mut connection).await.unwrap();
    check(&installation, 78, &["99", "newer"]).await;
    check_command(&installation, 78, &["99", "newer"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_settings_are_refused_while_queues_exist() {
    let mut scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    scene.publish("run", "/hook", 1).await;
    scene.finish(&mut [&mut daemon], 0).await;
    scene.installation.set("broker", "url_hash_key", "another key");
    check(&scene.installation, 78, &["1 delivery queue", "broker.url_hash_key"]).await;
}

/// Declares a queue with one more argument than redrive would.
async fn declare(vhost: &Vhost, queue: &str, exchange: Option<&str>) {
    let options = lapin::ConnectionProperties::default();
    let connection = lapin::Connection::connect(&vhost.amqp(), options).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-priority".into(), AMQPValue::LongInt(5));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let queue = ShortString::from(queue);
    channel.queue_declare(queue.clone(), durable, arguments).await.unwrap();
    if let Some(exchange) = exchange {
        let (exchange, options) = (ShortString::from(exchange), lapin::options::QueueBindOptions::default());
        let binding = channel.queue_bind(queue.clone(), exchange, queue, options, FieldTable::default());
        binding.await.unwrap();
    }
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_of_ours_with_other_arguments_is_named_with_the_difference() {
    let scene = Scene::on_rabbit(&RabbitAddress::shared()).await;
    let vhost = scene.vhost.as_ref().unwrap();
    let wake = scene.naming().wake_queue();
    declare(vhost, &wake, None).await;
    check(&scene.installation, 78, &[&wake, "x-max-priority"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_queue_whose_arguments_break_order_is_not_delivered_and_says_why() {
    let scene = Scene::servers().await;
    let mut daemon = scene.installation.daemon().await;
    let queue = scene.queue("run", "/hook");
    declare(
        scene.vhost.as_ref().unwrap(),
        queue.as_str(),
        Some(&scene.naming().exchange()),
    )
    .await;
    scene.publish("run", "/hook", 1).await;
    scene.publish("other", "/hook", 1).await;
    scene.delivered(1).await;
    let why = wait_until("the reason", BOUND, async || {
        Some(scene.why(&queue).await).filter(|why| why["state"] == "refused")
    })
    .await;
    assert!(why["why"]["text"].as_str().unwrap().contains("priority"), "{why}");
    assert_eq!(scene.receiver.delivered(), 1);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    assert_eq!(scene.ready(&queue).await, 1);
}
