//! RabbitMQ and PostgreSQL for tests: a virtual host or database of the shared servers, or a
//! private server that may be killed, frozen and started again.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use url::Url;

use super::http::{Answer, Request};
use super::wait::within;

/// More private servers at once would starve the tests on a small machine.
static PRIVATE_SERVERS: Semaphore = Semaphore::const_new(2);

/// For a server that does not answer any more to drop what a test had there.
const DROP_BOUND: Duration = Duration::from_secs(10);

static NAMES: AtomicU64 = AtomicU64::new(0);

/// A variable that `tests/run` sets.
pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with tests/run"))
}

/// A name that no other test and no earlier run has.
pub fn unique_name(prefix: &str) -> String {
    let nanoseconds = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("{prefix}-{nanoseconds:x}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// A scratch directory that `tests/run` removes even when the test is killed.
pub fn scratch_directory() -> TempDir {
    let parent = env::var_os("REDRIVE_TEST_SCRATCH").map_or_else(env::temp_dir, PathBuf::from);
    tempfile::Builder::new()
        .prefix("redrive-test-")
        .tempdir_in(parent)
        .expect("a scratch directory")
}

/// Where a RabbitMQ node is reached, with an administrator's credentials in the URLs.
#[derive(Debug, Clone)]
pub struct RabbitAddress {
    /// `amqp://user:password@127.0.0.1:PORT`, without a path.
    pub amqp: String,
    /// `http://user:password@127.0.0.1:PORT`, without a path.
    pub management: String,
    /// A program that controls the node.
    pub rabbitmqctl: PathBuf,
}

impl RabbitAddress {
    /// The node that all tests share: for tests that disturb nobody else's virtual host.
    pub fn shared() -> Self {
        Self {
            amqp: variable("REDRIVE_TEST_AMQP"),
            management: variable("REDRIVE_TEST_MANAGEMENT"),
            rabbitmqctl: variable("REDRIVE_TEST_RABBITMQCTL").into(),
        }
    }

    /// A request to the management API; `path` begins with `/api/`.
    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, &format!("{}{path}", self.management))
    }

    /// Runs `rabbitmqctl` and gives its standard output; panics if it fails.
    pub async fn control(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.rabbitmqctl);
        command.args(arguments);
        succeed(
            &run(command).await.expect("rabbitmqctl cannot be started"),
            "rabbitmqctl",
        )
    }

    /// A virtual host of its own on this node.
    pub async fn vhost(&self) -> Vhost {
        let vhost = Vhost {
            name: unique_name("test"),
            node: self.clone(),
        };
        let created = vhost
            .node
            .request("PUT", &format!("/api/vhosts/{}", vhost.name))
            .send()
            .await;
        assert!(
            created.status < 300,
            "no virtual host: {} {}",
            created.status,
            created.text()
        );
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        let user = Url::parse(&self.amqp).expect("a URL").username().to_owned();
        vhost
            .manage("PUT", &format!("/api/permissions/{}/{user}", vhost.name), Some(&rights))
            .await;
        vhost
    }
}

/// A virtual host that exists as long as this value.
#[derive(Debug)]
pub struct Vhost {
    pub name: String,
    pub node: RabbitAddress,
}

impl Vhost {
    /// On the shared node.
    pub async fn create() -> Self {
        RabbitAddress::shared().vhost().await
    }

    /// Reached as an administrator who may go into this virtual host and into no other.
    pub async fn for_its_own_user(mut self) -> Self {
        let user = unique_name("user");
        let login = json!({"password": user, "tags": "administrator"});
        self.manage("PUT", &format!("/api/users/{user}"), Some(&login)).await;
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        self.manage("PUT", &format!("/api/permissions/{}/{user}", self.name), Some(&rights))
            .await;
        for address in [&mut self.node.amqp, &mut self.node.management] {
            let mut url = Url::parse(address).expect("a URL");
            url.set_username(&user).expect("a URL with a host");
            url.set_password(Some(&user)).expect("a URL with a host");
            // Without the path that a URL of HTTP always has.
            url.as_str().trim_end_matches('/').clone_into(address);
        }
        self
    }

    /// The AMQP URL with this virtual host as its path.
    pub fn amqp(&self) -> String {
        format!("{}/{}", self.node.amqp, self.name)
    }

