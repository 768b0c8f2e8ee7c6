//! The first start on a real terminal: nothing is configured, and what is answered is tried on a real broker.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use super::pty::{BOUND, Pty};
use super::stream;
use crate::support::daemon::Installation;
use crate::support::servers::{RabbitAddress, Vhost, scratch_directory, unique_name};
use crate::support::wait::wait_until;

const SIZE: (u16, u16) = (120, 40);

/// A user's home in which nothing is.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(scratch_directory())
    }

    fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        for name in [
            "REDRIVE_CONFIG",
            "REDRIVE_STORE_URL",
            "REDRIVE_BROKER_URL",
            "REDRIVE_MANAGEMENT_URL",
            "REDRIVE_API_TOKEN",
        ] {
            command.env_remove(name);
        }
        command.env("HOME", self.0.path());
        for (name, directory) in [
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
        ] {
            command.env(name, self.0.path().join(directory));
        }
        command.current_dir(self.0.path());
        command
    }

    async fn start(&self) -> Pty {
        let pty = Pty::start(&self.program(), SIZE);
        pty.shows("No configuration was found").await;
        pty
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("config/redrive/config.toml")
    }

    /// Every file, against the home.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(self.0.path(), &mut found);
        let name = |path: &PathBuf| path.strip_prefix(self.0.path()).unwrap().display().to_string();
        found.iter().map(name).collect()
    }
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

