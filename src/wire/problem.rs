//! Errors as RFC 9457 problem documents: status, what is wrong, and the offending field.

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::EngineError;

/// A problem document (`application/problem+json`).
#[derive(Clone, Debug, JsonSchema, Serialize, PartialEq, Eq)]
pub struct Problem {
    /// A URN that names the kind of problem.
    pub r#type: &'static str,
    /// The same for people.
    pub title: &'static str,
    /// HTTP status.
    pub status: u16,
    /// What is wrong here and what to do.
    pub detail: String,
    /// The field of the input that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<Box<str>>,
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Box<str>>,
    /// The notification's id, to repeat with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Box<str>>,
    /// When to come back, as the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
}

/// What a caller should wait before repeating where broker or store cannot be reached.
const RETRY_AFTER_S: u32 = 2;

impl Problem {
    /// A problem of this status; the title follows from it.
    #[must_use]
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        let (code, title) = kind(status);
        Self {
            r#type: code,
            title,
            status,
            detail: detail.into(),
            field: None,
            nearest: None,
            id: None,
            retry_after_s: None,
        }
    }

    /// Wrong input in `field`.
    #[must_use]
    pub fn field(field: &str, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..Self::new(400, detail)
        }
    }

    /// The same under the name by which the field was given here.
    #[must_use]
    pub fn named(self, field: &str) -> Self {
        let known = self.field.as_deref().unwrap_or_default();
        let detail = match self.detail.strip_prefix(known) {
            Some(rest) if !known.is_empty() => format!("{field}{rest}"),
            Some(_) | None => self.detail,
        };
        Self {
            field: Some(field.into()),
            detail,
            ..self
        }
    }

    /// Not now: worth repeating.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Self::new(503, detail)
        }
    }

    /// The same problem, with the id of the notification it is about.
    #[must_use]
    pub fn with_id(mut self, id: &str) -> Self {
        self.id = Some(id.into());
        self
    }
}

impl From<&EngineError> for Problem {
    fn from(error: &EngineError) -> Self {
        let detail = chain(error);
        match error {
            EngineError::Invalid { field, .. } => Self::field(field, detail),
            EngineError::RefusedUrl { .. } => Self {
                field: Some("url".into()),
                ..Self::new(422, detail)
            },
            EngineError::NotFound { .. } | EngineError::Expired { .. } => Self::new(404, detail),
            EngineError::InvalidPolicy(error) => Self {
                field: error.field.as_deref().map(Into::into),
                nearest: error.nearest.as_deref().map(Into::into),
                ..Self::new(400, detail)
            },
            EngineError::Refused { .. } => Self::new(409, detail),
            EngineError::TooLarge { .. } => Self::new(413, detail),
            EngineError::Busy { .. } => Self {
                retry_after_s: Some(RETRY_AFTER_S),
                ..Self::new(429, detail)
            },
            EngineError::Unconfirmed { id, .. } => Self::unavailable(detail).with_id(id),
            EngineError::OtherOwner { .. }
            | EngineError::Unread(_)
            | EngineError::Broker(_)
            | EngineError::Store(_) => Self::unavailable(detail),
        }
    }
}

/// An error with its causes, each said once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    causes(error).join(": ")
}

/// An error and its causes, outermost first, none twice.
#[must_use]
pub fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let mut causes: Vec<String> = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !causes.iter().any(|known| known.ends_with(&text)) {
            causes.push(text);
        }
        next = cause.source();
    }
    causes
}

/// What a problem of this status is called.
#[must_use]
pub const fn title(status: u16) -> &'static str {
    kind(status).1
}

const fn kind(status: u16) -> (&'static str, &'static str) {
    match status {
        400 => ("urn:redrive:problem:invalid-input", "The input is invalid"),
        401 => ("urn:redrive:problem:unauthenticated", "A bearer token is needed"),
        403 => ("urn:redrive:problem:forbidden", "This is not allowed"),
        404 => ("urn:redrive:problem:not-found", "There is no such thing"),
        405 => (
            "urn:redrive:problem:method-not-allowed",
            "The route does not have this method",
        ),
        408 => ("urn:redrive:problem:too-slow", "The request did not arrive in time"),
        409 => ("urn:redrive:problem:refused", "The command is refused"),
        413 => ("urn:redrive:problem:too-large", "The body is too large"),
        415 => ("urn:redrive:problem:unsupported-media-type", "The body must be JSON"),
        421 => (
            "urn:redrive:problem:misdirected",
            "The Host header names another server",
        ),
        422 => ("urn:redrive:problem:never-possible", "This is never done here"),
        429 => ("urn:redrive:problem:too-many-requests", "There are too many requests"),
        503 => ("urn:redrive:problem:unavailable", "Not possible at present"),
        _ => ("urn:redrive:problem:failed", "It failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_error_has_its_status_and_its_field() {
        let invalid = Problem::from(&EngineError::Invalid {
            field: "url".to_owned(),
            message: "url is empty".to_owned(),
        });
        assert_eq!((invalid.status, invalid.field.as_deref()), (400, Some("url")));
        let unconfirmed = Problem::from(&EngineError::Unconfirmed {
            id: "n-1".to_owned(),
            why: "no confirm".to_owned(),
        });
        assert_eq!((unconfirmed.status, unconfirmed.id.as_deref()), (503, Some("n-1")));
        assert!(unconfirmed.retry_after_s.is_some());
    }

    #[test]
    fn causes_are_said_once() {
        let error = anyhow::anyhow!("inner").context("outer: inner").context("top");
        assert_eq!(causes(error.as_ref()), ["top", "outer: inner"]);
    }
}
