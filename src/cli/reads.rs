//! What each command is answered from, beside what it is: what of it cannot be read makes it end with 69, or is told
//! as a problem on standard error.

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Looks, and is answered from these: `broker`, `management`, `store`.
    Reads(&'static [&'static str]),
    /// Changes something, or waits for something to happen.
    Changes,
    /// Needs neither broker nor store.
    Nothing,
}

const ALL: Does = Does::Reads(&["broker", "management", "store"]);
const LISTING: Does = Does::Reads(&["management", "store"]);
const STORE: Does = Does::Reads(&["store"]);

/// Every command, as it is typed.
pub const COMMANDS: &[(&str, Does)] = &[
    ("attach", Does::Nothing),
    ("publish", Does::Changes),
    ("end", Does::Changes),
    ("queues", ALL),
    ("queue why", ALL),
    ("queue browse", Does::Reads(&["broker", "store"])),
    ("queue pause", Does::Changes),
    ("queue resume", Does::Changes),
    ("queue purge", Does::Changes),
    ("queue delete", Does::Changes),
    ("queue rescue", Does::Changes),
    ("queue move", Does::Changes),
    ("queue skip", Does::Changes),
    ("endpoints", LISTING),
    ("endpoint show", LISTING),
    ("endpoint test", Does::Changes),
    ("endpoint disable", Does::Changes),
    ("redeliver", Does::Changes),
    ("retries", STORE),
    ("event push", Does::Changes),
    ("event list", STORE),
    ("event show", STORE),
    ("event search", STORE),
    ("event counts", STORE),
    ("event retry", Does::Changes),
    ("event reschedule", Does::Changes),
    ("event cancel", Does::Changes),
    ("event process", Does::Changes),
    ("event-type show", STORE),
    ("event-type set", Does::Changes),
    ("subscription list", STORE),
    ("subscription add", Does::Changes),
    ("subscription remove", Does::Changes),
    ("claim create", Does::Changes),
    ("claim renew", Does::Changes),
    ("claim release", Does::Changes),
    ("claim done", Does::Changes),
    ("attempts", STORE),
    ("audit", STORE),
    ("audit verify", STORE),
    ("dead list", ALL),
    ("dead groups", ALL),
    ("dead queues", ALL),
    ("dead show", ALL),
    ("dead export", ALL),
    ("dead redrive", Does::Changes),
    ("dead discard", Does::Changes),
    ("dead restore", Does::Changes),
    ("dead edit", Does::Changes),
    ("run list", STORE),
    ("run show", STORE),
    ("run pause", Does::Changes),
    ("run resume", Does::Changes),
    ("run cancel", Does::Changes),
    ("expiring list", LISTING),
    ("expiring save", Does::Changes),
    ("expiring purge", Does::Changes),
    ("expiring saves", STORE),
    ("expiring restore", Does::Changes),
    ("expiring extend", Does::Changes),
    ("job submit", Does::Changes),
    ("job connect", LISTING),
    ("job list", LISTING),
    ("job publish", Does::Changes),
    ("handover", ALL),
    ("theme list", Does::Nothing),
    ("theme check", Does::Nothing),
    ("doctor", ALL),
    ("store adopt", Does::Changes),
    ("vhost make", Does::Changes),
    ("store backup", Does::Changes),
    ("store restore", Does::Changes),
    ("store copy", Does::Changes),
    ("store migrate", Does::Changes),
    ("alert test", Does::Changes),
    ("policy show", STORE),
    ("policy set", Does::Changes),
    ("policy unset", Does::Changes),
    ("policy history", STORE),
    ("policy restore", Does::Changes),
    ("policy preview", STORE),
    ("queue-name", Does::Nothing),
    ("token", Does::Nothing),
    ("listen", Does::Nothing),
    ("filters", Does::Nothing),
    ("config check", Does::Nothing),
    ("config print", Does::Nothing),
    ("config init", Does::Nothing),
    ("config schema", Does::Nothing),
    ("completions", Does::Nothing),
    ("man", Does::Nothing),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::COMMANDS;

    fn typed(command: &clap::Command, before: &str, all: &mut BTreeSet<String>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let name = format!("{before}{}", sub.get_name());
            if !sub.is_subcommand_required_set() {
                all.insert(name.clone());
            }
            typed(sub, &format!("{name} "), all);
        }
    }

    #[test]
    fn it_is_said_of_every_command_what_it_is_answered_from() {
        let mut all = BTreeSet::new();
        typed(&Cli::command(), "", &mut all);
        let said: BTreeSet<String> = COMMANDS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(said, all);
        assert_eq!(said.len(), COMMANDS.len(), "one row for each");
    }
}
