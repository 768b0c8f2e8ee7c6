//! Backup, restore, and the way from a SQLite file to PostgreSQL.
//!
//! A file that a daemon works with is only read. What takes its place, or leaves it for a database, waits until nobody
//! works with it: a program that has it open writes nothing more into a file that was replaced.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::ambient::Clock;
use crate::cli::{self, Cli, Exit, Failure, StoreDone};
use crate::config::{Config, StoreConfig};
use crate::domain::schema::{SchemaMode, SchemaRefusal};
use crate::engine::error::chain;
use crate::engine::{EngineError, INCIDENT, WENT_BACK};
use crate::files::NewFile;
use crate::sqlite::{SqliteError, SqliteFile};
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::{SqliteStore, check_triggers, is_locked, lost_by_restore};
use crate::store::{Events as _, Evidence, Incarnations, NewAudit, Records as _, Store as _, StoreError};

use super::super::compose::{OpenError, patience};

pub(super) async fn back_up(cli: &Cli, config: &Config, to: &Path) -> Result<Exit, Failure> {
    let path = file_of(config)?;
    let new = NewFile::create(to).map_err(|error| unwritten(to, &error))?;
    if cli.is_dry_run() {
        let done = format!("{} would be written into {}", path.display(), to.display());
        return told(cli, done);
    }
    let file = SqliteFile::open_existing(path).await.map_err(opened)?;
    let copied = file
        .back_up(new.beside())
        .await
        .map_err(|error| match error.takes_no_writes() {
            // The file of the store is only read.
            Some(why) => Failure::new(Exit::Failed, format!("{} cannot be written: {why}", to.display())),
            None => opened(error),
        });
    file.close().await;
    copied?;
    new.finish().map_err(|error| unwritten(to, &error))?;
    told(cli, format!("{} is in {}", path.display(), to.display()))
}

pub(super) async fn restore(cli: &Cli, config: &Config, from: &Path) -> Result<Exit, Failure> {
    let path = file_of(config)?;
    SqliteFile::check_backup(from)
        .await
        .map_err(|error| no_backup(from, error))?;
    check_triggers(from).await.map_err(|error| no_backup(from, error))?;
    let lost = lost_by_restore(path, from).await;
    let mut what = format!("put {} in the place of {}", from.display(), path.display());
    if !lost.what.is_empty() {
        let _ = write!(
            what,
            "; what it has now and the backup has not will be lost: {}",
            lost.what
        );
    }
    let consents = match lost.count {
        0 => cli::consents_to(cli, &what)?,
        count => cli::consents_to_loss(cli, &what, count)?,
    };
    if !consents {
        return Ok(Exit::Done);
    }
    let new = NewFile::replacing(path).map_err(|error| unwritten(path, &error))?;
    copy(from, new.beside()).map_err(|error| unwritten(new.beside(), &error))?;
    let mut detail = format!("restored from {}", from.display());
    if !lost.what.is_empty() {
        let _ = write!(detail, ", and lost {}", lost.what);
    }
    prepared(new.beside(), &detail).await?;
    let mut done = format!("{} is {} now", path.display(), from.display());
    if path.symlink_metadata().is_ok() {
        let is_in_use = match idle(path).await? {
            Found::Whole => SqliteFile::is_in_use(path),
            Found::Damaged => is_locked(path).map_err(|error| unwritten(path, &error))?,
        };
        if is_in_use {
            return Err(in_use(path));
        }
        let before = kept_beside(path).map_err(|error| unwritten(path, &error))?;
        let _ = write!(done, "; the file before is {}", before.display());
    }
    new.replace().map_err(|error| unwritten(path, &error))?;
    told(cli, done)
}

/// What is at the path of a store.
enum Found {
    /// It was opened, and closed in order.
    Whole,
    /// SQLite cannot read it, and so nobody works with it for long.
    Damaged,
}

