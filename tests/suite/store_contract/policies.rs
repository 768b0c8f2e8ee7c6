//! Policies, and what already waits under them.

use std::time::Duration;

use redrive::internals::domain::endpoint::{EndpointChange, EndpointState};
use redrive::internals::domain::policy::{Override, Phase};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    Changed, HeadMove, HeadTerms, Lease, MoveTo, NewPolicy, PolicyChange, PolicyChanged, PolicyScope, ProbeOutcome,
    Store, WaitingHead, WaitingQuery,
};

use super::fixtures::{
    Place, closing_failure, endpoint, failure, held_queue, living, message, queue, record, recorded, taken, url,
};

const HOUR: Duration = Duration::from_secs(3600);

fn scope(event_type: Option<&str>, host: Option<&str>) -> PolicyScope {
    PolicyScope {
        event_type: event_type.map(str::to_owned),
        url: host.map(url),
    }
}

fn change(scope: &PolicyScope, document: Option<&str>, expected: i64) -> PolicyChange {
    PolicyChange {
        new: NewPolicy {
            scope: scope.clone(),
            document: document.map(str::to_owned),
            author: "ann".to_owned(),
        },
        expected,
        moves: Vec::new(),
    }
}

async fn waiting(store: &dyn Store, scope: PolicyScope) -> Vec<WaitingHead> {
    let query = WaitingQuery {
        scope,
        after: None,
        limit: 100,
    };
    store.heads_waiting(&query).await.unwrap()
}

