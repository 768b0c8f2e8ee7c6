//! Reading our own sources: which files there are and which paths each of them names.
//!
//! A small tokenizer, no parser of Rust: it knows comments, literals, `use` trees, inline
//! modules and what `#[cfg(test)]` guards. Macros are read like any other text.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// One file below the root of the repository; `path` with forward slashes.
#[derive(Clone)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file of the repository, without `target` and the version control's folder.
pub fn repository_files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    walk(&root(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        files.iter().any(|file| file.path == "src/lib.rs"),
        "the walk found no src/lib.rs"
    );
    files
}

fn walk(directory: &Path, prefix: &str, files: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            if path != "target" && path != ".git" {
                walk(&entry.path(), &format!("{path}/"), files);
            }
        } else if path != ".git"
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(SourceFile { path, text });
        }
    }
}

/// Whether a file is the program's: tests in files of their own are not.
pub fn is_program(path: &str) -> bool {
    let rust = path.strip_prefix("src/").and_then(|inner| inner.strip_suffix(".rs"));
    rust.is_some_and(|inner| !inner.split('/').any(|segment| segment == "tests"))
}

/// The paths that a file names, as segments: `use a::{b, c::D}` gives `a::b` and `a::c::D`.
/// `crate`, `self` and `super` are resolved: such a path begins with `crate`.
pub struct NamedPaths {
    /// Outside of `#[cfg(test)]`.
    pub program: Vec<Vec<String>>,
    /// Inside of it.
    pub tests: Vec<Vec<String>>,
}

/// Reads the paths of a file that stands for `module` (`["store", "sqlite"]`).
pub fn named_paths(text: &str, module: &[&str]) -> NamedPaths {
    let mut reader = Reader {
        tokens: tokens(text).into(),
        module: module.iter().map(ToString::to_string).collect(),
        open_modules: Vec::new(),
        depth: 0,
        test_until: None,
        found: NamedPaths {
            program: Vec::new(),
            tests: Vec::new(),
        },
    };
    reader.read();
    reader.found
}

/// The module that a file below `src` stands for; the root has no segments.
pub fn module_of(path: &str) -> Vec<&str> {
    let inner = path.strip_prefix("src/").unwrap_or(path);
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    let mut segments: Vec<&str> = inner.split('/').collect();
    if matches!(segments.last(), Some(&("mod" | "lib" | "main"))) {
        segments.pop();
    }
    segments
}

struct Reader {
    tokens: VecDeque<String>,
    module: Vec<String>,
    /// The brace depth at which each open inline module began.
    open_modules: Vec<usize>,
    depth: usize,
    /// The depth at which the item guarded by `#[cfg(test)]` ends.
    test_until: Option<usize>,
    found: NamedPaths,
}

impl Reader {
    fn read(&mut self) {
        let mut before = String::new();
        while let Some(token) = self.tokens.pop_front() {
            match token.as_str() {
                "#" if self.next_are(&["[", "cfg", "(", "test", ")", "]"]) => {
                    self.tokens.drain(..6);
                    self.test_until.get_or_insert(self.depth);
                }
                "mod" if self.tokens.get(1).is_some_and(|next| next == "{") => {
                    let name = self.tokens.pop_front().unwrap_or_default();
                    self.module.push(name);
                    self.open_modules.push(self.depth);
                }
                "{" => self.depth += 1,
                "}" => self.close_brace(),
                ";" if self.test_until == Some(self.depth) => self.test_until = None,
                name if is_name(name) && before != "::" && self.next_are(&["::"]) => {
                    self.read_tree(vec![name.to_owned()]);
                }
                _ => {}
            }
            before = token;
        }
    }

    fn close_brace(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.open_modules.last() == Some(&self.depth) {
            self.open_modules.pop();
            self.module.pop();
        }
        if self.test_until == Some(self.depth) {
            self.test_until = None;
        }
    }

    fn next_are(&self, expected: &[&str]) -> bool {
        expected
            .iter()
            .enumerate()
            .all(|(at, token)| self.tokens.get(at).is_some_and(|found| found == token))
    }

    /// Behind the first segment: `:: name`, `:: *`, `:: { tree, tree }` or the end of the path.
    fn read_tree(&mut self, mut path: Vec<String>) {
        while self.next_are(&["::"]) {
            match self.tokens.get(1).map(String::as_str) {
                Some("{") => {
                    self.tokens.drain(..2);
                    self.read_group(&path);
                    return;
                }
                Some(next) if is_name(next) || next == "*" => {
                    path.push(next.to_owned());
                    self.tokens.drain(..2);
                }
                _ => break,
            }
        }
        self.record(&path);
    }

