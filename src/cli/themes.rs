//! Prints what was found of themes; reading them is the console's, and calling it is `app`'s.

use schemars::JsonSchema;
use serde::Serialize;

use super::args::{Cli, Sub};
use super::console_args::ThemeCommand;
use super::exit::{Exit, Failure};
use super::output::{Column, Output, or_dash, say, shown};

/// What is asked about themes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThemesAsked {
    /// Which there are.
    List,
    /// Whether these can be used; all of them when none is named.
    Check(Vec<String>),
}

/// A theme as it was found.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ThemeFound {
    /// Its name, or the file.
    pub name: String,
    /// Where it comes from: `redrive`, or the file.
    pub source: String,
    /// `16` or `true colour`; none where it cannot be used.
    pub colours: Option<&'static str>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

const COLUMNS: &[Column] = &[Column::Text("theme"), Column::Text("colours"), Column::Text("from")];

impl Cli {
    /// What is asked about themes, when that is what was asked.
    #[must_use]
    pub fn themes(&self) -> Option<ThemesAsked> {
        match &self.command {
            Some(Sub::Theme(ThemeCommand::List)) => Some(ThemesAsked::List),
            Some(Sub::Theme(ThemeCommand::Check { themes })) => Some(ThemesAsked::Check(themes.clone())),
            Some(_) | None => None,
        }
    }
}

/// Prints them; one that cannot be used is an invalid configuration.
pub fn print_themes(cli: &Cli, themes: &[ThemeFound]) -> Result<Exit, Failure> {
    Output::new(&cli.global).list(themes, COLUMNS, |theme| {
        vec![theme.name.clone(), or_dash(theme.colours), theme.source.clone()]
    })?;
    // In full, which a cell would not be.
    for problem in themes.iter().filter_map(|theme| theme.problem.as_deref()) {
        say(&shown(problem));
    }
    let broken = themes.iter().any(|theme| theme.problem.is_some());
    Ok(if broken { Exit::Configuration } else { Exit::Done })
}
