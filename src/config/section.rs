//! Reads one table: refuses keys that it does not know, and says of every value what is possible.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::nearest::nearest;

use super::environment::Environment;
use super::error::Problem;
use super::secret::{self, Secret};
use super::tree::{Node, Written};

/// A table with the keys that it may have.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    path: &'a str,
    line: Option<usize>,
    node: Option<&'a Node>,
    environment: &'a Environment,
}

impl<'a> Section<'a> {
    /// The section of `node`, whose keys are all among `keys`.
    pub(super) fn new(
        node: Option<&'a Node>,
        path: &'a str,
        keys: &[&str],
        environment: &'a Environment,
    ) -> Result<Self, Problem> {
        if let Some(node) = node {
            if !matches!(node.written, Written::Table(_)) {
                return Err(node.problem(format!("is {}, and must be a table", node.written.kind())));
            }
            for (key, entry) in node.entries() {
                if !keys.contains(&key.as_str()) {
                    return Err(unknown(key, entry, keys));
                }
            }
        }
        Ok(Self {
            path: node.map_or(path, |node| if node.path.is_empty() { path } else { &node.path }),
            line: node.and_then(|node| node.line),
            node,
            environment,
        })
    }

    /// A section inside this one.
    pub(super) fn section(&self, key: &'static str, keys: &[&str]) -> Result<Self, Problem> {
        Section::new(self.get(key), key, keys, self.environment)
    }

    /// The tables of a list of tables.
    pub(super) fn sections(&self, key: &str, keys: &[&str]) -> Result<Vec<Self>, Problem> {
        self.items(key, "a list of tables")?
            .iter()
            .map(|item| Section::new(Some(item), "", keys, self.environment))
            .collect()
    }

    /// What was written for a key.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        self.node.and_then(|node| node.get(key))
    }

    /// Something is wrong with the value of this key, or with its absence.
    pub(super) fn problem(&self, key: &str, problem: impl Into<String>) -> Problem {
        match self.get(key) {
            Some(node) => node.problem(problem),
            None => Problem::Value {
                field: if self.path.is_empty() {
                    key.to_owned()
                } else {
                    format!("{}.{key}", self.path)
                },
                line: self.line,
                problem: problem.into(),
            },
        }
    }

    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Problem> {
        self.get(key).map(text_of).transpose()
    }

    /// A path of a file.
    pub(super) fn path(&self, key: &str) -> Result<Option<PathBuf>, Problem> {
        match self.text(key)? {
            Some("") => Err(self.problem(key, "is empty, and must be the path of a file")),
            written => Ok(written.map(PathBuf::from)),
        }
    }

    /// A string that has to be there, and not empty.
    pub(super) fn required_text(&self, key: &str, example: &str) -> Result<&'a str, Problem> {
        match self.text(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.problem(key, format!("is empty; write it as {example}"))),
            None => Err(self.problem(key, format!("is missing; write it as {example}"))),
        }
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, Problem> {
        match self.get(key).map(|node| (node, &node.written)) {
            None => Ok(default),
            Some((_, Written::Bool(flag))) => Ok(*flag),
            Some((node, other)) => Err(node.problem(format!("is {}, and must be true or false", other.kind()))),
        }
    }

    /// A whole number in its bounds.
    pub(super) fn integer<N>(&self, key: &str, bounds: RangeInclusive<N>, default: N) -> Result<N, Problem>
    where
        N: TryFrom<i128> + PartialOrd + std::fmt::Display,
    {
        let Some(node) = self.get(key) else {
            return Ok(default);
        };
        let Written::Integer(written) = &node.written else {
            return Err(node.problem(format!("is {}, and must be an integer", node.written.kind())));
        };
        match N::try_from(*written) {
            Ok(number) if bounds.contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(node.problem(format!(
                "is {written}, and must be between {} and {}",
                bounds.start(),
                bounds.end()
            ))),
        }
    }

    /// A number in its bounds, if there is one.
    pub(super) fn integer_or_none<N>(&self, key: &str, bounds: RangeInclusive<N>) -> Result<Option<N>, Problem>
    where
        N: TryFrom<i128> + PartialOrd + std::fmt::Display + Copy,
    {
        let least = *bounds.start();
        self.get(key).map(|_| self.integer(key, bounds, least)).transpose()
    }

    /// A number of seconds in its bounds, fractions allowed.
    pub(super) fn seconds(
        &self,
        key: &str,
        bounds: RangeInclusive<f64>,
        default: Duration,
    ) -> Result<Duration, Problem> {
        let Some(node) = self.get(key) else {
            return Ok(default);
        };
        #[expect(clippy::cast_precision_loss, reason = "what loses precision is far out of bounds")]
        let seconds = match &node.written {
            Written::Integer(seconds) => *seconds as f64,
            Written::Number(seconds) => *seconds,
            other @ (Written::Text(_) | Written::Bool(_) | Written::Date(_) | Written::List(_) | Written::Table(_)) => {
                return Err(node.problem(format!("is {}, and must be a number of seconds", other.kind())));
            }
        };
        if bounds.contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        let (from, to) = (bounds.start(), bounds.end());
        Err(node.problem(format!("is {seconds} seconds, and must be between {from} and {to}")))
    }

    /// A list of strings, each with its node.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<(&'a Node, &'a str)>, Problem> {
        self.items(key, "a list of strings")?
            .iter()
            .map(|item| Ok((item, text_of(item)?)))
            .collect()
    }

    /// The items of a list.
    pub(super) fn items(&self, key: &str, expected: &str) -> Result<&'a [Node], Problem> {
        match self.get(key).map(|node| (node, &node.written)) {
            None => Ok(&[]),
            Some((_, Written::List(items))) => Ok(items),
            Some((node, other)) => Err(node.problem(format!("is {}, and must be {expected}", other.kind()))),
        }
    }

    /// A secret, wherever it is kept.
    pub(super) fn secret(&self, key: &str) -> Result<Option<Secret>, Problem> {
        self.get(key).map(|node| self.secret_of(node)).transpose()
    }

    /// The secret that a value is or points to.
    pub(super) fn secret_of(&self, node: &Node) -> Result<Secret, Problem> {
        secret::read(node, self.environment)
    }

    /// The surroundings.
    pub(super) const fn environment(&self) -> &'a Environment {
        self.environment
    }
}

fn text_of(node: &Node) -> Result<&str, Problem> {
    match &node.written {
        Written::Text(text) => Ok(text),
        other @ (Written::Integer(_)
        | Written::Number(_)
        | Written::Bool(_)
        | Written::Date(_)
        | Written::List(_)
        | Written::Table(_)) => Err(node.problem(format!("is {}, and must be a string", other.kind()))),
    }
}

fn unknown(key: &str, entry: &Node, keys: &[&str]) -> Problem {
    let parent = entry.path.strip_suffix(key).unwrap_or_default();
    Problem::UnknownKey {
        field: entry.path.clone(),
        line: entry.line,
        nearest: nearest(key, keys.iter().copied()).map(|key| format!("{parent}{key}")),
        known: keys.join(", "),
    }
}