    fn read_group(&mut self, prefix: &[String]) {
        while let Some(token) = self.tokens.pop_front() {
            match token.as_str() {
                "}" => return,
                "as" => {
                    self.tokens.pop_front();
                }
                name if is_name(name) || name == "*" => {
                    let mut path = prefix.to_vec();
                    path.push(name.to_owned());
                    self.read_tree(path);
                }
                _ => {}
            }
        }
    }

    fn record(&mut self, path: &[String]) {
        let resolved = self.resolve(path);
        if self.test_until.is_some() {
            self.found.tests.push(resolved);
        } else {
            self.found.program.push(resolved);
        }
    }

    fn resolve(&self, path: &[String]) -> Vec<String> {
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        let from_self = path.first().is_some_and(|segment| segment == "self");
        if supers == 0 && !from_self {
            return path.to_vec();
        }
        let kept = self.module.len().saturating_sub(supers);
        let own = self.module.iter().take(kept).cloned();
        let rest = path.iter().skip(supers + usize::from(from_self)).cloned();
        std::iter::once("crate".to_owned()).chain(own).chain(rest).collect()
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names, numbers and punctuation; comments and the contents of literals are dropped.
pub fn tokens(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment_length(rest),
            ['"', ..] => string_length(rest),
            ['\'', ..] => quote_length(rest),
            ['r' | 'b' | 'c', ..] if raw_string_length(rest).is_some() => raw_string_length(rest).unwrap_or(1),
            [first, ..] if first.is_alphanumeric() || *first == '_' => {
                let length = rest
                    .iter()
                    .position(|c| !c.is_alphanumeric() && *c != '_')
                    .unwrap_or(rest.len());
                found.push(rest[..length].iter().collect());
                length
            }
            [':', ':', ..] => {
                found.push("::".to_owned());
                2
            }
            [first, ..] => {
                if !first.is_whitespace() {
                    found.push(first.to_string());
                }
                1
            }
            [] => break,
        };
        at += length;
    }
    found
}

/// The same without what `#[cfg(test)]` guards.
pub fn program_tokens(text: &str) -> Vec<String> {
    const GUARD: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let all = tokens(text);
    let (mut program, mut rest) = (Vec::new(), all.as_slice());
    while let [first, after @ ..] = rest {
        let is_guarded = rest.len() > GUARD.len() && rest.iter().zip(GUARD).all(|(token, guard)| token == guard);
        if is_guarded {
            let item = &rest[GUARD.len()..];
            rest = &item[item_length(item)..];
        } else {
            program.push(first.clone());
            rest = after;
        }
    }
    program
}

/// To its closing brace, or to its semicolon where it has none.
fn item_length(item: &[String]) -> usize {
    let mut depth = 0_usize;
    let end = item.iter().position(|token| {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(token.as_str(), "}" | ";")
    });
    end.map_or(item.len(), |end| end + 1)
}

fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string_length(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal, or the tick of a lifetime.
fn quote_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', ..] => rest
            .iter()
            .skip(3)
            .position(|c| *c == '\'')
            .map_or(rest.len(), |end| end + 4),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// `r"…"`, `r#"…"#` and the forms with `b` or `c` before; none where it is a name.
fn raw_string_length(rest: &[char]) -> Option<usize> {
    let start = rest.iter().position(|c| *c == 'r').filter(|at| *at <= 1)?;
    let hashes = rest[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return None;
    }
    let mut closing = vec!['"'];
    closing.resize(hashes + 1, '#');
    let body = &rest[open + 1..];
    let end = body.windows(closing.len()).position(|window| window == closing)?;
    Some(open + 1 + end + closing.len())
}

#[test]
fn paths_are_read_from_use_trees_expressions_and_inline_modules() {
    let text = r##"
        // use crate::comment::No;
        use crate::{store::{Store, sqlite as s}, domain::*};
        const TEXT: &str = "crate::string::No"; const RAW: &str = r#"crate::raw::No"#;
        fn f<'a>(c: char) -> &'a str { crate::config::load('"', '\'', "x"); super::sibling() }
        mod inner { use super::super::super::broker::Broker; }
        #[cfg(test)] mod tests { use crate::engine::Engine; }
        use self::child::Thing;
    "##;
    let found = named_paths(text, &["api", "routes"]);
    let program: Vec<String> = found.program.iter().map(|path| path.join("::")).collect();
    assert_eq!(
        program,
        [
            "crate::store::Store",
            "crate::store::sqlite",
            "crate::domain::*",
            "crate::config::load",
            "crate::api::sibling",
            "crate::broker::Broker",
            "crate::api::routes::child::Thing",
        ]
    );
    assert_eq!(found.tests, [["crate", "engine", "Engine"]]);
}
