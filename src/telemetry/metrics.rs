//! The numbers: kept for Prometheus, which fetches them over the HTTP API, and sent to statsd where one
//! is configured. There is no listener of its own.

use std::sync::Arc;

use metrics::{Recorder, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_exporter_statsd::{StatsdBuilder, StatsdError};
use metrics_util::layers::FanoutBuilder;

use super::names::{METRICS, Metric, MetricKind};
use super::statsd::{Sent, Statsd, StatsdDialect, Way};
use super::{TelemetryError, present, process};

/// Bounds of every histogram, in seconds: a local commit at the one end, a request's deadline at the
/// other, and what waited for a receiver beyond.
const BOUNDS_S: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0, 3600.0,
    86_400.0,
];

/// Where statsd listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdTarget {
    /// A name or an address.
    pub host: String,
    /// A UDP port.
    pub port: u16,
    /// What it understands.
    pub dialect: StatsdDialect,
}

/// Reads the numbers of this process.
#[derive(Clone)]
pub struct Metrics {
    kept: PrometheusHandle,
    statsd: Option<Arc<Way>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Metrics")
    }
}

type BoxedRecorder = Box<dyn Recorder + Sync>;

impl Metrics {
    /// Sets the process's numbers. Statsd gets them once it was found.
    ///
    /// # Errors
    /// Numbers that are set already.
    pub fn install(statsd: Option<&StatsdTarget>) -> Result<Self, TelemetryError> {
        let (recorder, metrics) = build(statsd)?;
        metrics::set_global_recorder(recorder).map_err(|_| TelemetryError::Twice { what: "metrics" })?;
        Ok(metrics)
    }

    /// Everything in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.kept.render();
        text.push_str(&present::kinds_missing(&text));
        text.push_str(&process::text());
        text
    }

    /// Has to be called every few seconds: histograms keep what nobody fetched until then.
    pub fn sweep(&self) {
        self.kept.run_upkeep();
    }

    /// Looks up where statsd is, where one is configured; has to be called now and then, as the name may be moved. It
    /// waits for the name server.
    ///
    /// # Errors
    /// There is no way to it now.
    pub fn find_statsd(&self) -> Result<(), TelemetryError> {
        let Some(way) = &self.statsd else { return Ok(()) };
        way.find().map_err(|source| no_way(&way.target, source))
    }
}

fn build(statsd: Option<&StatsdTarget>) -> Result<(BoxedRecorder, Metrics), TelemetryError> {
    let prometheus = PrometheusBuilder::new().set_buckets(BOUNDS_S)?.build_recorder();
    let metrics = Metrics {
        kept: prometheus.handle(),
        statsd: statsd.cloned().map(Way::new),
    };
    metrics::with_local_recorder(&prometheus, present::begin);
    // A fan-out costs an allocation a number: only where there are two.
    let recorder: BoxedRecorder = match &metrics.statsd {
        None => Box::new(prometheus),
        Some(way) => Box::new(
            FanoutBuilder::default()
                .add_recorder(prometheus)
                .add_recorder(statsd_recorder(way)?)
                .build(),
        ),
    };
    for metric in METRICS {
        describe(&recorder, metric);
    }
    Ok((recorder, metrics))
}

fn statsd_recorder(way: &Arc<Way>) -> Result<Statsd, TelemetryError> {
    let target = &way.target;
    let mut builder = StatsdBuilder::from(target.host.clone(), target.port).with_sink(Sent(Arc::clone(way)));
    if target.dialect == StatsdDialect::Statsd {
        builder = builder.histogram_is_timer();
    }
    Ok(Statsd {
        recorder: builder.build(None).map_err(|source| no_way(target, source))?,
        dialect: target.dialect,
    })
}

fn no_way(target: &StatsdTarget, source: StatsdError) -> TelemetryError {
    TelemetryError::Statsd {
        host: target.host.clone(),
        port: target.port,
        source,
    }
}

