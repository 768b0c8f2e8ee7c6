//! The filter of a list while its line is open: what is typed, what it could go on with, and the way back.

use std::collections::BTreeSet;

use super::{Completion, INLINE_MAX, ListFilter, Row, Table, complete};
use crate::domain::filter::FieldValue;
use crate::domain::time::Timestamp;

/// More different values than this are no help.
const VALUES_MAX: usize = 40;

/// A list as it was when its filter line was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeforeFilter<Id> {
    /// The filter's text.
    pub text: String,
    /// The selected row.
    pub selected: Option<Id>,
}

/// The filter of a list, and its line.
pub trait Filtering {
    /// The filter.
    fn filter(&self) -> &ListFilter;
    /// The filter line is opened.
    fn filter_begin(&mut self);
    /// The text of the filter line.
    fn filter_write(&mut self, text: &str);
    /// The filter line is left and what it says stays; false when it cannot be read.
    fn filter_keep(&mut self) -> bool;
    /// The filter line is left and everything is as it was before.
    fn filter_restore(&mut self);
    /// What the filter line could go on with where its cursor is.
    fn completion(&self, text: &str, cursor: usize, now: Timestamp) -> Completion;
}

impl<R: Row> Filtering for Table<R> {
    fn filter(&self) -> &ListFilter {
        &self.filter
    }

    fn filter_begin(&mut self) {
        self.before_filter = Some(BeforeFilter {
            text: self.filter.text.clone(),
            selected: self.cursor.id.clone(),
        });
    }

    fn filter_write(&mut self, text: &str) {
        self.filter.write::<R>(text);
    }

    fn filter_keep(&mut self) -> bool {
        let readable = self.filter.settle::<R>();
        if readable {
            self.before_filter = None;
        }
        readable
    }

    fn filter_restore(&mut self) {
        if let Some(before) = self.before_filter.take() {
            self.filter.write::<R>(&before.text);
            self.filter.settle::<R>();
            self.cursor.id = before.selected;
        }
    }

    fn completion(&self, text: &str, cursor: usize, now: Timestamp) -> Completion {
        complete(text, cursor, R::FIELDS, &|field| self.values(field, now))
    }
}

impl<R: Row> Table<R> {
    /// The values that a field of text has, where they are few.
    fn values(&self, field: &str, now: Timestamp) -> Vec<String> {
        let mut values: BTreeSet<String> = BTreeSet::new();
        for row in self.rows.iter().take(INLINE_MAX) {
            match row.field(field, now) {
                FieldValue::Text(text) => values.insert(text.into_owned()),
                FieldValue::Words(words) => values.insert(words.first().copied().unwrap_or_default().to_owned()),
                FieldValue::Missing
                | FieldValue::Number(_)
                | FieldValue::Duration(_)
                | FieldValue::Bool(_)
                | FieldValue::Numeral(_)
                | FieldValue::Time(_)
                | FieldValue::TooLarge(_) => false,
            };
            if values.len() > VALUES_MAX {
                return Vec::new();
            }
        }
        values.into_iter().collect()
    }
}
