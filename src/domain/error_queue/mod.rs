//! Error queues that applications fill by themselves: no argument and no policy names them, only their own names and
//! what their frameworks write into messages.
//!
//! One row of [`FRAMEWORKS`] for each: how its queues are called, what it writes, what that means, which way back it
//! says, and the upstream file in which that was read. [`recognise`] reads a message by the row that it is of;
//! [`unwrapped`] is the message that a wrapper holds. Everything in it comes from outside: it is bounded, what is odd
//! is left out, and nothing is an error.

mod trace;
mod wrapped;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::mask::fits;
use super::message::{HeaderValue, Message};
use super::time::Timestamp;

pub use trace::{first_own_frame, root_of_trace};
pub use wrapped::unwrapped;

/// Patterns of queue names that a configuration may add.
pub const PATTERNS_MAX: usize = 100;
/// Bytes of a pattern.
pub const NAME_PATTERN_BYTES_MAX: usize = 255;
/// Bytes of a stack trace that are looked at.
const TRACE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one text that is kept.
const TEXT_MAX: usize = 1024;

/// A framework that fills error queues.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "internals"),
    allow(dead_code, reason = "the table of the documentation has all of it")
)]
pub struct Framework {
    /// Its name.
    pub name: &'static str,
    /// How its error queues are called, where nobody called them otherwise; `*` stands for any characters.
    pub queues: &'static [&'static str],
    /// What the names of its headers begin with: they say how a message failed, and go off it when it goes back.
    pub marks: &'static [&'static str],
    /// What a message in such a queue means.
    pub means: &'static str,
    /// Where it goes back.
    pub back: &'static str,
    /// The file that this was read from.
    pub read_from: &'static str,
}

/// Those that are known.
pub const FRAMEWORKS: [Framework; 6] = [
    Framework {
        name: "MassTransit",
        queues: &["*_error", "*_skipped"],
        marks: &["MT-Fault-", "MT-Reason"],
        means: "a consumer failed after its retries, or no consumer took it (skipped)",
        back: "to the queue of MT-Fault-InputAddress, else to that of its name without _error or _skipped",
        read_from: "MassTransit/MassTransit src/MassTransit.Abstractions/MessageHeaders.cs",
    },
    Framework {
        name: "NServiceBus",
        queues: &["error"],
        marks: &[
            "NServiceBus.ExceptionInfo.",
            "NServiceBus.FailedQ",
            "NServiceBus.TimeOfFailure",
        ],
        means: "an endpoint failed after its immediate and delayed retries",
        back: "to the queue of NServiceBus.FailedQ",
        read_from: "Particular/NServiceBus src/NServiceBus.Core/Faults/FaultsHeaderKeys.cs",
    },
    Framework {
        name: "Spring AMQP",
        queues: &[],
        marks: &["x-exception-", "x-original-exchange", "x-original-routingKey"],
        means: "a RepublishMessageRecoverer gave it up",
        back: "to x-original-exchange with x-original-routingKey",
        read_from: "spring-projects/spring-amqp \
                    spring-rabbit/src/main/java/org/springframework/amqp/rabbit/retry/RepublishMessageRecoverer.java",
    },
    Framework {
        name: "EasyNetQ",
        queues: &["EasyNetQ_Default_Error_Queue"],
        marks: &[],
        means: "a consumer threw; the message is wrapped in a JSON document",
        back: "unwrapped, to the queue that the document names",
        read_from: "EasyNetQ/EasyNetQ Source/EasyNetQ/Consumer/DefaultConsumeErrorStrategy.cs",
    },
    Framework {
        name: "Sneakers",
        queues: &["*-error"],
        marks: &[],
        means: "a worker failed more often than retry_max_times; the body is wrapped in a JSON document",
        back: "unwrapped, to the queue of its name without -error; what the wrapper does not keep (content type, headers) is lost",
        read_from: "jondot/sneakers lib/sneakers/handlers/maxretry.rb",
    },
    Framework {
        name: "Celery",
        queues: &[],
        marks: &[],
        means: "a task was rejected without requeue, and died into the dead-letter exchange of its queue",
        back: "by the broker's death history, as any dead letter",
        read_from: "celery/celery celery/app/amqp.py",
    },
];

/// Whether a queue of this name is one that a framework fills, or one that somebody added.
#[must_use]
pub fn is_error_queue(name: &str, added: &[String]) -> bool {
    let known = FRAMEWORKS.iter().flat_map(|framework| framework.queues);
    known
        .copied()
        .chain(added.iter().map(String::as_str))
        .any(|pattern| fits(pattern, name))
}

/// Whether a header says how a message failed, by any of the frameworks.
#[must_use]
pub fn is_mark(header: &str) -> bool {
    let mut marks = FRAMEWORKS.iter().flat_map(|framework| framework.marks);
    marks.any(|mark| header.starts_with(mark))
}

/// Where a message was published to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedTo {
    /// The exchange; empty for the default exchange.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
}

/// What a framework says of a message that it gave up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Which.
    pub framework: &'static str,
    /// The queue that it came from.
    pub died_in: Option<String>,
    /// Where it had been published to, where that is said.
    pub published: Option<PublishedTo>,
    /// The message of the exception.
    pub error: Option<String>,
    /// Its type; the task for Celery.
    pub kind: Option<String>,
    /// The first frame of its stack that is not a library's.
    pub frame: Option<String>,
    /// How often it was tried.
    pub attempts: Option<u64>,
    /// When it was given up.
    pub at: Option<Timestamp>,
    /// The id that it has inside of a wrapper, or among its headers.
    pub message_id: Option<String>,
    /// Why it cannot go back as it was.
    pub damaged: Option<&'static str>,
}

