//! Files that somebody asked for: new ones, for their owner alone, whole or not at all.
//!
//! What is written may hold payloads and secrets, and directories may be shared: nothing that exists is
//! overwritten, and no link is followed at the last name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::ambient;

/// A file that is written beside its place and gets its name when it is whole. Dropped before that, it goes.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    unfinished: Unfinished,
    path: PathBuf,
}

impl NewFile {
    /// Begins the file that will be at `path`.
    ///
    /// # Errors
    /// Something is at `path` already (a link too, wherever it leads), or the directory does not take a file.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file"));
        }
        // Told before anything is written; that nothing is overwritten is up to `finish`.
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let beside = path.with_file_name(format!(".redrive-{}", ambient::new_id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        Ok(Self {
            file,
            unfinished: Unfinished(beside),
            path: path.to_owned(),
        })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Something took its place meanwhile, or it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        let beside = &self.unfinished.0;
        match renameat_with(CWD, beside, CWD, &self.path, RenameFlags::NOREPLACE) {
            // A file system that cannot rename so can still refuse a second name for what exists.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::hard_link(beside, &self.path),
            Err(Errno::EXIST) => Err(exists(&self.path)),
            renamed => Ok(renamed?),
        }
    }
}

fn exists(path: &Path) -> io::Error {
    let text = format!("{} exists already and is not overwritten", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The name that goes: with what was written, or, where the file has its own, alone.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a whole new file.
///
/// # Errors
/// Those of [`NewFile`].
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Makes a directory for its owner alone, with those above it; one that exists stays as it is.
///
/// # Errors
/// It cannot be made.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_private_and_there_only_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("export.csv");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"one").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(NewFile::create(&directory.path().join("left")).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_overwritten_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let exists = |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::write(at("kept"), "kept").unwrap();
        symlink(at("kept"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        for name in ["kept", "link", "dangling"] {
            exists(write_new(&at(name), b"new"));
        }
        let late = NewFile::create(&at("late")).unwrap();
        symlink(at("kept"), at("late")).unwrap();
        exists(late.finish());
        assert_eq!(fs::read(at("kept")).unwrap(), b"kept");
        assert!(!at("nowhere").exists());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_directory_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        make_directory(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
