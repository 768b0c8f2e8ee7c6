//! Where a SQLite file may be: created for its owner only before SQLite sees it, refused when it is
//! somebody else's or leads elsewhere.
//!
//! SQLite gives its write-ahead log and shared memory the mode of the file itself, so one mode is enough.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::SqliteError;

/// Makes sure that a regular file of ours is at `path`.
pub(super) fn prepare(path: &Path) -> Result<(), SqliteError> {
    let unusable = |problem: String| unusable(path, problem);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|error| unusable(format!("is in a directory that cannot be made: {error}")))?;
    }
    match create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unusable(format!("cannot be created: {error}"))),
    }
    inspect(path)
}

fn unusable(path: &Path, problem: String) -> SqliteError {
    SqliteError::Unusable {
        path: path.to_owned(),
        problem,
    }
}

/// Refuses what is at `path` when it is no regular file of ours.
pub(super) fn inspect(path: &Path) -> Result<(), SqliteError> {
    let unusable = |problem: String| unusable(path, problem);
    let found = fs::symlink_metadata(path).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    if found.file_type().is_symlink() {
        return Err(unusable("is a symbolic link: name the file itself".to_owned()));
    }
    if !found.is_file() {
        return Err(unusable("is not a file".to_owned()));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(unusable(
            "belongs to another user: run as its owner (Commands beside the service in docs/operations.md says how), or name \
             another file"
                .to_owned(),
        ));
    }
    if found.mode() & 0o077 != 0 {
        tracing::warn!(path = ?path, "the SQLite file can be read by other users: chmod 600");
    }
    Ok(())
}

/// An empty file is a valid database. `create_new` follows no link; the mode is set once more because
/// a umask can only take bits away.
fn create(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

/// Whether this process has the file open. Where that cannot be seen it counts as not.
pub(super) fn is_open_here(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let Ok(open) = fs::read_dir("/proc/self/fd") else {
        return false;
    };
    open.flatten()
        .filter_map(|one| fs::metadata(one.path()).ok())
        .any(|one| (one.dev(), one.ino()) == (file.dev(), file.ino()))
}

/// Whether the file has its write-ahead log beside it.
pub(super) fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Path::new(&log).exists()
}
