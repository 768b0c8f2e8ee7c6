//! Between the bytes of a message's properties and a [`Message`]: lenient inwards, strict outwards.
//!
//! What comes in was written by anybody: every type of header value is taken, nested ones are shown as
//! bounded text, and nothing here recurses deeper than what is kept (18,000 levels are possible, docs/rabbitmq.md, *Deep
//! headers*). What goes out never closes the connection: names and sizes that AMQP cannot carry are refused before.

use std::fmt::Write;

use bytes::Bytes;

use super::feed::Came;
use super::frames::{Arguments, SHORT_BYTES_MAX};
use crate::broker::properties::{self, PERSISTENT, flags};
use crate::broker::{DeliveryTag, Walked};
use crate::domain::message::{HEADER_DEPTH_MAX, HeaderValue, Message};

/// Levels of a nested header value that are shown.
const SHOWN_DEPTH: usize = 4;
/// Bytes of a nested header value that are shown.
const SHOWN_BYTES: usize = 1024;
/// What a header frame has beside the properties: its own head and end, class, weight and the size of the body.
const HEADER_FRAME_BYTES: usize = 20;

/// What came as the message at `position`; else why it cannot be read.
pub(super) fn walked(came: Came, queue: &str, position: u64) -> Result<Walked, String> {
    Ok(Walked {
        tag: DeliveryTag(came.tag),
        position,
        redelivered: came.redelivered,
        exchange: came.exchange.as_ref().to_owned(),
        routing_key: came.addressed_to.unwrap_or_else(|| queue.to_owned()),
        message: self::came(&came.properties, came.body)?,
    })
}

/// The message of these properties and `body`; else why they are none. What is nested so deeply that it is not shown is
/// not read either.
pub(super) fn came(properties: &[u8], body: impl Into<Bytes>) -> Result<Message, String> {
    let mut rest = Arguments::after(properties, 0).ok_or_else(cut)?;
    let set = rest.u16().ok_or_else(cut)?;
    // In the order of the flags, which is that of the bytes.
    let mut rest = Set { set, rest };
    let message = Message {
        content_type: rest.text(flags::CONTENT_TYPE, "content type")?,
        content_encoding: rest.text(flags::CONTENT_ENCODING, "content encoding")?,
        headers: rest
            .value(flags::HEADERS, Arguments::long_string)?
            .map_or_else(|| Ok(Vec::new()), |table| kept(table, HEADER_DEPTH_MAX))?,
        transient: rest.value(flags::DELIVERY_MODE, Arguments::u8)? != Some(PERSISTENT),
        priority: rest.value(flags::PRIORITY, Arguments::u8)?,
        correlation_id: rest.text(flags::CORRELATION_ID, "correlation id")?,
        reply_to: rest.text(flags::REPLY_TO, "reply-to")?,
        expiration: rest.text(flags::EXPIRATION, "expiration")?,
        message_id: rest.text(flags::MESSAGE_ID, "message id")?,
        timestamp_s: rest.value(flags::TIMESTAMP, Arguments::u64)?,
        kind: rest.text(flags::TYPE, "type")?,
        user_id: rest.text(flags::USER_ID, "user id")?,
        app_id: rest.text(flags::APP_ID, "app id")?,
        cluster_id: rest.text(flags::CLUSTER_ID, "cluster id")?,
        body: body.into(),
    };
    let Set { rest, .. } = rest;
    if !rest.rest().is_empty() {
        return Err("its properties go on behind their end".to_owned());
    }
    Ok(message)
}

/// Properties of which those are there whose flag is set.
struct Set<'a> {
    set: u16,
    rest: Arguments<'a>,
}

impl<'a> Set<'a> {
    /// The property of this flag, if it is there.
    fn value<T>(&mut self, flag: u16, read: impl Fn(&mut Arguments<'a>) -> Option<T>) -> Result<Option<T>, String> {
        if self.set & flag == 0 {
            return Ok(None);
        }
        read(&mut self.rest).map(Some).ok_or_else(cut)
    }

    fn text(&mut self, flag: u16, name: &str) -> Result<Option<String>, String> {
        if self.set & flag == 0 {
            return Ok(None);
        }
        text(&mut self.rest, name).map(|text| Some(text.to_owned()))
    }
}

fn cut() -> String {
    "its properties are cut".to_owned()
}

fn text<'a>(rest: &mut Arguments<'a>, name: &str) -> Result<&'a str, String> {
    let bytes = rest.short_string().ok_or_else(cut)?;
    std::str::from_utf8(bytes).map_err(|_| format!("its {name} is not UTF-8"))
}

/// A header value of which nothing nested is read yet.
#[derive(Debug)]
enum Raw<'a> {
    Plain(HeaderValue),
    Array(&'a [u8]),
    Table(&'a [u8]),
}

fn raw<'a>(rest: &mut Arguments<'a>) -> Result<Raw<'a>, String> {
    let kind = rest.u8().ok_or_else(cut)?;
    value(kind, rest).ok_or_else(cut)?
}

