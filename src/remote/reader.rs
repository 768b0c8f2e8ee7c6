//! Reads a daemon's stream: server-sent events, one JSON document each.

use crate::engine::Event;
use crate::wire::attach::{Changes, Hello, STOPS};

/// A frame has at most this many bytes: the snapshot of some hundred thousand queues.
const FRAME_BYTES_MAX: usize = 512 << 20;
/// What a frame ends with.
const END: &[u8] = b"\n\n";

/// What came.
pub(super) enum Frame {
    Hello(Box<Hello>),
    Seen(Box<Changes>),
    News(Box<Event>),
    /// A sign of life, or a word of a later release.
    Nothing,
}

/// An answer that comes in pieces with an end mark each, and what of it was not read yet.
#[derive(Debug)]
struct Pieces {
    response: reqwest::Response,
    mark: &'static [u8],
    rest: Vec<u8>,
    /// Up to here there is no end of a piece.
    looked: usize,
}

impl Pieces {
    const fn new(response: reqwest::Response, mark: &'static [u8]) -> Self {
        Self {
            response,
            mark,
            rest: Vec::new(),
            looked: 0,
        }
    }

    /// The next piece without its mark; `None`: there are no more. What was read stays here when this is given up.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(end) = self.end() {
                let rest = self.rest.split_off(end + self.mark.len());
                let mut piece = std::mem::replace(&mut self.rest, rest);
                piece.truncate(end);
                self.looked = 0;
                return Ok(Some(piece));
            }
            if self.rest.len() > FRAME_BYTES_MAX {
                return Err("what it sends has no end".to_owned());
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.rest.extend_from_slice(&bytes),
                Ok(None) if self.rest.is_empty() => return Ok(None),
                Ok(None) => return Err("it ended the connection".to_owned()),
                Err(error) => return Err(super::told(&error)),
            }
        }
    }

    fn end(&mut self) -> Option<usize> {
        let from = self.looked.saturating_sub(self.mark.len() - 1);
        let found = self.rest[from..]
            .windows(self.mark.len())
            .position(|bytes| bytes == self.mark);
        self.looked = self.rest.len();
        found.map(|place| from + place)
    }
}

/// A stream of events.
#[derive(Debug)]
pub(super) struct Frames(Pieces);

impl Frames {
    pub(super) const fn new(response: reqwest::Response) -> Self {
        Self(Pieces::new(response, END))
    }

    /// The next frame, or why there is none. What was read stays here when this is given up.
    pub(super) async fn next(&mut self) -> Result<Frame, String> {
        let frame = self.0.next().await?;
        let frame = frame.ok_or("it ended the connection")?;
        if STOPS.strip_suffix(END) == Some(frame.as_slice()) {
            return Err("it stops".to_owned());
        }
        understood(&frame)
    }
}

/// Lines of JSON.
pub(super) struct Lines(Pieces);

impl Lines {
    pub(super) const fn new(response: reqwest::Response) -> Self {
        Self(Pieces::new(response, b"\n"))
    }

    /// The next line; `None` behind the last. What was read stays here when this is given up.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        self.0.next().await
    }
}

fn understood(frame: &[u8]) -> Result<Frame, String> {
    let (mut kind, mut data) = (&b""[..], &b""[..]);
    for line in frame.split(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"event: ") {
            kind = name;
        } else if let Some(document) = line.strip_prefix(b"data: ") {
            data = document;
        }
    }
    let refused = |error: serde_json::Error| -> String {
        format!("what it sends is not understood ({error}): attach with the redrive of its release")
    };
    match kind {
        b"hello" => serde_json::from_slice(data).map(Frame::Hello).map_err(refused),
        b"seen" => crate::ambient::beside(|| serde_json::from_slice(data))
            .map(Frame::Seen)
            .map_err(refused),
        b"news" => serde_json::from_slice(data).map(Frame::News).map_err(refused),
        _ => Ok(Frame::Nothing),
    }
}
