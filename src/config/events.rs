//! The event table, what feeds it and what handles it: `[events]`, `[[consumer]]`, `[[handler]]`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::event::EventType;

use super::error::Problem;
use super::section::Section;

pub(super) const EVENTS_KEYS: &[&str] = &["cutoff", "backoff_base_s", "backoff_cap_s", "lease_s", "workers"];
pub(super) const CONSUMER_KEYS: &[&str] = &[
    "name",
    "vhost",
    "queue",
    "exchange",
    "bindings",
    "type",
    "types",
    "reference",
    "nbf",
    "payload",
];
pub(super) const TYPES_KEYS: &[&str] = &["key", "type"];
pub(super) const HANDLER_KEYS: &[&str] = &["type", "command", "directory", "webhook"];

const MONTH_S: f64 = 2_592_000.0;

/// `[events]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsConfig {
    /// Attempts after which an event is a dead letter.
    pub cutoff: u32,
    /// The first delay of the backoff.
    pub backoff_base: Duration,
    /// The longest delay of the backoff.
    pub backoff_cap: Duration,
    /// How long a handler may take.
    pub lease: Duration,
    /// Events handled at once.
    pub workers: usize,
}

/// `[[consumer]]`: one intake queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// Its name, for the operator.
    pub name: String,
    /// The vhost of the queue; the broker's unless it is said.
    pub vhost: String,
    /// The queue.
    pub queue: String,
    /// The exchange that it is bound to.
    pub exchange: Option<String>,
    /// The routing keys that it is bound with.
    pub bindings: Vec<String>,
    /// The type of its events.
    pub event_type: EventType,
    /// Routing keys, or patterns of them, whose messages have another type; the first that matches counts.
    pub types: Vec<(String, EventType)>,
    /// JSON pointer to the reference.
    pub reference: String,
    /// JSON pointer to the time before which the event is not due.
    pub nbf: Option<String>,
    /// JSON pointer to the payload; the whole message without.
    pub payload: Option<String>,
}

/// `[[handler]]`: what is done with the events of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerConfig {
    /// The type.
    pub event_type: EventType,
    /// What is done.
    pub action: HandlerAction,
}

/// What is done with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerAction {
    /// A program gets it.
    Command {
        /// The program, and its arguments.
        command: Vec<String>,
        /// Where it runs; where the daemon does without.
        directory: Option<PathBuf>,
    },
    /// The subscribers get it.
    Webhook,
}

pub(super) fn events(section: Section<'_>) -> Result<EventsConfig, Problem> {
    let events = EventsConfig {
        cutoff: section.integer("cutoff", 1..=1000, 20)?,
        backoff_base: section.seconds("backoff_base_s", 0.001..=MONTH_S, Duration::from_secs(225))?,
        backoff_cap: section.seconds("backoff_cap_s", 0.001..=MONTH_S, Duration::from_hours(12))?,
        lease: section.seconds("lease_s", 1.0..=86_400.0, Duration::from_mins(5))?,
        workers: section.integer("workers", 1..=1000, 8)?,
    };
    if events.backoff_cap < events.backoff_base {
        let base = events.backoff_base.as_secs_f64();
        let problem = format!("must not be less than events.backoff_base_s, which is {base} seconds");
        return Err(section.problem("backoff_cap_s", problem));
    }
    Ok(events)
}

/// `vhost` is the broker's: where a queue is unless it says otherwise.
pub(super) fn consumers(root: Section<'_>, vhost: &str) -> Result<Vec<ConsumerConfig>, Problem> {
    let mut names = HashSet::new();
    let mut queues = HashSet::new();
    let mut consumers = Vec::new();
    for section in root.sections("consumer", CONSUMER_KEYS)? {
        let consumer = consumer(section, vhost)?;
        if !names.insert(consumer.name.clone()) {
            return Err(section.problem("name", "is that of another [[consumer]]; give each its own"));
        }
        if !queues.insert((consumer.vhost.clone(), consumer.queue.clone())) {
            return Err(section.problem(
                "queue",
                "is read by another [[consumer]]; one per queue keeps its order",
            ));
        }
        consumers.push(consumer);
    }
    Ok(consumers)
}

