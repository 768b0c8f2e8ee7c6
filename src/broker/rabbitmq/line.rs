//! One connection to the broker, every call on it bounded, and the slot that keeps one open.
//!
//! The client's own recovery stays off (docs/rabbitmq.md, *Recovery by the client*): a line that ended is thrown away
//! and a new one is opened by whoever needs it. A call may never be answered once the connection died of something
//! undecodable (docs/rabbitmq.md, *Undecodable messages*), so every call watches the end of its line and the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;

use super::address::Address;
use super::client_tls::ClientTls;
use super::failure::{CallError, Ended, connect_error, ended, unreachable};
use crate::ambient;
use crate::broker::BrokerError;

/// How long a connection may take to open.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// How long the broker may take to answer a call.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// How long an orderly close may take.
pub(super) const CLOSE: Duration = Duration::from_secs(5);

/// What opening a line needs, shared by all of a driver.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) address: Address,
    pub(super) vhost: String,
    /// What we prove who we are with, beside the login.
    pub(super) tls: Option<ClientTls>,
    name: RwLock<String>,
    /// Lines that were lost, of all roles.
    losses: Arc<AtomicU64>,
}

impl Dialer {
    pub(super) fn new(address: Address, vhost: String, tls: Option<ClientTls>, name: String) -> Self {
        Self {
            address,
            vhost,
            tls,
            name: RwLock::new(name),
            losses: Arc::default(),
        }
    }

    /// How many lines were lost by now.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    /// Where each loss is counted.
    pub(super) fn losses_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.losses)
    }

    /// The same broker's other vhost.
    pub(super) fn to(&self, vhost: &str) -> Self {
        Self::new(self.address.clone(), vhost.to_owned(), self.tls.clone(), self.name())
    }

    /// The name that this process's connections begin with.
    pub(super) fn name(&self) -> String {
        self.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The name of the connection for a role. Connections of a process are found by its first part.
    pub(super) fn connection_name(&self, role: &str) -> String {
        format!("{} {role}", self.name())
    }

    /// Opens a line to our vhost.
    pub(super) async fn open(&self, role: &str) -> Result<Arc<Line>, BrokerError> {
        self.open_vhost(role, &self.vhost, |_| ()).await
    }

    /// Opens a line; `notice` hears of alarms.
    pub(super) async fn open_vhost(
        &self,
        role: &str,
        vhost: &str,
        notice: impl Fn(Notice) + Send + 'static,
    ) -> Result<Arc<Line>, BrokerError> {
        let properties = ConnectionProperties::default().with_connection_name(self.connection_name(role).into());
        let failed = |error| connect_error(&self.address, vhost, &error);
        let tls = self.tls.as_ref().map(ClientTls::for_amqp).transpose();
        let tls = tls.map_err(|error| unreachable(error.to_string()))?.unwrap_or_default();
        let runtime = lapin::runtime::default_runtime().map_err(|error| failed(error.into()))?;
        let connecting = Connection::connect_uri_with_config(self.address.uri(vhost), properties, tls, runtime);
        let connection = match ambient::timeout(CONNECT, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(failed(error.into())),
            Err(_) => return Err(failed(CallError::Silent(CONNECT))),
        };
        Ok(Line::watched(connection, Arc::clone(&self.losses), notice))
    }
}

/// What a line says beside its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The broker takes no publishes from this connection (alarm).
    Blocked(String),
    /// It takes them again.
    Unblocked,
    /// The line ended.
    Ended(Ended),
}

