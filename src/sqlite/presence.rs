//! Whether the path still leads to the file, and to its log, that are open: a commit into a file that was deleted
//! or replaced is confirmed by SQLite and read by nobody again.
//!
//! Looked at before every commit, which waits for the disk anyway. Nothing is remembered of an answer: a file
//! that was moved away and comes back is written to again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::SqliteError;

/// A file, whatever its name: device and inode.
type Inode = (u64, u64);

/// The open files.
pub(super) struct Presence {
    files: [Open; 2],
}

struct Open {
    path: PathBuf,
    /// `None`: it was not there yet.
    inode: Option<Inode>,
}

impl Presence {
    /// Of the database at `path`, which was opened and read just now.
    pub(super) fn of_database(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self {
            files: [path.to_owned(), PathBuf::from(log)].map(|path| Open {
                inode: found(&path).ok(),
                path,
            }),
        }
    }

    /// The log may be a new one: it goes with its last connection.
    pub(super) fn forget_log(&mut self) {
        self.files[1].inode = None;
    }

    /// Refuses when one of them is no longer what its path leads to. What cannot be told is no refusal.
    pub(super) fn check(&mut self) -> Result<(), SqliteError> {
        for open in &mut self.files {
            let fate = match (open.inode, found(&open.path)) {
                (Some(known), Ok(now)) if known == now => continue,
                (Some(_), Ok(_)) => "replaced",
                (Some(_), Err(error)) if error.kind() == std::io::ErrorKind::NotFound => "deleted",
                (Some(_), Err(_)) => continue,
                (None, now) => {
                    open.inode = now.ok();
                    continue;
                }
            };
            return Err(SqliteError::Displaced {
                path: open.path.clone(),
                fate,
            });
        }
        Ok(())
    }
}

fn found(path: &Path) -> std::io::Result<Inode> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}
