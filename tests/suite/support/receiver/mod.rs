//! A receiver of notifications: an HTTP server on a free loopback port that records every
//! attempt and misbehaves on demand, path by path, at runtime.
//!
//! It speaks HTTP/1.1 by hand, because a proper server refuses to trickle, to send endless
//! headers or to reset. An attempt's end is recorded *before* its answer is written, so a
//! sender that waits for the answer never seems to overlap itself.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::checker::{self, Seen};
use connection::{accept, is_closed};

mod connection;
mod tests;

/// How a path answers.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// With this status and no body.
    Status(u16),
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// Waits first; a client that hangs up meanwhile ends the attempt unanswered.
    After(Duration, Box<Behaviour>),
    /// Waits until the test cancels this, as [`Behaviour::After`].
    Once(CancellationToken, Box<Behaviour>),
    /// Accepts, reads, never answers.
    Never,
    /// Reads the request, then resets the connection.
    Reset,
    /// A proper head, then one byte of the body each time this long has passed, for ever.
    Trickle { status: u16, pause: Duration },
    /// One response header of this many bytes.
    HugeHeader { status: u16, bytes: usize },
    /// A body without end, as fast as it is read.
    EndlessBody { status: u16 },
}

impl Behaviour {
    pub fn redirect(location: &str) -> Self {
        let headers = vec![("location".to_owned(), location.to_owned())];
        Self::Answer {
            status: 302,
            headers,
            body: Vec::new(),
        }
    }

    pub fn retry_after(status: u16, value: &str) -> Self {
        let headers = vec![("retry-after".to_owned(), value.to_owned())];
        Self::Answer {
            status,
            headers,
            body: Vec::new(),
        }
    }

    pub fn after(self, pause: Duration) -> Self {
        Self::After(pause, Box::new(self))
    }

    pub fn once(self, told: &CancellationToken) -> Self {
        Self::Once(told.clone(), Box::new(self))
    }
}

/// One request as it came, with what became of it.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Position among all starts and ends that this process's receivers recorded.
    pub start: u64,
    pub started_at: Instant,
    /// None while open.
    pub end: Option<u64>,
    /// None until answered, for ever if it never is.
    pub status: Option<u16>,
    /// How many attempts of this path came before.
    pub earlier: usize,
}

impl Attempt {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// `Redrive-Queue`, empty where it is missing.
    pub fn queue(&self) -> &str {
        self.header("redrive-queue").unwrap_or_default()
    }

    /// `webhook-id`, empty where it is missing.
    pub fn id(&self) -> &str {
        self.header("webhook-id").unwrap_or_default()
    }

    /// `Redrive-Epoch`.
    pub fn epoch(&self) -> Option<u64> {
        self.header("redrive-epoch")?.parse().ok()
    }

    /// `Redrive-Sequence`.
    pub fn sequence(&self) -> Option<u64> {
        self.header("redrive-sequence")?.parse().ok()
    }

    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// The entry of the checker's log.
    pub fn seen(&self) -> Seen {
        Seen {
            queue: self.queue().to_owned(),
            id: self.id().to_owned(),
            epoch: self.epoch(),
            start: self.start,
            end: self.end,
            status: self.status,
            body_hash: checker::body_hash(&self.body),
        }
    }
}

type Rule = Arc<dyn Fn(&Attempt) -> Behaviour + Send + Sync>;

/// The server; it ends with this value.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    rules: HashMap<String, Rule>,
    attempts: Vec<Attempt>,
    /// Ids that were answered with a 2xx.
    delivered: HashSet<String>,
    per_path: HashMap<String, usize>,
    /// Unanswered attempts with a second handle on their connection.
    open: HashMap<usize, Arc<std::net::TcpStream>>,
}

/// One counter for all receivers, so that their logs can be judged together.
static ORDER: AtomicU64 = AtomicU64::new(1);

fn next_order() -> u64 {
    ORDER.fetch_add(1, Ordering::SeqCst)
}

