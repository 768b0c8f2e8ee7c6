//! Endpoints: list, show, test, disable, redeliver, and how fast they go.

use crate::domain::endpoint as domain;
use crate::domain::pace::PaceOrder;
use crate::domain::time::Timestamp;
use crate::engine::query;
use crate::engine::view::EndpointView;
use crate::engine::{Command, PaceWish, RedeliverTarget};
use crate::wire::endpoint::{Endpoint as EndpointShape, PaceInput};
use crate::wire::input;
use crate::wire::plan::Asked;

use super::Session;
use super::delivery_args::{Endpoint, EndpointPace, Endpoints, Redeliver};
use super::done::How;
use super::exit::{Exit, Failure};
use super::output::{Column, number, or_dash};
use super::paged::paged;
use super::when::{relative_or, told};
use crate::domain::words::from_now;

const COLUMNS: &[Column] = &[
    Column::Text("endpoint"),
    Column::Text("state"),
    Column::Text("since"),
    Column::Number("attempts"),
    Column::Text("next attempt"),
    Column::Number("status"),
    Column::Number("queues"),
    Column::Number("waiting"),
    Column::Text("last error"),
];

pub(super) async fn list(session: &Session<'_>, selection: &Endpoints) -> Result<Exit, Failure> {
    let page = |limit, cursor| {
        query::Endpoints(query::EndpointsQuery {
            not_available: selection.unavailable,
            limit,
            cursor,
        })
    };
    let list = paged(session, selection.limit, "endpoints", "raise --limit", page).await?;
    let items: Vec<Item> = list.items.iter().map(|view| Item::of(view, list.taken_at)).collect();
    session.output.problems(&list.problems);
    session.output.list(&items, COLUMNS, |item| item.row.clone())?;
    Ok(Exit::Done)
}

#[derive(schemars::JsonSchema, serde::Serialize)]
#[serde(transparent)]
struct Item {
    shape: EndpointShape,
    #[serde(skip)]
    row: Vec<String>,
}

impl Item {
    fn of(view: &EndpointView, now: Timestamp) -> Self {
        let endpoint = &view.endpoint;
        Self {
            shape: EndpointShape::from(view),
            row: vec![
                endpoint.url.as_str().to_owned(),
                state(endpoint),
                from_now(endpoint.since, now),
                endpoint.attempts.to_string(),
                relative_or(endpoint.next_attempt_at, now, "-"),
                endpoint
                    .last_status
                    .map_or_else(|| "-".to_owned(), |status| status.to_string()),
                view.queues.to_string(),
                number(view.waiting),
                or_dash(endpoint.last_error.as_deref()),
            ],
        }
    }
}

pub(super) async fn one(session: &Session<'_>, endpoint: &Endpoint) -> Result<Exit, Failure> {
    let command = match endpoint {
        Endpoint::Show { url } => {
            let view = session.engine.query(query::Endpoint(input::url(url)?)).await?;
            session.output.problems(&view.problems);
            session.output.facts(&EndpointShape::from(&view), &facts(&view))?;
            return Ok(Exit::Done);
        }
        Endpoint::Test { url, method } => Command::TestEndpoint {
            url: input::url(url)?,
            method: method.clone(),
        },
        Endpoint::Disable { url } => Command::DisableEndpoint(input::url(url)?),
        Endpoint::Pace { url, pace, release } => Command::PaceEndpoint {
            url: input::url(url)?,
            wish: match (asked(pace).order(), release) {
                (Some(order), _) => PaceWish::Go(changed(session, url, order).await?),
                (None, true) => PaceWish::Release,
                (None, false) => {
                    let why = "say how fast: --rate, --ramp, --canary, --stop-after or --release";
                    return Err(Failure::new(Exit::Usage, why));
                }
            },
        },
        Endpoint::Pause { url } => Command::PaceEndpoint {
            url: input::url(url)?,
            wish: PaceWish::Pause,
        },
        Endpoint::Resume { url } => Command::PaceEndpoint {
            url: input::url(url)?,
            wish: PaceWish::Resume,
        },
    };
    session.act(command, How::ONE).await
}

pub(super) fn facts(view: &EndpointView) -> Vec<(&'static str, Option<String>)> {
    let endpoint = &view.endpoint;
    let time = |at| crate::wire::time(at).as_deref().map(told);
    vec![
        ("endpoint", Some(endpoint.url.as_str().to_owned())),
        ("state", Some(state(endpoint))),
        ("since", time(endpoint.since)),
        ("attempts", Some(endpoint.attempts.to_string())),
        ("next attempt", endpoint.next_attempt_at.and_then(time)),
        ("last status", endpoint.last_status.map(|status| status.to_string())),
        ("last error", endpoint.last_error.clone()),
        ("last success", endpoint.last_success_at.and_then(time)),
        ("queues", Some(view.queues.to_string())),
        ("waiting", Some(number(view.waiting))),
        ("pace", endpoint.pace_says(view.waiting, view.taken_at)),
    ]
}

/// Its state, and whether somebody paused it.
fn state(endpoint: &domain::Endpoint) -> String {
    let paused = if endpoint.paused().is_some() { ", paused" } else { "" };
    format!("{}{paused}", endpoint.state.as_str())
}

/// What is not given stays.
async fn changed(session: &Session<'_>, url: &str, order: PaceOrder) -> Result<PaceOrder, Failure> {
    let view = session.engine.query(query::Endpoint(input::url(url)?)).await?;
    Ok(view.endpoint.ordered(order))
}

const fn asked(pace: &EndpointPace) -> PaceInput {
    PaceInput {
        rate: pace.rate,
        canary: pace.canary,
        canary_watch_s: pace.canary_watch,
        ramp: pace.ramp,
        ramp_every_s: pace.ramp_every,
        stop_after: pace.stop_after,
    }
}

pub(super) async fn redeliver(session: &Session<'_>, which: &Redeliver) -> Result<Exit, Failure> {
    let urls = which
        .urls
        .iter()
        .map(|url| input::url(url))
        .collect::<Result<Vec<_>, _>>()?;
    let pace = self::asked(&which.pace);
    let (target, asked) = match (which.all, urls.len()) {
        (true, _) => (RedeliverTarget::All, Asked::Several),
        (false, 1) => (RedeliverTarget::Urls(urls), Asked::One),
        (false, _) => (RedeliverTarget::Urls(urls), Asked::Several),
    };
    let command = match pace.begins() {
        None => Command::Redeliver(target),
        Some(order) => Command::RedeliverPaced { target, order },
    };
    session.act(command, How::of(asked)).await
}
