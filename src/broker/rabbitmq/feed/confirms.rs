//! Publishes of a channel in confirm mode, until the broker has answered them: pure bookkeeping.
//!
//! A returned message comes before the answer to its publish, and does not say which one that was. It is matched by what
//! it is: exchange, routing key, properties and body. Equal messages with one key are interchangeable. What cannot be
//! told apart counts as returned, which loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::super::message;

/// A message as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Content {
    pub(in super::super) exchange: Arc<str>,
    pub(in super::super) key: String,
    /// In their wire form.
    pub(in super::super) properties: Vec<u8>,
    pub(in super::super) body: Bytes,
}

/// The broker's answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    Ack,
    Nack,
}

/// Which publishes an answer is for, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    One(u64),
    /// All up to it; 0 stands for all that there are.
    UpTo(u64),
}

/// What the broker said of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Confirmed {
    pub(in super::super) verdict: Verdict,
    /// Code and text, where the message came back.
    pub(in super::super) returned: Option<(u16, String)>,
}

/// Where the broker's answer comes; it is gone when the channel is.
pub(in super::super) type Confirming = oneshot::Receiver<Confirmed>;

#[derive(Debug)]
struct Open {
    content: Content,
    returned: Option<(u16, String)>,
    confirming: oneshot::Sender<Confirmed>,
}

/// What is published and not answered yet, by its number on the channel.
#[derive(Debug, Default)]
pub(super) struct Confirms {
    last: u64,
    open: BTreeMap<u64, Open>,
    /// How many were open when the channel ended.
    pub(super) unanswered: usize,
}

impl Confirms {
    /// The next publish.
    pub(super) fn add(&mut self, content: Content) -> Confirming {
        let (confirming, receiver) = oneshot::channel();
        self.last += 1;
        let open = Open {
            content,
            returned: None,
            confirming,
        };
        self.open.insert(self.last, open);
        receiver
    }

    /// The broker answered.
    pub(super) fn settle(&mut self, answered: Answered, verdict: Verdict) {
        let settled = match answered {
            Answered::One(number) => self.open.remove_entry(&number).into_iter().collect(),
            Answered::UpTo(0) => std::mem::take(&mut self.open),
            Answered::UpTo(number) => {
                let later = self.open.split_off(&number.saturating_add(1));
                std::mem::replace(&mut self.open, later)
            }
        };
        for open in settled.into_values() {
            let confirmed = Confirmed {
                verdict,
                returned: open.returned,
            };
            // Nobody waits for it any more: nobody needs to know.
            let _ = open.confirming.send(confirmed);
        }
    }

    /// A message came back.
    pub(super) fn give_back(&mut self, returned: &Content, why: &(u16, String)) {
        let candidates = self.open.values_mut().filter(|open| {
            let sent = &open.content;
            open.returned.is_none() && sent.key == returned.key && sent.exchange == returned.exchange
        });
        let mut candidates: Vec<_> = candidates.collect();
        let same = candidates.iter_mut().find(|open| {
            let sent = &open.content;
            sent.body == returned.body && message::are_alike(&sent.properties, &returned.properties)
        });
        if let Some(open) = same {
            open.returned = Some(why.clone());
            return;
        }
        for open in candidates {
            open.returned = Some(why.clone());
        }
    }

    /// The channel ended: none is answered any more.
    pub(super) fn end(&mut self) {
        self.unanswered += self.open.len();
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Answered::{One, UpTo};
    use super::Verdict::{Ack, Nack};
    use super::*;
    use crate::domain::message::Message;

    fn content(key: &str, id: &str) -> Content {
        let message = Message {
            message_id: Some(id.to_owned()),
            ..Message::default()
        };
        Content {
            exchange: "x".into(),
            key: key.into(),
            properties: message::published(&message, 4096).unwrap(),
            body: Bytes::from_static(b"body"),
        }
    }

    fn said(confirming: &mut Confirming) -> Option<(Verdict, Option<u16>)> {
        let confirmed = confirming.try_recv().ok()?;
        Some((confirmed.verdict, confirmed.returned.map(|(code, _)| code)))
    }

    #[test]
    fn one_answer_is_for_one_publish_or_for_all_up_to_it() {
        let mut confirms = Confirms::default();
        let mut sent: Vec<_> = (0..5).map(|_| confirms.add(content("q", "m"))).collect();
        confirms.settle(One(4), Ack);
        assert_eq!(said(&mut sent[3]), Some((Ack, None)));
        assert!(sent[..3].iter_mut().all(|one| said(one).is_none()));
        confirms.settle(UpTo(2), Nack);
        assert_eq!(said(&mut sent[0]), Some((Nack, None)));
        assert_eq!(said(&mut sent[1]), Some((Nack, None)));
        assert_eq!(said(&mut sent[2]), None);
        confirms.settle(UpTo(0), Ack);
        assert_eq!(said(&mut sent[2]), Some((Ack, None)));
        assert_eq!(said(&mut sent[4]), Some((Ack, None)));
        // What was answered is not answered again.
        confirms.settle(UpTo(9), Nack);
    }

    #[test]
    fn a_message_that_came_back_is_matched_by_what_it_is() {
        let mut confirms = Confirms::default();
        let mut sent: Vec<_> = ["a", "b", "b", "c"].map(|id| confirms.add(content("q", id))).into();
        let mut elsewhere = confirms.add(content("other", "b"));
        confirms.give_back(&content("q", "b"), &(312, "NO_ROUTE".to_owned()));
        confirms.settle(UpTo(5), Ack);
        let said: Vec<_> = sent.iter_mut().map(|one| said(one).unwrap().1).collect();
        assert_eq!(said, [None, Some(312), None, None]);
        assert_eq!(super::tests::said(&mut elsewhere), Some((Ack, None)));
    }

    #[test]
    fn what_cannot_be_told_apart_counts_as_returned() {
        let mut confirms = Confirms::default();
        let mut sent: Vec<_> = ["a", "b"].map(|id| confirms.add(content("q", id))).into();
        let mut elsewhere = confirms.add(content("other", "a"));
        confirms.give_back(&content("q", "altered"), &(312, "NO_ROUTE".to_owned()));
        confirms.settle(UpTo(3), Ack);
        assert!(sent.iter_mut().all(|one| said(one) == Some((Ack, Some(312)))));
        assert_eq!(said(&mut elsewhere), Some((Ack, None)));
    }

    #[test]
    fn none_is_answered_once_the_channel_ended() {
        let mut confirms = Confirms::default();
        let mut sent = [confirms.add(content("q", "a")), confirms.add(content("q", "b"))];
        confirms.settle(One(1), Ack);
        confirms.end();
        assert_eq!(confirms.unanswered, 1);
        assert_eq!(said(&mut sent[0]), Some((Ack, None)), "its answer had come");
        assert!(matches!(sent[1].try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }
}
