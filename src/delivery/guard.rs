//! The address rules as they hold now: our own broker and database are names, and names move.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Mutex;

use super::lookups::Lookups;
use crate::ambient::Clock;
use crate::domain::egress::{AddressRefusal, AddressRules};

/// How long what our own names lead to is taken for true.
const FRESH: Duration = Duration::from_secs(5);
/// How long one look may hold a request up; what was known before counts on then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Decides what is connected to.
#[derive(Debug)]
pub(super) struct Guard {
    configured: AddressRules,
    /// With the sockets that our own names lead to.
    now: RwLock<Arc<AddressRules>>,
    /// What each of our own names led to last, and when that was; whoever holds it looks.
    known: Mutex<Known>,
    looked: AtomicBool,
    lookups: Arc<Lookups>,
    clock: Clock,
}

#[derive(Debug)]
struct Known {
    sockets: Vec<Vec<SocketAddr>>,
    at: Option<Duration>,
}

impl Guard {
    pub(super) fn new(configured: AddressRules, lookups: Arc<Lookups>, clock: Clock) -> Self {
        let known = Known {
            sockets: vec![Vec::new(); configured.own_names.len()],
            at: None,
        };
        Self {
            now: RwLock::new(Arc::new(configured.clone())),
            known: Mutex::new(known),
            looked: AtomicBool::new(false),
            lookups,
            clock,
            configured,
        }
    }

    pub(super) fn check(&self, ip: IpAddr, port: u16) -> Result<(), AddressRefusal> {
        let rules = Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner));
        rules.check(ip, port)
    }

    /// Looks where our own names lead unless that was done just now, or is being done for another request. A name
    /// that leads nowhere counts as before.
    pub(super) async fn look(&self) {
        if self.configured.own_names.is_empty() {
            return;
        }
        let mut known = match self.known.try_lock() {
            Ok(known) => known,
            Err(_) if self.looked.load(Ordering::Acquire) => return,
            // The first look is waited for: nothing is known before.
            Err(_) => self.known.lock().await,
        };
        if known.at.is_some_and(|at| self.clock.uptime() < at + FRESH) {
            return;
        }
        for ((host, port), sockets) in self.configured.own_names.iter().zip(&mut known.sockets) {
            if let Ok(found) = self.lookups.find(host, *port, PATIENCE).await {
                *sockets = found;
            }
        }
        known.at = Some(self.clock.uptime());
        let mut rules = self.configured.clone();
        rules.own.extend(known.sockets.iter().flatten());
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.looked.store(true, Ordering::Release);
    }
}
