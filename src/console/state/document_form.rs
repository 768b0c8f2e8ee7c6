//! The form of a document of the event table: the metadata of a type, the options of a subscription.
//!
//! A line for each key that decides something; keys of the operator's own are kept as they are. What is left
//! empty is not written. Checked with every key by the function that checks it when it is saved.

use serde_json::{Map, Value};
use tui_input::Input;

use crate::console::state::detail::TypeDetail;
use crate::console::state::policy_form::FormLine;
use crate::domain::event::EventType;
use crate::domain::url::EndpointUrl;
use crate::engine::events::{EventCommand, Subscription, check_metadata, check_options};
use crate::engine::{Command, EngineError};

/// The policy of a type or subscription has a form of its own.
const RETRY_POLICY: &str = "_retry_policy";
/// The address of a subscription, and what its requests carry.
const URL: &str = "url";
const HEADERS: &str = "headers";
/// Characters of a value, at most.
const VALUE_MAX: usize = 2_000;

/// The keys of metadata that the form has: what holds without them, and what they do.
const METADATA: [(&str, &str, &str); 9] = [
    (
        "_cutoff",
        "configured",
        "failures after which an event is a dead letter: 1 to 1000",
    ),
    (
        "_backoff_base",
        "configured",
        "seconds before the first retry; doubles with each failure",
    ),
    ("_backoff_cap", "configured", "seconds between two tries, at most"),
    (
        "_coalesce_window",
        "none",
        "seconds that a push waits for another one of its key",
    ),
    (
        "_coalesce_window_max",
        "10 × window",
        "seconds that a busy key waits at most",
    ),
    (
        "_max_claim_count",
        "none",
        "claims after which an event is moved to the dead-letter type",
    ),
    (
        "_dead_letter_queue",
        "none",
        "the type that such events are moved to; it must exist",
    ),
    (
        "_dead_letter_queue_messages_ttl",
        "its own",
        "seconds that a moved event lives there: 60 to 1209600",
    ),
    (
        "_history_ttl",
        "not kept",
        "seconds that handled events are remembered: 60 to 7776000",
    ),
];

/// What a document belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentOf {
    /// A type.
    Metadata(EventType),
    /// A subscription of a type; `None`: one that is to be.
    Subscription(EventType, Option<EndpointUrl>),
}

/// A document that is being written.
#[derive(Clone, Debug)]
pub struct DocumentForm {
    /// Of what.
    pub of: DocumentOf,
    /// The keys.
    pub lines: Vec<FormLine>,
    /// Which one is written.
    pub selected: usize,
    /// What is wrong with what is written, and with which key.
    pub problem: Option<(String, String)>,
    /// What the form has no line for.
    pub kept: Map<String, Value>,
}

impl DocumentForm {
    /// The metadata of a type.
    #[must_use]
    pub fn metadata(found: &TypeDetail) -> Self {
        let mut document = object(&found.record.document);
        // What is saved of the policy may be newer than what was written with the metadata.
        if document.contains_key(RETRY_POLICY) {
            let policy = found.policy.document().map(object);
            document.insert(RETRY_POLICY.to_owned(), policy.map_or(Value::Null, Value::Object));
        }
        let lines = METADATA.iter().map(|(key, default, _)| line(key, default));
        Self::new(
            DocumentOf::Metadata(found.record.name.clone()),
            lines.collect(),
            document,
        )
    }

    /// The options of a subscription, or of one that is to be.
    #[must_use]
    pub fn subscription(event_type: &EventType, subscription: Option<&Subscription>) -> Self {
        let url = subscription.map(|one| one.url.clone());
        // What is not shown stays as it is when it is saved.
        let document = subscription.map_or_else(Map::new, |one| object(&one.options));
        let mut lines = vec![line(HEADERS, "none")];
        if url.is_none() {
            lines.insert(0, line(URL, "where to"));
        }
        Self::new(DocumentOf::Subscription(event_type.clone(), url), lines, document)
    }

    fn new(of: DocumentOf, mut lines: Vec<FormLine>, document: Map<String, Value>) -> Self {
        let mut kept = Map::new();
        for (key, value) in document {
            match lines.iter_mut().find(|line| line.key == key) {
                Some(line) => line.input = Input::new(written(&value)),
                None => {
                    kept.insert(key, value);
                }
            }
        }
        let mut form = Self {
            of,
            lines,
            selected: 0,
            problem: None,
            kept,
        };
        form.check();
        form
    }

    /// What the selected key does.
    #[must_use]
    pub fn help(&self) -> &'static str {
        let key = self.lines.get(self.selected).map_or("", |line| line.key.as_str());
        if key == URL {
            return "an http or https URL: gets every event of the type from now on";
        }
        if key == HEADERS {
            return "a JSON object of strings, such as {\"x-team\":\"billing\"}; empty: none";
        }
        let found = METADATA.iter().find(|(name, ..)| *name == key);
        found.map_or("", |(_, _, help)| help)
    }

    /// Reads what is written.
    pub fn check(&mut self) {
        self.problem = self.command().err();
    }

    /// What saves it.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn command(&self) -> Result<Command, (String, String)> {
        let document = self.document();
        let command = match &self.of {
            DocumentOf::Metadata(event_type) => {
                check_metadata(event_type, &document).map_err(refused)?;
                EventCommand::SetType {
                    event_type: event_type.clone(),
                    document,
                }
            }
            DocumentOf::Subscription(event_type, url) => {
                check_options(&document).map_err(refused)?;
                EventCommand::Subscribe {
                    event_type: event_type.clone(),
                    url: match url {
                        Some(url) => url.clone(),
                        None => self.url()?,
                    },
                    options: document,
                }
            }
        };
        Ok(Command::Events(command))
    }

    /// The line that is written.
    pub fn line_mut(&mut self) -> Option<&mut FormLine> {
        self.lines.get_mut(self.selected)
    }

    /// What is written, as JSON text.
    fn document(&self) -> String {
        let mut document = self.kept.clone();
        for line in self
            .lines
            .iter()
            .filter(|line| line.key != URL && !line.value().is_empty())
        {
            document.insert(line.key.clone(), read(line));
        }
        Value::Object(document).to_string()
    }

    fn url(&self) -> Result<EndpointUrl, (String, String)> {
        let line = self.lines.iter().find(|line| line.key == URL);
        let text = line.map(FormLine::value).unwrap_or_default();
        EndpointUrl::parse(text).map_err(|error| (URL.to_owned(), error.to_string()))
    }
}

fn line(key: &str, default: &str) -> FormLine {
    FormLine {
        key: key.to_owned(),
        default: default.to_owned(),
        choices: Vec::new(),
        input: Input::default(),
        length_max: VALUE_MAX,
    }
}

fn object(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// As a person writes it: text without quotes.
fn written(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// A number, or an object for headers, as such; anything else as text: the check names what should stand there.
fn read(line: &FormLine) -> Value {
    let text = line.value();
    match serde_json::from_str(text) {
        Ok(Value::Number(number)) => Value::Number(number),
        Ok(value @ Value::Object(_)) if line.key == HEADERS => value,
        Ok(_) | Err(_) => Value::String(text.to_owned()),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a check answers with the field that is wrong"
)]
fn refused(error: EngineError) -> (String, String) {
    match error {
        EngineError::Invalid { field, message } => (field, message),
        other => (String::new(), other.to_string()),
    }
}
