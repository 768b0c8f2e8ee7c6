//! How queues and endpoints moved lately.

use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::series::{Moving, unpacked};
use crate::engine::view::{RateRow, RateSeries};

use super::{Time, time};

/// How one of them moves.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Rate {
    /// The queue; null: it is of an endpoint.
    pub queue: Option<String>,
    /// The endpoint.
    pub url: Option<String>,
    /// Messages that wait; null: not known.
    pub waiting: Option<u64>,
    /// Messages that come in a second.
    pub in_per_s: f64,
    /// Messages that are delivered in a second.
    pub out_per_s: f64,
    /// Which share of the attempts failed, from 0 to 1.
    pub failed_share: Option<f64>,
    /// Half of the attempts took at most this long, in milliseconds.
    pub p50_ms: Option<u32>,
    /// 95 of 100 attempts took at most this long, in milliseconds.
    pub p95_ms: Option<u32>,
    /// 99 of 100 attempts took at most this long, in milliseconds.
    pub p99_ms: Option<u32>,
    /// How long until nothing waits at this rate, in seconds.
    pub empty_in_s: Option<u64>,
    /// Messages that were delivered in each of the last minutes, oldest first.
    pub out_by_minute: Vec<u64>,
}

impl From<&RateRow> for Rate {
    fn from(row: &RateRow) -> Self {
        let moving = &row.moving;
        let time = |millis: u32| (millis > 0).then_some(millis);
        Self {
            queue: row.queue.as_ref().map(|name| name.as_str().to_owned()),
            url: row.url.as_ref().map(|url| url.as_str().to_owned()),
            waiting: row.waiting,
            in_per_s: f64::from(moving.came_milli) / 1_000.0,
            out_per_s: f64::from(moving.out_milli) / 1_000.0,
            failed_share: moving.failed_milli.map(|share| f64::from(share) / 1_000.0),
            p50_ms: time(moving.p50_ms),
            p95_ms: time(moving.p95_ms),
            p99_ms: time(moving.p99_ms),
            empty_in_s: empty_in(moving, row.waiting).map(|takes| takes.as_secs()),
            out_by_minute: moving.out.iter().map(|sent| unpacked(*sent)).collect(),
        }
    }
}

/// How long what waits takes; `None`: nothing waits, or it does not become less.
#[must_use]
pub fn empty_in(moving: &Moving, waiting: Option<u64>) -> Option<std::time::Duration> {
    moving.time_to_empty(waiting.filter(|waiting| *waiting > 0)?)
}

/// The series of one of them.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "RateSeries")]
pub struct Series {
    /// Seconds from one point to the next.
    pub step_s: u64,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// Oldest first.
    pub points: Vec<Point>,
}

/// A step of a series: counts of the whole step.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "RatePoint")]
pub struct Point {
    /// When it begins.
    pub at: Option<Time>,
    /// Messages that waited.
    pub depth: Option<u64>,
    /// Messages that came.
    #[serde(rename = "in")]
    pub came: u64,
    /// Messages that were delivered.
    pub out: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Half of the attempts took at most this long, in milliseconds.
    pub p50_ms: Option<u64>,
    /// 95 of 100 attempts took at most this long, in milliseconds.
    pub p95_ms: Option<u64>,
    /// 99 of 100 attempts took at most this long, in milliseconds.
    pub p99_ms: Option<u64>,
}

impl From<&RateSeries> for Series {
    fn from(series: &RateSeries) -> Self {
        let took = |millis: u64| (millis > 0).then_some(millis);
        let points = series.points.iter().map(|at| Point {
            at: time(at.at),
            depth: at.point.depth,
            came: at.point.came,
            out: at.point.sent,
            failed: at.point.failed,
            p50_ms: took(at.point.p50_ms),
            p95_ms: took(at.point.p95_ms),
            p99_ms: took(at.point.p99_ms),
        });
        Self {
            step_s: series.step_s,
            taken_at: time(series.taken_at),
            points: points.collect(),
        }
    }
}
