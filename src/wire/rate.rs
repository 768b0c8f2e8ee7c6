//! How queues and endpoints moved lately.

use serde::Serialize;

use crate::domain::series::{Moving, unpacked};
use crate::engine::view::{RateRow, RateSeries};

use super::time;

/// How one of them moves.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Rate {
    pub queue: Option<String>,
    pub url: Option<String>,
    pub waiting: Option<u64>,
    pub in_per_s: f64,
    pub out_per_s: f64,
    pub failed_share: Option<f64>,
    pub p50_ms: Option<u32>,
    pub p95_ms: Option<u32>,
    pub p99_ms: Option<u32>,
    pub empty_in_s: Option<u64>,
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
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Series {
    pub step_s: u64,
    pub taken_at: Option<String>,
    pub points: Vec<Point>,
}

/// A step of a series: counts of the whole step.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the keys are those of docs/contract.md")]
pub struct Point {
    pub at: Option<String>,
    pub depth: Option<u64>,
    #[serde(rename = "in")]
    pub came: u64,
    pub out: u64,
    pub failed: u64,
    pub p50_ms: Option<u64>,
    pub p95_ms: Option<u64>,
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
