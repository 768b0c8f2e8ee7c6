//! Answers that are made whole draw on the memory until the client has them. What is small is left out: the bound of
//! connections bounds it. So are streams, whose parts have shares of their own.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::response::Parts;
use axum::response::Response;
use http_body_util::BodyExt as _;

use super::extract::in_time;
use crate::budget::{Budget, SMALL_BYTES, Share, Use};
use crate::wire::problem::Problem;

/// The share of the memory for the answer to a read; one that gets none in time is sent away, and the client may ask
/// again. What was done cannot be unsaid: the answer to a change waits for nothing.
pub(super) fn share_of(
    memory: &Budget,
    is_read: bool,
    response: &Response,
) -> impl Future<Output = Result<Option<Share>, Problem>> + Send {
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    async move {
        if !is_read || bytes <= SMALL_BYTES {
            return Ok(None);
        }
        in_time(memory.take(Use::Answer, bytes)).await.map(Some)
    }
}

/// The answer, whose bytes have their share with them wherever the connection keeps them.
pub(super) async fn with_share(response: Response, share: Option<Share>) -> Response {
    let Some(share) = share else { return response };
    let (parts, bytes) = whole(response).await;
    Response::from_parts(parts, Body::from(Bytes::from_owner(Shared { bytes, _share: share })))
}

/// An answer that was made whole in memory.
pub(super) async fn whole(response: Response) -> (Parts, Bytes) {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes);
    (parts, bytes.unwrap_or_default())
}

struct Shared {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
