//! Which columns of a list are shown, and in which order; kept as long as the console runs.

/// A column as the choice shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// As in filters and in the command line's `--sort`.
    pub name: &'static str,
    /// As written above it.
    pub title: &'static str,
    /// Whether it is shown, where there is room.
    pub shown: bool,
    /// Whether the list is sorted by it: `Some(true)` in the column's own direction.
    pub sorted: Option<bool>,
}

/// The columns in their order, and which of them are hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnChoice {
    order: Vec<usize>,
    hidden: Vec<usize>,
}

impl ColumnChoice {
    /// All of them, as the list has them.
    #[must_use]
    pub fn all(columns: usize) -> Self {
        Self {
            order: (0..columns).collect(),
            hidden: Vec::new(),
        }
    }

    /// Every column in its place, and whether it is shown.
    pub fn iter(&self) -> impl Iterator<Item = (usize, bool)> {
        self.order.iter().map(|index| (*index, !self.hidden.contains(index)))
    }

    /// The columns that are shown, in order.
    pub fn shown(&self) -> impl Iterator<Item = usize> {
        self.iter().filter(|(_, shown)| *shown).map(|(index, _)| index)
    }

    /// Whether somebody chose: then the order says which columns go first where there is little room.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        !self.hidden.is_empty() || !self.order.is_sorted()
    }

    /// Shows or hides the column at a place; the last one that is shown stays.
    pub fn toggle(&mut self, place: usize) {
        let Some(index) = self.order.get(place).copied() else {
            return;
        };
        if let Some(at) = self.hidden.iter().position(|hidden| *hidden == index) {
            self.hidden.remove(at);
        } else if self.hidden.len() + 1 < self.order.len() {
            self.hidden.push(index);
        }
    }

    /// Shows these alone, in this order; the others are hidden behind them.
    pub fn show_only(&mut self, columns: &[usize]) {
        let rest = (0..self.order.len()).filter(|index| !columns.contains(index));
        self.hidden = rest.collect();
        self.order = columns.iter().chain(&self.hidden).copied().collect();
    }

    /// Moves the column at a place; answers where it is then.
    pub fn move_by(&mut self, place: usize, by: isize) -> usize {
        let to = place.saturating_add_signed(by).min(self.order.len().saturating_sub(1));
        if place < self.order.len() {
            let index = self.order.remove(place);
            self.order.insert(to, index);
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_hidden_and_moved_and_one_always_stays() {
        let mut choice = ColumnChoice::all(3);
        assert!(!choice.is_chosen());
        assert_eq!(choice.move_by(2, -2), 0);
        choice.toggle(1);
        assert_eq!(choice.shown().collect::<Vec<_>>(), [2, 1]);
        choice.toggle(0);
        choice.toggle(2);
        assert_eq!(choice.shown().collect::<Vec<_>>(), [1], "the last one stays");
        choice.toggle(0);
        assert_eq!(choice.shown().collect::<Vec<_>>(), [2, 1]);
        assert_eq!(choice.move_by(9, 1), 2);
    }
}