/// Reads what a framework wrote; `None` for what none of them gave up.
#[must_use]
pub fn recognise(queue: &str, message: &Message) -> Option<GivenUp> {
    mass_transit(queue, message)
        .or_else(|| nservicebus(message))
        .or_else(|| spring(message))
        .or_else(|| wrapped::easy_net_q(message))
        .or_else(|| wrapped::sneakers(queue, message))
        .or_else(|| celery(message))
}

fn mass_transit(queue: &str, message: &Message) -> Option<GivenUp> {
    let text = |name: &str| text(message, name);
    let address = text("MT-Fault-InputAddress");
    if address.is_none() && text("MT-Reason").is_none() {
        return None;
    }
    // rabbitmq://host/vhost/queue?temporary=true
    let addressed = address.as_deref().and_then(|address| {
        let address = address.split(['?', '#']).next()?;
        address.rsplit_once('/').map(|(_, name)| name.to_owned())
    });
    let suffixes = ["_error", "_skipped"];
    let named = || {
        suffixes
            .iter()
            .find_map(|suffix| queue.strip_suffix(suffix))
            .map(str::to_owned)
    };
    let trace = trace_of(message, "MT-Fault-StackTrace");
    Some(GivenUp {
        framework: "MassTransit",
        died_in: addressed.filter(|name| !name.is_empty()).or_else(named),
        error: text("MT-Fault-Message"),
        kind: text("MT-Fault-ExceptionType").or_else(|| text("MT-Reason")),
        frame: trace.and_then(first_own_frame),
        attempts: number(message, "MT-Fault-RetryCount").map(|retries| retries.saturating_add(1)),
        at: text("MT-Fault-Timestamp").as_deref().and_then(moment),
        ..GivenUp::default()
    })
}

fn nservicebus(message: &Message) -> Option<GivenUp> {
    let failed = text(message, "NServiceBus.FailedQ")?;
    let info = |what: &str| text(message, &format!("NServiceBus.ExceptionInfo.{what}"));
    // Some transports write the machine behind the queue.
    let queue = failed.split('@').next().unwrap_or_default();
    let trace = trace_of(message, "NServiceBus.ExceptionInfo.StackTrace");
    Some(GivenUp {
        framework: "NServiceBus",
        died_in: Some(queue.to_owned()).filter(|queue| !queue.is_empty()),
        error: info("Message"),
        kind: info("ExceptionType"),
        frame: trace.and_then(first_own_frame),
        at: text(message, "NServiceBus.TimeOfFailure")
            .as_deref()
            .and_then(moment_of_wire),
        message_id: text(message, "NServiceBus.MessageId"),
        ..GivenUp::default()
    })
}

fn spring(message: &Message) -> Option<GivenUp> {
    let exchange = text(message, "x-original-exchange");
    let key = text(message, "x-original-routingKey");
    let trace = trace_of(message, "x-exception-stacktrace");
    if key.is_none() || (exchange.is_none() && trace.is_none()) {
        return None;
    }
    let published = PublishedTo {
        // What came by the default exchange has none in older versions.
        exchange: exchange.unwrap_or_default(),
        routing_key: key?,
    };
    let root = trace.and_then(root_of_trace);
    Some(GivenUp {
        framework: "Spring AMQP",
        died_in: Some(published.routing_key.clone()).filter(|_| published.exchange.is_empty()),
        published: Some(published),
        error: text(message, "x-exception-message"),
        kind: text(message, "x-exception-type").or_else(|| root.map(|root| bounded(root.kind))),
        frame: trace.and_then(first_own_frame),
        ..GivenUp::default()
    })
}

fn celery(message: &Message) -> Option<GivenUp> {
    let (task, id) = (text(message, "task")?, text(message, "id")?);
    message.header("x-death")?;
    let is_task = message.header("root_id").is_some() || message.header("argsrepr").is_some();
    is_task.then(|| GivenUp {
        framework: "Celery",
        kind: Some(task),
        message_id: Some(id),
        attempts: number(message, "retries").map(|retries| retries.saturating_add(1)),
        ..GivenUp::default()
    })
}

fn text(message: &Message, name: &str) -> Option<String> {
    message.header_text(name).filter(|text| !text.is_empty()).map(bounded)
}

fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_MAX)].to_owned()
}

fn trace_of<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    let text = message.header_text(name)?;
    Some(&text[..text.floor_char_boundary(TRACE_BYTES_MAX)])
}

/// A count, as a number or as text.
fn number(message: &Message, name: &str) -> Option<u64> {
    let value = message.header(name)?;
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.or_else(|| value.as_text()?.parse().ok())
}

/// RFC 3339; what has no zone is UTC.
fn moment(text: &str) -> Option<Timestamp> {
    let parsed =
        OffsetDateTime::parse(text, &Rfc3339).or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339));
    let micros = parsed.ok()?.unix_timestamp_nanos() / 1_000;
    Some(Timestamp::from_micros(i64::try_from(micros).ok()?))
}

/// `2014-11-11 02:26:58:000462 Z`
fn moment_of_wire(text: &str) -> Option<Timestamp> {
    let text = text.strip_suffix(" Z")?;
    let (seconds, fraction) = text.rsplit_once(':')?;
    moment(&format!("{}.{fraction}Z", seconds.replacen(' ', "T", 1)))
}

/// A header value of a JSON value; nothing for what AMQP has no plain type for.
fn header_of(value: &serde_json::Value) -> Option<HeaderValue> {
    match value {
        serde_json::Value::String(text) => Some(HeaderValue::text(text)),
        serde_json::Value::Bool(flag) => Some(HeaderValue::Bool(*flag)),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Some(HeaderValue::Integer(number)),
            None => number.as_f64().map(HeaderValue::Double),
        },
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
