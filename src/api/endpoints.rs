//! Endpoints: list, one, test, disable, redeliver, and how fast they go.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::domain::url::EndpointUrl;
use crate::engine::query;
use crate::engine::{Command, PaceWish, RedeliverTarget};
use crate::wire::List;
use crate::wire::endpoint::{Endpoint, PaceInput};
use crate::wire::input;
use crate::wire::plan::Asked;
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Options, act};
use super::extract::{Input, Params};
use super::guard::Caller;
use super::problem::answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    url: Option<String>,
    #[serde(default)]
    unavailable: bool,
    limit: Option<u32>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(selection): Params<Selection>,
) -> Result<Response, Problem> {
    if let Some(url) = &selection.url {
        return show(&shared, input::url(url)?).await;
    }
    let query = query::Endpoints {
        not_available: selection.unavailable,
        limit: input::limit(selection.limit, 100, input::LIMIT_MAX)?,
        cursor: selection.cursor,
    };
    let page = shared.engine()?.query(query).await?;
    Ok(answer(StatusCode::OK, &List::<Endpoint>::of(&page)))
}

async fn show(shared: &Shared, url: EndpointUrl) -> Result<Response, Problem> {
    let view = shared.engine()?.query(query::Endpoint(url)).await?;
    Ok(answer(StatusCode::OK, &Endpoint::from(&view)))
}

/// The endpoint, in the body where it is not in the query.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    url: Option<String>,
    method: Option<String>,
    reason: Option<String>,
}

impl Which {
    /// The query counts where the body says nothing.
    fn merge(self, options: &mut Options) -> Result<EndpointUrl, Problem> {
        options.method = self.method.or_else(|| options.method.take());
        options.reason = self.reason.or_else(|| options.reason.take());
        let url = self.url.or_else(|| options.url.take());
        input::url(&url.ok_or_else(|| Problem::field("url", "url is missing: give that of the endpoint"))?)
    }
}

pub(super) async fn test(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut options): Params<Options>,
    Input(which): Input<Which>,
) -> Result<Response, Problem> {
    let url = which.merge(&mut options)?;
    let method = options.method.take();
    act(
        &shared,
        &caller,
        options,
        Command::TestEndpoint { url, method },
        Asked::One,
    )
    .await
}

pub(super) async fn disable(
    state: State<Arc<Shared>>,
    caller: Extension<Caller>,
    options: Params<Options>,
    which: Input<Which>,
) -> Result<Response, Problem> {
    act_on(state, caller, options, which, Command::DisableEndpoint).await
}

/// What disabling would do: a GET changes nothing.
pub(super) async fn disable_plan(
    state: State<Arc<Shared>>,
    caller: Extension<Caller>,
    Params(options): Params<Options>,
) -> Result<Response, Problem> {
    let plan = Options {
        dry_run: true,
        ..options
    };
    disable(state, caller, Params(plan), Input(Which::default())).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redeliver {
    url: Option<String>,
    #[serde(default)]
    all: bool,
    reason: Option<String>,
    rate: Option<u32>,
    canary: Option<u32>,
    canary_watch_s: Option<u32>,
    ramp: Option<u32>,
    ramp_every_s: Option<u32>,
    stop_after: Option<u32>,
}

impl Redeliver {
    const fn pace(&self) -> PaceInput {
        PaceInput {
            rate: self.rate,
            canary: self.canary,
            canary_watch_s: self.canary_watch_s,
            ramp: self.ramp,
            ramp_every_s: self.ramp_every_s,
            stop_after: self.stop_after,
        }
    }
}

pub(super) async fn redeliver(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut options): Params<Options>,
    Input(request): Input<Redeliver>,
) -> Result<Response, Problem> {
    let order = request.pace().begins();
    options.reason = request.reason.or(options.reason);
    let url = request.url.or_else(|| options.url.take());
    let (target, asked) = match (url, request.all) {
        (Some(url), false) => (RedeliverTarget::Urls(vec![input::url(&url)?]), Asked::One),
        (None, true) => (RedeliverTarget::All, Asked::Several),
        (Some(_), true) => return Err(Problem::field("all", "url and all are both given; give one of them")),
        (None, false) => {
            return Err(Problem::field(
                "url",
                "url is missing: give that of the endpoint, or \"all\": true",
            ));
        }
    };
    let command = match order {
        None => Command::Redeliver(target),
        Some(order) => Command::RedeliverPaced { target, order },
    };
    act(&shared, &caller, options, command, asked).await
}

/// How fast an endpoint goes: what the body does not say stays, and `release` holds nothing back any more.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paced {
    url: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    release: bool,
    rate: Option<u32>,
    canary: Option<u32>,
    canary_watch_s: Option<u32>,
    ramp: Option<u32>,
    ramp_every_s: Option<u32>,
    stop_after: Option<u32>,
}

pub(super) async fn pace(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut options): Params<Options>,
    Input(paced): Input<Paced>,
) -> Result<Response, Problem> {
    let input = PaceInput {
        rate: paced.rate,
        canary: paced.canary,
        canary_watch_s: paced.canary_watch_s,
        ramp: paced.ramp,
        ramp_every_s: paced.ramp_every_s,
        stop_after: paced.stop_after,
    };
    let which = Which {
        url: paced.url,
        method: None,
        reason: paced.reason,
    };
    let url = which.merge(&mut options)?;
    let wish = match (input.order(), paced.release) {
        (Some(order), false) => {
            let view = shared.engine()?.query(query::Endpoint(url.clone())).await?;
            PaceWish::Go(view.endpoint.ordered(order))
        }
        (None, true) => PaceWish::Release,
        (Some(_), true) => {
            return Err(Problem::field(
                "release",
                "release and a pace are both given; give one of them",
            ));
        }
        (None, false) => {
            return Err(Problem::field(
                "rate",
                "say how fast: rate, ramp, canary or \"release\": true",
            ));
        }
    };
    let command = Command::PaceEndpoint { url, wish };
    act(&shared, &caller, options, command, Asked::One).await
}

pub(super) async fn pause(
    state: State<Arc<Shared>>,
    caller: Extension<Caller>,
    options: Params<Options>,
    which: Input<Which>,
) -> Result<Response, Problem> {
    act_on(state, caller, options, which, wishing(PaceWish::Pause)).await
}

pub(super) async fn resume(
    state: State<Arc<Shared>>,
    caller: Extension<Caller>,
    options: Params<Options>,
    which: Input<Which>,
) -> Result<Response, Problem> {
    act_on(state, caller, options, which, wishing(PaceWish::Resume)).await
}

const fn wishing(wish: PaceWish) -> impl FnOnce(EndpointUrl) -> Command {
    move |url| Command::PaceEndpoint { url, wish }
}

/// What needs nothing but the endpoint.
async fn act_on(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut options): Params<Options>,
    Input(which): Input<Which>,
    command: impl FnOnce(EndpointUrl) -> Command,
) -> Result<Response, Problem> {
    let url = which.merge(&mut options)?;
    act(&shared, &caller, options, command(url), Asked::One).await
}