fn describe(recorder: &BoxedRecorder, metric: &Metric) {
    let (name, unit) = (metric.name.into(), Some(metric.unit));
    let help = SharedString::const_str(metric.help);
    match metric.kind {
        MetricKind::Counter => recorder.describe_counter(name, unit, help),
        MetricKind::Gauge => recorder.describe_gauge(name, unit, help),
        MetricKind::Histogram => recorder.describe_histogram(name, unit, help),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::super::names::{ATTEMPT_DURATION, ATTEMPTS, WAITING, WORKERS_BUSY};
    use super::*;

    fn record(recorder: &BoxedRecorder) {
        metrics::with_local_recorder(recorder, || {
            metrics::counter!(ATTEMPTS, "class" => "delivered").increment(2);
            metrics::gauge!(WORKERS_BUSY).set(3.0);
            metrics::gauge!(WAITING).set(f64::NAN);
            metrics::histogram!(ATTEMPT_DURATION, "class" => "delivered").record(0.02);
        });
    }

    #[test]
    fn numbers_are_rendered_with_their_help_and_bounds() {
        let (recorder, metrics) = build(None).unwrap();
        record(&recorder);
        metrics.sweep();
        let text = metrics.render();
        for line in [
            "# TYPE redrive_attempts_total counter",
            "redrive_attempts_total{class=\"delivered\"} 2",
            "# HELP redrive_workers_busy Delivery queues worked on whose attempts can still proceed.",
            "redrive_workers_busy 3",
            "redrive_attempt_duration_seconds_bucket{class=\"delivered\",le=\"0.01\"} 0",
            "redrive_attempt_duration_seconds_bucket{class=\"delivered\",le=\"0.025\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn every_family_is_there_from_the_start_and_what_is_unknown_is_no_number() {
        let (_recorder, metrics) = build(None).unwrap();
        let text = metrics.render();
        for metric in METRICS {
            for line in ["HELP", "TYPE"] {
                assert_eq!(
                    text.matches(&format!("# {line} {} ", metric.name)).count(),
                    1,
                    "{}",
                    metric.name
                );
            }
        }
        for line in [
            "redrive_attempts_total{class=\"failed\"} 0",
            "redrive_waiting_messages NaN",
            "redrive_dead_letters NaN",
            "redrive_queues{state=\"quarantined\"} NaN",
            concat!("redrive_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn the_original_statsd_gets_lines_that_it_takes() {
        let sent = sent(StatsdDialect::Statsd);
        let mut lines: Vec<&str> = sent.lines().collect();
        lines.sort_unstable();
        // No labels, and a duration is a timer in milliseconds.
        assert_eq!(
            lines,
            [
                "redrive_attempt_duration.delivered:20|ms",
                "redrive_attempts_total.delivered:2|c",
                "redrive_workers_busy:3|g"
            ]
        );
    }

    #[test]
    fn numbers_reach_statsd_too_where_it_is_configured() {
        let text = sent(StatsdDialect::DogStatsD);
        assert!(text.contains("redrive_attempts_total:2|c|#class:delivered"), "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }

    /// What a statsd of this dialect gets.
    fn sent(dialect: StatsdDialect) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let target = StatsdTarget {
            host: "127.0.0.1".into(),
            port: socket.local_addr().unwrap().port(),
            dialect,
        };
        let (recorder, metrics) = build(Some(&target)).unwrap();
        metrics.find_statsd().unwrap();
        record(&recorder);
        assert!(metrics.render().contains("redrive_workers_busy 3"));
        // What is buffered is sent when its owners go.
        drop((recorder, metrics));
        let mut datagram = [0; 2048];
        let length = socket.recv(&mut datagram).unwrap();
        String::from_utf8_lossy(&datagram[..length]).into_owned()
    }

    #[test]
    fn a_statsd_that_cannot_be_found_is_named_and_the_numbers_are_kept() {
        let target = StatsdTarget {
            host: "nowhere.invalid".into(),
            port: 8125,
            dialect: StatsdDialect::default(),
        };
        let (recorder, metrics) = build(Some(&target)).unwrap();
        record(&recorder);
        assert!(metrics.render().contains("redrive_workers_busy 3"));
        let text = metrics.find_statsd().unwrap_err().to_string();
        assert!(
            text.contains("nowhere.invalid") && text.contains("metrics.statsd"),
            "{text}"
        );
    }
}
