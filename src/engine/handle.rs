//! What consoles and commands work with: an engine of this process, or that of a daemon elsewhere.
//!
//! Both answer the same queries, plan and carry out the same commands and tell the same news. What only the process that
//! delivers can do is asked of [`EngineHandle::here`].

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::calls::Call;
use super::command::{Command, Done, Plan, WriteGrant};
use super::dead::{DeadSelection, Exported};
use super::error::EngineError;
use super::event::Event;
use super::observe::Observer;
use super::query::{self, Query};
use super::reveal::Reveal;
use super::runs::RunView;
use crate::ambient;
use crate::domain::id::{ExecutionId, QueueName};
use crate::domain::naming::Naming;
use crate::domain::run::RunState;
use crate::domain::url::EndpointUrl;

/// Between two looks at a run that is worked on elsewhere.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// An engine in another process.
pub trait RemoteEngine: Debug + Send + Sync {
    /// The names that it uses.
    fn naming(&self) -> &Naming;

    /// The vhost, and what the token may do, each time that the daemon says it.
    fn attached(&self) -> watch::Receiver<Attached>;

    /// The answer to a query, by the query's name; both are JSON.
    fn ask<'a>(&'a self, query: &'static str, given: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, EngineError>>;

    /// Does what needs no plan, by the call's name, once; both are JSON.
    fn call<'a>(&'a self, call: &'static str, given: Vec<u8>) -> BoxFuture<'a, Result<Vec<u8>, EngineError>>;

    /// What a command would do at present.
    fn plan<'a>(&'a self, command: &'a Command) -> BoxFuture<'a, Result<Plan, EngineError>>;

    /// Does what was planned there, once.
    fn execute<'a>(&'a self, plan: &'a Plan, grant: &'a WriteGrant) -> BoxFuture<'a, Result<Done, EngineError>>;

    /// Writes down there who looks at what is masked.
    fn reveal<'a>(&'a self, reveal: &'a Reveal, grant: &'a WriteGrant) -> BoxFuture<'a, Result<(), EngineError>>;

    /// Dead letters with their messages, as they are read there.
    fn export_dead(&self, selection: DeadSelection) -> BoxFuture<'_, Result<mpsc::Receiver<Exported>, EngineError>>;

    /// What happens there; a slow receiver misses some.
    fn events(&self) -> broadcast::Receiver<Event>;

    /// What is seen from there, until `stop`.
    fn observe(&self, stop: CancellationToken) -> Observer;

    /// Ends the connections.
    fn close(&self);
}

/// What a daemon says to a process that attaches to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Attached {
    /// Its vhost (from outside).
    pub vhost: String,
    /// Whether the token may change something.
    pub may_change: bool,
    /// Whether it may change what policies, types and subscriptions say.
    pub may_administer: bool,
}

/// An engine, wherever it is.
#[derive(Clone, Debug)]
pub enum EngineHandle {
    /// In this process.
    Local(Engine),
    /// In a daemon that this process is attached to.
    Remote(std::sync::Arc<dyn RemoteEngine>),
}

impl From<Engine> for EngineHandle {
    fn from(engine: Engine) -> Self {
        Self::Local(engine)
    }
}

impl EngineHandle {
    /// The engine, where it is in this process.
    ///
    /// # Errors
    /// It is in a daemon: `what` is only done there.
    pub fn here(&self, what: &str) -> Result<&Engine, EngineError> {
        match self {
            Self::Local(engine) => Ok(engine),
            Self::Remote(_) => Err(EngineError::Refused {
                why: format!(
                    "{what} is not possible from an attached daemon: run it where the daemon runs, without `attach` and `daemon`"
                ),
            }),
        }
    }

    /// The names in use.
    #[must_use]
    pub fn naming(&self) -> &Naming {
        match self {
            Self::Local(engine) => engine.naming(),
            Self::Remote(remote) => remote.naming(),
        }
    }

    /// The delivery queue of an execution and URL, whether or not it is there.
    ///
    /// # Errors
    /// The daemon cannot be reached, which alone knows the key of the names.
    pub async fn delivery_queue(&self, execution: &ExecutionId, url: &EndpointUrl) -> Result<QueueName, EngineError> {
        match self {
            Self::Local(engine) => Ok(engine.naming().delivery_queue(execution, url)),
            Self::Remote(_) => self.query(query::DeliveryQueue(execution.clone(), url.clone())).await,
        }
    }

    /// Every selected dead letter with its message, in the order of their queues. Dropping the receiver ends it.
    ///
    /// # Errors
    /// A filter that cannot be read, or a daemon that cannot be reached; what fails later comes as the last item.
    pub async fn export_dead(&self, selection: DeadSelection) -> Result<mpsc::Receiver<Exported>, EngineError> {
        match self {
            Self::Local(engine) => engine.export_dead(selection),
            Self::Remote(remote) => remote.export_dead(selection).await,
        }
    }

