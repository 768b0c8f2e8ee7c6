//! Queues.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::id::QueueName;
use crate::engine::query;
use crate::engine::view::QueueView;
use crate::engine::{Command, QueuesQuery};
use crate::wire::input;
use crate::wire::plan::{Asked, Deleted, Purged, Rescued, VhostMade};
use crate::wire::problem::Problem;
use crate::wire::queue::{Addressed, Browsed, Queue, Step, WhyAnswer};
use crate::wire::{List, Whole};

use super::Shared;
use super::act::{Acted, Because, Options, act};
use super::extract::{Input, Name, NoParams, Params};
use super::guard::Caller;
use super::limit::Limit;
use super::problem::Json;

/// Messages that one look shows at most.
const BROWSED_MAX: u32 = 500;

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// A filter, in the filter language.
    filter: Option<String>,
    /// A column to sort by, with `-` in front descending.
    sort: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(selection): Params<Selection>,
) -> Result<Json<List<Queue>>, Problem> {
    let query = query::Queues(QueuesQuery {
        filter: selection.filter,
        sort: selection.sort,
        limit: selection.limit.items()?,
        cursor: selection.cursor,
    });
    let page = shared.engine()?.query(query).await?;
    Ok(Json(List::<Queue>::of(&page)))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Name(name): Name,
    _: NoParams,
) -> Result<Json<Queue>, Problem> {
    Ok(Json(Queue::from(&look(&shared, name).await?)))
}

pub(super) async fn why(
    State(shared): State<Arc<Shared>>,
    Name(name): Name,
    _: NoParams,
) -> Result<Json<WhyAnswer>, Problem> {
    Ok(Json(WhyAnswer::from(&look(&shared, name).await?)))
}

/// `GET /v1/queues/{name}/map`.
pub(super) async fn map(
    State(shared): State<Arc<Shared>>,
    Name(name): Name,
    _: NoParams,
) -> Result<Json<Whole<Step>>, Problem> {
    let steps = shared.engine()?.query(query::QueueMap(name)).await?;
    Ok(Json(Whole::of(steps.iter().map(Step::from), shared.clock.now())))
}

async fn look(shared: &Shared, name: QueueName) -> Result<QueueView, Problem> {
    let view = shared.engine()?.query(query::Queue(name)).await?;
    Ok(view)
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Browse {
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit<20, BROWSED_MAX>,
}

/// `POST /v1/queues/{name}/browse`: it takes messages into view, which may cost them one of their deliveries.
pub(super) async fn browse(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Name(queue): Name,
    _: NoParams,
    Input(browse): Input<Browse>,
) -> Result<Json<Whole<Browsed>>, Problem> {
    caller.grant(None)?;
    let limit = browse.limit.items()?;
    let messages = shared.engine()?.query(query::Browse { queue, limit }).await?;
    let list = Whole::of(messages.iter().map(Browsed::from), shared.clock.now());
    Ok(Json(list))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sequence {
    /// The execution.
    execution_id: String,
    /// The URL.
    url: String,
}

/// `GET /v1/queue-name`.
pub(super) async fn named(
    State(shared): State<Arc<Shared>>,
    Params(sequence): Params<Sequence>,
) -> Result<Json<Addressed>, Problem> {
    let (execution, url) = (input::execution(&sequence.execution_id)?, input::url(&sequence.url)?);
    let address = shared.engine()?.naming().address(&execution, &url);
    Ok(Json(Addressed::new(address, &url)))
}

/// `POST /v1/vhost/make`.
pub(super) async fn make_vhost(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut options): Params<Options>,
    Input(because): Input<Because>,
) -> Result<Acted<VhostMade>, Problem> {
    options.reason = because.reason.or(options.reason);
    act(&shared, &caller, options, Command::MakeVhost, Asked::One).await
}

macro_rules! command {
    ($name:ident, $variant:ident, $done:ty) => {
        pub(super) async fn $name(
            State(shared): State<Arc<Shared>>,
            Extension(caller): Extension<Caller>,
            Name(name): Name,
            Params(mut options): Params<Options>,
            Input(because): Input<Because>,
        ) -> Result<Acted<$done>, Problem> {
            options.reason = because.reason.or(options.reason);
            act(&shared, &caller, options, Command::$variant(name), Asked::One).await
        }
    };
}

command!(pause, PauseQueue, Queue);
command!(resume, ResumeQueue, Queue);
command!(purge, PurgeQueue, Purged);
command!(delete, DeleteQueue, Deleted);
command!(rescue, RescueQueue, Rescued);