impl Receiver {
    /// Listens on a free port of 127.0.0.1; every path answers 200 until told otherwise.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let listening = Some(tokio::spawn(accept(listener, Arc::clone(&shared))));
        Self {
            address,
            shared,
            listening,
        }
    }

    /// The URL of a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on; the query does not count. `*` stands for every path without a rule.
    pub fn behave(&self, path: &str, behaviour: Behaviour) {
        self.behave_by(path, move |_| behaviour.clone());
    }

    /// Decided for each attempt.
    pub fn behave_by(&self, path: &str, rule: impl Fn(&Attempt) -> Behaviour + Send + Sync + 'static) {
        self.shared.lock().rules.insert(path.to_owned(), Arc::new(rule));
    }

    /// Every attempt up to now by start, open ones too.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.shared.lock().attempts.clone()
    }

    /// Those of one path, the query aside.
    pub fn attempts_of(&self, path: &str) -> Vec<Attempt> {
        let log = self.shared.lock();
        log.attempts
            .iter()
            .filter(|attempt| without_query(&attempt.path) == path)
            .cloned()
            .collect()
    }

    pub fn count(&self) -> usize {
        self.shared.lock().attempts.len()
    }

    /// How many different notifications were answered with a 2xx.
    pub fn delivered(&self) -> usize {
        self.shared.lock().delivered.len()
    }

    /// The checker's log of this receiver.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().attempts.iter().map(Attempt::seen).collect()
    }

    /// Refuses connections and cuts those that are open.
    pub async fn stop_listening(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            // Cancelled, as asked for: then the listener and its connections are gone.
            let _ = listening.await;
        }
    }

    /// On the same port.
    pub async fn listen_again(&mut self) {
        self.stop_listening().await;
        let listener = super::wait::wait_until("the receiver's port", Duration::from_secs(10), async || {
            TcpListener::bind(self.address).await.ok()
        });
        let listener = listener.await;
        self.listening = Some(tokio::spawn(accept(listener, Arc::clone(&self.shared))));
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start and decides the answer.
    fn begin(&self, request: Attempt, handle: Arc<std::net::TcpStream>) -> (usize, Behaviour) {
        let mut log = self.lock();
        let path = without_query(&request.path).to_owned();
        let earlier = log.per_path.entry(path.clone()).or_default();
        let attempt = Attempt {
            earlier: *earlier,
            start: next_order(),
            started_at: Instant::now(),
            ..request
        };
        *earlier += 1;
        let rule = log.rules.get(&path).or_else(|| log.rules.get("*")).cloned();
        let number = log.attempts.len();
        log.attempts.push(attempt.clone());
        log.open.insert(number, handle);
        // The rule is a test's own code: it may look at the receiver.
        drop(log);
        (number, rule.map_or(Behaviour::Status(200), |rule| rule(&attempt)))
    }

    fn end(&self, number: usize, status: Option<u16>) {
        let mut log = self.lock();
        let Log {
            attempts,
            open,
            delivered,
            ..
        } = &mut *log;
        if open.remove(&number).is_some() {
            let attempt = &mut attempts[number];
            attempt.end = Some(next_order());
            attempt.status = status;
            if attempt.succeeded() {
                delivered.insert(attempt.id().to_owned());
            }
        }
    }

    /// Ends the attempts of `queue` whose client has hung up; says whether others are open.
    /// The connection's task may notice that later than the client's next request arrives.
    fn end_abandoned(&self, queue: &str) -> bool {
        let mut log = self.lock();
        let Log { attempts, open, .. } = &mut *log;
        let mut others = false;
        open.retain(|number, handle| {
            let attempt = &mut attempts[*number];
            if attempt.queue() != queue {
                return true;
            }
            let closed = is_closed(handle);
            if closed {
                attempt.end = Some(next_order());
            }
            others |= !closed;
            !closed
        });
        others
    }
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}
