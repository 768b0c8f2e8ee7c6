//! Writes a file that was asked for: a new one, for its owner alone.

use std::io::{self, Write as _};
use std::path::Path;

use crate::console::state::effect::{Content, SaveJob};
use crate::console::table::export;
use crate::domain::text::show;
use crate::files;

/// Columns of a path and of an error that are shown.
const SHOWN_MAX: usize = 160;

/// The path that was written, or why it was not; both safe to show.
pub(super) fn write(job: &SaveJob) -> Result<String, String> {
    let path = show(&job.path.to_string_lossy(), SHOWN_MAX);
    let text = match &job.content {
        Content::Text(text) => text.clone(),
        Content::Records(records, form) => export::write(&**records, *form),
    };
    files::write_new(&job.path, text.as_bytes()).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            format!("{path} exists already")
        } else {
            format!("{path}: {}", show(&error.to_string(), SHOWN_MAX))
        }
    })?;
    Ok(path)
}

/// Writes what this user keeps in the place of what is there.
pub(super) fn keep(path: &Path, text: &str) -> Result<(), String> {
    let written = || -> io::Result<()> {
        if let Some(directory) = path.parent() {
            files::make_directory(directory)?;
        }
        let mut file = files::NewFile::replacing(path)?;
        file.write_all(text.as_bytes())?;
        file.replace()
    };
    written().map_err(|error| {
        let (path, why) = (path.to_string_lossy(), error.to_string());
        format!("{}: {}", show(&path, SHOWN_MAX), show(&why, SHOWN_MAX))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_kept_takes_the_place_of_what_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("redrive/views.toml");
        keep(&path, "one").unwrap();
        keep(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert!(keep(&path.join("beneath"), "no").is_err());
    }

    #[test]
    fn a_file_is_new_and_private_and_none_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("screen.txt");
        let job = SaveJob {
            path: path.clone(),
            content: Content::Text("one".to_owned()),
        };
        assert_eq!(write(&job), Ok(path.display().to_string()));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&job).unwrap_err().ends_with("exists already"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    }
}
