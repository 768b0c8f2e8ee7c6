//! Why there is no configuration: always with the field and the mend, never with a secret.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is wrong, and in which file.
#[derive(Debug)]
pub struct ConfigError {
    /// The file that was read; none where there is none.
    pub file: Option<PathBuf>,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(
                formatter,
                "configuration {:?}: {}",
                file.to_string_lossy(),
                self.problem
            ),
            None => write!(formatter, "configuration: {}", self.problem),
        }
    }
}

/// The problem is told already; its own cause is what is behind it.
impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot be read; name an existing file with --config or REDRIVE_CONFIG")]
    Read(#[source] io::Error),
    /// The file is not this user's alone.
    #[error("{0}")]
    Exposed(String),
    /// Nobody knows where the configuration and the data would be.
    #[error("no home directory is known; set HOME, or name a file with --config and a store with REDRIVE_STORE_URL")]
    Home,
    /// The file is not TOML.
    #[error("line {line} is not TOML: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A key that does not exist.
    #[error("{field}{} is unknown{}", at(*.line), nearest_or_known(.nearest.as_ref(), .known))]
    UnknownKey {
        /// Its full path.
        field: String,
        /// Counted from 1.
        line: Option<usize>,
        /// The full path of the key that was probably meant.
        nearest: Option<String>,
        /// The keys that are possible there.
        known: String,
    },
    /// A value that is not possible.
    #[error("{field}{} {problem}", at(*.line))]
    Value {
        /// Its full path, or the environment variable that set it.
        field: String,
        /// Counted from 1; none where the value is not from the file.
        line: Option<usize>,
        /// What is wrong and what is possible.
        problem: String,
    },
    /// A secret that is kept elsewhere is not there.
    #[error("{field}{} {problem}", at(*.line))]
    Secret {
        /// Its full path.
        field: String,
        /// Counted from 1.
        line: Option<usize>,
        /// What is wrong and what is possible.
        problem: String,
    },
    /// The profile asked for does not exist.
    #[error("profile {name:?} does not exist; {}", profiles(.known))]
    Profile {
        /// As asked for.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
}

impl Problem {
    /// The field at fault, where it is one.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { field, .. } | Self::Value { field, .. } | Self::Secret { field, .. } => Some(field),
            Self::Read(_) | Self::Exposed(_) | Self::Home | Self::Syntax { .. } | Self::Profile { .. } => None,
        }
    }
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

fn nearest_or_known(nearest: Option<&String>, known: &str) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean {nearest}?"),
        None => format!("; possible are {known}"),
    }
}

fn profiles(known: &[String]) -> String {
    if known.is_empty() {
        return "the configuration has none, add a section [profile.NAME]".to_owned();
    }
    format!("possible are {}", known.join(", "))
}
