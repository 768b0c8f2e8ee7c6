//! A message's headers as the bytes of one column, and back.
//!
//! For each header: length of the name, name, kind, length of the value, value; lengths are 32 bits,
//! big endian. Order and repeated names are kept.

use bytes::Bytes;

use crate::domain::message::HeaderValue;

type Headers = Vec<(String, HeaderValue)>;

const TEXT: u8 = b't';
const INTEGER: u8 = b'i';
const BOOL: u8 = b'b';
const OTHER: u8 = b'o';

/// `None` when a name or value is longer than 32 bits can say.
pub(super) fn encode(headers: &[(String, HeaderValue)]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        put(&mut bytes, name.as_bytes())?;
        match value {
            HeaderValue::Text(text) => put_value(&mut bytes, TEXT, text)?,
            HeaderValue::Integer(number) => put_value(&mut bytes, INTEGER, &number.to_be_bytes())?,
            HeaderValue::Bool(flag) => put_value(&mut bytes, BOOL, &[u8::from(*flag)])?,
            HeaderValue::Other(text) => put_value(&mut bytes, OTHER, text.as_bytes())?,
        }
    }
    Some(bytes)
}

fn put_value(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) -> Option<()> {
    bytes.push(kind);
    put(bytes, value)
}

fn put(bytes: &mut Vec<u8>, value: &[u8]) -> Option<()> {
    bytes.extend_from_slice(&u32::try_from(value.len()).ok()?.to_be_bytes());
    bytes.extend_from_slice(value);
    Some(())
}

/// `None` when these bytes were not written by [`encode`].
pub(super) fn decode(mut bytes: &[u8]) -> Option<Headers> {
    let mut headers = Vec::new();
    while !bytes.is_empty() {
        let name = String::from_utf8(take(&mut bytes)?.to_vec()).ok()?;
        let (kind, rest) = bytes.split_first()?;
        bytes = rest;
        let value = take(&mut bytes)?;
        let value = match *kind {
            TEXT => HeaderValue::Text(Bytes::copy_from_slice(value)),
            INTEGER => HeaderValue::Integer(i64::from_be_bytes(value.try_into().ok()?)),
            BOOL => HeaderValue::Bool(*value.first()? != 0),
            OTHER => HeaderValue::Other(String::from_utf8(value.to_vec()).ok()?),
            _ => return None,
        };
        headers.push((name, value));
    }
    Some(headers)
}

fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = HeaderValue> {
        prop_oneof![
            any::<Vec<u8>>().prop_map(|bytes| HeaderValue::Text(bytes.into())),
            any::<i64>().prop_map(HeaderValue::Integer),
            any::<bool>().prop_map(HeaderValue::Bool),
            any::<String>().prop_map(HeaderValue::Other),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(headers in prop::collection::vec((any::<String>(), value()), 0..8)) {
            prop_assert_eq!(decode(&encode(&headers).unwrap()), Some(headers));
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in any::<Vec<u8>>()) {
            if let Some(headers) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&headers).unwrap()), Some(headers));
            }
        }
    }
}
