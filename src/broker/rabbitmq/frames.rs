//! As much of AMQP 0-9-1's wire form as is in use here, with nothing decoded that need not be.
//!
//! A message's header stays the bytes that came: what is wrong in it cannot hurt here. Every length is
//! checked before memory is taken for it.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::broker::properties;
use crate::domain::naming::Argument;

pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
pub(super) const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;
/// Bytes of a short string, at most.
pub(super) const SHORT_BYTES_MAX: usize = 255;
/// Kind, channel and length.
const HEAD_BYTES: usize = 7;

/// A text of at most 255 bytes: longer ones AMQP cannot say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShortString(Arc<str>);

impl ShortString {
    /// The error says how long it is.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.len() > SHORT_BYTES_MAX {
            return Err(format!(
                "it has {} bytes, and {SHORT_BYTES_MAX} are the most",
                text.len()
            ));
        }
        Ok(Self(text.into()))
    }

    /// A text of ours, which is short.
    pub(super) fn ours(text: &str) -> Self {
        debug_assert!(text.len() <= SHORT_BYTES_MAX, "{text:?} is no short text");
        Self(text.into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A frame as it came.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) payload: Vec<u8>,
}

/// Class and method number.
pub(super) type MethodId = (u16, u16);

impl Frame {
    /// Class and method of a method frame, and its arguments.
    pub(super) fn method(&self) -> Option<(MethodId, Arguments<'_>)> {
        let mut arguments = Arguments(&self.payload);
        (self.kind == METHOD).then_some(())?;
        Some(((arguments.u16()?, arguments.u16()?), arguments))
    }
}

/// Reads arguments from the front; `None` when they are too short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// What follows the first `skipped` bytes.
    pub(super) fn after(bytes: &'a [u8], skipped: usize) -> Option<Self> {
        bytes.get(skipped..).map(Self)
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_be_bytes)
    }

    pub(super) fn short_string(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// A long string, or a table.
    pub(super) fn long_string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).ok()?)
    }
}

/// The text of this name in a table; of other kinds, what a server's properties have is skipped.
pub(super) fn text_in<'a>(table: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let mut entries = Arguments(table);
    loop {
        let name = entries.short_string()?;
        let kind = entries.u8()?;
        let value = match kind {
            b't' => entries.take(1)?,
            b'S' | b'F' => entries.long_string()?,
            _ => return None,
        };
        if name == wanted {
            return (kind == b'S').then_some(value);
        }
    }
}

/// The bytes of a method frame's payload under construction.
#[derive(Debug)]
pub(super) struct Method(Vec<u8>);

