//! Numbers as OTLP has them. What is no number (NaN: not known) is left out: OTLP has no word for it either.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::shape::{nanos, text};
use super::text::{Family, Sample};
use crate::domain::time::Timestamp;
use crate::telemetry::METRICS;

/// Counted since the begin.
const CUMULATIVE: u8 = 2;

/// The bounds of buckets, with how many are at most that; the sum, and how many there are.
#[derive(Default)]
struct Distribution {
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

/// Every family that has a number.
pub(super) fn shapes(families: &BTreeMap<String, Family>, began: Timestamp, now: Timestamp) -> Vec<Value> {
    let times = (nanos(began), nanos(now));
    families
        .iter()
        .filter_map(|(name, family)| shape(name, family, &times))
        .collect()
}

fn shape(name: &str, family: &Family, times: &(String, String)) -> Option<Value> {
    let points = if family.kind == "histogram" {
        distributions(family, times)
    } else {
        family
            .samples
            .iter()
            .filter_map(|sample| point(sample, times))
            .collect()
    };
    if points.is_empty() {
        return None;
    }
    let mut shape = json!({"name": name, "description": family.help, "unit": unit(name)});
    let (key, data) = match family.kind.as_str() {
        "counter" => {
            let data = json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true});
            ("sum", data)
        }
        "histogram" => (
            "histogram",
            json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE}),
        ),
        _ => ("gauge", json!({"dataPoints": points})),
    };
    shape[key] = data;
    Some(shape)
}

fn unit(name: &str) -> &'static str {
    let known = METRICS.iter().find(|metric| metric.name == name);
    match known.map(|metric| metric.unit) {
        Some(metrics::Unit::Seconds) => "s",
        Some(metrics::Unit::Bytes) => "By",
        None if name.ends_with("_seconds") || name.ends_with("_seconds_total") => "s",
        None if name.ends_with("_bytes") => "By",
        Some(_) | None => "1",
    }
}

fn point(sample: &Sample, (began, now): &(String, String)) -> Option<Value> {
    sample.value.is_finite().then(|| {
        json!({
            "attributes": attributes(&sample.labels),
            "startTimeUnixNano": began,
            "timeUnixNano": now,
            "asDouble": sample.value,
        })
    })
}

fn attributes(labels: &[(String, String)]) -> Vec<Value> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

/// One point for each set of labels.
fn distributions(family: &Family, (began, now): &(String, String)) -> Vec<Value> {
    let mut found: BTreeMap<Vec<(String, String)>, Distribution> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels
            .iter()
            .position(|(name, _)| name == "le")
            .map(|at| labels.remove(at).1);
        let distribution = found.entry(labels).or_default();
        match (sample.part.as_str(), bound) {
            ("_bucket", Some(bound)) => {
                // `+Inf` is read as what it is.
                let bound = bound.parse().unwrap_or(f64::INFINITY);
                distribution.buckets.push((bound, sample.value));
            }
            ("_sum", _) => distribution.sum = sample.value,
            ("_count", _) => distribution.count = sample.value,
            _ => {}
        }
    }
    let point = |(labels, one): (Vec<(String, String)>, Distribution)| {
        let bounds: Vec<f64> = one
            .buckets
            .iter()
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
            .collect();
        json!({
            "attributes": attributes(&labels),
            "startTimeUnixNano": began,
            "timeUnixNano": now,
            "count": whole(one.count),
            "sum": one.sum,
            "bucketCounts": counts(&one.buckets),
            "explicitBounds": bounds,
        })
    };
    found.into_iter().map(point).collect()
}

/// Prometheus counts what is at most a bound, OTLP what is between two.
fn counts(buckets: &[(f64, f64)]) -> Vec<String> {
    let before = std::iter::once(0.0).chain(buckets.iter().map(|(_, count)| *count));
    let each = buckets
        .iter()
        .zip(before)
        .map(|((_, count), before)| whole(count - before));
    each.collect()
}

fn whole(count: f64) -> String {
    format!("{:.0}", count.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::text::families;
    use super::*;

    fn made(text: &str) -> Vec<Value> {
        shapes(&families(text), Timestamp::from_seconds(1), Timestamp::from_seconds(2))
    }

    #[test]
    fn counters_gauges_and_histograms_are_told_apart_and_what_is_unknown_is_left_out() {
        let counter = made("# TYPE redrive_attempts_total counter\nredrive_attempts_total{class=\"failed\"} 2\n");
        let sum = &counter[0]["sum"];
        assert_eq!(
            (&sum["isMonotonic"], &sum["aggregationTemporality"]),
            (&json!(true), &json!(2))
        );
        assert_eq!(sum["dataPoints"][0]["asDouble"], 2.0);
        assert_eq!(sum["dataPoints"][0]["attributes"][0]["value"]["stringValue"], "failed");
        assert!(made("# TYPE redrive_waiting_messages gauge\nredrive_waiting_messages NaN\n").is_empty());
        let histogram = made(
            "# TYPE redrive_publish_duration_seconds histogram\nredrive_publish_duration_seconds_bucket{le=\"0.5\"} 1\n\
             redrive_publish_duration_seconds_bucket{le=\"1\"} 1\nredrive_publish_duration_seconds_bucket{le=\"+Inf\"} 3\n\
             redrive_publish_duration_seconds_sum 9\nredrive_publish_duration_seconds_count 3\n",
        );
        let point = &histogram[0]["histogram"]["dataPoints"][0];
        assert_eq!(point["bucketCounts"], json!(["1", "0", "2"]));
        assert_eq!(
            (&point["explicitBounds"], &point["count"]),
            (&json!([0.5, 1.0]), &json!("3"))
        );
        assert_eq!(histogram[0]["unit"], "s");
    }
}
