//! Who may use the API of a running daemon, and how long he may take: tokens and their scopes, sockets, certificates,
//! and clients that say nothing, speak slowly or do not listen.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::certificates::Authority;
use crate::support::daemon::{Daemon, Installation, free_port};
use crate::support::http::{Answer, Request};
use crate::support::receiver::Receiver;
use crate::support::wait::{patient, wait_until, within};

/// Nothing listens there: a notification stays where it can be looked at.
const DEAD_URL: &str = "http://127.0.0.1:9/hook";
pub const BOUND: Duration = Duration::from_mins(1);

pub const READER: &str = "the-reader-has-this-token";
const PUBLISHER: &str = "the-publisher-has-this-token";
const TENANT: &str = "the-tenant-has-this-token";
pub const OPERATOR: &str = "the-operator-has-this-token";
pub const ADMIN: &str = "the-admin-has-this-token-";

fn embedded() -> Installation {
    let mut installation = Installation::embedded();
    with_tokens(&mut installation);
    installation
}

/// A token for each scope, and failures that wait long.
pub fn with_tokens(installation: &mut Installation) {
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
    installation.set("delivery", "retry_policy", policy);
    let tokens = json!([
        {"value": READER, "scopes": ["read"]},
        {"value": PUBLISHER, "scopes": ["publish"]},
        {"value": TENANT, "scopes": ["publish"], "prefix": "tenant-1:"},
        {"value": OPERATOR, "scopes": ["operate"]},
        ADMIN,
    ]);
    installation.set("api", "tokens", tokens);
}

fn refused(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    answer.json()["detail"].as_str().unwrap().to_owned()
}

/// What a token is answered: a method, a path, a body.
pub async fn ask(daemon: &mut Daemon, token: &str, (method, path, body): (&str, &str, Option<Value>)) -> Answer {
    daemon.token = Some(token.to_owned());
    let request = daemon.request(method, path);
    match body {
        Some(body) => request.json(&body).send().await,
        None => request.send().await,
    }
}

fn notification(execution: &str) -> Value {
    json!({"execution_id": execution, "url": DEAD_URL})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_may_do_what_its_scopes_say_and_nothing_else() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    let daemon = &mut daemon;
    let publish = |execution| ("POST", "/v1/notifications", Some(notification(execution)));
    let redeliver = || ("POST", "/v1/redeliver", Some(json!({"all": true})));
    let policy = || ("PUT", "/v1/policies?default=true", Some(json!({"policy": {}})));
    for (token, statuses) in [
        (READER, [200, 403, 403, 403]),
        (PUBLISHER, [403, 202, 403, 403]),
        (TENANT, [403, 403, 403, 403]),
        (OPERATOR, [200, 403, 200, 403]),
    ] {
        let asked = [("GET", "/v1/queues", None), publish("run"), redeliver(), policy()];
        for (what, status) in asked.into_iter().zip(statuses) {
            let path = what.1;
            let mut answer = ask(daemon, token, what.clone()).await;
            // What was published meanwhile fails, and makes a plan for all of it stale.
            for _ in 0..5 {
                if answer.status == 409 {
                    answer = ask(daemon, token, what.clone()).await;
                }
            }
            assert_eq!(answer.status, status, "{token} {path}: {}", answer.text());
        }
    }
    assert_eq!(ask(daemon, TENANT, publish("tenant-1:run")).await.status, 202);
    let why = refused(&ask(daemon, TENANT, publish("tenant-10")).await, 403);
    assert!(why.contains("tenant-1:"), "{why}");
    let end = |execution| {
        let path = if execution == "run" {
            "/v1/executions/run/end"
        } else {
            "/v1/executions/tenant-1:run/end"
        };
        ("POST", path, Some(json!({"url": DEAD_URL})))
    };
    assert_eq!(ask(daemon, TENANT, end("run")).await.status, 403);
    assert_eq!(ask(daemon, TENANT, end("tenant-1:run")).await.status, 202);
    for what in [("GET", "/v1/queues", None), publish("run"), redeliver()] {
        let answer = ask(daemon, ADMIN, what).await;
        assert!(answer.status < 300, "{}", answer.text());
    }
    let why = refused(&ask(daemon, READER, redeliver()).await, 403);
    assert!(why.contains("operate"), "{why}");
    // What would be done may be looked at.
    let plan = ("POST", "/v1/redeliver?dry_run=true", Some(json!({"all": true})));
    assert_eq!(ask(daemon, READER, plan).await.status, 200);
}