/// The value of this kind; `None`: it is cut.
fn value<'a>(kind: u8, rest: &mut Arguments<'a>) -> Option<Result<Raw<'a>, String>> {
    Some(Ok(Raw::Plain(match kind {
        b't' => HeaderValue::Bool(rest.u8()? != 0),
        b'b' => HeaderValue::I8(rest.u8()?.cast_signed()),
        b'B' => HeaderValue::U8(rest.u8()?),
        b's' | b'U' => HeaderValue::I16(rest.u16()?.cast_signed()),
        b'u' => HeaderValue::U16(rest.u16()?),
        b'I' => HeaderValue::I32(rest.u32()?.cast_signed()),
        b'i' => HeaderValue::U32(rest.u32()?),
        b'l' | b'L' => HeaderValue::Integer(rest.u64()?.cast_signed()),
        b'f' => HeaderValue::Float(f32::from_bits(rest.u32()?)),
        b'd' => HeaderValue::Double(f64::from_bits(rest.u64()?)),
        b'D' => HeaderValue::Decimal {
            scale: rest.u8()?,
            value: rest.u32()?,
        },
        b'S' => HeaderValue::Text(Bytes::copy_from_slice(rest.long_string()?)),
        b'x' => HeaderValue::Bytes(Bytes::copy_from_slice(rest.long_string()?)),
        b'T' => HeaderValue::Timestamp(rest.u64()?),
        b'V' => HeaderValue::Void,
        b'A' => return Some(Ok(Raw::Array(rest.long_string()?))),
        b'F' => return Some(Ok(Raw::Table(rest.long_string()?))),
        _ => return Some(Err(format!("a header is of the unknown kind {:?}", char::from(kind)))),
    })))
}

/// The entries of a table.
fn table(bytes: &[u8]) -> Result<Vec<(&str, Raw<'_>)>, String> {
    let mut rest = Arguments::after(bytes, 0).ok_or_else(cut)?;
    let mut entries = Vec::new();
    while !rest.rest().is_empty() {
        entries.push((text(&mut rest, "header's name")?, raw(&mut rest)?));
    }
    Ok(entries)
}

/// By their names; of two with one name the later counts.
fn by_name<T>(mut entries: Vec<(&str, T)>) -> Vec<(&str, T)> {
    entries.sort_by_key(|(name, _)| *name);
    entries.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            std::mem::swap(later, earlier);
        }
        is_same
    });
    entries
}

fn array(bytes: &[u8]) -> Result<Vec<Raw<'_>>, String> {
    let mut rest = Arguments::after(bytes, 0).ok_or_else(cut)?;
    let mut values = Vec::new();
    while !rest.rest().is_empty() {
        values.push(raw(&mut rest)?);
    }
    Ok(values)
}