/// Gives what is at `path` a second name, which stays when it is replaced, and takes nobody else's. The log beside a file that
/// was not closed in order goes with it: in the new file it would be read as its own.
fn kept_beside(path: &Path) -> io::Result<PathBuf> {
    let now = Clock::system().now().seconds();
    let named = |attempt: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".before-{now}"));
        if attempt > 1 {
            name.push(format!("-{attempt}"));
        }
        PathBuf::from(name)
    };
    // Of several restores in one second each keeps its own.
    let mut attempt = 1;
    while named(attempt).symlink_metadata().is_ok() {
        attempt += 1;
    }
    let before = named(attempt);
    // Not every file system gives a file two names.
    fs::hard_link(path, &before).or_else(|_| {
        File::create_new(&before)?;
        fs::copy(path, &before).map(drop)
    })?;
    for log in ["-wal", "-shm"] {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(log);
            name
        };
        match fs::rename(beside(path), beside(&before)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(before)
}

/// What is given from now on was not given before, whatever was given after the backup: ids of events follow the clock,
/// as epochs do. A daemon compares the other numbers with those that were kept on the broker.
async fn prepared(path: &Path, detail: &str) -> Result<(), Failure> {
    let file = SqliteFile::open_existing(path).await.map_err(opened)?;
    let raised = async {
        let store = SqliteStore::open(file.clone(), Clock::system()).await?;
        store.event_ids_raise().await?;
        // Nobody works with a copy.
        for one in store.incarnations_living().await? {
            store.incarnation_mark_dead(one.id, one.counter).await?;
        }
        // Whatever the numbers say that a daemon compares: they grow by its work alone.
        store
            .audit_append(&entry(INCIDENT, WENT_BACK, &format!("it was {detail}")))
            .await?;
        store.audit_append(&entry("store restore", "done", detail)).await
    };
    let raised: Result<i64, StoreError> = raised.await;
    file.close().await;
    raised.map(drop).map_err(|error| EngineError::from(error).into())
}

fn entry(command: &str, result: &str, detail: &str) -> NewAudit {
    NewAudit {
        actor: cli::actor("cli"),
        command: command.to_owned(),
        target: "store".to_owned(),
        reason: None,
        plan: None,
        result: result.to_owned(),
        detail: detail.to_owned(),
    }
}

pub(super) async fn copy_to_database(
    cli: &Cli,
    config: &Config,
    (from, to): (Option<&str>, &str),
) -> Result<Exit, Failure> {
    let path = match from {
        None => file_of(config)?.to_owned(),
        Some(url) => named(url)?,
    };
    if !to.starts_with("postgres://") && !to.starts_with("postgresql://") {
        return Err(Failure::new(
            Exit::Usage,
            "--to names no PostgreSQL database: write it as postgres://USER:PASSWORD@HOST/DATABASE",
        ));
    }
    let what = format!("copy {} into the database; its daemons continue there", path.display());
    let file = SqliteFile::open_existing(&path).await.map_err(opened)?;
    let copied = async {
        let store = copyable(&file, &path).await?;
        if cli::consents_to(cli, &what)? {
            filled((&file, &store), &path, config, to).await.map(Some)
        } else {
            Ok(None)
        }
    };
    let copied = copied.await;
    file.close().await;
    let Some(copied) = copied? else {
        return Ok(Exit::Done);
    };
    cli::print_store_done(cli, &copied)
}

/// The store in the file, if nobody works with it and all of it can be in a database.
async fn copyable(file: &SqliteFile, path: &Path) -> Result<SqliteStore, Failure> {
    let failed = |error: StoreError| Failure::from(EngineError::from(error));
    let store = SqliteStore::open_with(file.clone(), Clock::system(), SchemaMode::Expect).await;
    let store = store.map_err(failed)?;
    refuse_the_living(&store, path).await?;
    if store.holds_embedded_messages().await.map_err(failed)? {
        return Err(Failure::new(
            Exit::Refused,
            "messages of the embedded broker wait in this file, and a database has no such broker: let a daemon deliver \
             them first; dead letters are copied once they are discarded (`redrive dead discard --all`), and \
             `redrive dead restore --all` brings them back there",
        ));
    }
    Ok(store)
}

async fn filled(
    (file, store): (&SqliteFile, &SqliteStore),
    path: &Path,
    config: &Config,
    to: &str,
) -> Result<StoreDone, Failure> {
    let failed = |error: StoreError| Failure::from(EngineError::from(error));
    let database = PostgresStore::connect_to(to, patience(config.delivery.take_over), SchemaMode::Bring).await;
    let database = database.map_err(failed)?;
    let idle = async { refuse_the_living(store, path).await.is_ok() };
    let tables = database.fill(file, idle).await;
    database.close().await;
    let Some(tables) = tables.map_err(failed)? else {
        refuse_the_living(store, path).await?;
        return Err(in_use(path));
    };
    // Of two with one identity the broker could not tell which one delivers.
    store.identity_renew().await.map_err(failed)?;
    Ok(StoreDone {
        done: format!(
            "{} is in the database: write it as store.url; the file is another store from now on, and can go",
            path.display()
        ),
        rows: tables.into_iter().map(|one| (one.table, one.rows)).collect(),
    })
}

