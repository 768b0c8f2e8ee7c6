//! The sender against real receivers on loopback: what is sent, how an attempt ends, what is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use hmac::{Hmac, Mac};
use redrive::internals::ambient::{self, Clock};
use redrive::internals::delivery::{
    EndpointSettings, HttpSender, Method, Origin, Request, SenderError, SenderHandle, SenderSettings, Sent,
};
use redrive::internals::domain::egress::AddressRules;
use redrive::internals::domain::id::{Epoch, NotificationId, QueueName};
use redrive::internals::domain::outcome::{FailureKind, Outcome};
use redrive::internals::domain::signature::SigningSecret;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Nothing here needs as long, except what is meant to run into it.
const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_SHORT: Duration = Duration::from_millis(300);

/// What a receiver does with each request.
#[derive(Clone)]
enum Behaviour {
    /// Answers with these bytes, then waits for the next request.
    Answer(Vec<u8>),
    /// Answers with these bytes, then closes.
    AnswerAndClose(Vec<u8>),
    /// Answers with these bytes, then one byte at a time, for ever.
    Trickle(Vec<u8>),
    /// Answers with these bytes, then as fast as it can, for ever.
    Flood(Vec<u8>),
    /// Never answers.
    Silence,
    /// Breaks the connection instead of answering.
    Reset,
    /// Answers the first request of a connection; of the answer to the next, these bytes come, then it closes.
    CloseAtNext(Vec<u8>),
    /// Answers the first request of all; closes every connection at the next, without a byte.
    CloseFromNextOn,
    /// Answers the first request of a connection, and no other.
    SilentAtNext,
}

/// A request as it came over the wire.
#[derive(Debug)]
struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    /// The values of every header of that name.
    fn header(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }
}

struct Receiver {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Received>,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sent, requests) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        ambient::spawn("test receiver", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = accepted.fetch_add(1, Ordering::SeqCst);
                let behaviour = behaviour.clone();
                ambient::spawn("test connection", serve(stream, number, behaviour, sent.clone()));
            }
        });
        Self {
            address,
            requests,
            connections,
        }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    fn requests(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }

    fn only_request(&mut self) -> Received {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }
}

async fn serve(mut stream: TcpStream, connection: usize, behaviour: Behaviour, sent: mpsc::UnboundedSender<Received>) {
    let mut request = 0;
    while let Some(arrived) = read_request(&mut stream).await {
        let _ = sent.send(arrived);
        let now = match &behaviour {
            Behaviour::CloseAtNext(_) | Behaviour::SilentAtNext if request == 0 => Behaviour::Answer(OK.to_vec()),
            Behaviour::CloseFromNextOn if (connection, request) == (0, 0) => Behaviour::Answer(OK.to_vec()),
            Behaviour::CloseAtNext(bytes) => Behaviour::AnswerAndClose(bytes.clone()),
            Behaviour::CloseFromNextOn => Behaviour::AnswerAndClose(Vec::new()),
            Behaviour::SilentAtNext => Behaviour::Silence,
            always => always.clone(),
        };
        if !answer(&mut stream, &now).await {
            return;
        }
        request += 1;
    }
}

