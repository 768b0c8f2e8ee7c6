//! The store as a whole. What is done with it past the engine is `app`'s; what is asked and printed is here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::engine::Command;

use super::args::{Cli, StoreCommand, Sub};
use super::done::How;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::{Session, args, confirm};

/// What is to be done with the store alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreWork {
    /// Its tables are made or brought up to date.
    Migrate {
        /// Only said, not done.
        dry_run: bool,
    },
    /// Its SQLite file is written into this new one.
    Backup(PathBuf),
    /// This one takes the place of its SQLite file.
    Restore(PathBuf),
    /// A SQLite file goes into an empty database.
    Copy {
        /// `sqlite:PATH`; none: the configuration's.
        from: Option<String>,
        /// The database.
        to: String,
    },
}

/// What was done with a store, in rows of its tables where that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreDone {
    /// What is there now.
    pub done: String,
    /// Tables with their rows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rows: BTreeMap<String, u64>,
}

/// Tells what was done.
pub fn print_store_done(cli: &Cli, done: &StoreDone) -> Result<Exit, Failure> {
    let rows: u64 = done.rows.values().sum();
    let facts = [
        ("done", Some(done.done.clone())),
        ("rows", (!done.rows.is_empty()).then(|| rows.to_string())),
    ];
    Output::new(&cli.global).facts(done, &facts)?;
    Ok(Exit::Done)
}

/// Asks before `what`; false: to say it was all that was wanted.
pub fn consents_to(cli: &Cli, what: &str) -> Result<bool, Failure> {
    confirm::consent_to(&cli.global, what)
}

/// Asks before `what` loses so much; the number has to be typed.
pub fn consents_to_loss(cli: &Cli, what: &str, count: u64) -> Result<bool, Failure> {
    confirm::consent_to_loss(&cli.global, what, count)
}

/// The numbers of the changes of a store's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// Applied now.
    pub applied: Vec<i64>,
    /// Missing still, where nothing was to be done.
    pub pending: Vec<i64>,
}

impl Cli {
    /// What is to be done with the store alone, when that is what was typed.
    #[must_use]
    pub fn store_work(&self) -> Option<StoreWork> {
        match &self.command {
            Some(Sub::Store(args::StoreCommand::Migrate)) => Some(StoreWork::Migrate {
                dry_run: self.global.dry_run,
            }),
            Some(Sub::Store(args::StoreCommand::Backup { file })) => Some(StoreWork::Backup(file.clone())),
            Some(Sub::Store(args::StoreCommand::Restore { file })) => Some(StoreWork::Restore(file.clone())),
            Some(Sub::Store(args::StoreCommand::Copy { from, to })) => Some(StoreWork::Copy {
                from: from.clone(),
                to: to.clone(),
            }),
            Some(_) | None => None,
        }
    }
}

/// Tells what became of the tables.
pub fn print_migrated(cli: &Cli, migrated: &Migrated) -> Result<Exit, Failure> {
    let named = |numbers: &[i64]| {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        (!numbers.is_empty()).then(|| numbers.join(", "))
    };
    let is_current = migrated.applied.is_empty() && migrated.pending.is_empty();
    let facts = [
        ("schema", is_current.then(|| "is up to date".to_owned())),
        ("changes applied", named(&migrated.applied)),
        ("changes missing", named(&migrated.pending)),
    ];
    Output::new(&cli.global).facts(migrated, &facts)?;
    Ok(Exit::Done)
}

pub(super) async fn run(session: &Session<'_>, command: &StoreCommand) -> Result<Exit, Failure> {
    if !matches!(command, StoreCommand::Adopt) {
        return Err(Failure::new(Exit::Usage, "this command needs no engine"));
    }
    session.act(Command::AdoptBroker, How::ONE).await
}

pub(super) async fn make_vhost(session: &Session<'_>) -> Result<Exit, Failure> {
    session.act(Command::MakeVhost, How::ONE).await
}