async fn leaves(mut pty: Pty) {
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

/// Says yes until it is heard: a key that follows another one too soon is not taken for a person's.
async fn agrees(pty: &Pty, then: &str) {
    wait_until(then, BOUND, async || {
        if pty.screen().contains(then) {
            return Some(());
        }
        pty.key("y");
        None
    })
    .await;
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_finds_nothing_written() {
    let home = Home::new();
    leaves(home.start().await).await;
    let mut pty = home.start().await;
    pty.signal(Signal::TERM);
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    assert_eq!(home.files(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_once_is_the_console_and_asks_again() {
    let home = Home::new();
    let pty = home.start().await;
    pty.key("2");
    pty.shows("live").await;
    pty.key("?");
    pty.shows("─ Keys ─").await;
    pty.key("q");
    pty.hides("─ Keys ─").await;
    leaves(pty).await;
    assert!(!home.config().exists());
    assert!(
        home.files().contains(&"data/redrive/redrive.db".to_owned()),
        "{:?}",
        home.files()
    );
    let pty = home.start().await;
    pty.shows("as before").await;
    leaves(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_and_kept_is_written_after_a_yes_and_nobody_asks_again() {
    let home = Home::new();
    let pty = home.start().await;
    pty.key("3");
    pty.shows("Write this?").await;
    pty.shows("config.toml (new").await;
    assert!(!home.config().exists(), "it is only shown");
    agrees(&pty, "live").await;
    leaves(pty).await;
    assert_eq!(mode(&home.config()), 0o600);
    let pty = Pty::start(&home.program(), SIZE);
    pty.shows("live").await;
    leaves(pty).await;
}

/// A user of the shared broker with a password that must not be seen, and a vhost of his own.
async fn user(configure: &str) -> (String, Vhost) {
    let (name, vhost) = (unique_name("first"), RabbitAddress::shared().vhost().await);
    let login = json!({"password": PASSWORD, "tags": "management"});
    vhost.manage("PUT", &format!("/api/users/{name}"), Some(&login)).await;
    let rights = json!({"configure": configure, "write": ".*", "read": ".*"});
    let path = format!("/api/permissions/{}/{name}", vhost.name);
    vhost.manage("PUT", &path, Some(&rights)).await;
    (name, vhost)
}

async fn forget(user: &str, vhost: &Vhost) {
    vhost.manage("DELETE", &format!("/api/users/{user}"), None).await;
}

const PASSWORD: &str = "Zq7-never-shown";

fn amqp(vhost: &Vhost, user: &str, password: &str) -> String {
    let mut url = url::Url::parse(&vhost.node.amqp).unwrap();
    url.set_username(user).unwrap();
    url.set_password(Some(password)).unwrap();
    url.set_path(&vhost.name);
    url.into()
}

fn management(broker: &RabbitAddress) -> String {
    let mut url = url::Url::parse(&broker.management).unwrap();
    url.set_username("").unwrap();
    url.set_password(None).unwrap();
    url.as_str().trim_end_matches('/').to_owned()
}

/// Types the answers as a person does, the address by a paste, and has them tried.
async fn answer(pty: &Pty, amqp: &str, management: &str) {
    pty.key("1");
    pty.shows("Where is the broker?").await;
    pty.paste(amqp);
    pty.shows("••••").await;
    pty.key("\r");
    pty.shows("of the management API").await;
    for character in management.chars() {
        pty.key(&character.to_string());
    }
    pty.key("\r");
    pty.shows("what is remembered").await;
    pty.key("\r");
    pty.shows("What was found:").await;
}

fn assert_never_shown(pty: &Pty) {
    let bytes = pty.bytes();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("Zq7"), "a password reached the terminal");
    stream::assert_only_ours(&bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_is_asked_for_tried_and_kept_without_its_password_being_shown() {
    let home = Home::new();
    let (user, vhost) = user(".*").await;
    let mut pty = home.start().await;
    answer(&pty, &amqp(&vhost, &user, PASSWORD), &management(&vhost.node)).await;
    for found in [
        "It works",
        "a queue could be made",
        "answers",
        "nothing of it is there yet",
    ] {
        assert!(pty.screen().contains(found), "{found}:\n{}", pty.screen());
    }
    assert_eq!(home.files(), Vec::<String>::new(), "to try is not to write");
    pty.key("s");
    pty.shows("Write this?").await;
    pty.shows("in a file of its own").await;
    agrees(&pty, "live").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
    assert_never_shown(&pty);
    let (config, secret) = (home.config(), home.config().with_file_name("broker.url"));
    assert_eq!((mode(&config), mode(&secret)), (0o600, 0o600));
    let key = home.config().with_file_name("url_hash_key");
    assert_eq!(mode(&key), 0o600);
    let key = fs::read_to_string(key).unwrap();
    assert!(key.trim().len() > 40, "a new key is long and random");
    let bytes = pty.bytes();
    assert!(
        !String::from_utf8_lossy(&bytes).contains(key.trim()),
        "the key reached the terminal"
    );
    assert!(!fs::read_to_string(&config).unwrap().contains(PASSWORD));
    assert!(fs::read_to_string(&secret).unwrap().contains(PASSWORD));
    for kind in ["queues", "exchanges"] {
        let left = vhost.manage("GET", &format!("/api/{kind}/{}", vhost.name), None).await;
        assert!(
            !left.text().contains("probe"),
            "what was tried left something: {}",
            left.text()
        );
    }
    let pty = Pty::start(&home.program(), SIZE);
    pty.shows("live").await;
    leaves(pty).await;
    forget(&user, &vhost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_work_is_told_with_its_mend_and_can_be_changed() {
    let home = Home::new();
    let (user, vhost) = user("^$").await;
    let pty = home.start().await;
    answer(&pty, &amqp(&vhost, &user, "wrong-password"), "http://127.0.0.1:9").await;
    pty.shows("It does not work yet").await;
    pty.shows("check user and password").await;
    pty.shows("enable rabbitmq_management").await;
    pty.key("e");
    pty.shows("Where is the broker?").await;
    pty.send(b"\x15");
    pty.shows("(amqp://localhost)").await;
    pty.paste(&amqp(&vhost, &user, PASSWORD));
    pty.shows("••••").await;
    for help in ["of the management API", "what is remembered"] {
        pty.key("\r");
        pty.shows(help).await;
    }
    pty.key("\r");
    pty.shows("broker refuses a queue").await;
    pty.shows("grant them, then try again").await;
    leaves(pty).await;
    forget(&user, &vhost).await;
    assert_eq!(home.files(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_only_read_the_broker_only_looks_and_nothing_is_made_there() {
    let home = Home::new();
    let (user, vhost) = user("^$").await;
    let queue = "orders.dlq";
    vhost
        .manage(
            "PUT",
            &format!("/api/queues/{}/{queue}", vhost.name),
            Some(&json!({"durable": true})),
        )
        .await;
    let pty = home.start().await;
    answer(&pty, &amqp(&vhost, &user, PASSWORD), &management(&vhost.node)).await;
    pty.shows("l only looks").await;
    pty.key("l");
    pty.shows("READ-ONLY").await;
    pty.key("2");
    pty.shows(queue).await;
    assert_never_shown(&pty);
    leaves(pty).await;
    let left = vhost.manage("GET", &format!("/api/queues/{}", vhost.name), None).await;
    assert!(!left.text().contains("redrive."), "{}", left.text());
    assert!(!home.config().exists());
    forget(&user, &vhost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_does_not_answer_is_told_in_plain_words() {
    let home = Home::new();
    let pty = home.start().await;
    pty.key("1");
    pty.shows("Where is the broker?").await;
    pty.paste("amqp://ops@127.0.0.1:9");
    for help in ["of the management API", "what is remembered"] {
        pty.key("\r");
        pty.shows(help).await;
    }
    pty.key("\r");
    pty.shows("What was found:").await;
    pty.shows("check host and port").await;
    let screen = pty.screen();
    let words = screen.replace('│', " ");
    let said = words.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("connection refused: nothing listens at 127.0.0.1:9"),
        "{screen}"
    );
    assert!(
        !screen.contains("os error") && !screen.contains("rabbitmq_management"),
        "{screen}"
    );
    leaves(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_another_store_delivers_is_told_before_anything_is_kept() {
    let (user, vhost) = user(".*").await;
    Installation::on_rabbit(&vhost).daemon().await.stop().await;
    let home = Home::new();
    let pty = home.start().await;
    answer(&pty, &amqp(&vhost, &user, PASSWORD), &management(&vhost.node)).await;
    pty.shows("deliver what is on this vhost").await;
    assert!(!home.config().exists());
    leaves(pty).await;
    forget(&user, &vhost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_overwritten() {
    let home = Home::new();
    let pty = home.start().await;
    pty.key("3");
    pty.shows("Write this?").await;
    fs::create_dir_all(home.config().parent().unwrap()).unwrap();
    fs::write(home.config(), "# mine\n").unwrap();
    agrees(&pty, "not written").await;
    leaves(pty).await;
    assert_eq!(fs::read_to_string(home.config()).unwrap(), "# mine\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_and_those_who_said_something_are_not_asked() {
    let home = Home::new();
    let empty = home.0.path().join("empty.toml");
    fs::write(&empty, "").unwrap();
    let mut named = home.program();
    named.arg("--config").arg(&empty);
    let mut by_variable = home.program();
    by_variable.env("REDRIVE_CONFIG", &empty);
    let mut by_url = home.program();
    by_url.env("REDRIVE_BROKER_URL", "embedded:");
    for command in [named, by_variable, by_url] {
        let pty = Pty::start(&command, SIZE);
        pty.shows("live").await;
        leaves(pty).await;
    }
    let listed = home.program().arg("queues").arg("--json").output().unwrap();
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    let bare = home.program().output().unwrap();
    assert_eq!(bare.status.code(), Some(2), "{bare:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_and_a_paste_in_the_wrong_place_do_no_harm() {
    let home = Home::new();
    let pty = home.start().await;
    pty.paste("3y\r2");
    pty.shows("only taken in a line").await;
    pty.resize(20, 5);
    pty.shows("this is 20 × 5").await;
    pty.resize(SIZE.0, SIZE.1);
    pty.shows("No configuration was found").await;
    leaves(pty).await;
    wait_until("no file", BOUND, async || home.files().is_empty().then_some(())).await;
}
