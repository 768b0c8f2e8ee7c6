//! House rules that no lint knows: headers, paths named in the documentation, folders,
//! ignored tests, sleeping tests, paths of one machine, decisions by a text that is for people.

use std::fs;

use crate::source::{self, SourceFile};

/// Beside dot-files and what the compiler makes.
const FOLDERS: &[&str] = &["src", "themes", "tests", "assets", "docs", "target"];

const REQUIRED: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "SECURITY.md",
];

/// The wait helper polls, and the receiver answers late on purpose; nothing else sleeps.
const MAY_SLEEP: &[&str] = &[
    "tests/suite/support/wait.rs",
    "tests/suite/support/receiver/connection.rs",
];

#[test]
fn the_repository_keeps_the_house_rules() {
    let found = violations(&source::repository_files());
    assert!(found.is_empty(), "not tidy:\n  {}", found.join("\n  "));
}

/// `module::test`, or `module::…` for all of a module.
#[test]
fn every_test_that_the_threats_name_exists() {
    let files = source::repository_files();
    let page = files.iter().find(|file| file.path == "SECURITY.md").unwrap();
    let named: Vec<&str> = page
        .text
        .split('`')
        .filter(|text| text.contains("::") && !text.contains(' '))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        assert!(is_tested(name, &files), "SECURITY.md names {name}, which is no test");
    }
}

/// Whether there is a test of that name in the module's file, or any test where it ends with `…`. What a macro makes
/// into tests counts where its module's file has the name, too.
pub fn is_tested(name: &str, files: &[SourceFile]) -> bool {
    let Some((module, test)) = name.rsplit_once("::") else {
        return false;
    };
    let inside: Vec<&SourceFile> = files.iter().filter(|file| is_of(&file.path, module)).collect();
    let function = format!("fn {test}(");
    inside.iter().any(|file| {
        let mut pieces = file.text.split(&function);
        let before = pieces.next().unwrap_or_default();
        match (test, pieces.next()) {
            ("…", _) => has_tests(&file.text),
            (_, None) => false,
            // The attributes stand between the end of what is before and the function.
            (_, Some(_)) => {
                let above = before.rsplit("}\n").next().unwrap_or_default();
                has_tests(above) || before.contains("proptest! {") || is_listed(test, module, files)
            }
        }
    })
}

pub fn has_tests(text: &str) -> bool {
    text.contains("#[test]") || text.contains("#[tokio::test")
}

/// Tests of a contract are functions that a list in the module above makes into tests of each driver.
fn is_listed(test: &str, module: &str, files: &[SourceFile]) -> bool {
    let above = module.split("::").next().unwrap_or_default();
    let list = format!("tests/suite/{above}/mod.rs");
    let list = files.iter().find(|file| file.path == list);
    list.is_some_and(|list| {
        list.text
            .split_whitespace()
            .any(|word| word.trim_end_matches(';') == test)
    })
}

/// Whether this is the file of a module, of the program or of the suite; `…` stands for any module.
fn is_of(path: &str, module: &str) -> bool {
    let Some(inner) = ["src/", "tests/suite/", "tests/"]
        .iter()
        .find_map(|top| path.strip_prefix(top))
        .and_then(|inner| inner.strip_suffix(".rs"))
    else {
        return false;
    };
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    let steps: Vec<&str> = inner.split('/').collect();
    let mut wanted: Vec<&str> = module.split("::").collect();
    let fits = |wanted: &[&str]| {
        let pairs = steps.iter().zip(wanted);
        steps.len() == wanted.len() && pairs.into_iter().all(|(step, want)| step == want || *want == "…")
    };
    // `tests` is a module of the file itself, or a file of its own.
    fits(&wanted) || (wanted.pop() == Some("tests") && fits(&wanted))
}

#[test]
fn top_level_folders_are_the_agreed_ones() {
    for entry in fs::read_dir(source::root()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let folder = entry.file_type().unwrap().is_dir();
        assert!(
            !folder || is_agreed_folder(&name),
            "the folder {name} has no place at the top"
        );
    }
}

