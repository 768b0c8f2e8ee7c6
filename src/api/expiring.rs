//! Queues that the broker deletes when nobody uses them, and what was saved from them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;

use crate::engine::Command;
use crate::engine::expiring::ExpiringQuery;
use crate::engine::query;
use crate::engine::query::SaveQuery;
use crate::wire::List;
use crate::wire::expiring::{ExpiringInput, ExpiringList, ExpiringOutcomeShape, SaveShape};
use crate::wire::plan::Asked;
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Acted, Options, act};
use super::extract::{Input, Params};
use super::guard::Caller;
use super::limit::Paged;
use super::problem::Json;

/// What is lost first in front.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Params(page): Params<Paged<1_000, 20_000>>,
) -> Result<Json<ExpiringList>, Problem> {
    let query = ExpiringQuery {
        limit: page.limit.items()?,
        cursor: page.cursor,
    };
    let page = shared.engine()?.query(query::Expiring(query)).await?;
    Ok(Json(ExpiringList::from(&page)))
}

/// Newest first.
pub(super) async fn saves(
    State(shared): State<Arc<Shared>>,
    Params(page): Params<Paged>,
) -> Result<Json<List<SaveShape>>, Problem> {
    let query = SaveQuery {
        before: page.cursor,
        queue: None,
        limit: page.limit.items()?,
    };
    let page = shared.engine()?.query(query::Saves(query)).await?;
    Ok(Json(List::<SaveShape>::of(&page)))
}

macro_rules! order {
    ($name:ident, $order:ident) => {
        pub(super) async fn $name(
            State(shared): State<Arc<Shared>>,
            Extension(caller): Extension<Caller>,
            Params(mut options): Params<Options>,
            Input(input): Input<ExpiringInput>,
        ) -> Result<Acted<Vec<ExpiringOutcomeShape>>, Problem> {
            let order = input.$order()?;
            options.reason = input.reason.or(options.reason);
            let command = Command::Expiring(order);
            act(&shared, &caller, options, command, Asked::Several).await
        }
    };
}

order!(save, save_order);
order!(purge, purge_order);
order!(restore, restore_order);
order!(extend, extend_order);
