//! Handlers inside the store's transaction: what they write and the change of the queue commit or fail together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redrive::internals::ambient::Clock;
use redrive::internals::domain::event::{Event, EventState, HandlingRules};
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::sqlite::SqliteStore;
use redrive::internals::store::{EventAct, Finished, Inside, TransactionHandler};
use sqlx::{PgConnection, SqliteConnection};

use super::events::{kind, one, push};
use super::fixtures::Place;

const KEEP: &str = "INSERT INTO kept (n) VALUES (1)";

/// Writes a row, and fails the first time.
#[derive(Default)]
struct Keeper(AtomicBool);

impl Keeper {
    fn answer(&self) -> Inside {
        if self.0.swap(true, Ordering::SeqCst) {
            Inside::Done
        } else {
            Inside::Failed("no luck".to_owned())
        }
    }
}

#[async_trait]
impl TransactionHandler<PgConnection> for Keeper {
    async fn handle(&self, connection: &mut PgConnection, _: &Event) -> Inside {
        sqlx::query(KEEP).execute(connection).await.unwrap();
        self.answer()
    }
}

#[async_trait]
impl TransactionHandler<SqliteConnection> for Keeper {
    async fn handle(&self, connection: &mut SqliteConnection, _: &Event) -> Inside {
        sqlx::query(KEEP).execute(connection).await.unwrap();
        self.answer()
    }
}

/// So many rows are kept: anything else divides by zero.
async fn kept(place: &Place, rows: u32) {
    let divides = format!("INSERT INTO kept (n) SELECT 1 / (CASE WHEN count(*) = {rows} THEN 1 ELSE 0 END) FROM kept");
    place.tamper(&divides).await.unwrap();
    place.tamper("DELETE FROM kept WHERE n IS NULL").await.unwrap();
}

async fn failed_once(place: &Place, id: i64) {
    let event = one(&*place.store, "a").await;
    assert_eq!((event.state, event.attempts), (EventState::Ready, 1));
    assert!(event.reason.unwrap().ends_with("error=no luck"));
    place.store.event_act(id, 1, EventAct::Retry).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_undoes_a_failed_handler_and_commits_a_good_one_with_its_event() {
    let place = Place::postgres().await;
    place.tamper("CREATE TABLE kept (n int)").await.unwrap();
    let store = PostgresStore::connect(place.url()).await.unwrap();
    let (keeper, rules) = (Keeper::default(), HandlingRules::default());
    assert_eq!(store.handle_one(&kind("t"), &rules, &keeper).await.unwrap(), None);
    let pushed = push(&*place.store, "a", "x").await;
    let first = store.handle_one(&kind("t"), &rules, &keeper).await.unwrap();
    assert_eq!(first, Some(Finished::Retried));
    kept(&place, 0).await;
    place.tamper("DELETE FROM kept").await.unwrap();
    failed_once(&place, pushed.id).await;
    let second = store.handle_one(&kind("t"), &rules, &keeper).await.unwrap();
    assert_eq!(second, Some(Finished::Done));
    kept(&place, 1).await;
    redrive::internals::store::Store::close(&store).await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_undoes_a_failed_handler_and_commits_a_good_one_with_its_event() {
    let place = Place::sqlite().await;
    place.tamper("CREATE TABLE kept (n INTEGER)").await.unwrap();
    let file = SqliteFile::open(&place.path()).await.unwrap();
    let store = SqliteStore::open(file, Clock::system()).await.unwrap();
    let (keeper, rules) = (Arc::new(Keeper::default()), HandlingRules::default());
    let pushed = push(&*place.store, "a", "x").await;
    let first = store.handle_one(&kind("t"), &rules, keeper.clone()).await.unwrap();
    assert_eq!(first, Some(Finished::Retried));
    failed_once(&place, pushed.id).await;
    let second = store.handle_one(&kind("t"), &rules, keeper).await.unwrap();
    assert_eq!(second, Some(Finished::Done));
    // One row and no other: a second key 1 would be refused.
    place.tamper("CREATE UNIQUE INDEX kept_once ON kept (n)").await.unwrap();
    assert!(place.tamper(KEEP).await.is_err());
    place.end().await;
}
