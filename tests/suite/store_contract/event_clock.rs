//! The clock is stepped an hour forward and back while events wait and are handled: none is lost, a lease that it
//! ended is counted, and numbers that fence never go back.

use redrive::internals::ambient::Clock;
use redrive::internals::domain::event::HandlingRules;
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::sqlite::SqliteStore;
use redrive::internals::store::{Finished, Store, Verdict};

use super::events::{failed, finish, one, push, take};
use super::fixtures::{HOUR, Place, living};

/// `step` sets the clock to so many hours from where it began.
async fn check(store: &dyn Store, step: impl AsyncFn(i64)) {
    let owner = living(store).await;
    push(store, "a", "x").await;
    let first = take(store, owner, 1).await.remove(0);
    let epoch = store.named_lease_take("n", owner).await.unwrap().unwrap();
    store.named_lease_free("n", epoch).await.unwrap();

    step(2).await;
    let reaped = store.events_reap(10, HandlingRules::default()).await.unwrap();
    assert_eq!(
        (reaped.len(), reaped[0].attempts, reaped[0].how),
        (1, 1, Finished::Retried)
    );
    let lost = one(store, "a").await;
    assert!(lost.reason.as_deref().unwrap().contains("error=lost"), "{lost:?}");
    let late = finish(store, first.lease_key().unwrap(), Verdict::Done(Vec::new())).await;
    assert_eq!(late, Finished::Stale, "its lease was over");
    push(store, "b", "x").await;

    step(0).await;
    assert_eq!(
        take(store, owner, 10).await,
        [],
        "what was dated by the other hour waits, and is there"
    );
    assert_eq!(one(store, "b").await.attempts, 0);
    push(store, "c", "x").await;
    let due = take(store, owner, 10).await;
    assert_eq!(due.len(), 1, "what is pushed now is due now: {due:?}");
    assert_eq!(
        finish(store, due[0].lease_key().unwrap(), failed(1)).await,
        Finished::Retried
    );
    let again = store.named_lease_take("n", owner).await.unwrap().unwrap();
    assert!(again > epoch, "{again:?} after {epoch:?}");
    push(store, "b", "newer").await;
    let due = take(store, owner, 10).await;
    assert_eq!(due.len(), 1, "a new push makes it due: {due:?}");
    assert_eq!(
        finish(store, due[0].lease_key().unwrap(), Verdict::Done(Vec::new())).await,
        Finished::Done
    );

    step(4).await;
    let due = take(store, owner, 10).await;
    assert_eq!(due.len(), 2, "nothing is lost: {due:?}");
    for event in due {
        assert_eq!(event.attempts, 1, "{event:?}");
        assert_eq!(
            finish(store, event.lease_key().unwrap(), Verdict::Done(Vec::new())).await,
            Finished::Done
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_loses_no_event_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let start = Clock::system().now();
    let clock = Clock::manual(start);
    let file = SqliteFile::open(&directory.path().join("redrive.db")).await.unwrap();
    let store = SqliteStore::open(file, clock.clone()).await.unwrap();
    let hours = |hours: i64| HOUR * u32::try_from(hours).unwrap();
    check(&store, async |to| clock.set(start.plus(hours(to)))).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_loses_no_event_of_a_database() {
    let place = Place::postgres().await;
    let step = async |hours: i64| {
        let statement = format!(
            "CREATE OR REPLACE FUNCTION redrive.store_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$ \
             SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + {hours} * 3600000000 $$"
        );
        place.tamper(&statement).await.unwrap();
    };
    check(&*place.store, step).await;
    place.end().await;
}
