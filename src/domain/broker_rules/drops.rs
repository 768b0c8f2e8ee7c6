//! What a queue drops without telling its publishers, and what becomes of it.

use super::matching::{Declared, Policies, Value};
use crate::domain::naming::QueueType;

/// What becomes of a message that its queue does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is gone.
    Lost,
    /// It goes to the dead-letter exchange.
    DeadLetter,
}

/// What a bound of a queue counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Its messages.
    Messages,
    /// The bytes of their bodies.
    Bytes,
}

impl Measure {
    /// The key that sets the bound.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Messages => "max-length",
            Self::Bytes => "max-length-bytes",
        }
    }
}

/// What becomes of the messages that a queue does not keep.
#[must_use]
pub fn fate(queue: &Declared<'_>, policies: &Policies) -> Fate {
    match policies.text(queue, "dead-letter-exchange") {
        Some(_) => Fate::DeadLetter,
        None => Fate::Lost,
    }
}

/// What a full queue does with one more message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// It drops its oldest one.
    Drops,
    /// It refuses it.
    Refuses,
    /// It refuses it, and sends it to its dead-letter exchange all the same.
    Buries,
}

fn overflow(queue: &Declared<'_>, policies: &Policies) -> Overflow {
    match (policies.text(queue, "overflow"), queue.queue_type) {
        (Some("reject-publish-dlx"), QueueType::Classic) if fate(queue, policies) == Fate::DeadLetter => {
            Overflow::Buries
        }
        // A quorum queue does not know the second one, and drops.
        (Some("reject-publish"), _) | (Some("reject-publish-dlx"), QueueType::Classic) => Overflow::Refuses,
        (Some(_) | None, QueueType::Classic | QueueType::Quorum) => Overflow::Drops,
    }
}

/// The bounds beyond which a queue drops its oldest messages; none where it refuses new ones instead.
#[must_use]
pub fn bounds(queue: &Declared<'_>, policies: &Policies) -> Vec<(Measure, Value)> {
    bounds_where(Overflow::Drops, queue, policies)
}

/// The bounds beyond which a queue refuses what is published and makes a dead letter of it at the same time: whoever
/// publishes it again has one more each time.
#[must_use]
pub fn burying_bounds(queue: &Declared<'_>, policies: &Policies) -> Vec<(Measure, Value)> {
    bounds_where(Overflow::Buries, queue, policies)
}

fn bounds_where(wanted: Overflow, queue: &Declared<'_>, policies: &Policies) -> Vec<(Measure, Value)> {
    if overflow(queue, policies) != wanted {
        return Vec::new();
    }
    [Measure::Messages, Measure::Bytes]
        .into_iter()
        .filter_map(|measure| Some((measure, policies.value(queue, measure.key())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Bounds = fn(&Declared<'_>, &Policies) -> Vec<(Measure, Value)>;

    fn measured(bounds: Bounds, queue_type: QueueType, arguments: &[(&str, &str)]) -> Vec<Measure> {
        let arguments: Vec<(String, String)> = arguments
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let queue = Declared {
            name: "small",
            queue_type,
            arguments: &arguments,
        };
        let bounds = bounds(&queue, &Policies::default());
        bounds.into_iter().map(|(measure, _)| measure).collect()
    }

    fn measures(queue_type: QueueType, arguments: &[(&str, &str)]) -> Vec<Measure> {
        measured(bounds, queue_type, arguments)
    }

    #[test]
    fn a_queue_drops_beyond_each_of_its_bounds_unless_it_refuses() {
        let both = [("x-max-length", "3"), ("x-max-length-bytes", "100")];
        let with = |overflow| [&both[..], &[("x-overflow", overflow)]].concat();
        for queue_type in [QueueType::Classic, QueueType::Quorum] {
            assert_eq!(measures(queue_type, &both), [Measure::Messages, Measure::Bytes]);
            assert_eq!(measures(queue_type, &with("drop-head")).len(), 2);
            assert_eq!(measures(queue_type, &with("reject-publish")), []);
        }
        assert_eq!(measures(QueueType::Classic, &with("reject-publish-dlx")), []);
        assert_eq!(measures(QueueType::Quorum, &with("reject-publish-dlx")).len(), 2);
    }

    #[test]
    fn a_classic_queue_that_refuses_into_a_dead_letter_exchange_buries() {
        let with = |overflow| {
            [
                ("x-max-length", "3"),
                ("x-overflow", overflow),
                ("x-dead-letter-exchange", ""),
            ]
        };
        let buries = |queue_type, overflow| measured(burying_bounds, queue_type, &with(overflow));
        assert_eq!(buries(QueueType::Classic, "reject-publish-dlx"), [Measure::Messages]);
        assert_eq!(buries(QueueType::Classic, "reject-publish"), []);
        assert_eq!(buries(QueueType::Classic, "drop-head"), []);
        assert_eq!(buries(QueueType::Quorum, "reject-publish-dlx"), []);
        // Without an exchange it only refuses.
        let alone = &with("reject-publish-dlx")[..2];
        assert_eq!(measured(burying_bounds, QueueType::Classic, alone), []);
    }
}
