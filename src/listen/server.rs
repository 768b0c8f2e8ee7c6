//! The server loop: takes requests in whole, has them judged and shown, and answers.

use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};

use super::ListenSettings;
use super::answers::Answer;
use super::ledger::{Ledger, Summary};
use super::received::{Coming, Received};
use super::shown::told;

const CONNECTIONS_MAX: usize = 128;
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Larger bodies are refused; no more than their beginning is ever in memory.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A request's head has to arrive within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A body has to arrive within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Requests in hand may be answered within this time after the stop.
const DRAIN: Duration = Duration::from_secs(5);
/// After an accept that failed, such as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections share.
struct Receiver {
    settings: ListenSettings,
    desk: Mutex<Desk>,
    clock: Clock,
    stop: CancellationToken,
}

/// What is touched by one request at a time, so that what is shown has the order of what is noted.
struct Desk {
    ledger: Ledger,
    out: Box<dyn Write + Send>,
    failed: Option<io::Error>,
}

/// Why a request is not taken.
enum Refusal {
    TooLarge,
    Broken,
    /// Enough came before.
    Over,
}

pub(super) async fn run(
    listener: TcpListener,
    settings: ListenSettings,
    out: Box<dyn Write + Send>,
    clock: Clock,
    stop: CancellationToken,
) -> io::Result<Summary> {
    let receiver = Arc::new(Receiver {
        settings,
        desk: Mutex::new(Desk {
            ledger: Ledger::default(),
            out,
            failed: None,
        }),
        clock,
        stop: stop.clone(),
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&receiver)));
                }
                Err(_) => ambient::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = ambient::timeout(DRAIN, drained).await;
    let mut desk = receiver.desk.lock().unwrap_or_else(PoisonError::into_inner);
    match desk.failed.take() {
        Some(error) => Err(error),
        None => Ok(desk.ledger.summary()),
    }
}

async fn connection(stream: TcpStream, receiver: Arc<Receiver>) {
    let _ = stream.set_nodelay(true);
    let stop = receiver.stop.clone();
    let service = service_fn(|request| {
        let receiver = Arc::clone(&receiver);
        async move { Ok::<_, Infallible>(receiver.answer(request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(?error, "a connection ended early");
    }
}

impl Receiver {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let taken = match self.take(request).await {
            Ok(received) => self.note(&received).ok_or(Refusal::Over),
            Err(refusal) => Err(refusal),
        };
        let (status, said) = match taken {
            Ok((answer, is_last)) => {
                ambient::wait(&self.stop, answer.delay).await;
                if is_last {
                    self.stop.cancel();
                }
                (answer.status, format!(r#"{{"status":{}}}"#, answer.status))
            }
            Err(Refusal::TooLarge) => (413, r#"{"error":"the body is too large for this receiver"}"#.to_owned()),
            Err(Refusal::Broken) => (400, r#"{"error":"the body did not come in whole"}"#.to_owned()),
            Err(Refusal::Over) => (503, r#"{"error":"this receiver has ended"}"#.to_owned()),
        };
        response(status, said)
    }

    async fn take(&self, request: Request<Incoming>) -> Result<Received, Refusal> {
        let (head, mut body) = request.into_parts();
        let mut coming = Coming::new(&head, &self.settings.secrets);
        let read = async {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| Refusal::Broken)?;
                coming.take(frame.data_ref().map_or(&[], |data| data));
                if coming.body_bytes() > BODY_BYTES_MAX {
                    return Err(Refusal::TooLarge);
                }
            }
            Ok(())
        };
        ambient::timeout(BODY_TIMEOUT, read)
            .await
            .unwrap_or(Err(Refusal::Broken))?;
        Ok(coming.end(self.clock.now()))
    }

    /// Notes and shows a request; its answer, and whether it is the last. `None`: the last one was before it.
    fn note(&self, received: &Received) -> Option<(Answer, bool)> {
        ambient::beside(|| {
            let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
            let before = desk.ledger.requests();
            if self.settings.count.is_some_and(|count| before >= count) {
                return None;
            }
            let noted = desk.ledger.note(received.id.as_ref(), received.place.as_ref());
            let answer = self.settings.answers.of(before, noted.attempt);
            let is_forged = received.signature.is_forged();
            desk.ledger.answered(received.id.as_ref(), answer, is_forged);
            let text = told(received, noted, answer, self.settings.is_json);
            if let Err(error) = desk.out.write_all(&text).and_then(|()| desk.out.flush()) {
                desk.failed.get_or_insert(error);
                self.stop.cancel();
            }
            Some((answer, self.settings.count == Some(noted.number)))
        })
    }
}

fn response(status: u16, said: String) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    // These have no body by definition.
    let is_bare = matches!(status.as_u16(), 204 | 205 | 304);
    let body = if is_bare { Bytes::new() } else { Bytes::from(said) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    if !is_bare {
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
    }
    response
}
