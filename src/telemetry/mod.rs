//! Sets up what is told about the running program: the log, the numbers, and spans.
//!
//! Both are process-wide and set once, by the composition root. The log never goes to standard output,
//! which belongs to the answer of a command. What is counted under which name is in [`METRICS`].

mod json;
mod log;
mod metrics;
pub mod names;
#[cfg(feature = "otlp")]
pub mod otlp;
mod present;
mod process;
mod seldom;
mod span;
mod statsd;

pub use self::log::{LogFormat, LogTarget, log_to};
pub use self::metrics::{Metrics, StatsdTarget};
pub use self::names::*;
pub use self::seldom::LoggedAt;
pub use self::span::{Fact, Span, SpanKind, record_span, spans_are_told};
pub use self::statsd::StatsdDialect;

/// Why the log or the numbers cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter of the log is not one.
    #[error("log filter {filter:?} cannot be read; write it as info or redrive=debug,sqlx=warn")]
    Filter {
        /// As given.
        filter: String,
        /// What the parser says.
        source: tracing_subscriber::filter::ParseError,
    },
    /// A word in the filter of the log is neither a level nor an assignment.
    #[error(
        "log filter {filter:?}: {word:?} is no level; write error, warn, info, debug, trace or off, and the level of a part as sqlx=warn"
    )]
    Level {
        /// As given.
        filter: String,
        /// Which word.
        word: String,
    },
    /// It was set up before.
    #[error("{what} is set up already")]
    Twice {
        /// The log, or the numbers.
        what: &'static str,
    },
    /// The bounds of the histograms are refused.
    #[error("cannot set up the histograms")]
    Histograms(#[from] metrics_exporter_prometheus::BuildError),
    /// There is no way to statsd.
    #[error("cannot send to statsd at {host:?} port {port} (metrics.statsd)")]
    Statsd {
        /// The host as configured.
        host: String,
        /// The port as configured.
        port: u16,
        /// Why.
        source: metrics_exporter_statsd::StatsdError,
    },
    /// There is no client for the collector.
    #[cfg(feature = "otlp")]
    #[error("cannot make a client for the collector (telemetry.otlp)")]
    Otlp {
        /// Why.
        source: reqwest::Error,
    },
}
