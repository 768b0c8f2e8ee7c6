//! What a daemon has of messages in memory stays within its budget, whoever hangs, and small ones go on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::daemon::{Daemon, Installation};
use crate::support::receiver::Receiver;
use crate::support::servers::Vhost;
use crate::support::wait::{at_moment, wait_until};

const BOUND: Duration = Duration::from_mins(2);
const MIB: usize = 1024 * 1024;
const LARGE: usize = 40;
const LARGE_BYTES: usize = 15 * MIB;
const MEMORY_MIB: u64 = 64;
/// A program without a budget has 600 MiB of messages in hand here, and copies. One with it has them for no more than
/// 64 MiB, as often copied, beside what it needs for itself, which is much without optimisation.
const MOST_MIB: u64 = 550;

/// Takes connections, reads who is asked for and nothing more, and never answers.
struct Silent {
    base: String,
    asked: Arc<Mutex<HashSet<String>>>,
}

impl Silent {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<HashSet<String>>>::default();
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                tokio::spawn(async move {
                    let mut begin = [0; 64];
                    let read = stream.read(&mut begin).await.unwrap_or(0);
                    let text = String::from_utf8_lossy(&begin[..read]).into_owned();
                    let path = text.split_whitespace().nth(1).unwrap_or_default();
                    noted.lock().unwrap().insert(path.to_owned());
                    // What else comes is left where it is, longer than anybody waits for an answer.
                    at_moment(Duration::from_secs(30)).await;
                    drop(stream);
                });
            }
        });
        Self { base, asked }
    }
}

/// The answer to a publish that is repeated while there is no memory for its body.
async fn publish(daemon: &Daemon, execution: &str, url: &str, body: &str) {
    let request = json!({"execution_id": execution, "url": url, "body": body});
    wait_until(format!("a publish of {execution}"), BOUND, async || {
        let answer = daemon.post("/v1/notifications", &request).await;
        assert!(matches!(answer.status, 202 | 503), "{}", answer.text());
        (answer.status == 202).then_some(())
    })
    .await;
}

async fn check(mut installation: Installation) {
    installation.set("delivery", "memory_mib", MEMORY_MIB);
    installation.set("delivery", "timeout_s", 1);
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
    installation.set("delivery", "retry_policy", policy);
    let (silent, living) = (Silent::start().await, Receiver::start().await);
    let mut daemon = installation.daemon().await;
    let body = "x".repeat(LARGE_BYTES);
    let large = async {
        for number in 0..LARGE {
            publish(
                &daemon,
                &format!("large-{number}"),
                &format!("{}/{number}", silent.base),
                &body,
            )
            .await;
        }
        let all = || silent.asked.lock().unwrap().len() >= LARGE;
        wait_until("an attempt of each large one", BOUND, async || all().then_some(())).await;
    };
    let small = async {
        for number in 0..LARGE {
            publish(&daemon, &format!("small-{number}"), &living.url("/hook"), "small").await;
            let came = || living.delivered() > number;
            wait_until("a small one beside the large ones", BOUND / 4, async || {
                came().then_some(())
            })
            .await;
        }
    };
    tokio::join!(large, small);
    let most = daemon.resident_memory_most() / (1024 * 1024);
    assert!(most < MOST_MIB, "{most} MiB resident at the most");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_to_receivers_that_hang_stay_within_the_budget_embedded() {
    check(Installation::embedded()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_to_receivers_that_hang_stay_within_the_budget_on_rabbitmq() {
    let vhost = Vhost::create().await;
    check(Installation::on_rabbit(&vhost)).await;
}

/// Who reads nothing of a large answer takes the memory of other large ones for a while, and of nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn large_answers_that_nobody_reads_stay_within_the_budget_and_small_ones_come() {
    let mut installation = Installation::embedded();
    installation.set("delivery", "memory_mib", 32);
    let mut daemon = installation.daemon().await;
    let made = daemon.request("PUT", "/v1/types/t").json(&json!({})).send().await;
    assert_eq!(made.status, 200, "{}", made.text());
    for number in 0..8 {
        let event = json!({"reference": number.to_string(), "payload": "x".repeat(MIB - 100)});
        let pushed = daemon.post("/v1/types/t/events", &event).await;
        assert!(pushed.status < 300, "{}", pushed.text());
    }
    let list = "/v1/types/t/events?limit=100";
    let mut unread = TcpStream::connect(daemon.api.trim_start_matches("http://"))
        .await
        .unwrap();
    let token = daemon.token.clone().unwrap();
    let request = format!("GET {list} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n");
    unread.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    unread.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    let refused = daemon.get(list).await;
    assert_eq!(refused.status, 503);
    assert!(
        refused.text().contains("in memory: repeat after a moment"),
        "{}",
        refused.text()
    );
    assert_eq!(daemon.get("/v1/queues").await.status, 200);
    drop(unread);
    wait_until("a large answer again", BOUND, async || {
        (daemon.get(list).await.status == 200).then_some(())
    })
    .await;
    daemon.stop().await;
}
