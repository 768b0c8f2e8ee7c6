//! What a broker may send, read from bytes without one: for those who feed the readers with what nobody would write.

use futures_util::FutureExt as _;

use crate::domain::message::Message;

use super::{frames, message, wire};

/// The least that a frame takes: kind, channel, length, end.
#[cfg(any(test, feature = "internals"))]
const FRAME_BYTES: usize = 8;
/// Bytes of a frame that a message can be published in, as the broker grants them by default.
#[cfg(any(test, feature = "internals"))]
const FRAME_BYTES_MAX: usize = 131_072;

/// Reads frame after frame, and of each what is read of such a method; whether the first one was understood.
///
/// # Panics
/// A frame is longer than the bytes that it came from.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn frames_are_understood(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut count = 0;
    while let Some(Ok(frame)) = frames::read(&mut rest, FRAME_BYTES_MAX).now_or_never() {
        count += 1;
        let taken = bytes.len() - rest.len();
        assert!(
            frame.payload.len() + count * FRAME_BYTES <= taken,
            "frame {count} has {} bytes of {taken}",
            frame.payload.len()
        );
        let Some((id, mut arguments)) = frame.method() else {
            continue;
        };
        // What is wrong in them is an error, and no more.
        let _ = wire::tuned(&frame, 10);
        let _ = wire::refused(id, arguments);
        let mut begin = arguments;
        if let Some(table) = begin.u16().and_then(|_| begin.long_string()) {
            let _ = frames::text_in(table, b"version");
        }
        while arguments.short_string().is_some() && arguments.u16().is_some() {}
        let _ = (arguments.u8(), arguments.u32(), arguments.u64());
    }
    count > 0
}

/// The message whose properties and headers these bytes are, as in a frame of the kind `HEADER`.
///
/// # Panics
/// What came whole can be sent on, and is another message after that.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn message_of_properties(bytes: &[u8]) -> Option<Message> {
    let came = message::came(bytes, Vec::new()).ok()?;
    if came.is_whole()
        && let Ok(properties) = message::published(&came, FRAME_BYTES_MAX)
    {
        let sent = message::came(&properties, Vec::new());
        // Floating-point numbers that are none are not equal to themselves; their text is.
        assert_eq!(
            sent.map(|sent| format!("{:?}", sorted(&sent))),
            Ok(format!("{:?}", sorted(&came))),
            "sent on, it is another message"
        );
    }
    Some(came)
}

/// With its headers by name: a table has no order.
#[cfg(any(test, feature = "internals"))]
fn sorted(message: &Message) -> Message {
    let mut headers = message.headers.clone();
    headers.sort_by(|(left, _), (right, _)| left.cmp(right));
    message.with_headers(headers)
}
