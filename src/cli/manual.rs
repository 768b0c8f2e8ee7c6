//! Pages of the manual: of the program, and of each command.

use std::io;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::args::Cli;
use super::examples;
use super::exit::{Exit, Failure};
use super::output::{print, shown};

/// What the program takes from its environment, for those who type (docs/contract.md has all).
pub const VARIABLES: &[(&str, &str)] = &[
    ("REDRIVE_CONFIG", "the configuration, where `--config` names none"),
    ("REDRIVE_STORE_URL", "instead of `store.url`"),
    ("REDRIVE_BROKER_URL", "instead of `broker.url`"),
    ("REDRIVE_MANAGEMENT_URL", "instead of `broker.management_url`"),
    (
        "REDRIVE_API_TOKEN",
        "instead of `api.tokens`: one token with the scope `admin`",
    ),
    (
        "REDRIVE_LOG",
        "what is logged: `info`, `redrive=debug`; the console logs only where it is set",
    ),
    ("REDRIVE_LOG_FORMAT", "`json` for programs; lines for people without"),
    ("XDG_CONFIG_HOME", "where the configuration and themes are looked for"),
    ("XDG_DATA_HOME", "where embedded stores and the made token are kept"),
    ("NO_COLOR", "no colours, where it is not empty"),
    ("VISUAL", "the editor for payloads"),
    ("EDITOR", "the same, where `VISUAL` is not set"),
];

const FILES: &[(&str, &str)] = &[
    (
        "$XDG_CONFIG_HOME/redrive/config.toml",
        "the configuration, by default in ~/.config; `redrive config init` prints one that says what each key means",
    ),
    ("$XDG_CONFIG_HOME/redrive/themes/NAME.toml", "themes of the console"),
    (
        "$XDG_DATA_HOME/redrive/",
        "embedded stores, and the token that a daemon made; by default in ~/.local/share",
    ),
];

/// Prints one page, or writes a file for every command.
pub(super) fn manual(of: &[String], out: Option<&Path>) -> Result<Exit, Failure> {
    let mut whole = Cli::arguments().disable_help_subcommand(true);
    whole.build();
    let help = whole.get_after_help().map(ToString::to_string).unwrap_or_default();
    if let Some(out) = out {
        write_all(&whole, "", &help, out).map_err(|error| {
            let why = format!("{}: pages cannot be written: {error}", out.display());
            Failure::new(Exit::Failed, why)
        })?;
        return Ok(Exit::Done);
    }
    let mut command = &whole;
    for name in of {
        let unknown = || {
            let why = format!("{:?} is no command; `redrive help` lists them", shown(&of.join(" ")));
            Failure::new(Exit::Usage, why)
        };
        command = command.find_subcommand(name).ok_or_else(unknown)?;
    }
    print(&page(command, &of.join(" "), &help)?)?;
    Ok(Exit::Done)
}

fn write_all(command: &clap::Command, path: &str, help: &str, out: &Path) -> io::Result<()> {
    let name = Man::new(command.clone()).get_filename();
    std::fs::write(out.join(name), page(command, path, help)?)?;
    for sub in command.get_subcommands() {
        let below = format!("{path} {}", sub.get_name());
        write_all(sub, below.trim_start(), help, out)?;
    }
    Ok(())
}

/// `help` is what the help of the program ends with: examples, and the exit codes of every command.
fn page(command: &clap::Command, path: &str, help: &str) -> io::Result<Vec<u8>> {
    let (man, mut page) = (Man::new(command.clone()), Vec::new());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::default();
    let (usual, codes) = help.split_once("Exit codes:").unwrap_or((help, ""));
    match (path, examples::page(path)) {
        ("", _) => lines(&mut roff, "EXAMPLES", usual.split_once('\n').unwrap_or_default().1),
        (_, Some(own)) => lines(&mut roff, "EXAMPLES", own.split_once('\n').unwrap_or_default().1),
        (_, None) => {}
    }
    if path == "filters" {
        lines(&mut roff, "FILTERS", &super::filters::page());
    }
    roff.control("SH", ["EXIT STATUS"]);
    for code in codes.trim().trim_end_matches('.').split(',') {
        let (number, meaning) = code.trim().split_once(char::is_whitespace).unwrap_or((code, ""));
        entry(&mut roff, number, &meaning.replace('\n', " "));
    }
    if path.is_empty() {
        roff.control("SH", ["ENVIRONMENT"]);
        for (name, says) in VARIABLES {
            entry(&mut roff, name, &says.replace('`', ""));
        }
        roff.control("SH", ["FILES"]);
        for (name, says) in FILES {
            entry(&mut roff, name, &says.replace('`', ""));
        }
    }
    roff.to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Lines as they are typed.
fn lines(roff: &mut Roff, title: &str, text: &str) {
    roff.control("SH", [title]);
    roff.control("nf", []);
    for line in text.trim_end().lines().filter(|line| !line.is_empty()) {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}

fn entry(roff: &mut Roff, name: &str, says: &str) {
    roff.control("TP", []);
    roff.text([bold(name)]);
    roff.text([roman(says)]);
}
