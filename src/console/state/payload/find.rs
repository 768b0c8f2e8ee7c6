//! Looking for a text in a payload: every place where it is, and which of them is in front.
//!
//! Capital letters count where the text has one; otherwise A–Z are taken as a–z. What is looked through is the text of
//! the page: as it is set out, and without what is hidden. In the form of bytes that is a line of them at a time.

use super::Page;

/// Places that are remembered; past them there are only more.
pub const MATCHES_MAX: usize = 10_000;
/// A text that is looked for has at most this many bytes.
pub const TEXT_BYTES_MAX: usize = 400;

/// A text that is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Find {
    /// What.
    pub text: String,
    /// Where it begins, in order.
    pub places: Vec<usize>,
    /// Which of them is in front.
    pub chosen: usize,
}

impl Find {
    /// Looks for a text, and chooses the first at or behind a place.
    #[must_use]
    pub fn new(text: &str, page: &Page, from: usize) -> Self {
        let places = places(&page.text, text);
        let chosen = places.partition_point(|at| *at < from);
        Self {
            text: text.to_owned(),
            chosen: if chosen == places.len() { 0 } else { chosen },
            places,
        }
    }

    /// The same text in a page that was laid out anew.
    pub(super) fn look_again(&mut self, page: &Page) {
        self.places = places(&page.text, &self.text);
        self.chosen = self.chosen.min(self.places.len().saturating_sub(1));
    }

    /// Chooses the next one, or the one before; behind the last comes the first.
    pub fn step(&mut self, by: isize) {
        let all = self.places.len();
        if all > 0 {
            self.chosen = (self.chosen + all).saturating_add_signed(by) % all;
        }
    }

    /// The place that is in front.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.places.get(self.chosen).copied()
    }

    /// Parts of the text between two places that are found, and whether each is the one in front.
    pub fn within(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, usize, bool)> {
        let long = self.text.len();
        let first = self.places.partition_point(|at| at + long <= from);
        let places = self.places.iter().copied().enumerate().skip(first);
        places
            .take_while(move |(_, at)| *at < to)
            .map(move |(number, at)| (at.max(from), (at + long).min(to), number == self.chosen))
    }
}

fn places(text: &str, wanted: &str) -> Vec<usize> {
    let Some(first) = wanted.bytes().next() else {
        return Vec::new();
    };
    let exactly = wanted.chars().any(char::is_uppercase);
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(found) = text.get(at..at + wanted.len()) {
        let begins = found[0] == first || (!exactly && found[0].eq_ignore_ascii_case(&first));
        if begins && (found == wanted || (!exactly && found.eq_ignore_ascii_case(wanted))) {
            places.push(at);
            if places.len() == MATCHES_MAX {
                break;
            }
            at += wanted.len();
        } else {
            at += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_letters_find_both_and_capitals_only_themselves() {
        assert_eq!(places("Stock stock STOCK", "stock"), [0, 6, 12]);
        assert_eq!(places("Stock stock STOCK", "Stock"), [0]);
        assert_eq!(places("aaaa", "aa"), [0, 2]);
        assert_eq!(places("größe GRÖSSE", "größe"), [0]);
        assert_eq!(places("abc", ""), [0; 0]);
        assert_eq!(places("ab", "abc"), [0; 0]);
    }

    #[test]
    fn behind_the_last_comes_the_first() {
        let mut find = Find {
            text: "a".to_owned(),
            places: vec![1, 5, 9],
            chosen: 0,
        };
        find.step(-1);
        assert_eq!(find.place(), Some(9));
        find.step(1);
        assert_eq!(find.place(), Some(1));
        assert_eq!(find.within(5, 9).collect::<Vec<_>>(), [(5, 6, false)]);
        assert_eq!(find.within(0, 2).collect::<Vec<_>>(), [(1, 2, true)]);
        Find::default().step(1);
    }

    #[test]
    fn very_many_places_are_bounded() {
        assert_eq!(places(&"a".repeat(100_000), "a").len(), MATCHES_MAX);
    }
}
