//! What only a file can do.

use std::os::unix::fs::PermissionsExt;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::internals::domain::run::ItemState;
use redrive::internals::store::{Beat, Evidence, NewItem, NewRun, RunBounds, Trim};

use super::fixtures::{Place, living, queue};

#[tokio::test]
async fn a_lock_file_that_was_tidied_away_proves_nothing() {
    let place = Place::sqlite().await;
    let id = living(&*place.store).await;
    std::fs::remove_file(place.path().with_file_name(format!("redrive.db.incarnation-{id}"))).unwrap();
    assert_eq!(place.store.evidence(id).await.unwrap(), Evidence::Missing);
    place.end().await;
}

#[tokio::test]
async fn the_lock_file_of_an_incarnation_is_private_and_goes_with_an_orderly_end() {
    let place = Place::sqlite().await;
    let id = living(&*place.store).await;
    let path = place.path().with_file_name(format!("redrive.db.incarnation-{id}"));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.store.incarnation_end(id).await.unwrap();
    assert!(!path.exists());
    place.end().await;
}

/// The items of the run, as many as fill a whole trim.
const ITEMS: u64 = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_go_on_while_a_large_run_is_removed() {
    let place = Place::sqlite().await;
    let store = &*place.store;
    let id = living(store).await;
    let new = NewRun {
        id: "large".to_owned(),
        command: "dead redrive".to_owned(),
        rate: None,
        canary: None,
    };
    store.run_create(&new).await.unwrap();
    let item = |ordinal| NewItem {
        ordinal,
        letter: format!("{ordinal:032x}.1"),
        source: queue("dead"),
        target: None,
        bytes: 1,
        state: ItemState::Planned,
        reason: None,
    };
    for begin in (0..ITEMS).step_by(10_000) {
        let items: Vec<NewItem> = (begin..begin + 10_000).map(item).collect();
        store.run_items_add("large", &items).await.unwrap();
    }
    let trim = Trim::Runs(RunBounds {
        age: Duration::ZERO,
        runs: 1_000,
        planned: Duration::ZERO,
    });
    let over = AtomicBool::new(false);
    let beating = async {
        let mut beats = 0;
        while !over.load(Ordering::SeqCst) {
            assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Alive);
            beats += 1;
        }
        beats
    };
    let trimming = async {
        let mut pages = 0;
        while store.trim(&trim, 1_000).await.unwrap() == 1_000 {
            pages += 1;
        }
        over.store(true, Ordering::SeqCst);
        pages
    };
    let (beats, pages) = tokio::join!(beating, trimming);
    assert_eq!(pages, ITEMS / 1_000);
    assert!(beats >= pages / 4, "{beats} heartbeats beside {pages} pages");
    place.end().await;
}
