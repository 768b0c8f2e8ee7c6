//! Runs: what starts one, and what is done to one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::domain::run::RunWish;
use crate::engine::query;
use crate::engine::runs::{Order, OrderKind, Selection};
use crate::engine::{Command, EngineError};
use crate::wire::List;
use crate::wire::input;
use crate::wire::plan::Asked;
use crate::wire::problem::Problem;
use crate::wire::run::{EditInput, OrderInput, PatchInput, Run, RunWithItems};

use super::Shared;
use super::act::{Because, Options, act};
use super::extract::{Input, LARGE, Name, Params, Segment};
use super::guard::Caller;
use super::problem::answer;

macro_rules! order {
    ($name:ident, $kind:ident) => {
        pub(super) async fn $name(
            State(shared): State<Arc<Shared>>,
            Extension(caller): Extension<Caller>,
            Params(mut options): Params<Options>,
            Input(mut input): Input<OrderInput>,
        ) -> Result<Response, Problem> {
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
) -> Result<Response, Problem> {
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
) -> Result<Response, Problem> {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveInput {
    to: String,
    rate: Option<u32>,
    reason: Option<String>,
}

/// `POST /v1/queues/{name}/move`.
pub(super) async fn move_queue(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Name(name): Name,
    Params(mut options): Params<Options>,
    Input(input): Input<MoveInput>,
) -> Result<Response, Problem> {
    options.reason = input.reason.or(options.reason);
    let to = input::queue(&input.to).map_err(|problem| Problem::field("to", problem.detail))?;
    let order = Order {
        to: Some(to),
        rate: input.rate,
        ..Order::new(OrderKind::Move, Selection::Queue(name))
    };
    act(&shared, &caller, options, Command::Run(order), Asked::One).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkipInput {
    #[serde(default)]
    to: SkipTo,
    reason: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
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
) -> Result<Response, Problem> {
    options.reason = input.reason.or(options.reason);
    let order = Order::skip(shared.engine()?.naming(), name, input.to == SkipTo::Dead);
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
        ) -> Result<Response, Problem> {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paged {
    limit: Option<u32>,
    cursor: Option<String>,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, Params(paged): Params<Paged>) -> Result<Response, Problem> {
    let query = query::Runs {
        before: paged.cursor,
        limit: input::limit(paged.limit, 100, input::LIMIT_MAX)?,
    };
    let page = shared.engine()?.query(query).await?;
    Ok(answer(StatusCode::OK, &List::<Run>::of(&page)))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Segment(id): Segment,
    Params(paged): Params<Paged>,
) -> Result<Response, Problem> {
    let after = paged.cursor.as_deref().map(str::parse).transpose();
    let query = query::Run {
        id,
        after: after.map_err(|_| EngineError::unknown_cursor())?,
        limit: input::limit(paged.limit, 100, input::LIMIT_MAX)?,
    };
    let detail = shared.engine()?.query(query).await?;
    Ok(answer(StatusCode::OK, &RunWithItems::from(&detail)))
}
