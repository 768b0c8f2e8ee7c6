//! Views that were given a name: which view, its filter, its order, its columns, in one line that can be shared.
//!
//! ```text
//! mornings = "queues; sort -depth; columns state, depth, name; filter state = parked and age > 2h"
//! ```
//!
//! The filter stands last, so that whatever it says needs no quotes. Those of the configuration are everybody's;
//! what `:save` keeps is this user's, in a file of the same form, and comes first where both have a name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::console::state::action::{Reason, no_list};
use crate::console::state::{State, View};
use crate::domain::filter::EXPRESSION_BYTES_MAX;
use crate::domain::nearest::nearest;
use crate::domain::text::show;

/// Names that are kept, at most.
pub const NAMES_MAX: usize = 100;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 40;
/// Bytes of a line.
const LINE_BYTES_MAX: usize = EXPRESSION_BYTES_MAX + 1_024;
/// Columns of what is shown of a line that is wrong.
const SHOWN_MAX: usize = 60;

/// The named views that a console begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedViews {
    /// Those of the configuration.
    pub configured: BTreeMap<String, String>,
    /// Those that this user kept.
    pub kept: BTreeMap<String, String>,
    /// Where they are kept; `None`: nowhere, they are gone at the end.
    pub file: Option<PathBuf>,
    /// The one to begin with.
    pub start: Option<String>,
}

impl NamedViews {
    /// The line of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.kept.get(name).or_else(|| self.configured.get(name));
        found.map(String::as_str)
    }

    /// Every name with its line.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&str, &str> {
        let both = self.configured.iter().chain(&self.kept);
        both.map(|(name, line)| (name.as_str(), line.as_str())).collect()
    }

    /// Whether the lines of the configuration and the view to begin with can be used.
    ///
    /// # Errors
    /// The first that cannot, with its name; safe to show.
    pub fn check(&self) -> Result<(), String> {
        for (name, line) in &self.configured {
            SavedView::read(line).map_err(|why| format!("console.views.{}: {why}", show(name, SHOWN_MAX)))?;
        }
        match &self.start {
            Some(start) if self.get(start).is_none() && view_named(start).is_none() => {
                let known = self.all().into_keys().chain(View::ALL.map(name_of));
                let meant = nearest(start, known).map_or_else(String::new, |name| format!("; perhaps {name}"));
                let start = show(start, SHOWN_MAX);
                Err(format!("console.start: there is no view {start:?}{meant}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The file of what was kept.
    #[must_use]
    pub fn written(&self) -> String {
        let mut page = String::from(FILE_BEGINS);
        for (name, line) in &self.kept {
            let _ = writeln!(page, "{} = {}", quoted(name), quoted(line));
        }
        page
    }
}

const FILE_BEGINS: &str = "\
# Views that `:save` in the console keeps. To share one, copy its line into [console.views] of the configuration.
[console.views]
";

/// As TOML writes a text on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A view as it was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedView {
    /// Which.
    pub view: View,
    /// The column that it is sorted by, with a minus where the other way round; `None`: as it opens.
    pub sort: Option<String>,
    /// The columns that are shown, in order; `None`: as it opens.
    pub columns: Option<Vec<String>>,
    /// Its filter; empty: none.
    pub filter: String,
}

impl SavedView {
    /// The view as it opens.
    const fn plain(view: View) -> Self {
        Self {
            view,
            sort: None,
            columns: None,
            filter: String::new(),
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it; safe to show.
    pub fn read(line: &str) -> Result<Self, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("is longer than {LINE_BYTES_MAX} bytes"));
        }
        let (name, mut rest) = line.split_once(';').unwrap_or((line, ""));
        let name = name.trim();
        let view = view_named(name).ok_or_else(|| {
            let known = View::ALL.map(name_of);
            format!("{:?} is no view: {}", show(name, SHOWN_MAX), known.join(", "))
        })?;
        let mut saved = Self::plain(view);
        while !rest.trim().is_empty() {
            rest = rest.trim_start();
            if let Some(filter) = rest.strip_prefix("filter ") {
                filter.trim().clone_into(&mut saved.filter);
                break;
            }
            let (part, behind) = rest.split_once(';').unwrap_or((rest, ""));
            match part.trim().split_once(' ') {
                Some(("sort", column)) => saved.sort = Some(column.trim().to_owned()),
                Some(("columns", names)) => {
                    saved.columns = Some(names.split(',').map(|name| name.trim().to_owned()).collect());
                }
                _ => {
                    let part = show(part.trim(), SHOWN_MAX);
                    return Err(format!(
                        "{part:?} is none of: sort COLUMN, columns NAME, NAME, filter EXPRESSION"
                    ));
                }
            }
            rest = behind;
        }
        Ok(saved)
    }

    /// What is in front.
    ///
    /// # Errors
    /// Why that cannot be saved.
    pub fn of(state: &State) -> Result<Self, Reason> {
        if !state.nav.details.is_empty() {
            return Err("a detail is open: Esc closes it".into());
        }
        let view = state.nav.view;
        let Some(list) = state.list() else {
            let has_no_rows = matches!(view, View::Overview | View::Log);
            return if has_no_rows {
                Ok(Self::plain(view))
            } else {
                Err(no_list(view))
            };
        };
        let sort = list.sorted_by().map(|(name, descending)| {
            let own = list.columns().into_iter().find(|column| column.name == name);
            let is_own = own.and_then(|column| column.sorted).unwrap_or(!descending);
            format!("{}{name}", if is_own { "" } else { "-" })
        });
        let shown = list.columns().into_iter().filter(|column| column.shown);
        let columns = list
            .is_arranged()
            .then(|| shown.map(|column| column.name.to_owned()).collect());
        Ok(Self {
            view,
            sort,
            columns,
            filter: list.filter().text.trim().to_owned(),
        })
    }

    /// The line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = name_of(self.view).to_owned();
        if let Some(sort) = &self.sort {
            let _ = write!(line, "; sort {sort}");
        }
        if let Some(columns) = &self.columns {
            let _ = write!(line, "; columns {}", columns.join(", "));
        }
        if !self.filter.is_empty() {
            let _ = write!(line, "; filter {}", self.filter);
        }
        line
    }

    /// Shows it; the list is to be arranged after.
    ///
    /// # Errors
    /// What of it the list does not have; the rest is shown.
    pub(in crate::console) fn show(&self, state: &mut State) -> Result<(), String> {
        state.go_to_top(self.view);
        let mut wrong = Vec::new();
        let Some(list) = state.list_mut() else {
            return Ok(());
        };
        let unknown = |name: &str| format!("no column is called {:?}", show(name, SHOWN_MAX));
        list.columns_reset();
        if let Some(columns) = &self.columns {
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            let missing = list.columns_show(&names);
            wrong.extend(missing.iter().map(|name| unknown(name)));
        }
        list.sort_as_opened();
        if let Some(sort) = &self.sort {
            let name = sort.strip_prefix('-').unwrap_or(sort);
            if !list.sort_by(name, sort.starts_with('-')) {
                wrong.push(unknown(name));
            }
        }
        list.filter_write(&self.filter);
        if !list.filter_keep() {
            let error = list.filter().error.as_ref().map(ToString::to_string);
            wrong.push(error.unwrap_or_else(|| "its filter cannot be read".to_owned()));
            list.filter_write("");
            list.filter_keep();
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        }
    }
}

/// Whether something can be kept under this name.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    let fine = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(fine) {
        return Err(format!(
            "a name has letters, digits, - and _, and at most {NAME_BYTES_MAX} bytes"
        ));
    }
    if view_named(name).is_some() {
        return Err(format!("{name} is a view of the console: take another name"));
    }
    Ok(())
}

