//! The states of a run's items, written by ranges: what neighbours have in common is said once. A window of a thousand
//! is one row of a document and one search of the items, and so is the next one.

use serde_json::json;
use sqlx::sqlite::SqliteConnection;

use crate::store::ItemMark;

/// Each range is looked up among the items of the run.
const MARK: &str = "WITH m AS MATERIALIZED (SELECT value ->> 0 AS first, value ->> 1 AS last, value ->> 2 AS state, \
        value ->> 3 AS reason, value ->> 4 AS dropped FROM json_each($2)) \
    UPDATE run_items SET state = m.state, reason = m.reason, dropped = COALESCE(m.dropped, run_items.dropped) FROM m \
    WHERE run_items.run = $1 AND run_items.ordinal BETWEEN m.first AND m.last";

/// Items with neighbouring ordinals of which the same is said.
struct Range<'a> {
    first: u64,
    last: u64,
    says: &'a ItemMark,
}

/// Writes the marks.
pub(super) async fn mark(connection: &mut SqliteConnection, run: &str, marks: &[ItemMark]) -> Result<(), sqlx::Error> {
    if marks.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = ranges(marks)
        .iter()
        .map(|range| {
            let ItemMark {
                state, reason, dropped, ..
            } = range.says;
            json!([range.first, range.last, state.as_str(), reason, dropped])
        })
        .collect();
    let query = sqlx::query(MARK).bind(run).bind(json!(rows).to_string());
    query.execute(connection).await.map(drop)
}

fn ranges(marks: &[ItemMark]) -> Vec<Range<'_>> {
    let mut sorted: Vec<&ItemMark> = marks.iter().collect();
    sorted.sort_by_key(|mark| mark.ordinal);
    let mut ranges: Vec<Range<'_>> = Vec::new();
    for mark in sorted {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == mark.ordinal && is_alike(range.says, mark) => range.last = mark.ordinal,
            _ => ranges.push(Range {
                first: mark.ordinal,
                last: mark.ordinal,
                says: mark,
            }),
        }
    }
    ranges
}

fn is_alike(one: &ItemMark, other: &ItemMark) -> bool {
    (one.state, &one.reason, &one.dropped) == (other.state, &other.reason, &other.dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::run::ItemState;

    fn mark(ordinal: u64, state: ItemState, reason: Option<&str>) -> ItemMark {
        ItemMark {
            ordinal,
            state,
            reason: reason.map(str::to_owned),
            dropped: None,
        }
    }

    #[test]
    fn neighbours_of_which_the_same_is_said_are_one_range() {
        let (settled, failed) = (ItemState::Settled, ItemState::Failed);
        let marks = [
            mark(9, settled, None),
            mark(2, settled, None),
            mark(3, settled, None),
            mark(1, settled, None),
            mark(4, failed, Some("returned")),
            mark(5, failed, Some("refused")),
            mark(7, settled, None),
            mark(8, settled, None),
        ];
        let found: Vec<(u64, u64)> = ranges(&marks).iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(found, [(1, 3), (4, 4), (5, 5), (7, 9)]);
        assert!(ranges(&[]).is_empty());
    }
}
