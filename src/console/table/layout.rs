//! How a list is laid out: its columns, and by which of them it is sorted.

use super::{ColumnChoice, ColumnInfo, Row, Sort, Table};

/// The columns of a list, and its order.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Which columns are shown, in which order.
    pub columns: ColumnChoice,
    /// First column on the screen behind those that always stay.
    pub column_offset: usize,
    /// The order.
    pub sort: Sort,
}

/// The columns of a list, and by which of them it is sorted.
pub trait Columns {
    /// Moves the columns.
    fn shift(&mut self, by: isize);
    /// Every column in its place.
    fn columns(&self) -> Vec<ColumnInfo>;
    /// Shows or hides the column at a place.
    fn column_toggle(&mut self, place: usize);
    /// Moves the column at a place; answers where it is then.
    fn column_move(&mut self, place: usize, by: isize) -> usize;
    /// Every column, as the list opens with them.
    fn columns_reset(&mut self);
    /// Shows the columns of these names alone, in this order; answers those that there are none of.
    fn columns_show(&mut self, names: &[&str]) -> Vec<String>;
    /// Whether somebody chose columns.
    fn is_arranged(&self) -> bool;
    /// Sorts by the next column, in that column's own direction.
    fn sort_next(&mut self);
    /// Turns the order round.
    fn sort_reverse(&mut self);
    /// Sorts as the list opens.
    fn sort_as_opened(&mut self);
    /// Sorts by the column of that name, in its own direction or the other way; false: there is none.
    fn sort_by(&mut self, name: &str, other_way: bool) -> bool;
    /// The column that is sorted by, and whether the greatest comes first; `None`: as the list opens.
    fn sorted_by(&self) -> Option<(&'static str, bool)>;
}

impl Layout {
    /// As a list of these rows opens.
    #[must_use]
    pub fn of<R: Row>() -> Self {
        Self {
            columns: ColumnChoice::all(R::COLUMNS.len()),
            column_offset: 0,
            sort: Sort::as_opened::<R>(),
        }
    }
}

impl Sort {
    /// By the first column, in its own direction.
    fn as_opened<R: Row>() -> Self {
        Self::by::<R>(0, false)
    }

    /// By this column, in its own direction or the other way.
    fn by<R: Row>(column: usize, other_way: bool) -> Self {
        let greatest_first = R::COLUMNS.get(column).is_some_and(|column| column.greatest_first);
        Self {
            column,
            descending: greatest_first != other_way,
        }
    }
}

impl<R: Row> Columns for Table<R> {
    fn shift(&mut self, by: isize) {
        let movable = self.layout.columns.shown().count();
        let moved = self.layout.column_offset.saturating_add_signed(by);
        self.layout.column_offset = moved.min(movable.saturating_sub(1));
    }

    fn columns(&self) -> Vec<ColumnInfo> {
        let sort = self.layout.sort;
        let info = |(index, shown): (usize, bool)| {
            let column = R::COLUMNS.get(index)?;
            let sorted = (sort.column == index).then_some(sort.descending == column.greatest_first);
            Some(ColumnInfo {
                name: column.name,
                title: column.title,
                shown,
                sorted,
            })
        };
        self.layout.columns.iter().filter_map(info).collect()
    }

    fn column_toggle(&mut self, place: usize) {
        self.layout.columns.toggle(place);
    }

    fn column_move(&mut self, place: usize, by: isize) -> usize {
        self.layout.columns.move_by(place, by)
    }

    fn columns_reset(&mut self) {
        self.layout.columns = ColumnChoice::all(R::COLUMNS.len());
    }

    fn columns_show(&mut self, names: &[&str]) -> Vec<String> {
        let place = |name: &str| R::COLUMNS.iter().position(|column| column.name == name);
        let mut known: Vec<usize> = Vec::new();
        for index in names.iter().filter_map(|name| place(name)) {
            if !known.contains(&index) {
                known.push(index);
            }
        }
        if !known.is_empty() {
            self.layout.columns.show_only(&known);
        }
        let unknown = names.iter().filter(|name| place(name).is_none());
        unknown.map(|name| (*name).to_owned()).collect()
    }

    fn is_arranged(&self) -> bool {
        self.layout.columns.is_chosen()
    }

    fn sort_next(&mut self) {
        let column = (self.layout.sort.column + 1) % R::COLUMNS.len().max(1);
        self.layout.sort = Sort::by::<R>(column, false);
    }

    fn sort_reverse(&mut self) {
        self.layout.sort.descending = !self.layout.sort.descending;
    }

    fn sort_as_opened(&mut self) {
        self.layout.sort = Sort::as_opened::<R>();
    }

    fn sort_by(&mut self, name: &str, other_way: bool) -> bool {
        let found = R::COLUMNS.iter().position(|column| column.name == name);
        if let Some(column) = found {
            self.layout.sort = Sort::by::<R>(column, other_way);
        }
        found.is_some()
    }

    fn sorted_by(&self) -> Option<(&'static str, bool)> {
        let sort = self.layout.sort;
        let column = R::COLUMNS.get(sort.column).filter(|_| sort != Sort::as_opened::<R>())?;
        Some((column.name, sort.descending))
    }
}
