//! What a shell offers at Tab: the words of the program, and the names of queues, endpoints, groups of dead letters and
//! runs that there are.
//!
//! For names the program asks itself, read-only, with the configuration that was typed, and for a moment only: what cannot
//! be had in time is not offered. What a shell could take for more than a name is never offered.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, EnvCompleter as _, Fish, Zsh};
use clap_complete::{CompleteEnv, Shell};
use serde_json::Value;

use super::Exit;
use super::args::Cli;

/// The variable by which the scripts of the shells ask; not the usual `COMPLETE`, which others set for their own purposes.
pub(super) const VARIABLE: &str = "REDRIVE_COMPLETE";
const PROGRAM: &str = "redrive";
/// How long a person waits at Tab.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of an answer that are read.
const ANSWER_MAX: u64 = 4 * 1024 * 1024;

/// Bash takes the colon of a URL for the end of a word, unless it is told.
const BASH_WORDS: &str = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n";
/// A file that zsh reads at the first Tab has to answer that one, too.
const ZSH_FIRST: &str = "[[ ${funcstack[1]} != _redrive ]] || _clap_dynamic_completer_redrive \"$@\"\n";

/// Of what there are names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Queue,
    Endpoint,
    Group,
    Run,
}

impl Named {
    /// What an argument wants, if it is the name of something that is there.
    fn wanted_by(command: &str, argument: &clap::Arg) -> Option<Self> {
        let value = argument.get_value_names().and_then(|names| names.first());
        match (
            command,
            argument.get_id().as_str(),
            value.map(clap::builder::Str::as_str),
        ) {
            (_, "queue", _) | (_, _, Some("QUEUE" | "NAME|EXECUTION")) => Some(Self::Queue),
            (_, "url" | "urls", Some("URL")) => Some(Self::Endpoint),
            (_, "group", _) => Some(Self::Group),
            ("run", "id", _) => Some(Self::Run),
            _ => None,
        }
    }

    /// The command that lists them.
    const fn command(self) -> &'static [&'static str] {
        match self {
            Self::Queue => &["queues", "--limit", "1000"],
            Self::Endpoint => &["endpoints", "--limit", "1000"],
            Self::Group => &["dead", "groups", "--limit", "200"],
            Self::Run => &["run", "list", "--limit", "200"],
        }
    }

    /// The name and what to say beside it, from one item of that list.
    fn of(self, item: &Value) -> Option<(&str, String)> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let (key, help) = match self {
            Self::Queue => ("name", text("state").to_owned()),
            Self::Endpoint => ("url", text("state").to_owned()),
            Self::Group => (
                "fingerprint",
                format!("{} {} in {}", item["count"], text("what"), text("where")),
            ),
            Self::Run => ("id", format!("{}: {}", text("command"), text("state"))),
        };
        Some((item[key].as_str()?, help))
    }

    fn offered(self, current: &OsStr) -> Vec<CompletionCandidate> {
        let begun = current.to_str().unwrap_or_default();
        let items = answered(self.command()).unwrap_or_default();
        let named = items.iter().filter_map(|item| self.of(item));
        named
            .filter(|(name, _)| name.starts_with(begun) && is_a_word(name))
            .map(|(name, help)| CompletionCandidate::new(name).help(Some(super::output::shown(&help).into())))
            .collect()
    }
}

/// Whether every shell takes it for one word and nothing else.
fn is_a_word(name: &str) -> bool {
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-:/@%+=,".contains(c))
}

/// What a list command prints, as its items; `None` where it fails or takes too long.
fn answered(command: &[&str]) -> Option<Vec<Value>> {
    let mut program = Command::new(std::env::current_exe().ok()?);
    program
        .args(command)
        .args(["--json", "--read-only", "--quiet"])
        .args(configuration(std::env::args()));
    program.env_remove(VARIABLE);
    program
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = program.spawn().ok()?;
    let output = child.stdout.take()?;
    let (sender, read) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let done = output.take(ANSWER_MAX).read_to_end(&mut text);
        // Nobody listens any more where it took too long.
        let _ = sender.send(done.map(|_| text));
    });
    let text = read.recv_timeout(PATIENCE);
    if text.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    serde_json::from_slice(&text.ok()?.ok()?).ok()
}

/// Options that say which configuration and broker.
const WHICH: [&str; 3] = ["--config", "--profile", "--broker"];

