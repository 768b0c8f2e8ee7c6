//! Which columns a list has room for, and where they stand.
//!
//! Those with the lowest rank stay longest, and a narrow one may stand where a wider one has no room; columns of rank 0 always
//! stay and shrink where even they have no room. Scrolling visits every column. What is left over goes to those that can fill.

use crate::console::table::{Column, ColumnChoice, ColumnWidth};

/// Cells between two columns.
const GAP: u16 = 2;
/// What fills can be squeezed to this share of its least width, and to no less than so many cells.
const SQUEEZED: (u16, u16) = (5, 8);
const SQUEEZED_MIN: u16 = 8;
/// A column of this rank or a higher one stands aside until what always stays and fills has twice its least width: what a row is
/// about can be read before there is more about it.
const ASIDE: u8 = 5;
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
    let (stay, movable): (Vec<usize>, Vec<usize>) = shown.iter().copied().partition(|index| rank(*index) == 0);
    let aside = if choice.is_chosen() { u8::MAX } else { ASIDE };
    let choose = |movable: &[usize], first| choose(columns, [&stay, movable], first, width, rank, aside);
    let unscrolled = choose(&movable, None);
    let mut chosen = match offset.checked_sub(1) {
        None => unscrolled,
        Some(past) => {
            // Where the first that may go has no room before anything is scrolled, scrolling begins with it.
            let is_first_seen = movable.first().is_none_or(|first| unscrolled.indices.contains(first));
            let skipped = if is_first_seen { offset } else { past };
            let left = movable.get(skipped..).unwrap_or_default();
            choose(left, left.first().copied())
        }
    };
    chosen.indices.sort_unstable_by_key(|index| place_of(*index));
    if chosen.used > width && chosen.squeezed <= width {
        lay_out(columns, &chosen.indices, width, chosen.squeezed, floor)
    } else {
        lay_out(columns, &chosen.indices, width, chosen.used, least)
    }
}

/// Columns that have room, and what they need: as wide as they should be, and squeezed.
struct Chosen {
    indices: Vec<usize>,
    used: u16,
    squeezed: u16,
}

/// Of those that may go, the lowest rank stays longest; what was scrolled to comes first, whatever else is worth more.
fn choose<R>(
    columns: &[Column<R>],
    [stay, movable]: [&[usize]; 2],
    scrolled_to: Option<usize>,
    width: u16,
    rank: impl Fn(usize) -> u8,
    aside: u8,
) -> Chosen {
    let mut by_rank = [stay, movable].concat();
    let fills = stay.iter().filter(|index| weight(columns, **index) > 0);
    let twice = fills.map(|index| least(columns, *index)).sum::<u16>();
    by_rank.sort_by_key(|index| (rank(*index) > 0 && Some(*index) != scrolled_to, rank(*index)));
    let (mut used, mut squeezed) = (0_u16, 0_u16);
    let mut chosen = Vec::with_capacity(by_rank.len());
    for index in by_rank {
        let gap = if chosen.is_empty() { 0 } else { GAP };
        let needs = least(columns, index).saturating_add(gap);
        let floor = floor(columns, index).saturating_add(gap);
        let must_stay = rank(index) == 0 || Some(index) == scrolled_to;
        // What goes first where there is little room may squeeze the others before it goes.
        let may_squeeze = rank(index) == 1 && weight(columns, index) > 0 && squeezed.saturating_add(floor) <= width;
        let before = if rank(index) < aside { 0 } else { twice };
        if !must_stay && !may_squeeze && used.saturating_add(needs).saturating_add(before) > width {
            continue;
        }
        used = used.saturating_add(needs);
        squeezed = squeezed.saturating_add(floor);
        chosen.push(index);
    }
    Chosen {
        indices: chosen,
        used,
        squeezed,
    }
}

fn lay_out<R>(
    columns: &[Column<R>],
    chosen: &[usize],
    width: u16,
    used: u16,
    least: fn(&[Column<R>], usize) -> u16,
) -> Vec<Placed> {
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

/// What a column can be squeezed to: what fills gives way, what has a width of its own does not.
fn floor<R>(columns: &[Column<R>], index: usize) -> u16 {
    let least = least(columns, index);
    if weight(columns, index) == 0 {
        return least;
    }
    (least * SQUEEZED.0 / SQUEEZED.1).max(SQUEEZED_MIN).min(least)
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
        assert_eq!(names::<QueueRow>(76, 0), ["state", "depth", "endpoint", "name"]);
        assert_eq!(names::<QueueRow>(62, 0), ["state", "depth", "endpoint", "name"]);
        assert_eq!(names::<QueueRow>(40, 0), ["state", "depth", "endpoint"]);
        assert!(names::<QueueRow>(198, 0).contains(&"why"));
        assert_eq!(
            names::<QueueRow>(76, 1),
            ["state", "depth", "endpoint", "next_attempt_at"]
        );
    }

    #[test]
    fn scrolling_visits_every_column_however_narrow_it_is() {
        fn check<R: Row>() {
            for width in [36, 60, 76, 116] {
                let seen: std::collections::HashSet<&str> = (0..R::COLUMNS.len())
                    .flat_map(|offset| names::<R>(width, offset))
                    .collect();
                for column in R::COLUMNS {
                    assert!(seen.contains(column.name), "{} at {width}", column.name);
                }
            }
        }
        check::<QueueRow>();
        check::<EndpointRow>();
        check::<Retry>();
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
