//! What is asked, what was answered, and the configuration that it makes.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use tui_input::{Input, InputRequest};

use super::written::text;
use crate::config::{BrokerKind, Config, Environment, Problem, StoreConfig};
use crate::domain::text::{is_hidden, show};

/// Characters of an answer, at most.
const ANSWER_MAX: usize = 1_000;
/// Columns of what is wrong.
const PROBLEM_MAX: usize = 400;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Where the broker is.
    Broker,
    /// Where its management API is.
    Management,
    /// Where the record is.
    Store,
}

impl Question {
    /// In the order of the screen.
    pub const ALL: [Self; 3] = [Self::Broker, Self::Management, Self::Store];

    /// As written before the line.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Management => "management",
            Self::Store => "store",
        }
    }

    /// What the line takes.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Broker => "amqp://USER:PASSWORD@HOST/VHOST, or amqps:// for TLS; without a vhost it is redrive's own",
            Self::Management => {
                "http://HOST:15672 of the management API, for depths, policies and rights; left empty: the suggestion"
            }
            Self::Store => {
                "what is remembered beside the broker: the same as that of the daemons where there are some, \
                 postgres://USER:PASSWORD@HOST/DATABASE for several hosts; left empty: a file of this user"
            }
        }
    }

    /// Section and key of the configuration.
    pub(super) const fn key(self) -> (&'static str, &'static str) {
        match self {
            Self::Broker => ("broker", "url"),
            Self::Management => ("broker", "management_url"),
            Self::Store => ("store", "url"),
        }
    }
}

/// What was answered; empty: left out. May hold passwords, and does not show them.
#[derive(Clone)]
pub struct Answers {
    texts: [SecretString; 3],
    hash_key: Option<SecretString>,
}

impl Answers {
    /// The embedded pair, where it always is.
    #[must_use]
    pub fn embedded() -> Self {
        Self::of(["embedded:", "", ""])
    }

    fn of(texts: [&str; 3]) -> Self {
        Self {
            texts: texts.map(|text| text.trim().to_owned().into()),
            hash_key: None,
        }
    }

    /// The same with a new key that queue names are made with.
    #[must_use]
    pub(super) fn with_hash_key(self, key: Option<SecretString>) -> Self {
        Self { hash_key: key, ..self }
    }

    /// The new key, where there is one.
    pub(super) fn hash_key(&self) -> Option<&str> {
        self.hash_key.as_ref().map(SecretString::expose_secret)
    }

    /// What was answered to this.
    #[must_use]
    pub fn get(&self, question: Question) -> &str {
        let [broker, management, store] = &self.texts;
        match question {
            Question::Broker => broker,
            Question::Management => management,
            Question::Store => store,
        }
        .expose_secret()
    }

    /// The configuration that they make.
    ///
    /// # Errors
    /// The field and what is wrong with it; safe to show.
    pub fn resolve(&self, environment: &Environment) -> Result<Config, String> {
        let written = text(self);
        Config::resolve(written.expose_secret(), None, environment).map_err(|problem| {
            let told = match &problem {
                // Its line is one of a file that is not there.
                Problem::Value { field, problem, .. } | Problem::Secret { field, problem, .. } => {
                    format!("{field} {problem}")
                }
                Problem::Read(_)
                | Problem::Exposed(_)
                | Problem::Home
                | Problem::Syntax { .. }
                | Problem::UnknownKey { .. }
                | Problem::Profile { .. } => problem.to_string(),
            };
            show(&told, PROBLEM_MAX)
        })
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// A question with what is typed.
#[derive(Clone, Default)]
pub struct Line {
    /// What is typed; may hold a password.
    pub input: Input,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

/// The lines, in the order of [`Question::ALL`].
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// What is typed in each.
    pub lines: [Line; 3],
    /// Which one is typed in.
    pub selected: usize,
    /// What is wrong; told once a line was left.
    pub problem: Option<String>,
}

impl Form {
    /// What was typed.
    #[must_use]
    pub fn answers(&self) -> Answers {
        let [broker, management, store] = &self.lines;
        Answers::of([broker.input.value(), management.input.value(), store.input.value()])
    }

    /// The question that is answered now.
    #[must_use]
    pub fn question(&self) -> Question {
        Question::ALL.get(self.selected).copied().unwrap_or(Question::Store)
    }

    /// What holds where this is left empty; without logins.
    #[must_use]
    pub fn guess(&self, question: Question, environment: &Environment) -> Option<String> {
        let config = self.answers().resolve(environment).ok();
        match question {
            Question::Broker => Some("amqp://localhost".to_owned()),
            Question::Management => match config?.broker.kind {
                BrokerKind::RabbitMq { management_url, .. } => without_login(management_url.expose()),
                BrokerKind::Embedded => None,
            },
            Question::Store => match Answers::embedded().resolve(environment).ok()?.store {
                StoreConfig::Sqlite { path, .. } => Some(format!("sqlite:{}", path.display())),
                StoreConfig::Postgres { .. } => None,
            },
        }
    }

    /// Types; what does not fit or cannot be seen is left out.
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other request is the input's own")]
    pub(super) fn edit(&mut self, request: InputRequest) {
        self.problem = None;
        let Some(line) = self.lines.get_mut(self.selected) else {
            return;
        };
        match request {
            InputRequest::InsertChar(character)
                if is_hidden(character) || line.input.value().chars().count() >= ANSWER_MAX => {}
            request => {
                line.input.handle(request);
            }
        }
    }

    /// Takes what would hold, to be changed.
    pub(super) fn take_guess(&mut self, environment: &Environment) {
        let guess = self.guess(self.question(), environment);
        if let (Some(guess), Some(line)) = (guess, self.lines.get_mut(self.selected)) {
            line.input = Input::new(guess);
        }
    }
}

fn without_login(url: &str) -> Option<String> {
    let mut url = url::Url::parse(url).ok()?;
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(url.as_str().trim_end_matches('/').to_owned())
}
