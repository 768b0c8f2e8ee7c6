//! How many messages of an intake queue may be in hand: many small ones, few large ones, one where one of them ends
//! connections.

use crate::broker::Walked;

/// Where a queue begins whose messages are not known yet.
const FIRST: u16 = 100;
/// Messages in hand at most; more buy nothing.
const MOST: u16 = 1_000;
/// Bytes in hand, about.
const BYTES: usize = 16 << 20;
/// Messages that pass one by one before that is given up.
const CAREFUL: u32 = 2_000;

/// The prefetch of an intake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    prefetch: u16,
    /// Messages that still pass one by one.
    careful: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            prefetch: FIRST,
            careful: 0,
        }
    }
}

impl Window {
    pub(super) const fn prefetch(self) -> u16 {
        self.prefetch
    }

    /// Something in the queue ends connections: one message at a time tells which.
    pub(super) fn narrow(&mut self) {
        (self.prefetch, self.careful) = (1, CAREFUL);
    }

    /// Whether a connection that ended did so because of the message at the head.
    pub(super) const fn is_narrow(self) -> bool {
        self.careful > 0
    }

    /// After a batch: true when another prefetch is better, and the queue is to be attached anew.
    pub(super) fn saw(&mut self, batch: &[Walked]) -> bool {
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        if self.careful > 0 {
            self.careful = self.careful.saturating_sub(count);
            if self.careful > 0 {
                return false;
            }
            *self = Self::default();
            return true;
        }
        let bytes: usize = batch.iter().map(|walked| walked.message.body.len()).sum();
        let average = (bytes / batch.len().max(1)).max(1);
        let best = u16::try_from(BYTES / average).unwrap_or(u16::MAX).clamp(1, MOST);
        let is_full = batch.len() * 2 >= usize::from(self.prefetch);
        if best * 2 <= self.prefetch || (is_full && best / 4 >= self.prefetch) {
            self.prefetch = best;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::DeliveryTag;
    use crate::domain::message::Message;

    fn batch(count: usize, bytes: usize) -> Vec<Walked> {
        let walked = Walked {
            tag: DeliveryTag(1),
            position: 1,
            redelivered: false,
            exchange: String::new(),
            routing_key: String::new(),
            message: Message {
                body: vec![0; bytes].into(),
                ..Message::default()
            },
        };
        vec![walked; count]
    }

    #[test]
    fn a_busy_queue_of_small_messages_gets_a_wide_window_and_large_ones_a_narrow_one() {
        let mut window = Window::default();
        assert!(!window.saw(&batch(1, 10)), "a quiet queue needs no more");
        assert!(window.saw(&batch(100, 10)));
        assert_eq!(window.prefetch(), MOST);
        assert!(!window.saw(&batch(500, 10_000)));
        assert!(window.saw(&batch(2, 8 << 20)));
        assert_eq!(window.prefetch(), 2);
        assert!(window.saw(&batch(1, 100 << 20)));
        assert_eq!(window.prefetch(), 1);
        assert!(window.saw(&batch(1, 10)), "and a wide one again");
    }

    #[test]
    fn after_a_message_that_ends_connections_they_pass_one_by_one_for_a_while() {
        let mut window = Window::default();
        window.narrow();
        assert!(window.is_narrow());
        let passed = (1..=CAREFUL).find(|_| window.saw(&batch(1, 10)));
        assert_eq!((passed, window), (Some(CAREFUL), Window::default()));
    }
}
