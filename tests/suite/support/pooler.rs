//! A pooler in transaction mode before a PostgreSQL server: each transaction, and each statement outside of one, has
//! the session that was free last, whoever began it. The server must let the user in without a password.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

/// What a client asks before it says who it is.
const TLS_WANTED: u32 = 80_877_103;

/// The pooler; gone with this value.
pub struct Pooler {
    address: SocketAddr,
    task: JoinHandle<()>,
}

struct Shared {
    server: String,
    free: Mutex<Vec<TcpStream>>,
    freed: Notify,
}

impl Pooler {
    /// Before the host and port of `url`.
    pub async fn before(url: &str) -> Self {
        let url = Url::parse(url).expect("a URL");
        let shared = Arc::new(Shared {
            server: format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port")),
            free: Mutex::default(),
            freed: Notify::new(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self {
            address: listener.local_addr().expect("a bound listener has an address"),
            task: tokio::spawn(accept(listener, shared)),
        }
    }

    /// `url` by way of the pooler.
    pub fn through(&self, url: &str) -> String {
        let mut url = Url::parse(url).expect("a URL");
        url.set_port(Some(self.address.port())).expect("a URL with a host");
        url.to_string()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut clients = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        clients.spawn(serve(client, Arc::clone(&shared)));
    }
}

/// Until the client leaves; `None` says only that it did.
async fn serve(mut client: TcpStream, shared: Arc<Shared>) -> Option<()> {
    let mut held = Some(welcome(&mut client, &shared).await?);
    shared.give_back(&mut held);
    loop {
        let asked = question(&mut client).await?;
        let mut session = match held.take() {
            Some(session) => session,
            None => shared.take().await,
        };
        session.write_all(&asked).await.ok()?;
        let is_in_transaction = relay_answers(&mut session, &mut client).await? != b'I';
        held = Some(session);
        if !is_in_transaction {
            shared.give_back(&mut held);
        }
    }
}

/// A new session of the server, begun with what this client says of itself.
async fn welcome(client: &mut TcpStream, shared: &Shared) -> Option<TcpStream> {
    loop {
        let length = client.read_u32().await.ok()?;
        let mut rest = vec![0; length.checked_sub(4)? as usize];
        client.read_exact(&mut rest).await.ok()?;
        if rest.starts_with(&TLS_WANTED.to_be_bytes()) {
            client.write_all(b"N").await.ok()?;
            continue;
        }
        let mut session = TcpStream::connect(&shared.server).await.ok()?;
        session.write_all(&length.to_be_bytes()).await.ok()?;
        session.write_all(&rest).await.ok()?;
        relay_answers(&mut session, client).await?;
        return Some(session);
    }
}

/// The client's messages up to the one after which it waits.
async fn question(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut asked = Vec::new();
    loop {
        let kind = message(client, &mut asked).await?;
        match kind {
            b'Q' | b'S' => return Some(asked),
            b'X' => return None,
            _ => {}
        }
    }
}

/// Passes answers on up to the one that says that the server is ready; gives its state.
async fn relay_answers(session: &mut TcpStream, client: &mut TcpStream) -> Option<u8> {
    loop {
        let mut answer = Vec::new();
        let kind = message(session, &mut answer).await?;
        client.write_all(&answer).await.ok()?;
        if kind == b'Z' {
            return answer.last().copied();
        }
    }
}

/// Reads one message to the end of `read`; gives its kind.
async fn message(from: &mut TcpStream, read: &mut Vec<u8>) -> Option<u8> {
    let kind = from.read_u8().await.ok()?;
    let length = from.read_u32().await.ok()?;
    read.push(kind);
    read.extend(length.to_be_bytes());
    let begin = read.len();
    read.resize(begin + length.checked_sub(4)? as usize, 0);
    from.read_exact(&mut read[begin..]).await.ok()?;
    Some(kind)
}

impl Shared {
    async fn take(&self) -> TcpStream {
        loop {
            let freed = self.freed.notified();
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match free {
                Some(session) => return session,
                None => freed.await,
            }
        }
    }

    fn give_back(&self, held: &mut Option<TcpStream>) {
        if let Some(session) = held.take() {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(session);
            self.freed.notify_one();
        }
    }
}
