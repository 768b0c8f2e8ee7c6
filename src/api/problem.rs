//! Answers: JSON documents and problem documents.

use std::marker::PhantomData;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::text::show;
use crate::engine::EngineError;
use crate::wire::json;
use crate::wire::problem::Problem;

/// What somebody asked for by mistake is repeated so wide, at most.
const ECHO_WIDTH_MAX: usize = 120;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = document(self.status, &self, "application/problem+json");
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"redrive\""));
        }
        response
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        Self::from(&error)
    }
}

/// A JSON document, answered with this status.
pub(super) struct Json<T, const STATUS: u16 = 200>(pub(super) T);

impl<T: Serialize, const STATUS: u16> IntoResponse for Json<T, STATUS> {
    fn into_response(self) -> Response {
        document(STATUS, &self.0, "application/json")
    }
}

/// One of two answers.
pub(super) enum Or<A, B> {
    One(A),
    Other(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Or<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::One(answer) => answer.into_response(),
            Self::Other(answer) => answer.into_response(),
        }
    }
}

/// There is nothing to answer.
pub(super) struct Nothing;

impl IntoResponse for Nothing {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }
}

/// A JSON document of type `T` that was written before.
pub(super) struct Written<T>(pub(super) Response, pub(super) PhantomData<fn() -> T>);

impl<T> IntoResponse for Written<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

macro_rules! other_answers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name(pub(super) Response);

        impl IntoResponse for $name {
            fn into_response(self) -> Response {
                self.0
            }
        }
    )*};
}

other_answers! {
    /// Dead letters, a line of JSON each.
    Lines;
    /// Server-sent events.
    Events;
    /// Text for people or for Prometheus.
    Text;
}

/// Text of another kind.
pub(super) fn text(text: String, content_type: &'static str) -> Response {
    with_type(StatusCode::OK, Body::from(text), content_type)
}

fn document(status: u16, shape: &impl Serialize, content_type: &'static str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_type(status, Body::from(json::compact(shape)), content_type)
}

/// A body of this type.
pub(super) fn with_type(status: StatusCode, body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    response
}

/// There is no such route.
pub(super) async fn no_route(uri: Uri) -> Problem {
    let path = show(uri.path(), ECHO_WIDTH_MAX);
    Problem::new(404, format!("there is no route {path:?}; see /openapi.json"))
}

/// The route does not have this method.
pub(super) async fn no_method(method: Method, uri: Uri) -> Problem {
    let path = show(uri.path(), ECHO_WIDTH_MAX);
    let method = show(method.as_str(), ECHO_WIDTH_MAX);
    Problem::new(405, format!("{path:?} does not have {method}; see /openapi.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_route_and_no_method_is_repeated_in_bounds() {
        let long = "A".repeat(50_000);
        let uri: Uri = format!("/{long}").parse().unwrap();
        let method = Method::from_bytes(long.as_bytes()).unwrap();
        for problem in [no_route(uri.clone()).await, no_method(method, uri).await] {
            assert!(problem.detail.len() < 1_000, "{}", problem.detail.len());
        }
    }
}
