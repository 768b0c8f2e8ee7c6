//! The smallest HTTP/1.1 server that a receiver needs: it can stop listening and come back.
//!
//! Every read has a bound. A request that has begun to arrive is answered before its connection is
//! closed, so that an outage never makes a duplicate. Left out on purpose: chunked requests, which our
//! sender does not make.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::receivers::Receiver;
use crate::ambient;

const CONNECTIONS_MAX: usize = 256;
const HEAD_BYTES_MAX: u64 = 64 * 1024;
const BODY_BYTES_MAX: u64 = 1024 * 1024;
/// A request has to arrive within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// After an accept that failed, such as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What of a request matters here.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// A `HEAD` request has an answer without a body.
    pub(super) head_only: bool,
    /// `webhook-id`.
    pub(super) id: Option<String>,
    /// `Redrive-Queue`.
    pub(super) queue: Option<String>,
}

/// Serves until `stop`, then closes the listener at once and each connection after its request.
pub(super) async fn serve(listener: TcpListener, receiver: Arc<Receiver>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&receiver), stop.clone()));
                }
                Err(_) => ambient::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, receiver: Arc<Receiver>, stop: CancellationToken) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let begun = tokio::select! {
            biased;
            filled = stream.fill_buf() => !filled?.is_empty(),
            () = stop.cancelled() => false,
        };
        if !begun {
            return Ok(());
        }
        let request = ambient::timeout(READ_TIMEOUT, read_request(&mut stream)).await??;
        let status = receiver.answer(&request).await;
        stream.write_all(&response(status, request.head_only)).await?;
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> io::Result<Received> {
    let mut head = stream.take(HEAD_BYTES_MAX);
    let mut received = Received::default();
    let mut length = 0;
    let mut first = true;
    loop {
        let mut line = Vec::new();
        head.read_until(b'\n', &mut line).await?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if std::mem::take(&mut first) {
            received.head_only = line.starts_with("HEAD ");
        } else if line.is_empty() {
            break;
        } else if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(|_| io::ErrorKind::InvalidData)?,
                "webhook-id" => received.id = Some(value.to_owned()),
                "redrive-queue" => received.queue = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    skip_body(stream, length).await?;
    Ok(received)
}

async fn skip_body(stream: &mut BufReader<TcpStream>, length: u64) -> io::Result<()> {
    if length > BODY_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let read = tokio::io::copy(&mut stream.take(length), &mut tokio::io::sink()).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn response(status: u16, head_only: bool) -> Vec<u8> {
    let (reason, body) = match status {
        200 => ("OK", r#"{"received":true}"#),
        410 => ("Gone", r#"{"error":"this webhook was removed"}"#),
        500 => ("Internal Server Error", r#"{"error":"cannot write to the ledger"}"#),
        _ => ("Service Unavailable", r#"{"error":"overloaded, try later"}"#),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let body = if head_only { "" } else { body };
    [head.as_bytes(), body.as_bytes()].concat()
}
