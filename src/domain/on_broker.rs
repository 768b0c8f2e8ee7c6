//! A queue as the broker has it: who consumes it, how it moves, what is in force for it, and where its messages come
//! from; and, of a queue that redrive does not deliver from, one sentence that says why it moves or does not.

use super::time::Timestamp;
use super::words::{about, count, plural};

/// Consumers and bindings that are named, at most: the others are counted.
pub const NAMED_MAX: usize = 50;
/// Slower than this, in messages a second, a queue does not move.
const STILL: f64 = 0.05;

/// One that consumes a queue.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct QueueConsumer {
    /// Its tag.
    pub tag: String,
    /// Its connection, as the broker calls it.
    pub connection: Option<String>,
    /// Messages that it may have in hand; 0: any number.
    pub prefetch: Option<u64>,
    /// Whether it settles what it takes: `false` means that a message is gone when it is sent.
    pub settles: Option<bool>,
    /// Whether it gets messages: of a queue with a single active consumer, one does.
    pub active: Option<bool>,
}

/// What brings messages into a queue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueueBinding {
    /// The exchange.
    pub exchange: String,
    /// The routing key.
    pub key: String,
}

/// A queue as the broker has it.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OnBroker {
    /// `classic`, `quorum`, …
    pub queue_type: Option<String>,
    /// The broker's state: `running`, `down`, …
    pub state: Option<String>,
    /// The node that leads it.
    pub node: Option<String>,
    /// How many consume it.
    pub consumers: Option<u64>,
    /// The first of them.
    pub consumer_list: Vec<QueueConsumer>,
    /// Messages that come in a second, lately.
    pub in_a_second: Option<f64>,
    /// Messages that go out to consumers a second, lately.
    pub out_a_second: Option<f64>,
    /// Messages that consumers settle a second, lately.
    pub settled_a_second: Option<f64>,
    /// Since when nobody uses it.
    pub idle_since: Option<Timestamp>,
    /// What it was declared with.
    pub arguments: Vec<(String, String)>,
    /// The policy in force.
    pub policy: Option<String>,
    /// The operator policy in force.
    pub operator_policy: Option<String>,
    /// What both of them come to.
    pub in_force: Vec<(String, String)>,
    /// What brings messages, beside the default exchange.
    pub bindings: Vec<QueueBinding>,
}

impl OnBroker {
    /// Why it moves or does not, in one sentence; `ready` and `unacked` are its messages.
    #[must_use]
    pub fn sentence(&self, ready: Option<u64>, unacked: Option<u64>, now: Timestamp) -> String {
        if let Some(state @ ("down" | "minority" | "stopped" | "crashed")) = self.state.as_deref() {
            let node = self.node.as_deref().unwrap_or("its node");
            return format!("the broker says {state}: nothing in it can be reached until {node} is back");
        }
        let (Some(ready), Some(unacked)) = (ready, unacked) else {
            return "how many messages wait is not known".to_owned();
        };
        match self.consumers {
            Some(0) if ready > 0 => self.unconsumed(ready, now),
            _ if ready == 0 && unacked == 0 => "it is empty".to_owned(),
            None => format!("{} and who consumes it is not known", waits(ready)),
            Some(_) if ready == 0 => format!("nothing waits, consumers have {}", count(unacked)),
            Some(consumers) => self.consumed(consumers, ready, unacked),
        }
    }

