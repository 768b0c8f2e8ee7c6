//! The retry policies as a list: those of event types, then the configuration's, then those of URLs.

use std::cmp::Ordering;

use super::ColumnWidth::Fixed;
use super::audit::or_missing;
use super::columns::{count, fill, text, time, url};
use super::{ArrangeJob, Column, Job, Row};
use crate::domain::filter::{Field, FieldKind, FieldValue};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::policies::PolicyView;
use crate::engine::query::PolicyScope;

/// The fields that a filter over policies may name. `age` is how long its newest version is saved.
const FIELDS: &[Field] = &[
    Field::new("type", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("author", FieldKind::Text),
    Field::new("source", FieldKind::Text),
    Field::new("version", FieldKind::Number),
    Field::new("attempts", FieldKind::Number),
    Field::new("on_exhausted", FieldKind::Text),
    Field::new("on_refused", FieldKind::Text),
    Field::new("age", FieldKind::Duration),
];

impl Row for PolicyView {
    type Id = PolicyScope;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("type", "Event type", fill(14, 1), 0, |row| {
            text(row.scope.event_type.as_deref())
        }),
        Column::new("url", "Endpoint", fill(20, 3), 0, |row| url(row.scope.url.as_ref())),
        Column::new("attempts", "Attempts", Fixed(8), 1, |row: &Self| {
            count(Some(row.effective.schedule().attempts().into()))
        })
        .count(),
        Column::new("total", "Tried for", Fixed(9), 1, |row: &Self| {
            count(Some(row.effective.schedule().total_s()))
        })
        .count(),
        Column::new("on_exhausted", "Then", Fixed(11), 2, |row| {
            text(Some(row.effective.on_exhausted.as_str()))
        }),
        Column::new("version", "Version", Fixed(7), 2, |row: &Self| {
            count(
                row.newest
                    .as_ref()
                    .and_then(|newest| u64::try_from(newest.version).ok()),
            )
        })
        .count(),
        Column::new("author", "By", fill(8, 1), 3, |row| {
            text(row.newest.as_ref().map(|newest| newest.author.as_str()))
        }),
        Column::new("age", "Saved", Fixed(11), 3, |row: &Self| {
            time(row.newest.as_ref().map(|newest| newest.at))
        })
        .time(),
        Column::new("source", "Applies", Fixed(12), 4, |row| text(Some(row.source.as_str()))),
        Column::new("on_refused", "Refused", Fixed(11), 5, |row| {
            text(Some(row.effective.on_refused.as_str()))
        }),
    ];
    const FIELDS: &'static [Field] = FIELDS;
    const SEARCHED: &'static [&'static str] = &["type", "url", "author"];

    fn to_job(job: Job<Self>) -> ArrangeJob {
        ArrangeJob::Policies(job)
    }

    fn id(&self) -> PolicyScope {
        self.scope.clone()
    }

    fn tie(&self, other: &Self) -> Ordering {
        let key = |row: &Self| (row.scope.event_type.clone(), row.scope.url.clone());
        key(self).cmp(&key(other))
    }

    fn field(&self, name: &str, now: Timestamp) -> FieldValue<'_> {
        let newest = self.newest.as_ref();
        match name {
            "type" => or_missing(self.scope.event_type.as_deref()),
            "url" | "endpoint" => or_missing(self.scope.url.as_ref().map(EndpointUrl::as_str)),
            "author" => or_missing(newest.map(|newest| newest.author.as_str())),
            "source" => or_missing(Some(self.source.as_str())),
            "on_exhausted" => or_missing(Some(self.effective.on_exhausted.as_str())),
            "on_refused" => or_missing(Some(self.effective.on_refused.as_str())),
            "version" => newest
                .and_then(|newest| u32::try_from(newest.version).ok())
                .map_or(FieldValue::Missing, |version| FieldValue::Number(version.into())),
            "attempts" => FieldValue::Number(self.effective.schedule().attempts().into()),
            "age" => newest.map_or(FieldValue::Missing, |newest| FieldValue::Duration(now.since(newest.at))),
            _ => FieldValue::Missing,
        }
    }
}
