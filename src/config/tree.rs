//! The file as written: a tree of values, each with its full path and its line.
//!
//! Paths and lines are taken before a profile is laid over the rest, so that an error about a value
//! that came from a profile points there.

use toml::de::{DeTable, DeValue};

use crate::domain::value::Value;

use super::error::Problem;

/// One value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) line: Option<usize>,
    pub(super) written: Written,
}

/// Where a value stands, or would: its full path, or the variable that set it, and its line.
pub(super) struct Place {
    pub(super) field: String,
    pub(super) line: Option<usize>,
}

impl Place {
    /// Something is wrong with what stands there, or with its absence.
    pub(super) fn problem(&self, problem: impl Into<String>) -> Problem {
        Problem::Value {
            field: self.field.clone(),
            line: self.line,
            problem: problem.into(),
        }
    }
}

/// What was written.
#[derive(Clone, Debug)]
pub(super) enum Written {
    Text(String),
    Integer(i128),
    Number(f64),
    Bool(bool),
    Date(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Written {
    /// With its article, for an error.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a fractional number",
            Self::Bool(_) => "a boolean",
            Self::Date(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// The tree of a TOML document.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let lines = Lines::of(text);
        let document = DeTable::parse(text).map_err(|error| Problem::Syntax {
            line: lines.at(error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        table(&lines, "", document.get_ref()).map(|written| Self {
            path: String::new(),
            line: None,
            written,
        })
    }

    /// Something is wrong with this value.
    pub(super) fn problem(&self, problem: impl Into<String>) -> Problem {
        self.place().problem(problem)
    }

    /// Where it stands.
    pub(super) fn place(&self) -> Place {
        Place {
            field: self.path.clone(),
            line: self.line,
        }
    }

    /// The string that it is.
    pub(super) fn text(&self) -> Result<&str, Problem> {
        let Written::Text(text) = &self.written else {
            return Err(self.problem(format!("is {}, and must be a string", self.written.kind())));
        };
        Ok(text)
    }

    /// The items of the list that it is; `expected` says what is one.
    pub(super) fn items(&self, expected: &str) -> Result<&[Self], Problem> {
        let Written::List(items) = &self.written else {
            return Err(self.problem(format!("is {}, and must be {expected}", self.written.kind())));
        };
        Ok(items)
    }

    /// The value of a key, where this is a table that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entries()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, node)| node)
    }

    /// The keys and values, where this is a table.
    pub(super) fn entries(&self) -> &[(String, Self)] {
        match &self.written {
            Written::Table(entries) => entries,
            Written::Text(_)
            | Written::Integer(_)
            | Written::Number(_)
            | Written::Bool(_)
            | Written::Date(_)
            | Written::List(_) => &[],
        }
    }

    /// Lays a document over this one: in each section, key by key; a key's value is replaced whole, so
    /// that a secret cannot end up in two places.
    pub(super) fn overlay(&mut self, over: &Self) {
        for (name, section) in over.entries() {
            match self.entry(name) {
                Some(below) if is_table(below) && is_table(section) => {
                    for (key, node) in section.entries() {
                        below.set(key, node.clone());
                    }
                }
                Some(below) => *below = section.clone(),
                None => self.set(name, section.clone()),
            }
        }
    }

    /// Sets `section.key` to what an environment variable says; an error names the variable.
    pub(super) fn set_from_variable(&mut self, section: &str, key: &str, variable: &str, written: Written) {
        let node = |path: &str, written| Self {
            path: path.to_owned(),
            line: None,
            written,
        };
        let entry = vec![(key.to_owned(), node(variable, written))];
        let sections = vec![(section.to_owned(), node(section, Written::Table(entry)))];
        self.overlay(&node("", Written::Table(sections)));
    }

    /// Takes keys out of a section.
    pub(super) fn remove(&mut self, section: &str, keys: &[&str]) {
        if let Some(Written::Table(entries)) = self.entry(section).map(|section| &mut section.written) {
            entries.retain(|(name, _)| !keys.contains(&name.as_str()));
        }
    }

    fn entry(&mut self, key: &str) -> Option<&mut Self> {
        let Written::Table(entries) = &mut self.written else {
            return None;
        };
        entries.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    fn set(&mut self, key: &str, node: Self) {
        match self.entry(key) {
            Some(existing) => *existing = node,
            None => {
                if let Written::Table(entries) = &mut self.written {
                    entries.push((key.to_owned(), node));
                }
            }
        }
    }

    /// The plain value, for rules that stand in the domain.
    pub(super) fn to_value(&self) -> Value {
        match &self.written {
            Written::Text(text) | Written::Date(text) => Value::Text(text.clone()),
            Written::Integer(integer) => Value::Integer(*integer),
            Written::Number(number) => Value::Number(*number),
            Written::Bool(flag) => Value::Bool(*flag),
            Written::List(items) => Value::List(items.iter().map(Self::to_value).collect()),
            Written::Table(entries) => Value::Table(
                entries
                    .iter()
                    .map(|(key, node)| (key.clone(), node.to_value()))
                    .collect(),
            ),
        }
    }
}

const fn is_table(node: &Node) -> bool {
    matches!(node.written, Written::Table(_))
}

fn table(lines: &Lines, path: &str, entries: &DeTable<'_>) -> Result<Written, Problem> {
    let nodes = entries.iter().map(|(key, value)| {
        let name = key.get_ref().to_string();
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let line = lines.at(key.span().start);
        Ok((name, node(lines, path, line, value.get_ref())?))
    });
    nodes.collect::<Result<_, Problem>>().map(Written::Table)
}

fn node(lines: &Lines, path: String, line: usize, value: &DeValue<'_>) -> Result<Node, Problem> {
    let unreadable = |what: &str| Problem::Value {
        field: path.clone(),
        line: Some(line),
        problem: format!("is {what}"),
    };
    let written = match value {
        DeValue::String(value) => Written::Text(value.to_string()),
        DeValue::Integer(value) => i128::from_str_radix(value.as_str(), value.radix())
            .map(Written::Integer)
            .map_err(|_| unreadable("an integer out of all bounds"))?,
        DeValue::Float(value) => value
            .as_str()
            .parse()
            .map(Written::Number)
            .map_err(|_| unreadable("a number that cannot be read"))?,
        DeValue::Boolean(value) => Written::Bool(*value),
        DeValue::Datetime(value) => Written::Date(value.to_string()),
        DeValue::Array(items) => {
            let nodes = items.iter().enumerate().map(|(index, item)| {
                let line = lines.at(item.span().start);
                node(lines, format!("{path}[{index}]"), line, item.get_ref())
            });
            Written::List(nodes.collect::<Result<_, Problem>>()?)
        }
        DeValue::Table(entries) => table(lines, &path, entries)?,
    };
    Ok(Node {
        path,
        line: Some(line),
        written,
    })
}

/// Where the lines of a text end, looked for once: a list may have a value at every second byte.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let bytes = text.bytes().enumerate();
        Self(bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The line of the byte at `offset`, from 1.
    fn at(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|end| *end < offset)
    }
}
