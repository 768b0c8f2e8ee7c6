//! The pages of the repository are true: links lead somewhere, what they name exists, each rule has its tests, and the
//! tables of the contract are what the program says.
//!
//! `REDRIVE_DOCUMENTS=write cargo test --test suite documents` writes those tables anew.

mod blocks;
mod contract;
mod receivers;
mod reliability;
mod sessions;
mod tables;

use std::collections::BTreeSet;

use regex::Regex;

use crate::source::{SourceFile, repository_files};
use crate::tidy::{has_tests, is_page, is_tested};

const PROTOCOLS: &str = "docs/protocols.md";

fn page<'a>(files: &'a [SourceFile], path: &str) -> &'a SourceFile {
    let found = files.iter().find(|file| file.path == path);
    found.unwrap_or_else(|| panic!("{path} is missing"))
}

/// Without blocks of code: what stands there is no link.
fn prose(text: &str) -> String {
    let fences = text.split("\n```");
    fences.step_by(2).collect::<Vec<_>>().join("\n")
}

/// The anchor that a heading has on the usual forges.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn headings(text: &str) -> Vec<String> {
    let text = prose(text);
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| line.trim_start_matches('#').trim().to_owned())
        .collect()
}

/// The path that a link on the page `from` means.
fn joined(from: &str, to: &str) -> String {
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    for step in to.split('/') {
        match step {
            "." | "" => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    steps.join("/")
}

/// Links of a page that lead nowhere.
fn broken_links(page: &SourceFile, files: &[SourceFile]) -> Vec<String> {
    let links = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let text = prose(&page.text);
    let targets = links.captures_iter(&text).map(|found| found[1].to_owned());
    let leads = |target: &String| {
        if target.contains("://") || target.starts_with("mailto:") {
            return true;
        }
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() {
            page.path.clone()
        } else {
            joined(&page.path, path)
        };
        let folder = format!("{path}/");
        let file = files.iter().find(|file| file.path == path);
        let exists = file.is_some() || files.iter().any(|file| file.path.starts_with(&folder));
        let is_named = |file: &SourceFile| headings(&file.text).iter().any(|heading| anchor(heading) == fragment);
        exists && (fragment.is_empty() || file.is_some_and(is_named))
    };
    targets.filter(|target| !leads(target)).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let files = repository_files();
    let pages = files.iter().filter(|file| is_page(&file.path));
    let broken = pages.flat_map(|page| {
        let links = broken_links(page, &files);
        links.into_iter().map(|link| format!("{}: {link}", page.path))
    });
    assert_eq!(broken.collect::<Vec<_>>(), Vec::<String>::new());
}

/// A file and a name in it, with `::` between them.
fn named_items(text: &str) -> Vec<(String, String)> {
    let names = Regex::new(r"`((?:src|tests)/[\w/]+\.rs)::(\w+)`").unwrap();
    let found = names.captures_iter(text);
    found.map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

fn is_item(name: &str, file: &SourceFile) -> bool {
    let item = format!(r"\b(fn|struct|enum|trait|const|static|type|macro_rules!) {name}\b");
    Regex::new(&item).unwrap().is_match(&file.text)
}

#[test]
fn every_function_that_a_page_names_is_there() {
    let files = repository_files();
    let mut named = 0;
    for page in files.iter().filter(|file| is_page(&file.path)) {
        for (path, name) in named_items(&page.text) {
            let file = files.iter().find(|file| file.path == path);
            let is_there = file.is_some_and(|file| is_item(&name, file));
            assert!(is_there, "{} names {path}::{name}, which is not there", page.path);
            named += 1;
        }
    }
    assert!(named > 50, "{named}");
}

/// Each rule with its text, in the order of the page.
fn rules(text: &str) -> Vec<(u32, String)> {
    let parts = text.split("\n### Rule ").skip(1);
    let rule = |part: &str| {
        let (number, rest) = part.split_once('\n').unwrap();
        let rest = rest.split("\n## ").next().unwrap();
        (number.trim().parse().unwrap(), rest.to_owned())
    };
    parts.map(rule).collect()
}

fn tests_named(text: &str) -> Vec<&str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans
        .filter(|span| span.contains("::") && !span.contains(['/', ' ']))
        .collect()
}

#[test]
fn every_rule_of_the_protocols_names_its_gap_and_tests_that_exist() {
    let files = repository_files();
    let rules = rules(&page(&files, PROTOCOLS).text);
    let numbers: Vec<u32> = rules.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=41).collect::<Vec<_>>());
    for (number, text) in &rules {
        let (before, proof) = text.split_once("- **Proof:**").unwrap_or_default();
        let gap = before.split_once("- **Gap:**").unwrap_or_default().1;
        assert!(!gap.trim().is_empty(), "rule {number} does not say which gap it closes");
        let tests = tests_named(proof);
        assert!(!tests.is_empty(), "rule {number} has no proof");
        for test in tests {
            assert!(is_tested(test, &files), "rule {number} names {test}, which is no test");
        }
    }
}