impl Method {
    pub(super) fn new((class, method): MethodId) -> Self {
        Self(Vec::new()).u16(class).u16(method)
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// A short string; what is over 255 bytes is cut (no name of ours is that long).
    pub(super) fn short_string(self, text: &str) -> Self {
        let bytes = &text.as_bytes()[..text.len().min(SHORT_BYTES_MAX)];
        self.u8(u8::try_from(bytes.len()).unwrap_or(u8::MAX)).bytes(bytes)
    }

    pub(super) fn long_string(self, bytes: &[u8]) -> Self {
        self.u32(u32::try_from(bytes.len()).unwrap_or(0)).bytes(bytes)
    }

    /// A client's properties: texts, and what it is able to.
    pub(super) fn client(self, texts: &[(&str, &str)], able: &[&str]) -> Self {
        let mut table = Self(Vec::new());
        for (name, value) in texts {
            table = table.entry(name, &Argument::Text((*value).to_owned()));
        }
        let able: Vec<_> = able.iter().map(|name| (*name, Argument::Flag(true))).collect();
        self.long_string(&table.short_string("capabilities").u8(b'F').table(&able).0)
    }

    /// A table of arguments.
    pub(super) fn table<N: AsRef<str>>(self, arguments: &[(N, Argument)]) -> Self {
        let entries = arguments.iter().fold(Self(Vec::new()), |entries, (name, value)| {
            entries.entry(name.as_ref(), value)
        });
        self.long_string(&entries.0)
    }

    fn entry(self, name: &str, value: &Argument) -> Self {
        let named = self.short_string(name);
        match value {
            Argument::Text(text) => named.u8(b'S').long_string(text.as_bytes()),
            Argument::Integer(number) => named.u8(b'I').bytes(&number.to_be_bytes()),
            Argument::Long(number) => named.u8(b'l').bytes(&number.to_be_bytes()),
            Argument::Flag(flag) => named.u8(b't').u8(u8::from(*flag)),
        }
    }

    /// A table without entries.
    pub(super) fn no_arguments(self) -> Self {
        self.long_string(&[])
    }
}

/// Puts a method frame behind what is to be sent.
pub(super) fn put(bytes: &mut Vec<u8>, channel: u16, method: &Method) {
    put_frame(bytes, METHOD, channel, &method.0);
}

/// Puts a message behind what is to be sent: its method, and then header and body in frames of at most `frame_max`
/// bytes. The header has to fit into one.
pub(super) fn put_content(
    bytes: &mut Vec<u8>,
    channel: u16,
    method: &Method,
    properties: &[u8],
    body: &[u8],
    frame_max: usize,
) {
    put(bytes, channel, method);
    put_frame(bytes, HEADER, channel, &properties::header(properties, body.len()));
    for piece in body.chunks(frame_max.saturating_sub(HEAD_BYTES + 1).max(1)) {
        put_frame(bytes, BODY, channel, piece);
    }
}

/// Puts a heartbeat behind what is to be sent.
pub(super) fn put_heartbeat(bytes: &mut Vec<u8>) {
    put_frame(bytes, HEARTBEAT, 0, &[]);
}

fn put_frame(bytes: &mut Vec<u8>, kind: u8, channel: u16, payload: &[u8]) {
    bytes.push(kind);
    bytes.extend(channel.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(payload);
    bytes.push(END);
}

/// Writes a method frame.
pub(super) async fn write<S: AsyncWrite + Unpin>(stream: &mut S, channel: u16, method: &Method) -> io::Result<()> {
    let mut bytes = Vec::new();
    put(&mut bytes, channel, method);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// A frame among bytes that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) kind: u8,
    pub(super) channel: u16,
    pub(super) payload: &'a [u8],
    /// Bytes of the whole frame.
    pub(super) size: usize,
}

impl<'a> Piece<'a> {
    /// Class and method of a method frame, and its arguments.
    pub(super) fn method(&self) -> Option<(MethodId, Arguments<'a>)> {
        let mut arguments = Arguments(self.payload);
        (self.kind == METHOD).then_some(())?;
        Some(((arguments.u16()?, arguments.u16()?), arguments))
    }
}

/// The first frame of `bytes`, whose payload has at most `limit` bytes; `None` while it is not whole.
pub(super) fn first(bytes: &[u8], limit: usize) -> io::Result<Option<Piece<'_>>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let length = payload_bytes(*head, limit)?;
    let Some((payload, [end, ..])) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    if *end != END {
        return Err(without_end());
    }
    Ok(Some(Piece {
        kind: head[0],
        channel: u16::from_be_bytes([head[1], head[2]]),
        payload,
        size: HEAD_BYTES + length + 1,
    }))
}

fn payload_bytes(head: [u8; HEAD_BYTES], limit: usize) -> io::Result<usize> {
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if &head[..4] == b"AMQP" || length > limit {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes"),
        ));
    }
    Ok(length)
}

fn without_end() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame without its end")
}

