//! A table as written: refuses keys that it does not have, and knows where it stands.

use crate::domain::nearest::nearest;

use super::environment::Environment;
use super::error::Problem;
use super::keys::Keys;
use super::secret::{self, Secret};
use super::tree::{Node, Place, Written};

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

    /// The table of a key, with the keys of `K`.
    pub(super) fn section<K: Keys>(&self, key: &'static str) -> Result<Self, Problem> {
        Section::new(self.get(key), key, K::KEYS, self.environment)
    }

    /// The tables of a list of tables, with the keys of `K`.
    pub(super) fn sections<K: Keys>(&self, key: &str) -> Result<Vec<Self>, Problem> {
        let Some(list) = self.get(key) else {
            return Ok(Vec::new());
        };
        let items = list.items("a list of tables")?.iter();
        items
            .map(|item| Section::new(Some(item), "", K::KEYS, self.environment))
            .collect()
    }

    /// A table that stands somewhere in this one.
    pub(super) fn inside<'b, K: Keys>(&self, node: &'b Node) -> Result<Section<'b>, Problem>
    where
        'a: 'b,
    {
        Section::new(Some(node), "", K::KEYS, self.environment)
    }

    /// What was written for a key.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        self.node.and_then(|node| node.get(key))
    }

    /// All that was written.
    pub(super) fn entries(&self) -> &'a [(String, Node)] {
        self.node.map_or(&[], Node::entries)
    }

    /// Where a key stands, or would.
    pub(super) fn place(&self, key: &str) -> Place {
        match self.get(key) {
            Some(node) => node.place(),
            None => Place {
                field: if self.path.is_empty() {
                    key.to_owned()
                } else {
                    format!("{}.{key}", self.path)
                },
                line: self.line,
            },
        }
    }

    /// Something is wrong with the value of this key, or with its absence.
    pub(super) fn problem(&self, key: &str, problem: impl Into<String>) -> Problem {
        self.place(key).problem(problem)
    }

    /// The secret that a value is or points to.
    pub(super) fn secret_of(&self, node: &Node) -> Result<Secret, Problem> {
        secret::read(node, self.environment)
    }

    /// The secret that one entry of this table points to, though the table has other keys as well.
    pub(super) fn secret_in(&self, entry: &(String, Node)) -> Result<Secret, Problem> {
        self.secret_of(&Node {
            path: self.path.to_owned(),
            line: self.line,
            written: Written::Table(vec![entry.clone()]),
        })
    }

    /// The surroundings.
    pub(super) const fn environment(&self) -> &'a Environment {
        self.environment
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