    /// A request to the management API that must succeed.
    pub async fn manage(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let request = self.node.request(method, path);
        let request = if let Some(body) = body {
            request.json(body)
        } else {
            request
        };
        let answer = request.send().await;
        assert!(
            answer.status < 300,
            "{method} {path}: {} {}",
            answer.status,
            answer.text()
        );
        answer
    }

    /// What the management API says about each queue, without the statistics that lag behind.
    pub async fn queues(&self) -> Vec<Value> {
        let path = format!("/api/queues/{}?disable_stats=true&enable_queue_totals=true", self.name);
        let answer = self.manage("GET", &path, None).await.json();
        answer.as_array().expect("a list of queues").clone()
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        // A node that is gone took its virtual hosts along.
        let _ = self
            .node
            .request("DELETE", &format!("/api/vhosts/{}", self.name))
            .send_blocking();
    }
}

/// A PostgreSQL database that exists as long as this value.
#[derive(Debug)]
pub struct Database {
    name: String,
    server: Url,
}

impl Database {
    /// On the shared server.
    pub async fn create() -> Self {
        Self::create_on(&variable("REDRIVE_TEST_POSTGRES")).await
    }

    /// On the shared server, with these options.
    pub async fn create_like(options: &str) -> Self {
        Self::make(&variable("REDRIVE_TEST_POSTGRES"), options).await
    }

    /// On a server given by a superuser's URL.
    pub async fn create_on(server: &str) -> Self {
        Self::make(server, "").await
    }

    async fn make(server: &str, options: &str) -> Self {
        let server = Url::parse(server).expect("a URL");
        let name = unique_name("test").replace('-', "_");
        execute(&server, format!("CREATE DATABASE {name} {options}"))
            .await
            .expect("a database");
        Self { name, server }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let mut url = self.server.clone();
        url.set_path(&self.name);
        url.into()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let server = self.server.clone();
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A thread with a runtime of its own, since a drop cannot wait for the test's. A server
        // that is gone took its databases along.
        // One that is frozen does not answer: a test that fails then must end all the same.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(async { within(DROP_BOUND, execute(&server, statement)).await }))
        });
        let _ = dropping.join();
    }
}

async fn execute(server: &Url, statement: String) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(server.as_str()).await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

/// A RabbitMQ node of this test alone.
pub struct PrivateRabbit {
    pub address: RabbitAddress,
    server: PrivateServer,
}

/// A PostgreSQL server of this test alone.
pub struct PrivatePostgres {
    /// A superuser's URL of the database `postgres`.
    pub url: String,
    server: PrivateServer,
}

impl PrivateRabbit {
    /// Takes some seconds.
    pub async fn start() -> Self {
        Self::on(PrivateServer::start("rabbit").await)
    }

    /// That also listens with TLS, with `cert.pem` and `key.pem` of a directory.
    pub async fn start_with_certificate(directory: &Path) -> Self {
        let with = ("REDRIVE_TEST_CERTIFICATE", directory.as_os_str());
        Self::on(PrivateServer::start_with("rabbit", &[with]).await)
    }

    /// In a network namespace that is there: `NAME:ADDRESS`, with the node's address in it.
    pub async fn start_in(namespace: &str) -> Self {
        let with = ("REDRIVE_TEST_NAMESPACE", namespace.as_ref());
        Self::on(PrivateServer::start_with("rabbit", &[with]).await)
    }

    /// From now on it takes bodies of at most this many bytes, from channels that are opened after it.
    pub async fn limit_bodies(&self, bytes: usize) {
        let set = format!(
            "application:set_env(rabbit, max_message_size, {bytes}), persistent_term:put(max_message_size, {bytes})."
        );
        self.address.control(&["eval", &set]).await;
    }

    /// A further node of this one's cluster.
    pub async fn joined(&self) -> Self {
        self.joined_with(&[]).await
    }

    /// A further node of this one's cluster, in a network namespace as [`PrivateRabbit::start_in`].
    pub async fn joined_in(&self, namespace: &str) -> Self {
        self.joined_with(&[("REDRIVE_TEST_NAMESPACE", namespace.as_ref())])
            .await
    }

    async fn joined_with(&self, with: &[(&str, &OsStr)]) -> Self {
        let joins = ("REDRIVE_TEST_JOINS", self.server.directory.path().as_os_str());
        Self::on(PrivateServer::beside("rabbit", &[&[joins], with].concat()).await)
    }