fn is_agreed_folder(name: &str) -> bool {
    name.starts_with('.') || FOLDERS.contains(&name)
}

fn violations(files: &[SourceFile]) -> Vec<String> {
    let mut found: Vec<String> = files.iter().flat_map(|file| file_violations(file, files)).collect();
    for name in REQUIRED {
        if !files.iter().any(|file| file.path == *name) {
            found.push(format!("{name}: is missing"));
        }
    }
    found
}

fn file_violations(file: &SourceFile, files: &[SourceFile]) -> Vec<String> {
    let mut reasons = machine_paths(&file.text);
    if is_rust(&file.path) {
        if !file.text.starts_with("//! ") {
            reasons.push("does not open with //!".to_owned());
        }
        if names_attribute(&file.text, "ignore") {
            reasons.push("has an ignored test".to_owned());
        }
        if names_a_colour(file) {
            reasons.push("names a colour: only themes do".to_owned());
        }
        if decides_by_kind(file) {
            reasons.push("decides by the text of kind(): that is for people".to_owned());
        }
        if sleeps(file) {
            reasons.push("a test sleeps: wait on a state".to_owned());
        }
    }
    for path in documented_paths(file) {
        if !exists(&path, files) {
            reasons.push(format!("names {path}, which does not exist"));
        }
    }
    reasons
        .into_iter()
        .map(|reason| format!("{}: {reason}", file.path))
        .collect()
}

fn is_rust(path: &str) -> bool {
    path.strip_suffix(".rs")
        .is_some_and(|inner| inner.starts_with("src/") || inner.starts_with("tests/"))
}

fn names_a_colour(file: &SourceFile) -> bool {
    let view = file.path.starts_with("src/console/") && !file.path.starts_with("src/console/theme/");
    view && source::tokens(&file.text).iter().any(|token| *token == "Color")
}

fn names_attribute(text: &str, name: &str) -> bool {
    source::tokens(text).windows(3).any(|three| three == ["#", "[", name])
}

/// What `kind()` of a broker or a store answers is shown to people; whoever decides asks for the fact by its own method.
fn decides_by_kind(file: &SourceFile) -> bool {
    let text: String = file.text.split_whitespace().collect();
    let compared = ["kind()==\"", "kind()!=\"", "kind().eq(\"", "kind().ne(\""];
    let matched = ["broker.kind(){", "broker().kind(){", "store.kind(){", "store().kind(){"];
    file.path.starts_with("src/") && compared.iter().chain(&matched).any(|way| text.contains(way))
}

fn sleeps(file: &SourceFile) -> bool {
    if MAY_SLEEP.contains(&file.path.as_str()) {
        return false;
    }
    let module = source::module_of(&file.path);
    let paths = source::named_paths(&file.text, &module);
    let in_suite = ["tests/suite/", "tests/incidents/"]
        .iter()
        .any(|folder| file.path.starts_with(folder));
    let program = if in_suite { paths.program.as_slice() } else { &[] };
    program.iter().chain(&paths.tests).any(|path| is_sleep(path))
}

fn is_sleep(path: &[String]) -> bool {
    let last = path.last().map_or("", String::as_str);
    matches!(last, "sleep" | "sleep_until") && path.iter().any(|segment| segment == "time" || segment == "thread")
}

/// Places that exist on one machine only. Written in two halves: this file is read too.
fn machine_paths(text: &str) -> Vec<String> {
    [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
    ]
    .into_iter()
    .filter(|place| text.contains(place))
    .map(|place| format!("names a place of one machine: {place}"))
    .collect()
}

/// In a page every `src/…` and the like between backticks, in a comment these and every page of docs; in the header of
/// lib.rs also the left column of its map (`store/`, `app.rs`).
fn documented_paths(file: &SourceFile) -> Vec<String> {
    if is_page(&file.path) {
        return backticked(&file.text);
    }
    if !is_rust(&file.path) {
        return Vec::new();
    }
    let comments = comments_of(&file.text);
    let mut paths = backticked(&comments);
    paths.extend(pages_named(&comments));
    if file.path == "src/lib.rs" {
        let header = header_of(&file.text);
        let words = header.lines().filter_map(|line| line.split_whitespace().next());
        paths.extend(words.filter(|word| is_map_entry(word)).map(str::to_owned));
    }
    paths
}

