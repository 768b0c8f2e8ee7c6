//! How large an object is: fields and methods of its own. However many files it has.
//!
//! Read from the text, which `cargo fmt` has set out: a block begins with a line that is not indented, and its members
//! are indented once. Methods that a type has by a trait are the trait's.

use std::collections::BTreeMap;

use crate::source::{self, SourceFile, is_program};

/// What one type has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Fields of a struct; of several of one name the most.
    pub fields: usize,
    /// Methods of its own.
    pub methods: usize,
}

impl Size {
    const fn object(fields: usize, methods: usize) -> Self {
        Self { fields, methods }
    }

    /// At most 10 fields and 40 methods behind one type. What has no methods is a record, and no object.
    pub const fn is_one_object(&self) -> bool {
        self.methods == 0 || (self.fields <= 10 && self.methods <= 40)
    }
}

/// Every struct of these files, by its name.
pub fn of(files: &[SourceFile]) -> BTreeMap<String, Size> {
    let mut sizes: BTreeMap<String, Size> = BTreeMap::new();
    for file in files {
        let mut lines = file.text.lines();
        while let Some(head) = lines.next() {
            let Some((kind, name)) = block(head) else { continue };
            let members = lines.by_ref().take_while(|line| *line != "}").filter_map(member);
            let size = sizes.entry(name.to_owned()).or_default();
            match kind {
                "struct" => size.fields = size.fields.max(members.filter(|line| is_field(line)).count()),
                _ => size.methods += members.filter(|line| is_method(line)).count(),
            }
        }
    }
    sizes
}

/// What begins with this line, and of which name; `None`: neither a struct nor methods of a type's own.
fn block(head: &str) -> Option<(&'static str, &str)> {
    let head = head.strip_suffix('{')?;
    let item = match head.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => head,
    };
    let kind = ["struct", "impl"]
        .into_iter()
        .find(|kind| item.starts_with(&format!("{kind} ")) || item.starts_with(&format!("{kind}<")))?;
    let rest = item.strip_prefix(kind)?;
    if kind == "impl" && rest.contains(" for ") {
        return None;
    }
    let name = without_parameters(rest).trim_start();
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &name[..end.unwrap_or(name.len())];
    (!name.is_empty()).then_some((kind, name))
}

/// What stands behind `<…>`, where it begins with that.
fn without_parameters(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { text } else { &text[at + 1..] };
        }
    }
    text
}

/// A line that is indented once, and no comment or attribute.
fn member(line: &str) -> Option<&str> {
    line.strip_prefix("    ")
        .filter(|line| !line.starts_with([' ', '/', '#', '}', ')']))
}

fn is_field(line: &str) -> bool {
    line.contains(": ") && line.ends_with(',')
}

fn is_method(line: &str) -> bool {
    line.starts_with("fn ") || line.contains(" fn ")
}

#[test]
fn an_object_of_the_console_has_ten_fields_and_forty_methods_at_most() {
    let mut files = source::repository_files();
    files.retain(|file| is_program(&file.path) && file.path.starts_with("src/console/"));
    let sizes = of(&files);
    for name in ["State", "Table", "Detail", "Dialog", "Executor", "Screen"] {
        assert!(sizes.contains_key(name), "{name} is found");
    }
    let found: Vec<String> = sizes
        .iter()
        .filter(|(_, size)| !size.is_one_object())
        .map(|(name, size)| format!("{name}: {size:?}"))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_an_object_has_is_counted_over_files_and_a_trait_is_none_of_it() {
    let one = "
pub(in crate::console) struct Table<R: Row> {
    /// Rows: all,
    pub rows: Vec<R>,
    at: usize,
}

impl<R: Row<Id = Box<u8>>> Table<R> {
    pub const fn at(&self) -> usize {
        let at: usize = self.at;
        at
    }
}

impl<R: Row> List for Table<R> {
    fn len(&self) -> usize {
        0
    }
}
";
    let two = "
impl<R: Row> Table<R> {
    fn row(
        &self,
        at: usize,
    ) -> &R {
        &self.rows[at]
    }
}

pub trait List: Sync {
    fn len(&self) -> usize;
}

pub struct Unit;
";
    let sizes = of(&[SourceFile::new("src/one.rs", one), SourceFile::new("src/two.rs", two)]);
    assert_eq!(sizes, BTreeMap::from([("Table".to_owned(), Size::object(2, 2))]));
    assert!(Size::object(10, 40).is_one_object() && Size::object(11, 0).is_one_object());
    assert!(!Size::object(11, 1).is_one_object() && !Size::object(1, 41).is_one_object());
}
