//! Dead letters: the list, groups, queues, one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::engine::dead::{DeadCompareQuery, DeadListQuery, DeadQueuesQuery, DeadSelection, SAMPLE_MAX};
use crate::engine::query;

use crate::wire::dead::{Comparison, DeadLetter, Detail, Group, List, QueueList};
use crate::wire::input;
use crate::wire::problem::Problem;

use super::Shared;
use super::extract::Params;
use super::masked::MasksItself;
use super::problem::answer;

/// How long an answer waits for looks under way; what they have not seen yet is missing in it, and its
/// queues say so.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    queue: Option<String>,
    group: Option<String>,
    filter: Option<String>,
    sort: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

impl Which {
    fn query(self) -> Result<DeadListQuery, Problem> {
        Ok(DeadListQuery {
            selection: selection(self.queue.as_deref(), self.group, self.filter)?,
            sort: self.sort,
            limit: input::limit(self.limit, 100, input::LIMIT_MAX)?,
            cursor: self.cursor,
            patience: PATIENCE,
        })
    }
}

/// Which dead letters a query asks for.
pub(super) fn selection(
    queue: Option<&str>,
    group: Option<String>,
    filter: Option<String>,
) -> Result<DeadSelection, Problem> {
    Ok(DeadSelection {
        queue: queue.map(input::queue).transpose()?,
        group,
        filter,
    })
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, Params(which): Params<Which>) -> Result<Response, Problem> {
    let page = shared.engine()?.query(query::Dead(which.query()?)).await?;
    Ok(answer(StatusCode::OK, &List::<DeadLetter>::of(&page)))
}

pub(super) async fn groups(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<Which>,
) -> Result<Response, Problem> {
    let page = shared.engine()?.query(query::DeadGroups(which.query()?)).await?;
    Ok(answer(StatusCode::OK, &List::<Group>::of(&page)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichQueues {
    filter: Option<String>,
    sort: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

pub(super) async fn queues(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<WhichQueues>,
) -> Result<Response, Problem> {
    let query = DeadQueuesQuery {
        filter: which.filter,
        sort: which.sort,
        limit: input::limit(which.limit, 100, input::LIMIT_MAX)?,
        cursor: which.cursor,
        patience: PATIENCE,
    };
    let page = shared.engine()?.query(query::DeadQueues(query)).await?;
    Ok(answer(StatusCode::OK, &QueueList::from(&page)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compared {
    /// With commas between them.
    ids: Option<String>,
    queue: Option<String>,
    group: Option<String>,
    filter: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn compare(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<Compared>,
) -> Result<Response, Problem> {
    let ids = which.ids.iter().flat_map(|ids| ids.split(','));
    let query = DeadCompareQuery {
        ids: ids.map(|id| id.trim().to_owned()).collect(),
        selection: selection(which.queue.as_deref(), which.group, which.filter)?,
        limit: input::limit(which.limit, 50, SAMPLE_MAX)?,
        patience: PATIENCE,
    };
    let found = shared.engine()?.query(query::CompareDead(query)).await?;
    // Hidden already; what stands here by its place would not be found by its name.
    Ok(MasksItself::said_of(answer(StatusCode::OK, &Comparison::from(&found))))
}

pub(super) async fn show(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Result<Response, Problem> {
    let query = query::OneDeadLetter { id, patience: PATIENCE };
    let detail = shared.engine()?.query(query).await?;
    Ok(answer(StatusCode::OK, &Detail::from(&detail)))
}
