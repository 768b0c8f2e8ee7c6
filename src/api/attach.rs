//! What a console or a command in another process asks: questions by their names, plans, their execution, and a stream
//! of what is seen and of what happens.
//!
//! The documents are those of one release and no contract: both sides are redrive, and who attaches with another release
//! is told so. Who may only look gets every document without what the masks hide, as on every other route.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ambient;
use crate::domain::scope::Scope;
use crate::engine::calls::{self, Asks};
use crate::engine::dead::{DeadDetail, DeadSelection};
use crate::engine::error::ToldError;
use crate::engine::events::EventCommand;
use crate::engine::observe::Observer;
use crate::engine::query::{self, Query as _};
use crate::engine::reveal::Reveal;
use crate::engine::snapshot::Snapshot;
use crate::engine::{Command, Engine, EngineError, Event, WriteGrant};
use crate::wire::attach::{Changes, Execute, Exported, Hello, Named, PROTOCOL, Planned, Told};
use crate::wire::json;
use crate::wire::problem::Problem;

use super::Shared;
use super::export::{self, Form};
use super::extract::{Input, LARGE};
use super::guard::Caller;
use super::problem::{Json, with_type};
use super::sse::{self, BEAT, BEATS, Telling, Writer};

/// Between two looks for all that are attached.
const REFRESH: Duration = Duration::from_secs(2);

/// `POST /v1/attach/ask`.
pub(super) async fn ask(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(asked): Input<Named>,
) -> Result<Response, Problem> {
    // They answer messages byte for byte, in which masks find nothing.
    if [query::Browse::NAME, query::OneRescued::NAME].contains(&asked.name.as_str()) {
        caller.must_have(Scope::Operate)?;
    }
    let engine = shared.engine()?;
    match query::named(engine, &asked.name, asked.given.get().as_bytes()).await {
        Some(answered) => Ok(written(engine, answered)),
        None => Err(Problem::field("name", other_release())),
    }
}

/// `POST /v1/attach/call`: whoever may do so by its own route may do so here.
pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(called): Input<Named, LARGE>,
) -> Result<Response, Problem> {
    let engine = shared.engine()?;
    let call = match calls::named(&called.name, called.given.get().as_bytes()) {
        Some(Ok(call)) => call,
        Some(Err(error)) => return Ok(failed(engine, error)),
        None => return Err(Problem::field("name", other_release())),
    };
    let asks = call.asks();
    let scope = match &asks {
        Asks::ToPublish(_) | Asks::ToEnd(..) | Asks::ToPush => Scope::Publish,
        Asks::ToOperate => Scope::Operate,
    };
    let grant = caller.grant_for(scope, None)?;
    match asks {
        Asks::ToPublish(new) => {
            // The engine's own words and exit code, as where the command runs beside the daemon.
            if let Err(error) = engine.check_url(&new.url) {
                return Ok(failed(engine, error));
            }
            caller.begins_publish(&shared, new).await?;
        }
        Asks::ToEnd(execution, url) => {
            caller.begins_end(&shared, execution, url).await?;
        }
        Asks::ToPush => {
            caller.may_publish_anywhere()?;
            caller.pushes(1, shared.clock.uptime())?;
        }
        Asks::ToOperate => {}
    }
    Ok(written(engine, call.carried_out(engine, &grant).await))
}

/// `POST /v1/attach/export`: dead letters with their messages, a line each; the last line may be an error.
pub(super) async fn export(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(selection): Input<DeadSelection>,
) -> Result<Response, Problem> {
    let form = Form {
        letter: |detail| json::compact(&Exported::Letter(detail)),
        end: |engine, error| json::compact(&Exported::<DeadDetail>::Ended(ToldError::of(engine, error))),
    };
    let engine = shared.engine()?;
    let letters = match engine.export_dead(selection) {
        Ok(letters) => letters,
        Err(error) => return Ok(failed(engine, error)),
    };
    let lines = export::lines(Arc::clone(&shared), export::sees_whole(&caller)?, letters, form).await;
    Ok(match lines {
        Ok(lines) => lines.into_response(),
        Err(error) => failed(engine, error),
    })
}

/// `POST /v1/attach/plan`.
pub(super) async fn plan(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(command): Input<Command>,
) -> Result<Response, Problem> {
    let engine = shared.engine()?;
    let planned = engine.plan(command.clone()).await.map(|plan| {
        let ticket = shared
            .plans
            .keep(caller.actor(), command, plan.clone(), shared.clock.now());
        Planned { id: ticket.id, plan }
    });
    Ok(answered(engine, planned))
}

