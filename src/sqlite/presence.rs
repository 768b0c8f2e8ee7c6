//! Whether the path still leads to the file, and to its log, that are open, and whether the file is still what it was: a
//! commit into a file that was deleted, replaced or written over is confirmed by SQLite and read by nobody again.
//!
//! Looked at before every commit, which waits for the disk anyway. Nothing is remembered of an answer: a file
//! that was moved away and comes back is written to again.
//!
//! A file that is written over (`cp`) stays the same file. It never shrinks under us, and what is in it only goes forward:
//! whenever its size or its time changed, which its own checkpoints do too, its identity is read past our connections,
//! which have most of it in memory and in the log. That is done by SQLite and not by a handle of ours, whose end would
//! take every lock of this process off the file.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::SqliteError;
use super::error::code;

/// A file, whatever its name: device and inode.
type Inode = (u64, u64);
/// Bytes, and when they were changed last.
type Content = (u64, (i64, i64));

const REPLACED: &str = "replaced";
/// SQLite's *no such table* (among others), and *not a database*.
const FAILED: u32 = 1;
const NO_DATABASE: u32 = 26;

/// What only this file answers.
#[derive(Debug)]
pub(super) struct Mark {
    /// Asks for an identity (text), and for a number that only grows.
    pub(super) query: &'static str,
    pub(super) identity: String,
}

/// The open files.
pub(super) struct Presence {
    files: [Open; 2],
    mark: Arc<OnceLock<Mark>>,
    /// Of the database, as it was when it was found in order last.
    content: Option<Content>,
    /// Its number then; `None`: the log alone has it yet.
    number: Option<i64>,
}

struct Open {
    path: PathBuf,
    /// `None`: it was not there yet.
    inode: Option<Inode>,
}

impl Presence {
    /// Of the database at `path`, which was opened and read just now.
    pub(super) fn of_database(path: &Path, mark: Arc<OnceLock<Mark>>) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self {
            content: found(path).ok().as_ref().map(content),
            files: [path.to_owned(), PathBuf::from(log)].map(|path| Open {
                inode: found(&path).ok().as_ref().map(inode),
                path,
            }),
            mark,
            number: None,
        }
    }

    /// The log may be a new one: it goes with its last connection.
    pub(super) fn forget_log(&mut self) {
        self.files[1].inode = None;
    }

    /// Refuses when one of them is no longer what its path leads to, or what it was. What cannot be told is no refusal.
    pub(super) async fn check(&mut self) -> Result<(), SqliteError> {
        for open in &mut self.files {
            let fate = match (open.inode, found(&open.path)) {
                (Some(known), Ok(now)) if known == inode(&now) => continue,
                (Some(_), Ok(_)) => REPLACED,
                (Some(_), Err(error)) if error.kind() == std::io::ErrorKind::NotFound => "deleted",
                (Some(_), Err(_)) => continue,
                (None, now) => {
                    open.inode = now.ok().as_ref().map(inode);
                    continue;
                }
            };
            return Err(displaced(&open.path, fate));
        }
        self.check_content().await
    }

    async fn check_content(&mut self) -> Result<(), SqliteError> {
        let path = &self.files[0].path;
        let Ok(now) = found(path).as_ref().map(content) else {
            return Ok(());
        };
        if self.content == Some(now) {
            return Ok(());
        }
        let has_shrunk = self.content.is_some_and(|(bytes, _)| now.0 < bytes);
        let Some(mark) = self.mark.get().filter(|_| !has_shrunk) else {
            self.content = self.content.filter(|_| has_shrunk).or(Some(now));
            return if has_shrunk {
                Err(displaced(path, REPLACED))
            } else {
                Ok(())
            };
        };
        match read(path, mark.query).await {
            Ok((Some(identity), number)) if identity == mark.identity && Some(number) >= self.number => {
                self.number = Some(number);
            }
            Ok((None, _)) if self.number.is_none() => {}
            Ok(_) => return Err(displaced(path, REPLACED)),
            Err(error) => match code(&error) {
                Some(NO_DATABASE) => return Err(displaced(path, REPLACED)),
                Some(FAILED) if self.number.is_some() => return Err(displaced(path, REPLACED)),
                Some(FAILED) => {}
                // Read in the middle of a checkpoint, perhaps: once more before the next commit.
                Some(_) | None => return Ok(()),
            },
        }
        self.content = Some(now);
        Ok(())
    }
}

fn displaced(path: &Path, fate: &'static str) -> SqliteError {
    SqliteError::Displaced {
        path: path.to_owned(),
        fate,
    }
}

/// What the file itself has, without its log.
async fn read(path: &Path, query: &'static str) -> Result<(Option<String>, i64), sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(true)
        .immutable(true);
    let mut connection = options.connect().await?;
    let answer = sqlx::query_as(query).fetch_one(&mut connection).await;
    connection.close().await?;
    answer
}

fn found(path: &Path) -> std::io::Result<Metadata> {
    fs::symlink_metadata(path)
}

fn inode(found: &Metadata) -> Inode {
    (found.dev(), found.ino())
}

fn content(found: &Metadata) -> Content {
    (found.len(), (found.mtime(), found.mtime_nsec()))
}
