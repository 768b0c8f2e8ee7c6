//! The event table, what feeds it and what handles it: `[events]`, `[[consumer]]`, `[[handler]]`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::event::EventType;

use super::error::Problem;
use super::keys::{Keys as _, keys};
use super::kind::{
    Kind, directory, flag, integer, list, parsed, required_text, seconds, table, text, text_value, texts,
};
use super::print::Page;
use super::section::Section;

const MONTH_S: f64 = 2_592_000.0;

keys! {
    /// The event table.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EventsConfig {
        /// Attempts after which an event is a dead letter.
        cutoff: u32 = integer(1..=1000).or(20);
        /// The first delay.
        backoff_base as "backoff_base_s": Duration = seconds(0.001..=MONTH_S).or(Duration::from_secs(225)).bare();
        /// The longest delay.
        backoff_cap as "backoff_cap_s": Duration = seconds(0.001..=MONTH_S).or(Duration::from_hours(12)).bare();
        /// How long a handler may take.
        lease as "lease_s": Duration = seconds(1.0..=86_400.0).or(Duration::from_mins(5));
        /// Events of each type handled at once.
        workers: usize = integer(1..=1000).or(8).bare();
    }
}

keys! {
    /// One queue whose messages become events.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ConsumerConfig {
        /// Names it in logs.
        name: String = required_text("\"hr\"").bare().example("\"hr\"");
        /// Where the queue is; the broker's vhost without.
        ///
        /// Without it, the vhost of [broker].
        vhost: String = text()
            .or_with(|_| Ok(String::new()))
            .example("\"/\"");
        /// The queue.
        queue: String = required_text("\"q_hr\"").bare().example("\"q_hr\"");
        /// The exchange that it is bound to.
        exchange: Option<String> = text().optional().bare().example("\"people\"");
        /// Routing keys with which it is bound.
        bindings: Vec<String> = texts().bare().example("[\"person.#\"]");
        /// Type of the events.
        event_type as "type": EventType = event_type();
        /// Messages with another type, by routing key; the first that matches counts.
        ///
        /// Messages with another type, by routing key (* is one word, # any number of them); the first that matches counts.
        types: Vec<RoutedType> = list(table::<RoutedType>(), "a list of tables")
            .example("[{ key = \"person.left.#\", type = \"hr-leaver\" }]");
        /// JSON pointer to what the event is about.
        ///
        /// JSON pointers into the message: what the event is about, and when it is due.
        reference: String = pointer()
            .example("\"/employee_number\"");
        /// JSON pointer to when it is due.
        nbf: Option<String> = pointer().optional().bare().example("\"/nbf\"");
        /// JSON pointer to what becomes the payload; the whole message without.
        ///
        /// The part of the message that becomes the payload; without it the whole message.
        payload: Option<String> = pointer()
            .optional()
            .example("\"/data\"");
    }
}

keys! {
    /// The type of the messages with a routing key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RoutedType {
        /// * is one word, # any number of them.
        key: String = required_text("\"person.#\"");
        /// Type of the events.
        event_type as "type": EventType = event_type();
    }
}

keys! {
    /// What is done with the events of a type.
    pub(super) struct HandlerKeys {
        /// Type of the events.
        event_type as "type": EventType = event_type();
        /// Program and arguments.
        command: Vec<String> = texts()
            .shown_if(|command| !command.is_empty())
            .bare()
            .example("[\"/usr/local/bin/hr-import\", \"--one\"]");
        /// Where the program runs.
        directory: Option<PathBuf> = directory("\"/var/lib/hr-import\"");
        /// The subscribers of the type get it, instead of a command.
        ///
        /// Instead of a command: the subscribers of the type get it.
        webhook: bool = flag(false)
            .shown_if(|webhook| *webhook)
            .example("true");
    }
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

pub(super) fn events(root: Section<'_>, page: &mut Page) -> Result<EventsConfig, Problem> {
    let section = root.section::<EventsConfig>("events")?;
    let events = EventsConfig::read(section)?;
    if events.backoff_cap < events.backoff_base {
        let base = events.backoff_base.as_secs_f64();
        let problem = format!("must not be less than events.backoff_base_s, which is {base} seconds");
        return Err(section.problem("backoff_cap_s", problem));
    }
    page.table("[events]", &events);
    Ok(events)
}

/// `vhost` is the broker's: where a queue is unless it says otherwise.
pub(super) fn consumers(root: Section<'_>, vhost: &str, page: &mut Page) -> Result<Vec<ConsumerConfig>, Problem> {
    let mut names = HashSet::new();
    let mut queues = HashSet::new();
    let mut consumers = Vec::new();
    for section in root.sections::<ConsumerConfig>("consumer")? {
        let mut consumer = ConsumerConfig::read(section)?;
        if section.get("vhost").is_none() {
            vhost.clone_into(&mut consumer.vhost);
        }
        if consumer.exchange.is_none() && !consumer.bindings.is_empty() {
            return Err(section.problem("exchange", "is missing; the bindings need one"));
        }
        if !names.insert(consumer.name.clone()) {
            return Err(section.problem("name", "is that of another [[consumer]]; give each its own"));
        }
        if !queues.insert((consumer.vhost.clone(), consumer.queue.clone())) {
            return Err(section.problem(
                "queue",
                "is read by another [[consumer]]; one per queue keeps its order",
            ));
        }
        page.table("[[consumer]]", &consumer);
        consumers.push(consumer);
    }
    Ok(consumers)
}

fn event_type() -> Kind<EventType> {
    let parse = |text: String| EventType::parse(&text).map_err(|error| format!("names no type: {error}"));
    required_text("\"hr-import\"")
        .and_then(
            move |text, place| parse(text).map_err(|problem| place.problem(problem)),
            |event_type| Some(text_value(event_type.as_str())),
        )
        .bare()
        .example("\"hr-import\"")
}

/// A JSON pointer: empty for the whole document; `~` only as `~0` and `~1`.
fn pointer() -> Kind<String> {
    let parse = |text: &str| {
        let escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if (text.is_empty() || text.starts_with('/')) && escaped {
            return Ok(text.to_owned());
        }
        Err(format!(
            "is {text:?}, and must be a JSON pointer such as \"/employee_number\""
        ))
    };
    parsed(parse, String::clone).required("write it as \"/employee_number\"")
}

pub(super) fn handlers(root: Section<'_>, page: &mut Page) -> Result<Vec<HandlerConfig>, Problem> {
    let mut types = HashSet::new();
    let mut handlers = Vec::new();
    for section in root.sections::<HandlerKeys>("handler")? {
        let handler = HandlerKeys::read(section)?;
        if !types.insert(handler.event_type.clone()) {
            return Err(section.problem("type", "has another [[handler]]; one per type is possible"));
        }
        page.table("[[handler]]", &handler);
        let has_program = handler.command.first().is_some_and(|program| !program.is_empty());
        let action = match (has_program, handler.webhook) {
            (true, false) => HandlerAction::Command {
                command: handler.command,
                directory: handler.directory,
            },
            (false, true) if handler.directory.is_some() => {
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
        handlers.push(HandlerConfig {
            event_type: handler.event_type,
            action,
        });
    }
    Ok(handlers)
}