    /// What happens, from now on; a slow receiver misses some.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        match self {
            Self::Local(engine) => engine.events(),
            Self::Remote(remote) => remote.events(),
        }
    }

    /// Looks every `refresh` (a daemon elsewhere at its own pace) until `stop`.
    #[must_use]
    pub fn observe(&self, refresh: Duration, stop: CancellationToken) -> Observer {
        match self {
            Self::Local(engine) => engine.observe(refresh, stop),
            Self::Remote(remote) => remote.observe(stop),
        }
    }

    /// Answers a query; changes nothing.
    ///
    /// # Errors
    /// As the query has them; [`EngineError::Unread`] where the daemon cannot be reached.
    pub async fn query<Q: Query>(&self, query: Q) -> Result<Q::Answer, EngineError> {
        match self {
            Self::Local(engine) => engine.query(query).await,
            Self::Remote(remote) => exchange(query, |given| remote.ask(Q::NAME, given)).await,
        }
    }

    /// Does at once what needs no plan.
    ///
    /// # Errors
    /// As the call has them; [`EngineError::Unread`] where the daemon cannot be reached, or its answer was lost.
    pub async fn call<C: Call>(&self, call: C, grant: &WriteGrant) -> Result<C::Answer, EngineError> {
        match self {
            Self::Local(engine) => call.carried_out(engine, grant).await,
            Self::Remote(remote) => exchange(call, |given| remote.call(C::NAME, given)).await,
        }
    }

    /// What a command would do at present.
    ///
    /// # Errors
    /// It is not possible, or could not be looked at.
    pub async fn plan(&self, command: Command) -> Result<Plan, EngineError> {
        match self {
            Self::Local(engine) => engine.plan(command).await,
            Self::Remote(remote) => remote.plan(&command).await,
        }
    }

    /// Does what was planned, if the world is still as it was planned for.
    ///
    /// # Errors
    /// The plan is stale, or what it does failed.
    pub async fn execute(&self, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        match self {
            Self::Local(engine) => engine.execute(plan, grant).await,
            Self::Remote(remote) => remote.execute(plan, grant).await,
        }
    }

    /// Writes down who looks at what; only after that it may be shown.
    ///
    /// # Errors
    /// The time of the grant is over, or it cannot be written down.
    pub async fn reveal(&self, reveal: &Reveal, grant: &WriteGrant) -> Result<(), EngineError> {
        match self {
            Self::Local(engine) => engine.reveal(reveal, grant).await,
            Self::Remote(remote) => remote.reveal(reveal, grant).await,
        }
    }

    /// Follows a run until nothing more happens to it by itself; tells `on` of its progress.
    ///
    /// # Errors
    /// There is no such run, or it could not be read.
    pub async fn follow_run(&self, id: &str, mut on: impl FnMut(&RunView)) -> Result<RunView, EngineError> {
        if let Self::Local(engine) = self {
            return engine.follow_run(id, on).await;
        }
        loop {
            let query = query::Run {
                id: id.to_owned(),
                after: None,
                limit: 1,
            };
            let run = self.query(query).await?.run;
            on(&run);
            if run.state() != RunState::Running {
                return Ok(run);
            }
            ambient::sleep(FOLLOW_EVERY).await;
        }
    }

    /// Whether this process delivers at present, and each change of it; one that is attached never does.
    #[must_use]
    pub fn delivering(&self) -> watch::Receiver<bool> {
        match self {
            Self::Local(engine) => engine.delivering(),
            Self::Remote(_) => watch::channel(false).1,
        }
    }

    /// The vhost of the daemon, and what the token may do there, and each change of it; `None`: the engine is here.
    #[must_use]
    pub fn attached(&self) -> Option<watch::Receiver<Attached>> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(remote.attached()),
        }
    }

    /// Whoever looks sees the actor of `grant` until `stop`. A daemon attends by itself for who is attached to it.
    pub async fn attend(&self, grant: WriteGrant, stop: CancellationToken) {
        match self {
            Self::Local(engine) => engine.attend(grant, stop).await,
            Self::Remote(_) => stop.cancelled().await,
        }
    }

    /// Refuses a broker that belongs to another store; a daemon did so at its own start.
    ///
    /// # Errors
    /// [`EngineError::OtherOwner`].
    pub async fn compare_owner(&self) -> Result<(), EngineError> {
        match self {
            Self::Local(engine) => engine.compare_owner().await,
            Self::Remote(_) => Ok(()),
        }
    }

    /// Closes connections in order; for a process that ends.
    pub async fn close(&self) {
        match self {
            Self::Local(engine) => engine.close().await,
            Self::Remote(remote) => remote.close(),
        }
    }
}

/// JSON there and back.
async fn exchange<T: Serialize, A: DeserializeOwned, F>(
    given: T,
    send: impl FnOnce(Vec<u8>) -> F,
) -> Result<A, EngineError>
where
    F: Future<Output = Result<Vec<u8>, EngineError>>,
{
    let given = serde_json::to_vec(&given).map_err(|error| EngineError::of_another_release(&error))?;
    let answer = send(given).await?;
    ambient::beside(|| serde_json::from_slice(&answer)).map_err(|error| EngineError::of_another_release(&error))
}
