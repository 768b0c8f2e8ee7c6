//! The import table: which module of the crate may name which other one.
//!
//! Rust does not enforce layers inside one crate, so this reads the paths of every file. What
//! stands under `#[cfg(test)]` is exempt: the table is about the program.

use crate::source::{self, SourceFile};

/// A top-level module with the others that it may name.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("ambient", &["domain"]),
    ("budget", &[]),
    ("sqlite", &["domain", "ambient", "telemetry"]),
    ("store", &["domain", "ambient", "sqlite", "telemetry"]),
    ("broker", &["domain", "ambient", "sqlite", "telemetry"]),
    ("delivery", &["domain", "ambient", "telemetry"]),
    ("command", &["domain", "ambient", "telemetry"]),
    ("files", &["ambient"]),
    ("config", &["domain"]),
    ("telemetry", &["domain", "ambient", "config"]),
    (
        "engine",
        &[
            "domain",
            "ambient",
            "budget",
            "command",
            "store",
            "broker",
            "delivery",
            "telemetry",
        ],
    ),
    // The JSON shapes that both fronts print.
    ("wire", &["engine", "domain"]),
    ("api", FRONT),
    ("cli", FRONT),
    ("console", FRONT),
    ("jobs", &["engine", "domain", "library"]),
    // It is a receiver: nothing of what delivers.
    ("listen", &["domain", "ambient", "wire"]),
];

const FRONT: &[&str] = &[
    "engine",
    "domain",
    "config",
    "files",
    "ambient",
    "budget",
    "telemetry",
    "wire",
];

/// The composition roots (the demo is one of its own, and what other programs embed is made of all), the list of all readers of foreign bytes and the files of the
/// crate's root name everything.
const MAY_NAME_ALL: &[&str] = &["app", "demo", "lib", "library", "main", "parsers", "transaction"];

/// Drivers behind a seam: the rest of the program sees the trait.
const DRIVERS: &[(&str, &[&str])] = &[
    ("store", &["sqlite", "postgres"]),
    ("broker", &["rabbitmq", "embedded"]),
    ("delivery", &["http"]),
];

/// A library with the modules that are its home; `app` and the root are free.
const HOMES: &[(&str, &[&str])] = &[
    ("sqlx", &["store", "sqlite", "broker"]),
    ("lapin", &["broker"]),
    ("reqwest", &["broker", "delivery", "telemetry"]),
    ("axum", &["api"]),
    ("clap", &["cli"]),
    ("ratatui", &["console"]),
    ("crossterm", &["console", "cli"]),
];

/// A pure part whose subject is a document in a wire format: applications wrapped their messages into it.
const READS_JSON: &str = "src/domain/error_queue/";

/// What a pure module cannot name: async, input and output, clocks, randomness, wire formats.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio_util",
    "futures_util",
    "serde",
    "serde_json",
    "toml",
    "fastrand",
    "tracing",
    "metrics",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::SystemTime",
    "std::time::Instant",
];

#[test]
fn every_module_names_only_what_the_import_table_allows() {
    let files: Vec<SourceFile> = source::repository_files()
        .into_iter()
        .filter(|file| is_program(&file.path))
        .collect();
    let found = violations(&files);
    assert!(
        found.is_empty(),
        "the import table is broken:\n  {}",
        found.join("\n  ")
    );
}

fn is_program(path: &str) -> bool {
    let rust = path.strip_prefix("src/").and_then(|inner| inner.strip_suffix(".rs"));
    rust.is_some_and(|inner| !inner.split('/').any(|segment| segment == "tests"))
}

fn violations(files: &[SourceFile]) -> Vec<String> {
    files.iter().flat_map(file_violations).collect()
}

fn file_violations(file: &SourceFile) -> Vec<String> {
    let module = source::module_of(&file.path);
    let top = module.first().copied().unwrap_or("lib");
    if MAY_NAME_ALL.contains(&top) {
        return Vec::new();
    }
    let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == top) else {
        return vec![format!("{}: the module {top} is not in the import table", file.path)];
    };
    let paths = source::named_paths(&file.text, &module).program;
    let mut found: Vec<String> = paths
        .iter()
        .filter(|path| !(file.path.starts_with(READS_JSON) && path.first().is_some_and(|first| first == "serde_json")))
        .filter_map(|path| path_violation(top, allowed, path))
        .map(|reason| format!("{}: {reason}", file.path))
        .collect();
    found.dedup();
    found
}

