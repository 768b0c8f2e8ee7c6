//! The import table: which module of the crate may name which other one.
//!
//! Rust does not enforce layers inside one crate, so this reads the paths of every file. What
//! stands under `#[cfg(test)]` is exempt: the table is about the program. What grows with every feature has a bound on
//! its size here, too: services of the engine, and traits.

use std::collections::BTreeMap;

use crate::sizes;
use crate::source::{self, SourceFile, is_program};

/// A top-level module with the others that it may name.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("ambient", &["domain"]),
    ("authorities", &["ambient"]),
    ("budget", &[]),
    ("sqlite", &["domain", "ambient", "telemetry"]),
    ("store", &["domain", "ambient", "sqlite", "telemetry"]),
    ("broker", &["domain", "ambient", "authorities", "sqlite", "telemetry"]),
    ("delivery", &["domain", "ambient", "authorities", "telemetry"]),
    ("command", &["domain", "ambient", "telemetry"]),
    ("files", &["ambient"]),
    ("certificates", &["domain"]),
    ("config", &["domain", "certificates"]),
    ("telemetry", &["domain", "ambient", "config"]),
    (
        "engine",
        &[
            "domain",
            "ambient",
            "budget",
            "certificates",
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
    // An engine of another process, behind the engine's own seam.
    ("remote", &["engine", "domain", "ambient", "authorities", "wire"]),
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
    ("reqwest", &["broker", "delivery", "telemetry", "remote"]),
    ("axum", &["api"]),
    ("clap", &["cli"]),
    ("ratatui", &["console"]),
    ("crossterm", &["console", "cli"]),
];

/// A pure part whose subject is a document in a wire format: applications wrapped their messages into it.
const READS_JSON: &str = "src/domain/error_queue/";

/// What a pure module cannot name: async, input and output, clocks, randomness, wire formats. Its data is written and read
/// by `serde` where it goes to another process of redrive; in which format is the matter of whoever sends it.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio_util",
    "futures_util",
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

/// The parts of the engine (docs/architecture.md) on their floors, from the lowest on. A part is a file or a folder of
/// `src/engine`, or a file of a folder that stands lower than the rest of it: types that others work with, too. A part
/// names those on lower floors, so that there is no circle.
///
/// The root is on no floor: it is what fronts see, and each part adds to it what it has for them.
const ENGINE: &[&[&str]] = &[
    &["runs/json_patch"],
    &[
        "candidates",
        "endpoints/table",
        "event",
        "events/command",
        "expiring/order",
        "fence",
        "kept",
        "meters",
        "permits",
        "places",
        "policies/view",
        "process",
        "published",
        "queues/seen",
        "recorder",
        "row",
        "runs/order",
        "runs/view",
        "series",
        "settled",
        "shown",
        "sight",
        "store_time",
        "traces",
        "turns",
        "unattached",
        "unwritten",
        "view",
    ],
    &["error", "failing", "fields", "health/losses", "tell", "why", "worst"],
    &["health/found", "paging"],
    &["command", "core", "usage"],
    &[
        "audit",
        "death",
        "insist",
        "operation",
        "queue_pages",
        "retention",
        "reveal",
        "rules",
        "runs/reader",
        "sieve",
        "sources",
        "walking",
    ],
    &["attempts", "looks", "room"],
    &[
        "confirmation",
        "expiring",
        "manage",
        "policies",
        "publisher",
        "runs/others",
    ],
    &["dead_letter", "events", "health", "presence"],
    &["dead", "delivery"],
    &[
        "discovery",
        "ending",
        "handover",
        "incarnation",
        "others",
        "pacing",
        "queues",
        "refused",
        "runs",
        "snapshot",
        "worker",
    ],
    &["doctor", "endpoints", "holdings", "jobs", "notification", "parts"],
    &["calls", "dispatch", "observe", "operations", "query"],
    &["alerts", "handle", "plans"],
    &["daemon"],
    &["alone"],
];

#[test]
fn a_part_of_the_engine_names_only_those_below_it() {
    let files = engine_files();
    let exports = Exports::of(&files);
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| engine_violations(file, &exports))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    for part in ENGINE.iter().flat_map(|floor| floor.iter()) {
        let is_there = files
            .iter()
            .any(|file| engine_part(&source::module_of(&file.path)) == Some(part));
        assert!(is_there, "{part} is a part of the engine");
    }
}

