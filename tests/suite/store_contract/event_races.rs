//! What happens to an event while somebody handles it: the four races of two transactions, a lost lease, and a
//! push that commits while a finish waits on the row. Each runs against another handle at the same moment.

use std::time::Duration;

use redrive::internals::domain::event::{Event, EventState, HandlingRules};
use redrive::internals::store::{Acted, ClaimSpan, EventAct, Finished, PushedHow, Store, Verdict};

use super::events::{failed, finish, kind, of, one, push, take};
use super::fixtures::{HOUR, Place, living};

/// Rounds of each race, so that both come first now and then.
const ROUNDS: usize = 25;

async fn handled(store: &dyn Store, about: &str) -> Event {
    let owner = living(store).await;
    push(store, about, "old").await;
    let mut taken = take(store, owner, 10).await;
    assert_eq!(taken.len(), 1);
    taken.remove(0)
}

async fn cancel(store: &dyn Store, event: &Event) -> Acted {
    store
        .event_act(event.id, event.revision, EventAct::Cancel)
        .await
        .unwrap()
}

/// The push stands and is ready, whoever came first.
async fn newer_stands(store: &dyn Store, about: &str) {
    let event = one(store, about).await;
    assert_eq!((event.state, event.attempts), (EventState::Ready, 0));
    assert_eq!(event.payload.as_deref(), Some(&b"new"[..]));
    assert!(event.nbf <= store.now().await.unwrap(), "no backoff of the older one");
    let event = cancel(store, &event).await;
    assert!(matches!(event, Acted::Done(_)));
}

pub(super) async fn updated_outside_and_handled_well_the_newer_one_runs_again(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    let event = handled(store, "before").await;
    push(&*other, "before", "new").await;
    let done = finish(store, event.lease_key().unwrap(), Verdict::Done(vec![])).await;
    assert_eq!(done, Finished::Superseded);
    newer_stands(store, "before").await;
    for round in 0..ROUNDS {
        let about = format!("r{round}");
        let key = handled(store, &about).await.lease_key().unwrap();
        let (done, pushed) = tokio::join!(finish(store, key, Verdict::Done(vec![])), push(&*other, &about, "new"));
        let expected = match pushed.how {
            PushedHow::New => Finished::Done,
            PushedHow::Coalesced => Finished::Superseded,
            PushedHow::Revived => panic!("nothing was dead"),
        };
        assert_eq!(done, expected);
        newer_stands(store, &about).await;
    }
    other.close().await;
}

pub(super) async fn removed_outside_and_handled_well_it_is_gone(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    for round in 0..ROUNDS {
        let about = format!("r{round}");
        let event = handled(store, &about).await;
        let key = event.lease_key().unwrap();
        let (done, cancelled) = tokio::join!(finish(store, key, Verdict::Done(vec![])), cancel(&*other, &event));
        match (done, cancelled) {
            (Finished::Done, Acted::Gone) | (Finished::Gone, Acted::Done(_)) => {}
            both => panic!("one of them removes it: {both:?}"),
        }
        assert!(of(store, &about).await.is_empty());
    }
    other.close().await;
}

pub(super) async fn updated_outside_and_failed_the_newer_one_stands_without_backoff(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    let event = handled(store, "before").await;
    push(&*other, "before", "new").await;
    assert_eq!(
        finish(store, event.lease_key().unwrap(), failed(1)).await,
        Finished::Superseded
    );
    newer_stands(store, "before").await;
    for round in 0..ROUNDS {
        let about = format!("r{round}");
        let key = handled(store, &about).await.lease_key().unwrap();
        let (done, _) = tokio::join!(finish(store, key, failed(1)), push(&*other, &about, "new"));
        assert!(matches!(done, Finished::Superseded | Finished::Retried), "{done:?}");
        newer_stands(store, &about).await;
    }
    other.close().await;
}

pub(super) async fn removed_outside_and_failed_it_is_not_brought_back(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    for round in 0..ROUNDS {
        let about = format!("r{round}");
        let event = handled(store, &about).await;
        let key = event.lease_key().unwrap();
        let (done, cancelled) = tokio::join!(finish(store, key, failed(1)), cancel(&*other, &event));
        assert!(matches!(cancelled, Acted::Done(_)));
        assert!(matches!(done, Finished::Gone | Finished::Retried), "{done:?}");
        assert!(of(store, &about).await.is_empty());
    }
    other.close().await;
}

