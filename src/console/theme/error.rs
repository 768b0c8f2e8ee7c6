//! What is wrong with a theme, where, and how to mend it.

/// Why there is no such theme. Everything in it is safe to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// No theme has this name.
    #[error("there is no theme {name:?}{}; themes are {known}", meant(nearest.as_deref()))]
    Unknown {
        /// As asked for.
        name: String,
        /// The one that was probably meant.
        nearest: Option<String>,
        /// The names of all.
        known: String,
    },
    /// A theme's file cannot be used.
    #[error("theme file {file}: {field}{}{problem}{}", gap(field), meant(nearest.as_deref()))]
    File {
        /// Which file.
        file: String,
        /// The field, dotted; empty: the file as a whole.
        field: String,
        /// What is wrong and how it must be.
        problem: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest
        .map(|nearest| format!(" (did you mean {nearest:?}?)"))
        .unwrap_or_default()
}

const fn gap(field: &str) -> &'static str {
    if field.is_empty() { "" } else { " " }
}