/// The view of that name.
#[must_use]
pub fn view_named(name: &str) -> Option<View> {
    View::ALL.into_iter().find(|view| name_of(*view) == name)
}

/// As the action is called that goes there.
fn name_of(view: View) -> &'static str {
    view.screen().about().go.name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        for line in [
            "overview",
            "queues; filter state = parked; or what else",
            "queues; sort -depth; columns state, depth, name; filter name ~ \"a;b\"",
            "dead_letters; sort count",
        ] {
            assert_eq!(SavedView::read(line).unwrap().line(), line);
        }
        let loose = SavedView::read(" queues ;sort  depth;columns state,name ;filter  depth > 1 ").unwrap();
        assert_eq!(
            loose.line(),
            "queues; sort depth; columns state, name; filter depth > 1"
        );
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let error = SavedView::read("queue").unwrap_err();
        assert!(error.starts_with("\"queue\" is no view: overview, queues"), "{error}");
        let error = SavedView::read("queues; order depth").unwrap_err();
        assert!(error.starts_with("\"order depth\" is none of: sort"), "{error}");
        let views = NamedViews {
            configured: BTreeMap::from([("mine".to_owned(), "nowhere".to_owned())]),
            ..NamedViews::default()
        };
        let error = views.check().unwrap_err();
        assert!(
            error.starts_with("console.views.mine: \"nowhere\" is no view"),
            "{error}"
        );
        let views = NamedViews {
            start: Some("queue".to_owned()),
            ..NamedViews::default()
        };
        assert_eq!(
            views.check().unwrap_err(),
            "console.start: there is no view \"queue\"; perhaps queues"
        );
    }

    #[test]
    fn the_file_is_what_the_configuration_takes() {
        let line = "queues; filter name ~ \"a\\b\"";
        let views = NamedViews {
            kept: BTreeMap::from([("mornings".to_owned(), line.to_owned())]),
            ..NamedViews::default()
        };
        let read: toml::Table = toml::from_str(&views.written()).unwrap();
        assert_eq!(read["console"]["views"]["mornings"].as_str(), Some(line));
    }
}
