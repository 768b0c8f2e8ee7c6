//! What happens, told while it happens: `attempts --follow` and the stream of the HTTP API.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::access::{BOUND, OPERATOR, READER, with_tokens};
use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::wait::{patient, wait_until};

/// Lines as they come.
struct Lines(mpsc::Receiver<String>);

impl Lines {
    fn of(source: impl std::io::Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    #[track_caller]
    fn next(&self) -> String {
        self.0.recv_timeout(patient(BOUND)).expect("a line")
    }

    /// The first line with this in it.
    #[track_caller]
    fn with(&self, part: &str) -> String {
        loop {
            let line = self.next();
            if line.contains(part) {
                return line;
            }
        }
    }
}

fn interrupted(mut child: Child) -> Option<i32> {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap().code()
}

async fn publish(daemon: &Daemon, execution: &str, url: &str) -> String {
    let notification = json!({"execution_id": execution, "url": url});
    let answer = daemon.post("/v1/notifications", &notification).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_are_followed_with_a_filter_while_they_are_made() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let receiver = Receiver::start().await;
    let hook = receiver.url("/hook");
    let first = publish(&daemon, "before", &hook).await;
    wait_until("the first attempt", BOUND, async || {
        let listed = installation.run(&["attempts", "--json"]).await.expect_code(0).json();
        (!listed.as_array().unwrap().is_empty()).then_some(())
    })
    .await;

    let mut command = installation.program(&["attempts", "--follow", "--json"]);
    let mut all = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(all.stdout.take().unwrap());
    let before: Value = serde_json::from_str(&lines.next()).unwrap();
    assert_eq!(
        (&before["message_id"], &before["class"]),
        (&json!(first), &json!("delivered"))
    );

    let columns = "message,outcome,started_at";
    let follow = [
        "attempts",
        "--follow",
        "--filter",
        "outcome = failed",
        "--no-headers",
        "--columns",
        columns,
    ];
    let mut command = installation.program(&follow);
    let mut failed = command.stdout(Stdio::piped()).spawn().unwrap();
    let failures = Lines::of(failed.stdout.take().unwrap());

    let second = publish(&daemon, "after", &hook).await;
    let after: Value = serde_json::from_str(&lines.with(&second)).unwrap();
    assert_eq!((&after["class"], &after["status"]), (&json!("delivered"), &json!(200)));
    let third = publish(&daemon, "nobody", "http://127.0.0.1:9/hook").await;
    // The one that was delivered does not fit, and is not before it.
    let failure = failures.next();
    assert!(failure.contains(&third) && failure.contains("failed"), "{failure}");
    assert!(failure.trim_end().ends_with('Z'), "{failure}");

    assert_eq!((interrupted(all), interrupted(failed)), (Some(0), Some(0)));
    let wrong = installation.run(&["attempts", "--filter", "outcom = failed"]).await;
    let told = wrong.expect_code(2).stderr;
    assert!(
        told.contains("filter: ") && told.contains("did you mean outcome?"),
        "{told}"
    );
    assert_eq!(told.matches("did you mean").count(), 1, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_attempts_takes_a_filter_in_the_command_and_over_http() {
    let installation = Installation::embedded();
    let daemon = installation.daemon().await;
    let receiver = Receiver::start().await;
    let delivered = publish(&daemon, "a", &receiver.url("/hook")).await;
    publish(&daemon, "b", "http://127.0.0.1:9/hook").await;
    wait_until("both attempts", BOUND, async || {
        let attempts = daemon.get("/v1/attempts").await.json();
        let text = attempts.to_string();
        (text.contains("\"delivered\"") && text.contains("\"failed\"")).then_some(())
    })
    .await;
    let listed = installation
        .run(&["attempts", "--json", "--filter", "status < 300"])
        .await;
    let listed = listed.expect_code(0).json();
    assert_eq!(
        (listed.as_array().unwrap().len(), &listed[0]["message_id"]),
        (1, &json!(delivered))
    );
    let answer = daemon.get("/v1/attempts?filter=status%20%3C%20300").await.json();
    assert_eq!(answer["items"], listed);
    assert_eq!(daemon.get("/v1/attempts?filter=stat%20%3D%201").await.status, 400);
}

/// A stream of the daemon, behind the head of its answer.
fn stream(daemon: &Daemon, token: &str, query: &str) -> Lines {
    let mut stream = TcpStream::connect(daemon.api.trim_start_matches("http://")).unwrap();
    let request =
        format!("GET /v1/events/stream{query} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let lines = Lines::of(stream);
    let head = lines.next();
    assert!(head.contains(" 200 "), "{head}");
    lines.with("text/event-stream");
    // The first beat says that everything from now on is told.
    while lines.next() != ":" {}
    lines
}

/// The next event of this kind.
fn told(lines: &Lines, kind: &str) -> Value {
    lines.with(&format!("event: {kind}"));
    let data = lines.next();
    serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_tells_what_is_chosen_of_it_and_hides_what_a_reader_may_not_see() {
    let mut installation = Installation::embedded();
    with_tokens(&mut installation);
    let mut daemon = installation.daemon().await;
    let everything = stream(&daemon, OPERATOR, "");
    let masked = stream(&daemon, READER, "?kind=attempt,endpoint");
    let filtered = stream(&daemon, READER, "?filter=status%20%3D%20503");
    // The first of them has what he does not see, and so he is not told of it by a guess.
    let guessed = stream(
        &daemon,
        READER,
        "?filter=url%20~%20%22hunter2%22%20or%20status%20%3D%20503",
    );
    daemon.token = Some(crate::access::ADMIN.to_owned());
    let id = publish(&daemon, "a", "http://127.0.0.1:9/hook?token=hunter2").await;

    let seen = told(&everything, "attempt");
    assert_eq!((&seen["message_id"], &seen["class"]), (&json!(id), &json!("failed")));
    assert!(seen["url"].as_str().unwrap().contains("hunter2"));
    let endpoint = told(&everything, "endpoint");
    assert_eq!(endpoint["state"], "unavailable");
    let hidden = told(&masked, "attempt");
    assert_eq!(hidden["message_id"], json!(id));
    assert!(!hidden.to_string().contains("hunter2"), "{hidden}");

    let receiver = Receiver::start().await;
    let busy = Behaviour::Answer {
        status: 503,
        headers: Vec::new(),
        body: b"{\"api_key\":\"hunter2\"}".to_vec(),
    };
    receiver.behave("*", busy);
    let refused = publish(&daemon, "b", &receiver.url("/hook")).await;
    let only = told(&filtered, "attempt");
    assert_eq!((&only["message_id"], &only["status"]), (&json!(refused), &json!(503)));
    assert!(!only.to_string().contains("hunter2"), "{only}");
    assert_eq!(told(&guessed, "attempt")["message_id"], json!(refused));
    // Who is shown the answer whole is in the audit before he sees it, once for his stream.
    let reveals = async |daemon: &Daemon| {
        let audit = daemon.get("/v1/audit?limit=1000").await.json();
        let lines = audit["items"].as_array().unwrap().iter();
        lines.filter(|line| line["target"] == "GET /v1/events/stream").count()
    };
    let whole = everything.with("\\\"api_key\\\"");
    assert!(whole.contains("hunter2"), "{whole}");
    assert_eq!(reveals(&daemon).await, 1);
    publish(&daemon, "c", &receiver.url("/another")).await;
    everything.with("\\\"api_key\\\"");
    assert_eq!(reveals(&daemon).await, 1);

    daemon.token = Some(READER.to_owned());
    let wrong = daemon.get("/v1/events/stream?kind=attempts").await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("attempt, endpoint"), "{}", wrong.text());
    daemon.token = Some(crate::access::ADMIN.to_owned());
    assert_eq!(daemon.stop().await, Some(0), "a stream does not hold the end up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_leaves_everything_out_says_that_it_is_there() {
    let mut installation = Installation::embedded();
    with_tokens(&mut installation);
    let mut daemon = installation.daemon().await;
    daemon.token = Some(crate::access::ADMIN.to_owned());
    let receiver = Receiver::start().await;
    let hook = receiver.url("/hook");
    let lines = stream(&daemon, READER, "?filter=status%20%3D%20599");
    // What it leaves out comes more often than beats do.
    wait_until("a second beat", BOUND, async || {
        publish(&daemon, "a", &hook).await;
        lines.0.try_iter().any(|line| line == ":").then_some(())
    })
    .await;
}
