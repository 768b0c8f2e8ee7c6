//! Types, subscriptions, claims of pulling consumers, and the outbox.

use std::time::Duration;

use redrive::internals::domain::event::{Event, EventState, HandlingRules};
use redrive::internals::domain::value::Value;
use redrive::internals::store::{
    Acted, Claim, ClaimOutcome, ClaimSpan, EventAct, EventSearch, Finish, Finished, NamedLease, NewClaim, NewOutboxRow,
    NewSubscription, Store, TypePut, Verdict,
};

use super::events::{finish, kind, new_event, of, one, push, pushed_all, put_type, reference, take};
use super::fixtures::{HOUR, Place, living, url};

const MINUTE: Duration = Duration::from_mins(1);

async fn claim(store: &dyn Store, event_type: &str, id: &str) -> (Option<Claim>, u64) {
    let new = NewClaim {
        id: id.to_owned(),
        event_type: kind(event_type),
        limit: 20,
        span: ClaimSpan {
            ttl: HOUR,
            grace: Some(MINUTE),
        },
    };
    match store.claim_create(&new).await.unwrap() {
        ClaimOutcome::Claimed { claim, moved } => (claim, moved),
        ClaimOutcome::UnknownType => panic!("{event_type} is known"),
    }
}

/// As if every claim had run out.
async fn run_out(place: &Place) {
    place
        .tamper("UPDATE TABLE.events SET lease_until = 1 WHERE state = 1")
        .await
        .unwrap();
}

async fn moving(store: &dyn Store, most: i128, lifetime: Option<i128>) {
    assert!(matches!(put_type(store, "dlq", &[]).await, TypePut::Saved(_)));
    let mut entries = vec![
        ("_max_claim_count", Value::Integer(most)),
        ("_dead_letter_queue", Value::Text("dlq".to_owned())),
    ];
    entries.extend(lifetime.map(|seconds| ("_dead_letter_queue_messages_ttl", Value::Integer(seconds))));
    assert!(matches!(put_type(store, "t", &entries).await, TypePut::Saved(_)));
}

async fn moved(store: &dyn Store) -> Vec<Event> {
    store.events_of(&kind("dlq"), &reference("a")).await.unwrap()
}

pub(super) async fn a_claim_holds_its_events_until_it_ends(place: &Place) {
    let store = &*place.store;
    pushed_all(store, vec![new_event("t", "a", "x"), new_event("t", "b", "x")]).await;
    let (first, _) = claim(store, "t", "one").await;
    let first = first.unwrap();
    assert_eq!((first.id.as_str(), first.events.len()), ("one", 2));
    assert_eq!(claim(store, "t", "two").await.0, None);
    let got = store.claim_get(&kind("t"), "one").await.unwrap().unwrap();
    assert_eq!(got.events.len(), 2);
    let longer = ClaimSpan {
        ttl: HOUR * 2,
        grace: None,
    };
    let renewed = store.claim_renew(&kind("t"), "one", longer).await.unwrap().unwrap();
    assert!(renewed.expires_at > first.expires_at);
    let shorter = ClaimSpan {
        ttl: Duration::from_secs(1),
        grace: None,
    };
    let kept = store.claim_renew(&kind("t"), "one", shorter).await.unwrap().unwrap();
    assert_eq!(kept.expires_at, renewed.expires_at, "it is prolonged, never shortened");
    assert_eq!(store.claim_release(&kind("t"), "one").await.unwrap(), 2);
    assert_eq!(store.claim_renew(&kind("t"), "one", longer).await.unwrap(), None);
    assert_eq!(claim(store, "t", "two").await.0.unwrap().events.len(), 2);
}

