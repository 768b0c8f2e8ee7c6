//! What opening a connection to the broker needs, how long everything may take, and the slot that keeps one open.
//!
//! A connection that ended is thrown away, and a new one is opened by whoever needs it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Mutex;

use super::address::Address;
use super::client_tls::ClientTls;
use crate::broker::BrokerError;

/// How long a connection may take to open.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// How long the broker may take to answer a call.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// How long an orderly close may take.
pub(super) const CLOSE: Duration = Duration::from_secs(5);

/// What opening a connection needs, shared by all of a driver.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) address: Address,
    pub(super) vhost: String,
    /// What we prove who we are with, beside the login.
    pub(super) tls: Option<ClientTls>,
    name: RwLock<String>,
    /// Connections that were lost, of all roles.
    losses: Arc<AtomicU64>,
    /// Those that ended on something undecodable though nothing of a delivery queue comes on them.
    garbled: Arc<AtomicU64>,
}

impl Dialer {
    pub(super) fn new(address: Address, vhost: String, tls: Option<ClientTls>, name: String) -> Self {
        Self {
            address,
            vhost,
            tls,
            name: RwLock::new(name),
            losses: Arc::default(),
            garbled: Arc::default(),
        }
    }

    /// How many connections were lost by now.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    /// Where each loss is counted.
    pub(super) fn losses_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.losses)
    }

    /// Where each connection is counted that was garbled, and not by a message of a delivery queue.
    pub(super) fn garbled_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.garbled)
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