/// Refuses while somebody works with the file, and closes it in order otherwise.
async fn idle(path: &Path) -> Result<Found, Failure> {
    let file = match SqliteFile::open_existing(path).await {
        Ok(file) => file,
        // What is somebody else's stays; nobody works with what else is no store of this program.
        Err(SqliteError::Schema(refusal)) if !matches!(refusal, SchemaRefusal::Foreign { .. }) => {
            return Ok(Found::Whole);
        }
        // A damaged one is what a backup is for.
        Err(error) if error.is_damaged() => return Ok(Found::Damaged),
        Err(error) => return Err(opened(error)),
    };
    let store = SqliteStore::open_with(file.clone(), Clock::system(), SchemaMode::Expect).await;
    let found = match &store {
        Ok(store) => refuse_the_living(store, path).await.map(|()| Found::Whole),
        Err(_) => Ok(Found::Damaged),
    };
    drop(store);
    file.close().await;
    found
}

/// By its lock, or, where that is not to be seen, by how long its last sign of life is ago.
async fn refuse_the_living(store: &SqliteStore, path: &Path) -> Result<(), Failure> {
    let failed = |error: StoreError| Failure::from(EngineError::from(error));
    let now = Clock::system().now();
    for one in store.incarnations_living().await.map_err(failed)? {
        let lives = match store.evidence(one.id).await.map_err(failed)? {
            Evidence::Alive => true,
            Evidence::Dead => false,
            Evidence::Missing | Evidence::Connected => now.since(one.beat_at) < one.take_over,
        };
        if lives {
            return Err(Failure::new(
                Exit::Refused,
                format!(
                    "{} is in use by {} (process {} on {}): stop it first",
                    path.display(),
                    one.name,
                    one.pid,
                    one.host
                ),
            ));
        }
    }
    Ok(())
}

/// What is wrong with the argument; another process that has the file is not.
fn no_backup(path: &Path, error: SqliteError) -> Failure {
    let why = match &error {
        SqliteError::Busy => return opened(error),
        SqliteError::Unusable { problem, .. } => format!("it {problem}"),
        SqliteError::Schema(_)
        | SqliteError::Open(_)
        | SqliteError::Displaced { .. }
        | SqliteError::Closed
        | SqliteError::Statement(_)
        | SqliteError::RolledBack(_)
        | SqliteError::Commit(_)
        | SqliteError::Panicked => chain(&error),
    };
    Failure::new(
        Exit::Usage,
        format!("{} is no backup of redrive: {why}", path.display()),
    )
}

fn in_use(path: &Path) -> Failure {
    let why = format!("{} is open in another process: end it first", path.display());
    Failure::new(Exit::Refused, why)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut to = fs::OpenOptions::new().write(true).open(to)?;
    io::copy(&mut File::open(from)?, &mut to)?;
    to.sync_all()
}

fn file_of(config: &Config) -> Result<&Path, Failure> {
    match &config.store {
        StoreConfig::Sqlite { path, .. } => Ok(path),
        StoreConfig::Postgres { .. } => Err(Failure::new(
            Exit::Usage,
            "store.url is a PostgreSQL database, which has tools for this: use pg_dump and pg_restore",
        )),
    }
}

fn named(url: &str) -> Result<PathBuf, Failure> {
    let rest = url.strip_prefix("sqlite:").filter(|rest| !rest.is_empty());
    let path = rest.map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    path.map(PathBuf::from)
        .ok_or_else(|| Failure::new(Exit::Usage, "--from names no SQLite file: write it as sqlite:PATH"))
}

fn opened(error: SqliteError) -> Failure {
    OpenError::from(error).failure
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
}

fn told(cli: &Cli, done: String) -> Result<Exit, Failure> {
    let done = StoreDone {
        done,
        rows: BTreeMap::new(),
    };
    cli::print_store_done(cli, &done)
}