/// `POST /v1/attach/execute`.
pub(super) async fn execute(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(asked): Input<Execute>,
) -> Result<Response, Problem> {
    let engine = shared.engine()?;
    let now = shared.clock.now();
    let plan = shared.plans.take(&asked.id, caller.actor(), None, now)?.plan;
    caller.must_have(needs(&plan.command))?;
    let grant = caller.grant(asked.reason)?;
    Ok(answered(engine, engine.execute(&plan, &grant).await))
}

/// `POST /v1/attach/reveal`.
pub(super) async fn reveal(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Input(reveal): Input<Reveal>,
) -> Result<Response, Problem> {
    let engine = shared.engine()?;
    let grant = caller.grant(None)?;
    let revealed = engine.reveal(&reveal, &grant).await;
    Ok(answered(engine, revealed.map(|()| Empty {})))
}

/// The scope that a command needs, as its own route has it.
const fn needs(command: &Command) -> Scope {
    match command {
        Command::Policy(_)
        | Command::AdoptBroker
        | Command::MakeVhost
        | Command::Events(
            EventCommand::SetType { .. } | EventCommand::Subscribe { .. } | EventCommand::Unsubscribe { .. },
        ) => Scope::Admin,
        Command::Redeliver(_)
        | Command::RedeliverPaced { .. }
        | Command::PaceEndpoint { .. }
        | Command::PauseQueue(_)
        | Command::ResumeQueue(_)
        | Command::PurgeQueue(_)
        | Command::DeleteQueue(_)
        | Command::RescueQueue(_)
        | Command::TestEndpoint { .. }
        | Command::DisableEndpoint(_)
        | Command::Events(EventCommand::Retry(_) | EventCommand::Reschedule(..) | EventCommand::Cancel(_))
        | Command::Run(_)
        | Command::EditDead { .. }
        | Command::PatchDead { .. }
        | Command::ChangeRun { .. }
        | Command::Expiring(_) => Scope::Operate,
    }
}

/// There is nothing to tell.
#[derive(Serialize)]
pub(super) struct Empty {}

fn answered<T: Serialize>(engine: &Engine, came: Result<T, EngineError>) -> Response {
    match came {
        Ok(shape) => {
            let document: Json<T> = Json(shape);
            document.into_response()
        }
        Err(error) => failed(engine, error),
    }
}

/// The same with a document that is written already.
fn written(engine: &Engine, came: Result<Vec<u8>, EngineError>) -> Response {
    match came {
        Ok(bytes) => with_type(StatusCode::OK, Body::from(bytes), "application/json"),
        Err(error) => failed(engine, error),
    }
}

/// The engine's own error, in full, with the status that it has everywhere.
fn failed(engine: &Engine, error: EngineError) -> Response {
    let told = ToldError::of(engine, error);
    let problem = Problem::from(EngineError::from(told.clone()));
    let document: Json<Told> = Json(Told { error: told });
    let mut response = document.into_response();
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn other_release() -> String {
    format!(
        "this daemon is redrive {} and does not know what was asked: attach with the redrive of its release",
        env!("CARGO_PKG_VERSION")
    )
}

/// What several streams share: begun for the first of them, over when the last of them lets go of it.
#[derive(Debug)]
struct Held<K, T>(Mutex<HashMap<K, Weak<T>>>);

impl<K, T> Default for Held<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Held<K, T> {
    fn hold(&self, of: K, begin: impl FnOnce() -> T) -> Arc<T> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, held| held.strong_count() > 0);
        if let Some(held) = held.get(&of).and_then(Weak::upgrade) {
            return held;
        }
        let begun = Arc::new(begin());
        held.insert(of, Arc::downgrade(&begun));
        begun
    }
}

/// What all streams of a daemon see: one looks for all of them.
#[derive(Debug, Default)]
pub(super) struct Sights(Held<(), Sight>);

#[derive(Debug)]
struct Sight {
    observer: Observer,
    /// Ends the looking.
    _stop: DropGuard,
}

impl Sights {
    fn sight(&self, engine: &Engine) -> Arc<Sight> {
        self.0.hold((), || {
            let stop = CancellationToken::new();
            Sight {
                observer: engine.observe(REFRESH, stop.clone()),
                _stop: stop.drop_guard(),
            }
        })
    }
}