pub fn is_page(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| ending == "md")
}

fn comments_of(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let comments = lines.filter(|line| line.starts_with("//"));
    comments
        .map(|line| line.trim_start_matches(['/', '!']).to_owned() + "\n")
        .collect()
}

/// `docs/protocols.md` or another page, with or without backticks.
fn pages_named(comments: &str) -> Vec<String> {
    let words = comments.split(|c: char| c.is_whitespace() || "`()[],;:".contains(c));
    let words = words.map(|word| word.trim_end_matches('.'));
    let pages = words.filter(|word| word.starts_with("docs/") || is_page(word));
    pages.map(str::to_owned).collect()
}

fn header_of(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.fold(String::new(), |header, line| header + line + "\n")
}

fn is_map_entry(word: &str) -> bool {
    let plain = word
        .chars()
        .all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '/' | '.'));
    plain && (word.split('.').next_back() == Some("rs") || (word.len() > 1 && word.ends_with('/')))
}

fn backticked(text: &str) -> Vec<String> {
    let tops = ["src/", "tests/", "assets/", "themes/", "docs/", ".ci/"];
    let spans = text.split('`').skip(1).step_by(2);
    let words = spans.filter_map(|span| span.split_whitespace().next());
    let paths =
        words.filter(|word| tops.iter().any(|top| word.starts_with(top)) && !word.contains(['*', '<', '{', '…']));
    // Behind `::` stands a name in the file.
    paths
        .map(|path| path.split("::").next().unwrap_or(path))
        .map(|path| path.trim_end_matches(['.', ',', ':']).to_owned())
        .collect()
}

fn exists(path: &str, files: &[SourceFile]) -> bool {
    let path = path.trim_end_matches('/');
    [path.to_owned(), format!("src/{path}")].iter().any(|candidate| {
        let folder = format!("{candidate}/");
        files
            .iter()
            .any(|file| file.path == *candidate || file.path.starts_with(&folder))
    })
}

/// A repository that is in order, with one file put into it or replaced.
fn check(path: &str, text: &str, expected: &[&str]) {
    let mut files = vec![
        SourceFile::new("README.md", "See `src/lib.rs` and `.ci/run`."),
        SourceFile::new("CHANGELOG.md", ""),
        SourceFile::new("CONTRIBUTING.md", ""),
        SourceFile::new("LICENSE", ""),
        SourceFile::new("LICENSE-APACHE", ""),
        SourceFile::new("LICENSE-MIT", ""),
        SourceFile::new("SECURITY.md", ""),
        SourceFile::new(".ci/run", ""),
        SourceFile::new("src/lib.rs", "//! The program.\n//!\n//!     store/   the record\n"),
        SourceFile::new("src/store/mod.rs", "//! The record.\n"),
    ];
    files.retain(|file| file.path != path);
    files.push(SourceFile::new(path, text));
    let found = violations(&files);
    let expected: Vec<String> = expected.iter().map(|reason| format!("{path}: {reason}")).collect();
    assert_eq!(found, expected, "{path}: {text}");
}

