//! The documents of OTLP in JSON: ids in hexadecimal, 64-bit numbers as strings.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ambient;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::trace::Parent;
use crate::telemetry::span::{Fact, Span, SpanKind};

/// Characters of a text.
const TEXT_MAX: usize = 1_024;
const FAILED: u8 = 2;

/// What tells, as every document begins.
pub(super) struct Resource {
    attributes: Vec<Value>,
    /// When this process began to count.
    pub(super) began: Timestamp,
}

impl Resource {
    pub(super) fn of_process(began: Timestamp) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let instance = format!("{host}-{}", std::process::id());
        Self {
            attributes: vec![
                text("service.name", "redrive"),
                text("service.version", env!("CARGO_PKG_VERSION")),
                text("service.instance.id", &instance),
                text("host.name", &host),
            ],
            began,
        }
    }

    pub(super) fn spans(&self, spans: &[Value]) -> Value {
        json!({"resourceSpans": [{
            "resource": {"attributes": self.attributes},
            "scopeSpans": [{"scope": scope(), "spans": spans}],
        }]})
    }

    pub(super) fn numbers(&self, metrics: &[Value]) -> Value {
        json!({"resourceMetrics": [{
            "resource": {"attributes": self.attributes},
            "scopeMetrics": [{"scope": scope(), "metrics": metrics}],
        }]})
    }
}

fn scope() -> Value {
    json!({"name": "redrive", "version": env!("CARGO_PKG_VERSION")})
}

/// A span; `None` where its trace is not to be recorded.
pub(super) fn span(span: &Span<'_>) -> Option<Value> {
    let parent = span.parent.and_then(Parent::parse);
    if parent.is_some_and(|parent| !parent.is_sampled) {
        return None;
    }
    let trace = parent.map_or_else(|| trace_of(span.message), |parent| parent.trace.to_owned());
    let mut attributes: Vec<Value> = span.facts.iter().map(|(name, fact)| attribute(name, *fact)).collect();
    attributes.push(text("messaging.message.id", span.message));
    attributes.extend(span.failed.map(|why| text("error.type", why)));
    let mut shape = json!({
        "traceId": trace,
        "spanId": format!("{:016x}", ambient::random().max(1)),
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": nanos(span.began),
        "endTimeUnixNano": nanos(span.began.plus(span.took)),
        "attributes": attributes,
        "status": span.failed.map_or_else(|| json!({}), |_| json!({"code": FAILED})),
    });
    if let Some(parent) = parent {
        shape["parentSpanId"] = parent.span.into();
    }
    Some(shape)
}

/// The trace of a message that came without one: the same wherever it is met.
fn trace_of(message: &str) -> String {
    let digest = Sha256::digest(message.as_bytes());
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

const fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
    }
}

pub(super) fn nanos(at: Timestamp) -> String {
    (i128::from(at.micros().max(0)) * 1_000).to_string()
}

fn attribute(name: &str, fact: Fact<'_>) -> Value {
    match fact {
        Fact::Text(value) => text(name, value),
        Fact::Count(value) => json!({"key": name, "value": {"intValue": value.to_string()}}),
    }
}

/// Text from outside is bounded, and has no control characters.
pub(super) fn text(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": show(value, TEXT_MAX)}})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn made(parent: Option<&str>) -> Option<Value> {
        span(&Span {
            name: "attempt",
            kind: SpanKind::Client,
            message: "m-1",
            parent,
            began: Timestamp::from_seconds(10),
            took: Duration::from_millis(20),
            failed: Some("failed"),
            facts: &[("http.response.status_code", Fact::Count(503))],
        })
    }

    #[test]
    fn a_span_belongs_to_the_trace_that_came_or_to_that_of_its_message() {
        let came = made(Some(&format!("00-{TRACE}-00f067aa0ba902b7-01"))).unwrap();
        assert_eq!(
            (&came["traceId"], &came["parentSpanId"]),
            (&json!(TRACE), &json!("00f067aa0ba902b7"))
        );
        assert_eq!(came["endTimeUnixNano"], "10020000000");
        let own = made(None).unwrap();
        assert_eq!(own["traceId"].as_str().map(str::len), Some(32));
        assert_eq!(own["traceId"], made(Some("nonsense")).unwrap()["traceId"]);
        assert!(own.get("parentSpanId").is_none());
        assert_ne!(own["spanId"], made(None).unwrap()["spanId"]);
    }

    #[test]
    fn a_trace_that_nobody_records_is_not_recorded_here() {
        assert_eq!(made(Some(&format!("00-{TRACE}-00f067aa0ba902b7-00"))), None);
    }
}
