//! The form of a retry policy: a line for each key, checked with every key, its schedule drawn beside it.
//!
//! What is left empty is not written: its default holds. The document is checked by the same function that
//! checks it when it is saved, so that nothing that looks right here is refused there.

use tui_input::Input;

use crate::domain::policy::{BackoffFunction, OnExhausted, OnRefused, PolicyError, PolicyOwner, RetryPolicy};
use crate::domain::text::is_hidden;
use crate::domain::value::Value;
use crate::engine::policies::{self, PolicyView};
use crate::engine::query::PolicyScope;

/// Characters of a value, at most: far more than any value has.
const VALUE_MAX: usize = 40;
/// The key that is absent from a policy that does not set it.
const BACKOFF_RETRIES: &str = "backoff_retries";
/// The key without which there is no slow start.
const SLOW_START: &str = "slow_start";

/// A policy that is being written.
#[derive(Clone, Debug)]
pub struct PolicyForm {
    /// What for.
    pub scope: PolicyScope,
    /// Whether what is saved is known; until then nothing can be written.
    pub loaded: bool,
    /// Nothing is saved there: whose policy it begins with.
    pub begins_with: Option<&'static str>,
    /// The keys.
    pub lines: Vec<FormLine>,
    /// Which one is written.
    pub selected: usize,
    /// What is wrong with what is written.
    pub problem: Option<PolicyError>,
    /// The last that could be read: what is drawn.
    pub policy: RetryPolicy,
}

/// A key with what is written for it.
#[derive(Clone, Debug)]
pub struct FormLine {
    /// The key, as in a policy.
    pub key: String,
    /// What holds where nothing is written.
    pub default: String,
    /// The words to choose from; empty: a number.
    pub choices: Vec<&'static str>,
    /// What is written.
    pub input: Input,
    /// Characters of it, at most.
    pub length_max: usize,
}

impl PolicyForm {
    /// A form whose content is not known yet.
    #[must_use]
    pub fn new(scope: PolicyScope) -> Self {
        let lines = lines(owner(&scope));
        Self {
            scope,
            loaded: false,
            begins_with: None,
            lines,
            selected: 0,
            problem: None,
            policy: RetryPolicy::default(),
        }
    }

    /// Takes what is saved; where nothing is, what applies there, so that nothing changes but what is written.
    pub fn load(&mut self, view: &PolicyView) {
        if self.loaded {
            return;
        }
        self.loaded = true;
        let written = if let Some(document) = view.document() {
            policies::value(document).ok()
        } else {
            self.begins_with = Some(view.whose());
            Some(view.effective.to_value(owner(&self.scope)))
        };
        if let Some(Value::Table(entries)) = written {
            for (key, value) in entries {
                let (value, is_saved) = (written_as(&value), self.begins_with.is_none());
                let line = self.lines.iter_mut().find(|line| line.key == key);
                if let Some(line) = line.filter(|line| is_saved || line.default != value) {
                    line.input = Input::new(value);
                }
            }
        }
        self.check();
    }

    /// What is written, as JSON text.
    #[must_use]
    pub fn document(&self) -> String {
        let entry = |line: &FormLine| format!("{}:{}", serde_json::json!(line.key), line.json());
        let entries: Vec<String> = self.written().map(entry).collect();
        format!("{{{}}}", entries.join(","))
    }

    /// Reads what is written.
    pub fn check(&mut self) {
        match policies::read(&self.document(), owner(&self.scope)) {
            Ok(policy) => {
                self.policy = policy.unwrap_or_default();
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// The line that is written.
    pub fn line_mut(&mut self) -> Option<&mut FormLine> {
        self.lines.get_mut(self.selected)
    }

    fn written(&self) -> impl Iterator<Item = &FormLine> {
        self.lines.iter().filter(|line| !line.value().is_empty())
    }
}

impl FormLine {
    /// What is written, without spaces around it.
    #[must_use]
    pub fn value(&self) -> &str {
        self.input.value().trim()
    }

    /// Whether another character has room and may stand there.
    #[must_use]
    pub fn takes(&self, character: char) -> bool {
        !is_hidden(character) && self.input.value().chars().count() < self.length_max
    }

    /// The next choice, or the one before; behind the last one comes the default again.
    pub fn turn(&mut self, forward: bool) {
        let place = self.choices.iter().position(|choice| *choice == self.value());
        let last = self.choices.len().checked_sub(1);
        let next = match (place, forward) {
            (None, true) => Some(0),
            (None, false) => last,
            (Some(place), true) => Some(place + 1),
            (Some(place), false) => place.checked_sub(1),
        };
        let word = next.and_then(|next| self.choices.get(next)).copied();
        self.input = Input::new(word.unwrap_or_default().to_owned());
    }

    /// A number or a truth as such, anything else as text: the check names what should stand there.
    fn json(&self) -> String {
        let value = self.value();
        match serde_json::from_str::<serde_json::Value>(value) {
            Ok(serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => value.to_owned(),
            Ok(_) | Err(_) => serde_json::json!(value).to_string(),
        }
    }
}

/// Whose a policy of this scope is.
const fn owner(scope: &PolicyScope) -> PolicyOwner {
    if scope.url.is_some() {
        PolicyOwner::Subscription
    } else {
        PolicyOwner::Queue
    }
}

/// Every key that such a policy may have, with its default.
fn lines(owner: PolicyOwner) -> Vec<FormLine> {
    let defaults = RetryPolicy {
        backoff_retries: Some(0),
        slow_start: 1,
        ..RetryPolicy::default()
    };
    let Value::Table(entries) = defaults.to_value(owner) else {
        return Vec::new();
    };
    let line = |(key, value): (String, Value)| FormLine {
        default: match key.as_str() {
            BACKOFF_RETRIES => "by the delays".to_owned(),
            SLOW_START => "0".to_owned(),
            _ => written_as(&value),
        },
        choices: choices(&key, &value),
        input: Input::default(),
        length_max: VALUE_MAX,
        key,
    };
    entries.into_iter().map(line).collect()
}

fn choices(key: &str, value: &Value) -> Vec<&'static str> {
    match (key, value) {
        ("retry_backoff_function", _) => BackoffFunction::ALL.into_iter().map(BackoffFunction::as_str).collect(),
        ("on_exhausted", _) => OnExhausted::ALL.into_iter().map(OnExhausted::as_str).collect(),
        ("on_refused", _) => OnRefused::ALL.into_iter().map(OnRefused::as_str).collect(),
        (_, Value::Bool(_)) => vec!["false", "true"],
        _ => Vec::new(),
    }
}

fn written_as(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::List(_) | Value::Table(_) => String::new(),
    }
}
