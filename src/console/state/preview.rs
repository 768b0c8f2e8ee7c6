//! What stands beside the list in front: the selected row, so that it is read without leaving the list.
//!
//! Side by side where the terminal is wide, one above the other where it is high, and not at all where the list needs all
//! of it. With the keys on it, the preview is an open detail like any other, and the list stays beside it.

use ratatui::layout::Rect;

use crate::console::state::State;
use crate::console::state::detail::Detail;

/// From this width on list and preview have room side by side.
const BESIDE_COLUMNS: u16 = 120;
/// From this height on they have room one above the other.
const ABOVE_ROWS: u16 = 36;
/// Below this width neither has.
const COLUMNS_MIN: u16 = 76;
/// Side by side is for a terminal that is so many times wider than high, in cells: 5 to 2.
const WIDE: (u16, u16) = (5, 2);
/// The share of the list where they stand side by side: what a row says is wider than what is said of it.
const LIST_SHARE: (u32, u32) = (11, 20);
/// Cells around what is written in the preview.
const MARGIN: u16 = 2;

/// The preview of the list in front.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// Switched off.
    pub is_off: bool,
    /// The detail of the selected row, as long as the keys go to the list.
    pub detail: Option<Detail>,
    /// The keys go to it: then it is the open detail.
    pub has_keys: bool,
    /// Where the selected row stood in memory when it was looked up: a row that did not change stands there still.
    pub row: usize,
}

/// How list and preview share the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// The preview on the right.
    Beside,
    /// The preview below.
    Below,
}

/// Where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct Parts {
    /// The list.
    pub(in crate::console) list: Rect,
    /// What parts them.
    pub(in crate::console) line: Rect,
    /// The preview.
    pub(in crate::console) preview: Rect,
}

impl Sides {
    /// What a terminal of this size has room for.
    #[must_use]
    pub const fn of((columns, rows): (u16, u16)) -> Option<Self> {
        if columns < COLUMNS_MIN {
            return None;
        }
        let is_wide = columns.saturating_mul(WIDE.1) >= rows.saturating_mul(WIDE.0);
        match (columns >= BESIDE_COLUMNS && is_wide, rows >= ABOVE_ROWS) {
            (true, _) => Some(Self::Beside),
            (false, true) => Some(Self::Below),
            (false, false) => None,
        }
    }

    /// Divides a part of the screen.
    pub(in crate::console) fn divide(self, area: Rect) -> Parts {
        let (length, list) = match self {
            Self::Beside => {
                let share = u32::from(area.width) * LIST_SHARE.0 / LIST_SHARE.1;
                (area.width, u16::try_from(share).unwrap_or(area.width))
            }
            Self::Below => (area.height, area.height / 2),
        };
        let list = list.min(length.saturating_sub(1));
        let part = |from: u16, length: u16| match self {
            Self::Beside => Rect {
                x: area.x.saturating_add(from),
                width: length,
                ..area
            },
            Self::Below => Rect {
                y: area.y.saturating_add(from),
                height: length,
                ..area
            },
        };
        Parts {
            list: part(0, list),
            line: part(list, length.min(1)),
            preview: part(list.saturating_add(1), length.saturating_sub(list.saturating_add(1))),
        }
    }
}

impl State {
    /// How the list in front and a preview share the screen; `None`: there is no preview.
    #[must_use]
    pub fn sides(&self) -> Option<Sides> {
        let preview = &self.nav.preview;
        let in_front = self.nav.details.is_empty() || (preview.has_keys && self.nav.details.len() == 1);
        let screen = self.nav.view.screen();
        let has_rows = screen.listing(&self.lists).is_some() && !screen.has_whole_screen(&self.lists);
        Sides::of(self.terminal.size).filter(|_| !preview.is_off && in_front && has_rows)
    }

    /// Whether the open detail is the preview beside its list.
    #[must_use]
    pub fn is_beside(&self) -> bool {
        self.nav.preview.has_keys && self.nav.details.len() == 1 && self.sides().is_some()
    }

    /// Columns for what is written in the detail or preview in front.
    pub(in crate::console) fn detail_columns(&self) -> usize {
        let (columns, rows) = self.terminal.size;
        let area = match self.sides() {
            Some(sides) => sides.divide(Rect::new(0, 0, columns, rows)).preview,
            None => Rect::new(0, 0, columns, rows),
        };
        usize::from(area.width.saturating_sub(MARGIN))
    }

    /// The detail that is looked at: the open one, else the preview.
    pub(in crate::console) fn looked_at_mut(&mut self) -> Option<&mut Detail> {
        if self.nav.details.is_empty() && self.sides().is_some() {
            return self.nav.preview.detail.as_mut();
        }
        self.nav.details.last_mut()
    }

    /// The same, only to be read.
    pub(in crate::console) fn looked_at(&self) -> Option<&Detail> {
        if self.nav.details.is_empty() && self.sides().is_some() {
            return self.nav.preview.detail.as_ref();
        }
        self.nav.details.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_preview_stand_side_by_side_where_it_is_wide_and_one_above_the_other_where_it_is_high() {
        for (size, sides) in [
            ((80, 24), None),
            ((119, 35), None),
            ((119, 36), Some(Sides::Below)),
            ((120, 24), Some(Sides::Beside)),
            ((120, 40), Some(Sides::Beside)),
            ((200, 60), Some(Sides::Beside)),
            ((120, 60), Some(Sides::Below)),
            ((60, 60), None),
        ] {
            assert_eq!(Sides::of(size), sides, "{size:?}");
        }
    }

    #[test]
    fn nothing_of_the_screen_is_lost_or_given_twice() {
        for sides in [Sides::Beside, Sides::Below] {
            for (width, height) in [(0, 0), (1, 1), (2, 1), (119, 30), (120, 36), (200, 55)] {
                let area = Rect::new(3, 2, width, height);
                let parts = sides.divide(area);
                let cells: u32 = [parts.list, parts.line, parts.preview]
                    .iter()
                    .map(|part| part.area())
                    .sum();
                assert_eq!(cells, area.area(), "{sides:?} {area:?}: {parts:?}");
            }
        }
    }
}
