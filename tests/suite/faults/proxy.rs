//! A way to a server that can be cut: a TCP proxy on a port of its own.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

use crate::support::wait::wait_until;

/// The way; cut with this value.
pub(super) struct Proxy {
    address: SocketAddr,
    server: String,
    task: Option<JoinHandle<()>>,
}

impl Proxy {
    /// To the host and port of `url`.
    pub(super) async fn to(url: &str) -> Self {
        let url = Url::parse(url).unwrap();
        let server = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = Some(tokio::spawn(forward(listener, server.clone())));
        Self { address, server, task }
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
        self.task = Some(tokio::spawn(forward(listener.await, self.server.clone())));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn forward(listener: TcpListener, server: String) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let server = server.clone();
        connections.spawn(async move {
            if let Ok(mut far) = TcpStream::connect(&server).await {
                // Either side may hang up whenever it likes.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