/// What the root and the folders of the engine hand on, with the file that it is from: `runs`, `Order` → `order`.
struct Exports(BTreeMap<(String, String), Vec<String>>);

impl Exports {
    fn of(files: &[SourceFile]) -> Self {
        let mut exports = BTreeMap::new();
        for file in files.iter().filter(|file| file.path.ends_with("/mod.rs")) {
            let module = source::module_of(&file.path);
            let folder = module[1..].join("/");
            let here: Vec<String> = module.iter().map(ToString::to_string).collect();
            for path in source::named_paths(&file.text, &module).program {
                let path = match path.strip_prefix(&["crate".to_owned()]) {
                    Some(whole) => whole.strip_prefix(here.as_slice()).unwrap_or_default(),
                    None => &path,
                };
                if let [.., name] = path
                    && path.len() > 1
                {
                    exports.insert((folder.clone(), name.clone()), path.to_vec());
                }
            }
        }
        Self(exports)
    }

    /// The path below the engine under which it is, whoever hands it on.
    fn origin(&self, path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        for depth in [0, 1] {
            let Some((folder, rest)) = path.split_at_checked(depth) else {
                break;
            };
            let Some(name) = rest.first() else { break };
            if let Some(from) = self.0.get(&(folder.join("/"), name.clone())) {
                path = [folder, from, &rest[1..]].concat();
            }
        }
        path
    }
}

/// The part that a module of the engine belongs to.
fn engine_part<'a>(module: &[&str]) -> Option<&'a &'static str> {
    let parts = || ENGINE.iter().flat_map(|floor| floor.iter());
    let [_, inner @ ..] = module else { return None };
    let file = inner.get(..2).map(|file| file.join("/"));
    let as_file = file.and_then(|file| parts().find(|part| **part == file));
    as_file.or_else(|| parts().find(|part| inner.first() == Some(*part)))
}

fn engine_violations(file: &SourceFile, exports: &Exports) -> Vec<String> {
    let module = source::module_of(&file.path);
    if module.len() < 2 {
        return Vec::new();
    }
    let floor = |part: &str| ENGINE.iter().position(|floor| floor.contains(&part));
    let Some(own) = engine_part(&module) else {
        return vec![format!("{}: it is on no floor of the engine", file.path)];
    };
    let paths = source::named_paths(&file.text, &module).program;
    let ours = paths
        .iter()
        .filter_map(|path| path.strip_prefix(&["crate".to_owned(), "engine".to_owned()]));
    let above = ours.filter_map(|path| {
        let origin = exports.origin(path);
        let named: Vec<&str> = std::iter::once("engine")
            .chain(origin.iter().map(String::as_str))
            .collect();
        let other = engine_part(&named)?;
        (other != own && floor(other) >= floor(own)).then(|| format!("{}: {own} may not name {other}", file.path))
    });
    above.collect()
}

#[test]
fn an_upward_import_in_the_engine_is_found_also_through_what_is_handed_on() {
    let root = SourceFile::new(
        "src/engine/mod.rs",
        "pub use runs::{Order, RunView}; pub use error::EngineError;",
    );
    let runs = SourceFile::new("src/engine/runs/mod.rs", "pub use order::Order; pub use drive::drive;");
    let exports = Exports::of(&[root, runs]);
    let check = |path: &str, text: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|why| format!("{path}: {why}")).collect();
        assert_eq!(
            engine_violations(&SourceFile::new(path, text), &exports),
            expected,
            "{text}"
        );
    };
    check(
        "src/engine/command.rs",
        "use super::{EngineError, Order}; use super::runs::Order;",
        &[],
    );
    check(
        "src/engine/command.rs",
        "use super::runs::drive;",
        &["command may not name runs"],
    );
    check("src/engine/core.rs", "use crate::engine::Engine;", &[]);
    check(
        "src/engine/core.rs",
        "use super::runs::view::RunView; use crate::engine::dead::list::sort;",
        &["core may not name dead"],
    );
    check(
        "src/engine/runs/order.rs",
        "use super::drive::drive;",
        &["runs/order may not name runs"],
    );
    check("src/engine/weather.rs", "", &["it is on no floor of the engine"]);
}