async fn waiting_for(store: &dyn Store, host: &str) -> WaitingHead {
    let mut found = waiting(store, scope(None, Some(host))).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn to(head: &WaitingHead, to: MoveTo) -> HeadMove {
    HeadMove {
        queue: head.queue.clone(),
        message: head.head.message.clone(),
        failures: head.head.failures,
        last_failed_at: head.head.last_failed_at,
        endpoint: head.endpoint.as_ref().map(|waits| (head.url.clone(), waits.epoch)),
        to,
        attempts_allowed: 4,
    }
}

fn at(at: Timestamp) -> MoveTo {
    MoveTo::At {
        at,
        phase: Phase::PostBackoff,
    }
}

async fn moved(store: &dyn Store, one: HeadMove) -> bool {
    store.heads_move(&[one]).await.unwrap() == 1
}

async fn freed(store: &dyn Store, lease: &Lease) {
    assert!(store.lease_free(&lease.record.name, lease.epoch).await.unwrap());
}

/// A queue whose head waits alone for an hour, with nobody at it.
async fn waits_alone(store: &dyn Store, name: &str, host: &str) {
    let lease = held_queue(store, name, host).await;
    recorded(store, &failure(&lease, host, "m", Some(HOUR))).await;
    freed(store, &lease).await;
}

/// A URL that waits for an hour for the head of a queue, with nobody at it.
async fn waits_with_its_url(store: &dyn Store, name: &str, host: &str) {
    let lease = held_queue(store, name, host).await;
    recorded(store, &closing_failure(&lease, host, "m", HOUR)).await;
    freed(store, &lease).await;
}

pub(super) async fn the_newest_versions_are_found_by_scope_unset_ones_too(place: &Place) {
    let store = &*place.store;
    let (typed, plain) = (scope(Some("invoice"), Some("one")), scope(None, Some("one")));
    for (version, document) in [(0, Some("{}")), (1, Some("{\"jitter\":1}")), (2, None)] {
        store.policy_change(&change(&typed, document, version)).await.unwrap();
    }
    store.policy_change(&change(&plain, Some("{}"), 0)).await.unwrap();
    let asked = [typed.clone(), plain.clone(), scope(Some("invoice"), None)];
    let mut found = store.policies_newest(&asked).await.unwrap();
    found.sort_by_key(|one| one.version);
    let found: Vec<_> = found
        .iter()
        .map(|one| (&one.scope, one.version, one.document.as_deref()))
        .collect();
    assert_eq!(found, [(&plain, 1, Some("{}")), (&typed, 3, None)]);
    let second = store.policy_version(&typed, 2).await.unwrap().expect("it was saved");
    assert_eq!(second.document.as_deref(), Some("{\"jitter\":1}"));
    assert_eq!(store.policy_version(&typed, 4).await.unwrap(), None);
    assert_eq!(store.policies_newest(&[]).await.unwrap(), []);
}

pub(super) async fn a_version_is_saved_only_over_the_one_that_it_was_made_for(place: &Place) {
    let store = &*place.store;
    waits_alone(store, "redrive.a.1", "one").await;
    let other = place.another().await.unwrap();
    let plain = scope(None, Some("one"));
    let waits = waiting_for(store, "one").await;
    let mut mine = change(&plain, Some("{}"), 0);
    mine.moves = vec![to(&waits, at(Timestamp::from_seconds(7)))];
    let mut theirs = mine.clone();
    theirs.moves[0].to = at(Timestamp::from_seconds(8));
    let (one, two) = tokio::join!(store.policy_change(&mine), other.policy_change(&theirs));
    let saved = PolicyChanged::Saved { version: 1, moved: 1 };
    let stale = PolicyChanged::Stale { newest: 1 };
    let outcomes = (one.unwrap(), two.unwrap());
    assert!(outcomes == (saved, stale) || outcomes == (stale, saved), "{outcomes:?}");
    let seconds = if outcomes.0 == saved { 7 } else { 8 };
    let head = record(store, "redrive.a.1").await.head.unwrap();
    assert_eq!(
        head.next_attempt_at,
        Some(Timestamp::from_seconds(seconds)),
        "nothing of the other's"
    );
    other.close().await;
}

pub(super) async fn heads_that_wait_are_listed_with_their_terms_and_the_url_that_waits_for_them(place: &Place) {
    let store = &*place.store;
    waits_with_its_url(store, "redrive.b.1", "two").await;
    let lease = held_queue(store, "redrive.a.1", "one").await;
    let mut failed = failure(&lease, "one", "m", Some(HOUR));
    failed.terms = HeadTerms {
        event_type: Some("invoice".to_owned()),
        own: Override {
            polling_time_s: Some(3),
            restart_count: Some(0),
        },
        asked: Some(Duration::from_secs(60)),
    };
    recorded(store, &failed).await;
    // Neither waits for a time: one has not failed, the other is tried again at once.
    held_queue(store, "redrive.c.1", "three").await;
    let lease = held_queue(store, "redrive.d.1", "four").await;
    recorded(store, &failure(&lease, "four", "m", None)).await;

    let typed = waiting(store, scope(Some("invoice"), None)).await;
    let [one] = typed.as_slice() else { panic!("{typed:?}") };
    assert_eq!((&one.queue, &one.url), (&queue("redrive.a.1"), &url("one")));
    assert_eq!(
        (&one.own, one.event_type.as_deref()),
        (&failed.terms.own, Some("invoice"))
    );
    assert_eq!(
        one.asked_until,
        Some(one.head.last_failed_at.plus(Duration::from_secs(60)))
    );
    assert_eq!(one.next_attempt_at(), Some(one.head.last_failed_at.plus(HOUR)));
    assert_eq!(one.endpoint, None);
    assert_eq!(waiting(store, scope(Some("invoice"), Some("two"))).await, []);

    let direct = waiting(store, PolicyScope::default()).await;
    let [two] = direct.as_slice() else { panic!("{direct:?}") };
    assert_eq!(two.queue, queue("redrive.b.1"));
    assert_eq!(two.head.next_attempt_at, None, "its URL waits");
    assert_eq!(two.next_attempt_at(), Some(two.head.last_failed_at.plus(HOUR)));
    assert!(!two.endpoint.as_ref().unwrap().probing);
    let query = WaitingQuery {
        scope: PolicyScope::default(),
        after: Some(queue("redrive.b.1")),
        limit: 1,
    };
    assert_eq!(store.heads_waiting(&query).await.unwrap(), []);
}

pub(super) async fn a_head_moves_only_while_it_waits_as_it_was_read(place: &Place) {
    let store = &*place.store;
    waits_alone(store, "redrive.a.1", "one").await;
    let waits = waiting_for(store, "one").await;
    let soon = Timestamp::from_seconds(7);
    for wrong in [
        HeadMove {
            message: message("another"),
            ..to(&waits, at(soon))
        },
        HeadMove {
            failures: 2,
            ..to(&waits, at(soon))
        },
        HeadMove {
            last_failed_at: soon,
            ..to(&waits, at(soon))
        },
    ] {
        assert!(!moved(store, wrong).await);
    }
    let generation = store.numbers().await.unwrap().generation;
    assert!(moved(store, to(&waits, at(soon))).await);
    assert!(
        store.numbers().await.unwrap().generation > generation,
        "daemons look again"
    );
    let head = record(store, "redrive.a.1").await.head.unwrap();
    assert_eq!((head.next_attempt_at, head.parked), (Some(soon), false));
    assert_eq!((head.phase, head.attempts_allowed), (Some(Phase::PostBackoff), 4));
    assert!(moved(store, to(&waits, MoveTo::Parked)).await);
    let head = record(store, "redrive.a.1").await.head.unwrap();
    assert_eq!((head.next_attempt_at, head.parked, head.phase), (None, true, None));
    assert_eq!(
        waiting_for(store, "one").await.next_attempt_at(),
        None,
        "a parked head is listed"
    );
    assert!(moved(store, to(&waits, at(soon))).await, "and goes on");
}

pub(super) async fn a_url_moves_with_the_head_that_it_waits_for_and_not_while_somebody_probes(place: &Place) {
    let store = &*place.store;
    let soon = Timestamp::from_seconds(7);
    // Where no queue is named it waits for whichever comes, and moves with the one that failed last.
    let lease = held_queue(store, "redrive.b.2", "two").await;
    let mut refused = closing_failure(&lease, "two", "m", HOUR);
    let anybody = EndpointChange::WaitForAny {
        attempts: 1,
        delay: HOUR,
    };
    refused.endpoint = refused.endpoint.map(|(epoch, _)| (epoch, anybody));
    recorded(store, &refused).await.unwrap();
    let waits = waiting_for(store, "two").await;
    assert!(moved(store, to(&waits, at(soon))).await);
    assert_eq!(endpoint(store, "two").await.next_attempt_at, Some(soon));

    waits_with_its_url(store, "redrive.a.1", "one").await;
    let waits = waiting_for(store, "one").await;
    let before = endpoint(store, "one").await;
    assert!(moved(store, to(&waits, at(soon))).await);
    let now = endpoint(store, "one").await;
    assert_eq!(
        (now.state, now.next_attempt_at),
        (EndpointState::Unavailable, Some(soon))
    );
    assert!(now.epoch > before.epoch);
    assert_eq!(now.probe_queue, before.probe_queue);
    assert_eq!(record(store, "redrive.a.1").await.head.unwrap().next_attempt_at, None);
    assert!(
        !moved(store, to(&waits, at(soon))).await,
        "it was read under an old epoch"
    );

    let claimed = store
        .probe_claim(&url("one"), &queue("redrive.a.1"), HOUR)
        .await
        .unwrap();
    assert!(matches!(claimed, ProbeOutcome::Claimed { .. }), "{claimed:?}");
    let waits = waiting_for(store, "one").await;
    assert!(waits.endpoint.as_ref().unwrap().probing);
    for refused in [at(Timestamp::from_seconds(8)), MoveTo::Parked] {
        assert!(!moved(store, to(&waits, refused)).await);
    }
    let during = endpoint(store, "one").await;
    assert_eq!(
        (during.state, during.next_attempt_at),
        (EndpointState::Unavailable, Some(soon))
    );
    assert!(during.probe.is_some(), "the probe goes on");
}

pub(super) async fn a_parked_url_goes_on_and_parks_again(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "redrive.a.1", "one").await;
    let mut parks = closing_failure(&lease, "one", "m", HOUR);
    parks.endpoint = parks
        .endpoint
        .map(|(epoch, _)| (epoch, EndpointChange::Park { attempts: None }));
    let parked = recorded(store, &parks).await.unwrap();
    assert_eq!((parked.state, parked.next_attempt_at), (EndpointState::Parked, None));
    assert_eq!(
        parked.probe_queue,
        Some(queue("redrive.a.1")),
        "whose schedule was used up"
    );
    let waits = waiting_for(store, "one").await;
    assert_eq!(waits.next_attempt_at(), None);
    let soon = Timestamp::from_seconds(7);
    assert!(moved(store, to(&waits, at(soon))).await);
    let goes_on = endpoint(store, "one").await;
    assert_eq!(
        (goes_on.state, goes_on.next_attempt_at),
        (EndpointState::Unavailable, Some(soon))
    );
    let waits = waiting_for(store, "one").await;
    assert!(moved(store, to(&waits, MoveTo::Parked)).await);
    assert_eq!(endpoint(store, "one").await.state, EndpointState::Parked);
    let opened = store
        .endpoint_change(&url("one"), None, &EndpointChange::Open)
        .await
        .unwrap();
    assert!(matches!(opened, Changed::Done { .. }));
    assert!(!moved(store, to(&waits, at(soon))).await, "a person opened it");
    assert_eq!(endpoint(store, "one").await.state, EndpointState::Available);
}

