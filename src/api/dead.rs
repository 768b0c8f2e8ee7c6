//! Dead letters: the list, groups, queues, one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::dead::{DeadCompareQuery, DeadListQuery, DeadQueuesQuery, DeadSelection, SAMPLE_MAX};
use crate::engine::query;

use crate::wire::dead::{Comparison, DeadLetter, Detail, Group, List, QueueList};
use crate::wire::input;
use crate::wire::problem::Problem;

use super::Shared;
use super::extract::{NoParams, Params, Segment};
use super::limit::Limit;
use super::masked::MasksItself;
use super::problem::Json;

/// How long an answer waits for looks under way; what they have not seen yet is missing in it, and its
/// queues say so.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Of this queue.
    queue: Option<String>,
    /// A group, by its fingerprint.
    group: Option<String>,
    /// A filter, in the filter language.
    filter: Option<String>,
    /// A column to sort by, the latest or largest value first: `last_failed_at`, `first_failed_at`, `attempts`, `redriven` or
    /// `size_bytes`; by `position`, the first of each queue comes first. A `-` in front changes nothing.
    sort: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

impl Which {
    fn query(self) -> Result<DeadListQuery, Problem> {
        Ok(DeadListQuery {
            selection: selection(self.queue.as_deref(), self.group, self.filter)?,
            sort: self.sort,
            limit: self.limit.items()?,
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

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<Which>,
) -> Result<Json<List<DeadLetter>>, Problem> {
    let page = shared.engine()?.query(query::Dead(which.query()?)).await?;
    Ok(Json(List::<DeadLetter>::of(&page)))
}

/// Which groups: they have an order of their own.
#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichGroups {
    /// Of this queue.
    queue: Option<String>,
    /// A group, by its fingerprint.
    group: Option<String>,
    /// A filter, in the filter language.
    filter: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

pub(super) async fn groups(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<WhichGroups>,
) -> Result<Json<List<Group>>, Problem> {
    let which = Which {
        queue: which.queue,
        group: which.group,
        filter: which.filter,
        sort: None,
        limit: which.limit,
        cursor: which.cursor,
    };
    let page = shared.engine()?.query(query::DeadGroups(which.query()?)).await?;
    Ok(Json(List::<Group>::of(&page)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhichQueues {
    /// A filter, in the filter language.
    filter: Option<String>,
    /// A column to sort by, with `-` in front descending.
    sort: Option<String>,
    /// How many are answered, at most.
    #[serde(default)]
    limit: Limit,
    /// Where the page begins: `next_cursor` of the page before.
    cursor: Option<String>,
}

pub(super) async fn queues(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<WhichQueues>,
) -> Result<Json<QueueList>, Problem> {
    let query = DeadQueuesQuery {
        filter: which.filter,
        sort: which.sort,
        limit: which.limit.items()?,
        cursor: which.cursor,
        patience: PATIENCE,
    };
    let page = shared.engine()?.query(query::DeadQueues(query)).await?;
    Ok(Json(QueueList::from(&page)))
}

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compared {
    /// With commas between them.
    ids: Option<String>,
    /// Of this queue.
    queue: Option<String>,
    /// A group, by its fingerprint.
    group: Option<String>,
    /// A filter, in the filter language.
    filter: Option<String>,
    /// How many are compared.
    #[serde(default)]
    limit: Limit<50, SAMPLE_MAX>,
}

pub(super) async fn compare(
    State(shared): State<Arc<Shared>>,
    Params(which): Params<Compared>,
) -> Result<MasksItself<Json<Comparison>>, Problem> {
    let ids = which.ids.iter().flat_map(|ids| ids.split(','));
    let query = DeadCompareQuery {
        ids: ids.map(|id| id.trim().to_owned()).collect(),
        selection: selection(which.queue.as_deref(), which.group, which.filter)?,
        limit: which.limit.items()?,
        patience: PATIENCE,
    };
    let found = shared.engine()?.query(query::CompareDead(query)).await?;
    // Hidden already; what stands here by its place would not be found by its name.
    Ok(MasksItself(Json(Comparison::from(&found))))
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Segment(id): Segment,
    _: NoParams,
) -> Result<Json<Detail>, Problem> {
    let query = query::OneDeadLetter { id, patience: PATIENCE };
    let detail = shared.engine()?.query(query).await?;
    Ok(Json(Detail::from(&detail)))
}