    /// Everything else that is known, a line each, by its name.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let word = |text: &Option<String>| text.clone().into_iter();
        let place = word(&self.node).map(|node| format!("on {node}"));
        let broker: Vec<String> = word(&self.queue_type).chain(word(&self.state)).chain(place).collect();
        let rates = [
            (self.in_a_second, "in"),
            (self.out_a_second, "out"),
            (self.settled_a_second, "settled"),
        ];
        let rates = rates
            .iter()
            .filter_map(|(rate, what)| Some(format!("{} {what}", shown((*rate)?))));
        let rates: Vec<String> = rates.collect();
        let mut facts = vec![("broker", broker.join(", ")), ("messages a second", rates.join(", "))];
        if let Some(consumers) = self.consumers {
            facts.push(("consumers", count(consumers)));
        }
        facts.extend(self.consumer_list.iter().map(|one| ("consumer", one.line())));
        let policies = [("policy", &self.policy), ("operator policy", &self.operator_policy)];
        facts.extend(
            policies
                .iter()
                .filter_map(|(name, policy)| Some((*name, policy.as_ref()?.clone()))),
        );
        facts.push(("in force", pairs(&self.in_force)));
        facts.push(("arguments", pairs(&self.arguments)));
        let bound = self
            .bindings
            .iter()
            .map(|one| format!("{} with key {:?}", one.exchange, one.key));
        facts.extend(bound.map(|line| ("bound to", line)));
        facts.retain(|(_, text)| !text.is_empty());
        facts
    }

    fn unconsumed(&self, ready: u64, now: Timestamp) -> String {
        let since = self.idle_since.map(|since| format!(" for {}", about(now.since(since))));
        let grows = match self.in_a_second {
            Some(rate) if rate >= STILL => format!(", and {} come a second", shown(rate)),
            Some(_) | None => String::new(),
        };
        format!(
            "nobody consumes it{}: {}{grows}; start its consumer, or move them with `redrive queue move`",
            since.unwrap_or_default(),
            waits(ready),
        )
    }

    /// Something waits, and somebody is there for it.
    fn consumed(&self, consumers: u64, ready: u64, unacked: u64) -> String {
        let (who, settle, get) = match self.who(consumers) {
            (who, true) => (who, "settles", "gets"),
            (who, false) => (who, "settle", "get"),
        };
        let settled = self.settled_a_second.or(self.out_a_second);
        let Some(settled) = settled else {
            return format!("{} beside {}; how fast it moves is not known", waits(ready), who);
        };
        if settled < STILL {
            return match self.room() {
                Some(room) if unacked >= room => format!(
                    "{who} {settle} nothing: {} in hand, which is all that they may have, and {}",
                    of_messages(unacked),
                    waits(ready)
                ),
                _ if unacked > 0 => format!(
                    "{who} {settle} nothing of {} in hand, and {}",
                    of_messages(unacked),
                    waits(ready)
                ),
                _ => format!(
                    "{who} {get} nothing though {}: look whether their connections are blocked",
                    waits(ready)
                ),
            };
        }
        let comes = self.in_a_second.unwrap_or(0.0);
        if comes > settled {
            return format!(
                "it grows: {} come a second and {} are settled by {who}; {}",
                shown(comes),
                shown(settled),
                waits(ready)
            );
        }
        format!(
            "it moves: {} are settled a second by {who}; {}",
            shown(settled),
            waits(ready)
        )
    }

    /// Those that get its messages, and whether that is one.
    fn who(&self, consumers: u64) -> (String, bool) {
        let single = self
            .arguments
            .iter()
            .any(|(name, value)| name == "x-single-active-consumer" && value == "true");
        match consumers {
            1 => ("its consumer".to_owned(), true),
            more if single => (format!("the active one of its {} consumers", count(more)), true),
            more => (format!("its {} consumers", count(more)), false),
        }
    }

    /// Messages that all of its consumers may have in hand; `None`: any number, or nobody tells.
    fn room(&self) -> Option<u64> {
        if self.consumers != u64::try_from(self.consumer_list.len()).ok() {
            return None;
        }
        let gets = self.consumer_list.iter().filter(|one| one.active != Some(false));
        gets.map(|one| one.prefetch.filter(|prefetch| *prefetch > 0))
            .try_fold(0_u64, |sum, prefetch| Some(sum.saturating_add(prefetch?)))
            .filter(|room| *room > 0)
    }
}

impl QueueConsumer {
    fn line(&self) -> String {
        let mut parts = vec![
            self.connection
                .clone()
                .unwrap_or_else(|| "an unknown connection".to_owned()),
        ];
        parts.push(format!("tag {}", self.tag));
        parts.push(match self.prefetch {
            Some(0) => "any number in hand".to_owned(),
            Some(most) => format!("at most {} in hand", count(most)),
            None => "prefetch unknown".to_owned(),
        });
        if self.settles == Some(false) {
            parts.push("acks nothing: what is sent to it is gone".to_owned());
        }
        if self.active == Some(false) {
            parts.push("waits until another one ends".to_owned());
        }
        parts.join(", ")
    }
}

fn pairs(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(", ")
}

fn waits(ready: u64) -> String {
    format!(
        "{} wait{}",
        plural(ready, "message", "messages"),
        if ready == 1 { "s" } else { "" }
    )
}

fn of_messages(number: u64) -> String {
    plural(number, "message", "messages")
}

