//! Lists that can be longer than what is printed of them: asked for in pages, and never cut without a word.

use crate::domain::time::Timestamp;
use crate::engine::Query;
use crate::engine::view::{Page, Unread};
use crate::wire::input;

use super::Session;
use super::exit::Failure;
use super::output::Output;

/// What is printed of a list.
pub(super) struct Paged<T> {
    pub(super) items: Vec<T>,
    /// When the first page was read.
    pub(super) taken_at: Timestamp,
    /// What could not be read of it.
    pub(super) problems: Vec<Unread>,
}

/// At most `limit` items of the list that `page` asks for: given how many and where to go on. Says so where there are more.
pub(super) async fn paged<Q, T>(
    session: &Session<'_>,
    limit: u32,
    what: &str,
    mend: &str,
    page: impl Fn(u32, Option<String>) -> Q,
) -> Result<Paged<T>, Failure>
where
    Q: Query<Answer = Page<T>>,
{
    let ask = async |missing: u32, cursor| session.engine.query(page(missing.min(input::LIMIT_MAX), cursor)).await;
    let Page {
        items,
        next_cursor: mut cursor,
        taken_at,
        problems,
    } = ask(limit, None).await?;
    let mut list = Paged {
        items,
        taken_at,
        problems,
    };
    while let (Some(missing @ 1..), Some(_)) = (missing(limit, list.items.len()), &cursor) {
        let next = ask(missing, cursor).await?;
        list.items.extend(next.items);
        cursor = next.next_cursor;
    }
    // A cursor alone does not say that something is behind it.
    let behind = match cursor {
        Some(cursor) => Some(ask(1, Some(cursor)).await?),
        None => None,
    };
    if behind.is_some_and(|page| !page.items.is_empty() || page.next_cursor.is_some()) {
        let line = format!("there are more than {limit} {what}: {mend}");
        session.output.tell(&line);
    }
    Ok(list)
}

/// Of a list that does not say how long it is: a full one may be cut.
pub(super) fn tell_full(output: Output<'_>, (shown, limit): (usize, u32), what: &str, mend: &str) {
    if missing(limit, shown) == Some(0) {
        output.tell(&format!("{limit} {what} are shown, and there may be more: {mend}"));
    }
}

fn missing(limit: u32, shown: usize) -> Option<u32> {
    u32::try_from(shown).ok().map(|shown| limit.saturating_sub(shown))
}
