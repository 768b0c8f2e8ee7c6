//! What is done with a store alone: its tables are brought up to date, it is kept and put back.

mod kept;

use std::path::Path;

use crate::ambient::Clock;
use crate::broker::embedded::Embedded;
use crate::cli::{self, Cli, Exit, Failure, Migrated, StoreWork};
use crate::config::{BrokerKind, Config, StoreConfig};
use crate::domain::schema::{SchemaMode, SchemaRefusal};
use crate::domain::text;
use crate::engine::EngineError;
use crate::sqlite::{SqliteError, SqliteFile};
use crate::store::Store as _;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;

use super::compose::{OpenError, patience};

/// Columns of an address.
const ADDRESS_WIDTH_MAX: usize = 100;

pub(super) async fn run(cli: &Cli, config: Config) -> Result<Exit, Failure> {
    // One provider in the process; whoever was first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let work = cli.store_work();
    if let (Some(what), Some(daemon)) = (work.as_ref().and_then(on_own_store), &config.profile.daemon) {
        let why = format!(
            "{what} is not possible in a profile with `daemon`: the store is that of the daemon at {}. Run it where that \
             daemon runs, in a profile without `daemon`",
            text::show(&daemon.url, ADDRESS_WIDTH_MAX)
        );
        return Err(Failure::new(Exit::Refused, why));
    }
    match work {
        Some(StoreWork::Migrate { dry_run }) => {
            let pending = pending(&config).await.map_err(|error| error.failure)?;
            let migrated = if dry_run {
                Migrated {
                    pending,
                    ..Migrated::default()
                }
            } else {
                migrate(&config).await.map_err(|error| error.failure)?;
                Migrated {
                    applied: pending,
                    ..Migrated::default()
                }
            };
            cli::print_migrated(cli, &migrated)
        }
        Some(StoreWork::Backup(file)) => kept::back_up(cli, &config, &file).await,
        Some(StoreWork::Restore(file)) => kept::restore(cli, &config, &file).await,
        Some(StoreWork::Copy { from, to }) => kept::copy_to_database(cli, &config, (from.as_deref(), &to)).await,
        None => Err(Failure::new(Exit::Usage, "this command needs broker and store")),
    }
}

/// What is done with the store of the configuration, as it is typed.
const fn on_own_store(work: &StoreWork) -> Option<&'static str> {
    match work {
        StoreWork::Migrate { .. } => Some("store migrate"),
        StoreWork::Backup(_) => Some("store backup"),
        StoreWork::Restore(_) => Some("store restore"),
        StoreWork::Copy { from: None, .. } => Some("store copy without --from"),
        StoreWork::Copy { from: Some(_), .. } => None,
    }
}

/// The changes that its tables lack.
async fn pending(config: &Config) -> Result<Vec<i64>, OpenError> {
    match &config.store {
        StoreConfig::Sqlite { path, .. } => pending_in_file(path, &config.broker.kind).await,
        StoreConfig::Postgres { url } => {
            let pending = PostgresStore::pending(url.expose(), patience(config.delivery.take_over)).await;
            Ok(pending.map_err(EngineError::from)?)
        }
    }
}

async fn migrate(config: &Config) -> Result<(), OpenError> {
    match &config.store {
        StoreConfig::Sqlite { path, .. } => bring_file(path, &config.broker.kind).await,
        StoreConfig::Postgres { url } => {
            let patience = patience(config.delivery.take_over);
            let store = PostgresStore::connect_to(url.expose(), patience, SchemaMode::Bring).await;
            store.map_err(EngineError::from)?.close().await;
            Ok(())
        }
    }
}

/// The embedded broker's tables are counted with the store's: a person has one file.
async fn pending_in_file(path: &Path, broker: &BrokerKind) -> Result<Vec<i64>, OpenError> {
    let file = match SqliteFile::open_existing(path).await {
        Ok(file) => file,
        Err(SqliteError::Schema(SchemaRefusal::Missing)) => return Ok(SqliteStore::all_changes()),
        Err(error) => return Err(error.into()),
    };
    let mut pending = SqliteStore::pending(&file).await.map_err(EngineError::from)?;
    if matches!(broker, BrokerKind::Embedded) {
        for number in Embedded::pending(&file).await? {
            if !pending.contains(&number) {
                pending.push(number);
            }
        }
    }
    file.close().await;
    Ok(pending)
}

async fn bring_file(path: &Path, broker: &BrokerKind) -> Result<(), OpenError> {
    let file = SqliteFile::open(path).await?;
    let opened = SqliteStore::open(file.clone(), Clock::system()).await;
    drop(opened.map_err(EngineError::from)?);
    if matches!(broker, BrokerKind::Embedded) {
        Embedded::bring(&file).await?;
    }
    file.close().await;
    Ok(())
}
