//! What surrounds the process: its variables and its directories, taken once and handed in.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;

/// Variables and directories.
#[derive(Clone, Default)]
pub struct Environment {
    /// Variables; those that are not UTF-8 are not there.
    pub variables: HashMap<String, String>,
    /// `$XDG_CONFIG_HOME`, or what stands for it.
    pub config_home: Option<PathBuf>,
    /// `$XDG_DATA_HOME`, or what stands for it.
    pub data_home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`, or what stands for it.
    pub state_home: Option<PathBuf>,
}

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let home = Xdg::new().ok();
        let variable = |name| std::env::var_os(name);
        let directory = |name, at_home: fn(&Xdg) -> Option<PathBuf>| named(variable(name), || at_home(home.as_ref()?));
        Self {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            config_home: directory("XDG_CONFIG_HOME", |home| Some(home.config_dir())),
            data_home: directory("XDG_DATA_HOME", |home| Some(home.data_dir())),
            state_home: directory("XDG_STATE_HOME", BaseStrategy::state_dir),
        }
    }

    /// The configuration that is read where none is named.
    #[must_use]
    pub fn usual_config(&self) -> Option<PathBuf> {
        let home = self.config_home.as_ref()?;
        Some(home.join("redrive").join("config.toml"))
    }

    /// A variable; one that is empty counts as not set.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

/// A directory that a variable names needs no home directory. One that is not absolute counts as not set.
fn named(variable: Option<OsString>, at_home: impl FnOnce() -> Option<PathBuf>) -> Option<PathBuf> {
    let named = variable.map(PathBuf::from).filter(|named| named.is_absolute());
    named.or_else(at_home)
}

/// Only names: values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut names: Vec<&String> = self.variables.keys().collect();
        names.sort();
        formatter
            .debug_struct("Environment")
            .field("variables", &names)
            .field("config_home", &self.config_home)
            .field("data_home", &self.data_home)
            .field("state_home", &self.state_home)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_named_needs_no_home() {
        let check = |variable: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            let found = named(variable.map(OsString::from), || home.map(PathBuf::from));
            assert_eq!(found, expected.map(PathBuf::from), "{variable:?} {home:?}");
        };
        check(Some("/var/lib"), None, Some("/var/lib"));
        check(Some("/var/lib"), Some("/srv/ana"), Some("/var/lib"));
        for unset in [None, Some(""), Some("relative")] {
            check(unset, Some("/srv/ana"), Some("/srv/ana"));
            check(unset, None, None);
        }
    }
}
