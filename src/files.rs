//! Files that somebody asked for: new ones, for their owner alone, whole or not at all.
//!
//! What is written may hold payloads and secrets, and directories may be shared: nothing that exists is
//! overwritten but where that is what was asked for, and no link is followed at the last name. And the other way round: who else could read or write what
//! is read as this user's own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::ambient;

/// `open` does not follow a link at the last name.
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
/// A secret is read up to this many bytes.
const SECRET_BYTES_MAX: u64 = 4096;

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
        Self::replacing(path)
    }

    /// Begins the file that will be at `path` in the place of what is there.
    ///
    /// # Errors
    /// The directory does not take a file.
    pub fn replacing(path: &Path) -> io::Result<Self> {
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

    /// Where it is until it has its name, for others who write it.
    #[must_use]
    pub fn beside(&self) -> &Path {
        &self.unfinished.0
    }

    /// Takes the place of what is at its path, in one step that survives power loss.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn replace(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.unfinished.0, &self.path)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
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
        // With what SQLite leaves beside a file that it could not finish.
        for beside in ["", "-journal", "-wal", "-shm"] {
            let mut name = self.0.clone().into_os_string();
            name.push(beside);
            let _ = fs::remove_file(name);
        }
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

/// Writes a file for its owner alone in the place of what is there.
///
/// # Errors
/// Those of [`NewFile`].
pub fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NewFile::replacing(path)?;
    file.write_all(bytes)?;
    file.replace()
}

/// Makes a directory for its owner alone, with those above it; one that exists stays as it is.
///
/// # Errors
/// It cannot be made.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A socket that only this user can open. What an earlier process left there is replaced.
///
/// # Errors
/// Something else is there, somebody listens there, or it cannot be made.
pub fn private_socket(path: &Path) -> io::Result<UnixListener> {
    match path.symlink_metadata() {
        Ok(about) if !about.file_type().is_socket() => return Err(exists(path)),
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens there",
            ));
        }
        _ => {}
    }
    // Nobody can open it by a name before it is private.
    let directory = path.with_file_name(format!(".redrive-{}", ambient::new_id()));
    make_directory(&directory)?;
    let made = || {
        let beside = directory.join("socket");
        let listener = UnixListener::bind(&beside)?;
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&beside, path)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = made();
    let _ = fs::remove_dir_all(&directory);
    listener
}

/// A secret that this user made for himself; none where it was not made yet.
///
/// # Errors
/// It cannot be read, or others can.
pub fn own_secret(path: &Path) -> io::Result<Option<String>> {
    secret_of(path, |owner, user| owner == user)
}

/// The same of a secret that is only shown to a daemon: nothing is run by it, and the superuser has that of any user, such as
/// the one that systemd makes for the service.
///
/// # Errors
/// Those of [`own_secret`].
pub fn shown_secret(path: &Path) -> io::Result<Option<String>> {
    secret_of(path, |owner, user| owner == user || user == 0)
}

fn secret_of(path: &Path, may_have: impl Fn(u32, u32) -> bool) -> io::Result<Option<String>> {
    let mut file = match OpenOptions::new().read(true).custom_flags(NO_LINK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    if !may_have(about.uid(), rustix::process::getuid().as_raw()) || about.mode() & 0o077 != 0 {
        let text = "it must belong to this user, and nobody else may read or write it (chmod 600)";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let mut text = String::new();
    io::Read::by_ref(&mut file)
        .take(SECRET_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(Some(text.trim_end().to_owned()))
}

/// The same; what is not there is made.
///
/// # Errors
/// Those of [`own_secret`], and it cannot be written.
pub fn made_secret(path: &Path) -> io::Result<String> {
    if let Some(secret) = own_secret(path)? {
        return Ok(secret);
    }
    if let Some(directory) = path.parent() {
        make_directory(directory)?;
    }
    match write_new(path, new_secret()?.as_bytes()) {
        // Another process of this user was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        written => written?,
    }
    own_secret(path)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A new one, of 256 random bits.
pub fn new_secret() -> io::Result<String> {
    let mut random = [0; 32];
    let mut filled = 0;
    // By the system call: an image may have no /dev.
    while filled < random.len() {
        filled += getrandom(&mut random[filled..], GetRandomFlags::empty())?;
    }
    Ok(URL_SAFE_NO_PAD.encode(random))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        let left = NewFile::create(&directory.path().join("left")).unwrap();
        let mut journal = left.beside().to_owned().into_os_string();
        journal.push("-journal");
        fs::write(journal, "of SQLite").unwrap();
        drop(left);
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
    fn a_secret_is_made_once_and_is_read_only_while_nobody_else_can() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("redrive/api-token");
        assert_eq!(own_secret(&path).unwrap(), None);
        let made = made_secret(&path).unwrap();
        assert_eq!((made.len(), path.metadata().unwrap().mode() & 0o777), (43, 0o600));
        assert_eq!(made_secret(&path).unwrap(), made);
        // Only root gives files away.
        if std::os::unix::fs::chown(&path, Some(61_184), None).is_ok() {
            assert_eq!(own_secret(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(shown_secret(&path).unwrap(), Some(made));
            std::os::unix::fs::chown(&path, Some(rustix::process::getuid().as_raw()), None).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(own_secret(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(shown_secret(&path).is_err());
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        made_secret(&path).unwrap_err();
    }

    #[test]
    fn a_directory_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        make_directory(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
