//! `docs/contract.md` says what the program does: its tables are made from the program, and every variable of the
//! environment that the program reads stands in it.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;

use super::{page, tables};
use crate::source::{repository_files, root};

const PAGE: &str = "docs/contract.md";
const WRITE_VARIABLE: &str = "REDRIVE_DOCUMENTS";

/// The page with each table between its marks replaced.
fn with_tables(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, table) in tables::all() {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = text
            .split_once(&begin)
            .unwrap_or_else(|| panic!("{PAGE} has no mark {begin}"));
        let (_, after) = rest
            .split_once(&end)
            .unwrap_or_else(|| panic!("{PAGE} has no mark {end}"));
        text = format!("{before}{begin}{table}{end}{after}");
    }
    text
}

#[test]
fn the_tables_of_the_contract_are_what_the_program_says() {
    let path = root().join(PAGE);
    let text = fs::read_to_string(&path).unwrap();
    let made = with_tables(&text);
    if std::env::var(WRITE_VARIABLE).is_ok_and(|value| value == "write") {
        fs::write(&path, &made).unwrap();
        return;
    }
    let differs = text.lines().zip(made.lines()).find(|(is, should)| is != should);
    assert!(
        text == made,
        "{PAGE} is not what the program says: run this test with {WRITE_VARIABLE}=write\n{differs:#?}"
    );
}

/// Rows of the table of variables.
fn variables_of(text: &str) -> BTreeSet<String> {
    let rows = Regex::new(r"(?m)^\| `([A-Z_]+)` \|").unwrap();
    rows.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn the_manual_says_of_variables_what_the_contract_says() {
    let files = repository_files();
    let contract = &page(&files, PAGE).text;
    for (name, says) in redrive::internals::cli::VARIABLES {
        assert!(contract.contains(&format!("| `{name}` | {says} |")), "{name}: {says}");
    }
}

#[test]
fn the_contract_and_the_manual_name_the_key_that_a_variable_overrides() {
    let files = repository_files();
    let contract = &page(&files, PAGE).text;
    for (name, section, key) in redrive::internals::config::variables() {
        let says = format!("instead of `{section}.{key}`");
        assert!(contract.contains(&format!("| `{name}` | {says}")), "{name}");
        let manual = redrive::internals::cli::VARIABLES;
        assert!(
            manual
                .iter()
                .any(|(known, told)| *known == name && told.starts_with(&says)),
            "{name}"
        );
    }
}

#[test]
fn the_contract_has_every_variable_that_the_program_reads_and_no_other() {
    let files = repository_files();
    let names = Regex::new(r#""(REDRIVE_[A-Z_]+|OTEL_[A-Z_]+|NO_COLOR|VISUAL|EDITOR)[="]"#).unwrap();
    let is_program = |path: &str| path.starts_with("src/") && !path.contains("/tests");
    let read: BTreeSet<String> = files
        .iter()
        .filter(|file| is_program(&file.path))
        .flat_map(|file| {
            let program = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let found = names.captures_iter(program).map(|found| found[1].to_owned());
            found.collect::<Vec<_>>()
        })
        .collect();
    // Directories are asked for by a library, the authorities of certificates by another, the stack by the standard one, memory by
    // the C library.
    let by_libraries = [
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "RUST_MIN_STACK",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_ARENA_MAX",
    ];
    let read: BTreeSet<String> = read.into_iter().chain(by_libraries.map(str::to_owned)).collect();
    assert_eq!(variables_of(&page(&files, PAGE).text), read);
}
