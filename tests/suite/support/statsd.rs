//! A statsd: a real UDP socket that remembers every line it was sent.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::wait::wait_until;

/// Numbers wait in the sender until a datagram of them is full.
const LONG: Duration = Duration::from_mins(2);

pub struct Statsd {
    socket: UdpSocket,
    lines: Vec<String>,
}

impl Statsd {
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            lines: Vec::new(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Waits for exactly these lines.
    pub async fn hears(&mut self, lines: &[&str]) {
        wait_until(format!("statsd to hear {lines:?}"), LONG, async || {
            let mut datagram = [0; 8_192];
            while let Ok(length) = self.socket.recv(&mut datagram) {
                let text = String::from_utf8_lossy(&datagram[..length]);
                self.lines.extend(text.lines().map(str::to_owned));
            }
            let heard = |line: &&str| self.lines.iter().any(|one| one == line);
            lines.iter().all(heard).then_some(())
        })
        .await;
    }
}
