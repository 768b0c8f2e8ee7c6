//! Queues that the broker deletes when nobody uses them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::engine::{Answer, Query};
use crate::wire::List;
use crate::wire::expiring::ExpiringShape;
use crate::wire::problem::Problem;

use super::Shared;
use super::problem::answer;
use super::queues::mismatch;

/// All of them, what is lost first in front.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let Answer::Expiring(page) = shared.engine()?.query(Query::Expiring).await? else {
        return Err(mismatch());
    };
    Ok(answer(StatusCode::OK, &List::<ExpiringShape>::of(&page)))
}