/// Also of an event that was pushed again meanwhile.
pub(super) async fn a_claim_that_ran_out_is_told_from_a_handler_that_was_lost(place: &Place) {
    let store = &*place.store;
    pushed_all(store, vec![new_event("t", "a", "x"), new_event("t", "b", "x")]).await;
    claim(store, "t", "one").await.0.unwrap();
    push(store, "a", "y").await;
    run_out(place).await;
    let mut reaped = store.events_reap(10, HandlingRules::default()).await.unwrap();
    reaped.sort_by_key(|reaped| reaped.id);
    let found: Vec<_> = reaped.iter().map(|reaped| (reaped.how, reaped.claimed)).collect();
    assert_eq!(found, [(Finished::Superseded, true), (Finished::Released, true)]);
}

pub(super) async fn a_claimed_event_is_done_only_by_its_claim(place: &Place) {
    let store = &*place.store;
    push(store, "a", "x").await;
    claim(store, "t", "one").await;
    let done = async |claim: &str| store.claim_done(&kind("t"), &reference("a"), claim).await.unwrap();
    assert_eq!(done("two").await, Finished::Stale);
    assert_eq!(done("one").await, Finished::Done);
    assert_eq!(done("one").await, Finished::Gone);
    push(store, "a", "x").await;
    claim(store, "t", "three").await;
    push(store, "a", "newer").await;
    assert_eq!(done("three").await, Finished::Superseded);
    assert_eq!(one(store, "a").await.state, EventState::Ready);
}

pub(super) async fn what_a_claim_finished_is_remembered_where_the_type_says_so(place: &Place) {
    let store = &*place.store;
    put_type(store, "t", &[("_history_ttl", Value::Integer(3600))]).await;
    let pushed = push(store, "a", "x").await;
    claim(store, "t", "one").await;
    let done = store.claim_done(&kind("t"), &reference("a"), "one").await.unwrap();
    assert_eq!(done, Finished::Done);
    let history = store.event_history(&kind("t"), 10).await.unwrap();
    assert_eq!((history.len(), history[0].id), (1, pushed.id));
    assert!(of(store, "a").await.is_empty());
}

pub(super) async fn a_handler_and_a_claim_do_not_share_an_event(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    assert_eq!(take(store, owner, 1).await.len(), 1);
    assert_eq!(claim(store, "t", "one").await.0, None);
}

pub(super) async fn an_unknown_type_cannot_be_claimed(place: &Place) {
    let new = NewClaim {
        id: "one".to_owned(),
        event_type: kind("nobody"),
        limit: 1,
        span: ClaimSpan { ttl: HOUR, grace: None },
    };
    assert_eq!(place.store.claim_create(&new).await.unwrap(), ClaimOutcome::UnknownType);
}

pub(super) async fn the_claim_after_the_last_allowed_one_moves_the_event_with_its_history(place: &Place) {
    let store = &*place.store;
    moving(store, 2, None).await;
    push(store, "a", "x").await;
    for id in ["one", "two"] {
        assert!(claim(store, "t", id).await.0.is_some(), "{id}");
        run_out(place).await;
    }
    assert_eq!(claim(store, "t", "three").await, (None, 1));
    let letter = moved(store).await.remove(0);
    assert_eq!((letter.claim_count, letter.origin.clone()), (2, Some(kind("t"))));
    let history = letter.claim_history.as_deref().unwrap();
    assert!(history.lines().count() == 2 && history.ends_with(" two"), "{history}");
    assert!(letter.is_dead_letter() && letter.expires_at.is_none());
    let ordinary = claim(store, "dlq", "four").await.0.unwrap();
    assert_eq!(ordinary.events[0].claim_count, 3);
}

pub(super) async fn with_one_allowed_claim_the_second_one_moves(place: &Place) {
    let store = &*place.store;
    moving(store, 1, None).await;
    push(store, "a", "x").await;
    assert!(claim(store, "t", "one").await.0.is_some());
    store.claim_release(&kind("t"), "one").await.unwrap();
    assert_eq!(claim(store, "t", "two").await, (None, 1), "a release keeps the count");
}

