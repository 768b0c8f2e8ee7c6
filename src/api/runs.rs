//! Runs: what starts one, and what is done to one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::run::RunWish;
use crate::engine::query;
use crate::engine::runs::{Order, OrderKind, Selection};
use crate::engine::{Command, EngineError};
use crate::wire::List;
use crate::wire::input;
use crate::wire::plan::Asked;
use crate::wire::plan::Patched;
use crate::wire::problem::Problem;
use crate::wire::run::{EditInput, EditedLetter, OrderInput, PatchInput, Run, RunWithItems};

use super::Shared;
use super::act::{Acted, Because, Options, act};
use super::extract::{Input, LARGE, Name, Params, Segment};
use super::guard::Caller;
use super::limit::Paged;
use super::problem::Json;

macro_rules! order {
    ($name:ident, $kind:ident) => {
        pub(super) async fn $name(
            State(shared): State<Arc<Shared>>,
            Extension(caller): Extension<Caller>,
            Params(mut options): Params<Options>,
            Input(mut input): Input<OrderInput>,
        ) -> Result<Acted<Run>, Problem> {
            options.reason = input.reason.take().or(options.reason);
            let order = input.order(OrderKind::$kind)?;
            act(&shared, &caller, options, Command::Run(order), Asked::One).await
        }
    };
}

order!(redrive, Redrive);
order!(discard, Discard);
order!(restore, Restore);

/// `PATCH /v1/dead/{id}`.
pub(super) async fn edit(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Segment(id): Segment,
    Params(mut options): Params<Options>,
    Input(mut input): Input<EditInput, LARGE>,
) -> Result<Acted<EditedLetter>, Problem> {
    options.reason = input.reason.take().or(options.reason);
    let edit = input.edit()?;
    act(&shared, &caller, options, Command::EditDead { id, edit }, Asked::One).await
}

/// `POST /v1/dead/patch`.
pub(super) async fn patch(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut options): Params<Options>,
    Input(mut input): Input<PatchInput, LARGE>,
) -> Result<Acted<Patched>, Problem> {
    options.reason = input.reason.take().or(options.reason);
    let (selection, patch) = input.patch()?;
    act(
        &shared,
        &caller,
        options,
        Command::PatchDead { selection, patch },
        Asked::One,
    )
    .await
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Move")]
pub(super) struct MoveInput {
    /// The queue that they go to.
    to: String,
    /// Messages a second, at most.
    rate: Option<u32>,
    /// Why; for the audit.
    reason: Option<String>,
}

/// `POST /v1/queues/{name}/move`.
pub(super) async fn move_queue(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
    Params(mut options): Params<Options>,
    Input(input): Input<MoveInput>,
) -> Result<Acted<Run>, Problem> {
    options.reason = input.reason.or(options.reason);
    let to = input::queue(&input.to).map_err(|problem| problem.named("to"))?;
    let order = Order {
        to: Some(to),
        rate: input.rate,
        ..Order::new(OrderKind::Move, Selection::Queue(name))
    };
    act(&shared, &caller, options, Command::Run(order), Asked::One).await
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Skip")]
pub(super) struct SkipInput {
    /// Where its head goes.
    #[serde(default)]
    to: SkipTo,
    /// Why; for the audit.
    reason: Option<String>,
}

/// Where the head of a queue goes.
#[derive(Clone, Copy, Default, JsonSchema, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum SkipTo {
    #[default]
    Dead,
    Tail,
}

/// `POST /v1/queues/{name}/skip`.
pub(super) async fn skip(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
    Params(mut options): Params<Options>,
    Input(input): Input<SkipInput>,
) -> Result<Acted<Run>, Problem> {
    options.reason = input.reason.or(options.reason);
    let engine = shared.engine()?;
    let order = match input.to {
        SkipTo::Dead => Order::skip_to_dead(engine.naming(), name),
        SkipTo::Tail => Order::skip(name),
    };
    act(&shared, &caller, options, Command::Run(order), Asked::One).await
}

macro_rules! wish {
    ($name:ident, $wish:ident) => {
        pub(super) async fn $name(
            State(shared): State<Arc<Shared>>,
            Extension(caller): Extension<Caller>,
            Segment(id): Segment,
            Params(mut options): Params<Options>,
            Input(because): Input<Because>,
        ) -> Result<Acted<Run>, Problem> {
            options.reason = because.reason.or(options.reason);
            let wish = RunWish::$wish;
            act(
                &shared,
                &caller,
                options,
                Command::ChangeRun { id, wish },
                Asked::One,
            )
            .await
        }
    };
}

wish!(pause, Pause);
wish!(resume, Resume);
wish!(cancel, Cancel);

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(paged): Params<Paged>,
) -> Result<Json<List<Run>>, Problem> {
    let query = query::Runs {
        before: paged.cursor,
        limit: paged.limit.items()?,
    };
    let page = shared.engine()?.query(query).await?;
    Ok(Json(List::<Run>::of(&page)))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Segment(id): Segment,
    Params(paged): Params<Paged>,
) -> Result<Json<RunWithItems>, Problem> {
    let after = paged.cursor.as_deref().map(str::parse).transpose();
    let query = query::Run {
        id,
        after: after.map_err(|_| EngineError::unknown_cursor())?,
        limit: paged.limit.items()?,
    };
    let detail = shared.engine()?.query(query).await?;
    Ok(Json(RunWithItems::from(&detail)))
}