/// A table as it is, as far as `levels` of nesting go.
fn kept(bytes: &[u8], levels: usize) -> Result<Vec<(String, HeaderValue)>, String> {
    let mut entries = Vec::new();
    for (name, value) in table(bytes)? {
        entries.push((name, taken(value, levels)?));
    }
    let entries = by_name(entries).into_iter();
    Ok(entries.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The value as it is, as far as `levels` of nesting go.
fn taken(value: Raw<'_>, levels: usize) -> Result<HeaderValue, String> {
    match value {
        Raw::Plain(value) => Ok(value),
        Raw::Array(bytes) if levels > 0 => {
            let values = array(bytes)?.into_iter();
            let values: Result<_, _> = values.map(|value| taken(value, levels - 1)).collect();
            Ok(HeaderValue::Array(values?))
        }
        Raw::Table(bytes) if levels > 0 => Ok(HeaderValue::Table(kept(bytes, levels - 1)?)),
        Raw::Array(_) | Raw::Table(_) => Ok(HeaderValue::Other(shown(value)?)),
    }
}

/// A piece of text still to be written, or a value still to be shown.
enum Part<'a> {
    Text(String),
    Value(Raw<'a>, usize),
}

/// `value` as text in the manner of JSON, cut in depth and length. A stack of its own, no recursion.
fn shown(value: Raw<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut stack = vec![Part::Value(value, 0)];
    while let Some(part) = stack.pop() {
        match part {
            Part::Text(part) => text.push_str(&part),
            Part::Value(Raw::Table(bytes), depth) if depth < SHOWN_DEPTH => {
                stack.push(Part::Text("}".into()));
                let entries = by_name(table(bytes)?).into_iter().enumerate().take(SHOWN_BYTES);
                for (position, (name, value)) in entries.collect::<Vec<_>>().into_iter().rev() {
                    stack.push(Part::Value(value, depth + 1));
                    let comma = if position == 0 { "" } else { ", " };
                    stack.push(Part::Text(format!("{comma}{name:?}: ")));
                }
                stack.push(Part::Text("{".into()));
            }
            Part::Value(Raw::Array(bytes), depth) if depth < SHOWN_DEPTH => {
                stack.push(Part::Text("]".into()));
                let values = array(bytes)?.into_iter().enumerate().take(SHOWN_BYTES);
                for (position, value) in values.collect::<Vec<_>>().into_iter().rev() {
                    stack.push(Part::Value(value, depth + 1));
                    stack.push(Part::Text(if position == 0 { "" } else { ", " }.into()));
                }
                stack.push(Part::Text("[".into()));
            }
            Part::Value(Raw::Table(_), _) => text.push_str("{…}"),
            Part::Value(Raw::Array(_), _) => text.push_str("[…]"),
            Part::Value(Raw::Plain(value), _) => leaf(&mut text, &value),
        }
        if text.len() > SHOWN_BYTES {
            let cut = text.floor_char_boundary(SHOWN_BYTES);
            text.truncate(cut);
            text.push('…');
            break;
        }
    }
    Ok(text)
}

fn leaf(text: &mut String, value: &HeaderValue) {
    // Writing to a string cannot fail.
    let _ = match value {
        HeaderValue::Void => write!(text, "null"),
        HeaderValue::Float(number) => write!(text, "{number}"),
        HeaderValue::Double(number) => write!(text, "{number}"),
        HeaderValue::Timestamp(seconds) => write!(text, "timestamp {seconds}"),
        HeaderValue::Decimal { scale, value } => write!(text, "{value} / 10^{scale}"),
        HeaderValue::Bool(flag) => write!(text, "{flag}"),
        HeaderValue::Integer(_)
        | HeaderValue::I8(_)
        | HeaderValue::U8(_)
        | HeaderValue::I16(_)
        | HeaderValue::U16(_)
        | HeaderValue::I32(_)
        | HeaderValue::U32(_) => write!(text, "{}", value.as_integer().unwrap_or_default()),
        HeaderValue::Text(bytes) | HeaderValue::Bytes(bytes) => {
            let bytes = &bytes[..bytes.len().min(SHOWN_BYTES)];
            write!(text, "{:?}", String::from_utf8_lossy(bytes))
        }
        // Never read as such.
        HeaderValue::Other(other) => write!(text, "{other}"),
        HeaderValue::Array(_) => write!(text, "[…]"),
        HeaderValue::Table(_) => write!(text, "{{…}}"),
    };
}

/// Whether two messages have the same properties: a broker may have written them anew.
pub(super) fn are_alike(left: &[u8], right: &[u8]) -> bool {
    let read = |bytes| came(bytes, Bytes::new()).ok();
    left == right || read(left).zip(read(right)).is_some_and(|(left, right)| left == right)
}

/// The properties that a message is published with, or why it cannot be: `frame_max` bounds them all.
pub(super) fn published(message: &Message, frame_max: usize) -> Result<Vec<u8>, String> {
    for (name, text) in texts(message) {
        fits(name, text.unwrap_or_default())?;
    }
    names_fit(message.headers.iter().map(|(name, value)| (name.as_str(), value)))?;
    let properties = properties::of(message);
    // A header frame over the limit closes the whole connection.
    let size = properties.len() + HEADER_FRAME_BYTES;
    if size > frame_max {
        return Err(format!(
            "headers of {size} bytes do not fit into a frame of {frame_max}"
        ));
    }
    Ok(properties)
}

/// The properties that are short strings.
fn texts(message: &Message) -> [(&'static str, Option<&str>); 10] {
    [
        ("content_type", message.content_type.as_deref()),
        ("content_encoding", message.content_encoding.as_deref()),
        ("correlation_id", message.correlation_id.as_deref()),
        ("reply_to", message.reply_to.as_deref()),
        ("expiration", message.expiration.as_deref()),
        ("message_id", message.message_id.as_deref()),
        ("type", message.kind.as_deref()),
        ("user_id", message.user_id.as_deref()),
        ("app_id", message.app_id.as_deref()),
        ("cluster_id", message.cluster_id.as_deref()),
    ]
}

/// Whether AMQP has a place for this text; the error says that it is too long.
pub(super) fn fits(what: &str, text: &str) -> Result<(), String> {
    if text.len() > SHORT_BYTES_MAX {
        return Err(format!("{what} is longer than {SHORT_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// Its depth is the one that was kept, so recursion is bounded.
fn names_fit<'a>(mut entries: impl Iterator<Item = (&'a str, &'a HeaderValue)>) -> Result<(), String> {
    entries.try_for_each(|(name, value)| {
        fits("header name", name)?;
        names_fit(value.inside())
    })
}

#[cfg(test)]
mod tests;