/// Reads a frame whose payload has at most `limit` bytes.
pub(super) async fn read<S: AsyncRead + Unpin>(stream: &mut S, limit: usize) -> io::Result<Frame> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let length = payload_bytes(head, limit)?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    if stream.read_u8().await? != END {
        return Err(without_end());
    }
    Ok(Frame { kind: head[0], payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read_again() {
        let mut bytes = Vec::new();
        let method = Method::new((60, 20))
            .u16(7)
            .short_string("q")
            .u64(9)
            .table(&[("a", Argument::Text("b".to_owned()))]);
        write(&mut bytes, 1, &method).await.unwrap();
        let frame = read(&mut bytes.as_slice(), 1024).await.unwrap();
        let (id, mut arguments) = frame.method().unwrap();
        assert_eq!(id, (60, 20));
        assert_eq!(
            (arguments.u16(), arguments.short_string(), arguments.u64()),
            (Some(7), Some(b"q".as_slice()), Some(9))
        );
        assert_eq!(arguments.u32(), Some(8));
    }

    #[test]
    fn the_first_of_some_frames_is_found_once_it_is_whole() {
        let mut bytes = Vec::new();
        put(&mut bytes, 7, &Method::new((60, 80)).u64(9).u8(0));
        let whole = bytes.len();
        put_heartbeat(&mut bytes);
        for cut in 0..whole {
            assert_eq!(first(&bytes[..cut], 1024).unwrap(), None, "of {cut} bytes");
        }
        let piece = first(&bytes, 1024).unwrap().unwrap();
        assert_eq!((piece.channel, piece.size), (7, whole));
        let (id, mut arguments) = piece.method().unwrap();
        assert_eq!((id, arguments.u64(), arguments.u8()), ((60, 80), Some(9), Some(0)));
        let beat = first(&bytes[whole..], 1024).unwrap().unwrap();
        assert_eq!((beat.kind, beat.payload), (HEARTBEAT, &b""[..]));
        assert!(first(&bytes, 3).is_err(), "longer than what was agreed on");
        bytes[whole - 1] = b'!';
        assert!(first(&bytes, 1024).is_err(), "without its end");
    }

    #[test]
    fn a_long_body_goes_in_frames_of_the_largest_size() {
        for (body, pieces) in [(0, vec![]), (92, vec![92]), (93, vec![92, 1])] {
            let mut bytes = Vec::new();
            let publish = Method::new((60, 40)).u16(0);
            put_content(&mut bytes, 3, &publish, b"\0\0", &vec![b'x'; body], 100);
            let mut came = Vec::new();
            let mut rest = bytes.as_slice();
            while let Some(piece) = first(rest, 92).unwrap() {
                assert_eq!(piece.channel, 3);
                came.push((piece.kind, piece.payload.len()));
                rest = &rest[piece.size..];
            }
            let header = [(METHOD, 6), (HEADER, 14)].into_iter();
            let expected: Vec<_> = header.chain(pieces.into_iter().map(|size| (BODY, size))).collect();
            assert_eq!(came, expected, "{body} bytes");
        }
    }

    #[test]
    fn a_text_of_a_table_is_found_by_its_name() {
        let mut table = b"\x0ccapabilitiesF\0\0\0\x09\x06a-flagt\x01".to_vec();
        table.extend(b"\x07versionS\0\0\0\x063.10.8");
        assert_eq!(text_in(&table, b"version"), Some(b"3.10.8".as_slice()));
        assert_eq!(text_in(&table, b"capabilities"), None, "it is no text");
        assert_eq!(text_in(&table, b"product"), None);
        assert_eq!(text_in(&table[..table.len() - 1], b"version"), None, "it is cut");
    }

    #[tokio::test]
    async fn odd_bytes_are_errors_and_take_no_memory() {
        for bytes in [
            b"AMQP\0\0\x09\x01".as_slice(),
            b"\x01\0\0\xff\xff\xff\xff",
            b"\x01\0\0\0\0\0\x01x!",
            b"\x01",
        ] {
            read(&mut &*bytes, 1024).await.unwrap_err();
        }
        assert!(
            Frame {
                kind: METHOD,
                payload: vec![0; 3]
            }
            .method()
            .is_none()
        );
    }
}
