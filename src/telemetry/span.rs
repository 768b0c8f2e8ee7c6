//! Spans: what was done to one message, when, and as a part of which trace.
//!
//! A span is recorded when it is over. Its trace is that of the context which came with the message; where none came
//! the message's id names it, so that a publish here and an attempt elsewhere are one trace nonetheless. Whoever did
//! not want his trace to be recorded (its flag says so) is not recorded here either. Without somebody to tell, which
//! needs the cargo feature `otlp`, nothing is made.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// How what was done relates to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "a collector reads it"))]
pub enum SpanKind {
    /// Inside.
    Internal,
    /// It asked another program and waited for its answer.
    Client,
    /// It handed a message on.
    Producer,
}

/// What a span says beside its name.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "a collector reads it"))]
pub enum Fact<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Count(u64),
}

/// Something that is over.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "a collector reads it"))]
pub struct Span<'a> {
    /// `publish`, `attempt`, `redrive`.
    pub name: &'static str,
    /// Its kind.
    pub kind: SpanKind,
    /// The message's id.
    pub message: &'a str,
    /// The `traceparent` that came with it.
    pub parent: Option<&'a str>,
    /// When it began.
    pub began: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, in a word; `None`: it did not.
    pub failed: Option<&'a str>,
    /// What else is to be known, by the names of the field.
    pub facts: &'a [(&'static str, Fact<'a>)],
}

/// Whether anybody is told of spans: where nobody is, none has to be made.
#[must_use]
pub fn spans_are_told() -> bool {
    #[cfg(feature = "otlp")]
    let told = super::otlp::is_on();
    #[cfg(not(feature = "otlp"))]
    let told = false;
    told
}

/// Tells of a span; never waits.
pub fn record_span(span: &Span<'_>) {
    #[cfg(feature = "otlp")]
    super::otlp::take(span);
    #[cfg(not(feature = "otlp"))]
    let _ = span;
}