/// The routes are public: a mistake in one is no matter of scopes.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_no_route_is_told_that_and_who_has_no_token_is_not() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    for (method, path, status) in [
        ("POST", "/v1/notification", 404),
        ("POST", "/v1/notifications/", 404),
        ("POST", "/v1/types/hook/event", 404),
        ("PUT", "/v1/notifications", 405),
        ("GET", "/v1/notifications", 405),
    ] {
        let body = (method != "GET").then(|| notification("run"));
        refused(&ask(&mut daemon, PUBLISHER, (method, path, body.clone())).await, status);
        refused(
            &ask(&mut daemon, "a-token-that-is-unknown", (method, path, body)).await,
            401,
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_only_life_and_readiness_are_told_and_no_reason() {
    let installation = embedded();
    let daemon = installation.daemon().await;
    assert_eq!(daemon.get("/healthz").await.status, 200);
    assert_eq!(daemon.get("/readyz").await.json(), json!({"ready": true}));
    for path in ["/v1/queues", "/metrics", "/openapi.json", "/v1/nothing"] {
        let answer = daemon.get(path).await;
        refused(&answer, 401);
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer"), "{challenge}");
    }
    let full = daemon
        .request("GET", "/readyz")
        .header("authorization", &format!("Bearer {READER}"));
    assert_eq!(full.send().await.json()["broker"]["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_configured_tokens_one_is_made_for_this_user_alone() {
    let installation = Installation::embedded();
    let none = installation.run(&["token"]).await.expect_code(4);
    assert!(none.stderr.contains("--daemon"), "{none:?}");
    let mut daemon = installation.daemon().await;
    let file = installation.path("redrive/api-token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let token = installation
        .run(&["token"])
        .await
        .expect_code(0)
        .stdout
        .trim()
        .to_owned();
    assert!(token.len() >= 24, "{token}");
    let open = Request::new("GET", &format!("{}/v1/queues", daemon.api)).send().await;
    let why = refused(&open, 401);
    assert!(why.contains("redrive token"), "{why}");
    assert_eq!(ask(&mut daemon, &token, ("GET", "/v1/queues", None)).await.status, 200);
    assert_eq!(
        ask(
            &mut daemon,
            &token,
            ("POST", "/v1/notifications", Some(notification("e")))
        )
        .await
        .status,
        202
    );
    daemon.stop().await;
    drop(daemon);
    let again = installation.daemon().await;
    assert_eq!(installation.run(&["token"]).await.expect_code(0).stdout.trim(), token);
    drop(again);
    // Others could read it: it is no secret any more.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut refuses = installation.spawn_daemon();
    assert_eq!(refuses.wait().await.code(), Some(78), "{}", refuses.log());
    assert!(refuses.log().contains("api-token"), "{}", refuses.log());
}

/// Ends with this value.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_demo_is_open_to_whoever_started_it_alone() {
    let installation = Installation::embedded();
    let mut command = installation.program(&["--demo", "--daemon"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Started(command.spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stderr.take().unwrap()).lines();
    let told = tokio::task::spawn_blocking(move || {
        let told = lines.find_map(|line| line.ok().filter(|line| line.contains("curl ")));
        (told, lines)
    });
    let (told, _lines) = within(BOUND, told).await.expect("how it is asked").unwrap();
    let told = told.expect("how it is asked");
    let part = |begin: &str, end: char| {
        let (_, rest) = told.split_once(begin).unwrap();
        rest.split(end).next().unwrap().to_owned()
    };
    let (header, url) = (
        part("'Authorization: ", '\''),
        format!("http://{}", part("http://", ' ')),
    );
    assert_eq!(Request::new("GET", &url).send().await.status, 401, "{told}");
    wait_until("the demo", BOUND, async || {
        let answer = Request::new("GET", &url).header("authorization", &header).send().await;
        (answer.status == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_guessed_at_a_few_a_second_and_who_has_the_right_one_is_not_held_up() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    assert_eq!(ask(&mut daemon, READER, ("GET", "/v1/queues", None)).await.status, 200);
    let begun = Instant::now();
    let guesses = (0..200).map(|number| {
        let request = Request::new("GET", &format!("{}/v1/queues", daemon.api));
        request
            .header("authorization", &format!("Bearer a-guess-of-24-characters-{number}"))
            .send()
    });
    let statuses: Vec<u16> = futures_util::future::join_all(guesses)
        .await
        .iter()
        .map(|answer| answer.status)
        .collect();
    let looked_at = statuses.iter().filter(|status| **status == 401).count();
    let most = 10 + usize::try_from(begun.elapsed().as_secs() + 1).unwrap() * 4;
    assert!(
        (1..=most).contains(&looked_at),
        "{looked_at} of 200 in {:?}",
        begun.elapsed()
    );
    assert!(
        statuses.iter().all(|status| matches!(status, 401 | 429)),
        "{statuses:?}"
    );
    // Another right one is not found out by it, and the one of before works.
    assert_eq!(
        ask(&mut daemon, OPERATOR, ("GET", "/v1/queues", None)).await.status,
        429
    );
    assert_eq!(ask(&mut daemon, READER, ("GET", "/v1/queues", None)).await.status, 200);
    assert!(daemon.log().contains("wrong token"), "{}", daemon.log());
    let audit = installation.run(&["audit", "--json"]).await.expect_code(0).json();
    let logins: Vec<&Value> = audit
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["command"] == "login")
        .collect();
    assert!((1..=3).contains(&logins.len()), "{audit}");
    assert_eq!(
        (&logins[0]["target"], &logins[0]["result"]),
        (&json!("127.0.0.1"), &json!("refused"))
    );
}

/// A connection with the beginning of a request.
fn begins(daemon: &Daemon, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.api.trim_start_matches("http://")).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn post(token: &str, length: usize) -> String {
    format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// What the server says until it closes; panics when it does not within the bound.
fn rest(mut stream: &TcpStream, bound: Duration) -> String {
    stream.set_read_timeout(Some(patient(bound))).unwrap();
    let mut said = Vec::new();
    let ended = stream.read_to_end(&mut said);
    let reset = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionReset;
    assert!(ended.as_ref().err().is_none_or(reset), "still open: {ended:?}");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_may_not_publish_is_told_before_his_body_comes() {
    let installation = embedded();
    let daemon = installation.daemon().await;
    let mut stream = begins(&daemon, &post(READER, 20_000_000));
    stream.set_read_timeout(Some(patient(Duration::from_secs(5)))).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 403");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bodies_that_come_slowly_hold_nobody_up_and_are_given_up() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    // Together they announce more than all bodies may have.
    let slow: Vec<_> = (0..8)
        .map(|_| begins(&daemon, &(post(PUBLISHER, 24_000_000) + "{")))
        .collect();
    let begun = Instant::now();
    let published = ask(
        &mut daemon,
        PUBLISHER,
        ("POST", "/v1/notifications", Some(notification("e"))),
    )
    .await;
    assert_eq!(published.status, 202, "{}", published.text());
    assert!(
        begun.elapsed() < patient(Duration::from_secs(5)),
        "{:?}",
        begun.elapsed()
    );
    let said = tokio::task::spawn_blocking(move || {
        slow.iter()
            .map(|stream| rest(stream, Duration::from_secs(25)))
            .collect::<Vec<_>>()
    });
    for said in said.await.unwrap() {
        assert!(
            said.starts_with("HTTP/1.1 408") && said.contains("too slowly"),
            "{said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_sent_much_of_a_body_at_once_may_not_rest_the_longer_for_it() {
    let installation = embedded();
    let daemon = installation.daemon().await;
    let mut stream = begins(&daemon, &post(PUBLISHER, 24_000_000));
    let sent = tokio::task::spawn_blocking(move || {
        stream.write_all(&vec![b' '; 23_000_000]).unwrap();
        rest(&stream, Duration::from_secs(30))
    });
    let said = sent.await.unwrap();
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_messages_may_be_large() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    let large = || "x".repeat(2_000_000);
    let notification = json!({"execution_id": "e", "url": DEAD_URL, "body": large()});
    let published = ask(&mut daemon, ADMIN, ("POST", "/v1/notifications", Some(notification))).await;
    assert_eq!(published.status, 202, "{}", published.text());
    for (method, path) in [
        ("POST", "/v1/redeliver"),
        ("PUT", "/v1/types/t"),
        ("PUT", "/v1/policies"),
    ] {
        let answer = ask(&mut daemon, ADMIN, (method, path, Some(json!({"url": large()})))).await;
        assert_eq!(answer.status, 413, "{path}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_who_say_nothing_keep_nobody_out() {
    let mut installation = embedded();
    installation.set("api", "connections_per_address", 20);
    let mut daemon = installation.daemon().await;
    let silent: Vec<_> = (0..100)
        .map(|_| begins(&daemon, "GET /healthz HTTP/1.1\r\nhost: local"))
        .collect();
    for _ in 0..5 {
        let begun = Instant::now();
        assert_eq!(daemon.get("/healthz").await.status, 200);
        assert_eq!(ask(&mut daemon, READER, ("GET", "/v1/queues", None)).await.status, 200);
        assert!(
            begun.elapsed() < patient(Duration::from_secs(3)),
            "{:?}",
            begun.elapsed()
        );
    }
    let closed =
        tokio::task::spawn_blocking(move || silent.iter().for_each(|one| drop(rest(one, Duration::from_secs(20)))));
    closed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_takes_no_answer_is_closed() {
    let installation = embedded();
    let daemon = installation.daemon().await;
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {READER}\r\n\r\n");
    let asked = tokio::task::spawn_blocking({
        let mut stream = begins(&daemon, "");
        move || {
            stream.set_write_timeout(Some(patient(BOUND))).unwrap();
            // More answers than both ends keep, and none is read: at last nothing more is taken, or it is closed.
            let begun = Instant::now();
            loop {
                if let Err(error) = stream.write_all(request.repeat(100).as_bytes()) {
                    return (error.kind(), begun.elapsed());
                }
            }
        }
    });
    let (error, after) = asked.await.unwrap();
    assert!(
        matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{error:?} after {after:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_has_a_door_of_its_own() {
    let mut installation = embedded();
    let probe = format!("127.0.0.1:{}", free_port());
    installation.set("api", "probe", probe.as_str());
    let mut daemon = installation.daemon().await;
    let get = async |path: &str| Request::new("GET", &format!("http://{probe}{path}")).send().await;
    assert_eq!(get("/healthz").await.status, 200);
    assert_eq!(get("/readyz").await.json(), json!({"ready": true}));
    for path in ["/metrics", "/v1/queues", "/openapi.json"] {
        assert_eq!(get(path).await.status, 404, "{path}");
    }
    daemon.kill().await;
    installation.set("api", "probe_metrics", true);
    let _daemon = installation.daemon().await;
    assert!(get("/metrics").await.text().contains("redrive_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_this_user_needs_no_token() {
    let mut installation = embedded();
    let path = installation.path("api.sock");
    installation.set("api", "unix", path.to_str().unwrap());
    let ask = {
        let path = path.clone();
        move || {
            let mut stream = UnixStream::connect(&path).unwrap();
            let request = b"GET /v1/queues HTTP/1.0\r\nhost: localhost\r\n\r\n";
            stream.write_all(request).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        }
    };
    for _ in 0..2 {
        let mut daemon = installation.daemon().await;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let said = tokio::task::spawn_blocking(ask.clone()).await.unwrap();
        assert!(said.starts_with("HTTP/1.0 200"), "{said}");
        let mut second = installation.spawn_daemon();
        assert_eq!(second.wait().await.code(), Some(1), "{}", second.log());
        // What it leaves is in nobody's way.
        daemon.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_proves_who_it_is_and_follows_a_new_certificate() {
    let (first, second) = (Authority::create(), Authority::create());
    let mut installation = embedded();
    let (certificate, key) = (installation.path("cert.pem"), installation.path("key.pem"));
    let put = |from: &Authority| {
        for (name, to) in [("cert.pem", &certificate), ("key.pem", &key)] {
            std::fs::copy(from.directory().join(name), to).unwrap();
        }
    };
    put(&first);
    let files = json!({"certificate": certificate.to_str().unwrap(), "key": key.to_str().unwrap()});
    installation.set("api", "tls", files);
    let daemon = installation.spawn_daemon();
    let url = daemon.api.replace("http://", "https://") + "/healthz";
    let _ = rustls::crypto::ring::default_provider().install_default();
    let asks = async |authority: &Authority| {
        let root = std::fs::read(authority.root()).unwrap();
        let root = reqwest::Certificate::from_pem(&root).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
        client.get(&url).send().await.is_ok_and(|answer| answer.status() == 200)
    };
    wait_until("the first certificate", BOUND, async || {
        asks(&first).await.then_some(())
    })
    .await;
    assert!(!asks(&second).await);
    put(&second);
    wait_until("the second certificate", BOUND, async || {
        asks(&second).await.then_some(())
    })
    .await;
    assert!(!asks(&first).await);
    std::fs::write(&certificate, "no certificate").unwrap();
    wait_until("what is wrong with the third", BOUND, async || {
        let _ = asks(&second).await;
        daemon
            .log()
            .contains("continues with the previous certificate")
            .then_some(())
    })
    .await;
    assert!(asks(&second).await, "the one of before is still good");
}

/// A tenant's token with quotas; nothing that it publishes is ever delivered.
async fn of_a_tenant(quota: Value) -> (Installation, Daemon) {
    let mut installation = Installation::embedded();
    let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
    installation.set("delivery", "retry_policy", policy);
    let mut tenant = json!({"value": TENANT, "scopes": ["publish"], "prefix": "tenant-1:"});
    tenant
        .as_object_mut()
        .unwrap()
        .extend(quota.as_object().unwrap().clone());
    installation.set("api", "tokens", json!([tenant, ADMIN]));
    let daemon = installation.daemon().await;
    (installation, daemon)
}

async fn publishes(daemon: &mut Daemon, token: &str, execution: &str, body: &str) -> Answer {
    let mut notification = notification(execution);
    notification["body"] = body.into();
    ask(daemon, token, ("POST", "/v1/notifications", Some(notification))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_no_more_queues_and_bytes_than_its_quota() {
    let (installation, mut daemon) = of_a_tenant(json!({"queues": 3, "bytes_waiting": 12_000})).await;
    let daemon = &mut daemon;
    // What others have there is not the tenant's.
    for execution in ["a", "b", "c", "d"] {
        assert_eq!(
            publishes(daemon, ADMIN, execution, &"x".repeat(9_000)).await.status,
            202
        );
    }
    for execution in ["tenant-1:a", "tenant-1:b", "tenant-1:c", "tenant-1:a"] {
        assert_eq!(publishes(daemon, TENANT, execution, "x").await.status, 202);
    }
    let answer = publishes(daemon, TENANT, "tenant-1:d", "x").await;
    let why = refused(&answer, 429);
    assert!(why.contains("3 queues") && why.contains("token-1"), "{why}");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(
        publishes(daemon, TENANT, "tenant-1:b", &"x".repeat(9_000)).await.status,
        202
    );
    let why = refused(&publishes(daemon, TENANT, "tenant-1:b", &"x".repeat(2_000)).await, 429);
    assert!(why.contains("12,000 bytes"), "{why}");
    assert_eq!(
        publishes(daemon, ADMIN, "tenant-1:d", "x").await.status,
        202,
        "others have no quota"
    );
    // What a daemon published before it ended counts too.
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    *daemon = installation.daemon().await;
    let why = refused(&publishes(daemon, TENANT, "tenant-1:b", &"x".repeat(2_000)).await, 429);
    assert!(why.contains("12,000 bytes"), "{why}");
    // What is no longer there is free again.
    daemon.token = Some(ADMIN.to_owned());
    let queues = daemon.get("/v1/queues").await.json();
    let queues = queues["items"].as_array().unwrap();
    for queue in queues.iter().filter(|queue| queue["kind"] == "delivery") {
        let purged = daemon
            .post(
                &format!("/v1/queues/{}/purge", queue["name"].as_str().unwrap()),
                &json!({}),
            )
            .await;
        assert!(purged.status < 300, "{}", purged.text());
    }
    wait_until("bytes to be free", BOUND, async || {
        let answer = publishes(daemon, TENANT, "tenant-1:b", &"x".repeat(2_000)).await;
        (answer.status == 202).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_not_pass_its_quota_by_with_empty_bodies_and_end_marks() {
    let (_at, mut daemon) = of_a_tenant(json!({"bytes_waiting": 10_000})).await;
    let daemon = &mut daemon;
    assert_eq!(publishes(daemon, TENANT, "tenant-1:a", "").await.status, 202);
    let mark = || ("POST", "/v1/executions/tenant-1:a/end", Some(json!({"url": DEAD_URL})));
    let mut marks = 0;
    wait_until("a refusal", BOUND, async || {
        let answer = ask(daemon, TENANT, mark()).await;
        marks += u64::from(answer.status == 202);
        (answer.status == 429).then_some(())
    })
    .await;
    assert!(marks <= 10_000 / 512, "{marks}");
    let why = refused(&publishes(daemon, TENANT, "tenant-1:a", "").await, 429);
    assert!(why.contains("10,000 bytes"), "{why}");
    assert_eq!(ask(daemon, ADMIN, mark()).await.status, 202, "others have no quota");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_not_pass_its_quota_by_with_headers() {
    let (_at, mut daemon) = of_a_tenant(json!({"bytes_waiting": 10_000})).await;
    let with_header = |bytes: usize| {
        let headers = json!({"x-long": "x".repeat(bytes)});
        let new = json!({"execution_id": "tenant-1:a", "url": DEAD_URL, "body": "", "headers": headers});
        ("POST", "/v1/notifications", Some(new))
    };
    assert_eq!(ask(&mut daemon, TENANT, with_header(5_000)).await.status, 202);
    refused(&ask(&mut daemon, TENANT, with_header(5_000)).await, 429);
}

/// An event is sent to as many queues as there are subscriptions: no quota of queues and bytes would hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_not_pass_its_quota_by_with_events() {
    const OTHER: &str = "the-other-tenant-has-this-token";
    let mut installation = embedded();
    let tokens = json!([
        {"value": TENANT, "scopes": ["publish"], "bytes_waiting": 1000},
        {"value": OTHER, "scopes": ["publish"], "publishes_per_second": 2},
        ADMIN,
    ]);
    installation.set("api", "tokens", tokens);
    let mut daemon = installation.daemon().await;
    let push = |payload: usize| {
        let event = json!({"reference": "r", "payload": "x".repeat(payload), "nbf": "2099-01-01T00:00:00Z"});
        ("POST", "/v1/types/t/events", Some(event))
    };
    let why = refused(&ask(&mut daemon, TENANT, push(10_000)).await, 403);
    assert!(why.contains("bytes_waiting") && why.contains("token-1"), "{why}");
    assert_eq!(ask(&mut daemon, OTHER, push(10_000)).await.status, 201);
    let events = json!({"events": [{"reference": "a"}, {"reference": "b"}, {"reference": "c"}]});
    let many = ("POST", "/v1/types/t/events", Some(events));
    refused(&ask(&mut daemon, OTHER, many).await, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_names_a_token_by_its_name_wherever_it_stands_in_the_list() {
    let mut installation = embedded();
    let named = || json!({"value": OPERATOR, "scopes": ["operate"], "name": "billing"});
    for tokens in [json!([named(), ADMIN]), json!([ADMIN, named()])] {
        installation.set("api", "tokens", tokens);
        let mut daemon = installation.daemon().await;
        let redeliver = ("POST", "/v1/redeliver", Some(json!({"all": true})));
        assert_eq!(ask(&mut daemon, OPERATOR, redeliver).await.status, 200);
        assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
    }
    let audit = installation.run(&["audit", "--json"]).await.expect_code(0).json();
    let lines = audit.as_array().unwrap();
    assert!(
        lines.len() == 4 && lines.iter().all(|line| line["actor"] == "api:billing"),
        "{audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_publishes_no_more_a_second_than_its_quota() {
    let (_at, mut daemon) = of_a_tenant(json!({"publishes_per_second": 2})).await;
    let daemon = &mut daemon;
    let begun = Instant::now();
    let mut accepted = 0;
    wait_until("a refusal", BOUND, async || {
        let answer = publishes(daemon, TENANT, "tenant-1:a", "x").await;
        accepted += u64::from(answer.status == 202);
        (answer.status == 429).then_some(())
    })
    .await;
    let most = 2 * (begun.elapsed().as_secs() + 1);
    assert!((2..=most).contains(&accepted), "{accepted} of {most}");
    wait_until("a refusal of an end mark", BOUND, async || {
        let mark = ("POST", "/v1/executions/tenant-1:a/end", Some(json!({"url": DEAD_URL})));
        (ask(daemon, TENANT, mark).await.status == 429).then_some(())
    })
    .await;
    assert_eq!(publishes(daemon, ADMIN, "tenant-1:a", "x").await.status, 202);
    wait_until("the next second", BOUND, async || {
        (publishes(daemon, TENANT, "tenant-1:a", "x").await.status == 202).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_is_never_delivered_to_is_refused_when_it_is_published() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    assert_eq!(
        ask(&mut daemon, ADMIN, ("PUT", "/v1/types/t", Some(json!({}))))
            .await
            .status,
        200
    );
    for url in [
        "http://169.254.169.254/",
        "http://2852039166/",
        "http://[64:ff9b::7f00:1]/",
        "http://127.0.0.1:6379/",
    ] {
        let publish = (
            "POST",
            "/v1/notifications",
            Some(json!({"execution_id": "e", "url": url})),
        );
        let answer = ask(&mut daemon, ADMIN, publish).await;
        let why = refused(&answer, 422);
        assert_eq!(answer.json()["field"], "url");
        assert!(why.contains("delivery.allow_networks"), "{why}");
        // The command and a subscription say the same.
        let publish = ["publish", "--execution", "e", "--url", url];
        let said = installation.run(&publish).await.expect_code(2).stderr;
        assert!(said.contains(&why), "{said} is not {why}");
        let subscribe = (
            "POST",
            "/v1/types/t/subscriptions",
            Some(json!({"url": url, "options": {}})),
        );
        assert_eq!(refused(&ask(&mut daemon, ADMIN, subscribe).await, 422), why);
    }
    let subscriptions = ask(&mut daemon, ADMIN, ("GET", "/v1/types/t/subscriptions", None))
        .await
        .json();
    assert_eq!(subscriptions["items"], json!([]));
    let queues = ask(&mut daemon, ADMIN, ("GET", "/v1/queues", None)).await.json();
    let mut queues = queues["items"].as_array().unwrap().iter();
    assert!(queues.all(|queue| queue["kind"] != "delivery"), "nothing was published");
}

/// What redrive sends under ids of its own would be taken for a repetition by a receiver that had them before.
#[tokio::test(flavor = "multi_thread")]
async fn the_ids_that_are_made_here_are_no_publishers_to_choose() {
    let receiver = Receiver::start().await;
    let mut installation = embedded();
    installation.append("\n[[handler]]\ntype = \"t\"\nwebhook = true\n");
    let mut daemon = installation.daemon().await;
    let daemon = &mut daemon;
    let url = receiver.url("/hook");
    for id in ["event-1-1-1", "event-1-1-1-0123456789abcdef", "test-1"] {
        let notification = json!({"execution_id": "e", "url": url, "id": id});
        let answer = ask(daemon, PUBLISHER, ("POST", "/v1/notifications", Some(notification))).await;
        let why = refused(&answer, 400);
        assert!(answer.json()["field"] == "id" && why.contains("event-"), "{why}");
        let publish = ["publish", "--execution", "e", "--url", &url, "--id", id];
        let said = installation.run(&publish).await.expect_code(2).stderr;
        assert!(said.contains("event-"), "{said}");
    }
    // Nothing that is shown of an event tells the id: what is shown is what a publisher reckons with.
    assert_eq!(
        ask(daemon, ADMIN, ("PUT", "/v1/types/t", Some(json!({})))).await.status,
        200
    );
    let subscription = json!({"url": url, "options": {}});
    let made = ask(daemon, ADMIN, ("POST", "/v1/types/t/subscriptions", Some(subscription))).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let event = json!({"reference": "r", "nbf": "2099-01-01T00:00:00Z", "payload": 1});
    ask(daemon, ADMIN, ("POST", "/v1/types/t/events", Some(event))).await;
    let shown = ask(daemon, ADMIN, ("GET", "/v1/types/t/events/r", None)).await.text();
    let retried = ask(daemon, ADMIN, ("POST", "/v1/types/t/events/r/retry", Some(json!({})))).await;
    assert!(retried.status < 300, "{}", retried.text());
    wait_until("a delivery", BOUND, async || (receiver.delivered() == 1).then_some(())).await;
    let attempt = receiver.attempts().remove(0);
    let id = attempt.id();
    let (_, tail) = id.rsplit_once('-').unwrap();
    assert!(tail.len() == 16 && !shown.contains(tail), "{id}: {shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_was_shown_is_what_is_carried_out_once_and_by_its_token() {
    let installation = embedded();
    let mut daemon = installation.daemon().await;
    daemon.token = Some(ADMIN.to_owned());
    let notification = json!({"execution_id": "a", "url": "http://127.0.0.1:9/"});
    assert_eq!(daemon.post("/v1/notifications", &notification).await.status, 202);
    // It stays as it is from then on, for long enough.
    wait_until("the endpoint failed", BOUND, async || {
        let endpoints = daemon.get("/v1/endpoints").await;
        endpoints.text().contains("\"unavailable\"").then_some(())
    })
    .await;
    daemon.token = Some(OPERATOR.to_owned());
    let disable = json!({"url": "http://127.0.0.1:9/"});
    let planned = daemon.post("/v1/endpoints/disable?dry_run=true", &disable).await;
    assert_eq!(planned.status, 200, "{}", planned.text());
    let (id, until) = (
        planned.json()["plan_id"].as_str().unwrap().to_owned(),
        planned.json()["expires_at"].clone(),
    );
    assert!(until.as_str().is_some_and(|text| text.ends_with('Z')), "{until}");
    let path = format!("/v1/endpoints/disable?plan={id}");

    daemon.token = Some(ADMIN.to_owned());
    assert!(refused(&daemon.post(&path, &disable).await, 409).contains("another token"));
    daemon.token = Some(OPERATOR.to_owned());
    let other = json!({"url": "http://127.0.0.1:9/other"});
    assert!(refused(&daemon.post(&path, &other).await, 409).contains("asks for something else"));
    assert_eq!(daemon.post(&path, &disable).await.status, 200);
    assert!(refused(&daemon.post(&path, &disable).await, 409).contains("was carried out"));

    let again = daemon.post("/v1/redeliver?dry_run=true", &disable).await;
    let id = again.json()["plan_id"].as_str().unwrap().to_owned();
    daemon.token = Some(ADMIN.to_owned());
    assert_eq!(daemon.post("/v1/redeliver", &disable).await.status, 200);
    daemon.token = Some(OPERATOR.to_owned());
    let stale = refused(&daemon.post(&format!("/v1/redeliver?plan={id}"), &disable).await, 409);
    assert!(
        stale.contains("stale") && stale.contains("disabled") && stale.contains("did redeliver"),
        "{stale}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}
