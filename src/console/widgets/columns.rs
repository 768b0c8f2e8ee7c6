//! Which columns a list has room for, and where they stand.
//!
//! Those with the lowest rank stay longest; columns of rank 0 always stay and shrink where even they
//! have no room. What is left over goes to those that can fill.

use crate::console::table::{Column, ColumnChoice, ColumnWidth};

/// Cells between two columns.
const GAP: u16 = 2;
/// No column is made narrower than this.
const LEAST: u16 = 3;

/// A column with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct Placed {
    /// Index into the row's columns.
    pub(in crate::console) index: usize,
    /// From the left of the list.
    pub(in crate::console) x: u16,
    pub(in crate::console) width: u16,
}

/// The columns that have room in `width`, behind the first `offset` of those that may go.
pub(in crate::console) fn place<R>(
    columns: &[Column<R>],
    choice: &ColumnChoice,
    width: u16,
    offset: usize,
) -> Vec<Placed> {
    let shown: Vec<usize> = choice.shown().collect();
    // Where somebody chose an order, that says what goes first where there is little room.
    let place_of = |index: usize| shown.iter().position(|other| *other == index).unwrap_or(0);
    let rank = |index: usize| {
        if choice.is_chosen() {
            u8::try_from(place_of(index)).unwrap_or(u8::MAX)
        } else {
            rank(columns, index)
        }
    };
    let mut movable = 0;
    let mut candidates: Vec<usize> = Vec::with_capacity(columns.len());
    for index in shown.iter().copied() {
        let stays = rank(index) == 0;
        if !stays {
            movable += 1;
        }
        if stays || movable > offset {
            candidates.push(index);
        }
    }
    let mut by_rank = candidates.clone();
    by_rank.sort_by_key(|index| rank(*index));
    let mut used = 0_u16;
    let mut chosen = Vec::with_capacity(by_rank.len());
    for index in by_rank {
        let needs = least(columns, index).saturating_add(if chosen.is_empty() { 0 } else { GAP });
        if rank(index) > 0 && used.saturating_add(needs) > width {
            break;
        }
        used = used.saturating_add(needs);
        chosen.push(index);
    }
    chosen.sort_unstable_by_key(|index| place_of(*index));
    lay_out(columns, &chosen, width, used)
}

fn lay_out<R>(columns: &[Column<R>], chosen: &[usize], width: u16, used: u16) -> Vec<Placed> {
    let weights: u32 = chosen.iter().map(|index| weight(columns, *index)).sum();
    let mut spare = u32::from(width.saturating_sub(used));
    let mut weights_left = weights;
    let mut placed = Vec::with_capacity(chosen.len());
    let mut x = 0;
    for index in chosen.iter().copied() {
        let mut wide = least(columns, index);
        let weight = weight(columns, index);
        if let Some(share) = (spare * weight).checked_div(weights_left) {
            wide = wide.saturating_add(u16::try_from(share).unwrap_or(0));
            spare -= share;
            weights_left -= weight;
        }
        if used > width {
            let shrunk = u32::from(wide) * u32::from(width) / u32::from(used.max(1));
            wide = u16::try_from(shrunk).unwrap_or(wide).max(LEAST);
        }
        let wide = wide.min(width.saturating_sub(x));
        if wide > 0 {
            placed.push(Placed { index, x, width: wide });
        }
        x = x.saturating_add(wide).saturating_add(GAP);
    }
    placed
}

fn rank<R>(columns: &[Column<R>], index: usize) -> u8 {
    columns.get(index).map_or(u8::MAX, |column| column.drop_rank)
}

fn least<R>(columns: &[Column<R>], index: usize) -> u16 {
    columns.get(index).map_or(0, |column| match column.width {
        ColumnWidth::Fixed(width) => width,
        ColumnWidth::Fill { min, .. } => min,
    })
}

fn weight<R>(columns: &[Column<R>], index: usize) -> u32 {
    columns.get(index).map_or(0, |column| match column.width {
        ColumnWidth::Fixed(_) => 0,
        ColumnWidth::Fill { weight, .. } => weight.into(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::console::table::Row;
    use crate::engine::snapshot::{EndpointRow, QueueRow};
    use crate::engine::view::Retry;

    fn names<R: Row>(width: u16, offset: usize) -> Vec<&'static str> {
        place(R::COLUMNS, &ColumnChoice::all(R::COLUMNS.len()), width, offset)
            .iter()
            .map(|placed| R::COLUMNS[placed.index].name)
            .collect()
    }

    #[test]
    fn the_most_useful_columns_stay_when_it_gets_narrow() {
        assert_eq!(names::<QueueRow>(78, 0), ["state", "depth", "name", "endpoint"]);
        assert_eq!(names::<QueueRow>(40, 0), ["state", "depth", "name"]);
        assert!(names::<QueueRow>(198, 0).contains(&"why"));
        assert_eq!(
            names::<QueueRow>(78, 1),
            ["state", "depth", "name", "next_attempt_at", "age"]
        );
    }

    fn check<R: Row>(width: u16, offset: usize) -> Result<(), TestCaseError> {
        let mut end = 0;
        for placed in place(R::COLUMNS, &ColumnChoice::all(R::COLUMNS.len()), width, offset) {
            prop_assert!(placed.x >= end && placed.width > 0);
            end = placed.x + placed.width;
        }
        prop_assert!(end <= width);
        Ok(())
    }

    proptest! {
        #[test]
        fn columns_stand_side_by_side_inside_the_list(width in 0_u16..400, offset in 0_usize..20) {
            check::<QueueRow>(width, offset)?;
            check::<EndpointRow>(width, offset)?;
            check::<Retry>(width, offset)?;
        }
    }
}
