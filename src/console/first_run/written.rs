//! The files that would be written, and how they look before: with every password hidden.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use url::Url;

use super::answers::{Answers, Question};
use crate::config::quoted as string;

/// What stands for a password where a URL is shown.
const HIDDEN: &str = "***";
const HEAD: &str = "# `redrive config init` prints every key with its default.\n";
/// Queue names are made with it; changed later, they would be others.
const HASH_KEY: &str = "url_hash_key";
const NO_HASH_KEY: &str = "# url_hash_key = \"…\"   # long, random; the same in every daemon\n";

/// Where passwords go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Each URL with a password in a file of its own beside the configuration.
    OwnFile,
    /// In a variable of the environment, which the operator sets.
    Variable,
    /// In the configuration itself.
    InPlace,
}

impl Keep {
    const ALL: [Self; 3] = [Self::OwnFile, Self::Variable, Self::InPlace];

    /// As written on the screen.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::OwnFile => "in a file of its own",
            Self::Variable => "in the environment, not written",
            Self::InPlace => "in the configuration",
        }
    }

    /// The next one, or the one before.
    #[must_use]
    pub fn turn(self, forward: bool) -> Self {
        let place = Self::ALL.iter().position(|one| *one == self).unwrap_or_default();
        let by = if forward { 1 } else { Self::ALL.len() - 1 };
        Self::ALL[(place + by) % Self::ALL.len()]
    }
}

/// A file to write: a new one, for its owner alone.
#[derive(Clone)]
pub struct NewFile {
    /// Where.
    pub path: PathBuf,
    /// What; may be a secret.
    pub text: SecretString,
    /// What a person is told that it is.
    pub says: &'static str,
}

impl fmt::Debug for NewFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Whether an answer has a password in it.
#[must_use]
pub fn has_secret(answer: &str) -> bool {
    Url::parse(answer).is_ok_and(|url| {
        url.password().is_some()
            || url
                .query()
                .is_some_and(|query| query.contains("password") || query.contains("sslkey"))
    })
}

/// The configuration with everything in it: what is resolved, and never shown.
#[must_use]
pub fn text(answers: &Answers) -> SecretString {
    let key = answers.hash_key().map(string);
    render(answers, key.as_deref(), |_, answer| string(answer)).into()
}

/// What would be written, in this order: secrets first, so that a configuration never points to nothing.
#[must_use]
pub fn files(answers: &Answers, keep: Keep, path: &Path) -> Vec<NewFile> {
    let mut files = secret_files(answers, keep, path);
    let key = hash_key_at(answers, path);
    let config = render(answers, key.as_deref(), |question, answer| {
        value(question, answer, keep, path, false)
    });
    files.push(NewFile {
        path: path.to_owned(),
        text: config.into(),
        says: "the configuration",
    });
    files
}

/// How the configuration names the key's own file.
fn hash_key_at(answers: &Answers, config: &Path) -> Option<String> {
    answers.hash_key()?;
    let file = config.with_file_name(HASH_KEY);
    Some(format!("{{ file = {} }}", string(&file.to_string_lossy())))
}

/// The files of their own that secrets would get: passwords, where that is wanted, and a new key always.
#[must_use]
pub fn secret_files(answers: &Answers, keep: Keep, path: &Path) -> Vec<NewFile> {
    let questions = Question::ALL.into_iter().filter(|_| keep == Keep::OwnFile);
    let secret = questions.filter(|question| has_secret(answers.get(*question)));
    let file = |question: Question| NewFile {
        path: own_file(question, path),
        text: format!("{}\n", answers.get(question)).into(),
        says: "the URL with its password",
    };
    let key = answers.hash_key().map(|key| NewFile {
        path: path.with_file_name(HASH_KEY),
        text: format!("{key}\n").into(),
        says: "a new key that hides URLs in queue names; every daemon of this broker needs the same",
    });
    secret.map(file).chain(key).collect()
}

/// The configuration as it would be written, with every password hidden.
#[must_use]
pub fn shown(answers: &Answers, keep: Keep, path: &Path) -> String {
    let key = hash_key_at(answers, path);
    render(answers, key.as_deref(), |question, answer| {
        value(question, answer, keep, path, true)
    })
}

fn render(answers: &Answers, hash_key: Option<&str>, value: impl Fn(Question, &str) -> String) -> String {
    let mut text = HEAD.to_owned();
    let mut section_before = "";
    for question in Question::ALL {
        let answer = answers.get(question);
        if answer.is_empty() {
            continue;
        }
        let (section, key) = question.key();
        if section != section_before {
            let _ = writeln!(text, "\n[{section}]");
        }
        section_before = section;
        let _ = writeln!(text, "{key} = {}", value(question, answer));
        if question == Question::Broker && answer != "embedded:" {
            match hash_key {
                Some(key) => {
                    let _ = writeln!(text, "{HASH_KEY} = {key}");
                }
                None => text += NO_HASH_KEY,
            }
        }
    }
    text
}

fn value(question: Question, answer: &str, keep: Keep, path: &Path, hides: bool) -> String {
    if !has_secret(answer) {
        return string(answer);
    }
    match keep {
        Keep::OwnFile => {
            let file = own_file(question, path);
            format!("{{ file = {} }}", string(&file.to_string_lossy()))
        }
        Keep::Variable => format!("{{ env = {} }}", string(variable(question))),
        Keep::InPlace if hides => string(&without_secret(answer)),
        Keep::InPlace => string(answer),
    }
}

/// The variables that would go before the file anyhow.
pub(super) const fn variable(question: Question) -> &'static str {
    match question {
        Question::Broker => "REDRIVE_BROKER_URL",
        Question::Management => "REDRIVE_MANAGEMENT_URL",
        Question::Store => "REDRIVE_STORE_URL",
    }
}

fn own_file(question: Question, config: &Path) -> PathBuf {
    config.with_file_name(format!("{}.url", question.title()))
}

fn without_secret(answer: &str) -> String {
    let Ok(mut url) = Url::parse(answer) else {
        return HIDDEN.to_owned();
    };
    if url.password().is_some() && url.set_password(Some(HIDDEN)).is_err() {
        return HIDDEN.to_owned();
    }
    if has_secret(&url.as_str().replace(&format!(":{HIDDEN}@"), "@")) {
        url.set_query(Some(HIDDEN));
    }
    url.into()
}
