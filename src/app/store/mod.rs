//! What is done with a store alone: its tables are brought up to date, it is kept and put back.

mod kept;

use std::path::Path;

use crate::ambient::Clock;
use crate::broker::embedded::Embedded;
use crate::cli::{self, Cli, Exit, Failure, Migrated, StoreWork};
use crate::config::{BrokerKind, Config, StoreConfig};
use crate::domain::schema::{SchemaMode, SchemaRefusal};
use crate::engine::EngineError;
use crate::sqlite::{SqliteError, SqliteFile};
use crate::store::Store as _;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;

use super::compose::{OpenError, patience};

pub(super) async fn run(cli: &Cli, config: Config) -> Result<Exit, Failure> {
    // One provider in the process; whoever was first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match cli.store_work() {
        Some(StoreWork::Migrate { dry_run }) => {
            let migrated = migrate(&config, dry_run).await.map_err(|error| error.failure)?;
            cli::print_migrated(cli, &migrated)
        }
        Some(StoreWork::Backup(file)) => kept::back_up(cli, &config, &file).await,
        Some(StoreWork::Restore(file)) => kept::restore(cli, &config, &file).await,
        Some(StoreWork::Copy { from, to }) => kept::copy_to_database(cli, &config, (from.as_deref(), &to)).await,
        None => Err(Failure::new(Exit::Usage, "this command needs broker and store")),
    }
}

async fn migrate(config: &Config, dry_run: bool) -> Result<Migrated, OpenError> {
    let pending = match &config.store {
        StoreConfig::Sqlite { path, .. } => {
            let is_embedded = matches!(config.broker.kind, BrokerKind::Embedded);
            let pending = pending_in_file(path, is_embedded).await?;
            if !dry_run {
                bring_file(path, is_embedded).await?;
            }
            pending
        }
        StoreConfig::Postgres { url } => {
            let patience = patience(config.delivery.take_over);
            let pending = PostgresStore::pending(url.expose(), patience).await;
            let pending = pending.map_err(EngineError::from)?;
            if !dry_run {
                let store = PostgresStore::connect_to(url.expose(), patience, SchemaMode::Bring).await;
                store.map_err(EngineError::from)?.close().await;
            }
            pending
        }
    };
    Ok(if dry_run {
        Migrated {
            pending,
            ..Migrated::default()
        }
    } else {
        Migrated {
            applied: pending,
            ..Migrated::default()
        }
    })
}

/// The embedded broker's tables are counted with the store's: a person has one file.
async fn pending_in_file(path: &Path, is_embedded: bool) -> Result<Vec<i64>, OpenError> {
    let file = match SqliteFile::open_existing(path).await {
        Ok(file) => file,
        Err(SqliteError::Schema(SchemaRefusal::Missing)) => return Ok(SqliteStore::all_changes()),
        Err(error) => return Err(error.into()),
    };
    let mut pending = SqliteStore::pending(&file).await.map_err(EngineError::from)?;
    if is_embedded {
        for number in Embedded::pending(&file).await? {
            if !pending.contains(&number) {
                pending.push(number);
            }
        }
    }
    file.close().await;
    Ok(pending)
}

async fn bring_file(path: &Path, is_embedded: bool) -> Result<(), OpenError> {
    let file = SqliteFile::open(path).await?;
    let opened = SqliteStore::open(file.clone(), Clock::system()).await;
    drop(opened.map_err(EngineError::from)?);
    if is_embedded {
        Embedded::bring(&file).await?;
    }
    file.close().await;
    Ok(())
}
