//! What only a server can do: go away and come back, fall silent, and refuse an address.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redrive::internals::domain::endpoint::{EndpointChange, EndpointState};
use redrive::internals::domain::event::EventType;
use redrive::internals::domain::id::IncarnationId;
use redrive::internals::store::postgres::PostgresStore;
use redrive::internals::store::{
    AttemptQuery, Beat, Evidence, FailureRecorded, LeaseOutcome, Purpose, Store, StoreError,
};

use super::events::{new_event, pushed_all};
use super::fixtures::{Place, closing_failure, held_queue, learned, living, queue, record, take, taken, url};
use crate::support::relay::{Relay, Trap};
use crate::support::wait::{patient, wait_until};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(2);
const BOUND: Duration = Duration::from_secs(30);

const DISCONNECT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_are_made_again_and_the_evidence_with_them() {
    let place = Place::postgres().await;
    let store = &*place.store;
    let observer = place.another().await.unwrap();
    let id = living(store).await;
    taken(store, id, "q").await;
    place.tamper(DISCONNECT).await.unwrap();
    // What is said on a connection that was lost unnoticed fails once, as unreachable.
    let mut beats = Vec::new();
    for _ in 0..3 {
        beats.push(store.heartbeat(id).await);
    }
    for failed in beats.iter().filter_map(|beat| beat.as_ref().err()) {
        assert!(matches!(failed, StoreError::Unreachable { .. }), "{failed:?}");
    }
    assert!(matches!(beats.last(), Some(Ok(Beat::Alive))), "{beats:?}");
    assert_eq!(observer.evidence(id).await.unwrap(), Evidence::Connected);
    // A session of another statement may have been lost with the first one.
    let mut owner = None;
    for _ in 0..3 {
        match store.queue_get(&queue("q")).await {
            Ok(row) => owner = row.and_then(|row| row.owner),
            Err(failed) => assert!(matches!(failed, StoreError::Unreachable { .. }), "{failed:?}"),
        }
    }
    assert_eq!(owner, Some(id));
    observer.close().await;
    place.end().await;
}

#[tokio::test]
async fn an_address_that_cannot_be_used_says_so_without_its_password() {
    let place = Place::postgres().await;
    let (server, _) = place.url().rsplit_once('/').unwrap();
    for url in [
        "mysql://user:hunter2@host/db".to_owned(),
        format!("{server}/no_such_database"),
    ] {
        let refused = PostgresStore::connect(&url).await;
        let Err(error @ StoreError::Unusable { .. }) = refused else {
            panic!("{url} should be refused: {refused:?}")
        };
        let text = format!("{error} {error:?}");
        assert!(text.starts_with("store.url ") && !text.contains("hunter2"), "{text}");
    }
    place.end().await;
}

/// `127.1` is the way to the same server, and no name of this machine to those who look at it.
#[tokio::test]
async fn a_server_elsewhere_that_cannot_prove_itself_is_refused_unless_the_url_says_so() {
    let place = Place::postgres().await;
    let elsewhere = place.url().replace("127.0.0.1", "127.1").replace("localhost", "127.1");
    assert!(elsewhere.contains("127.1"), "the tests' server is at {elsewhere}");
    let joint = if elsewhere.contains('?') { '&' } else { '?' };
    let refused = PostgresStore::connect(&elsewhere).await;
    let Err(refused) = refused else {
        panic!("it has no certificate, and is believed")
    };
    let text = format!("{refused} {:?}", std::error::Error::source(&refused)).to_lowercase();
    assert!(text.contains("tls"), "{text}");
    for (mode, is_believed) in [
        ("verify-full", false),
        ("require", false),
        ("disable", true),
        ("prefer", true),
    ] {
        let connected = PostgresStore::connect(&format!("{elsewhere}{joint}sslmode={mode}")).await;
        assert_eq!(connected.is_ok(), is_believed, "{mode}: {connected:?}");
        if let Ok(store) = connected {
            store.close().await;
        }
    }
    let here = format!("{}{joint}sslmode=verify-full", place.url());
    assert!(PostgresStore::connect(&here).await.is_err(), "asked for, also here");
    place.end().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_unreachable() {
    let refused = PostgresStore::connect("postgres://nobody:hunter2@127.0.0.1:1/none").await;
    let Err(error @ StoreError::Unreachable { .. }) = refused else {
        panic!("it should be unreachable: {refused:?}")
    };
    assert!(!format!("{error:?}").contains("hunter2"));
}

/// A store of `place` whose way to the database is in the test's hand.
async fn relayed(place: &Place) -> (Relay, Box<dyn Store>) {
    let relay = Relay::to(place.url()).await;
    let through = relay.through(place.url());
    let store = PostgresStore::connect_with_patience(&through, PATIENCE).await.unwrap();
    (relay, Box::new(store))
}

#[track_caller]
fn assert_unreachable<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
}

