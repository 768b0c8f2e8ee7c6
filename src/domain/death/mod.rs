//! A message's history of dying, as RabbitMQ writes it into its headers, and where it came from first.
//!
//! Read leniently: 3.10 to 4.x differ in the width of counts, in which headers there are and in what the
//! newest ones add, and before 4.0 a client could write all of it. What is missing is `None`, what is odd
//! is skipped, nothing is an error. Lists are bounded.
//!
//! `x-death` is a list of tables, the most recent first, one for each (queue, reason): `queue`, `reason`,
//! `count`, `exchange`, `routing-keys`, `time`, and `original-expiration` where one was taken off.
//! `x-first-death-*` names the first, `x-last-death-*` (from 3.13 on) the last.

use std::fmt;

use super::message::{HeaderValue, Message};
use super::time::Timestamp;

/// Entries of a history that are read.
const DEATHS_MAX: usize = 100;
/// Routing keys of an entry that are read.
const KEYS_MAX: usize = 32;

/// Why a message died whose time was over.
const EXPIRED: &str = "expired";
/// Why one died that somebody had consumed.
const REFUSED: [&str; 2] = ["rejected", "delivery_limit"];

/// The headers that a broker writes about deaths and deliveries: taken off when a message is sent again.
#[cfg(any(test, feature = "internals"))]
pub const BROKER_HEADERS: [&str; 11] = [
    "x-death",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-first-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-last-death-exchange",
    "x-delivery-count",
    "x-acquired-count",
    "CC",
    "BCC",
];

/// The headers that count looks and returns: they change without the message changing.
pub const COUNTING_HEADERS: [&str; 2] = ["x-delivery-count", "x-acquired-count"];

/// All deaths in one queue for one reason.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Death {
    /// Where.
    pub queue: Option<String>,
    /// Why: `rejected`, `expired`, `maxlen`, `delivery_limit`.
    pub reason: Option<String>,
    /// How often.
    pub count: Option<u64>,
    /// The exchange that it had been published to; empty for the default exchange.
    pub exchange: Option<String>,
    /// The keys that it had been published with (more than one with `CC`).
    pub routing_keys: Vec<String>,
    /// The first of them, to the second.
    pub at: Option<Timestamp>,
    /// The time to live that was taken off, in milliseconds.
    pub original_expiration: Option<String>,
}

/// One end of a history as the headers beside it name it.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeathMark {
    /// Where.
    pub queue: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The exchange before.
    pub exchange: Option<String>,
}

/// What the headers say.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeathHistory {
    /// The most recent first.
    pub deaths: Vec<Death>,
    /// `x-first-death-*`.
    pub first: DeathMark,
    /// `x-last-death-*`.
    pub last: DeathMark,
}

/// Where a message was published to before it died for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    /// The exchange; empty for the default exchange.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// The queue that it died in.
    pub queue: String,
}

/// Why the origin is not known, with what is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOrigin {
    /// There is no trace of a death.
    NoHistory,
    /// It cannot go back as it was.
    Damaged {
        /// Why, and what to do.
        why: &'static str,
    },
    /// The first death is named, but not where it had been published to.
    Incomplete {
        /// The queue that it died in.
        queue: Option<String>,
        /// The exchange that it had been published to.
        exchange: Option<String>,
    },
}

impl fmt::Display for NoOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHistory => f.write_str("it carries no death history: nothing says where it came from"),
            Self::Damaged { why } => f.write_str(why),
            Self::Incomplete { queue, exchange } => {
                f.write_str("its death history does not say where it was published to (")?;
                match queue {
                    Some(queue) => write!(f, "it died in queue {queue:?}")?,
                    None => f.write_str("queue unknown")?,
                }
                match exchange {
                    Some(exchange) => write!(f, ", exchange {exchange:?}, routing key unknown)"),
                    None => f.write_str(", exchange and routing key unknown)"),
                }
            }
        }
    }
}

/// Reads the history of a message.
#[must_use]
pub fn history(message: &Message) -> DeathHistory {
    let entries = message.header("x-death").and_then(HeaderValue::as_array);
    let deaths = entries.unwrap_or_default().iter().filter_map(death);
    DeathHistory {
        deaths: deaths.take(DEATHS_MAX).collect(),
        first: mark(message, "first"),
        last: mark(message, "last"),
    }
}

fn mark(message: &Message, end: &str) -> DeathMark {
    let text = |what: &str| message.header_text(&format!("x-{end}-death-{what}")).map(str::to_owned);
    DeathMark {
        queue: text("queue"),
        reason: text("reason"),
        exchange: text("exchange"),
    }
}