fn consumer(section: Section<'_>, vhost: &str) -> Result<ConsumerConfig, Problem> {
    let pointer = |key: &str| match section.text(key)? {
        Some(text) if !is_pointer(text) => {
            let problem = format!("is {text:?}, and must be a JSON pointer such as \"/employee_number\"");
            Err(section.problem(key, problem))
        }
        found => Ok(found.map(str::to_owned)),
    };
    let exchange = section.text("exchange")?.map(str::to_owned);
    let bindings: Vec<String> = section
        .texts("bindings")?
        .into_iter()
        .map(|(_, key)| key.to_owned())
        .collect();
    if exchange.is_none() && !bindings.is_empty() {
        return Err(section.problem("exchange", "is missing; the bindings need one"));
    }
    Ok(ConsumerConfig {
        name: section.required_text("name", "\"hr\"")?.to_owned(),
        vhost: section.text("vhost")?.unwrap_or(vhost).to_owned(),
        queue: section.required_text("queue", "\"q_hr\"")?.to_owned(),
        exchange,
        bindings,
        event_type: event_type(section)?,
        types: types(section)?,
        reference: pointer("reference")?
            .ok_or_else(|| section.problem("reference", "is missing; write it as \"/employee_number\""))?,
        nbf: pointer("nbf")?,
        payload: pointer("payload")?,
    })
}

fn event_type(section: Section<'_>) -> Result<EventType, Problem> {
    let text = section.required_text("type", "\"hr-import\"")?;
    EventType::parse(text).map_err(|error| section.problem("type", format!("names no type: {error}")))
}

fn types(section: Section<'_>) -> Result<Vec<(String, EventType)>, Problem> {
    let sections = section.sections("types", TYPES_KEYS)?;
    let routed = |section: Section<'_>| {
        let key = section.required_text("key", "\"person.#\"")?;
        Ok((key.to_owned(), event_type(section)?))
    };
    sections.into_iter().map(routed).collect()
}

/// Empty for the whole document; `~` only as `~0` and `~1`.
fn is_pointer(text: &str) -> bool {
    let escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escaped
}

pub(super) fn handlers(root: Section<'_>) -> Result<Vec<HandlerConfig>, Problem> {
    let mut types = HashSet::new();
    let mut handlers = Vec::new();
    for section in root.sections("handler", HANDLER_KEYS)? {
        let event_type = event_type(section)?;
        if !types.insert(event_type.clone()) {
            return Err(section.problem("type", "has another [[handler]]; one per type is possible"));
        }
        let command: Vec<String> = section
            .texts("command")?
            .into_iter()
            .map(|(_, part)| part.to_owned())
            .collect();
        let action = match (
            command.first().is_some_and(|program| !program.is_empty()),
            section.flag("webhook", false)?,
        ) {
            (true, false) => HandlerAction::Command {
                command,
                directory: directory(section)?,
            },
            (false, true) if section.get("directory").is_some() => {
                return Err(section.problem("directory", "goes with a command; leave it out"));
            }
            (false, true) => HandlerAction::Webhook,
            (true, true) => return Err(section.problem("webhook", "and command exclude each other; leave one out")),
            (false, false) => {
                return Err(section.problem(
                    "command",
                    "is missing; write it as [\"program\", \"argument\"], or set webhook = true",
                ));
            }
        };
        handlers.push(HandlerConfig { event_type, action });
    }
    Ok(handlers)
}

/// Absolute: what a relative one means would follow from where the daemon was started.
pub(super) fn directory(section: Section<'_>) -> Result<Option<PathBuf>, Problem> {
    match section.text("directory")?.map(PathBuf::from) {
        Some(path) if !path.is_absolute() => {
            Err(section.problem("directory", "must be an absolute path such as \"/var/lib/hr\""))
        }
        found => Ok(found),
    }
}
