//! What routes take out of a request; each says the field that is wrong.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use crate::domain::id::{ExecutionId, QueueName};
use crate::wire::input;
use crate::wire::problem::Problem;
use crate::wire::publish::whole;

use super::{BODIES_KIB_MAX, Shared};

/// A body has this many bytes, at most: the largest notification in base64, and some.
pub(super) const BODY_BYTES_MAX: usize = 24 * 1024 * 1024;
/// A body has to arrive within this time.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// The query of the URL; a key that is not known is an error.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Shared>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        Query::<T>::try_from_uri(&parts.uri)
            .map(|Query(inner)| Self(inner))
            .map_err(|error| {
                let text = error.body_text();
                Problem {
                    field: text.split('`').nth(1).map(Into::into),
                    ..Problem::new(400, text)
                }
            })
    }
}

/// A queue's name in the path, percent-encoded.
pub(super) struct Name(pub(super) QueueName);

impl FromRequestParts<Arc<Shared>> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        input::queue(&segment(parts, "queue").await?).map(Self)
    }
}

/// An execution's id in the path, percent-encoded.
pub(super) struct Execution(pub(super) ExecutionId);

impl FromRequestParts<Arc<Shared>> for Execution {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        input::execution(&segment(parts, "execution_id").await?).map(Self)
    }
}

/// An id in the path, percent-encoded.
pub(super) struct Segment(pub(super) String);

impl FromRequestParts<Arc<Shared>> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Shared>) -> Result<Self, Problem> {
        segment(parts, "id").await.map(Self)
    }
}

async fn segment(parts: &mut Parts, field: &str) -> Result<String, Problem> {
    let path: Result<Path<String>, _> = Path::from_request_parts(parts, &()).await;
    path.map(|Path(text)| text)
        .map_err(|error| Problem::field(field, error.body_text()))
}

/// The body's bytes, with the share of memory that they take.
pub(super) struct RawBody {
    pub(super) bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

impl FromRequest<Arc<Shared>> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let announced = request
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse::<usize>().ok());
        if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
            return Err(too_large());
        }
        let kib = (announced.unwrap_or(BODY_BYTES_MAX) / 1024 + 1).min(BODIES_KIB_MAX);
        let read = async {
            let memory = Arc::clone(&shared.bodies)
                .acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX))
                .await
                .map_err(|_| Problem::unavailable("stopping"))?;
            let bytes = Bytes::from_request(request, &())
                .await
                .map_err(|error| match error.status().as_u16() {
                    413 => too_large(),
                    status => Problem::new(status, error.body_text()),
                })?;
            Ok(Self { bytes, _memory: memory })
        };
        tokio::time::timeout(BODY_TIMEOUT, read)
            .await
            .unwrap_or_else(|_| Err(Problem::new(408, "the body did not arrive in time")))
    }
}

fn too_large() -> Problem {
    Problem::new(413, format!("the body has more than {BODY_BYTES_MAX} bytes"))
}

/// A small JSON document; an empty body counts as `{}`.
pub(super) struct Input<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let body = RawBody::from_request(request, shared).await?;
        let text: &[u8] = if body.bytes.trim_ascii().is_empty() {
            b"{}"
        } else {
            &body.bytes
        };
        serde_json::from_slice(text).map(Self).map_err(|error| whole(&error))
    }
}
