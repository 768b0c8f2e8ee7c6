//! How queues and endpoints moved lately, as the daemon keeps it.

use super::Session;
use super::delivery_args::Rates;
use super::exit::{Exit, Failure};
use super::output::{Column, number, or_dash, say};
use super::paged::tell_full;
use super::when::told;
use crate::domain::words::about;
use crate::engine::query;
use crate::engine::view::RateRow;
use crate::wire::input;
use crate::wire::rate::{Point, Rate, Series, empty_in};

const RATES: &[Column] = &[
    Column::Text("queue"),
    Column::Text("endpoint"),
    Column::Number("waiting"),
    Column::Number("in/s"),
    Column::Number("out/s"),
    Column::Number("failed"),
    Column::Number("p50 ms"),
    Column::Number("p95 ms"),
    Column::Number("p99 ms"),
    Column::Number("empty in"),
];

const POINTS: &[Column] = &[
    Column::Text("from"),
    Column::Number("waiting"),
    Column::Number("in"),
    Column::Number("out"),
    Column::Number("failed"),
    Column::Number("p50 ms"),
    Column::Number("p95 ms"),
    Column::Number("p99 ms"),
];

/// What is said where nothing is known.
const NOTHING: &str = "nothing moved, as far as this process knows. A daemon keeps what it did in its own memory: ask it \
                       with a profile that has `daemon = …`, or with GET /v1/rates";

pub(super) async fn rates(session: &Session<'_>, which: &Rates) -> Result<Exit, Failure> {
    if which.queue.is_some() || which.url.is_some() {
        return series(session, which).await;
    }
    if which.week {
        return Err(Failure::new(
            Exit::Usage,
            "--week is of one queue or of one endpoint: give --queue or --url too",
        ));
    }
    let query = query::Rates {
        of_endpoints: which.endpoints,
        limit: which.limit,
    };
    let page = session.engine.query(query).await?;
    tell_full(
        session.output,
        (page.items.len(), which.limit),
        "rates",
        "raise --limit",
    );
    if page.items.is_empty() && !session.output.is_json() {
        say(NOTHING);
    }
    let items: Vec<Item> = page.items.iter().map(Item::of).collect();
    session.output.list(&items, RATES, |item| item.row.clone())?;
    Ok(Exit::Done)
}

#[derive(schemars::JsonSchema, serde::Serialize)]
#[serde(transparent)]
struct Item {
    shape: Rate,
    #[serde(skip)]
    row: Vec<String>,
}

impl Item {
    fn of(row: &RateRow) -> Self {
        let shape = Rate::from(row);
        let share = shape.failed_share.map(|share| format!("{:.1} %", share * 100.0));
        let empty = empty_in(&row.moving, row.waiting).map(about);
        Self {
            row: vec![
                or_dash(shape.queue.as_deref()),
                or_dash(shape.url.as_deref()),
                number(shape.waiting),
                format!("{:.1}", shape.in_per_s),
                format!("{:.1}", shape.out_per_s),
                or_dash(share.as_deref()),
                took(shape.p50_ms),
                took(shape.p95_ms),
                took(shape.p99_ms),
                or_dash(empty.as_deref()),
            ],
            shape,
        }
    }
}

async fn series(session: &Session<'_>, which: &Rates) -> Result<Exit, Failure> {
    let query = query::RateSeries {
        queue: which.queue.as_deref().map(input::queue).transpose()?,
        url: which.url.as_deref().map(input::url).transpose()?,
        week: which.week,
    };
    let series = Series::from(&session.engine.query(query).await?);
    if series.points.is_empty() && !session.output.is_json() {
        say(NOTHING);
    }
    session.output.list(&series.points, POINTS, row)?;
    Ok(Exit::Done)
}

fn row(point: &Point) -> Vec<String> {
    vec![
        told(point.at.as_deref().unwrap_or("-")),
        number(point.depth),
        point.came.to_string(),
        point.out.to_string(),
        point.failed.to_string(),
        took(point.p50_ms),
        took(point.p95_ms),
        took(point.p99_ms),
    ]
}

/// There was no attempt, or it took so long.
fn took(millis: Option<impl std::fmt::Display>) -> String {
    millis.map_or_else(|| "-".to_owned(), |millis| millis.to_string())
}
