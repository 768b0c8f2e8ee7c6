//! Asks for the rows of the list in front.

use super::{Link, NOT_CONNECTED};
use crate::ambient::Clock;
use crate::console::state::feed::{Fed, FeedQuery};

/// The answer to `query`.
pub(super) async fn ask(link: Option<Link>, query: FeedQuery, clock: &Clock) -> Fed {
    let taken_at = clock.now();
    let rows = match link {
        Some(link) => (query.source.ask)(link.engine, query.clone()).await,
        None => Err(NOT_CONNECTED.to_owned()),
    };
    Fed { query, taken_at, rows }
}
