//! Answers that go on: server-sent events, without what the masks hide from whoever may only look.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;

use crate::wire::attach::{STOPS, frame};
use crate::wire::json;

use super::Shared;
use super::guard::Caller;
use super::masked::{MasksItself, without};
use super::problem::with_type;

/// A stream that has nothing to tell says that it is there.
pub(super) const BEAT: Duration = Duration::from_secs(10);
/// How: by a comment, which no reader takes for an event.
pub(super) const BEATS: &[u8] = b":\n\n";

/// What goes on being told.
pub(super) trait Telling: Send + 'static {
    /// The next part; `None`: there is nothing more.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send;
}

/// The answer that tells all of it, until the daemon stops: store and broker are closed behind it.
pub(super) fn response(shared: &Shared, telling: impl Telling) -> Response {
    let begun = Some((telling, shared.stop.clone()));
    let body = stream::unfold(begun, |told| async {
        let (mut telling, stop) = told?;
        let bytes = match stop.run_until_cancelled(telling.next()).await {
            Some(bytes) => bytes?,
            None => return Some((Ok::<_, Infallible>(Bytes::from_static(STOPS)), None)),
        };
        Some((Ok(Bytes::from(bytes)), Some((telling, stop))))
    });
    MasksItself(with_type(StatusCode::OK, Body::from_stream(body), "text/event-stream")).into_response()
}

/// Writes documents for a caller.
pub(super) struct Writer {
    shared: Arc<Shared>,
    sees_all: bool,
}

impl Writer {
    pub(super) fn new(shared: &Arc<Shared>, caller: &Caller) -> Self {
        Self {
            shared: Arc::clone(shared),
            sees_all: caller.sees_all(),
        }
    }

    /// An event with its document.
    pub(super) fn event(&self, kind: &str, document: &impl Serialize) -> Vec<u8> {
        if self.sees_all {
            return frame(kind, &json::compact(document));
        }
        self.masked(kind, document)
    }

    /// The same as everybody may see it.
    pub(super) fn masked(&self, kind: &str, document: &impl Serialize) -> Vec<u8> {
        frame(kind, &without(&self.shared.settings.masks, &json::compact(document)))
    }
}