/// Whether the connection goes on.
async fn answer(stream: &mut TcpStream, behaviour: &Behaviour) -> bool {
    match behaviour {
        Behaviour::Answer(bytes) => stream.write_all(bytes).await.is_ok(),
        Behaviour::AnswerAndClose(bytes) => {
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            false
        }
        Behaviour::Trickle(bytes) => {
            let mut pace = tokio::time::interval(Duration::from_millis(10));
            let mut open = stream.write_all(bytes).await.is_ok();
            while open {
                pace.tick().await;
                open = stream.write_all(b"x").await.is_ok();
            }
            false
        }
        Behaviour::Flood(bytes) => {
            let mut open = stream.write_all(bytes).await.is_ok();
            while open {
                open = stream.write_all(&[b'x'; 8192]).await.is_ok();
            }
            false
        }
        Behaviour::Silence => std::future::pending().await,
        Behaviour::Reset => {
            stream.set_zero_linger().unwrap();
            false
        }
        Behaviour::CloseAtNext(_) | Behaviour::CloseFromNextOn | Behaviour::SilentAtNext => {
            unreachable!("they are one of the others for each request")
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let body = bytes.split_off(end);
    let mut arrived = Received {
        head: String::from_utf8_lossy(&bytes).into_owned(),
        body,
    };
    let length = arrived
        .header("content-length")
        .first()
        .map_or(0, |text| text.parse().unwrap());
    while arrived.body.len() < length {
        if stream.read_buf(&mut arrived.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(arrived)
}

fn settings() -> SenderSettings {
    // The application does this once at start; whichever test is first does it here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    SenderSettings {
        timeout: TIMEOUT,
        response_snippet_bytes: 2048,
        rules: loopback_allowed(),
        endpoints: HashMap::new(),
    }
}

fn sender(settings: SenderSettings) -> SenderHandle {
    HttpSender::new(settings, Clock::system()).unwrap()
}

fn request(url: &str) -> Request {
    Request {
        url: EndpointUrl::parse(url).unwrap(),
        headers: Vec::new(),
        content_type: None,
        body: Bytes::from_static(b"{}"),
        id: NotificationId::parse("n-1").unwrap(),
        origin: None,
        secrets: Vec::new(),
        method: Method::Post,
    }
}

/// Sends one request to a receiver that behaves so.
async fn attempt(behaviour: Behaviour) -> Sent {
    let receiver = Receiver::start(behaviour).await;
    sender(settings()).send(request(&receiver.url())).await
}

#[track_caller]
fn check_failure(sent: &Sent, kind: FailureKind) {
    assert_eq!(sent.outcome, Outcome::Failure(kind), "{sent:?}");
    let error = sent.error.as_deref().unwrap();
    assert!(!error.is_empty() && error.len() <= 310, "{error}");
}

#[tokio::test]
async fn a_2xx_is_its_status_with_the_beginning_of_the_answer() {
    let sent = attempt(Behaviour::Answer(OK.to_vec())).await;
    assert_eq!(sent.outcome, Outcome::Status(200));
    assert_eq!((sent.response.as_deref(), sent.error), (Some(&b"ok"[..]), None));
    assert!(sent.duration < TIMEOUT);
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_whole_answer_longer_than_the_snippet() {
    let answer = [
        b"HTTP/1.1 500 X\r\ncontent-length: 8000\r\n\r\n".as_slice(),
        &[b'x'; 8000],
    ]
    .concat();
    let receiver = Receiver::start(Behaviour::Answer(answer)).await;
    let sender = sender(settings());
    for _ in 0..3 {
        let sent = sender.send(request(&receiver.url())).await;
        assert_eq!(sent.outcome, Outcome::Status(500));
        assert_eq!(sent.response, Some(vec![b'x'; 2048]));
    }
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 1);
}

/// A name that moved is followed, however busy its connections are.
#[tokio::test]
async fn an_old_connection_is_used_no_more() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
    let sender = HttpSender::new(settings(), clock.clone()).unwrap();
    let mut seen = Vec::new();
    for seconds in [0, 29, 31, 0] {
        clock.advance(Duration::from_secs(seconds));
        let sent = sender.send(request(&receiver.url())).await;
        assert_eq!(sent.outcome, Outcome::Status(200), "{sent:?}");
        seen.push(receiver.connections.load(Ordering::SeqCst));
    }
    assert_eq!(seen[..2], [1, 1], "it is used for half a minute at least");
    assert!(seen[2] > 1, "and for a minute at most: {seen:?}");
    assert_eq!(receiver.requests().len(), 4, "nothing is sent twice");
}

#[tokio::test]
async fn every_status_that_a_server_can_send_is_the_outcome() {
    for status in [
        200, 201, 204, 299, 300, 304, 404, 410, 418, 429, 500, 503, 599, 600, 999,
    ] {
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nretry-after: 120\r\n\r\n");
        let sent = attempt(Behaviour::Answer(answer.into_bytes())).await;
        assert_eq!(sent.outcome, Outcome::Status(status));
        assert_eq!(sent.retry_after.as_deref(), Some("120"));
    }
}

#[tokio::test]
async fn an_informational_status_alone_is_no_answer() {
    let sent = attempt(Behaviour::AnswerAndClose(b"HTTP/1.1 199 X\r\n\r\n".to_vec())).await;
    check_failure(&sent, FailureKind::Reset);
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_a_timeout_within_the_deadline() {
    let receiver = Receiver::start(Behaviour::Silence).await;
    let sender = sender(SenderSettings {
        timeout: TIMEOUT_SHORT,
        ..settings()
    });
    let sent = sender.send(request(&receiver.url())).await;
    check_failure(&sent, FailureKind::Timeout);
    assert!(sent.duration >= TIMEOUT_SHORT && sent.duration < TIMEOUT, "{sent:?}");
}

#[tokio::test]
async fn a_2xx_whose_body_does_not_come_is_a_body_timeout() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec();
    let receiver = Receiver::start(Behaviour::Trickle(head)).await;
    let sender = sender(SenderSettings {
        timeout: TIMEOUT_SHORT,
        ..settings()
    });
    let sent = sender.send(request(&receiver.url())).await;
    check_failure(&sent, FailureKind::BodyTimeout);
    assert!(sent.response.unwrap().starts_with(b"x"));
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_the_limit() {
    let sent = attempt(Behaviour::Flood(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())).await;
    assert_eq!(sent.outcome, Outcome::Status(200));
    assert_eq!(sent.response, Some(vec![b'x'; 2048]));
}

#[tokio::test]
async fn an_endless_head_ends_the_attempt() {
    let sent = attempt(Behaviour::Flood(b"HTTP/1.1 200 OK\r\nx-long: ".to_vec())).await;
    check_failure(&sent, FailureKind::Other);
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_reset() {
    check_failure(&attempt(Behaviour::Reset).await, FailureKind::Reset);
    check_failure(
        &attempt(Behaviour::AnswerAndClose(Vec::new())).await,
        FailureKind::Reset,
    );
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".to_vec();
    check_failure(&attempt(Behaviour::AnswerAndClose(cut)).await, FailureKind::Reset);
}

/// A receiver that says no has said it, although the page that it adds is cut off, or slow.
#[tokio::test]
async fn a_status_that_is_no_2xx_counts_whatever_becomes_of_its_body() {
    for status in [301, 410, 422, 429, 500, 503] {
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 100000\r\nretry-after: 20\r\n\r\nxxx");
        for behaviour in [
            Behaviour::AnswerAndClose(head.clone().into_bytes()),
            Behaviour::Trickle(head.into_bytes()),
        ] {
            let receiver = Receiver::start(behaviour).await;
            let sender = sender(SenderSettings {
                timeout: TIMEOUT_SHORT,
                ..settings()
            });
            let sent = sender.send(request(&receiver.url())).await;
            assert_eq!(sent.outcome, Outcome::Status(status), "{sent:?}");
            assert_eq!(sent.retry_after.as_deref(), Some("20"));
            assert!(sent.error.is_some() && sent.response.unwrap().starts_with(b"xxx"));
        }
    }
}

/// Sends a request that is answered, then another one over the same connection: what came of that, and how many
/// requests and connections the receiver saw.
async fn second_of_a_connection(behaviour: Behaviour, timeout: Duration) -> (Sent, Vec<Received>, usize) {
    let mut receiver = Receiver::start(behaviour).await;
    let sender = sender(SenderSettings { timeout, ..settings() });
    let first = sender.send(request(&receiver.url())).await;
    assert_eq!(first.outcome, Outcome::Status(200), "{first:?}");
    let second = sender.send(request(&receiver.url())).await;
    (second, receiver.requests(), receiver.connections.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_request_that_a_reused_connection_lost_is_sent_once_more_over_a_new_one() {
    let (sent, requests, connections) = second_of_a_connection(Behaviour::CloseAtNext(Vec::new()), TIMEOUT).await;
    assert_eq!((sent.outcome, sent.error), (Outcome::Status(200), None));
    assert_eq!((requests.len(), connections), (3, 2));
    assert_eq!(requests[1].head, requests[2].head, "the same request under the same id");
    assert_eq!(requests[1].body, requests[2].body);
}

#[tokio::test]
async fn a_request_that_a_new_connection_loses_too_has_failed() {
    let (sent, requests, connections) = second_of_a_connection(Behaviour::CloseFromNextOn, TIMEOUT).await;
    check_failure(&sent, FailureKind::Reset);
    assert_eq!((requests.len(), connections), (3, 2), "once more, and no oftener");
}

#[tokio::test]
async fn a_request_whose_answer_began_is_not_sent_again() {
    for begun in [&b"H"[..], b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"] {
        let (sent, requests, connections) =
            second_of_a_connection(Behaviour::CloseAtNext(begun.to_vec()), TIMEOUT).await;
        check_failure(&sent, FailureKind::Reset);
        assert_eq!((requests.len(), connections), (2, 1));
    }
}

#[tokio::test]
async fn a_request_that_a_first_connection_loses_is_not_sent_again() {
    for behaviour in [Behaviour::Reset, Behaviour::AnswerAndClose(Vec::new())] {
        let mut receiver = Receiver::start(behaviour).await;
        let sent = sender(settings()).send(request(&receiver.url())).await;
        check_failure(&sent, FailureKind::Reset);
        receiver.only_request();
    }
}

#[tokio::test]
async fn a_request_without_an_answer_in_time_is_not_sent_again() {
    let (sent, requests, connections) = second_of_a_connection(Behaviour::SilentAtNext, TIMEOUT_SHORT).await;
    check_failure(&sent, FailureKind::Timeout);
    assert_eq!((requests.len(), connections), (2, 1));
}

#[tokio::test]
async fn nobody_listening_is_a_refused_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let url = format!("http://{at}/?token=hunter2");
    drop(listener);
    let sent = sender(settings()).send(request(&url)).await;
    check_failure(&sent, FailureKind::ConnectRefused);
    let words = format!("connection refused: nothing listens at {at}");
    assert_eq!(sent.error.as_deref(), Some(words.as_str()));
    assert!(!format!("{sent:?}").contains("hunter2"), "{sent:?}");
}

#[tokio::test]
async fn a_name_without_an_address_is_a_failure_of_dns() {
    let sent = sender(settings()).send(request("http://nowhere.invalid/")).await;
    check_failure(&sent, FailureKind::Dns);
}

#[tokio::test]
async fn plain_text_where_tls_is_expected_is_a_failure_of_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    ambient::spawn("test receiver", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    check_failure(&sender(settings()).send(request(&url)).await, FailureKind::Tls);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut inside = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    for status in [301, 302, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
            inside.url()
        );
        let sent = attempt(Behaviour::Answer(answer.into_bytes())).await;
        assert_eq!(sent.outcome, Outcome::Status(status));
        assert!(sent.error.unwrap().contains(&inside.url()));
    }
    assert!(inside.requests().is_empty());
}

#[tokio::test]
async fn where_a_receiver_redirects_to_is_told_without_what_is_secret() {
    let moved = |location: &str| format!("HTTP/1.1 308 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    for (location, told) in [
        (
            "https://me:hunter2@new.example/hook?key=hunter2",
            "https://new.example/hook?key=***",
        ),
        (
            "https://new.example/hook#access_token=hunter2",
            "https://new.example/hook",
        ),
        ("/hook/", "/hook/"),
        ("https://new.example/cb#access_token=hunter2", "https://new.example/cb"),
    ] {
        let sent = attempt(Behaviour::Answer(moved(location).into_bytes())).await;
        let error = sent.error.unwrap();
        assert!(error.starts_with("the receiver redirects to http"), "{error}");
        let end = format!("{told}, and redirects are not followed: publish to that URL");
        assert!(error.ends_with(&end), "{error}");
    }
    let sent = attempt(Behaviour::Answer(moved("mailto:me@new.example").into_bytes())).await;
    let error = sent.error.unwrap();
    assert!(
        error.ends_with("mailto:me@new.example, and redirects are not followed"),
        "{error}"
    );
    let long = format!("https://new.example/{}", "x".repeat(4000));
    let sent = attempt(Behaviour::Answer(moved(&long).into_bytes())).await;
    assert!(sent.error.unwrap().len() < 310);
}

#[tokio::test]
async fn a_compressed_answer_stays_compressed() {
    let bomb = [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n".as_slice(),
        b"\x1f\x8b\x08\x00",
    ]
    .concat();
    let sent = attempt(Behaviour::Answer(bomb)).await;
    assert_eq!(sent.response.as_deref(), Some(&b"\x1f\x8b\x08\x00"[..]));
}

#[tokio::test]
async fn loopback_is_refused_unless_it_is_allowed() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let sender = sender(SenderSettings {
        rules: AddressRules::default(),
        ..settings()
    });
    let port = receiver.address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
    ] {
        let sent = sender.send(request(&format!("http://{host}:{port}/"))).await;
        check_failure(&sent, FailureKind::AddressRefused);
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn our_own_socket_is_refused_by_name_too() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let rules = AddressRules {
        own: vec![receiver.address],
        ..loopback_allowed()
    };
    let sender = sender(SenderSettings { rules, ..settings() });
    let port = receiver.address.port();
    for host in ["127.0.0.1", "localhost"] {
        let sent = sender.send(request(&format!("http://{host}:{port}/"))).await;
        check_failure(&sent, FailureKind::AddressRefused);
        assert!(sent.error.unwrap().contains("our own sockets"));
    }
    assert!(receiver.requests().is_empty());
}

/// The broker's and the database's hosts are configured by name: where the names lead is looked up as requests are
/// sent, and a URL that leads there in any other way is refused, too.
#[tokio::test]
async fn what_one_of_our_own_names_leads_to_now_is_refused() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let port = receiver.address.port();
    let rules = AddressRules {
        own_names: vec![
            ("no-such-host.invalid".to_owned(), port),
            ("localhost".to_owned(), port),
        ],
        ..loopback_allowed()
    };
    let sender = sender(SenderSettings { rules, ..settings() });
    for host in ["127.0.0.1", "localhost", "127.1"] {
        let sent = sender.send(request(&format!("http://{host}:{port}/"))).await;
        check_failure(&sent, FailureKind::AddressRefused);
        assert!(sent.error.unwrap().contains("our own sockets"));
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_without_its_address() {
    let sender = sender(SenderSettings {
        rules: AddressRules::default(),
        ..settings()
    });
    let sent = sender.send(request("http://localhost:8080/")).await;
    check_failure(&sent, FailureKind::AddressRefused);
    let error = sent.error.unwrap();
    assert!(
        error.contains("leads to a loopback address") && error.contains("delivery.allow_networks"),
        "{error}"
    );
    assert!(!error.contains("127.0.0.1") && !error.contains("::1"), "{error}");
}

#[tokio::test]
async fn a_name_is_resolved_to_allowed_addresses() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let url = format!("http://localhost:{}/", receiver.address.port());
    let sent = sender(settings()).send(request(&url)).await;
    assert_eq!(sent.outcome, Outcome::Status(200), "{sent:?}");
    receiver.only_request();
}

#[tokio::test]
async fn a_request_carries_the_headers_of_all_three() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let endpoint = EndpointSettings {
        headers: vec![("Authorization".into(), "Bearer of-the-endpoint".into())],
        ..EndpointSettings::default()
    };
    let url = EndpointUrl::parse(&receiver.url()).unwrap();
    let sender = sender(SenderSettings {
        endpoints: HashMap::from([(url, endpoint)]),
        ..settings()
    });
    let sent = sender
        .send(Request {
            headers: [
                ("X-Team", "a"),
                ("X-Team", "b"),
                ("Authorization", "Bearer forged"),
                ("Content-Length", "99"),
                ("Webhook-Id", "forged"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
            origin: Some(Origin {
                queue: QueueName::parse("redrive.run-ä.0").unwrap(),
                epoch: Epoch(7),
                sequence: 3,
            }),
            ..request(&receiver.url())
        })
        .await;
    assert_eq!(sent.outcome, Outcome::Status(200), "{sent:?}");
    let arrived = receiver.only_request();
    assert!(arrived.head.starts_with("POST /hook HTTP/1.1\r\n"), "{arrived:?}");
    for (name, values) in [
        ("x-team", vec!["a", "b"]),
        ("authorization", vec!["Bearer of-the-endpoint"]),
        ("content-length", vec!["2"]),
        ("content-type", vec!["application/octet-stream"]),
        ("webhook-id", vec!["n-1"]),
        ("webhook-signature", vec![]),
        ("redrive-queue", vec!["redrive.run-ä.0"]),
        ("redrive-epoch", vec!["7"]),
        ("redrive-sequence", vec!["3"]),
        ("user-agent", vec![concat!("redrive/", env!("CARGO_PKG_VERSION"))]),
    ] {
        assert_eq!(arrived.header(name), values, "{name}");
    }
}

#[tokio::test]
async fn each_secret_signs_the_bytes_that_are_sent() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let keys = [[1_u8; 24], [2; 24]];
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let secrets = keys.map(|key| SigningSecret::parse(&format!("whsec_{}", encode(&key))).unwrap());
    let endpoint = EndpointSettings {
        secrets: secrets.to_vec(),
        ..EndpointSettings::default()
    };
    let url = EndpointUrl::parse(&receiver.url()).unwrap();
    let sender = HttpSender::new(
        SenderSettings {
            endpoints: HashMap::from([(url, endpoint)]),
            ..settings()
        },
        Clock::manual(Timestamp::from_seconds(1_800_000_000)),
    )
    .unwrap();
    let body = Bytes::from_static(b"\xff\x00{\"a\": 1.0000000000000001}");
    sender
        .send(Request {
            body: body.clone(),
            ..request(&receiver.url())
        })
        .await;
    let arrived = receiver.only_request();
    assert_eq!(arrived.header("webhook-timestamp"), ["1800000000"]);
    let expected = keys.map(|key| {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
        mac.update(&[b"n-1.1800000000.".as_slice(), &arrived.body].concat());
        format!("v1,{}", encode(&mac.finalize().into_bytes()))
    });
    assert_eq!(arrived.header("webhook-signature"), [expected.join(" ")]);
    assert_eq!(arrived.body, body);
}

#[tokio::test]
async fn a_body_arrives_byte_for_byte() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let sender = sender(settings());
    for body in [
        Vec::new(),
        b"a\0b".to_vec(),
        vec![0xff, 0xfe, 0x80],
        vec![0xa5; 16 * 1024 * 1024],
    ] {
        let content_type = Some("application/json; charset=utf-8".to_owned());
        let sent = sender
            .send(Request {
                body: body.clone().into(),
                content_type,
                ..request(&receiver.url())
            })
            .await;
        assert_eq!(sent.outcome, Outcome::Status(200), "{sent:?}");
        let arrived = receiver.only_request();
        assert_eq!(arrived.header("content-length"), [body.len().to_string()]);
        assert_eq!(arrived.header("content-type"), ["application/json; charset=utf-8"]);
        assert!(arrived.body == body, "{} bytes differ", body.len());
    }
}

#[tokio::test]
async fn what_cannot_be_sent_as_a_header_is_never_sent() {
    let mut receiver = Receiver::start(Behaviour::Answer(OK.to_vec())).await;
    let sender = sender(settings());
    for (name, value) in [("X-A", "b\r\nX-C: d"), ("X-A", "b\0"), ("X A", "b"), ("", "b")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let sent = sender
            .send(Request {
                headers,
                ..request(&receiver.url())
            })
            .await;
        check_failure(&sent, FailureKind::BadRequest);
    }
    let sent = sender
        .send(Request {
            content_type: Some("a\nb".into()),
            ..request(&receiver.url())
        })
        .await;
    check_failure(&sent, FailureKind::BadRequest);
    for name in ["CONNECT", "GET /", ""] {
        let sent = sender
            .send(Request {
                method: Method::Other(name.into()),
                ..request(&receiver.url())
            })
            .await;
        check_failure(&sent, FailureKind::BadRequest);
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn a_test_is_a_head_without_a_body() {
    let mut receiver = Receiver::start(Behaviour::Answer(
        b"HTTP/1.1 405 X\r\ncontent-length: 9\r\n\r\n".to_vec(),
    ))
    .await;
    let sent = sender(settings())
        .send(Request {
            method: Method::Head,
            body: Bytes::new(),
            ..request(&receiver.url())
        })
        .await;
    assert_eq!((sent.outcome, sent.response), (Outcome::Status(405), None));
    assert!(receiver.only_request().head.starts_with("HEAD /hook "));
}

#[tokio::test]
async fn a_configured_header_that_cannot_be_sent_is_refused_at_start_without_its_value() {
    let url = EndpointUrl::parse("http://example.com/").unwrap();
    let endpoint = EndpointSettings {
        headers: vec![("X-Key".into(), "hunter2\r\n".into())],
        ..EndpointSettings::default()
    };
    let error = HttpSender::new(
        SenderSettings {
            endpoints: HashMap::from([(url, endpoint)]),
            ..settings()
        },
        Clock::system(),
    )
    .unwrap_err();
    assert!(matches!(error, SenderError::Header { .. }));
    let text = error.to_string();
    assert!(
        text.contains("X-Key") && text.contains("http://example.com/") && !text.contains("hunter2"),
        "{text}"
    );
}

fn loopback_allowed() -> AddressRules {
    AddressRules {
        allow: ["127.0.0.0/8", "::1/128"]
            .map(|network| network.parse().unwrap())
            .to_vec(),
        ..AddressRules::default()
    }
}
