//! Sessions with PostgreSQL that must not be used, and locks that others hold.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redrive::internals::domain::event::{Event, EventType, HandlingRules, LeaseKey, NewEvent, Reference};
use redrive::internals::domain::schema::SchemaMode;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::{
    Beat, EventBatch, EventClaim, LeaseOutcome, Purpose, PushOutcome, References, Store, StoreError,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::fixtures::{Place, failure, held_queue, learned, living, queue, recorded, take, taken};
use crate::support::pooler::Pooler;
use crate::support::servers::PrivatePostgres;
use crate::support::wait::{patient, wait_until};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(1);
const BOUND: Duration = Duration::from_secs(30);
/// Within this time after its server takes writes again, everything is as before.
const SOON: Duration = Duration::from_secs(10);

async fn administer(url: &str, statements: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// A server with a role of its own, and what it connects with.
async fn with_a_writer() -> (PrivatePostgres, url::Url) {
    let server = PrivatePostgres::start().await;
    administer(
        &server.url,
        "CREATE ROLE writer LOGIN; GRANT ALL ON DATABASE postgres TO writer",
    )
    .await;
    let mut url = url::Url::parse(&server.url).unwrap();
    url.set_username("writer").unwrap();
    (server, url)
}

/// As a failover looks from a session that stayed with the old primary: reads go on, writes are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_stays_with_a_server_that_takes_no_writes() {
    let (server, url) = with_a_writer().await;
    let store: Box<dyn Store> = Box::new(
        PostgresStore::connect_with_patience(url.as_str(), PATIENCE)
            .await
            .unwrap(),
    );
    let store = &*store;
    let lease = held_queue(store, "q", "host").await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'";
    administer(
        &server.url,
        &format!("ALTER ROLE writer SET default_transaction_read_only = on; {cut}"),
    )
    .await;
    // Whatever is tried meanwhile, by many at once, makes sessions that can only read.
    for _ in 0..2 {
        let tried = join_all((0..8).map(|_| store.queues_learn(&[])));
        drop(tried.await);
        let refused = store.failure_record(&failure(&lease, "host", "m", None)).await;
        assert!(matches!(refused, Err(StoreError::NotWritable { .. })), "{refused:?}");
    }
    let opened = PostgresStore::connect(url.as_str()).await;
    let Err(error @ StoreError::NotWritable { .. }) = opened else {
        panic!("a store that cannot be written is opened: {opened:?}")
    };
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("takes no writes"), "{source}");
    administer(&server.url, "ALTER ROLE writer RESET default_transaction_read_only").await;
    wait_until("every session to take writes", SOON, async || {
        let writes = (0..16).map(|n| {
            let name = format!("n-{n}");
            async move { store.queues_learn(&[learned(&name, "host")]).await }
        });
        join_all(writes)
            .await
            .into_iter()
            .all(|done| done.is_ok())
            .then_some(())
    })
    .await;
    recorded(store, &failure(&lease, "host", "m", None)).await;
    store.close().await;
}

/// As a shared server looks whose clients take all of its connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_no_room_for_another_connection_is_told_as_that() {
    let (server, url) = with_a_writer().await;
    let connect = || PostgresStore::connect_with_patience(url.as_str(), PATIENCE);
    let store = connect().await.unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'";
    let is_told = |error: StoreError| {
        let told = std::error::Error::source(&error).unwrap().to_string();
        told.contains("takes no more connections") && told.contains("max_connections")
    };
    // With room for one the first look succeeds, and the sessions of the pool find none.
    for room in [0, 1] {
        administer(
            &server.url,
            &format!("ALTER ROLE writer CONNECTION LIMIT {room}; {cut}"),
        )
        .await;
        let opened = connect().await.expect_err("there is no room");
        assert!(is_told(opened), "with room for {room}");
    }
    administer(&server.url, &format!("ALTER ROLE writer CONNECTION LIMIT 0; {cut}")).await;
    wait_until("a call that says so", BOUND, async || {
        store.now().await.is_err_and(is_told).then_some(())
    })
    .await;
    administer(&server.url, "ALTER ROLE writer CONNECTION LIMIT -1").await;
    wait_until("an answer", SOON, async || store.now().await.ok()).await;
    store.close().await;
}

