//! Endpoints: list, one, test, disable, redeliver, and how fast they go.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::url::EndpointUrl;
use crate::engine::query;
use crate::engine::{Command, PaceWish, RedeliverTarget};
use crate::wire::List;
use crate::wire::endpoint::{Endpoint, PaceInput};
use crate::wire::input;
use crate::wire::plan::{Asked, OneOf, Redelivered, Tested};
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Acted, Options, act};
use super::extract::{Input, Params};
use super::guard::Caller;
use super::limit::Limit;
use super::problem::{Json, Or};

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Selection {
    /// That one alone.
    url: Option<String>,
    /// Those that are not available, are paused, or wait for a person after their canary.
    #[serde(default)]
    unavailable: bool,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(selection): Params<Selection>,
) -> Result<Or<Json<List<Endpoint>>, Json<Endpoint>>, Problem> {
    if let Some(url) = &selection.url {
        return show(&shared, input::url(url)?).await;
    }
    let query = query::EndpointsQuery {
        not_available: selection.unavailable,
        limit: selection.limit.items()?,
        cursor: selection.cursor,
    };
    let page = shared.engine()?.query(query::Endpoints(query)).await?;
    Ok(Or::One(Json(List::<Endpoint>::of(&page))))
}

async fn show(shared: &Shared, url: EndpointUrl) -> Result<Or<Json<List<Endpoint>>, Json<Endpoint>>, Problem> {
    let view = shared.engine()?.query(query::Endpoint(url)).await?;
    Ok(Or::Other(Json(Endpoint::from(&view))))
}

/// How a change of one endpoint is asked for.
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfEndpoint {
    /// The endpoint.
    url: Option<String>,
    /// Answer the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why; for the audit.
    reason: Option<String>,
    /// Carry out the plan that waits under this id.
    plan: Option<String>,
}

/// How a test of one is asked for.
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfTest {
    /// The endpoint.
    url: Option<String>,
    /// The method of the request.
    method: Option<String>,
    /// Answer the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why; for the audit.
    reason: Option<String>,
    /// Carry out the plan that waits under this id.
    plan: Option<String>,
}

/// What a GET of a plan is asked for.
#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Planned {
    /// The endpoint.
    url: Option<String>,
    /// Always so here: a GET changes nothing.
    #[serde(default, rename = "dry_run")]
    _dry_run: bool,
}

/// The endpoint, in the body where it is not in the query.
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EndpointChoice")]
pub(super) struct Which {
    /// The endpoint.
    url: Option<String>,
    /// Why; for the audit.
    reason: Option<String>,
}

/// What is tested, and how.
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EndpointTest")]
pub(super) struct TestInput {
    /// The endpoint.
    url: Option<String>,
    /// The method of the request.
    method: Option<String>,
    /// Why; for the audit.
    reason: Option<String>,
}

/// The query counts where the body says nothing; what both say must be the same.
fn one_url(body: Option<String>, query: Option<String>) -> Result<Option<String>, Problem> {
    match (body, query) {
        (Some(body), Some(query)) if body != query => Err(Problem::field(
            "url",
            "url is one thing in the query and another in the body: give one of them. Nothing was done",
        )),
        (body, query) => Ok(body.or(query)),
    }
}

impl Which {
    /// The query counts where the body says nothing.
    fn merge(self, of: OfEndpoint) -> Result<(EndpointUrl, Options), Problem> {
        let options = Options {
            dry_run: of.dry_run,
            reason: self.reason.or(of.reason),
            plan: of.plan,
        };
        let url = one_url(self.url, of.url)?;
        let url = url.ok_or_else(|| Problem::field("url", "url is missing: give that of the endpoint"))?;
        Ok((input::url(&url)?, options))
    }
}