/// A rate as a person says it.
#[must_use]
pub fn shown(rate: f64) -> String {
    if rate >= 10.0 {
        format!("{rate:.0}")
    } else {
        format!("{rate:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(prefetch: u64, active: bool) -> QueueConsumer {
        QueueConsumer {
            tag: "c".to_owned(),
            connection: None,
            prefetch: Some(prefetch),
            settles: Some(true),
            active: Some(active),
        }
    }

    fn with(consumers: Vec<QueueConsumer>, rates: (f64, f64)) -> OnBroker {
        OnBroker {
            state: Some("running".to_owned()),
            consumers: Some(consumers.len() as u64),
            consumer_list: consumers,
            in_a_second: Some(rates.0),
            out_a_second: Some(rates.1),
            settled_a_second: Some(rates.1),
            ..OnBroker::default()
        }
    }

    fn said(queue: &OnBroker, ready: u64, unacked: u64) -> String {
        queue.sentence(Some(ready), Some(unacked), Timestamp::from_seconds(7_200))
    }

    #[test]
    fn a_queue_that_nobody_consumes_says_since_when_and_what_to_do() {
        let queue = OnBroker {
            idle_since: Some(Timestamp::EPOCH),
            ..with(Vec::new(), (2.0, 0.0))
        };
        assert_eq!(
            said(&queue, 412, 0),
            "nobody consumes it for 2 h: 412 messages wait, and 2.0 come a second; start its consumer, or move them with \
             `redrive queue move`"
        );
    }

    #[test]
    fn consumers_that_hold_all_they_may_and_settle_nothing_are_told() {
        let queue = with(vec![consumer(10, true), consumer(10, true)], (0.0, 0.0));
        assert_eq!(
            said(&queue, 5, 20),
            "its 2 consumers settle nothing: 20 messages in hand, which is all that they may have, and 5 messages wait"
        );
        assert!(said(&queue, 5, 3).contains("settle nothing of 3 messages in hand"));
        assert!(said(&queue, 5, 0).contains("look whether their connections are blocked"));
    }

    #[test]
    fn a_queue_that_grows_is_told_from_one_that_moves() {
        assert_eq!(
            said(&with(vec![consumer(0, true)], (40.0, 12.0)), 100, 1),
            "it grows: 40 come a second and 12 are settled by its consumer; 100 messages wait"
        );
        assert!(
            said(&with(vec![consumer(0, true)], (1.0, 12.0)), 1, 1).starts_with("it moves: 12 are settled a second")
        );
    }

    #[test]
    fn what_is_known_is_a_line_each_and_nothing_else() {
        let mut queue = with(vec![consumer(3, false)], (1.5, 20.4));
        queue.bindings = vec![QueueBinding {
            exchange: "orders".to_owned(),
            key: "new.#".to_owned(),
        }];
        let lines = [
            ("broker", "running"),
            ("messages a second", "1.5 in, 20 out, 20 settled"),
            ("consumers", "1"),
            (
                "consumer",
                "an unknown connection, tag c, at most 3 in hand, waits until another one ends",
            ),
            ("bound to", "orders with key \"new.#\""),
        ];
        assert_eq!(queue.facts(), lines.map(|(name, text)| (name, text.to_owned())));
        assert!(OnBroker::default().facts().is_empty());
    }

    #[test]
    fn only_the_active_consumer_counts() {
        let mut queue = with(vec![consumer(1, true), consumer(1, false)], (0.0, 0.0));
        queue.arguments = vec![("x-single-active-consumer".to_owned(), "true".to_owned())];
        assert_eq!(
            said(&queue, 9, 1),
            "the active one of its 2 consumers settles nothing: 1 message in hand, which is all that they may have, and \
             9 messages wait"
        );
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let queue = OnBroker::default();
        assert_eq!(
            queue.sentence(None, None, Timestamp::EPOCH),
            "how many messages wait is not known"
        );
        assert!(said(&queue, 3, 0).contains("who consumes it is not known"));
        let down = OnBroker {
            state: Some("down".to_owned()),
            node: Some("rabbit@b".to_owned()),
            ..OnBroker::default()
        };
        assert!(said(&down, 3, 0).ends_with("until rabbit@b is back"));
        assert_eq!(said(&with(vec![consumer(1, true)], (0.0, 0.0)), 0, 0), "it is empty");
    }
}
