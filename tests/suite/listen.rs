//! The receiver of development: a daemon delivers to it, and it shows, judges and answers as it was told to.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::support::daemon::Installation;
use crate::support::http::Request;
use crate::support::wait::within;

const BOUND: Duration = Duration::from_mins(1);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// `redrive listen 0` with more arguments, at work.
struct Listening {
    child: Child,
    url: String,
    out: Lines<BufReader<ChildStdout>>,
    err: BufReader<ChildStderr>,
}

impl Listening {
    async fn start(installation: &Installation, arguments: &[&str]) -> Self {
        let mut command = Command::from(installation.program(&[&["listen", "0"], arguments].concat()));
        command.stdin(std::process::Stdio::null()).kill_on_drop(true);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        within(BOUND, err.read_line(&mut first)).await.unwrap().unwrap();
        let url = first.split([' ', ';']).find(|word| word.starts_with("http://"));
        let url = url
            .unwrap_or_else(|| panic!("it does not say where it is: {first}"))
            .to_owned();
        Self { child, url, out, err }
    }

    async fn line(&mut self) -> String {
        within(BOUND, self.out.next_line()).await.unwrap().unwrap().unwrap()
    }

    async fn object(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// All lines up to an empty one.
    async fn text(&mut self) -> String {
        let mut text = String::new();
        loop {
            let line = self.line().await;
            if line.is_empty() {
                return text;
            }
            text.push_str(&line);
            text.push('\n');
        }
    }

    /// Its exit code, and what else it said on standard error.
    async fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        within(BOUND, self.err.read_to_string(&mut said))
            .await
            .unwrap()
            .unwrap();
        (within(BOUND, self.child.wait()).await.unwrap().unwrap().code(), said)
    }