pub(super) async fn test(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(of): Params<OfTest>,
    Input(test): Input<TestInput>,
) -> Result<Acted<Tested>, Problem> {
    let method = test.method.or(of.method);
    let which = Which {
        url: test.url,
        reason: test.reason,
    };
    let (url, options) = which.merge(OfEndpoint {
        url: of.url,
        dry_run: of.dry_run,
        reason: of.reason,
        plan: of.plan,
    })?;
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
    options: Params<OfEndpoint>,
    which: Input<Which>,
) -> Result<Acted<Endpoint>, Problem> {
    act_on(state, caller, options, which, Command::DisableEndpoint).await
}

/// What disabling would do: a GET changes nothing.
pub(super) async fn disable_plan(
    state: State<Arc<Shared>>,
    caller: Extension<Caller>,
    Params(asked): Params<Planned>,
) -> Result<Acted<Endpoint>, Problem> {
    let plan = OfEndpoint {
        url: asked.url,
        dry_run: true,
        ..OfEndpoint::default()
    };
    disable(state, caller, Params(plan), Input(Which::default())).await
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Redeliver {
    /// The endpoint.
    url: Option<String>,
    /// Every endpoint that is not available.
    #[serde(default)]
    all: bool,
    /// Why; for the audit.
    reason: Option<String>,
    /// Messages a second, at most.
    rate: Option<u32>,
    /// So many first, at most.
    canary: Option<u32>,
    /// For how many seconds those are watched.
    canary_watch_s: Option<u32>,
    /// How many times faster it goes at each step.
    ramp: Option<u32>,
    /// Seconds between steps.
    ramp_every_s: Option<u32>,
    /// Stop after so many failures in a row; 0: never.
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
    Params(of): Params<OfEndpoint>,
    Input(request): Input<Redeliver>,
) -> Result<Acted<OneOf<Redelivered, Vec<Redelivered>>>, Problem> {
    let order = request.pace().begins();
    let options = Options {
        dry_run: of.dry_run,
        reason: request.reason.or(of.reason),
        plan: of.plan,
    };
    let url = one_url(request.url, of.url)?;
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
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pace")]
pub(super) struct Paced {
    /// The endpoint.
    url: Option<String>,
    /// Why; for the audit.
    reason: Option<String>,
    /// Nothing is held back any more.
    #[serde(default)]
    release: bool,
    /// Messages a second, at most.
    rate: Option<u32>,
    /// So many first.
    canary: Option<u32>,
    /// For how many seconds those are watched.
    canary_watch_s: Option<u32>,
    /// How many times faster it goes at each step.
    ramp: Option<u32>,
    /// Seconds between steps.
    ramp_every_s: Option<u32>,
    /// Stop after so many failures in a row; 0: never.
    stop_after: Option<u32>,
}

pub(super) async fn pace(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(of): Params<OfEndpoint>,
    Input(paced): Input<Paced>,
) -> Result<Acted<Endpoint>, Problem> {
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
        reason: paced.reason,
    };
    let (url, options) = which.merge(of)?;
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
    options: Params<OfEndpoint>,
    which: Input<Which>,
) -> Result<Acted<Endpoint>, Problem> {
    act_on(state, caller, options, which, wishing(PaceWish::Pause)).await
}

pub(super) async fn resume(
    state: State<Arc<Shared>>,
    caller: Extension<Caller>,
    options: Params<OfEndpoint>,
    which: Input<Which>,
) -> Result<Acted<Endpoint>, Problem> {
    act_on(state, caller, options, which, wishing(PaceWish::Resume)).await
}

const fn wishing(wish: PaceWish) -> impl FnOnce(EndpointUrl) -> Command {
    move |url| Command::PaceEndpoint { url, wish }
}

/// What needs nothing but the endpoint.
async fn act_on(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(of): Params<OfEndpoint>,
    Input(which): Input<Which>,
    command: impl FnOnce(EndpointUrl) -> Command,
) -> Result<Acted<Endpoint>, Problem> {
    let (url, options) = which.merge(of)?;
    act(&shared, &caller, options, command(url), Asked::One).await
}