fn path_violation(top: &str, allowed: &[&str], path: &[String]) -> Option<String> {
    let shown = path.join("::");
    if path.first().is_some_and(|first| first == "crate") {
        return own_violation(top, allowed, path.get(1)?, path.get(2)).map(|why| format!("{shown}: {why}"));
    }
    if top == "domain" && IMPURE.iter().any(|banned| begins_with(&shown, banned)) {
        return Some(format!("{shown}: domain is pure"));
    }
    let (library, homes) = HOMES.iter().find(|(library, _)| begins_with(&shown, library))?;
    (!homes.contains(&top)).then(|| format!("{shown}: {library} belongs into {}", homes.join(", ")))
}

fn own_violation(top: &str, allowed: &[&str], other: &str, inner: Option<&String>) -> Option<String> {
    // A name of the crate's root that is no module: an item of the façade.
    let is_module = other.starts_with(char::is_lowercase);
    if other == top || !is_module {
        return None;
    }
    if !allowed.contains(&other) {
        return Some(format!("{top} may not name {other}"));
    }
    let (_, drivers) = DRIVERS.iter().find(|(seam, _)| *seam == other)?;
    let driver = inner.filter(|inner| drivers.contains(&inner.as_str()))?;
    Some(format!("{top} may name the seam of {other}, not its driver {driver}"))
}

