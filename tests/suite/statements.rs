//! A statement that both databases are asked in the same words stands once, in `src/store/sql`. What a driver says in
//! its own words is listed here, with the reason.

use std::collections::BTreeMap;

use crate::source::{self, SourceFile};

/// Statements of one name in the same file of both drivers.
const IN_THEIR_OWN_WORDS: &[(&str, &str, &str)] = &[
    (
        "events/finish.rs",
        "OUTBOX",
        "arrays in their order, or a row at a time",
    ),
    (
        "events/finish.rs",
        "STAY",
        "measured: arrays and no lease index, or a document of rows",
    ),
    (
        "events/inside.rs",
        "POP",
        "two transactions do not handle one reference: a lock, where there are two",
    ),
    (
        "events/mod.rs",
        "IDS_RAISE",
        "a sequence, or a row of SQLite's own table",
    ),
    (
        "events/outbox.rs",
        "PAGE",
        "where bodies have enough bytes, the server ends the page, or the reader does",
    ),
    (
        "events/push.rs",
        "PUSH",
        "measured: one upsert for a batch, or one for each event",
    ),
    (
        "events/search.rs",
        "COLUMNS",
        "where bodies have enough bytes, the server ends the page, or the reader does",
    ),
    (
        "events/take.rs",
        "TAKE",
        "measured: one statement that skips what is locked, or two of the one writer",
    ),
    (
        "retention.rs",
        "ENDPOINTS",
        "one statement that locks what it removes, or a reader that looks first",
    ),
];

#[test]
fn a_statement_that_both_databases_understand_stands_once() {
    let files = source::repository_files();
    let (postgres, sqlite) = (statements(&files, "postgres"), statements(&files, "sqlite"));
    assert!(
        postgres.len() > 10 && sqlite.len() > 10,
        "the statements were not found"
    );
    let said_twice: Vec<String> = postgres
        .iter()
        .flat_map(|(place, text)| {
            let same = sqlite.iter().filter(move |(_, other)| *other == text);
            same.map(move |(other, _)| format!("postgres {place:?} and sqlite {other:?}"))
        })
        .collect();
    assert!(
        said_twice.is_empty(),
        "these belong in src/store/sql, once:\n  {}",
        said_twice.join("\n  ")
    );
    let listed: Vec<(&str, &str)> = IN_THEIR_OWN_WORDS
        .iter()
        .map(|(file, name, _)| (*file, *name))
        .collect();
    let found: Vec<(&str, &str)> = postgres
        .keys()
        .filter(|place| sqlite.contains_key(place))
        .map(|(file, name)| (file.as_str(), name.as_str()))
        .collect();
    assert_eq!(
        found, listed,
        "what stands in both drivers, and what is said of it here"
    );
}

#[test]
fn what_only_the_dialect_tells_apart_is_the_same_statement() {
    let postgres = r#"
        const LOCKED: &str = "SELECT id FROM redrive.runs WHERE id = ANY($1::text[]) \
            AND at < redrive.store_now() FOR UPDATE SKIP LOCKED";
    "#;
    let sqlite = r#"
        const READ: &str = concat!("SELECT ", columns!(), "id FROM runs");
        static FOUND: LazyLock<String> = "SELECT id FROM runs WHERE id IN (SELECT value FROM json_each($1)) AND at < $2";
    "#;
    let of = |text: &str, driver: &str| {
        let file = SourceFile::new(&format!("src/store/{driver}/runs.rs"), text);
        statements(&[file], driver)
    };
    let (postgres, sqlite) = (of(postgres, "postgres"), of(sqlite, "sqlite"));
    let place = |name: &str| ("runs.rs".to_owned(), name.to_owned());
    assert_eq!(postgres[&place("LOCKED")], sqlite[&place("FOUND")]);
    assert_ne!(postgres[&place("LOCKED")], sqlite[&place("READ")]);
}

/// The statements that are the value of a constant, by file and name, without what tells the dialects apart.
fn statements(files: &[SourceFile], driver: &str) -> BTreeMap<(String, String), String> {
    let folder = format!("src/store/{driver}/");
    let mut found = BTreeMap::new();
    for file in files {
        let Some(inside) = file
            .path
            .strip_prefix(&folder)
            .filter(|path| std::path::Path::new(path).extension().is_some_and(|end| end == "rs"))
        else {
            continue;
        };
        let words = ["\nconst ", "\nstatic ", " const ", " static "];
        for item in words.iter().flat_map(|word| file.text.split(word)) {
            let name: String = item
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || *c == '_')
                .collect();
            let Some(value) = item.strip_prefix(&name).and_then(|rest| rest.strip_prefix(": ")) else {
                continue;
            };
            let text = literals(value);
            if ["SELECT", "INSERT", "UPDATE", "DELETE"]
                .iter()
                .any(|verb| text.contains(verb))
            {
                found.insert((inside.to_owned(), name), plain(&text));
            }
        }
    }
    found
}

/// What stands in the string literals of a value, and the names of the macros between them.
fn literals(value: &str) -> String {
    let (mut text, mut is_inside, mut characters) = (String::new(), false, value.chars());
    while let Some(c) = characters.next() {
        match c {
            '"' => is_inside = !is_inside,
            '\\' if is_inside => {
                characters.next();
                text.push(' ');
            }
            ';' if !is_inside => break,
            _ => text.push(c),
        }
    }
    text.split_once('=')
        .map_or_else(String::new, |(_, text)| text.to_owned())
}

fn plain(text: &str) -> String {
    let mut text = text.replace("redrive.store_now()", "$").replace("redrive.", "");
    for lock in [" FOR UPDATE", " FOR SHARE", " FOR KEY SHARE", " SKIP LOCKED"] {
        text = text.replace(lock, "");
    }
    let mut parts = text.split("::");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        bare.push_str(rest.strip_prefix("[]").unwrap_or(rest));
    }
    let words: String = bare
        .replace("GREATEST", "max")
        .replace("= ANY($", "IN (SELECT value FROM json_each($")
        .chars()
        .filter(|c| !c.is_ascii_digit() && !c.is_whitespace() && !"(),".contains(*c))
        .collect();
    words.to_ascii_lowercase()
}
