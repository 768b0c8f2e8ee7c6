//! Header values of every kind, for tests of whatever writes and reads them.

use proptest::prelude::*;

use super::HeaderValue;

/// Any that has nothing in it and that AMQP knows.
pub(crate) fn plain() -> impl Strategy<Value = HeaderValue> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(|bytes| HeaderValue::Text(bytes.into())),
        any::<i64>().prop_map(HeaderValue::Integer),
        any::<i8>().prop_map(HeaderValue::I8),
        any::<u8>().prop_map(HeaderValue::U8),
        any::<i16>().prop_map(HeaderValue::I16),
        any::<u16>().prop_map(HeaderValue::U16),
        any::<i32>().prop_map(HeaderValue::I32),
        any::<u32>().prop_map(HeaderValue::U32),
        any::<bool>().prop_map(HeaderValue::Bool),
        any::<f32>()
            .prop_filter("equal to itself", |n| !n.is_nan())
            .prop_map(HeaderValue::Float),
        any::<f64>()
            .prop_filter("equal to itself", |n| !n.is_nan())
            .prop_map(HeaderValue::Double),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| HeaderValue::Decimal { scale, value }),
        any::<u64>().prop_map(HeaderValue::Timestamp),
        any::<Vec<u8>>().prop_map(|bytes| HeaderValue::Bytes(bytes.into())),
        Just(HeaderValue::Void),
    ]
}

/// Any, with arrays and tables in it so many levels deep; what the tables call their entries is `names`.
pub(crate) fn nested(
    leaf: impl Strategy<Value = HeaderValue> + 'static,
    names: impl Strategy<Value = String> + Clone + 'static,
    levels: u32,
) -> impl Strategy<Value = HeaderValue> {
    leaf.prop_recursive(levels, 16, 4, move |value| {
        prop_oneof![
            prop::collection::vec(value.clone(), 0..4).prop_map(HeaderValue::Array),
            prop::collection::vec((names.clone(), value), 0..4).prop_map(HeaderValue::Table),
        ]
    })
}