async fn answers(store: &dyn Store) {
    wait_until("an answer", BOUND, async || store.now().await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_database_is_unreachable_within_a_bound_whatever_is_asked_of_it() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let id = living(&*store).await;
    taken(&*store, id, "q").await;
    relay.silence();
    let asked = Instant::now();
    // More at once than there are connections.
    let reads = join_all((0..10).map(|_| store.now()));
    let endpoint = url("host");
    let changes = join_all((0..10).map(|_| store.endpoint_change(&endpoint, None, &EndpointChange::Open)));
    let names = [queue("other")];
    let (beat, lease, ended, begun, reads, changes) = tokio::join!(
        store.heartbeat(id),
        store.leases_take(id, Purpose::Deliver, &names),
        store.incarnation_end(id),
        store.incarnation_begin(super::fixtures::daemon("new", None)),
        reads,
        changes,
    );
    assert!(asked.elapsed() < patient(PATIENCE * 3), "{:?}", asked.elapsed());
    assert_unreachable(beat);
    assert_unreachable(lease);
    assert_unreachable(ended);
    assert_unreachable(begun);
    reads.into_iter().for_each(assert_unreachable);
    changes.into_iter().for_each(assert_unreachable);
    let closing = Instant::now();
    store.close().await;
    assert!(closing.elapsed() < patient(PATIENCE * 3), "{:?}", closing.elapsed());
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_a_split_network_forgot_are_replaced_and_the_daemon_lives_on() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let id = living(&*store).await;
    taken(&*store, id, "q").await;
    relay.silence();
    assert_unreachable(store.heartbeat(id).await);
    relay.heal_for_new_connections();
    // The session of before still has the lock, and nobody told the server that it is gone.
    wait_until("a heartbeat", PATIENCE * 3, async || {
        (store.heartbeat(id).await.ok()? == Beat::Alive).then_some(())
    })
    .await;
    answers(&*store).await;
    assert_eq!(place.store.evidence(id).await.unwrap(), Evidence::Connected);
    assert_eq!(record(&*store, "q").await.owner, Some(id));
    store.close().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_the_server_did_not_hear_leaves_nothing_behind() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let id = living(&*store).await;
    relay.silence_at(Trap::Before(b"COMMIT"));
    assert_unreachable(store.leases_take(id, Purpose::Deliver, &[queue("q")]).await);
    assert!(relay.is_silent());
    // What the cut session has locked is free again while the network is still split.
    let other = living(&*place.store).await;
    let freed = wait_until("the lease", BOUND, async || {
        match place
            .store
            .leases_take(other, Purpose::Deliver, &[queue("q")])
            .await
            .ok()?
            .pop()?
        {
            LeaseOutcome::Taken(lease) => Some(lease),
            other => panic!("half a transaction is there: {other:?}"),
        }
    });
    assert_eq!(freed.await.taken_from, None);
    store.close().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_unknown_and_may_have_happened() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let id = living(&*store).await;
    relay.silence_at(Trap::After(b"COMMIT"));
    assert_unreachable(store.leases_take(id, Purpose::Deliver, &[queue("q")]).await);
    wait_until("the lease of before", BOUND, async || {
        let found = place.store.queue_get(&queue("q")).await.unwrap()?;
        (found.owner == Some(id)).then_some(())
    })
    .await;
    relay.heal();
    answers(&*store).await;
    let again = take(&*store, id, Purpose::Deliver, "q").await;
    assert_eq!(again, LeaseOutcome::Held(id), "whoever asks again is told");
    store.close().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_whose_commit_is_unknown_counts_once_when_it_is_recorded_again() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let lease = held_queue(&*store, "q", "host").await;
    let failure = closing_failure(&lease, "host", "n-1", BOUND);
    relay.silence_at(Trap::After(b"COMMIT"));
    assert_unreachable(store.failure_record(&failure).await);
    relay.heal();
    answers(&*store).await;
    let again = store.failure_record(&failure).await.unwrap();
    let FailureRecorded::Recorded {
        endpoint: Some(endpoint),
        endpoint_changed: true,
        ..
    } = again
    else {
        panic!("it was not recorded by somebody else: {again:?}")
    };
    assert_eq!(endpoint.state, EndpointState::Unavailable);
    let of_the_queue = AttemptQuery {
        queue: Some(queue("q")),
        limit: 9,
        ..AttemptQuery::default()
    };
    assert_eq!(store.attempts(&of_the_queue).await.unwrap().len(), 1);
    assert_eq!(record(&*store, "q").await.head.unwrap().failures, 1);
    store.close().await;
    place.end().await;
}

/// The driver does not know of a transaction whose begin was given up: such a session must not be used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_was_given_up_leaves_no_session_in_a_transaction() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let id = living(&*store).await;
    taken(&*store, id, "q").await;
    relay.silence_at(Trap::After(b"BEGIN"));
    assert_unreachable(store.queues_learn(&[learned("never", "host")]).await);
    relay.heal();
    answers(&*store).await;
    for wish in 0..20 {
        let wish = IncarnationId(1_000 + wish);
        store.queue_want(&queue("q"), wish).await.unwrap();
        assert_eq!(
            record(&*place.store, "q").await.wanted_by,
            Some(wish),
            "it was not committed"
        );
    }
    store.close().await;
    place.end().await;
}

