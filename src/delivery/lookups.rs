//! Lookups of names, beside everything else that this process does.
//!
//! The system's lookup blocks its thread for as long as name servers are silent, up to minutes, and cannot be ended.
//! Promises: lookups have threads of their own, so that nothing but a lookup waits for one; one name is looked up
//! once at a time, and all who ask for it get that answer; names that were silent have few threads together, and
//! names that answered have threads which no other name takes; nobody waits longer than his patience.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};

use super::resolver::ResolveError;
use crate::ambient::{self, Clock, HashMap};

/// Threads for names that answered the last time.
const ANSWERING_MAX: usize = 192;
/// Threads for names of which nothing is known.
const NEW_MAX: usize = 256;
/// Threads for names that were silent the last time.
const SILENT_MAX: usize = 64;
/// A name was silent when its lookup took longer and found nothing. One packet that is lost delays an answer by as much.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// Names that are looked up, or wait for that, at most, and names whose last lookup is remembered.
const NAMES_MAX: usize = 10_000;
/// What the system's lookup needs, with the modules that it loads.
const STACK_BYTES: usize = 512 * 1024;

/// The system's lookup, or that of a test. The port means nothing.
type Ask = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// How far a lookup is.
#[derive(Clone)]
enum Stage {
    /// It waits for a thread of its own.
    Waits,
    /// The name was silent the last time, and waits for a thread behind others that were.
    WaitsBehind,
    /// Nobody has answered.
    Asked,
    /// The system has no thread for it.
    NoThread(Arc<io::Error>),
    /// What came of it.
    Ended(Arc<io::Result<Vec<SocketAddr>>>),
}

/// The lookups that are under way, and how the last ones ended.
pub(super) struct Lookups {
    ask: Arc<Ask>,
    stack_bytes: usize,
    clock: Clock,
    state: Mutex<State>,
    answering: Semaphore,
    new: Semaphore,
    silent: Semaphore,
}

#[derive(Default)]
struct State {
    under_way: HashMap<String, watch::Receiver<Stage>>,
    /// By name, how its last lookup ended.
    last: HashMap<String, Last>,
}

