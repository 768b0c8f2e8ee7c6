//! The receivers of the guide do what its page says, each in its own language.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redrive::internals::domain::id::NotificationId;
use redrive::internals::domain::signature::SigningSecret;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::source;
use crate::support::daemon::free_port;
use crate::support::http::Request;
use crate::support::servers::scratch_directory;
use crate::support::wait::within;

const BOUND: Duration = Duration::from_mins(1);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn file(name: &str) -> String {
    let path = source::root().join("docs/guides/receivers").join(name);
    path.to_str().unwrap().to_owned()
}

fn seconds(before: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    (now - before).to_string()
}

/// One notification, as a daemon sends it.
struct Sent<'a> {
    secret: &'a str,
    id: &'a str,
    epoch: &'a str,
    seconds_ago: u64,
}

const FIRST: Sent<'_> = Sent {
    secret: SECRET,
    id: "a",
    epoch: "1789000000007",
    seconds_ago: 0,
};

impl Sent<'_> {
    async fn post(&self, url: &str) -> u16 {
        let (timestamp, body) = (seconds(self.seconds_ago), format!("body of {}", self.id));
        let id = NotificationId::parse(self.id).unwrap();
        let secret = SigningSecret::parse(self.secret).unwrap();
        let signature = secret.sign(&id, &timestamp, body.as_bytes());
        let request = Request::new("POST", url)
            .header("webhook-id", self.id)
            .header("webhook-timestamp", &timestamp)
            // The old secret's first, while they are being changed.
            .header("webhook-signature", &format!("v1,bm90aGluZw== {signature}"))
            .header("Redrive-Queue", "redrive.order-18.9bbb")
            .header("Redrive-Epoch", self.epoch);
        request.body(body).send().await.status
    }
}

async fn started(mut command: Command) -> (Child, String) {
    let port = free_port().to_string();
    command.args([port.as_str(), SECRET]).kill_on_drop(true);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = within(BOUND, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(first, Some(format!("listening on http://127.0.0.1:{port}")));
    (child, format!("http://127.0.0.1:{port}/hook"))
}

async fn check(command: Command) {
    let (mut child, url) = started(command).await;
    let newer = Sent {
        id: "b",
        epoch: "1789000000008",
        ..FIRST
    };
    for (sent, status, why) in [
        (&FIRST, 204, "it is the first"),
        (
            &Sent {
                secret: OTHER_SECRET,
                id: "x",
                ..FIRST
            },
            401,
            "another secret",
        ),
        (
            &Sent {
                id: "x",
                seconds_ago: 4_000,
                ..FIRST
            },
            401,
            "an hour old",
        ),
        (&FIRST, 204, "it came already"),
        (&newer, 204, "another daemon took over"),
        (&Sent { id: "x", ..FIRST }, 409, "its epoch is over"),
        (&newer, 204, "it came already"),
    ] {
        assert_eq!(sent.post(&url).await, status, "{why}");
    }
    child.start_kill().unwrap();
    let handled = child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&handled.stdout), "body of a\nbody of b\n");
}

/// Whether a program is there, and answers this command with success.
fn has(program: &str, arguments: &[&str]) -> bool {
    let mut command = std::process::Command::new(program);
    let done = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let has = done.is_ok_and(|status| status.success());
    if !has {
        let _ = writeln!(
            std::io::stderr(),
            "not run: the receiver of the guide that needs {program}"
        );
    }
    has
}

#[tokio::test]
async fn the_receiver_in_python_verifies_deduplicates_and_refuses_old_epochs() {
    let mut command = Command::new("python3");
    command.arg(file("receiver.py"));
    check(command).await;
}

#[tokio::test]
async fn the_receiver_in_typescript_verifies_deduplicates_and_refuses_old_epochs() {
    let modern = ["-e", "process.exit(process.features.typescript ? 0 : 1)"];
    if has("node", &modern) {
        let mut command = Command::new("node");
        command.arg(file("receiver.ts"));
        check(command).await;
    }
}

#[tokio::test]
async fn the_receiver_in_java_verifies_deduplicates_and_refuses_old_epochs() {
    if has("javac", &["--version"]) {
        let mut command = Command::new("java");
        command.arg(file("Receiver.java"));
        check(command).await;
    }
}

#[tokio::test]
async fn the_receiver_in_go_verifies_deduplicates_and_refuses_old_epochs() {
    if has("go", &["version"]) {
        let built = scratch_directory();
        let program = built.path().join("receiver");
        let mut build = std::process::Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(file("receiver.go"));
        build
            .env("GO111MODULE", "off")
            .env("GOCACHE", built.path().join("cache"));
        assert!(build.status().unwrap().success());
        check(Command::new(Path::new(&program))).await;
    }
}