#[test]
fn tasks_timers_maps_and_the_order_of_branches_come_from_one_place() {
    for file in engine_files() {
        for word in [
            "std::collections::HashMap",
            "std::collections::HashSet",
            "spawn_blocking",
            "std::thread::spawn",
        ] {
            assert!(!file.text.contains(word), "{}: {word}", file.path);
        }
        let paths = source::named_paths(&file.text, &source::module_of(&file.path)).program;
        let hidden = paths.iter().map(|path| path.join("::"));
        let hidden = hidden.filter(|path| path.starts_with("tokio::time") || path.ends_with("collections::HashMap"));
        assert_eq!(hidden.collect::<Vec<_>>(), [""; 0], "{}", file.path);
        // The first line of each that is no comment.
        let branches = file.text.split("select! {").skip(1);
        let first = branches.filter_map(|rest| {
            rest.lines()
                .map(str::trim)
                .find(|line| !line.is_empty() && !line.starts_with("//"))
        });
        for line in first {
            assert_eq!(line, "biased;", "{}: a `select!` whose order nobody states", file.path);
        }
    }
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
    let sizes = sizes::of(&engine_files());
    let mut found = Vec::new();
    for service in SERVICES.iter().chain(&["Engine"]) {
        let size = sizes.get(*service);
        let size = size.unwrap_or_else(|| panic!("{service} is found"));
        if !size.is_one_object() {
            found.push(format!("{service}: {size:?}"));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// A trait with more methods is two, behind one handle where that is what callers have.
const METHODS_MAX: usize = 20;

#[test]
fn a_trait_has_twenty_methods_at_most() {
    let files = source::repository_files();
    let program = files.iter().filter(|file| is_program(&file.path));
    let traits: Vec<(String, usize)> = program.flat_map(traits_of).collect();
    assert!(traits.len() > 40, "traits are found: {}", traits.len());
    for name in ["src/console/table/list.rs: List", "src/console/state/screen.rs: Screen"] {
        assert!(traits.iter().any(|(found, _)| found == name), "{name} is found");
    }
    let found: Vec<_> = traits.iter().filter(|(_, methods)| *methods > METHODS_MAX).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The traits that a file declares, each with the number of methods of its own.
fn traits_of(file: &SourceFile) -> Vec<(String, usize)> {
    let tokens = source::tokens(&file.text);
    let heads = tokens.windows(2).enumerate().filter(|(_, pair)| pair[0] == "trait");
    let traits = heads.map(|(at, pair)| (format!("{}: {}", file.path, pair[1]), methods_of(&tokens[at..])));
    traits.collect()
}

/// Those of the block that comes next; functions inside of a method's body are none.
fn methods_of(tokens: &[String]) -> usize {
    let (mut depth, mut methods) = (0_usize, 0);
    for pair in tokens.windows(2) {
        match pair[0].as_str() {
            "{" => depth += 1,
            "}" if depth <= 1 => break,
            "}" => depth -= 1,
            // A type of functions has no name.
            "fn" if depth == 1 && pair[1] != "(" => methods += 1,
            _ => {}
        }
    }
    methods
}

#[test]
fn the_methods_of_a_trait_are_those_of_its_own_block() {
    let file = SourceFile::new(
        "src/a.rs",
        "/// A trait; fn no().
        pub trait One: Send where Self: Sized { const F: fn(u8); fn a(&self) { fn inner() {} } async fn b(); }
        trait Two {} struct S; impl One for S { fn a(&self) {} fn b() {} fn c() {} }",
    );
    let found = [("src/a.rs: One".to_owned(), 2), ("src/a.rs: Two".to_owned(), 0)];
    assert_eq!(traits_of(&file), found);
}

/// Functions that take a `bool`, each with the reason why.
const BOOL_PARAMETERS: &[(&str, &str)] = &[(
    "src/engine/policies/document.rs::visit_bool",
    "serde hands over the value that it read",
)];

#[test]
fn engine_and_store_take_no_bool_parameter() {
    let folders = ["engine", "store", "sqlite", "broker", "delivery"];
    let is_below = |file: &SourceFile| folders.contains(source::module_of(&file.path).first().unwrap_or(&""));
    let mut files = source::repository_files();
    files.retain(|file| is_program(&file.path) && is_below(file));
    let found: Vec<String> = files.iter().flat_map(bool_parameters).collect();
    let allowed: Vec<&str> = BOOL_PARAMETERS.iter().map(|(function, _)| *function).collect();
    assert_eq!(
        found, allowed,
        "a call says by a word what it means, or there are two functions; an exception that is over goes"
    );
}

/// The functions of a file that take a `bool`, outside of its tests.
fn bool_parameters(file: &SourceFile) -> Vec<String> {
    let tokens = source::program_tokens(&file.text);
    let named = tokens.windows(2).enumerate();
    let functions = named.filter(|(_, pair)| pair[0] == "fn" && pair[1] != "(");
    let with_bool = functions.filter(|(at, _)| {
        let parameters = parameters(&tokens[at + 2..]);
        parameters.windows(3).any(|three| match three {
            [before, mark, of] if of == "bool" => {
                matches!(mark.as_str(), ":" | "&" | "mut" | "(") || (before == "Option" && mark == "<")
            }
            _ => false,
        })
    });
    with_bool
        .map(|(_, pair)| format!("{}::{}", file.path, pair[1]))
        .collect()
}

/// What stands in the first parentheses behind the name of a function that are not in its type parameters.
fn parameters(behind_name: &[String]) -> &[String] {
    let (mut angles, mut depth, mut begin) = (0_usize, 0_usize, None);
    for (at, token) in behind_name.iter().enumerate() {
        match token.as_str() {
            "<" if begin.is_none() => angles += 1,
            ">" if begin.is_none() && behind_name[at - 1] != "-" => angles -= 1,
            "(" if angles == 0 => {
                begin.get_or_insert(at);
                depth += 1;
            }
            ")" if angles == 0 => {
                depth -= 1;
                if depth == 0 {
                    return &behind_name[begin.unwrap_or(at)..at];
                }
            }
            _ => {}
        }
    }
    &[]
}

#[test]
fn a_bool_parameter_is_found_however_it_is_written() {
    let check = |text: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|name| format!("src/a.rs::{name}")).collect();
        assert_eq!(bool_parameters(&SourceFile::new("src/a.rs", text)), expected, "{text}");
    };
    check(
        "fn one(on: bool) {} trait T { fn two(&self, on: bool); }",
        &["one", "two"],
    );
    check(
        "async fn lines<F: Fn(u8) -> bool>(\n    f: F,\n    // : bool\n    on: bool,\n) {}",
        &["lines"],
    );
    check(
        "fn out(on: &mut bool) {} fn known(on: Option<bool>) {}",
        &["out", "known"],
    );
    check("fn both((on, at): (bool, u8)) {}", &["both"]);
    check(
        "fn is(a: impl Fn(&u8) -> bool, b: Result<bool, u8>) -> bool { let c: bool = a(&1); c }",
        &[],
    );
    check("type F = fn(bool) -> u8;", &[]);
    check(
        "#[cfg(test)] mod tests { fn f(on: bool) {} } fn after(on: bool) {}",
        &["after"],
    );
    check("#[cfg(test)] mod tests; fn after(on: bool) {}", &["after"]);
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
        "fn a() { serde_json::to_string(&1); }",
        &["serde_json::to_string: domain is pure"],
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