/// Who is attached and may change something: others see each as an operator who is connected, once for all of his streams.
#[derive(Debug, Default)]
pub(super) struct Attending(Held<String, DropGuard>);

impl Attending {
    fn attends(&self, engine: &Engine, grant: WriteGrant) -> Arc<DropGuard> {
        self.0.hold(grant.actor().to_owned(), || {
            let (stop, engine) = (CancellationToken::new(), engine.clone());
            let guard = stop.clone().drop_guard();
            drop(ambient::spawn("attached operator", async move {
                engine.attend(grant, stop).await;
            }));
            guard
        })
    }
}

/// `POST /v1/attach/look`.
pub(super) async fn look(State(shared): State<Arc<Shared>>) -> Result<Json<Empty>, Problem> {
    shared.sights.sight(shared.engine()?).observer.look_now();
    Ok(Json(Empty {}))
}

/// What a stream may be asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Streamed {
    /// The protocol of whoever attaches.
    protocol: u32,
}

/// `GET /v1/attach/stream`.
pub(super) async fn follow(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    super::extract::Params(asked): super::extract::Params<Streamed>,
) -> Result<Response, Problem> {
    if asked.protocol != PROTOCOL {
        return Err(Problem::field("protocol", other_release()));
    }
    let engine = shared.engine()?;
    let hello = Hello::of(engine.naming(), |scope| caller.allows(scope));
    let writer = Writer::new(&shared, &caller);
    if !caller.may_look() {
        let hello = Some(hello);
        return Ok(sse::response(&shared, Greeting { hello, writer }));
    }
    let sight = shared.sights.sight(engine);
    let attending = if caller.sees_all() {
        Some(
            shared
                .attending
                .attends(engine, caller.grant_for(Scope::Operate, None)?),
        )
    } else {
        None
    };
    let frames = Frames {
        snapshots: sight.observer.snapshots(),
        news: engine.events(),
        before: Arc::new(Snapshot::default()),
        hello: Some(hello),
        is_first: true,
        writer,
        actor: caller.actor().to_owned(),
        _sight: sight,
        _attending: attending,
    };
    Ok(sse::response(&shared, frames))
}

/// For a token that only publishes: who the daemon is, and that it is there.
struct Greeting {
    hello: Option<Hello>,
    writer: Writer,
}

impl Telling for Greeting {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(hello) = self.hello.take() {
            return Some(self.writer.event("hello", &hello));
        }
        ambient::sleep(BEAT).await;
        Some(BEATS.to_vec())
    }
}

struct Frames {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    news: broadcast::Receiver<Event>,
    /// What the other side has.
    before: Arc<Snapshot>,
    hello: Option<Hello>,
    is_first: bool,
    writer: Writer,
    actor: String,
    _sight: Arc<Sight>,
    _attending: Option<Arc<DropGuard>>,
}

impl Telling for Frames {
    /// `None`: the engine is gone.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(hello) = self.hello.take() {
            return Some(self.writer.event("hello", &hello));
        }
        if std::mem::take(&mut self.is_first) && self.snapshots.borrow().generation > 0 {
            return Some(self.changes());
        }
        tokio::select! {
            biased;
            changed = self.snapshots.changed() => {
                changed.ok()?;
                Some(self.changes())
            }
            event = self.news.recv() => match event {
                Ok(event) => Some(self.writer.event("news", &event)),
                Err(RecvError::Lagged(_)) => Some(BEATS.to_vec()),
                Err(RecvError::Closed) => None,
            },
            () = ambient::sleep(BEAT) => Some(BEATS.to_vec()),
        }
    }
}

impl Frames {
    fn changes(&mut self) -> Vec<u8> {
        let newest = Arc::clone(&self.snapshots.borrow_and_update());
        let newest = without(newest, &self.actor);
        let changes = Changes::between(&self.before, &newest);
        self.before = newest;
        ambient::beside(|| self.writer.event("seen", &changes))
    }
}

/// Nobody is told of himself.
fn without(snapshot: Arc<Snapshot>, actor: &str) -> Arc<Snapshot> {
    let all = &snapshot.incarnations;
    if all.iter().all(|one| one.attached() != Some(actor)) {
        return snapshot;
    }
    let others = all.iter().filter(|one| one.attached() != Some(actor)).cloned();
    Arc::new(Snapshot {
        incarnations: Arc::new(others.collect()),
        ..Snapshot::clone(&snapshot)
    })
}