    /// `amqps://user:password@127.0.0.1:PORT` of one that has a certificate.
    pub fn amqps(&self) -> String {
        self.server.variable("REDRIVE_TEST_AMQPS")
    }

    /// `https://user:password@127.0.0.1:PORT` of the management API of one that demands certificates.
    pub fn management_tls(&self) -> String {
        self.server.variable("REDRIVE_TEST_MANAGEMENT_TLS")
    }

    fn on(server: PrivateServer) -> Self {
        let address = RabbitAddress {
            amqp: server.variable("REDRIVE_TEST_AMQP"),
            management: server.variable("REDRIVE_TEST_MANAGEMENT"),
            rabbitmqctl: server.variable("REDRIVE_TEST_RABBITMQCTL").into(),
        };
        Self { address, server }
    }
}

impl PrivatePostgres {
    pub async fn start() -> Self {
        let server = PrivateServer::start("postgres").await;
        Self {
            url: server.variable("REDRIVE_TEST_POSTGRES"),
            server,
        }
    }

    /// A standby of the server that is reached at a port of this machine: it copies what that one writes, a moment later.
    pub async fn follows(port: u16) -> Self {
        let port = port.to_string();
        let server = PrivateServer::beside("postgres", &[("REDRIVE_TEST_FOLLOWS", port.as_ref())]).await;
        Self {
            url: server.variable("REDRIVE_TEST_POSTGRES"),
            server,
        }
    }

    /// A backup of a server that is stopped.
    pub async fn back_up(&self) {
        self.copy("data", "backup").await;
    }

    /// What was backed up in place of what is there; the server is stopped.
    pub async fn restore(&self) {
        let data = self.server.directory.path().join("postgres/data");
        std::fs::remove_dir_all(data).expect("the data of a stopped server");
        self.copy("backup", "data").await;
    }

    async fn copy(&self, from: &str, to: &str) {
        let home = self.server.directory.path().join("postgres");
        let mut command = Command::new("cp");
        command.arg("-a").args([home.join(from), home.join(to)]);
        succeed(&run(command).await.expect("cp cannot be started"), "cp");
    }
}

impl std::ops::Deref for PrivateRabbit {
    type Target = PrivateServer;

    fn deref(&self) -> &PrivateServer {
        &self.server
    }
}

impl std::ops::Deref for PrivatePostgres {
    type Target = PrivateServer;

    fn deref(&self) -> &PrivateServer {
        &self.server
    }
}

/// One server below a directory of its own, in the hands of `tests/servers`.
pub struct PrivateServer {
    kind: &'static str,
    directory: TempDir,
    _permit: Option<SemaphorePermit<'static>>,
}

impl PrivateServer {
    async fn start(kind: &'static str) -> Self {
        Self::start_with(kind, &[]).await
    }

    async fn start_with(kind: &'static str, with: &[(&str, &OsStr)]) -> Self {
        let permit = PRIVATE_SERVERS.acquire().await.expect("never closed");
        Self::in_a_directory(kind, Some(permit), with).await
    }

    /// Belongs to one that is there, and needs no permit of its own.
    async fn beside(kind: &'static str, with: &[(&str, &OsStr)]) -> Self {
        Self::in_a_directory(kind, None, with).await
    }

    async fn in_a_directory(
        kind: &'static str,
        permit: Option<SemaphorePermit<'static>>,
        with: &[(&str, &OsStr)],
    ) -> Self {
        let directory = scratch_directory();
        // PostgreSQL's unprivileged user must be able to pass.
        let passable = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(directory.path(), passable).expect("own directory");
        let server = Self {
            kind,
            directory,
            _permit: permit,
        };
        server.act("start", with).await;
        server
    }

    /// With the ports and data it had, once it was stopped or killed; returns when it is ready.
    pub async fn start_again(&self) {
        self.act("start", &[]).await;
    }

    /// An orderly stop.
    pub async fn stop(&self) {
        self.act("stop", &[]).await;
    }

