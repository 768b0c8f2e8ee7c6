//! Writes a file that was asked for: a new one, for its owner alone.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::console::effect::{Content, SaveJob};
use crate::console::export;
use crate::domain::text::show;

/// Columns of a path and of an error that are shown.
const SHOWN_MAX: usize = 160;

/// The path that was written, or why it was not; both safe to show.
pub(super) fn write(job: &SaveJob) -> Result<String, String> {
    let path = show(&job.path.to_string_lossy(), SHOWN_MAX);
    let text = match &job.content {
        Content::Text(text) => text.clone(),
        Content::Records(records, form) => export::write(&**records, *form),
    };
    create(job, text.as_bytes()).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            format!("{path} exists already")
        } else {
            format!("{path}: {}", show(&error.to_string(), SHOWN_MAX))
        }
    })?;
    Ok(path)
}

fn create(job: &SaveJob, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&job.path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

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