pub(super) async fn what_is_cancelled_in_hand_keeps_its_reference_until_its_handler_has_ended(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    for (about, verdict) in [
        ("done", Verdict::Done(vec![])),
        ("failed", failed(1)),
        ("released", Verdict::Release),
    ] {
        let event = handled(store, about).await;
        let key = event.lease_key().unwrap();
        assert!(matches!(cancel(store, &event).await, Acted::Done(_)));
        let retried = store.event_act(event.id, event.revision, EventAct::Retry).await;
        assert_eq!(retried.unwrap(), Acted::Gone, "{about}");
        // Its mark is no claim that anybody could renew, release or end.
        let lease = one(store, about).await.lease.expect("its handler is at it");
        let mark = lease.claim.expect("it is marked");
        let span = ClaimSpan { ttl: HOUR, grace: None };
        assert_eq!(store.claim_get(&kind("t"), &mark).await.unwrap(), None, "{about}");
        assert_eq!(store.claim_renew(&kind("t"), &mark, span).await.unwrap(), None);
        assert_eq!(store.claim_release(&kind("t"), &mark).await.unwrap(), 0, "{about}");
        let done = store.claim_done(&kind("t"), &event.reference, &mark).await.unwrap();
        assert_eq!(done, Finished::Stale, "{about}");
        let renewed = store.events_renew(&[key], Duration::from_mins(1)).await.unwrap();
        assert!(renewed.is_empty(), "{about}: its handler hears of it");
        push(store, about, "new").await;
        assert!(take(store, owner, 10).await.is_empty(), "{about}: its handler is at it");
        let renewed = store.events_renew(&[key], Duration::from_mins(1)).await.unwrap();
        assert!(renewed.is_empty(), "{about}: its handler hears of it also after a push");
        assert_eq!(finish(store, key, verdict).await, Finished::Superseded);
        newer_stands(store, about).await;
    }
    let event = handled(store, "newer").await;
    push(store, "newer", "new").await;
    let newer = one(store, "newer").await;
    assert!(matches!(cancel(store, &newer).await, Acted::Done(_)));
    assert_eq!(cancel(store, &newer).await, Acted::Gone);
    let ended = finish(store, event.lease_key().unwrap(), failed(1)).await;
    assert_eq!(ended, Finished::Gone);
    assert!(of(store, "newer").await.is_empty());
    // Nobody ends it: its process is gone.
    let event = handled(store, "left").await;
    assert!(matches!(cancel(store, &event).await, Acted::Done(_)));
    place.tamper("UPDATE TABLE.events SET lease_until = 0").await.unwrap();
    store.events_reap(10, HandlingRules::default()).await.unwrap();
    assert!(of(store, "left").await.is_empty());
}

pub(super) async fn a_lost_lease_finishes_nothing(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    for round in 0..ROUNDS {
        let about = format!("r{round}");
        let first = handled(store, &about).await;
        place.tamper("UPDATE TABLE.events SET lease_until = 0").await.unwrap();
        let key = first.lease_key().unwrap();
        let rules = HandlingRules::default();
        let (done, reaped) = tokio::join!(finish(store, key, Verdict::Done(vec![])), other.events_reap(10, rules));
        if reaped.unwrap().is_empty() {
            assert_eq!(done, Finished::Done);
            continue;
        }
        assert_eq!(done, Finished::Stale);
        let event = one(store, &about).await;
        assert_eq!(event.attempts, 1);
        other.event_act(event.id, 1, EventAct::Retry).await.unwrap();
        let owner = living(&*other).await;
        let second = take(&*other, owner, 1).await.remove(0).lease_key().unwrap();
        assert_eq!(finish(store, key, failed(1)).await, Finished::Stale);
        assert_eq!(finish(&*other, second, Verdict::Done(vec![])).await, Finished::Done);
    }
    other.close().await;
}

pub(super) async fn a_push_that_commits_while_a_finish_waits_on_the_row_supersedes_it(place: &Place) {
    let store = &*place.store;
    for (about, verdict) in [("done", Verdict::Done(vec![])), ("failed", failed(1))] {
        let key = handled(store, about).await.lease_key().unwrap();
        let pushing = place
            .open_transaction(&format!(
                "UPDATE TABLE.events SET revision = revision + 1, attempts = 0, payload = NULL WHERE id = {}",
                key.id
            ))
            .await;
        let (done, ()) = tokio::join!(finish(store, key, verdict), async {
            place.somebody_waits().await;
            pushing.commit().await;
        });
        assert_eq!(done, Finished::Superseded);
        let event = one(store, about).await;
        assert_eq!(
            (event.state, event.revision, event.payload.clone()),
            (EventState::Ready, 2, None)
        );
        assert!(matches!(cancel(store, &event).await, Acted::Done(_)));
    }
}

/// A store that was restored numbers its events again; so a lease of before meets another event of its number.
pub(super) async fn who_took_an_event_before_a_restore_ends_none_of_after(place: &Place) {
    let store = &*place.store;
    push(store, "before", "x").await;
    let old = take(store, living(store).await, 1).await[0].lease_key().unwrap();
    place.wipe().await;
    let store = &*place.another().await.unwrap();
    push(store, "after", "x").await;
    let new = take(store, living(store).await, 1).await[0].lease_key().unwrap();
    assert_eq!((new.id, new.revision), (old.id, old.revision));
    assert_eq!(finish(store, old, failed(1)).await, Finished::Stale);
    assert_eq!(finish(store, new, Verdict::Done(vec![])).await, Finished::Done);
}