    /// SIGKILL.
    pub async fn kill(&self) {
        self.act("kill", &[]).await;
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub async fn freeze(&self) {
        self.act("freeze", &[]).await;
    }

    /// SIGCONT.
    pub async fn thaw(&self) {
        self.act("thaw", &[]).await;
    }

    async fn act(&self, action: &str, with: &[(&str, &OsStr)]) {
        let action = format!("{}-{action}", self.kind);
        let mut command = servers_command(&action, self.directory.path());
        command.envs(with.iter().copied());
        succeed(&run(command).await.expect("tests/servers cannot be started"), &action);
    }

    fn variable(&self, name: &str) -> String {
        let environment = std::fs::read_to_string(self.directory.path().join("env")).expect("an env file");
        let prefix = format!("export {name}='");
        let value = environment
            .lines()
            .find_map(|line| line.strip_prefix(&prefix)?.strip_suffix('\''));
        value.unwrap_or_else(|| panic!("no {name} in {environment}")).to_owned()
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // What is left is ended by tests/run.
        let _ = servers_command("stop", self.directory.path()).output();
    }
}

fn servers_command(action: &str, directory: &Path) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let mut command = Command::new(script);
    command.arg(action).arg(directory);
    command
}

/// On a thread, so that a slow start holds up no other test's runtime.
async fn run(mut command: Command) -> io::Result<Output> {
    tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("the command's thread panicked")
}

#[track_caller]
fn succeed(output: &Output, what: &str) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

mod tests {
    use std::time::{Duration, Instant};

    use sqlx::{Connection, PgConnection};

    use super::{Database, PrivatePostgres, PrivateRabbit, RabbitAddress, Vhost, execute};
    use crate::support::wait::{patient, wait_until};

    const BOUND: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_virtual_host_lives_as_long_as_its_value() {
        let vhost = Vhost::create().await;
        let (node, path) = (RabbitAddress::shared(), format!("/api/vhosts/{}", vhost.name));
        assert_eq!(vhost.queues().await.len(), 0);
        let options = lapin::ConnectionProperties::default();
        let connection = lapin::Connection::connect(&vhost.amqp(), options).await.unwrap();
        connection.close(200, "done".into()).await.unwrap();
        drop(vhost);
        assert_eq!(node.request("GET", &path).send().await.status, 404);
    }

    #[tokio::test]
    async fn a_database_lives_as_long_as_its_value() {
        let database = Database::create().await;
        let url = database.url();
        let open = PgConnection::connect(&url).await.unwrap();
        drop(database);
        assert!(PgConnection::connect(&url).await.is_err());
        drop(open);
    }

    #[tokio::test]
    async fn a_private_postgres_comes_back_with_its_data() {
        let postgres = PrivatePostgres::start().await;
        let url = postgres.url.parse().unwrap();
        execute(&url, "CREATE TABLE kept (id bigint)".to_owned()).await.unwrap();
        postgres.kill().await;
        assert!(PgConnection::connect(&postgres.url).await.is_err());
        postgres.start_again().await;
        execute(&url, "INSERT INTO kept VALUES (1)".to_owned()).await.unwrap();
    }

    #[tokio::test]
    async fn a_test_that_ends_while_its_server_is_frozen_gives_back_what_it_had_there() {
        let postgres = PrivatePostgres::start().await;
        let database = Database::create_on(&postgres.url).await;
        postgres.freeze().await;
        let begun = Instant::now();
        drop(database);
        assert!(begun.elapsed() < patient(BOUND), "{:?}", begun.elapsed());
        let directory = postgres.directory.path().to_owned();
        drop(postgres);
        assert!(!directory.exists());
    }

    #[tokio::test]
    async fn a_private_rabbit_can_be_frozen_killed_and_started_again() {
        let rabbit = PrivateRabbit::start().await;
        let vhost = rabbit.address.vhost().await;
        let path = format!("/api/vhosts/{}", vhost.name);
        rabbit.freeze().await;
        let request = rabbit.address.request("GET", &path).send();
        assert!(tokio::time::timeout(Duration::from_millis(300), request).await.is_err());
        rabbit.thaw().await;
        assert_eq!(rabbit.address.request("GET", &path).send().await.status, 200);
        rabbit.kill().await;
        assert!(rabbit.address.request("GET", &path).try_send().await.is_err());
        rabbit.start_again().await;
        let there = async || (rabbit.address.request("GET", &path).send().await.status == 200).then_some(());
        wait_until("the virtual host of before", BOUND, there).await;
        assert!(rabbit.address.control(&["list_vhosts"]).await.contains(&vhost.name));
    }
}
