//! The values of a statement, as both databases bind them: text is what both can hold.

use std::time::Duration;

use serde_json::{Value as Json, json};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Postgres, Sqlite};

use crate::domain::event::{EventType, Reference};
use crate::domain::id::{EndpointEpoch, Epoch, ExecutionId, IncarnationId, NotificationId, QueueName};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::columns::{micros, storable, stored};

pub(super) type PostgresQuery = Query<'static, Postgres, PgArguments>;
pub(super) type SqliteQuery = Query<'static, Sqlite, SqliteArguments>;

/// A value, or NULL; or a list of them.
#[derive(Clone, Debug)]
pub(in crate::store) enum Value {
    Integer(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Flag(bool),
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Blobs(Vec<Option<Vec<u8>>>),
    Flags(Vec<bool>),
    /// What is unnested: as many values as there are columns, each a list of the same length.
    Columns(Vec<Value>),
}

/// What is stored as a [`Value`].
pub(in crate::store) trait IntoValue: Sized {
    fn value(item: Option<Self>) -> Value;

    fn list(items: impl Iterator<Item = Option<Self>>) -> Value;
}

/// The values of a statement, from `$1` on.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::store::sql::IntoValue::value(Some($value))),*]
    };
}
/// What is unnested: a list for each column.
macro_rules! columns {
    ($items:expr => |$item:ident| $($value:expr),+ $(,)?) => {
        $crate::store::sql::Value::Columns(vec![
            $($crate::store::sql::IntoValue::list($items.iter().map(|$item| {
                let _ = $item;
                Some($value)
            }))),+
        ])
    };
}
pub(in crate::store) use {columns, values};

macro_rules! into_value {
    ($($one:ident $many:ident { $($type:ty => |$item:ident| $made:expr;)+ })+) => {
        $($(
            impl IntoValue for $type {
                fn value(item: Option<Self>) -> Value {
                    Value::$one(item.map(|$item| $made))
                }

                fn list(items: impl Iterator<Item = Option<Self>>) -> Value {
                    Value::$many(items.map(|item| item.map(|$item| $made)).collect())
                }
            }
        )+)+
    };
}

into_value! {
    Integer Integers {
        i64 => |number| number;
        u16 => |number| i64::from(number);
        u32 => |number| i64::from(number);
        u64 => |count| stored(count);
        Timestamp => |time| time.micros();
        Duration => |span| micros(span);
        Epoch => |epoch| epoch.0;
        EndpointEpoch => |epoch| epoch.0;
        IncarnationId => |id| id.0;
    }
    Text Texts {
        String => |text| text;
        &str => |text| text.to_owned();
        QueueName => |name| name.as_str().to_owned();
        ExecutionId => |id| id.as_str().to_owned();
        EndpointUrl => |url| url.as_str().to_owned();
        NotificationId => |id| id.as_str().to_owned();
        EventType => |name| name.as_str().to_owned();
        Reference => |reference| reference.as_str().to_owned();
    }
    Bytes Blobs {
        Vec<u8> => |bytes| bytes;
        &[u8] => |bytes| bytes.to_vec();
    }
}

impl IntoValue for bool {
    fn value(item: Option<Self>) -> Value {
        Value::Flag(item.unwrap_or_default())
    }

    fn list(items: impl Iterator<Item = Option<Self>>) -> Value {
        Value::Flags(items.map(Option::unwrap_or_default).collect())
    }
}

impl IntoValue for Value {
    fn value(item: Option<Self>) -> Value {
        item.unwrap_or(Value::Columns(Vec::new()))
    }

    fn list(items: impl Iterator<Item = Option<Self>>) -> Value {
        Value::Columns(items.flatten().collect())
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn value(item: Option<Self>) -> Value {
        T::value(item.flatten())
    }

    fn list(items: impl Iterator<Item = Option<Self>>) -> Value {
        T::list(items.map(Option::flatten))
    }
}

impl<T: IntoValue + Clone> IntoValue for &T {
    fn value(item: Option<Self>) -> Value {
        T::value(item.cloned())
    }

