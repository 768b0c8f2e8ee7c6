//! Where themes come from: those of the program, and the files of the person who runs it.
//!
//! Reading happens here and is bounded; what a file means is decided without it, and only for the
//! theme that is asked for, so that a broken file nobody uses stops nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use etcetera::BaseStrategy as _;
use ratatui::style::Style;

use super::error::ThemeError;
use super::file::{self, ThemeFile};
use super::{Role, Theme};
use crate::domain::nearest::nearest;
use crate::domain::text::show;

/// A theme file has at most this many bytes.
pub const FILE_BYTES_MAX: usize = 64 * 1024;
/// Files that are read from a directory, at most.
pub(super) const FILES_MAX: usize = 100;
/// Columns of a name in an error.
const SHOWN_MAX: usize = 80;

/// The program's own, by name.
const BUILTIN: &[(&str, &str)] = &[
    ("ansi16", include_str!("../../../themes/ansi16.toml")),
    ("ascii", include_str!("../../../themes/ascii.toml")),
    ("colour_blind", include_str!("../../../themes/colour_blind.toml")),
    ("dark", include_str!("../../../themes/dark.toml")),
    ("dracula", include_str!("../../../themes/dracula.toml")),
    ("gruvbox", include_str!("../../../themes/gruvbox.toml")),
    ("high_contrast", include_str!("../../../themes/high_contrast.toml")),
    ("light", include_str!("../../../themes/light.toml")),
    ("nord", include_str!("../../../themes/nord.toml")),
    ("solarized_dark", include_str!("../../../themes/solarized_dark.toml")),
    ("solarized_light", include_str!("../../../themes/solarized_light.toml")),
];

/// The texts of all themes.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// By name: the file as errors call it, and its text or why there is none.
    files: BTreeMap<String, (String, Result<String, String>)>,
}

impl Sources {
    /// Those of the program alone.
    #[must_use]
    pub fn builtin() -> Self {
        Self::default()
    }

    /// Adds the text of a file, which goes before the program's own theme of that name.
    pub fn add(&mut self, name: &str, file: &str, text: Result<String, String>) {
        self.files.insert(name.to_owned(), (file.to_owned(), text));
    }

    /// Those of the program and of `$XDG_CONFIG_HOME/redrive/themes`.
    #[must_use]
    pub fn of_user() -> Self {
        match etcetera::base_strategy::Xdg::new() {
            Ok(directories) => Self::read(&directories.config_dir().join("redrive").join("themes")),
            Err(_) => Self::builtin(),
        }
    }