/// The tests of the protocols are there for a rule, each file for one at least.
#[test]
fn every_file_of_protocol_tests_proves_a_rule() {
    let files = repository_files();
    let page = &page(&files, PROTOCOLS).text;
    let inside = files.iter().filter_map(|file| {
        let stem = file.path.strip_prefix("tests/suite/protocols/")?.strip_suffix(".rs")?;
        has_tests(&file.text).then_some(stem)
    });
    for stem in inside {
        let named = format!("`protocols::{stem}::");
        assert!(page.contains(&named), "no rule names a test of protocols::{stem}");
    }
}

/// What a comment cites: `docs/protocols.md 3, 4 and 29`, or `docs/contract.md, *Documents*`.
fn wrong_citations(file: &SourceFile, rules: &BTreeSet<u32>, files: &[SourceFile]) -> Vec<String> {
    let numbers = Regex::new(r"docs/protocols\.md((?:(?:,| and| to)? \d+)+)").unwrap();
    let titles = Regex::new(r"(docs/[\w/-]+\.md), \*([^*]+)\*").unwrap();
    // A comment goes on in its next line.
    let text = Regex::new(r"\n\s*//[/!]?\s*").unwrap().replace_all(&file.text, " ");
    let mut wrong = Vec::new();
    for found in numbers.captures_iter(&text) {
        let cited = found[1].split(|c: char| !c.is_ascii_digit());
        let missing =
            cited.filter(|number| !number.is_empty() && number.parse().is_ok_and(|number| !rules.contains(&number)));
        wrong.extend(missing.map(|number| format!("{}: rule {number}", file.path)));
    }
    for found in titles.captures_iter(&text) {
        let page = files.iter().find(|file| file.path == found[1]);
        let is_there = page.is_some_and(|page| headings(&page.text).iter().any(|heading| *heading == found[2]));
        if !is_there {
            wrong.push(format!("{}: {}, *{}*", file.path, &found[1], &found[2]));
        }
    }
    wrong
}

#[test]
fn every_rule_and_heading_that_a_comment_cites_is_there() {
    let files = repository_files();
    let rules = rules(&page(&files, PROTOCOLS).text);
    let rules: BTreeSet<u32> = rules.into_iter().map(|(number, _)| number).collect();
    let wrong = files.iter().filter(|file| file.path != "tests/suite/documents/mod.rs");
    let wrong: Vec<String> = wrong.flat_map(|file| wrong_citations(file, &rules, &files)).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_a_page_says_wrongly_is_found() {
    let text = "[a](b.md) [c](b.md#two-words) [d](#here)\n\n## Here\n\n```\n[e](gone.md)\n```\n[f](../README.md) [g](https://x.example/)";
    let pages = [
        SourceFile::new("docs/a.md", text),
        SourceFile::new("docs/b.md", "# B\n\n## Two words, `x`\n"),
        SourceFile::new("src/a.rs", "fn one() {}\nstruct Two;\n"),
    ];
    assert_eq!(broken_links(&pages[0], &pages), ["b.md#two-words", "../README.md"]);
    assert_eq!(anchor("Two words, `x`"), "two-words-x");
    assert!(is_item("one", &pages[2]) && is_item("Two", &pages[2]) && !is_item("on", &pages[2]));
    let cites = SourceFile::new(
        "src/b.rs",
        "// docs/protocols.md 3, 99\n// and 4; docs/b.md, *Gone\n// for good*",
    );
    assert_eq!(
        wrong_citations(&cites, &BTreeSet::from([3, 4]), &pages),
        ["src/b.rs: rule 99", "src/b.rs: docs/b.md, *Gone for good*"]
    );
}