/// How a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// The name server said something.
    Answered,
    Silent,
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl Lookups {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Self::asking(Arc::new(of_system), STACK_BYTES, clock)
    }

    fn asking(ask: Arc<Ask>, stack_bytes: usize, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            ask,
            stack_bytes,
            clock,
            state: Mutex::default(),
            answering: Semaphore::new(ANSWERING_MAX),
            new: Semaphore::new(NEW_MAX),
            silent: Semaphore::new(SILENT_MAX),
        })
    }

    /// What `host` leads to now, with this port. The lookup goes on when nobody waits for it any more.
    pub(super) async fn find(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        patience: Duration,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let mut answer = self.join(host)?;
        let ending = answer.wait_for(|stage| matches!(stage, Stage::Ended(_) | Stage::NoThread(_)));
        // Also one that was given up ends the waiting.
        let _ = ambient::timeout(patience, ending).await;
        let stage = answer.borrow().clone();
        match stage {
            Stage::Ended(found) => match &*found {
                Ok(found) => Ok(found.iter().map(|to| with_port(*to, port)).collect()),
                Err(error) => Err(ResolveError::Lookup(again(error))),
            },
            Stage::Asked => Err(ResolveError::Silent(host.to_owned())),
            Stage::Waits => Err(ResolveError::Full(host.to_owned())),
            Stage::WaitsBehind => Err(ResolveError::Behind(host.to_owned())),
            Stage::NoThread(error) => Err(ResolveError::NoThread(host.to_owned(), again(&error))),
        }
    }

    /// The lookup of this name that is under way, or a new one.
    fn join(self: &Arc<Self>, host: &str) -> Result<watch::Receiver<Stage>, ResolveError> {
        let mut state = self.state();
        if let Some(answer) = state.under_way.get(host) {
            return Ok(answer.clone());
        }
        if state.under_way.len() >= NAMES_MAX {
            return Err(ResolveError::Full(host.to_owned()));
        }
        let last = state.last.get(host).copied();
        let (tell, answer) = watch::channel(if last == Some(Last::Silent) {
            Stage::WaitsBehind
        } else {
            Stage::Waits
        });
        state.under_way.insert(host.to_owned(), answer.clone());
        drop(state);
        let (lookups, host) = (Arc::clone(self), host.to_owned());
        ambient::spawn("look up a name", async move {
            let threads = match last {
                None => &lookups.new,
                Some(Last::Answered) => &lookups.answering,
                Some(Last::Silent) => &lookups.silent,
            };
            let _thread = threads.acquire().await;
            tell.send_replace(Stage::Asked);
            let begun = lookups.clock.uptime();
            let looked = lookups.look(&host).await;
            let took = lookups.clock.uptime().saturating_sub(begun);
            let ended = match looked {
                Ok(found) => {
                    let last = if found.is_err() && took >= SILENT_AFTER {
                        Last::Silent
                    } else {
                        Last::Answered
                    };
                    lookups.remember(&host, last);
                    Stage::Ended(Arc::new(found))
                }
                Err(error) => Stage::NoThread(Arc::new(error)),
            };
            lookups.state().under_way.remove(&host);
            tell.send_replace(ended);
        });
        Ok(answer)
    }

    /// What was found; an error of the thread says nothing of the name.
    async fn look(&self, host: &str) -> io::Result<io::Result<Vec<SocketAddr>>> {
        let (tell, answer) = oneshot::channel();
        let (ask, host) = (Arc::clone(&self.ask), host.to_owned());
        let thread = std::thread::Builder::new().name("lookup".to_owned());
        thread.stack_size(self.stack_bytes).spawn(move || {
            let _ = tell.send(ask(&host));
        })?;
        let found = answer.await;
        Ok(found.unwrap_or_else(|_| Err(io::Error::other("the lookup ended without an answer"))))
    }

    fn remember(&self, host: &str, last: Last) {
        let mut state = self.state();
        if state.last.len() >= NAMES_MAX {
            state.last.clear();
        }
        state.last.insert(host.to_owned(), last);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_system(host: &str) -> io::Result<Vec<SocketAddr>> {
    (host, 0).to_socket_addrs().map(Iterator::collect)
}

const fn with_port(mut to: SocketAddr, port: u16) -> SocketAddr {
    to.set_port(port);
    to
}

/// The same error for another one who asked.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    /// Names with `silent` in them are silent while `hold` lives, and those with `dead` find nothing then. Counts the threads
    /// that they take.
    fn lookups(clock: &Clock) -> (Arc<Lookups>, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (hold, held) = mpsc::channel::<()>();
        let (held, silent) = (Mutex::new(held), Arc::new(AtomicUsize::new(0)));
        let taken = Arc::clone(&silent);
        let ask = move |host: &str| {
            if host.contains("silent") || host.contains("dead") {
                taken.fetch_add(1, Ordering::SeqCst);
                let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
            if host.contains("dead") {
                return Err(io::Error::other("temporary failure in name resolution"));
            }
            Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))])
        };
        (Lookups::asking(Arc::new(ask), STACK_BYTES, clock.clone()), hold, silent)
    }

    #[tokio::test]
    async fn names_that_are_silent_stop_neither_others_nor_blocking_work() {
        let (lookups, hold, taken) = lookups(&Clock::system());
        let port = 7;
        lookups.find("ok.example", port, LONG).await.unwrap();
        let names: Vec<String> = (0..600).map(|number| format!("h{number}.silent.example")).collect();
        let asked = names.iter().map(|name| lookups.find(name, port, PATIENCE));
        for found in futures_util::future::join_all(asked).await {
            let error = found.unwrap_err();
            assert!(
                matches!(error, ResolveError::Silent(_) | ResolveError::Full(_)),
                "{error}"
            );
        }
        // Nobody is accused who was not asked.
        let new = lookups.find("new.example", port, PATIENCE).await.unwrap_err();
        assert!(matches!(new, ResolveError::Full(_)), "{new}");
        let found = ambient::timeout(Duration::from_secs(1), lookups.find("ok.example", port, LONG)).await;
        assert_eq!(found.unwrap().unwrap(), [SocketAddr::from(([192, 0, 2, 1], 7))]);
        assert_eq!(tokio::task::spawn_blocking(|| 1).await.unwrap(), 1);
        assert!(taken.load(Ordering::SeqCst) <= NEW_MAX);
        drop(hold);
        lookups.find("h599.silent.example", port, LONG).await.unwrap();
    }

    #[tokio::test]
    async fn all_who_ask_for_one_name_wait_for_one_lookup() {
        let (lookups, hold, taken) = lookups(&Clock::system());
        for _ in 0..100 {
            lookups.find("silent.example", 7, Duration::ZERO).await.unwrap_err();
        }
        let waiting = lookups.find("silent.example", 80, LONG);
        drop(hold);
        assert_eq!(waiting.await.unwrap()[0].port(), 80);
        assert_eq!(taken.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_name_that_was_silent_once_takes_no_thread_of_others() {
        let clock = Clock::manual(crate::domain::time::Timestamp::from_seconds(1_800_000_000));
        let (lookups, hold, _) = lookups(&clock);
        let free = || [&lookups.answering, &lookups.new, &lookups.silent].map(Semaphore::available_permits);
        // An answer that comes late is one: a packet was lost.
        lookups.find("silent.example", 7, PATIENCE).await.unwrap_err();
        clock.advance(SILENT_AFTER);
        hold.send(()).unwrap();
        lookups.find("silent.example", 7, LONG).await.unwrap();
        lookups.find("silent.example", 7, PATIENCE).await.unwrap_err();
        assert_eq!(free(), [ANSWERING_MAX - 1, NEW_MAX, SILENT_MAX]);
        hold.send(()).unwrap();
        lookups.find("silent.example", 7, LONG).await.unwrap();
        lookups.find("dead.example", 7, PATIENCE).await.unwrap_err();
        clock.advance(SILENT_AFTER);
        hold.send(()).unwrap();
        lookups.find("dead.example", 7, LONG).await.unwrap_err();
        lookups.find("dead.example", 7, PATIENCE).await.unwrap_err();
        assert_eq!(free(), [ANSWERING_MAX, NEW_MAX, SILENT_MAX - 1]);
        drop(hold);
    }

    #[tokio::test]
    async fn a_name_that_waits_behind_others_that_were_silent_is_told_to_wait() {
        let (lookups, hold, _) = lookups(&Clock::system());
        let names: Vec<String> = (0..=SILENT_MAX)
            .map(|number| format!("h{number}.dead.example"))
            .collect();
        for name in &names {
            lookups.remember(name, Last::Silent);
        }
        // So many threads begin within it on a busy machine, too.
        let patience = 20 * PATIENCE;
        let asked = names.iter().map(|name| lookups.find(name, 7, patience));
        let found = futures_util::future::join_all(asked).await;
        let behind = found
            .iter()
            .filter(|found| matches!(found, Err(ResolveError::Behind(_))));
        assert_eq!(behind.count(), 1);
        drop(hold);
    }

    #[tokio::test]
    async fn a_name_is_not_accused_where_the_system_has_no_thread() {
        let ask = |_: &str| Ok(Vec::new());
        let lookups = Lookups::asking(Arc::new(ask), 1 << 46, Clock::system());
        let error = lookups.find("ok.example", 7, LONG).await.unwrap_err();
        assert!(matches!(error, ResolveError::NoThread(..)), "{error}");
        assert!(lookups.state().last.is_empty() && lookups.state().under_way.is_empty());
    }
}