fn death(entry: &HeaderValue) -> Option<Death> {
    let entries = entry.as_table()?;
    let get = |name: &str| entries.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let text = |name: &str| get(name).and_then(HeaderValue::as_text).map(str::to_owned);
    let keys = get("routing-keys").and_then(HeaderValue::as_array).unwrap_or_default();
    let keys = keys.iter().filter_map(HeaderValue::as_text).map(str::to_owned);
    Some(Death {
        queue: text("queue"),
        reason: text("reason"),
        count: get("count").and_then(count),
        exchange: text("exchange"),
        routing_keys: keys.take(KEYS_MAX).collect(),
        at: get("time").and_then(moment),
        original_expiration: text("original-expiration"),
    })
}

/// A count of any integer type, or as text.
fn count(value: &HeaderValue) -> Option<u64> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.or_else(|| value.as_text()?.parse().ok())
}

/// A timestamp, or the seconds of one as a number.
fn moment(value: &HeaderValue) -> Option<Timestamp> {
    let seconds = if let HeaderValue::Timestamp(seconds) = value {
        i64::try_from(*seconds).ok()?
    } else {
        value.as_integer()?
    };
    (seconds > 0).then(|| Timestamp::from_seconds(seconds))
}

impl DeathHistory {
    /// Whether there is any trace of a death.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deaths.is_empty() && self.first == DeathMark::default() && self.last == DeathMark::default()
    }

    /// The entry of the death that it goes back from: the first one. Where only its time was over there, in a queue
    /// that keeps messages for a while, and a consumer refused it in another queue later, it is that.
    #[must_use]
    pub fn first_death(&self) -> Option<&Death> {
        self.refused_after_a_delay().or_else(|| self.earliest())
    }

    fn refused_after_a_delay(&self) -> Option<&Death> {
        let first = self.first.reason.as_deref();
        let first = first.or_else(|| self.earliest()?.reason.as_deref());
        if first != Some(EXPIRED) {
            return None;
        }
        let is_whole = |death: &&Death| death.queue.is_some() && death.exchange.is_some();
        let refused = |death: &&Death| death.reason.as_deref().is_some_and(|reason| REFUSED.contains(&reason));
        let refused = self.deaths.iter().rev().filter(refused).filter(is_whole);
        refused.min_by_key(|death| death.at)
    }

    /// The entry of the first death: the one that the marks name, else the oldest by its place and time.
    fn earliest(&self) -> Option<&Death> {
        let named = |death: &&Death| {
            self.first.queue.is_some()
                && death.queue == self.first.queue
                && (self.first.reason.is_none() || death.reason == self.first.reason)
        };
        if let Some(death) = self.deaths.iter().find(named) {
            return Some(death);
        }
        if self.first.queue.is_some() {
            // The marks name one that is not listed: another entry would be another death.
            return None;
        }
        // An entry moves to the front when it happens again, so the last of the oldest.
        self.deaths.iter().rev().min_by_key(|death| death.at)
    }

    /// Why it died last.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let newest = self.deaths.first().and_then(|death| death.reason.as_deref());
        newest.or(self.last.reason.as_deref()).or(self.first.reason.as_deref())
    }

    /// The queue of [`first_death`](Self::first_death), also where only the marks tell of that.
    #[must_use]
    pub fn first_queue(&self) -> Option<&str> {
        let refused = self.refused_after_a_delay().and_then(|death| death.queue.as_deref());
        let first = || self.earliest().and_then(|death| death.queue.as_deref());
        refused.or(self.first.queue.as_deref()).or_else(first)
    }

    /// How often it died, all in all.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        let counts = self.deaths.iter().filter_map(|death| death.count);
        (!self.deaths.is_empty()).then(|| counts.fold(0, u64::saturating_add))
    }

    /// The earliest time in it.
    #[must_use]
    pub fn first_at(&self) -> Option<Timestamp> {
        self.deaths.iter().filter_map(|death| death.at).min()
    }

    /// The latest time in it; the broker notes only the first of each entry.
    #[must_use]
    pub fn last_at(&self) -> Option<Timestamp> {
        self.deaths.iter().filter_map(|death| death.at).max()
    }

    /// Where it had been published to before it died for the first time.
    ///
    /// # Errors
    /// What is known, when that is not enough.
    pub fn origin(&self) -> Result<Published, NoOrigin> {
        if self.is_empty() {
            return Err(NoOrigin::NoHistory);
        }
        let death = self.first_death();
        let queue = self.first_queue();
        let exchange = death
            .and_then(|death| death.exchange.as_deref())
            .or(self.first.exchange.as_deref());
        let incomplete = || NoOrigin::Incomplete {
            queue: queue.map(str::to_owned),
            exchange: exchange.map(str::to_owned),
        };
        let (Some(exchange), Some(queue)) = (exchange, queue) else {
            return Err(incomplete());
        };
        // The default exchange routes by the queue's name, whatever else was copied in.
        let key = match death.and_then(|death| death.routing_keys.first()) {
            _ if exchange.is_empty() => queue,
            Some(key) => key,
            None => return Err(incomplete()),
        };
        Ok(Published {
            exchange: exchange.to_owned(),
            routing_key: key.to_owned(),
            queue: queue.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
