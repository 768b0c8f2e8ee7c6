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

/// The bounds beyond which a queue drops its oldest messages; none where it refuses new ones instead.
#[must_use]
pub fn bounds(queue: &Declared<'_>, policies: &Policies) -> Vec<(Measure, Value)> {
    let is_told = match (policies.text(queue, "overflow"), queue.queue_type) {
        // A quorum queue does not know the second one, and drops.
        (Some("reject-publish"), _) | (Some("reject-publish-dlx"), QueueType::Classic) => true,
        (Some(_) | None, QueueType::Classic | QueueType::Quorum) => false,
    };
    [Measure::Messages, Measure::Bytes]
        .into_iter()
        .filter(|_| !is_told)
        .filter_map(|measure| Some((measure, policies.value(queue, measure.key())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures(queue_type: QueueType, arguments: &[(&str, &str)]) -> Vec<Measure> {
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
}
