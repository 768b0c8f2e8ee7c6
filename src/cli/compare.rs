//! Dead letters side by side.

use super::Session;
use super::dead_args::DeadCompared;
use super::dead_letters::{PATIENCE, selection};
use super::exit::{Exit, Failure};
use super::output::{Column, or_dash};
use crate::engine::dead::DeadCompareQuery;
use crate::engine::query;
use crate::wire::dead::{Comparison, Place};

/// Letters that have a column each.
const BESIDE_MAX: usize = 2;
/// Values of a place that are told in a line.
const VALUES_SHOWN: usize = 3;

const OF_TWO: &[Column] = &[
    Column::Text("place"),
    Column::Text("in both"),
    Column::Text("first"),
    Column::Text("second"),
];

const OF_MANY: &[Column] = &[Column::Text("place"), Column::Text("in all"), Column::Text("values")];

pub(super) async fn compare(session: &Session<'_>, compared: &DeadCompared) -> Result<Exit, Failure> {
    let query = DeadCompareQuery {
        ids: compared.ids.clone(),
        selection: selection(&compared.selected)?,
        limit: compared.limit,
        patience: PATIENCE,
    };
    let found = session.engine.query(query::CompareDead(query)).await?;
    session.output.problems(&found.problems);
    let mut shape = Comparison::from(&found);
    let count = shape.letters.len();
    match count {
        0 => session.output.note("no dead letter matches"),
        1 => session
            .output
            .note("one dead letter matches: there is none to compare it with"),
        _ => session.output.note(&found.told()),
    }
    if compared.different {
        shape.places.truncate(found.comparison.different().count());
    }
    let columns = if count > BESIDE_MAX { OF_MANY } else { OF_TWO };
    session.output.list(&shape.places, columns, |place| row(place, count))?;
    Ok(Exit::Done)
}

fn row(place: &Place, count: usize) -> Vec<String> {
    let same = match place.different {
        None => "hidden".to_owned(),
        Some(1) => "the same".to_owned(),
        Some(_) if count <= BESIDE_MAX => "different".to_owned(),
        Some(different) => format!("{different} different"),
    };
    let value = |at: usize| or_dash(place.values.get(at).and_then(|shared| shared.value.as_deref()));
    if count <= BESIDE_MAX {
        let second = usize::from(place.values.len() > 1);
        return vec![place.place.clone(), same, value(0), value(second)];
    }
    let values = place.values.iter().take(VALUES_SHOWN).map(|shared| {
        let value = shared.value.as_deref().unwrap_or("nothing");
        match place.different {
            Some(1) | None => value.to_owned(),
            Some(_) => format!("{value} ({}×)", shared.letters),
        }
    });
    let mut values: Vec<String> = values.collect();
    let told = u64::try_from(values.len()).unwrap_or(u64::MAX);
    if let Some(more) = place
        .different
        .and_then(|different| different.checked_sub(told))
        .filter(|more| *more > 0)
    {
        values.push(format!("{more} more"));
    }
    vec![place.place.clone(), same, values.join(", ")]
}
