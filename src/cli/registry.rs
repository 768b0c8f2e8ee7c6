//! Each command in a row: what it is answered from, what of the options of every command it heeds, and how it prints.
//!
//! What of its sources cannot be read makes it end with 69, or is told as a problem on standard error. Its help offers the
//! options that it heeds; the others are taken all the same where they say nothing wrong of it, so that a script can give
//! each command the same ones.

use clap::{Arg, Command};

use super::examples;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Looks, and is answered from these: `broker`, `management`, `store`.
    Reads(&'static [&'static str]),
    /// Changes something, or waits for something to happen, and heeds these of `dry_run`, `yes` and `reason`.
    Changes(&'static [&'static str]),
    /// Needs neither broker nor store.
    Nothing {
        /// Whether it asks the configuration.
        configured: bool,
    },
}

/// What a command writes on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prints {
    /// A table with columns, or a document of its rows.
    Table,
    /// Names and values, or a document.
    Facts,
    /// One text, whoever reads it.
    Text,
}

const ALL: Does = Does::Reads(&["broker", "management", "store"]);
const LISTING: Does = Does::Reads(&["management", "store"]);
const STORE: Does = Does::Reads(&["store"]);
/// It shows its plan and asks.
const ACTION: Does = Does::Changes(&["dry_run", "yes", "reason"]);
/// It is a service's, and does not ask.
const SERVICE: Does = Does::Changes(&["dry_run"]);
const CONFIGURED: Does = Does::Nothing { configured: true };
const ALONE: Does = Does::Nothing { configured: false };

/// Every command, as it is typed.
pub const COMMANDS: &[(&str, Does, Prints)] = &[
    ("attach", CONFIGURED, Prints::Text),
    ("publish", SERVICE, Prints::Facts),
    ("end", SERVICE, Prints::Facts),
    ("queues", ALL, Prints::Table),
    ("queue why", ALL, Prints::Facts),
    ("queue map", LISTING, Prints::Table),
    ("queue browse", Does::Reads(&["broker", "store"]), Prints::Table),
    ("queue pause", ACTION, Prints::Facts),
    ("queue resume", ACTION, Prints::Facts),
    ("queue purge", ACTION, Prints::Facts),
    ("queue delete", ACTION, Prints::Facts),
    ("queue rescue", ACTION, Prints::Facts),
    ("queue move", ACTION, Prints::Facts),
    ("queue skip", ACTION, Prints::Facts),
    ("endpoints", LISTING, Prints::Table),
    ("endpoint show", LISTING, Prints::Facts),
    ("endpoint test", ACTION, Prints::Facts),
    ("endpoint disable", ACTION, Prints::Facts),
    ("endpoint pace", ACTION, Prints::Facts),
    ("endpoint pause", ACTION, Prints::Facts),
    ("endpoint resume", ACTION, Prints::Facts),
    ("redeliver", ACTION, Prints::Table),
    ("retries", STORE, Prints::Table),
    ("rates", STORE, Prints::Table),
    ("event push", Does::Changes(&["dry_run", "reason"]), Prints::Facts),
    ("event list", STORE, Prints::Table),
    ("event show", STORE, Prints::Table),
    ("event search", STORE, Prints::Table),
    ("event counts", STORE, Prints::Table),
    ("event history", STORE, Prints::Table),
    ("event retry", ACTION, Prints::Table),
    ("event reschedule", ACTION, Prints::Table),
    ("event cancel", ACTION, Prints::Table),
    ("event process", SERVICE, Prints::Facts),
    ("event-type show", STORE, Prints::Table),
    ("event-type set", ACTION, Prints::Facts),
    ("subscription list", STORE, Prints::Table),
    ("subscription add", ACTION, Prints::Facts),
    ("subscription remove", ACTION, Prints::Facts),
    ("claim create", SERVICE, Prints::Table),
    ("claim renew", SERVICE, Prints::Table),
    ("claim release", SERVICE, Prints::Facts),
    ("claim done", SERVICE, Prints::Facts),
    ("attempts", STORE, Prints::Table),
    ("notification show", ALL, Prints::Facts),
    ("audit", STORE, Prints::Table),
    ("audit verify", STORE, Prints::Facts),
    ("rescued list", STORE, Prints::Table),
    ("rescued show", STORE, Prints::Facts),
    ("dead list", ALL, Prints::Table),
    ("dead groups", ALL, Prints::Table),
    ("dead queues", ALL, Prints::Table),
    ("dead show", ALL, Prints::Facts),
    ("dead compare", ALL, Prints::Table),
    ("dead export", ALL, Prints::Text),
    ("dead redrive", ACTION, Prints::Facts),
    ("dead discard", ACTION, Prints::Facts),
    ("dead restore", ACTION, Prints::Facts),
    ("dead edit", ACTION, Prints::Facts),
    ("dead patch", ACTION, Prints::Facts),
    ("run list", STORE, Prints::Table),
    ("run show", STORE, Prints::Table),
    ("run pause", ACTION, Prints::Facts),
    ("run resume", ACTION, Prints::Facts),
    ("run cancel", ACTION, Prints::Facts),
    ("expiring list", LISTING, Prints::Table),
    ("expiring save", ACTION, Prints::Table),
    ("expiring purge", ACTION, Prints::Table),
    ("expiring saves", STORE, Prints::Table),
    ("expiring restore", ACTION, Prints::Table),
    ("expiring extend", ACTION, Prints::Table),
    ("job submit", SERVICE, Prints::Facts),
    ("job connect", LISTING, Prints::Facts),
    ("job list", LISTING, Prints::Table),
    ("job publish", SERVICE, Prints::Facts),
    ("handover", ALL, Prints::Facts),
    ("theme list", ALONE, Prints::Table),
    ("theme check", ALONE, Prints::Table),
    ("doctor", ALL, Prints::Table),
    ("store adopt", ACTION, Prints::Facts),
    ("vhost make", ACTION, Prints::Facts),
    ("store backup", SERVICE, Prints::Facts),
    ("store restore", Does::Changes(&["dry_run", "yes"]), Prints::Facts),
    ("store copy", Does::Changes(&["dry_run", "yes"]), Prints::Facts),
    ("store migrate", SERVICE, Prints::Facts),
    ("alert test", Does::Changes(&["dry_run", "reason"]), Prints::Facts),
    ("policy show", STORE, Prints::Table),
    ("policy set", ACTION, Prints::Facts),
    ("policy unset", ACTION, Prints::Facts),
    ("policy history", STORE, Prints::Table),
    ("policy restore", ACTION, Prints::Facts),
    ("policy preview", STORE, Prints::Facts),
    ("queue-name", CONFIGURED, Prints::Facts),
    ("token", CONFIGURED, Prints::Facts),
    ("listen", ALONE, Prints::Facts),
    ("filters", ALONE, Prints::Text),
    ("config check", CONFIGURED, Prints::Facts),
    ("config print", CONFIGURED, Prints::Facts),
    ("config init", ALONE, Prints::Text),
    ("config schema", ALONE, Prints::Text),
    ("completions", ALONE, Prints::Text),
    ("man", ALONE, Prints::Text),
];

