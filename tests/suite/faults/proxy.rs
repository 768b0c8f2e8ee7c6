//! A way to a server that can be cut: a TCP proxy on a port of its own.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

use crate::support::wait::wait_until;

/// The way; cut with this value.
pub(super) struct Proxy {
    address: SocketAddr,
    server: String,
    /// Nothing goes on to the server once a client has sent this.
    stalls_at: &'static [u8],
    task: Option<JoinHandle<()>>,
}

impl Proxy {
    /// To the host and port of `url`.
    pub(super) async fn to(url: &str) -> Self {
        Self::stalling_at(b"", url).await
    }

    /// The same, and a connection falls silent once its client has sent `marker`.
    pub(super) async fn stalling_at(marker: &'static [u8], url: &str) -> Self {
        let url = Url::parse(url).unwrap();
        let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = Some(tokio::spawn(forward(listener, server.clone(), marker)));
        Self {
            address,
            server,
            stalls_at: marker,
            task,
        }
    }

    /// `url` with this way instead of its host and port.
    pub(super) fn through(&self, url: &str) -> String {
        let mut url = Url::parse(url).unwrap();
        url.set_port(Some(self.address.port())).unwrap();
        url.to_string()
    }

    /// Connections end, and new ones are refused.
    pub(super) async fn cut(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // Cancelled, as asked for.
            let _ = task.await;
        }
    }

    /// On the same port.
    pub(super) async fn mend(&mut self) {
        let address = self.address;
        let listener = wait_until("the proxy's port", super::scene::BOUND, async || {
            TcpListener::bind(address).await.ok()
        });
        self.task = Some(tokio::spawn(forward(
            listener.await,
            self.server.clone(),
            self.stalls_at,
        )));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn forward(listener: TcpListener, server: String, marker: &'static [u8]) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let server = server.clone();
        connections.spawn(async move {
            if let Ok(far) = TcpStream::connect(&server).await {
                // Either side may hang up whenever it likes.
                let _ = pump(near, far, marker).await;
            }
        });
    }
}

async fn pump(mut near: TcpStream, mut far: TcpStream, marker: &[u8]) -> std::io::Result<()> {
    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) = (near.split(), far.split());
    let up = async {
        let mut buffer = vec![0; 16_384];
        let mut sent: Vec<u8> = Vec::new();
        loop {
            let length = from_near.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            sent.extend(&buffer[..length]);
            if !marker.is_empty() && sent.windows(marker.len()).any(|bytes| bytes == marker) {
                std::future::pending::<()>().await;
            }
            // A marker may come in two parts.
            sent.drain(..sent.len().saturating_sub(marker.len()));
            to_far.write_all(&buffer[..length]).await?;
        }
    };
    tokio::select! {
        ended = up => ended,
        ended = tokio::io::copy(&mut from_far, &mut to_near) => ended.map(drop),
    }
}
