//! What surrounds the process: its variables and its directories, taken once and handed in.

use std::collections::HashMap;
use std::path::PathBuf;

use etcetera::BaseStrategy;

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
        let directories = etcetera::base_strategy::Xdg::new().ok();
        Self {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            config_home: directories.as_ref().map(BaseStrategy::config_dir),
            data_home: directories.as_ref().map(BaseStrategy::data_dir),
            state_home: directories.as_ref().and_then(BaseStrategy::state_dir),
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