/// Those of what is being typed.
fn configuration(typed: impl Iterator<Item = String>) -> Vec<String> {
    let mut chosen = Vec::new();
    let mut typed = typed.skip_while(|word| word != "--").skip(1);
    while let Some(word) = typed.next() {
        let is_one = |name: &str| word == name || word.starts_with(&format!("{name}="));
        if !WHICH.into_iter().any(is_one) {
            continue;
        }
        if word.contains('=') {
            chosen.push(word);
        } else {
            chosen.extend(typed.next().map(|value| format!("{word}={value}")));
        }
    }
    chosen
}

/// The program's arguments with the names that they want.
fn command() -> clap::Command {
    fn naming(command: clap::Command) -> clap::Command {
        let name = command.get_name().to_owned();
        naming_below(command, &name)
    }
    fn naming_below(command: clap::Command, group: &str) -> clap::Command {
        let command = command.mut_args(|argument| match Named::wanted_by(group, &argument) {
            Some(named) => argument.add(ArgValueCompleter::new(move |current: &OsStr| named.offered(current))),
            None => argument,
        });
        let at_top = group == PROGRAM;
        let group = group.to_owned();
        command.mut_subcommands(move |sub| if at_top { naming(sub) } else { naming_below(sub, &group) })
    }
    naming(Cli::arguments())
}

/// Answers a shell that asks at Tab, if one does.
pub(super) fn answer() -> Option<Exit> {
    std::env::var_os(VARIABLE)?;
    let environment = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin(PROGRAM)
        .completer(PROGRAM);
    let here = std::env::current_dir().ok();
    match environment.try_complete(std::env::args_os(), here.as_deref()) {
        Ok(answered) => answered.then_some(Exit::Done),
        Err(error) => {
            let _ = error.print();
            Some(Exit::Usage)
        }
    }
}

/// The script that a shell reads.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other shell has the words of the program alone"
)]
pub(super) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    match shell {
        Shell::Bash => {
            Bash.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
            script.extend(BASH_WORDS.bytes());
        }
        Shell::Zsh => {
            Zsh.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
            script.extend(ZSH_FIRST.bytes());
        }
        Shell::Fish => Fish.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?,
        other => clap_complete::generate(other, &mut Cli::arguments(), PROGRAM, &mut script),
    }
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(path: &[&str], argument: &str) -> Option<Named> {
        let mut whole = Cli::arguments();
        whole.build();
        let mut command = &whole;
        for name in path {
            command = command.find_subcommand(name).unwrap();
        }
        let found = command.get_arguments().find(|found| found.get_id() == argument);
        Named::wanted_by(path[0], found.unwrap())
    }

    #[test]
    fn an_argument_wants_names_of_its_kind() {
        for (path, argument, named) in [
            (&["queue", "why"][..], "name", Some(Named::Queue)),
            (&["queue", "move"], "to", Some(Named::Queue)),
            (&["attempts"], "queue", Some(Named::Queue)),
            (&["expiring", "save"], "queues", Some(Named::Queue)),
            (&["endpoint", "show"], "url", Some(Named::Endpoint)),
            (&["redeliver"], "urls", Some(Named::Endpoint)),
            (&["dead", "redrive"], "group", Some(Named::Group)),
            (&["run", "cancel"], "id", Some(Named::Run)),
            (&["dead", "show"], "id", None),
            (&["queues"], "limit", None),
        ] {
            assert_eq!(wanted(path, argument), named, "{path:?} {argument}");
        }
    }

    #[test]
    fn what_a_shell_could_run_is_no_word() {
        assert!(
            is_a_word("redrive.order-18.9bbb") && is_a_word("https://stock.example:8443/a,b?".trim_end_matches('?'))
        );
        for name in ["$(id)", "a b", "a;b", "`id`", "a&b", "*", "a'b", "ä", "a\nb"] {
            assert!(!is_a_word(name), "{name}");
        }
    }

    #[test]
    fn names_are_those_of_the_configuration_that_is_typed() {
        let typed = "redrive -- redrive --config a.toml queue why --profile=b --broker amqp://h --columns a".split(' ');
        let chosen = configuration(typed.map(str::to_owned));
        assert_eq!(chosen, ["--config=a.toml", "--profile=b", "--broker=amqp://h"]);
    }
}