pub(super) async fn without_both_count_and_type_nothing_is_moved(place: &Place) {
    let store = &*place.store;
    put_type(store, "t", &[("_max_claim_count", Value::Integer(1))]).await;
    push(store, "a", "x").await;
    for id in ["one", "two", "three"] {
        assert!(claim(store, "t", id).await.0.is_some());
        run_out(place).await;
    }
}

pub(super) async fn an_event_that_is_done_in_time_is_never_moved(place: &Place) {
    let store = &*place.store;
    moving(store, 2, None).await;
    push(store, "a", "x").await;
    claim(store, "t", "one").await;
    run_out(place).await;
    claim(store, "t", "two").await;
    store.claim_done(&kind("t"), &reference("a"), "two").await.unwrap();
    assert_eq!(claim(store, "t", "three").await, (None, 0));
    assert!(moved(store).await.is_empty());
}

pub(super) async fn a_moved_event_lives_as_long_as_the_type_says_and_then_ends(place: &Place) {
    let store = &*place.store;
    moving(store, 1, Some(9999)).await;
    let lives = redrive::internals::domain::event::NewEvent {
        lifetime: Some(HOUR * 2),
        ..new_event("t", "a", "x")
    };
    pushed_all(store, vec![lives]).await;
    claim(store, "t", "one").await;
    run_out(place).await;
    let before = store.now().await.unwrap();
    claim(store, "t", "two").await;
    let letter = moved(store).await.remove(0);
    let lives = letter.expires_at.unwrap().since(before);
    assert!(
        lives >= Duration::from_secs(9999) && lives < Duration::from_secs(10_060),
        "{lives:?}"
    );
    place.tamper("UPDATE TABLE.events SET expires_at = 1").await.unwrap();
    assert_eq!(store.events_expire(10).await.unwrap().events, 1);
    assert!(moved(store).await.is_empty());
}

pub(super) async fn a_dead_letter_that_is_tried_again_does_not_end_as_one(place: &Place) {
    let store = &*place.store;
    moving(store, 1, Some(60)).await;
    pushed_all(store, vec![new_event("t", "a", "x")]).await;
    claim(store, "t", "one").await;
    run_out(place).await;
    claim(store, "t", "two").await;
    let letter = moved(store).await.remove(0);
    assert!(letter.expires_at.is_some() && letter.first_failed_at.is_some());
    let acted = store.event_act(letter.id, letter.revision, EventAct::Retry).await;
    let Acted::Done(event) = acted.unwrap() else {
        panic!("it was not tried again");
    };
    assert_eq!((event.event_type, event.claim_count), (kind("t"), 0));
    assert_eq!((event.expires_at, event.first_failed_at), (None, None));
}

pub(super) async fn a_claim_keeps_an_event_alive_for_its_grace(place: &Place) {
    let store = &*place.store;
    let lives = redrive::internals::domain::event::NewEvent {
        lifetime: Some(Duration::from_secs(100)),
        ..new_event("t", "a", "x")
    };
    pushed_all(store, vec![lives]).await;
    let before = store.now().await.unwrap();
    let held = claim(store, "t", "one").await.0.unwrap();
    let lives = held.events[0].expires_at.unwrap().since(before);
    assert!(lives >= HOUR + MINUTE && lives < HOUR + MINUTE * 2, "{lives:?}");
}

pub(super) async fn nothing_coalesces_into_a_dead_letter_type_and_a_push_to_the_origin_starts_anew(place: &Place) {
    let store = &*place.store;
    moving(store, 1, None).await;
    for _ in 0..2 {
        push(store, "a", "x").await;
        claim(store, "t", "one").await;
        run_out(place).await;
        assert_eq!(claim(store, "t", "two").await, (None, 1));
    }
    pushed_all(store, vec![new_event("dlq", "a", "pushed")]).await;
    assert_eq!(moved(store).await.len(), 3, "each stands for itself");
    push(store, "a", "y").await;
    assert_eq!(of(store, "a").await.len(), 1);
}

