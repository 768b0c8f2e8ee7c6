//! One connection of the receiver: reading requests, recording them, answering as told.

use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Attempt, Behaviour, Shared};

/// Longest time that a client may take to close a connection on which it gave up, before its
/// next attempt counts as a second one at the same time.
const CLOSING_GRACE: Duration = Duration::from_millis(250);

const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Connections end with this task.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    if let Ok(connection) = Connection::new(stream, shared) {
        // An error is the client's hanging up, which is recorded with the attempt.
        let _ = connection.run().await;
    }
}

/// An attempt that has begun. Its end is recorded at the latest when this is dropped, and
/// that is before the connection closes.
struct Begun {
    number: usize,
    shared: Arc<Shared>,
}

impl Begun {
    fn answered(&self, status: u16) {
        self.shared.end(self.number, Some(status));
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.shared.end(self.number, None);
    }
}

enum Then {
    KeepAlive,
    Close,
}

struct Connection {
    stream: TcpStream,
    /// The same socket, to look at it from elsewhere.
    handle: Arc<std::net::TcpStream>,
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

impl Connection {
    fn new(stream: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let stream = stream.into_std()?;
        let handle = Arc::new(stream.try_clone()?);
        Ok(Self {
            stream: TcpStream::from_std(stream)?,
            handle,
            buffer: Vec::new(),
            shared,
        })
    }

    async fn run(mut self) -> io::Result<()> {
        while let Some(request) = self.read_request().await? {
            self.wait_for_abandoned(request.queue()).await;
            let close = request.header("connection").is_some_and(|value| value == "close");
            let (number, behaviour) = self.shared.begin(request, Arc::clone(&self.handle));
            let begun = Begun {
                number,
                shared: Arc::clone(&self.shared),
            };
            if matches!(self.answer(&begun, behaviour).await?, Then::Close) || close {
                break;
            }
        }
        Ok(())
    }

    async fn wait_for_abandoned(&self, queue: &str) {
        let begin = Instant::now();
        while !queue.is_empty() && self.shared.end_abandoned(queue) && begin.elapsed() < CLOSING_GRACE {
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn answer(&mut self, begun: &Begun, mut behaviour: Behaviour) -> io::Result<Then> {
        loop {
            let (until, then): (Pin<Box<dyn Future<Output = ()> + Send>>, _) = match behaviour {
                Behaviour::After(pause, then) => (Box::pin(sleep(pause)), then),
                Behaviour::Once(told, then) => (Box::pin(told.cancelled_owned()), then),
                other => {
                    behaviour = other;
                    break;
                }
            };
            tokio::select! {
                () = until => behaviour = *then,
                () = hung_up(&self.stream) => return Ok(Then::Close),
            }
        }
        match behaviour {
            Behaviour::Status(status) => self.answer_whole(begun, status, &[], &[]).await,
            Behaviour::Answer { status, headers, body } => self.answer_whole(begun, status, &headers, &body).await,
            Behaviour::HugeHeader { status, bytes } => {
                let headers = [("x-filler".to_owned(), "f".repeat(bytes))];
                self.answer_whole(begun, status, &headers, &[]).await
            }
            Behaviour::Reset => {
                self.stream.set_zero_linger()?;
                Ok(Then::Close)
            }
            Behaviour::Trickle { status, pause } => self.answer_without_end(status, b"t", pause).await,
            Behaviour::EndlessBody { status } => {
                self.answer_without_end(status, &[b'e'; 16 * 1024], Duration::ZERO)
                    .await
            }
            Behaviour::Never | Behaviour::After(..) | Behaviour::Once(..) => {
                hung_up(&self.stream).await;
                Ok(Then::Close)
            }
        }
    }

    async fn answer_whole(
        &mut self,
        begun: &Begun,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<Then> {
        let mut answer = head(status, headers, &format!("content-length: {}", body.len()));
        answer.extend_from_slice(body);
        // Nobody would read it: the client gave up, and will repeat.
        if is_closed(&self.handle) {
            return Ok(Then::Close);
        }
        begun.answered(status);
        self.stream.write_all(&answer).await?;
        Ok(Then::KeepAlive)
    }

    /// Such an attempt stays unanswered in the log: nobody ever has the whole answer.
    async fn answer_without_end(&mut self, status: u16, piece: &[u8], pause: Duration) -> io::Result<Then> {
        self.stream.write_all(&head(status, &[], "connection: close")).await?;
        loop {
            tokio::select! {
                () = sleep(pause) => self.stream.write_all(piece).await?,
                () = hung_up(&self.stream) => return Ok(Then::Close),
            }
        }
    }

    async fn read_request(&mut self) -> io::Result<Option<Attempt>> {
        let Some(end) = self.read_head().await? else {
            return Ok(None);
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let pairs = lines.filter_map(|line| line.split_once(':'));
        let mut request = Attempt {
            method: first.next().unwrap_or_default(),
            path: first.next().unwrap_or_default(),
            headers: pairs
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
            body: Vec::new(),
            start: 0,
            started_at: Instant::now(),
            end: None,
            status: None,
            earlier: 0,
        };
        request.body = self.read_body(&request).await?;
        Ok(Some(request))
    }

    /// The length of the head with its empty line; None: the client hung up between requests.
    async fn read_head(&mut self) -> io::Result<Option<usize>> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                return Ok(Some(at + 4));
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(io::Error::other("the request's head does not end"));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn read_body(&mut self, request: &Attempt) -> io::Result<Vec<u8>> {
        if request
            .header("transfer-encoding")
            .is_some_and(|coding| coding.contains("chunked"))
        {
            return self.read_chunks().await;
        }
        let length = request.header("content-length").and_then(|length| length.parse().ok());
        self.read_exactly(length.unwrap_or(0)).await
    }

    async fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            body.extend(self.read_exactly(size).await?);
            // Behind a chunk its line's end; behind the last one no trailers, we ask for none.
            self.read_line().await?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn read_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            self.read_more().await?;
        }
    }

    async fn read_exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn read_more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn head(status: u16, headers: &[(String, String)], framing: &str) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Answer\r\n{framing}\r\n");
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    (head + "\r\n").into_bytes()
}

/// Returns when the client has closed or reset the connection.
async fn hung_up(stream: &TcpStream) {
    if let Ok(1..) = stream.peek(&mut [0]).await {
        // A next request before the answer: the client is still there.
        std::future::pending::<()>().await;
    }
}

/// Whether the client has hung up, without waiting.
pub(super) fn is_closed(handle: &std::net::TcpStream) -> bool {
    match handle.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
