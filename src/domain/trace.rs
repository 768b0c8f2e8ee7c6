//! Trace context (W3C): the two headers by which a receiver's spans belong to the trace of whoever published.
//!
//! They are passed on as they came, and only where they are what they say: what cannot be read is left out, and stops
//! no delivery. Spans of our own stand beside that of the receiver, under the same parent.

/// Names the trace and the span that published.
pub const TRACEPARENT: &str = "traceparent";
/// What vendors add; means nothing without the other one.
pub const TRACESTATE: &str = "tracestate";
/// Bytes of a `tracestate` that is passed on.
const STATE_BYTES_MAX: usize = 512;

/// Both headers for a request, where the first is one; `has` tells which the request has already.
#[must_use]
pub fn context(parent: Option<&str>, state: Option<&str>, has: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let Some(parent) = parent.map(str::trim).filter(|parent| is_parent(parent)) else {
        return Vec::new();
    };
    // Those of a publisher that writes them itself belong together.
    if has(TRACEPARENT) {
        return Vec::new();
    }
    let mut headers = vec![(TRACEPARENT.to_owned(), parent.to_owned())];
    let state = state.map(str::trim).filter(|state| is_state(state));
    if let Some(state) = state.filter(|_| !has(TRACESTATE)) {
        headers.push((TRACESTATE.to_owned(), state.to_owned()));
    }
    headers
}

/// What a [`TRACEPARENT`] says.
#[cfg(any(test, feature = "otlp", feature = "internals"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent<'a> {
    /// The trace's id, 32 hexadecimal digits.
    pub trace: &'a str,
    /// The id of the span that caused what came, 16 digits.
    pub span: &'a str,
    /// Whether whoever caused it records it.
    pub is_sampled: bool,
}

#[cfg(any(test, feature = "otlp", feature = "internals"))]
impl<'a> Parent<'a> {
    /// `version-trace-span-flags`; `None` where it is none.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let mut parts = text.split('-').skip(1);
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        is_parent(text).then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// The context of whoever caused something that is kept first, and sent later: the first header, and the second one
/// behind a space where there is one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TraceContext(String);

impl TraceContext {
    /// That of these headers, where the first is one.
    #[must_use]
    pub fn of(parent: Option<&str>, state: Option<&str>) -> Option<Self> {
        let headers = context(parent, state, |_| false);
        let values: Vec<&str> = headers.iter().map(|(_, value)| value.as_str()).collect();
        let is_one = values.first().is_some_and(|parent| !parent.contains(' '));
        is_one.then(|| Self(values.join(" ")))
    }

    /// As it was kept.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (parent, state) = text.split_once(' ').unzip();
        Self::of(Some(parent.unwrap_or(text)), state)
    }

    /// As it is kept.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its headers for a request; see [`context`].
    #[must_use]
    pub fn headers(&self, has: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let (parent, state) = self.0.split_once(' ').unzip();
        context(Some(parent.unwrap_or(&self.0)), state, has)
    }
}

/// `version-trace-span-flags`, in lower-case hexadecimal; later versions may have more.
fn is_parent(text: &str) -> bool {
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let mut parts = text.splitn(5, '-');
    let mut part = || parts.next().unwrap_or_default();
    let (version, trace, span, flags) = (part(), part(), part(), part());
    let more = parts.next();
    hex(version, 2)
        && version != "ff"
        && hex(trace, 32)
        && !is_zero(trace)
        && hex(span, 16)
        && !is_zero(span)
        && hex(flags, 2)
        && (version != "00" || more.is_none())
        && text.len() <= STATE_BYTES_MAX
        && text.is_ascii()
}

fn is_state(text: &str) -> bool {
    !text.is_empty() && text.len() <= STATE_BYTES_MAX && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn passed(parent: &str, state: &str, has: &[&str]) -> usize {
        context(Some(parent), Some(state), |name| has.contains(&name)).len()
    }

    #[test]
    fn a_context_is_passed_on_whole_or_not_at_all() {
        assert_eq!(passed(PARENT, "vendor=1", &[]), 2);
        assert_eq!(passed(PARENT, "", &[]), 1);
        assert_eq!(passed(PARENT, "vendor=1\u{1b}", &[]), 1);
        assert_eq!(passed(PARENT, "vendor=1", &[TRACEPARENT]), 0);
        assert_eq!(passed(PARENT, "vendor=1", &[TRACESTATE]), 1);
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nx: y",
        ] {
            assert_eq!(passed(wrong, "vendor=1", &[]), 0, "{wrong:?}");
        }
        assert_eq!(passed(&format!("01{}-more", &PARENT[2..]), "", &[]), 1);
    }

    #[test]
    fn the_trace_the_span_and_whether_it_is_recorded_are_read() {
        let parent = Parent::parse(PARENT).unwrap();
        assert_eq!(parent.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((parent.span, parent.is_sampled), ("00f067aa0ba902b7", true));
        let unrecorded = format!("{}00", PARENT.strip_suffix("01").unwrap());
        assert!(!Parent::parse(&unrecorded).unwrap().is_sampled);
        assert_eq!(Parent::parse("00-1-2-01"), None);
    }

    #[test]
    fn a_context_that_is_kept_is_the_same_afterwards() {
        for state in [None, Some("vendor=1,other=a b")] {
            let kept = TraceContext::of(Some(PARENT), state).unwrap();
            let again = TraceContext::parse(kept.as_str()).unwrap();
            assert_eq!(again, kept);
            assert_eq!(again.headers(|_| false), context(Some(PARENT), state, |_| false));
        }
        assert_eq!(TraceContext::of(Some("none"), Some("vendor=1")), None);
        assert_eq!(TraceContext::parse(""), None);
    }
}