    fn list(items: impl Iterator<Item = Option<Self>>) -> Value {
        T::list(items.map(Option::<Self>::cloned))
    }
}

impl<T: IntoValue> IntoValue for Vec<T> {
    fn value(item: Option<Self>) -> Value {
        T::list(item.into_iter().flatten().map(Some))
    }

    fn list(items: impl Iterator<Item = Option<Self>>) -> Value {
        Value::Columns(items.map(Self::value).collect())
    }
}

impl Value {
    /// The values of a list.
    fn singles(self) -> Vec<Self> {
        match self {
            Self::Integers(numbers) => numbers.into_iter().map(Self::Integer).collect(),
            Self::Texts(texts) => texts.into_iter().map(Self::Text).collect(),
            Self::Blobs(blobs) => blobs.into_iter().map(Self::Bytes).collect(),
            Self::Flags(flags) => flags.into_iter().map(Self::Flag).collect(),
            Self::Columns(columns) => columns,
            Self::Integer(_) | Self::Text(_) | Self::Bytes(_) | Self::Flag(_) => vec![self],
        }
    }

    /// It has no bytes: where rows have some, they are no document.
    fn json(self) -> Json {
        match self {
            Self::Integer(number) => json!(number),
            Self::Text(text) => json!(text.as_deref().map(storable)),
            Self::Flag(flag) => json!(flag),
            Self::Bytes(_) => Json::Null,
            Self::Columns(columns) => rows(columns).into_iter().map(document).collect(),
            Self::Integers(_) | Self::Texts(_) | Self::Blobs(_) | Self::Flags(_) => document(self.singles()),
        }
    }
}

fn document(values: Vec<Value>) -> Json {
    values.into_iter().map(Value::json).collect()
}

/// The rows of which the columns are given.
fn rows(columns: Vec<Value>) -> Vec<Vec<Value>> {
    let mut columns: Vec<_> = columns.into_iter().map(|column| column.singles().into_iter()).collect();
    let count = columns.first().map_or(0, ExactSizeIterator::len);
    let row = |_| columns.iter_mut().filter_map(Iterator::next).collect();
    (0..count).map(row).collect()
}

/// The values of a statement over rows: those of every row, and each row's.
pub(super) fn split_rows(values: Vec<Value>) -> (Vec<Value>, Vec<Vec<Value>>) {
    let (mut of_all, mut of_each) = (Vec::new(), Vec::new());
    for value in values {
        if let Value::Columns(columns) = value {
            // Their numbers are not used.
            of_all.extend(columns.iter().map(|_| Value::Integer(None)));
            of_each = rows(columns);
        } else {
            of_all.push(value);
        }
    }
    (of_all, of_each)
}

pub(super) fn bound_postgres(query: PostgresQuery, values: Vec<Value>) -> PostgresQuery {
    values.into_iter().fold(query, |query, value| match value {
        Value::Integer(number) => query.bind(number),
        Value::Text(text) => query.bind(text.map(|text| storable(&text))),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Flag(flag) => query.bind(flag),
        Value::Integers(numbers) => query.bind(numbers),
        Value::Texts(texts) => {
            let texts = texts.iter().map(|text| text.as_deref().map(storable));
            query.bind(texts.collect::<Vec<_>>())
        }
        Value::Blobs(blobs) => query.bind(blobs),
        Value::Flags(flags) => query.bind(flags),
        Value::Columns(columns) => bound_postgres(query, columns),
    })
}

/// A list is a JSON document. One of several columns is the first of their values, and the others are not used.
pub(super) fn bound_sqlite(query: SqliteQuery, values: Vec<Value>) -> SqliteQuery {
    values.into_iter().fold(query, |query, value| match value {
        Value::Integer(number) => query.bind(number),
        Value::Text(text) => query.bind(text.map(|text| storable(&text))),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Flag(flag) => query.bind(flag),
        Value::Columns(columns) => {
            let unused = columns.len().saturating_sub(1);
            let query = query.bind(Value::Columns(columns).json().to_string());
            (0..unused).fold(query, |query, _| query.bind(None::<i64>))
        }
        Value::Integers(_) | Value::Texts(_) | Value::Blobs(_) | Value::Flags(_) => {
            query.bind(value.json().to_string())
        }
    })
}