#[tokio::test]
async fn a_session_has_our_isolation_whatever_the_databases_is() {
    let place = Place::postgres().await;
    let database = place.url().rsplit_once('/').unwrap().1.to_owned();
    place
        .tamper(&format!(
            "ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'"
        ))
        .await
        .unwrap();
    let (one, other) = (place.another().await.unwrap(), place.another().await.unwrap());
    let (here, there) = (living(&*one).await, living(&*other).await);
    // Side by side, serializable transactions that read what the others write fail at ordinary times.
    let names: Vec<_> = (0..40).map(|n| queue(&format!("q-{n}"))).collect();
    let takes = names.iter().flat_map(|name| {
        let name = std::slice::from_ref(name);
        [
            one.leases_take(here, Purpose::Deliver, name),
            other.leases_take(there, Purpose::Deliver, name),
        ]
    });
    for taken in join_all(takes).await {
        taken.unwrap();
    }
    one.close().await;
    other.close().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_with_what_to_do() {
    let place = Place::postgres().await;
    let pooler = Pooler::before(place.url()).await;
    let refused = PostgresStore::connect(&pooler.through(place.url())).await;
    let Err(error @ StoreError::Unusable { .. }) = refused else {
        panic!("it should be refused: {refused:?}")
    };
    let text = error.to_string();
    assert!(
        text.contains("pooler in transaction mode") && text.contains("session mode"),
        "{text}"
    );
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_else_has_locked_stops_neither_heartbeats_nor_other_leases() {
    let place = Place::postgres().await;
    let store = &*place.store;
    let me = living(store).await;
    store
        .queues_learn(&[learned("locked", "host"), learned("free", "host")])
        .await
        .unwrap();
    let mut somebody = PgConnection::connect(place.url()).await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM redrive.delivery_queues WHERE name = 'locked' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut somebody).await.unwrap();
    let both = [queue("locked"), queue("free")];
    for round in 0..3 {
        let asked = Instant::now();
        let (outcomes, beat) = tokio::join!(store.leases_take(me, Purpose::Deliver, &both), store.heartbeat(me));
        assert_eq!(beat.unwrap(), Beat::Alive);
        assert!(
            asked.elapsed() < patient(Duration::from_secs(3)),
            "{:?}",
            asked.elapsed()
        );
        let outcomes = outcomes.unwrap();
        let other = match round {
            0 => matches!(&outcomes[1], LeaseOutcome::Taken(_)),
            _ => outcomes[1] == LeaseOutcome::Held(me),
        };
        assert!(outcomes[0] == LeaseOutcome::Locked && other, "{outcomes:?}");
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut somebody).await.unwrap();
    assert!(matches!(
        take(store, me, Purpose::Deliver, "locked").await,
        LeaseOutcome::Taken(_)
    ));
    somebody.close().await.unwrap();
    place.end().await;
}

fn event(reference: &str, payload: &str) -> EventBatch {
    let event = NewEvent {
        event_type: EventType::parse("t").unwrap(),
        reference: Reference::parse(reference).unwrap(),
        nbf: None,
        reason: None,
        payload: Some(payload.to_owned().into()),
        lifetime: None,
        trace: None,
    };
    EventBatch {
        events: vec![event],
        ..EventBatch::default()
    }
}

#[track_caller]
fn assert_locked(result: Result<PushOutcome, StoreError>) {
    let error = result.unwrap_err();
    assert!(error.is_locked(), "{error:?}");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("has locked"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_row_somebody_else_has_locked_holds_up_no_other() {
    let place = Place::postgres().await;
    let store = PostgresStore::connect_with_patience(place.url(), patient(Duration::from_secs(10)));
    let store: Box<dyn Store> = Box::new(store.await.unwrap());
    for reference in ["locked", "free"] {
        store.events_push(&event(reference, "before")).await.unwrap();
    }
    let lock = "SELECT 1 FROM TABLE.events WHERE reference = 'locked' FOR UPDATE";
    let held = place.open_transaction(lock).await;
    let locked = event("locked", "never");
    let others: Vec<EventBatch> = (0..20).map(|number| event(&format!("o{number}"), "x")).collect();
    let free = event("free", "after");
    let pushing = async {
        let (first, others) = tokio::join!(
            store.events_push(&free),
            join_all(others.iter().map(|one| store.events_push(one)))
        );
        first.unwrap();
        assert!(others.iter().all(Result::is_ok), "{others:?}");
        // Now that it is known: no other one waits for a moment.
        store.events_push(&event("late", "x")).await.unwrap();
    };
    tokio::pin!(pushing);
    let waiting = store.events_push(&locked);
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        pushed = &mut waiting => panic!("the others wait behind it: {pushed:?}"),
        () = &mut pushing => {}
    }
    assert_locked(waiting.await);
    // Those of one key keep their order, however long they wait.
    let (first, second) = (event("locked", "first"), event("locked", "second"));
    let (one, two, ()) = tokio::join!(store.events_push(&first), store.events_push(&second), async {
        place.somebody_waits().await;
        held.commit().await;
    });
    one.unwrap();
    two.unwrap();
    let (kind, reference) = (first.events[0].event_type.clone(), first.events[0].reference.clone());
    let rows = store.events_of(&kind, &reference).await.unwrap();
    assert_eq!(rows[0].payload.as_deref(), Some(&b"second"[..]));
    store.close().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_on_events_are_prolonged_while_somebody_else_has_locked_others_of_them() {
    let place = Place::postgres().await;
    let store = &*place.store;
    let owner = living(store).await;
    for reference in ["a", "b", "c", "d"] {
        store.events_push(&event(reference, "x")).await.unwrap();
    }
    let claim = EventClaim {
        event_type: EventType::parse("t").unwrap(),
        references: References::All,
        limit: 9,
        cutoff: 20,
        owner,
        span: Duration::ZERO,
        after: None,
    };
    let leased = store.events_claim(&claim).await.unwrap();
    let keys: Vec<LeaseKey> = leased.iter().filter_map(Event::lease_key).collect();
    assert_eq!(keys.len(), 4);
    let lock = "SELECT 1 FROM TABLE.events WHERE reference IN ('a', 'b', 'c') FOR UPDATE";
    let held = place.open_transaction(lock).await;
    let asked = Instant::now();
    let still = store.events_renew(&keys, Duration::from_hours(1)).await.unwrap();
    assert!(asked.elapsed() < patient(Duration::from_secs(3)), "it waits for nobody");
    assert_eq!(still, keys, "none of them is lost");
    held.commit().await;
    let lost = store.events_reap(9, HandlingRules::default()).await.unwrap();
    assert_eq!(lost.len(), 3, "the one that was free was prolonged: {lost:?}");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_rows_locked_is_named_with_the_mend() {
    let place = Place::postgres().await;
    let store = &*place.store;
    store
        .queues_learn(&[learned("locked", "host"), learned("free", "host")])
        .await
        .unwrap();
    assert!(store.foreign_locks(None).await.unwrap().is_empty());
    let lock = "SELECT 1 FROM TABLE.delivery_queues WHERE name = 'locked' FOR UPDATE";
    let held = place.open_transaction(lock).await;
    let of_queue = store.foreign_locks(Some(&queue("locked"))).await.unwrap();
    assert!(of_queue[0].by.starts_with("session "), "{of_queue:?}");
    assert!(of_queue[0].mend.contains("pg_terminate_backend("), "{of_queue:?}");
    assert_eq!(store.foreign_locks(Some(&queue("free"))).await.unwrap(), []);
    let everywhere = wait_until("locks that are held for long", BOUND, async || {
        let found = store.foreign_locks(None).await.unwrap();
        (!found.is_empty()).then_some(found)
    })
    .await;
    assert_eq!(everywhere.len(), 1, "{everywhere:?}");
    assert!(everywhere[0].tables.contains("delivery_queues"), "{everywhere:?}");
    held.commit().await;
    assert_eq!(store.foreign_locks(Some(&queue("locked"))).await.unwrap(), []);
    place.end().await;
}

/// The owner brings the schema up to date, and another role works with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_owns_no_table_is_told_what_it_lacks_and_gets_what_is_new() {
    let (server, url) = with_a_writer().await;
    let url = url.as_str();
    let as_owner = async || PostgresStore::connect(&server.url).await.unwrap().close().await;
    as_owner().await;
    let refused = PostgresStore::connect(url).await.unwrap_err().to_string();
    let statements = refused.split('`').nth(1).expect("what to run").to_owned();
    administer(&server.url, &statements).await;
    let expecting = async || {
        let connecting = PostgresStore::connect_to(url, PATIENCE * 5, SchemaMode::Expect);
        let store: Box<dyn Store> = Box::new(connecting.await.unwrap());
        store
    };
    let store = expecting().await;
    assert_eq!(store.missing_rights().await.unwrap(), None, "what was named is enough");
    store.event_ids_raise().await.unwrap();
    store.close().await;
    // As if this program had a table that the one before it had not.
    let of_before = "DROP TABLE redrive.refused_queues; \
        ALTER TABLE redrive.janitor DROP COLUMN aged_at, DROP COLUMN leapt_at; \
        ALTER TABLE redrive.runs DROP COLUMN restored; \
        DELETE FROM redrive.schema_additions WHERE number IN (1005, 1006, 1007)";
    administer(&server.url, of_before).await;
    as_owner().await;
    let store = expecting().await;
    assert_eq!(store.missing_rights().await.unwrap(), None, "the new table too");
    let id = living(&*store).await;
    administer(&server.url, "REVOKE UPDATE ON redrive.incarnations FROM writer").await;
    let lacking = store.missing_rights().await.unwrap().unwrap();
    assert_eq!(lacking.lacks, "the user \"writer\" lacks UPDATE on incarnations");
    assert!(lacking.mend.contains(&statements), "{lacking:?}");
    let refused = store.heartbeat(id).await.unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("incarnations") && why.contains(&statements), "{why}");
    store.close().await;
}

/// Whoever takes leases waits for the row that numbers come from, and holds the row of the asking incarnation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_waits_for_nobody_who_takes_leases() {
    let place = Place::postgres().await;
    let store = &*place.store;
    let me = living(store).await;
    let mut somebody = PgConnection::connect(place.url()).await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM redrive.numbers WHERE name = 'epoch' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut somebody).await.unwrap();
    let names = [queue("q")];
    let taking = store.leases_take(me, Purpose::Deliver, &names);
    let beating = async {
        place.somebody_waits().await;
        let asked = Instant::now();
        assert_eq!(store.heartbeat(me).await.unwrap(), Beat::Alive);
        assert!(
            asked.elapsed() < patient(Duration::from_secs(2)),
            "{:?}",
            asked.elapsed()
        );
        sqlx::raw_sql("ROLLBACK").execute(&mut somebody).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(taking, beating);
    assert!(matches!(outcome.unwrap()[0], LeaseOutcome::Taken(_)));
    somebody.close().await.unwrap();
    place.end().await;
}

/// An incarnation is not marked dead in the middle of its taking a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marking_dead_waits_for_a_lease_that_is_being_taken() {
    let place = Place::postgres().await;
    let store = &*place.store;
    let me = living(store).await;
    taken(store, me, "mine").await;
    let mut somebody = PgConnection::connect(place.url()).await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM redrive.numbers WHERE name = 'epoch' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut somebody).await.unwrap();
    let names = [queue("q")];
    let taking = store.leases_take(me, Purpose::Deliver, &names);
    let marking = async {
        place.somebody_waits().await;
        let mark = store.incarnation_mark_dead(me, 0);
        let letting_go = async {
            // The taker, and the one who marks.
            wait_until("two to wait", BOUND, async || {
                (waiting(place.url()).await >= 2).then_some(())
            })
            .await;
            sqlx::raw_sql("ROLLBACK").execute(&mut somebody).await.unwrap();
        };
        tokio::join!(mark, letting_go).0
    };
    let (outcome, marked) = tokio::join!(taking, marking);
    assert!(matches!(outcome.unwrap()[0], LeaseOutcome::Taken(_)));
    assert!(marked.unwrap(), "it is dead after it");
    somebody.close().await.unwrap();
    place.end().await;
}

/// How many sessions of the database wait for a lock.
async fn waiting(url: &str) -> i64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    waiting
}