pub(super) async fn a_dead_letter_type_must_exist_and_make_no_chain(place: &Place) {
    let store = &*place.store;
    let to = |name: &str| [("_dead_letter_queue", Value::Text(name.to_owned()))];
    assert_eq!(put_type(store, "a", &to("b")).await, TypePut::MissingTarget(kind("b")));
    put_type(store, "b", &[]).await;
    assert!(matches!(put_type(store, "a", &to("b")).await, TypePut::Saved(_)));
    put_type(store, "c", &[]).await;
    let chain = |names: [&str; 3]| TypePut::Chain(names.map(kind).to_vec());
    assert_eq!(
        put_type(store, "b", &to("c")).await,
        chain(["a", "b", "c"]),
        "b is one already"
    );
    assert_eq!(
        put_type(store, "d", &to("a")).await,
        chain(["d", "a", "b"]),
        "a has one already"
    );
    put_type(store, "a", &[]).await;
    assert!(matches!(put_type(store, "b", &to("c")).await, TypePut::Saved(_)));
}

pub(super) async fn subscriptions_belong_to_a_type_and_are_one_for_each_url(place: &Place) {
    let store = &*place.store;
    let new = |host: &str, options: &str| NewSubscription {
        event_type: kind("t"),
        url: url(host),
        options: options.to_owned(),
    };
    assert_eq!(store.subscription_put(&new("one", "{}")).await.unwrap(), None);
    put_type(store, "t", &[]).await;
    let first = store.subscription_put(&new("one", "{}")).await.unwrap().unwrap();
    let again = store
        .subscription_put(&new("one", "{\"headers\":{}}"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((again.id, again.options.as_str()), (first.id, "{\"headers\":{}}"));
    store.subscription_put(&new("two", "{}")).await.unwrap();
    assert_eq!(store.subscriptions(&kind("t")).await.unwrap().len(), 2);
    assert!(store.subscription_remove(&kind("t"), first.id).await.unwrap());
    assert!(!store.subscription_remove(&kind("t"), first.id).await.unwrap());
    assert_eq!(store.subscriptions(&kind("t")).await.unwrap().len(), 1);
    assert_eq!(
        store.ended_subscriptions(&kind("t")).await.unwrap(),
        std::slice::from_ref(&again)
    );
    let new = store.subscription_put(&new("one", "{}")).await.unwrap().unwrap();
    assert!(
        new.id != again.id,
        "what waits of the one that ended is signed as it was"
    );
    assert_eq!(store.ended_subscriptions(&kind("t")).await.unwrap(), [again]);
}

fn outgoing(id: &str, queue: &str) -> NewOutboxRow {
    NewOutboxRow {
        notification: id.to_owned(),
        queue: queue.to_owned(),
        message: vec![1, 0].into(),
        event_type: kind("t"),
        reference: reference("a"),
    }
}

pub(super) async fn notifications_are_stored_with_the_finish_or_not_at_all(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let key = take(store, owner, 1).await[0].lease_key().unwrap();
    push(store, "a", "newer").await;
    let done = |lease, ids: &[&str]| Finish {
        lease,
        verdict: Verdict::Done(ids.iter().map(|id| outgoing(id, "q")).collect()),
    };
    let late = store.events_finish(&[done(key, &["late"])]).await.unwrap();
    assert_eq!(late, [Finished::Superseded]);
    assert_eq!(store.outbox_waiting().await.unwrap().count, 0);
    let key = take(store, owner, 1).await[0].lease_key().unwrap();
    let finished = store.events_finish(&[done(key, &["one", "two"])]).await.unwrap();
    assert_eq!(finished, [Finished::Done]);
    let ids: Vec<String> = store
        .outbox_page(10)
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.notification)
        .collect();
    assert_eq!(ids, ["one", "two"]);
}

pub(super) async fn a_notification_that_waits_holds_only_its_own_queue(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let lease = take(store, owner, 1).await[0].lease_key().unwrap();
    let rows = [("1", "q1"), ("2", "q2"), ("3", "q1")]
        .map(|(id, queue)| outgoing(id, queue))
        .to_vec();
    let finish = Finish {
        lease,
        verdict: Verdict::Done(rows),
    };
    store.events_finish(&[finish]).await.unwrap();
    let page = async || {
        let rows = store.outbox_page(10).await.unwrap();
        rows.into_iter()
            .map(|row| (row.id, row.notification))
            .collect::<Vec<_>>()
    };
    let all = page().await;
    assert_eq!(all.len(), 3);
    store.outbox_postpone(all[0].0, HOUR, "no such queue").await.unwrap();
    let waiting = store.outbox_waiting().await.unwrap();
    assert_eq!((waiting.count, waiting.error.as_deref()), (3, Some("no such queue")));
    assert!(waiting.oldest.is_some());
    let rest = page().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].1, "2");
    let epoch = store.named_lease_take("outbox", owner).await.unwrap().unwrap();
    let guard = NamedLease {
        name: "outbox".to_owned(),
        epoch,
    };
    assert!(store.outbox_published(&guard, &[rest[0].0]).await.unwrap());
    assert!(store.outbox_bury(&guard, all[0].0, "never").await.unwrap());
    assert_eq!(page().await[0].1, "3");
    assert_eq!(one(store, "a").await.state, EventState::Dead);
    store.named_lease_free("outbox", epoch).await.unwrap();
    assert!(!store.outbox_published(&guard, &[all[2].0]).await.unwrap());
}