#[test]
fn each_breach_of_a_house_rule_is_named() {
    check("src/a.rs", "fn f() {}", &["does not open with //!"]);
    let attribute = concat!("//! A.\n#[test] #[ig", "nore = \"later\"] fn f() {}");
    check("tests/suite/a.rs", attribute, &["has an ignored test"]);
    let slept = "a test sleeps: wait on a state";
    check("tests/suite/a.rs", "//! A.\nfn f() { std::thread::sleep(d) }", &[slept]);
    check(
        "tests/suite/a.rs",
        "//! A.\nuse tokio::time::{Duration, sleep};",
        &[slept],
    );
    check(
        "src/a.rs",
        "//! A.\n#[cfg(test)] mod tests { use tokio::time; fn f() { tokio::time::sleep(d) } }",
        &[slept],
    );
    check(
        "src/console/view/a.rs",
        "//! A.\nuse ratatui::style::Color;",
        &["names a colour: only themes do"],
    );
    let by_kind = "decides by the text of kind(): that is for people";
    for decision in [
        "if self.broker.kind() == \"rabbitmq\" {}",
        "if store.kind()\n    != \"sqlite\" {}",
        "match self.store().kind() { _ => {} }",
    ] {
        check("src/a.rs", &format!("//! A.\nfn f() {{ {decision} }}"), &[by_kind]);
    }
    let machine = concat!("/ho", "me/");
    check(
        "assets/a.toml",
        &format!("path = \"{machine}me\""),
        &[&format!("names a place of one machine: {machine}")],
    );
    check(
        "README.md",
        "`src/gone.rs`",
        &["names src/gone.rs, which does not exist"],
    );
    let cites =
        "//! A, by docs/gone.md 3 (GONE.md).\nfn f() {} // `tests/gone.rs`\n/// See `src/store::None`.\nfn g() {}";
    let gone = ["docs/gone.md", "GONE.md"].map(|page| format!("names {page}, which does not exist"));
    check("src/a.rs", cites, &gone.each_ref().map(String::as_str));
    check(
        "docs/a.md",
        "`src/gone.rs::name` in `src/store/mod.rs::name`",
        &["names src/gone.rs, which does not exist"],
    );
    check(
        "src/lib.rs",
        "//! A.\n//!\n//!     broker/  queues\n//!     app.rs  root",
        &[
            "names broker/, which does not exist",
            "names app.rs, which does not exist",
        ],
    );
    assert!(!is_agreed_folder("crates") && is_agreed_folder(".ci") && is_agreed_folder("docs"));
}

#[test]
fn only_what_is_a_test_counts_as_one() {
    let files = [
        SourceFile::new("src/a/b.rs", "//! B.\nfn plain() {}\n"),
        SourceFile::new(
            "src/a/c.rs",
            "//! C.\nfn plain() {}\n#[cfg(test)]\nmod tests {\n#[test]\nfn one() {}\n}\n",
        ),
        SourceFile::new(
            "tests/suite/d/e.rs",
            "//! E.\n#[tokio::test]\nasync fn two() {\n}\nfn helper() {}\n",
        ),
        SourceFile::new("tests/suite/f/mod.rs", "contract! {\n  g:\n    three\n}\n"),
        SourceFile::new(
            "tests/suite/f/g.rs",
            "//! G.\npub async fn three() {}\npub async fn four() {}\n",
        ),
    ];
    for (name, is_test) in [
        ("a::c::tests::one", true),
        ("a::c::tests::…", true),
        ("d::e::two", true),
        ("d::…::two", true),
        ("f::g::three", true),
        ("a::b::tests::…", false),
        ("a::b::plain", false),
        ("a::c::plain", false),
        ("d::e::helper", false),
        ("d::two", false),
        ("f::g::four", false),
        ("one", false),
    ] {
        assert_eq!(is_tested(name, &files), is_test, "{name}");
    }
}

#[test]
fn a_missing_root_file_is_named() {
    let found = violations(&[SourceFile::new("README.md", ""), SourceFile::new("LICENSE", "")]);
    let missing = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "SECURITY.md",
    ];
    assert_eq!(found, missing.map(|name| format!("{name}: is missing")));
}

#[test]
fn what_the_house_rules_allow_passes() {
    check(
        "src/a.rs",
        "//! A.\nasync fn f(d: Duration) { tokio::time::sleep(d).await }",
        &[],
    );
    let shown = "//! A.\nfn f() { if error.kind() == ErrorKind::NotFound { say(broker.kind()) } }";
    check("src/a.rs", shown, &[]);
    check("tests/suite/support/wait.rs", "//! A.\nuse tokio::time::sleep;", &[]);
    check(
        "src/lib.rs",
        "//! The program; `src/store/` and store/ exist.\n//!\n//!     store/  the record",
        &[],
    );
}