pub(super) async fn a_dead_letter_is_decided_only_where_nobody_holds_the_queue(place: &Place) {
    let store = &*place.store;
    waits_with_its_url(store, "redrive.a.1", "one").await;
    let waits = waiting_for(store, "one").await;
    let bury = to(
        &waits,
        MoveTo::DeadLettered {
            decision: "d-1".to_owned(),
        },
    );
    let incarnation = living(store).await;
    let lease = taken(store, incarnation, "redrive.a.1").await;
    assert!(!moved(store, bury.clone()).await, "its holder decides");
    assert_eq!(record(store, "redrive.a.1").await.decision, None);
    freed(store, &lease).await;
    assert!(moved(store, bury.clone()).await);
    let decision = record(store, "redrive.a.1").await.decision.unwrap();
    assert_eq!((decision.id.as_str(), decision.reason.as_str()), ("d-1", "exhausted"));
    assert_eq!(decision.message, message("m"));
    let now = endpoint(store, "one").await;
    assert_eq!(now.state, EndpointState::Unavailable);
    assert_eq!(now.probe_queue, Some(queue("redrive.a.1")), "the next message probes");
    assert_eq!(waiting(store, PolicyScope::default()).await, [], "it waits for nothing");
    assert!(!moved(store, bury).await, "once is enough");
    let due = store.queues_due(10).await.unwrap();
    assert_eq!(due.len(), 1, "somebody carries it out");
}
