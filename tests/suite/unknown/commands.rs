//! Every command that only looks, as the registry names them.

use redrive::internals::cli::{COMMANDS, Does};
use serde_json::Value;

use super::{Cut, DEAD_URL, Site, TYPE, names};
use crate::support::daemon::Outcome;
use crate::support::management::Lie;

/// What a command is asked with beside its name.
fn arguments<'a>(site: &'a Site, command: &'a str) -> Vec<&'a str> {
    let none = "00000000000000000000000000000000";
    let given: &[&str] = match command {
        "queue why" | "queue map" | "queue browse" => &[site.queue.as_str()],
        "endpoint show" => &[DEAD_URL],
        "event-type show" => &[TYPE],
        "event list" | "event history" | "subscription list" => &["--type", TYPE],
        "event show" => &["--type", TYPE, "--reference", "1"],
        "event search" => &["state = dead"],
        "dead show" | "run show" | "notification show" => &[none],
        "rescued show" => &["7"],
        "job connect" => &["018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a", "--check"],
        "policy history" => &["--url", DEAD_URL],
        "policy preview" => &["{}", "--url", DEAD_URL],
        _ => &[],
    };
    command
        .split(' ')
        .chain(given.iter().copied())
        .chain(["--json"])
        .collect()
}

async fn run(site: &Site, command: &str) -> Outcome {
    site.installation.run(&arguments(site, command)).await
}

fn looking() -> Vec<(&'static str, &'static [&'static str])> {
    let looks = COMMANDS.iter().filter_map(|(name, does, _)| match does {
        Does::Reads(sources) => Some((*name, *sources)),
        Does::Changes(_) | Does::Nothing { .. } => None,
    });
    looks.collect()
}

fn check(command: &str, reads: &[&str], cut: Cut, usual: Option<i32>, outcome: &Outcome) {
    let told = || format!("{cut:?}: {command}: {outcome:?}");
    if !reads.contains(&cut.source()) {
        return assert_eq!(outcome.code, usual, "it does not read that: {}", told());
    }
    if command == "doctor" {
        let checks = outcome.json();
        let is_told = |check: &Value| check["name"] == cut.source();
        let check = checks.as_array().unwrap().iter().find(|check| is_told(check));
        let check = check.unwrap_or_else(|| panic!("{}", told()));
        return assert_ne!(check["result"], "fine", "{}", told());
    }
    match outcome.code {
        Some(69) => assert!(!outcome.stderr.is_empty(), "{}", told()),
        // Waiting does not help against it.
        Some(78) if cut == Cut::Management(Lie::Status(401)) => {
            assert!(outcome.stderr.contains("login failed"), "{}", told());
        }
        Some(0) => {
            let said = outcome.stderr.lines().find(|line| line.starts_with("{\"problems\""));
            let said = said.unwrap_or_else(|| panic!("{}", told()));
            let said: Value = serde_json::from_str(said).unwrap();
            assert!(!names(&said["problems"]).is_empty(), "{}", told());
        }
        _ => panic!("{}", told()),
    }
}

/// Runs commands, a few at a time.
async fn outcomes(site: &Site, commands: &[(&'static str, &'static [&'static str])]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for some in commands.chunks(4) {
        let running = some.iter().map(|(command, _)| run(site, command));
        outcomes.extend(futures_util::future::join_all(running).await);
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_answers_with_nothing_where_it_could_not_read() {
    let site = Site::open().await;
    let all = looking();
    let usual: Vec<Option<i32>> = outcomes(&site, &all).await.iter().map(|outcome| outcome.code).collect();
    for ((command, _), code) in all.iter().zip(&usual) {
        assert!(matches!(code, Some(0 | 4)), "{command} ends with {code:?}");
    }
    for cut in [Cut::Management(Lie::Status(500)), Cut::Broker, Cut::Store] {
        site.cut(cut);
        let outcomes = outcomes(&site, &all).await;
        for (((command, reads), usual), outcome) in all.iter().zip(&usual).zip(&outcomes) {
            check(command, reads, cut, *usual, outcome);
        }
        site.mend().await;
    }
    // The other lies, to those that listen.
    let listing: Vec<_> = all
        .iter()
        .zip(&usual)
        .filter(|((_, reads), _)| reads.contains(&"management"))
        .collect();
    let commands: Vec<_> = listing.iter().map(|(row, _)| **row).collect();
    for lie in Lie::ALL.into_iter().filter(|lie| *lie != Lie::Status(500)) {
        site.cut(Cut::Management(lie));
        let outcomes = outcomes(&site, &commands).await;
        for (((command, reads), usual), outcome) in listing.iter().zip(&outcomes) {
            check(command, reads, Cut::Management(lie), **usual, outcome);
        }
        site.mend().await;
    }
}