    /// Reads every `NAME.toml` in `directory`; a directory that is not there has none.
    #[must_use]
    pub fn read(directory: &Path) -> Self {
        let mut sources = Self::builtin();
        let Ok(entries) = std::fs::read_dir(directory) else {
            return sources;
        };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()).take(FILES_MAX) {
            let toml = path.extension().is_some_and(|extension| extension == "toml");
            if let (true, Some(name)) = (toml, path.file_stem().and_then(|stem| stem.to_str())) {
                sources.add(name, &path.to_string_lossy(), read_bounded(&path));
            }
        }
        sources
    }

    /// Adds a file that is named by its path, under the name that it would have; `None`: it is no such path.
    pub fn add_file(&mut self, path: &Path) -> Option<String> {
        let is_path = path.extension().is_some_and(|extension| extension == "toml");
        let name = path.file_stem().filter(|_| is_path)?.to_str()?.to_owned();
        self.add(&name, &path.to_string_lossy(), read_bounded(path));
        Some(name)
    }

    /// Where the theme of that name comes from: the program, or a file; safe to show.
    #[must_use]
    pub fn origin(&self, name: &str) -> String {
        match self.files.get(name) {
            Some((file, _)) => show(file, SHOWN_MAX),
            None => "redrive".to_owned(),
        }
    }

    /// The name of each.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let own = self.files.keys().map(String::as_str);
        let names: BTreeSet<&str> = BUILTIN.iter().map(|(name, _)| *name).chain(own).collect();
        names.into_iter().map(|name| show(name, SHOWN_MAX)).collect()
    }

    /// The theme of that name, with everything that it inherits.
    ///
    /// # Errors
    /// No such theme, with the nearest name; or what is wrong with its file, or with one it inherits from.
    pub fn find(&self, name: &str) -> Result<Theme, ThemeError> {
        let mut styles = BTreeMap::new();
        let mut ascii = None;
        let mut seen = BTreeSet::new();
        let mut next = Some((name.to_owned(), None));
        while let Some((name, heir)) = next {
            let again = seen.contains(&(name.clone(), true));
            let own = !again && self.files.contains_key(&name);
            if again && !is_builtin(&name) {
                let file = heir.unwrap_or(name);
                return Err(whole_file(
                    &file,
                    "inherits from itself; let it inherit from dark".to_owned(),
                ));
            }
            let (file, parsed) = self.parse(&name, own, heir.as_deref())?;
            if !seen.insert((name.clone(), own)) {
                return Err(whole_file(
                    &file,
                    "inherits from itself; let it inherit from dark".to_owned(),
                ));
            }
            ascii = ascii.or(parsed.ascii);
            for (role, style) in parsed.styles {
                styles.entry(role).or_insert(style);
            }
            next = parsed.inherits.map(|parent| (parent, Some(file)));
        }
        Ok(Theme {
            ascii: ascii.unwrap_or(false),
            ..Theme::new(name, |role| look_up(&styles, role))
        })
    }

    fn parse(&self, name: &str, own: bool, heir: Option<&str>) -> Result<(String, ThemeFile), ThemeError> {
        if own && let Some((file, text)) = self.files.get(name) {
            let text = text.as_ref().map_err(|problem| whole_file(file, problem.clone()))?;
            return Ok((file.clone(), file::parse(file, text)?));
        }
        let Some((_, text)) = BUILTIN.iter().find(|(builtin, _)| *builtin == name) else {
            return Err(self.unknown(name, heir));
        };
        let file = format!("themes/{name}.toml");
        let parsed = file::parse(&file, text)?;
        Ok((file, parsed))
    }

    fn unknown(&self, name: &str, heir: Option<&str>) -> ThemeError {
        let known: BTreeSet<&str> = BUILTIN
            .iter()
            .map(|(name, _)| *name)
            .chain(self.files.keys().map(String::as_str))
            .collect();
        let nearest = nearest(name, known.iter().copied()).map(|name| show(name, SHOWN_MAX));
        match heir {
            Some(file) => ThemeError::File {
                file: show(file, SHOWN_MAX),
                field: "inherits".to_owned(),
                problem: format!("is {:?}, and there is no such theme", show(name, SHOWN_MAX)),
                nearest,
            },
            None => ThemeError::Unknown {
                name: show(name, SHOWN_MAX),
                nearest,
                known: show(&known.into_iter().collect::<Vec<_>>().join(", "), 4 * SHOWN_MAX),
            },
        }
    }
}

fn is_builtin(name: &str) -> bool {
    BUILTIN.iter().any(|(builtin, _)| *builtin == name)
}

fn look_up(styles: &BTreeMap<Role, Style>, role: Role) -> Style {
    let mut role = Some(role);
    while let Some(one) = role {
        if let Some(style) = styles.get(&one) {
            return *style;
        }
        role = one.fallback();
    }
    Style::new()
}

fn whole_file(file: &str, problem: String) -> ThemeError {
    ThemeError::File {
        file: show(file, SHOWN_MAX),
        field: String::new(),
        problem,
        nearest: None,
    }
}

/// Only what is a file once links are followed: a pipe would never end.
fn read_bounded(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {}", show(&error.to_string(), SHOWN_MAX));
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is no file".to_owned());
    }
    let mut text = String::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(path)
        .map_err(unreadable)?
        .take(limit)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}
