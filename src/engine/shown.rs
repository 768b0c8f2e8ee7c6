//! A row as it is shown where masks hide something of it: what a filter of whoever may only look compares.

use std::borrow::Cow;

use crate::domain::filter::{FieldValue, Fields};
use crate::domain::mask::{MaskRules, is_hash_of_all};

/// A row as it is shown.
pub(super) struct Shown<'a> {
    pub(super) row: &'a dyn Fields,
    pub(super) masks: &'a MaskRules,
}

impl Fields for Shown<'_> {
    fn field(&self, name: &str) -> FieldValue<'_> {
        match self.row.field(name) {
            FieldValue::Text(text) => {
                let shown = match self.masks.outward(&text).value {
                    Cow::Owned(shown) => Some(shown),
                    Cow::Borrowed(_) => None,
                };
                FieldValue::Text(shown.map_or(text, Cow::Owned))
            }
            plain @ (FieldValue::Missing
            | FieldValue::Words(_)
            | FieldValue::Number(_)
            | FieldValue::Duration(_)
            | FieldValue::Bool(_)
            | FieldValue::Numeral(_)
            | FieldValue::Time(_)
            | FieldValue::TooLarge(_)) => plain,
        }
    }

    fn at(&self, family: &str, place: &str) -> FieldValue<'_> {
        let hidden = match family {
            "header." => self.masks.hides_header(place) || is_hash_of_all(place),
            "body." => self.masks.hides_place(place),
            _ => true,
        };
        if hidden {
            return FieldValue::Missing;
        }
        match self.row.at(family, place) {
            FieldValue::Text(text) => FieldValue::Text(Cow::Owned(self.without_inside(&text))),
            FieldValue::Numeral(text) => {
                let shown = self.without_inside(&text);
                if shown == text {
                    FieldValue::Numeral(text)
                } else {
                    FieldValue::Text(Cow::Owned(shown))
                }
            }
            plain @ (FieldValue::Missing
            | FieldValue::Words(_)
            | FieldValue::Number(_)
            | FieldValue::Duration(_)
            | FieldValue::Bool(_)
            | FieldValue::Time(_)
            | FieldValue::TooLarge(_)) => plain,
        }
    }
}

impl Shown<'_> {
    /// What is in an object or a list may be hidden there by its own name.
    fn without_inside(&self, text: &str) -> String {
        let inside = self.masks.body(text.as_bytes()).value;
        let inside = String::from_utf8_lossy(&inside);
        self.masks.outward(&inside).value.into_owned()
    }
}
