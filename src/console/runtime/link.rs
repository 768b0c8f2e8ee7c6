//! Opens store and broker, tells what the engine sees and does, and delivers where that was asked for.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::ConsoleError;
use crate::ambient::{self, Clock};
use crate::console::effects::Link;
use crate::console::state::event::{Event, Input};
use crate::console::state::settings::{Connect, Deliver};
use crate::domain::time::Timestamp;
use crate::engine::handle::Attached;
use crate::engine::observe::Observer;
use crate::engine::{self, EngineHandle, WriteGrant};

/// What only the process that has the broker can do.
const DELIVERING: &str = "delivering";
/// Between two tries.
const RETRY: Duration = Duration::from_secs(1);
/// How long a store may hold up the end with taking note that this console is gone.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// The way from store and broker to the screen.
pub(super) struct Linker {
    pub(super) connect: Connect,
    pub(super) link: Arc<OnceLock<Link>>,
    /// What the operator is permitted at present.
    pub(super) grants: watch::Receiver<Option<WriteGrant>>,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) clock: Clock,
    pub(super) refresh: Duration,
    pub(super) deliver: Deliver,
    /// Ends it; what is being delivered is drained first.
    pub(super) stop: CancellationToken,
}

impl Linker {
    /// Until the stop, and the drain where this process delivers.
    pub(super) async fn run(mut self) -> Result<(), ConsoleError> {
        let Some(engine) = self.open().await? else {
            return Ok(());
        };
        let observer = engine.observe(self.refresh, self.stop.clone());
        ambient::spawn("console snapshots", snapshots(observer.clone(), self.inputs.clone()));
        ambient::spawn("console events", events(engine.events(), self.inputs.clone()));
        let _ = self.link.set(Link {
            engine: engine.clone(),
            observer,
        });
        if let Some(attached) = engine.attached() {
            let said = attached.borrow().clone();
            let _ = self.inputs.send(Event::Attached(said).into()).await;
            ambient::spawn("console rights", rights(attached, self.inputs.clone()));
        }
        let _ = self.inputs.send(Event::Connected.into()).await;
        let attends = attend(engine.clone(), self.grants.clone(), self.stop.clone());
        let attends = ambient::spawn("console presence", attends);
        if matches!(self.deliver, Deliver::Always | Deliver::WhenAlone) {
            ambient::spawn("console work", work(engine.delivering(), self.inputs.clone()));
        }
        self.deliver(&engine).await?;
        self.stop.cancelled().await;
        let _ = attends.await;
        Ok(())
    }

    /// `None`: the stop came first.
    async fn open(&mut self) -> Result<Option<EngineHandle>, ConsoleError> {
        let mut problem = None;
        for attempt in 1.. {
            let next_at = self.clock.now();
            self.tell_connecting(problem, attempt, next_at).await;
            let opened = tokio::select! {
                opened = self.connect.open() => opened,
                () = self.stop.cancelled() => return Ok(None),
            };
            problem = match opened {
                Ok(engine) => return Ok(Some(engine)),
                Err(problem) if !problem.waiting_helps => return Err(ConsoleError::Connect(problem)),
                Err(problem) => Some(problem.text),
            };
            let next_at = self.clock.now().plus(RETRY);
            self.tell_connecting(problem.clone(), attempt.saturating_add(1), next_at)
                .await;
            tokio::select! {
                () = ambient::sleep(RETRY) => {}
                () = self.stop.cancelled() => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn tell_connecting(&mut self, problem: Option<String>, attempt: u32, next_at: Timestamp) {
        let event = Event::Connecting {
            problem,
            attempt,
            next_at,
        };
        let _ = self.inputs.send(event.into()).await;
    }

    async fn deliver(&mut self, engine: &EngineHandle) -> Result<(), ConsoleError> {
        match self.deliver {
            Deliver::Never | Deliver::Elsewhere => Ok(()),
            Deliver::Always => {
                let engine = engine.here(DELIVERING).map_err(ConsoleError::Engine)?;
                engine.run(self.stop.clone()).await.map_err(ConsoleError::Engine)
            }
            Deliver::WhenAlone => {
                let engine = engine.here(DELIVERING).map_err(ConsoleError::Engine)?;
                let runs = engine.run_when_alone(self.stop.clone());
                runs.await.map_err(ConsoleError::Engine)
            }
        }
    }
}

/// Others see who is here as long as something can be changed from here.
async fn attend(engine: EngineHandle, mut grants: watch::Receiver<Option<WriteGrant>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let over = stop.child_token();
        let grant = grants.borrow_and_update().clone();
        let attends = grant.map(|grant| {
            let (engine, over) = (engine.clone(), over.clone());
            ambient::spawn("console attends", async move { engine.attend(grant, over).await })
        });
        let changed = stop.run_until_cancelled(grants.changed()).await;
        over.cancel();
        if let Some(attends) = attends {
            // It goes on by itself; a process that ends before is found gone.
            let _ = ambient::timeout(LEAVE_MAX, attends).await;
        }
        if !matches!(changed, Some(Ok(()))) {
            return;
        }
    }
}

/// Only the newest one is ever waiting.
async fn snapshots(observer: Observer, inputs: mpsc::Sender<Input>) {
    let mut snapshots = observer.snapshots();
    while snapshots.changed().await.is_ok() {
        let newest = Arc::clone(&snapshots.borrow_and_update());
        if inputs.send(Event::Snapshot(newest).into()).await.is_err() {
            return;
        }
    }
}

/// What the daemon says of itself and of the token, whenever it says something else.
async fn rights(mut attached: watch::Receiver<Attached>, inputs: mpsc::Sender<Input>) {
    while attached.changed().await.is_ok() {
        let said = attached.borrow_and_update().clone();
        if inputs.send(Event::Attached(said).into()).await.is_err() {
            return;
        }
    }
}

/// Whether this process delivers.
async fn work(mut delivering: watch::Receiver<bool>, inputs: mpsc::Sender<Input>) {
    while delivering.changed().await.is_ok() {
        let delivers = *delivering.borrow_and_update();
        if inputs.send(Event::Delivering(delivers).into()).await.is_err() {
            return;
        }
    }
}

/// What the screen is too slow for is left out: the next snapshot has it.
async fn events(mut events: broadcast::Receiver<engine::Event>, inputs: mpsc::Sender<Input>) {
    loop {
        match events.recv().await {
            Ok(event) => {
                if inputs.send(Event::Engine(event).into()).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