    fn interrupt(&self) {
        let pid = self
            .child
            .id()
            .and_then(|pid| Pid::from_raw(pid.try_into().ok()?))
            .unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> u16 {
        let mut request = Request::new("POST", &format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(body).send().await.status
    }
}

fn signing(secret: &str, url: &str) -> Installation {
    let mut installation = Installation::embedded();
    installation.append(&format!("[[endpoint]]\nurl = \"{url}/hook\"\nsecret = \"{secret}\""));
    let quick = json!({"retries_with_no_delay": 5, "minimum_delay": 1, "maximum_delay": 1});
    installation.set("delivery", "retry_policy", quick);
    installation
}

async fn publish(installation: &Installation, url: &str, id: &str, body: &str) {
    let url = format!("{url}/hook");
    let arguments = [
        "publish",
        "--execution",
        "run-1",
        "--url",
        &url,
        "--id",
        id,
        "--body-file",
        "-",
    ];
    let typed = ["--header", "content-type: application/json", "--header", "x-tenant: t1"];
    let all = [&arguments[..], &typed].concat();
    installation.run_with_input(&all, body.as_bytes()).await.expect_code(0);
}

#[tokio::test]
async fn what_a_daemon_delivers_is_shown_in_order_with_a_valid_signature() {
    let mut listening = Listening::start(&Installation::embedded(), &["--secret", SECRET, "--count", "3"]).await;
    let installation = signing(SECRET, &listening.url);
    for id in ["a", "b", "c.4711"] {
        publish(&installation, &listening.url, id, r#"{"z":1.50,"a":[1]}"#).await;
    }
    let mut daemon = installation.daemon().await;
    for (id, order, beside) in [
        ("a", "the first of it here", ""),
        ("b", "in order", ""),
        (
            "c.4711",
            "in order",
            "; the id has a full stop, and so the same signature may hold for a shorter id with another time and body",
        ),
    ] {
        let text = listening.text().await;
        assert!(
            text.contains("POST /hook at ") && text.contains(", answered 200\n"),
            "{text}"
        );
        assert!(text.contains(&format!("message    {id}, first time\n")), "{text}");
        assert!(text.contains(&format!(", {order} (epoch ")), "{text}");
        assert!(text.contains(&format!("signature  valid{beside}\n")), "{text}");
        assert!(text.contains("x-tenant: t1\n"), "{text}");
        // As it was written: not sorted, not rounded.
        assert!(text.contains("\n             \"z\": 1.50,\n"), "{text}");
    }
    let (code, said) = listening.ended().await;
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "3 requests, 3 messages; answered 200: 3\n")
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn the_first_attempts_of_each_message_fail_and_the_next_one_is_told_as_repeated() {
    let arguments = ["--json", "--fail", "2", "--secret", OTHER_SECRET];
    let mut listening = Listening::start(&Installation::embedded(), &arguments).await;
    let installation = signing(SECRET, &listening.url);
    for id in ["a", "b"] {
        publish(&installation, &listening.url, id, "{}").await;
    }
    let _daemon = installation.daemon().await;
    for (id, attempt, status, order) in [
        ("a", 1, 503, "first"),
        ("a", 2, 503, "again"),
        ("a", 3, 200, "again"),
        ("b", 1, 503, "next"),
        ("b", 2, 503, "again"),
        ("b", 3, 200, "again"),
    ] {
        let told = listening.object().await;
        assert_eq!((&told["id"], &told["attempt"]), (&json!(id), &json!(attempt)), "{told}");
        assert_eq!(
            (&told["status"], &told["order"]),
            (&json!(status), &json!(order)),
            "{told}"
        );
        assert_eq!(told["repeated"], attempt > 1, "{told}");
        assert_eq!((&told["in_order"], &told["body"]), (&json!(true), &json!({})), "{told}");
        assert_eq!(told["signature"], "invalid", "{told}");
        let why = told["signature_problem"].as_str().unwrap();
        assert!(why.contains("this secret"), "{why}");
    }
    listening.interrupt();
    let (code, said) = listening.ended().await;
    let summary = "6 requests, 2 messages, 4 repeated, 6 without a valid signature; answered 200: 2, 503: 4\n";
    assert_eq!((code, said.as_str()), (Some(0), summary));
}

#[tokio::test]
async fn a_script_says_what_is_answered_and_one_that_is_wrong_is_refused_with_its_line() {
    let installation = Installation::embedded();
    let script = installation.path("script");
    std::fs::write(&script, "503 x2\n201 1ms  # well\n").unwrap();
    let script = script.to_str().unwrap();
    let listening = Listening::start(&installation, &["--script", script, "--count", "4"]).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(listening.post("/", &[], b"").await);
    }
    assert_eq!(statuses, [503, 503, 201, 201]);
    let (code, said) = listening.ended().await;
    assert_eq!(
        (code, said.as_str()),
        (Some(0), "4 requests, 0 messages; answered 201: 2, 503: 2\n")
    );
    std::fs::write(script, "503 x2\nsoon\n").unwrap();
    let refused = installation
        .run(&["listen", "0", "--script", script])
        .await
        .expect_code(2);
    assert!(
        refused
            .stderr
            .contains("line 2: \"soon\" is no status; begin the line with a number"),
        "{refused:?}"
    );
    for arguments in [
        &["listen", "0", "--fail", "2", "--status", "204"][..],
        &["listen", "0", "--delay", "2"],
        &["listen", "0", "--secret", "hunter2"],
        &["listen", "0", "--script", script, "--status", "500"],
    ] {
        let refused = installation.run(arguments).await.expect_code(2);
        assert!(
            refused.stdout.is_empty() && !refused.stderr.contains("hunter2"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn nothing_of_a_hostile_request_acts_on_the_terminal_and_what_stands_out_of_order_is_said() {
    let mut listening = Listening::start(&Installation::embedded(), &["--secret", SECRET]).await;
    let place = |epoch, sequence| {
        [
            ("webhook-id", "m"),
            ("redrive-queue", "q"),
            ("redrive-epoch", epoch),
            ("redrive-sequence", sequence),
            ("authorization", "Bearer hunter2"),
        ]
    };
    let hostile = "\u{1b}[2J\u{202e}a\r\n\u{9b}31m{\"a\":\0}\n".repeat(20_000);
    assert_eq!(listening.post("/", &place("7", "2"), hostile.as_bytes()).await, 200);
    let text = listening.text().await;
    let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(
        !text.contains(acts) && text.contains("\\x1b[2J"),
        "{:?}",
        text.get(..500)
    );
    assert!(
        text.len() < 30_000 && text.contains("… and more"),
        "{} bytes are shown",
        text.len()
    );
    assert!(
        text.contains("authorization: ***") && !text.contains("hunter2"),
        "{:?}",
        text.get(..500)
    );
    assert!(
        text.contains("signature  absent; this URL has no secret"),
        "{:?}",
        text.get(..500)
    );
    listening.post("/", &place("7", "1"), &[0xff, 0x00]).await;
    let text = listening.text().await;
    assert!(text.contains("repeated (attempt 2) although it was accepted"), "{text}");
    assert!(
        text.contains("OUT OF ORDER: epoch 7, sequence 1 came after sequence 2"),
        "{text}"
    );
    listening.post("/", &place("6", "9"), b"").await;
    let text = listening.text().await;
    assert!(
        text.contains("came after epoch 7; a receiver refuses a lower epoch"),
        "{text}"
    );
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_with_what_to_do() {
    let installation = Installation::embedded();
    let listening = Listening::start(&installation, &[]).await;
    let port = listening.url.rsplit(':').next().unwrap();
    let refused = installation.run(&["listen", port]).await.expect_code(1);
    assert!(
        refused.stderr.contains("take another port, or 0 for a free one"),
        "{refused:?}"
    );
}