/// A caller that goes away in the middle is no better than a deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_caller_goes_away_leaves_no_session_in_a_transaction() {
    let place = Place::postgres().await;
    let (relay, store) = relayed(&place).await;
    let id = living(&*store).await;
    taken(&*store, id, "q").await;
    relay.silence_at(Trap::After(b"BEGIN"));
    let learned = [learned("never", "host")];
    tokio::select! {
        done = store.queues_learn(&learned) => panic!("{done:?}"),
        () = wait_until("the silence", BOUND, async || relay.is_silent().then_some(())) => {}
    }
    relay.heal();
    for wish in 0..20 {
        let wish = IncarnationId(1_000 + wish);
        store.queue_want(&queue("q"), wish).await.unwrap();
        assert_eq!(
            record(&*place.store, "q").await.wanted_by,
            Some(wish),
            "it was not committed"
        );
    }
    store.close().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_that_went_with_a_store_that_went_back_is_made_again_with_its_event() {
    let place = Place::postgres().await;
    let store = &*place.store;
    let of_type = |about: &str| new_event("hr-import", about, "1");
    pushed_all(store, vec![of_type("a")]).await;
    let backup = "DELETE FROM TABLE.events; DELETE FROM TABLE.event_types";
    let is_there = async || {
        let name = EventType::parse("hr-import").unwrap();
        store.event_type_get(&name).await.unwrap().is_some()
    };
    // One alone is gathered with others; several are a batch.
    for events in [vec![of_type("b")], vec![of_type("c"), of_type("d")]] {
        place.tamper(backup).await.unwrap();
        assert!(!is_there().await);
        pushed_all(store, events).await;
        assert!(is_there().await);
    }
    place.end().await;
}