fn begins_with(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn check(path: &str, text: &str, expected: &[&str]) {
    let found = violations(&[SourceFile::new(path, text)]);
    let expected: Vec<String> = expected.iter().map(|reason| format!("{path}: {reason}")).collect();
    assert_eq!(found, expected, "{path}: {text}");
}

/// The engine's services (docs/architecture.md), from the lowest on; the last is the façade. A file that holds a part of
/// one names those before it, never those behind it.
const SERVICES: &[&str] = &[
    "Core",
    "LookCosts",
    "Lifetimes",
    "Saves",
    "Expiring",
    "Janitor",
    "PolicyGuard",
    "Publisher",
    "Policies",
    "EventTable",
    "EventOperations",
    "Ownership",
    "Healing",
    "Delivery",
    "DeadTargets",
    "RunReader",
    "DeadIndex",
    "DeadLetters",
    "RunPlanner",
    "Runs",
    "Queues",
    "Endpoints",
    "Doctor",
    "Observation",
    "Alerts",
    "Daemon",
    "Inner",
];

#[test]
fn a_service_of_the_engine_names_only_those_below_it() {
    let files = engine_files();
    let mut parts = 0;
    let mut found = Vec::new();
    for file in &files {
        let place = |name: &str| SERVICES.iter().position(|service| *service == name);
        let holds = |name: &&&str| file.text.contains(&format!("\nimpl {name} {{"));
        let Some(highest) = SERVICES.iter().filter(holds).filter_map(|name| place(name)).max() else {
            continue;
        };
        parts += 1;
        let module = source::module_of(&file.path);
        for path in source::named_paths(&file.text, &module).program {
            let is_ours = path.starts_with(&["crate".to_owned(), "engine".to_owned()]) || path.len() == 1;
            let named = path.last().filter(|_| is_ours).and_then(|name| place(name));
            if named.is_some_and(|named| named > highest) {
                found.push(format!("{}: {}", file.path, path.join("::")));
            }
        }
    }
    assert!(parts > 80, "parts of services are found: {parts}");
    assert!(found.is_empty(), "{found:#?}");
}

/// The floors of the console (docs/architecture.md), from the lowest on. A file names those below its own, and its own.
const CONSOLE: &[&str] = &[
    "journal",
    "fuzzy",
    "theme",
    "typing",
    "table",
    "widgets",
    "state",
    "views",
    "first_run",
    "paint",
    "update",
    "actions",
    "effects",
    "runtime",
];

#[test]
fn a_part_of_the_console_names_only_those_below_it() {
    let files: Vec<SourceFile> = source::repository_files()
        .into_iter()
        .filter(|file| is_program(&file.path))
        .collect();
    let parts = files.iter().filter(|file| console_part(&file.path).is_some()).count();
    assert!(parts > 150, "parts of the console are found: {parts}");
    let found: Vec<String> = files.iter().flat_map(console_violations).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The floor of a file, but for the root of the console, which says what the console is.
fn console_part(path: &str) -> Option<&str> {
    let module = source::module_of(path);
    let part = module.get(1)?;
    (module.first() == Some(&"console")).then_some(*part)
}

fn console_violations(file: &SourceFile) -> Vec<String> {
    let Some(part) = console_part(&file.path) else {
        return Vec::new();
    };
    let floor = |name: &str| CONSOLE.iter().position(|known| *known == name);
    let Some(own) = floor(part) else {
        return vec![format!("{}: {part} is on no floor of the console", file.path)];
    };
    let paths = source::named_paths(&file.text, &source::module_of(&file.path)).program;
    let ours = paths
        .iter()
        .filter(|path| path.starts_with(&["crate".to_owned(), "console".to_owned()]));
    let above = ours.filter_map(|path| {
        let other = path.get(2)?;
        let below = floor(other).is_some_and(|other| other <= own);
        (!below).then(|| format!("{}: {part} may not name {other}", file.path))
    });
    above.collect()
}

#[test]
fn an_upward_import_in_the_console_is_found() {
    let found = |path: &str, text: &str| console_violations(&SourceFile::new(path, text));
    let path = "src/console/views/runs.rs";
    assert!(found(path, "use crate::console::state::State; use super::list::Cell;").is_empty());
    assert_eq!(
        found(path, "use crate::console::update::say;"),
        [format!("{path}: views may not name update")]
    );
    assert_eq!(
        found("src/console/table/list.rs", "use super::super::state::State;"),
        ["src/console/table/list.rs: table may not name state"]
    );
    // What the root hands on has a floor of its own: it is named there.
    assert_eq!(
        found(path, "use crate::console::State;"),
        [format!("{path}: views may not name State")]
    );
    assert_eq!(
        found("src/console/help.rs", ""),
        ["src/console/help.rs: help is on no floor of the console"]
    );
}

#[test]
fn a_service_of_the_engine_has_ten_fields_and_forty_methods_at_most() {
    let files = engine_files();
    let members = |head: &str, is_member: fn(&str) -> bool| {
        let blocks = files
            .iter()
            .filter_map(|file| file.text.split_once(&format!("\n{head} {{\n")));
        // Several blocks of one file.
        let blocks = blocks.flat_map(|(_, rest)| rest.split(&format!("\n{head} {{\n")).collect::<Vec<_>>());
        let lines = blocks.flat_map(|block| block.split("\n}\n").next().unwrap_or_default().lines());
        let own = lines.filter_map(|line| {
            line.strip_prefix("    ")
                .filter(|line| !line.starts_with([' ', '/', '#']))
        });
        own.filter(|line| is_member(line)).count()
    };
    let is_field = |line: &str| line.ends_with(',') && line.contains(": ");
    let is_method = |line: &str| line.starts_with("fn ") || line.contains(" fn ");
    let mut found = Vec::new();
    for service in SERVICES.iter().chain(&["Engine"]) {
        let fields = members(&format!("struct {service}"), is_field)
            + members(&format!("pub(super) struct {service}"), is_field)
            + members(&format!("pub(in crate::engine) struct {service}"), is_field);
        let methods = members(&format!("impl {service}"), is_method);
        assert!(fields + methods > 0, "{service} is found");
        if fields > 10 || methods > 40 {
            found.push(format!("{service}: {fields} fields, {methods} methods"));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

fn engine_files() -> Vec<SourceFile> {
    let mut files = source::repository_files();
    files.retain(|file| is_program(&file.path) && file.path.starts_with("src/engine/"));
    files
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    check(
        "src/store/mod.rs",
        "use crate::engine::Engine;",
        &["crate::engine::Engine: store may not name engine"],
    );
    check(
        "src/broker/mod.rs",
        "use crate::{domain::Id, store::Store};",
        &["crate::store::Store: broker may not name store"],
    );
    check(
        "src/api/routes.rs",
        "fn f() { crate::delivery::send() }",
        &["crate::delivery::send: api may not name delivery"],
    );
    check(
        "src/cli/mod.rs",
        "use super::console::State;",
        &["crate::console::State: cli may not name console"],
    );
    check(
        "src/domain/retry.rs",
        "use std::time::{Duration, Instant};",
        &["std::time::Instant: domain is pure"],
    );
    check(
        "src/domain/retry.rs",
        "#[derive(serde::Serialize)] struct A;",
        &["serde::Serialize: domain is pure"],
    );
    check(
        "src/engine/plan.rs",
        "use crate::store::sqlite::Pool;",
        &["crate::store::sqlite::Pool: engine may name the seam of store, not its driver sqlite"],
    );
    check(
        "src/engine/plan.rs",
        "use clap::Parser;",
        &["clap::Parser: clap belongs into cli"],
    );
    check("src/helpers.rs", "", &["the module helpers is not in the import table"]);
}

#[test]
fn what_the_table_allows_passes() {
    check(
        "src/store/sqlite/rows.rs",
        "use super::super::Store; use crate::sqlite::Writer; use sqlx::Row;",
        &[],
    );
    check(
        "src/engine/mod.rs",
        "use crate::{broker::Broker, store::Store}; use crate::ambient;",
        &[],
    );
    check("src/app.rs", "use crate::{api, console, store::sqlite};", &[]);
    check(
        "src/store/mod.rs",
        "//! See crate::engine.\n#[cfg(test)] mod tests { use crate::engine::E; }",
        &[],
    );
    assert!(!is_program("src/store/tests.rs") && is_program("src/store/mod.rs"));
}
