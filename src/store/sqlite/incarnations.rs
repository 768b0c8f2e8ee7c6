//! Starts of daemons on a SQLite file: their evidence of life is a locked file beside the database, which
//! the operating system unlocks when the process dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::SqliteStore;
use crate::domain::id::IncarnationId;
use crate::domain::time::Timestamp;
use crate::store::sql::incarnations::{LifeEvidence, beat, insert, refusal};
use crate::store::sql::{Driver, Session};
use crate::store::{Begun, Evidence, NewIncarnation, StoreError};

#[async_trait]
impl LifeEvidence for SqliteStore {
    async fn begin(&self, new: NewIncarnation) -> Result<Begun, StoreError> {
        let database = self.file.path().to_owned();
        let begun = self.transaction("beginning an incarnation", move |mut session, now| {
            Box::pin(async move { begin(&mut session, &database, &new, now).await })
        });
        let (begun, lock) = begun.await?;
        if let (Begun::Alive(id), Some(lock)) = (&begun, lock) {
            self.living_put(id.0, lock);
        }
        Ok(begun)
    }

    async fn beat(&self, id: IncarnationId) -> Result<bool, StoreError> {
        self.write("sending a heartbeat", move |mut session| {
            Box::pin(async move { beat(&mut session, id).await })
        })
        .await
    }

    async fn let_go(&self, id: IncarnationId, ended: &Result<(), StoreError>) {
        if ended.is_ok() {
            remove(&lock_path(self.file.path(), id));
        }
        drop(self.living_take(id.0));
    }

    async fn look(&self, id: IncarnationId) -> Result<Evidence, StoreError> {
        evidence(&lock_path(self.file.path(), id)).map_err(|source| StoreError::Failed {
            operation: "looking for evidence of life",
            source: Box::new(source),
        })
    }
}

/// The lock is taken before the row can be seen, so that no living row is without its evidence.
async fn begin(
    session: &mut Session<'_>,
    database: &Path,
    new: &NewIncarnation,
    now: Timestamp,
) -> Result<(Begun, Option<File>), sqlx::Error> {
    if let Some(refusal) = refusal(session, new).await? {
        return Ok((refusal, None));
    }
    let (id, forgotten) = insert(session, new, now).await?;
    for old in forgotten {
        remove(&lock_path(database, old));
    }
    let lock = hold(&lock_path(database, id))?;
    Ok((Begun::Alive(id), Some(lock)))
}

fn lock_path(database: &Path, id: IncarnationId) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(format!(".incarnation-{id}"));
    PathBuf::from(path)
}

/// Whether any process holds the lock of an incarnation of the file, which itself may be past reading.
pub fn is_locked(database: &Path) -> io::Result<bool> {
    let parent = database.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut locks = database.file_name().unwrap_or_default().to_owned();
    locks.push(".incarnation-");
    for entry in std::fs::read_dir(parent.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let is_lock = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(locks.as_encoded_bytes());
        if is_lock && evidence(&entry.path())? == Evidence::Alive {
            return Ok(true);
        }
    }
    Ok(false)
}

fn hold(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.try_lock()?;
    Ok(file)
}

/// Looking takes the lock for a moment, which is safe as nobody else asks for one that is in use. A file that is
/// missing proves nothing: whoever tidies directories takes it from the living, too.
fn evidence(path: &Path) -> io::Result<Evidence> {
    let file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Evidence::Missing),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(Evidence::Dead),
        Err(TryLockError::WouldBlock) => Ok(Evidence::Alive),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A file that stays behind is harmless: ids are never used twice.
fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(?path, ?error, "lock file of an ended incarnation stays");
    }
}
