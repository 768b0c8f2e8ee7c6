//! RabbitMQ as a model, in memory: what was measured of it, without a socket or a clock of its own.
//!
//! A message keeps its place while somebody has it in hand, and is there again when the channel ends. One consumer is
//! active at a time, the one that came first. A publish is confirmed when it is stored, and returned where nothing is
//! bound. An ack is on its way for a while: a connection that is cut forgets it. The server notices the end of a
//! connection late. Statistics are some seconds old. A queue that is being deleted takes what its binding still brings
//! it into its grave.
//!
//! The conformance tests of the suite run the same scripts against this model and a real server.

mod client;
mod consumer;
mod server;
mod walk;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive::internals::ambient;
use redrive::internals::broker::Signal;
use redrive::internals::domain::message::Message;
use redrive::internals::domain::naming::Naming;
use tokio::time::Instant;

pub use self::client::Client;
use self::server::Server;

/// Signals that may wait for a slow listener.
const SIGNALS: usize = 1024;
/// What a message takes at most from client to server, or back.
const WAY_US: u64 = 2_000;
/// How often the statistics are brought up to date.
const LISTED_EVERY: Duration = Duration::from_secs(5);
/// Between the look at whether a queue is empty and its end.
const DELETING: Duration = Duration::from_millis(3);

/// What can be turned round, to see that somebody notices.
#[allow(clippy::struct_excessive_bools, reason = "each is a rule by itself")]
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What was in hand is back in its place; else it is at the tail.
    pub returns_keep_their_place: bool,
    /// One consumer gets everything, the one that came first; else all of them get some.
    pub one_is_active: bool,
    /// What no queue takes is returned; else it is confirmed and gone.
    pub unroutable_is_returned: bool,
    /// What was not acked comes again; else whoever took it had it.
    pub unsettled_comes_again: bool,
    /// Of a quorum queue: what came back more often is moved to the dead letters.
    pub delivery_limit: Option<u32>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            returns_keep_their_place: true,
            one_is_active: true,
            unroutable_is_returned: true,
            unsettled_comes_again: true,
            delivery_limit: None,
        }
    }
}

/// What the server does with a message, for whoever keeps a record of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Stored,
    Dead,
    Settled,
    /// It was in a queue that was deleted.
    Destroyed,
}

type Record = Box<dyn Fn(Step, &str, &Message) + Send + Sync>;

/// The server.
#[derive(Clone)]
pub struct Model(Arc<Shared>);

struct Shared {
    naming: Naming,
    server: Mutex<Server>,
    record: Record,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Model").finish()
    }
}

impl Model {
    pub fn new(naming: Naming, rules: Rules) -> Self {
        Self::recorded(naming, rules, |_, _, _| {})
    }

    /// Tells `record` what becomes of each message.
    pub fn recorded(
        naming: Naming,
        rules: Rules,
        record: impl Fn(Step, &str, &Message) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            naming,
            server: Mutex::new(Server::new(rules)),
            record: Box::new(record),
        }))
    }

    /// A client of its own: a process.
    pub fn client(&self) -> Client {
        Client::new(self.clone())
    }

    /// What is in each delivery queue, in its order.
    pub fn waiting(&self) -> Vec<(String, Vec<Message>)> {
        self.contents(Naming::is_delivery_queue)
    }

    /// Declares a queue of others.
    pub fn declare(&self, name: &str) {
        self.server().queues.entry(name.to_owned()).or_default().bound = true;
    }

    /// Somebody else puts a message into a queue that is there.
    pub fn deposit(&self, name: &str, message: &Message) {
        if let Some(queue) = self.server().queues.get_mut(name) {
            queue.store(message);
        }
    }

    /// What is in this queue, in its order.
    pub fn inside(&self, name: &str) -> Vec<Message> {
        let inside = self.contents(|_, queue| queue == name);
        inside.into_iter().flat_map(|(_, messages)| messages).collect()
    }

    /// What is in the dead-letter queue.
    pub fn dead(&self) -> Vec<Message> {
        let dead = self.contents(|naming, name| name == naming.dead_letter_queue());
        dead.into_iter().flat_map(|(_, messages)| messages).collect()
    }

    fn contents(&self, wanted: impl Fn(&Naming, &str) -> bool) -> Vec<(String, Vec<Message>)> {
        let server = self.server();
        let wanted = server.queues.iter().filter(|(name, _)| wanted(&self.0.naming, name));
        let messages = |(name, queue): (&String, &server::Queue)| {
            let messages = queue.messages.iter().map(|stored| stored.message.clone());
            (name.clone(), messages.collect())
        };
        wanted.map(messages).collect()
    }

    /// The broker is away for so long; what it stored stays.
    pub fn stop_for(&self, span: Duration) {
        self.server().down_until = Some(Instant::now() + span);
    }

    /// Nothing is taken until it is lifted.
    pub fn alarm(&self, reason: Option<&str>) {
        let mut server = self.server();
        server.alarm = reason.map(str::to_owned);
        server.tell(&match reason {
            Some(reason) => Signal::Blocked(reason.to_owned()),
            None => Signal::Unblocked,
        });
    }

    /// A channel ended.
    fn leave(&self, queue: &str, consumer: u64) {
        let mut server = self.server();
        let overrun = server.leave(queue, consumer);
        self.bury(&mut server, queue, overrun);
    }

    /// By the dead-letter exchange that a quorum queue was declared with.
    fn bury(&self, server: &mut Server, queue: &str, messages: Vec<Message>) {
        for message in messages {
            let dead = server.queues.entry(self.0.naming.dead_letter_queue()).or_default();
            dead.store(&message);
            self.note(Step::Dead, queue, &message);
        }
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.0.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, step: Step, queue: &str, message: &Message) {
        (self.0.record)(step, queue, message);
    }

    /// Done by the server after a while, whatever becomes of who asked for it.
    fn later(&self, after: Duration, work: impl FnOnce(&Self) + Send + 'static) {
        let model = self.clone();
        tokio::spawn(async move {
            ambient::sleep(after).await;
            work(&model);
        });
    }
}

/// How long something is on its way.
fn way_span() -> Duration {
    Duration::from_micros(ambient::random() % WAY_US)
}

/// The way to the server or back.
async fn way() {
    ambient::sleep(way_span()).await;
}
