//! What a filter line could go on with: names of fields, operators, values, `and` and `or`.

use crate::domain::filter::{Field, FieldKind};

/// Candidates that are offered, at most.
const WORDS_MAX: usize = 12;

/// What could stand at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Where the word at the cursor begins, in characters.
    pub from: usize,
    /// What it could be, in the order of the fields or of the alphabet.
    pub words: Vec<String>,
}

/// What a place in an expression asks for.
enum Asks {
    Field,
    Operator(Field),
    Value(Field),
    Joint,
}

/// What could stand where the cursor is. `values` are known values of a field of text.
#[must_use]
pub fn complete(text: &str, cursor: usize, fields: &[Field], values: &dyn Fn(&str) -> Vec<String>) -> Completion {
    let before: String = text.chars().take(cursor).collect();
    let (done, word) = last_word(&before);
    let from = cursor - word.chars().count();
    let candidates: Vec<String> = match asks(done, fields) {
        Asks::Field => fields.iter().map(|field| field.name.to_owned()).collect(),
        Asks::Operator(field) => operators(field.kind).iter().map(|one| (*one).to_owned()).collect(),
        Asks::Value(field) => known_values(field, values),
        Asks::Joint => vec!["and".to_owned(), "or".to_owned()],
    };
    let typed = word.trim_start_matches('"').to_lowercase();
    let begins = |candidate: &String| {
        let plain = candidate.trim_start_matches('"').to_lowercase();
        plain.starts_with(&typed) && plain != typed
    };
    Completion {
        from,
        words: candidates.into_iter().filter(begins).take(WORDS_MAX).collect(),
    }
}

/// What stands before the word at the end, and that word.
fn last_word(text: &str) -> (&str, &str) {
    let inside = text.bytes().filter(|byte| *byte == b'"').count() % 2 == 1;
    if inside {
        let at = text.rfind('"').unwrap_or(0);
        return text.split_at(at);
    }
    let at = text
        .char_indices()
        .rev()
        .find(|(_, c)| c.is_whitespace() || "()=<>!~".contains(*c))
        .map_or(0, |(at, c)| at + c.len_utf8());
    text.split_at(at)
}

fn asks(done: &str, fields: &[Field]) -> Asks {
    let done = done.trim_end();
    let known = |name: &str| {
        fields
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
            .copied()
    };
    let name_before = |text: &str| {
        let (_, word) = last_word(text.trim_end());
        known(word)
    };
    if let Some(before) = done.strip_suffix(['=', '<', '>', '~', '!']) {
        let before = before.trim_end_matches(['=', '<', '>', '!']);
        return name_before(before).map_or(Asks::Joint, Asks::Value);
    }
    let (before, last) = last_word(done);
    let is_value = before.trim_end().ends_with(['=', '<', '>', '~']);
    match last.to_lowercase().as_str() {
        "" | "and" | "or" | "not" => Asks::Field,
        _ if is_value => Asks::Joint,
        name => known(name).map_or(Asks::Joint, Asks::Operator),
    }
}

const fn operators(kind: FieldKind) -> &'static [&'static str] {
    match kind {
        FieldKind::Text | FieldKind::Word(_) => &["=", "!=", "~"],
        FieldKind::Number | FieldKind::Duration | FieldKind::Time => &[">", "<", ">=", "<=", "="],
        FieldKind::Bool => &["= true", "= false"],
    }
}

fn known_values(field: Field, values: &dyn Fn(&str) -> Vec<String>) -> Vec<String> {
    match field.kind {
        FieldKind::Text => values(field.name).into_iter().map(|value| as_word(&value)).collect(),
        FieldKind::Word(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        FieldKind::Bool => vec!["true".to_owned(), "false".to_owned()],
        FieldKind::Number | FieldKind::Duration | FieldKind::Time => Vec::new(),
    }
}

/// As an expression writes it: in quotes where a bare word would not do.
fn as_word(value: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        Field::new("state", FieldKind::Text),
        Field::new("depth", FieldKind::Number),
        Field::new("paused", FieldKind::Bool),
    ];

    #[track_caller]
    fn check(text: &str, from: usize, expected: &[&str]) {
        let values = |name: &str| match name {
            "state" => vec!["parked".to_owned(), "paused by me".to_owned()],
            other => panic!("{other}"),
        };
        let found = complete(text, text.chars().count(), FIELDS, &values);
        assert_eq!(found.words, expected, "{text:?}");
        assert!(expected.is_empty() || found.from == from, "{text:?}: {found:?}");
    }

    #[test]
    fn fields_operators_values_and_joints_are_offered_where_they_belong() {
        check("", 0, &["state", "depth", "paused"]);
        check("de", 0, &["depth"]);
        check("depth > 5 and sta", 14, &["state"]);
        check("(not pa", 5, &["paused"]);
        check("state ", 6, &["=", "!=", "~"]);
        check("state = ", 8, &["parked", "\"paused by me\""]);
        check("state=pa", 6, &["parked", "\"paused by me\""]);
        check("paused = t", 9, &["true"]);
        check("depth > 5 ", 10, &["and", "or"]);
        check("depth > ", 8, &[]);
        check("depth", 0, &[]);
        check("state = \"paused b", 8, &["\"paused by me\""]);
        check("é = ", 4, &["and", "or"]);
    }
}
