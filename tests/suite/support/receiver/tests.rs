//! The receiver itself, through a plain client.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Behaviour, Receiver};
use crate::support::http::Request;
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_secs(10);

fn post(receiver: &Receiver, path: &str, id: &str) -> Request {
    Request::new("POST", &receiver.url(path))
        .header("Webhook-Id", id)
        .header("Redrive-Queue", "q")
        .header("Redrive-Epoch", "3")
        .header("Redrive-Sequence", "7")
        .body("body")
}

#[tokio::test]
async fn an_attempt_is_recorded_with_its_headers_body_and_answer() {
    let receiver = Receiver::start().await;
    receiver.behave("/hook", Behaviour::Status(204));
    assert_eq!(post(&receiver, "/hook?x=1", "m1").send().await.status, 204);
    let attempt = receiver.attempts_of("/hook").remove(0);
    assert_eq!((attempt.method.as_str(), attempt.path.as_str()), ("POST", "/hook?x=1"));
    assert_eq!((attempt.queue(), attempt.id()), ("q", "m1"));
    assert_eq!((attempt.epoch(), attempt.sequence()), (Some(3), Some(7)));
    assert_eq!(
        (attempt.body.as_slice(), attempt.status),
        (b"body".as_slice(), Some(204))
    );
    assert!(attempt.end.is_some_and(|end| end > attempt.start));
    assert_eq!(receiver.delivered(), 1);
}

#[tokio::test]
async fn chunked_bodies_and_kept_connections_are_read() {
    let receiver = Receiver::start().await;
    let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
    let chunked = b"POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    let second = b"POST /b HTTP/1.1\r\ncontent-length: 2\r\nconnection: close\r\n\r\nfg";
    stream.write_all(&[chunked.as_slice(), second].concat()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2);
    let bodies: Vec<Vec<u8>> = receiver.attempts().into_iter().map(|attempt| attempt.body).collect();
    assert_eq!(bodies, [b"abcde".to_vec(), b"fg".to_vec()]);
}

#[tokio::test]
async fn a_rule_decides_by_attempt_and_can_be_changed() {
    let receiver = Receiver::start().await;
    receiver.behave_by("/flaky", |attempt| {
        Behaviour::Status(if attempt.earlier < 2 { 503 } else { 200 })
    });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(post(&receiver, "/flaky", "m").send().await.status);
    }
    receiver.behave("/flaky", Behaviour::redirect("http://elsewhere/"));
    let redirected = post(&receiver, "/flaky", "m").send().await;
    assert_eq!(redirected.header("location"), Some("http://elsewhere/"));
    receiver.behave("*", Behaviour::Status(404));
    statuses.push(post(&receiver, "/other", "m").send().await.status);
    assert_eq!(statuses, [503, 503, 200, 404]);
}

#[tokio::test]
async fn a_reset_and_a_closed_port_are_errors_for_the_client() {
    let mut receiver = Receiver::start().await;
    receiver.behave("/reset", Behaviour::Reset);
    let error = post(&receiver, "/reset", "m1").try_send().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    receiver.stop_listening().await;
    let error = post(&receiver, "/ok", "m2").try_send().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    receiver.listen_again().await;
    assert_eq!(post(&receiver, "/ok", "m3").send().await.status, 200);
    let statuses: Vec<Option<u16>> = receiver.attempts().iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [None, Some(200)]);
}

#[tokio::test]
async fn a_client_that_gives_up_ends_its_attempt_before_its_next_one() {
    let receiver = Receiver::start().await;
    receiver.behave("/never", Behaviour::Never);
    let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
    stream
        .write_all(b"POST /never HTTP/1.1\r\nredrive-queue: q\r\n\r\n")
        .await
        .unwrap();
    wait_until("the attempt", BOUND, async || (receiver.count() == 1).then_some(())).await;
    assert_eq!(receiver.attempts()[0].end, None);
    drop(stream);
    assert_eq!(post(&receiver, "/ok", "m2").send().await.status, 200);
    let attempts = receiver.attempts();
    assert!(
        attempts[0].end.is_some_and(|end| end < attempts[1].start),
        "{attempts:?}"
    );
    assert_eq!(attempts[0].status, None);
}

#[tokio::test]
async fn two_requests_of_one_queue_at_once_are_seen_as_such() {
    let receiver = Receiver::start().await;
    receiver.behave("/slow", Behaviour::Status(200).after(Duration::from_millis(600)));
    let (first, second) = (
        post(&receiver, "/slow", "m1").send(),
        post(&receiver, "/slow", "m2").send(),
    );
    let _ = tokio::join!(first, second);
    let attempts = receiver.attempts();
    assert!(attempts[0].end > Some(attempts[1].start), "{attempts:?}");
}

#[tokio::test]
async fn answers_without_end_and_huge_headers_reach_the_client() {
    let receiver = Receiver::start().await;
    receiver.behave(
        "/trickle",
        Behaviour::Trickle {
            status: 200,
            pause: Duration::from_millis(1),
        },
    );
    receiver.behave("/endless", Behaviour::EndlessBody { status: 200 });
    receiver.behave(
        "/huge",
        Behaviour::HugeHeader {
            status: 200,
            bytes: 100_000,
        },
    );
    for (path, enough) in [("/trickle", 70), ("/endless", 100_000)] {
        let mut stream = TcpStream::connect(receiver.address()).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())
            .await
            .unwrap();
        stream.read_exact(&mut vec![0; enough]).await.unwrap();
    }
    let huge = Request::new("GET", &receiver.url("/huge")).send().await;
    assert_eq!(huge.header("x-filler").map(str::len), Some(100_000));
    let all_ended = async || {
        receiver
            .attempts()
            .iter()
            .all(|attempt| attempt.end.is_some())
            .then_some(())
    };
    wait_until("the end of all attempts", BOUND, all_ended).await;
    let statuses: Vec<Option<u16>> = receiver.attempts().iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [None, None, Some(200)]);
}
