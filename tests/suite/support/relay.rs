//! A way to a server that fails as networks do: a TCP relay on a port of its own that can stop passing bytes
//! without closing anything, reset or forget connections, or let one answer go astray.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

use super::wait::{at_moment, within};

/// A server that takes no connection for this long is passed over.
const CONNECT_BOUND: Duration = Duration::from_secs(2);

/// The way; cut with this value.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// Connections go to the first that takes them.
    servers: Mutex<Vec<String>>,
    passing: watch::Sender<Passing>,
    /// Connections up to now.
    connections: AtomicUsize,
    /// When a client says this, the way falls silent.
    trap: Mutex<Option<Trap>>,
    /// Said once by the server instead of the first.
    astray: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
    /// How long each piece is on its way, in each direction.
    delay: Mutex<Duration>,
}

/// Which connections pass bytes, in both directions.
#[derive(Clone, Copy)]
struct Passing {
    open: bool,
    /// What is there is reset, and so is whatever comes.
    resets: bool,
    /// Earlier connections are silent for ever.
    from: usize,
}

/// Bytes of a client before or after which the way falls silent.
#[derive(Clone, Copy)]
pub enum Trap {
    /// The server does not hear them.
    Before(&'static [u8]),
    /// The server hears them, and its answer is not heard.
    After(&'static [u8]),
}

impl Relay {
    /// To the host and port of `url`.
    pub async fn to(url: &str) -> Self {
        Self::to_any(&[url]).await
    }

    /// To the first of these that takes a connection, as a load balancer leads to nodes of a cluster.
    pub async fn to_any(urls: &[&str]) -> Self {
        let shared = Arc::new(Shared {
            servers: Mutex::new(urls.iter().map(|url| address_of(url)).collect()),
            passing: watch::Sender::new(Passing {
                open: true,
                resets: false,
                from: 0,
            }),
            connections: AtomicUsize::new(0),
            trap: Mutex::default(),
            astray: Mutex::default(),
            delay: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self {
            address: listener.local_addr().expect("a bound listener has an address"),
            task: tokio::spawn(accept(listener, Arc::clone(&shared))),
            shared,
        }
    }

    /// `url` with this way instead of its host and port.
    pub fn through(&self, url: &str) -> String {
        let mut url = Url::parse(url).expect("a URL");
        url.set_host(Some(&self.address.ip().to_string()))
            .expect("a URL with a host");
        url.set_port(Some(self.address.port())).expect("a URL with a host");
        url.to_string()
    }

    /// New connections lead to the host and port of `url`.
    pub fn lead_to(&self, url: &str) {
        *self.shared.servers.lock().unwrap() = vec![address_of(url)];
    }

    /// The port of this machine where it begins.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Nothing passes any more; connections stay as they are, and new ones are taken and hear nothing.
    pub fn silence(&self) {
        self.shared.passing.send_modify(|passing| passing.open = false);
    }

    /// [`Relay::silence`] once a client says something.
    pub fn silence_at(&self, trap: Trap) {
        *self.shared.trap.lock().unwrap() = Some(trap);
    }

    pub fn is_silent(&self) -> bool {
        !self.shared.passing.borrow().open
    }

    /// Connections are reset, on both sides, and so is each new one, until the way is healed.
    pub fn reset(&self) {
        self.shared.passing.send_modify(|passing| passing.resets = true);
    }

    /// Everything passes again, what was held back first.
    pub fn heal(&self) {
        self.shared.passing.send_modify(|passing| {
            passing.open = true;
            passing.resets = false;
        });
    }

    /// New connections pass. The way has forgotten those of before: they are silent for ever, on both sides.
    pub fn heal_for_new_connections(&self) {
        let from = self.connections();
        self.shared.passing.send_modify(|passing| {
            *passing = Passing {
                open: true,
                resets: false,
                from,
            }
        });
    }

    /// Each piece of bytes is that long on its way from now on, and the next begins only then.
    pub fn delay(&self, delay: Duration) {
        *self.shared.delay.lock().unwrap() = delay;
    }

    /// Connections that were taken up to now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// The next time that the server says `truth` the client hears `instead`.
    pub fn say_instead(&self, truth: &str, instead: &str) {
        assert_eq!(truth.len(), instead.len(), "frames have a length");
        *self.shared.astray.lock().unwrap() = Some((truth.into(), instead.into()));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn address_of(url: &str) -> String {
    let url = Url::parse(url).expect("a URL");
    format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"))
}

/// Connections end with this task.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let number = shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            shared.passes(number).await;
            let servers = shared.servers.lock().unwrap().clone();
            for server in servers {
                if let Ok(Ok(far)) = within(CONNECT_BOUND, TcpStream::connect(&server)).await {
                    return relay(near, far, &shared, number).await;
                }
            }
        });
    }
}

/// Until both sides have hung up, or the way resets them.
async fn relay(near: TcpStream, far: TcpStream, shared: &Shared, number: usize) {
    for stream in [&near, &far] {
        // Where the way does not reset it, it is closed in order before it is dropped.
        let _ = stream.set_zero_linger();
    }
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = far.into_split();
    // Either side may hang up whenever it likes.
    let both = async {
        let _ = tokio::join!(
            pump(from_near, to_far, shared, number, true),
            pump(from_far, to_near, shared, number, false),
        );
    };
    tokio::select! {
        () = both => {}
        () = shared.resets() => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    number: usize,
    is_client: bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        let length = from.read(&mut buffer).await?;
        let said = &mut buffer[..length];
        let trapped = is_client.then(|| shared.trapped(said)).flatten();
        if matches!(trapped, Some(Trap::Before(_))) {
            shared.passing.send_modify(|passing| passing.open = false);
        }
        shared.passes(number).await;
        if length == 0 {
            return to.shutdown().await;
        }
        let delay = *shared.delay.lock().unwrap();
        if !delay.is_zero() {
            at_moment(delay).await;
        }
        if !is_client {
            shared.replace(said);
        }
        to.write_all(said).await?;
        if matches!(trapped, Some(Trap::After(_))) {
            shared.passing.send_modify(|passing| passing.open = false);
        }
    }
}

impl Shared {
    /// Until the connection may pass bytes.
    async fn passes(&self, number: usize) {
        let mut passing = self.passing.subscribe();
        // The sender lives as long as this value.
        let _ = passing.wait_for(|passing| passing.open && number >= passing.from).await;
    }

    /// Until connections are reset.
    async fn resets(&self) {
        let mut passing = self.passing.subscribe();
        // The sender lives as long as this value.
        let _ = passing.wait_for(|passing| passing.resets).await;
    }

    fn trapped(&self, said: &[u8]) -> Option<Trap> {
        let mut trap = self.trap.lock().unwrap();
        let (Trap::Before(bytes) | Trap::After(bytes)) = (*trap)?;
        find(said, bytes).and_then(|_| trap.take())
    }

    fn replace(&self, said: &mut [u8]) {
        let mut astray = self.astray.lock().unwrap();
        let Some((truth, instead)) = &*astray else { return };
        if let Some(at) = find(said, truth) {
            said[at..at + instead.len()].copy_from_slice(instead);
            *astray = None;
        }
    }
}

fn find(said: &[u8], bytes: &[u8]) -> Option<usize> {
    said.windows(bytes.len()).position(|window| window == bytes)
}