/// The command line with the help of each command as its row says.
pub(super) fn fitted(program: Command) -> Command {
    let of_all: Vec<Arg> = program
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .cloned()
        .collect();
    below(program, "", &of_all)
}

fn below(command: Command, path: &str, of_all: &[Arg]) -> Command {
    let row = COMMANDS.iter().find(|(name, ..)| *name == path);
    let unheeded = row.into_iter().flat_map(|(_, does, prints)| {
        let is_not = move |argument: &&Arg| !heeds(*does, *prints, argument.get_id().as_str());
        // Its own of the same name hides the one of every command.
        of_all.iter().filter(is_not).map(|argument| argument.clone().hide(true))
    });
    let before = if path.is_empty() {
        String::new()
    } else {
        format!("{path} ")
    };
    let examples = examples::page(path).map(|page| match command.get_after_help() {
        Some(said) => format!("{page}\n\n{said}"),
        None => page,
    });
    let command = match examples {
        Some(page) => command.after_help(page),
        None => command,
    };
    command.args(unheeded).mut_subcommands(|sub| {
        let path = format!("{before}{}", sub.get_name());
        below(sub, &path, of_all)
    })
}

/// Whether an option of every command says something to this one.
fn heeds(does: Does, prints: Prints, option: &str) -> bool {
    match option {
        "config" | "profile" | "broker" => does != ALONE,
        "read_only" => matches!(does, Does::Changes(_)),
        "dry_run" | "yes" | "reason" => matches!(does, Does::Changes(heeded) if heeded.contains(&option)),
        "columns" | "no_headers" => prints == Prints::Table,
        "json" | "color" => prints != Prints::Text,
        // How much is told.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::*;

    /// The commands that do something, each with how it is typed.
    fn walk<'a>(command: &'a Command, before: &str, all: &mut Vec<(String, &'a Command)>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let name = format!("{before}{}", sub.get_name());
            if !sub.is_subcommand_required_set() {
                all.push((name.clone(), sub));
            }
            walk(sub, &format!("{name} "), all);
        }
    }

    #[test]
    fn every_command_has_one_row() {
        let (program, mut all) = (Cli::command(), Vec::new());
        walk(&program, "", &mut all);
        let typed: BTreeSet<String> = all.into_iter().map(|(name, _)| name).collect();
        let said: BTreeSet<String> = COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
        assert_eq!(said, typed);
        assert_eq!(said.len(), COMMANDS.len(), "one row for each");
    }

    #[test]
    fn the_help_of_a_command_offers_what_it_heeds_of_the_options_of_all() {
        let mut program = Cli::arguments();
        program.build();
        let mut all = Vec::new();
        walk(&program, "", &mut all);
        for (name, command) in all {
            let offered: BTreeSet<&str> = command
                .get_arguments()
                .filter(|argument| argument.is_global_set() && !argument.is_hide_set())
                .map(|argument| argument.get_id().as_str())
                .collect();
            let (_, does, prints) = COMMANDS.iter().find(|(row, ..)| *row == name).unwrap();
            let asks = |option| offered.contains(option);
            assert_eq!(asks("columns"), *prints == Prints::Table, "{name}");
            assert_eq!(asks("json"), *prints != Prints::Text, "{name}");
            assert_eq!(asks("dry_run"), matches!(does, Does::Changes(_)), "{name}");
            assert_eq!(asks("config"), *does != ALONE, "{name}");
            assert!(asks("quiet") && asks("verbose"), "{name}");
        }
    }
}
