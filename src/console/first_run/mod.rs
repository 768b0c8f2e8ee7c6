//! The screen of a start for which nobody wrote a configuration: asks for a broker, has it tried, and offers to
//! keep the answers.
//!
//! ```text
//!  what? ──▶ where? ──▶ (it is tried) ──▶ what was found ──▶ write this? ──▶ the console
//!    └──────── embedded, this once ───────────────┴─ this once ────────────────▲
//! ```
//!
//! Events in, effects out, as in the console itself. Promises: nothing is written before path and text were on the
//! screen and a person said yes; no file is overwritten; a password is neither painted nor logged, also while it is
//! typed. Left out on purpose: everything else that can be configured, which `redrive config init` explains.

mod answers;
mod mask;
#[cfg(test)]
mod tests;
mod update;
mod written;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use crossterm::event::KeyEvent;
use secrecy::SecretString;

pub use self::answers::{Answers, Form, Line, Question};
pub use self::mask::masked;
pub use self::update::update;
pub(in crate::console) use self::update::{asks_where, is_broken, is_of_another};
pub use self::written::{Keep, NewFile, files, has_secret, secret_files, shown, text};
use crate::config::{Config, Environment};
use crate::domain::time::Timestamp;
use crate::engine::view::Check;

/// What it is told.
#[derive(Clone, Debug)]
pub struct FirstRunSettings {
    /// Where a configuration would be looked for at the next start; `None`: there is no such place.
    pub path: Option<PathBuf>,
    /// The file of the embedded pair, and whether it is there from an earlier time.
    pub embedded: Option<(PathBuf, bool)>,
    /// What surrounds the process: answers are resolved with it.
    pub environment: Environment,
    /// A key, drawn at this start, for the names of a broker's queues where there are none yet.
    pub new_key: SecretString,
}

/// What came of a try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Each part, with its mend.
    pub checks: Vec<Check>,
    /// Whether the broker answers and has nothing of this program yet, so that no name depends on a key.
    pub is_fresh: bool,
    /// Whether daemons of another store than the one that was tried deliver what is there: then no console opens the two.
    pub is_of_another: bool,
}

/// How it ended.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// The operator leaves.
    Leave,
    /// The console goes on with this.
    Use(Box<Config>),
}

/// Which of the two pairs is decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// No server is needed.
    Embedded,
    /// A broker that is there already.
    RabbitMq,
}

/// What can be chosen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Asks where the broker is.
    RabbitMq,
    /// Goes on, and asks again next time.
    EmbeddedOnce,
    /// Goes on, and nobody asks again.
    EmbeddedKept,
    /// Nothing happens.
    Leave,
}

impl Item {
    /// In the order of the screen.
    pub const ALL: [Self; 4] = [Self::RabbitMq, Self::EmbeddedOnce, Self::EmbeddedKept, Self::Leave];

    /// As written.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::RabbitMq => "connect to RabbitMQ",
            Self::EmbeddedOnce => "embedded, this once",
            Self::EmbeddedKept => "embedded, and keep that",
            Self::Leave => "leave",
        }
    }
}

/// What is in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What to use.
    Menu {
        /// Which of [`Item::ALL`].
        selected: usize,
    },
    /// Where the broker is.
    Form,
    /// It is being tried.
    Testing,
    /// What came of that.
    Tested(Found),
    /// Whether to write it.
    Save {
        /// What was found, to go back to; nothing for the embedded pair.
        found: Found,
        /// Why it was not written.
        problem: Option<String>,
    },
}

/// Something happened. [`update`] is told the time beside it.
#[derive(Clone, Debug)]
pub enum FirstEvent {
    /// A key went down or repeats.
    Key(KeyEvent),
    /// Text was pasted (from outside, bounded).
    Paste(String),
    /// The terminal has another size.
    Resize(u16, u16),
    /// What was found.
    Tested(Found),
    /// Whether the files were written; why not is safe to show.
    Written(Result<(), String>),
}

/// Something to do.
#[derive(Debug)]
pub enum FirstEffect {
    /// Try it.
    Test(Box<Config>),
    /// The answer of a test is not wanted any more.
    Forget,
    /// Write these, all of them new.
    Write(Vec<NewFile>),
    /// It is over.
    End(Chosen),
}

/// Everything the screen shows.
#[derive(Clone, Debug)]
pub struct FirstRun {
    /// Width and height of the terminal in cells.
    pub size: (u16, u16),
    /// What is in front.
    pub stage: Stage,
    /// Which pair it is about.
    pub pair: Pair,
    /// What is typed.
    pub form: Form,
    /// Where passwords go.
    pub keep: Keep,
    /// Why the last key did nothing.
    pub note: Option<String>,
    /// What it was told.
    pub settings: FirstRunSettings,
    last_key_at: Option<Timestamp>,
}

impl FirstRun {
    /// The first question.
    #[must_use]
    pub fn new(settings: FirstRunSettings, size: (u16, u16)) -> Self {
        // Where the embedded pair was used before, it is what is probably wanted again.
        let used = settings.embedded.as_ref().is_some_and(|(_, used)| *used);
        Self {
            size,
            stage: Stage::Menu {
                selected: usize::from(used),
            },
            pair: if used { Pair::Embedded } else { Pair::RabbitMq },
            form: Form::default(),
            keep: Keep::OwnFile,
            note: None,
            settings,
            last_key_at: None,
        }
    }

    /// What would be configured.
    #[must_use]
    pub fn answers(&self) -> Answers {
        match self.pair {
            Pair::Embedded => Answers::embedded(),
            Pair::RabbitMq => self.form.answers().with_hash_key(self.new_key()),
        }
    }

    /// Only where it is kept: a key that nobody knows any more would make other names at the next start.
    fn new_key(&self) -> Option<SecretString> {
        match &self.stage {
            Stage::Save { found, .. } if found.is_fresh => Some(self.settings.new_key.clone()),
            Stage::Menu { .. } | Stage::Form | Stage::Testing | Stage::Tested(_) | Stage::Save { .. } => None,
        }
    }

    /// The configuration that the answers make, or what is wrong with them; safe to show.
    ///
    /// # Errors
    /// The field and why.
    pub fn config(&self) -> Result<Config, String> {
        self.answers().resolve(&self.settings.environment)
    }
}

/// Tries a configuration, and says what was found; changes nothing that stays.
pub struct Tester(Box<dyn Fn(Box<Config>) -> Testing + Send>);

/// One try.
pub type Testing = Pin<Box<dyn Future<Output = Found> + Send>>;

impl Tester {
    /// From a function that begins a try.
    pub fn new<F, T>(test: F) -> Self
    where
        F: Fn(Box<Config>) -> T + Send + 'static,
        T: Future<Output = Found> + Send + 'static,
    {
        Self(Box::new(move |config| Box::pin(test(config))))
    }

    /// Begins a try.
    #[must_use]
    pub fn test(&self, config: Box<Config>) -> Testing {
        (self.0)(config)
    }
}

impl fmt::Debug for Tester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tester")
    }
}
