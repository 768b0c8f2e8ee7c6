//! Events handled inside the database's own transaction, for those who keep their tables in the same database: what the
//! handler writes and the change of the event commit or fail together.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("redrive.db");
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use std::sync::Arc;
//!
//! use redrive::transaction::{Clock, Event, EventType, HandlingRules, Inside, SqliteFile, SqliteStore, TransactionHandler};
//! use sqlx::SqliteConnection;
//!
//! struct Hired;
//!
//! #[async_trait::async_trait]
//! impl TransactionHandler<SqliteConnection> for Hired {
//!     async fn handle(&self, connection: &mut SqliteConnection, event: &Event) -> Inside {
//!         let row = sqlx::query("INSERT INTO staff (number) VALUES (?)").bind(event.reference.as_str());
//!         match row.execute(connection).await {
//!             Ok(_) => Inside::Done,
//!             Err(error) => Inside::Failed(error.to_string()),
//!         }
//!     }
//! }
//!
//! let store = SqliteStore::open(SqliteFile::open(&path).await?, Clock::system()).await?;
//! let kind = EventType::parse("hr-import")?;
//! // Nothing is due: nothing was handled.
//! assert!(store.handle_one(&kind, &HandlingRules::default(), Arc::new(Hired)).await?.is_none());
//! # Ok(()) })
//! # }
//! ```

pub use crate::ambient::Clock;
pub use crate::domain::event::{Event, EventType, HandlingRules, Reference};
pub use crate::domain::time::Timestamp;
pub use crate::sqlite::{SqliteError, SqliteFile};
pub use crate::store::postgres::PostgresStore;
pub use crate::store::sqlite::SqliteStore;
pub use crate::store::{Finished, Inside, StoreError, TransactionHandler};