/// However many rows are asked for, memory has to hold no more than a bound of their bodies.
pub(super) async fn large_bodies_come_a_few_at_a_time_and_all_of_them_come(place: &Place) {
    const ALL: usize = 12;
    const AT_ONCE: usize = 8;
    let store = &*place.store;
    let owner = living(store).await;
    let large = "x".repeat(1024 * 1024);
    let names: Vec<String> = (0..ALL).map(|number| format!("{number:02}")).collect();
    for name in &names {
        push(store, name, &large).await;
    }
    let mut listed = Vec::new();
    let mut before = None;
    loop {
        let search = EventSearch {
            limit: 100,
            before,
            ..EventSearch::default()
        };
        let page = store.events_search(&search).await.unwrap();
        assert!(page.events.len() <= AT_ONCE, "{} of 1 MiB at once", page.events.len());
        listed.extend(page.events.iter().map(|event| event.reference.as_str().to_owned()));
        before = page.reached;
        if before.is_none() {
            break;
        }
    }
    listed.reverse();
    assert_eq!(listed, names);
    let mut rows = Vec::new();
    for expected in [AT_ONCE, ALL - AT_ONCE] {
        let taken = take(store, owner, 100).await;
        assert_eq!(taken.len(), expected);
        for event in taken {
            let row = NewOutboxRow {
                message: large.clone().into(),
                ..outgoing(event.reference.as_str(), "q")
            };
            rows.push((event.lease_key().unwrap(), row));
        }
    }
    for (lease, row) in rows {
        finish(store, lease, Verdict::Done(vec![row])).await;
    }
    let epoch = store.named_lease_take("outbox", owner).await.unwrap().unwrap();
    let guard = NamedLease {
        name: "outbox".to_owned(),
        epoch,
    };
    let mut published = Vec::new();
    for expected in [AT_ONCE, ALL - AT_ONCE, 0] {
        let page = store.outbox_page(100).await.unwrap();
        assert_eq!(page.len(), expected);
        published.extend(page.iter().map(|row| row.notification.clone()));
        let ids: Vec<i64> = page.iter().map(|row| row.id).collect();
        assert!(store.outbox_published(&guard, &ids).await.unwrap());
    }
    assert_eq!(published, names);
}
