//! How columns are made, and what their rows are sorted and filtered by.

use super::{Column, ColumnWidth, SortKey};
use crate::domain::filter::FieldValue;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

impl<R> Column<R> {
    pub(in crate::console) const fn new(
        name: &'static str,
        title: &'static str,
        width: ColumnWidth,
        drop_rank: u8,
        key: fn(&R) -> SortKey<'_>,
    ) -> Self {
        Self {
            name,
            title,
            width,
            right: false,
            drop_rank,
            greatest_first: false,
            key,
        }
    }

    /// A count: on the right, and the greatest is what one looks for.
    pub(in crate::console) const fn count(self) -> Self {
        Self {
            right: true,
            greatest_first: true,
            ..self
        }
    }

    /// Sorting by it begins with the greatest.
    pub(in crate::console) const fn greatest_first(self) -> Self {
        Self {
            greatest_first: true,
            ..self
        }
    }

    /// A time or an age: on the right.
    pub(in crate::console) const fn time(self) -> Self {
        Self { right: true, ..self }
    }
}

pub(in crate::console) const fn fill(min: u16, weight: u16) -> ColumnWidth {
    ColumnWidth::Fill { min, weight }
}

/// Worst first; queues that are not ours to deliver have none.
pub(in crate::console) fn rank(rank: Option<usize>) -> SortKey<'static> {
    count(rank.and_then(|rank| u64::try_from(rank).ok()))
}

pub(in crate::console) fn count(count: Option<u64>) -> SortKey<'static> {
    count.map_or(SortKey::Missing, |count| {
        SortKey::Number(i64::try_from(count).unwrap_or(i64::MAX))
    })
}

pub(in crate::console) fn time(at: Option<Timestamp>) -> SortKey<'static> {
    at.map_or(SortKey::Missing, |at| SortKey::Number(at.micros()))
}

pub(in crate::console) fn text(text: Option<&str>) -> SortKey<'_> {
    text.map_or(SortKey::Missing, SortKey::Text)
}

pub(in crate::console) fn url(url: Option<&EndpointUrl>) -> SortKey<'_> {
    text(url.map(EndpointUrl::as_str))
}

/// Text that there may be none of.
pub(in crate::console) fn or_missing(text: Option<&str>) -> FieldValue<'_> {
    text.map_or(FieldValue::Missing, |text| FieldValue::Text(text.into()))
}

#[expect(clippy::cast_precision_loss, reason = "filters compare counts, exact up to 2^53")]
pub(in crate::console) const fn number(count: u64) -> FieldValue<'static> {
    FieldValue::Number(count as f64)
}
