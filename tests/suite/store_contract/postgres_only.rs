//! What only a server can do: go away and come back, and refuse an address.

use redrive::store::postgres::PostgresStore;
use redrive::store::{Beat, Evidence, StoreError};

use super::fixtures::{Place, living, record, taken};

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
    assert_eq!(observer.evidence(id).await.unwrap(), Evidence::Held);
    assert_eq!(record(store, "q").await.owner, Some(id));
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

#[tokio::test]
async fn a_server_that_does_not_answer_is_unreachable() {
    let refused = PostgresStore::connect("postgres://nobody:hunter2@127.0.0.1:1/none").await;
    let Err(error @ StoreError::Unreachable { .. }) = refused else {
        panic!("it should be unreachable: {refused:?}")
    };
    assert!(!format!("{error:?}").contains("hunter2"));
}