/// An open connection.
pub(super) struct Line {
    connection: Connection,
    end: Arc<watch::Sender<Option<Ended>>>,
    losses: Arc<AtomicU64>,
    watcher: AbortHandle,
    /// Numbers of channels that came with the error of an earlier channel.
    wasted: AtomicU64,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("end", &*self.end.borrow())
            .finish_non_exhaustive()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Line {
    fn watched(connection: Connection, losses: Arc<AtomicU64>, notice: impl Fn(Notice) + Send + 'static) -> Arc<Self> {
        let end = Arc::new(watch::Sender::new(None));
        let mut events = connection.events_listener();
        let (ending, lost) = (Arc::clone(&end), Arc::clone(&losses));
        let watcher = ambient::spawn("broker-line", async move {
            while let Some(event) = events.next().await {
                #[expect(clippy::wildcard_enum_match_arm, reason = "the client's enum is not exhaustive")]
                match event {
                    Event::ConnectionBlocked(reason) => notice(Notice::Blocked(reason)),
                    Event::ConnectionUnblocked => notice(Notice::Unblocked),
                    Event::Error(error) => {
                        if let Some(ended) = ended(&error) {
                            finish(&ending, &lost, ended.clone());
                            notice(Notice::Ended(ended));
                        }
                    }
                    _ => {}
                }
            }
        });
        Arc::new(Self {
            connection,
            end,
            losses,
            watcher: watcher.abort_handle(),
            wasted: AtomicU64::new(0),
        })
    }

    /// Whether calls can still be made on it.
    pub(super) fn is_open(&self) -> bool {
        self.end.borrow().is_none() && self.connection.status().connected()
    }

    /// How it ended, waiting a moment for the reason of a connection that is visibly closed.
    pub(super) async fn reason(&self) -> Ended {
        let mut end = self.end.subscribe();
        let known = ambient::timeout(Duration::from_secs(1), end.wait_for(Option::is_some)).await;
        match known {
            Ok(Ok(reason)) => reason.clone().unwrap_or_else(unexplained),
            Ok(Err(_)) | Err(_) => unexplained(),
        }
    }

    /// Records its end, first reason wins, except that *undecodable* replaces a plain loss.
    pub(super) fn note(&self, ended: Ended) {
        finish(&self.end, &self.losses, ended);
    }

    /// The negotiated limits: channels and bytes of a frame, 0 for none.
    pub(super) fn limits(&self) -> (u16, u32) {
        let configuration = self.connection.configuration();
        (configuration.channel_max(), configuration.frame_max())
    }

    /// Nothing more is asked on it.
    pub(super) fn abandon(&self, why: &str) {
        self.note(Ended::Lost(why.to_owned()));
    }

    /// A new channel. The client keeps the error that ended a channel under its number and hands it to the next one that
    /// has that number, some 2,000 channels later (docs/rabbitmq.md, *Numbers of channels*): what is said there is about
    /// the earlier one, and the next number is taken. Each such number stays taken; when none is left the line is over.
    pub(super) async fn channel(&self) -> Result<Channel, CallError> {
        loop {
            match self.call(self.connection.create_channel()).await {
                Err(error) if error.is_of_a_channel() => {
                    self.wasted.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if error.says_no_channel_is_left() && self.wasted.load(Ordering::Relaxed) > 0 => {
                    self.abandon("no number of a channel is left");
                    return Err(CallError::Ended(Ended::Lost(error.text())));
                }
                opened => return opened,
            }
        }
    }

    /// Runs a call until its answer, the line's end or the bound; silence ends the line.
    pub(super) async fn call<T>(&self, call: impl Future<Output = lapin::Result<T>>) -> Result<T, CallError> {
        self.call_within(CALL, call).await
    }

    /// [`Line::call`] with another bound.
    pub(super) async fn call_within<T>(
        &self,
        bound: Duration,
        call: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, CallError> {
        let mut call = std::pin::pin!(call);
        // An answer that is there already needs neither a watch nor a timer.
        if let Some(answer) = call.as_mut().now_or_never() {
            return self.answer(answer);
        }
        let mut end = self.end.subscribe();
        tokio::select! {
            biased;
            answer = call => self.answer(answer),
            ended = end.wait_for(Option::is_some) => {
                Err(CallError::Ended(ended.ok().and_then(|ended| ended.clone()).unwrap_or_else(unexplained)))
            }
            () = ambient::sleep(bound) => {
                self.note(Ended::Lost(format!("no answer within {} s", bound.as_secs_f32())));
                Err(CallError::Silent(bound))
            }
        }
    }

    fn answer<T>(&self, answer: lapin::Result<T>) -> Result<T, CallError> {
        answer.map_err(|error| {
            if let Some(ended) = ended(&error) {
                self.note(ended);
            }
            CallError::Amqp(error)
        })
    }

    /// Closes the connection in order, within a bound.
    pub(super) async fn close(&self) {
        let closing = self.connection.close(200, "closing".into());
        // A connection that is lost already, or does not answer, is dropped all the same.
        match ambient::timeout(CLOSE, closing).await {
            // The broker took all that came before: nothing was lost with it.
            Ok(Ok(())) => drop(end_with(&self.end, Ended::Lost("closed".to_owned()))),
            Ok(Err(_)) | Err(_) => self.note(Ended::Lost("closed without an answer".to_owned())),
        }
    }
}

fn unexplained() -> Ended {
    Ended::Lost("connection lost".to_owned())
}

fn finish(end: &watch::Sender<Option<Ended>>, losses: &AtomicU64, ended: Ended) {
    if end_with(end, ended) {
        losses.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether this is its first end.
fn end_with(end: &watch::Sender<Option<Ended>>, ended: Ended) -> bool {
    let mut is_first = false;
    end.send_if_modified(|known| {
        is_first = known.is_none();
        let better = match known {
            None => true,
            Some(Ended::Lost(_)) => matches!(ended, Ended::Undecodable(_)),
            Some(Ended::Undecodable(_)) => false,
        };
        if better {
            *known = Some(ended);
        }
        better
    });
    is_first
}

/// Keeps one connection of a role open; who needs it and finds it ended opens it again.
///
/// Those who waited while an opening failed share its error: else each would wait for its own in turn.
#[derive(Debug)]
pub(super) struct Slot<C> {
    attempts: AtomicU64,
    held: Mutex<Held<C>>,
}

#[derive(Debug)]
struct Held<C> {
    connection: Option<Arc<C>>,
    failure: Option<BrokerError>,
}

/// A connection that a slot keeps.
pub(super) trait Kept {
    /// Whether calls can still be made on it.
    fn is_open(&self) -> bool;

    /// Closes it in order, within a bound.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

impl Kept for Line {
    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    async fn close(&self) {
        Self::close(self).await;
    }
}

impl<C: Kept> Slot<C> {
    pub(super) fn new() -> Self {
        Self {
            attempts: AtomicU64::new(0),
            held: Mutex::new(Held {
                connection: None,
                failure: None,
            }),
        }
    }

    /// The open connection, opened now if need be.
    pub(super) async fn get(
        &self,
        open: impl Future<Output = Result<Arc<C>, BrokerError>>,
    ) -> Result<Arc<C>, BrokerError> {
        let before = self.attempts.load(Ordering::SeqCst);
        let mut held = self.held.lock().await;
        if let Some(connection) = held.connection.as_ref().filter(|one| one.is_open()) {
            return Ok(Arc::clone(connection));
        }
        if let Some(failure) = held.failure.as_ref()
            && self.attempts.load(Ordering::SeqCst) != before
        {
            return Err(failure.clone());
        }
        held.connection = None;
        let opened = open.await;
        self.attempts.fetch_add(1, Ordering::SeqCst);
        held.failure = opened.as_ref().err().cloned();
        held.connection = opened.as_ref().ok().cloned();
        opened
    }

    /// Closes the connection, if there is one.
    pub(super) async fn close(&self) {
        let connection = self.held.lock().await.connection.take();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }
}
