//! What can be typed about the console's themes and the handover.

#![expect(clippy::doc_markdown, reason = "the comments are printed as they are")]

use clap::{Args, Subcommand};

/// What is done with themes.
#[derive(Debug, Subcommand)]
pub(super) enum ThemeCommand {
    /// List every theme: the program's own and those of $XDG_CONFIG_HOME/redrive/themes.
    List,
    /// Check theme files; without names every theme that there is. Exit code 78 when one cannot be used.
    Check {
        /// Names of themes, or paths of files that end with .toml.
        #[arg(value_name = "NAME|FILE")]
        themes: Vec<String>,
    },
}

/// What the next shift has to know.
#[derive(Debug, Args)]
pub(super) struct Handover {
    /// What was done since then: 30m, 8h, 2d.
    #[arg(long, value_name = "SPAN", default_value = "8h")]
    pub(super) since: String,
}
