//! Pushing, handling and looking at events.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use redrive::internals::ambient::Clock;
use redrive::internals::domain::event::{
    Event, EventState, EventType, HandlingRules, LeaseKey, Metadata, NewEvent, Reference, Subtype,
};
use redrive::internals::domain::id::IncarnationId;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::value::Value;
use redrive::internals::sqlite::SqliteFile;
use redrive::internals::store::sqlite::SqliteStore;
use redrive::internals::store::{
    Acted, EventAct, EventBatch, EventClaim, EventQuery, Expired, Finish, Finished, NamedLease, NewEventType,
    PushOutcome, Pushed, PushedHow, References, Store, TypePut, Undecodable, Verdict,
};

use super::fixtures::{HOUR, Place, living};

pub(super) fn kind(name: &str) -> EventType {
    EventType::parse(name).unwrap()
}

pub(super) fn reference(name: &str) -> Reference {
    Reference::parse(name).unwrap()
}

pub(super) fn new_event(event_type: &str, about: &str, payload: &str) -> NewEvent {
    NewEvent {
        event_type: kind(event_type),
        reference: reference(about),
        nbf: None,
        reason: Some("message: queue=q".to_owned()),
        payload: Some(payload.to_owned().into()),
        lifetime: None,
        trace: None,
    }
}

pub(super) async fn pushed_all(store: &dyn Store, events: Vec<NewEvent>) -> Vec<Pushed> {
    let batch = EventBatch {
        events,
        ..EventBatch::default()
    };
    match store.events_push(&batch).await.unwrap() {
        PushOutcome::Pushed(pushed) => pushed,
        PushOutcome::Fenced => panic!("there is no guard"),
    }
}

pub(super) async fn push(store: &dyn Store, about: &str, payload: &str) -> Pushed {
    pushed_all(store, vec![new_event("t", about, payload)]).await[0]
}

pub(super) async fn a_batch_keeps_every_payload_byte_for_byte(place: &Place) {
    let store = &*place.store;
    let payloads: [&[u8]; 8] = [
        b"text",
        b"",
        b"\x00\x01\xff\xfe",
        b"a\x00b",
        "\u{2028}\"\\\u{1f980}".as_bytes(),
        b"{\"n\": 1.0e400}",
        b"4711",
        b"null",
    ];
    let mut events: Vec<NewEvent> = (0..)
        .zip(payloads)
        .map(|(number, payload)| NewEvent {
            payload: Some(payload.into()),
            lifetime: (number == 1).then_some(HOUR),
            nbf: (number == 2).then(|| Timestamp::from_seconds(2_000_000_000)),
            ..new_event("t", &format!("{number}"), "")
        })
        .collect();
    events.push(NewEvent {
        payload: None,
        reason: None,
        ..new_event("t", "none", "")
    });
    let pushed = pushed_all(store, events.clone()).await;
    for (event, pushed) in events.iter().zip(&pushed) {
        let found = one(store, event.reference.as_str()).await;
        assert_eq!(
            (found.id, &found.payload, &found.reason),
            (pushed.id, &event.payload, &event.reason)
        );
        assert_eq!(
            (found.expires_at.is_some(), Some(found.nbf) == event.nbf),
            (event.lifetime.is_some(), event.nbf.is_some())
        );
    }
}

pub(super) async fn pushes_that_come_at_once_are_each_answered_for_itself(place: &Place) {
    let store = &*place.store;
    let payload = |number: u8| {
        if number.is_multiple_of(2) {
            vec![number, 0, 255]
        } else {
            vec![b'0' + number % 10, b'x']
        }
    };
    let pushes = (0..64).map(|number: u8| async move {
        let event = NewEvent {
            payload: Some(payload(number).into()),
            ..new_event("t", &format!("r{}", number % 4), "")
        };
        (number, pushed_all(store, vec![event]).await[0])
    });
    let pushed = futures_util::future::join_all(pushes).await;
    for remainder in 0..4 {
        let mut of_one: Vec<_> = pushed.iter().filter(|(number, _)| number % 4 == remainder).collect();
        of_one.sort_unstable_by_key(|(_, pushed)| pushed.revision);
        let revisions: Vec<i64> = of_one.iter().map(|(_, pushed)| pushed.revision).collect();
        assert_eq!(revisions, (1..=16).collect::<Vec<i64>>());
        let found = one(store, &format!("r{remainder}")).await;
        assert!(of_one.iter().all(|(_, pushed)| pushed.id == found.id));
        let (last, _) = of_one[15];
        assert_eq!(
            (found.revision, found.payload.as_deref()),
            (16, Some(&payload(*last)[..]))
        );
    }
}

pub(super) async fn take(store: &dyn Store, owner: IncarnationId, limit: u32) -> Vec<Event> {
    let claim = EventClaim {
        event_type: kind("t"),
        references: References::All,
        limit,
        cutoff: 20,
        owner,
        span: HOUR,
        after: None,
    };
    store.events_claim(&claim).await.unwrap()
}

/// Two events of each reference: which half has it is the same for both.
pub(super) async fn claims_of_both_halves_at_once_take_every_event_once(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    let dated = |about: &str| NewEvent {
        nbf: Some(Timestamp::from_seconds(1_000_000_000)),
        ..new_event("t", about, "")
    };
    let abouts: Vec<String> = (0..50).map(|number| format!("r{number}")).collect();
    let both = abouts
        .iter()
        .flat_map(|about| [new_event("t", about, ""), dated(about)]);
    pushed_all(store, both.collect()).await;
    let claim = |references| EventClaim {
        event_type: kind("t"),
        references,
        limit: 200,
        cutoff: 20,
        owner,
        span: HOUR,
        after: None,
    };
    let claims = [claim(References::FirstHalf), claim(References::SecondHalf)];
    let (first, second) = tokio::join!(store.events_claim(&claims[0]), store.events_claim(&claims[1]));
    let mut taken: Vec<String> = [first.unwrap(), second.unwrap()]
        .iter()
        .flatten()
        .map(|event| event.reference.as_str().to_owned())
        .collect();
    taken.sort_unstable();
    let mut wanted = abouts;
    wanted.sort_unstable();
    assert_eq!(taken, wanted, "one of each");
}

pub(super) async fn finish(store: &dyn Store, lease: LeaseKey, verdict: Verdict) -> Finished {
    store.events_finish(&[Finish { lease, verdict }]).await.unwrap()[0]
}

pub(super) fn failed(attempts: u32) -> Verdict {
    Verdict::Retry {
        attempts,
        delay: HOUR,
        reason: "retry: failed_at=now error=no luck".to_owned(),
    }
}

pub(super) async fn of(store: &dyn Store, about: &str) -> Vec<Event> {
    store.events_of(&kind("t"), &reference(about)).await.unwrap()
}

pub(super) async fn one(store: &dyn Store, about: &str) -> Event {
    let mut found = of(store, about).await;
    assert_eq!(found.len(), 1, "{about}: {found:?}");
    found.remove(0)
}

pub(super) async fn put_type(store: &dyn Store, name: &str, entries: &[(&str, Value)]) -> TypePut {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    let metadata = Metadata::from_value(&Value::Table(entries), &kind(name)).unwrap();
    let new = NewEventType {
        name: kind(name),
        document: "{}".to_owned(),
        metadata,
    };
    store.event_type_put(&new).await.unwrap()
}

pub(super) async fn a_pushed_event_is_kept_byte_for_byte_and_due_at_once(place: &Place) {
    let store = &*place.store;
    let pushed = push(store, "a", "{\"n\": 1.0e2}\u{0}").await;
    assert_eq!((pushed.revision, pushed.how), (1, PushedHow::New));
    let event = store.event_get(pushed.id).await.unwrap().unwrap();
    assert_eq!(event.payload.as_deref(), Some("{\"n\": 1.0e2}\u{0}".as_bytes()));
    assert_eq!(
        (event.state, event.subtype, event.attempts),
        (EventState::Ready, Subtype::Immediate, 0)
    );
    assert!(event.nbf <= store.now().await.unwrap());
    assert_eq!(store.event_types().await.unwrap()[0].name, kind("t"));
}

pub(super) async fn a_push_of_a_key_that_waits_replaces_it(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "one").await;
    let taken = take(store, owner, 1).await.remove(0);
    assert_eq!(
        finish(store, taken.lease_key().unwrap(), failed(1)).await,
        Finished::Retried
    );
    let waiting = one(store, "a").await;
    assert_eq!(waiting.attempts, 1);
    assert!(waiting.nbf > store.now().await.unwrap());
    assert!(waiting.reason.unwrap().starts_with("retry: failed_at="));
    let again = push(store, "a", "two").await;
    assert_eq!(
        (again.id, again.revision, again.how),
        (waiting.id, 2, PushedHow::Coalesced)
    );
    let now = one(store, "a").await;
    assert_eq!(
        (now.attempts, now.merged, now.payload.as_deref()),
        (0, 1, Some(&b"two"[..]))
    );
    assert!(now.nbf <= store.now().await.unwrap());
    assert_eq!(now.first_failed_at, None);
}

pub(super) async fn dated_events_stand_beside_each_other_and_only_an_equal_one_is_replaced(place: &Place) {
    let store = &*place.store;
    let at = Timestamp::from_seconds(4_000_000_000);
    let dated = |seconds: u64, payload: &str| NewEvent {
        nbf: Some(at.plus(Duration::from_secs(seconds))),
        ..new_event("t", "a", payload)
    };
    pushed_all(
        store,
        vec![new_event("t", "a", "now"), dated(0, "first"), dated(1, "second")],
    )
    .await;
    let again = pushed_all(store, vec![dated(1, "third")]).await[0];
    assert_eq!(again.how, PushedHow::Coalesced);
    let found = of(store, "a").await;
    let payloads: Vec<_> = found.iter().map(|event| event.payload.clone().unwrap()).collect();
    assert_eq!(payloads, ["now", "first", "third"]);
    assert_eq!(found[1].shown_type(), "t-delayed");
    let owner = living(store).await;
    assert_eq!(take(store, owner, 10).await.len(), 1, "what is dated is not due");
}

pub(super) async fn a_dated_event_that_is_rescheduled_has_its_new_date_as_its_key(place: &Place) {
    let store = &*place.store;
    let at = |year: i64| Timestamp::from_seconds(4_000_000_000 + year);
    let dated = |year: i64| NewEvent {
        nbf: Some(at(year)),
        ..new_event("t", "a", "x")
    };
    let first = pushed_all(store, vec![dated(0)]).await[0];
    let moved = async |id: i64, revision: i64, year: i64| {
        let acted = store.event_act(id, revision, EventAct::Reschedule(at(year))).await;
        let Acted::Done(event) = acted.unwrap() else {
            panic!("it is there");
        };
        assert_eq!(event.nbf, at(year));
        event.dated
    };
    assert_eq!(moved(first.id, 1, 1).await, Some(at(1)));
    let again = pushed_all(store, vec![dated(1)]).await[0];
    assert_eq!((again.id, again.how), (first.id, PushedHow::Coalesced));
    let other = pushed_all(store, vec![dated(0)]).await[0];
    assert_eq!(other.how, PushedHow::New);
    assert_eq!(moved(other.id, 1, 1).await, Some(at(0)), "another one has that key");
    store.event_act(first.id, 2, EventAct::Retry).await.unwrap();
    let retried = store.event_get(first.id).await.unwrap().unwrap();
    assert_eq!(retried.dated, Some(at(1)), "only a new date moves the key");
}

pub(super) async fn a_batch_is_answered_in_its_order(place: &Place) {
    let store = &*place.store;
    push(store, "c", "old").await;
    let batch = ["d", "c", "b", "a"].map(|about| new_event("t", about, about)).to_vec();
    let pushed = pushed_all(store, batch).await;
    for (pushed, about) in pushed.iter().zip(["d", "c", "b", "a"]) {
        let event = store.event_get(pushed.id).await.unwrap().unwrap();
        assert_eq!((event.reference.as_str(), event.revision), (about, pushed.revision));
    }
    assert_eq!(pushed[1].how, PushedHow::Coalesced);
}

pub(super) async fn due_events_are_taken_soonest_first_and_once(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    let owner = living(store).await;
    let events = (0..200)
        .map(|number| new_event("t", &format!("r{number:03}"), "x"))
        .collect();
    pushed_all(store, events).await;
    let mut ids = Vec::new();
    loop {
        let (one, two) = tokio::join!(take(store, owner, 7), take(&*other, owner, 7));
        if one.is_empty() && two.is_empty() {
            break;
        }
        assert!(one.is_sorted_by_key(|event| (event.nbf, event.id)));
        ids.extend(one.iter().chain(&two).map(|event| event.id));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    other.close().await;
}

pub(super) async fn of_one_reference_only_one_is_taken_dated_ones_included(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    let owner = living(store).await;
    for round in 0..20 {
        let about = format!("r{round}");
        let past = |seconds| NewEvent {
            nbf: Some(Timestamp::from_seconds(seconds)),
            ..new_event("t", &about, "x")
        };
        pushed_all(store, vec![past(10), past(20), new_event("t", &about, "x")]).await;
        let (one, two) = tokio::join!(take(store, owner, 2), take(&*other, owner, 2));
        let taken: Vec<&Event> = one.iter().chain(&two).collect();
        assert_eq!(taken.len(), 1, "{taken:?}");
        for _ in 0..3 {
            let held: Vec<Event> = of(store, &about).await;
            let leased: Vec<&Event> = held.iter().filter(|event| event.state == EventState::Leased).collect();
            assert_eq!(leased.len(), 1);
            assert_eq!(
                finish(store, leased[0].lease_key().unwrap(), Verdict::Done(vec![])).await,
                Finished::Done
            );
            take(store, owner, 2).await;
        }
        assert!(of(store, &about).await.is_empty());
    }
    other.close().await;
}

pub(super) async fn a_requeued_event_waits_for_its_time_with_its_reason(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let taken = take(store, owner, 1).await.remove(0);
    assert_eq!(
        finish(store, taken.lease_key().unwrap(), requeue()).await,
        Finished::Requeued
    );
    let event = one(store, "a").await;
    let at = Timestamp::from_seconds(4_000_000_000);
    assert_eq!((event.nbf, event.attempts, event.state), (at, 0, EventState::Ready));
    assert_eq!(
        event.reason.as_deref(),
        Some("next-change: assignment_end_date=2022-06-01")
    );
}

pub(super) async fn a_released_event_is_ready_as_it_was(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let before = one(store, "a").await;
    let taken = take(store, owner, 1).await.remove(0);
    assert_eq!(
        finish(store, taken.lease_key().unwrap(), Verdict::Release).await,
        Finished::Released
    );
    assert_eq!(one(store, "a").await, before);
}

/// One call with an end of every kind; each row is what its own end made of it.
pub(super) async fn ends_of_one_call_are_each_done_and_told_for_itself(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    let about = [
        "done",
        "newer",
        "cancelled",
        "failed",
        "later",
        "dead",
        "released",
        "stale",
    ];
    let pushed = pushed_all(store, about.map(|about| new_event("t", about, "x")).to_vec()).await;
    let taken = take(store, owner, 10).await;
    let key_of = |about: &str| {
        let event = taken.iter().find(|event| event.reference == reference(about));
        event.unwrap().lease_key().unwrap()
    };
    push(store, "newer", "y").await;
    let cancelled = store.event_act(pushed[2].id, 1, EventAct::Cancel).await.unwrap();
    assert!(matches!(cancelled, Acted::Done(_)));
    let ends: [(_, fn() -> Verdict, _); 8] = [
        ("done", || Verdict::Done(vec![]), Finished::Done),
        ("newer", || failed(1), Finished::Superseded),
        ("cancelled", || failed(1), Finished::Gone),
        ("failed", || failed(1), Finished::Retried),
        ("later", requeue, Finished::Requeued),
        ("dead", dead, Finished::Dead),
        ("released", || Verdict::Release, Finished::Released),
        ("stale", || Verdict::Done(vec![]), Finished::Stale),
    ];
    let mut finishes = ends.map(|(about, verdict, _)| Finish {
        lease: key_of(about),
        verdict: verdict(),
    });
    finishes[7].lease.token += 1_000;
    let found = store.events_finish(&finishes).await.unwrap();
    assert_eq!(found, ends.map(|(_, _, finished)| finished));
    for gone in ["done", "cancelled"] {
        assert!(of(store, gone).await.is_empty(), "{gone}");
    }
    for (about, state, attempts, revision) in [
        ("newer", EventState::Ready, 0, 2),
        ("failed", EventState::Ready, 1, 1),
        ("later", EventState::Ready, 0, 1),
        ("dead", EventState::Dead, 20, 1),
        ("released", EventState::Ready, 0, 1),
        ("stale", EventState::Leased, 0, 1),
    ] {
        let event = one(store, about).await;
        assert_eq!(
            (event.state, event.attempts, event.revision, event.lease.is_some()),
            (state, attempts, revision, state == EventState::Leased),
            "{about}"
        );
    }
    assert_eq!(one(store, "later").await.nbf, Timestamp::from_seconds(4_000_000_000));
    let reason = one(store, "dead").await.reason.unwrap();
    assert!(reason.contains("never") && reason.ends_with("again"), "{reason}");
}

fn requeue() -> Verdict {
    Verdict::Requeue {
        at: Timestamp::from_seconds(4_000_000_000),
        reason: "next-change: assignment_end_date=2022-06-01".to_owned(),
    }
}

fn dead() -> Verdict {
    Verdict::Dead {
        attempts: 20,
        reason: "retry: failed_at=now error=never\0 again".to_owned(),
    }
}

pub(super) async fn a_dead_event_is_not_taken_and_comes_back_to_life_by_a_push(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let taken = take(store, owner, 1).await.remove(0);
    let dead = Verdict::Dead {
        attempts: 20,
        reason: "retry: failed_at=now error=never".to_owned(),
    };
    assert_eq!(finish(store, taken.lease_key().unwrap(), dead).await, Finished::Dead);
    assert!(take(store, owner, 10).await.is_empty());
    let query = EventQuery {
        dead_letters: true,
        limit: 10,
        ..EventQuery::default()
    };
    let listed = store.events_page(&query).await.unwrap();
    assert_eq!((listed.len(), listed[0].attempts), (1, 20));
    assert!(listed[0].last_failed_at.is_some() && listed[0].is_dead_letter());
    let revived = push(store, "a", "y").await;
    assert_eq!(revived.how, PushedHow::Revived);
    let event = take(store, owner, 10).await.remove(0);
    assert_eq!((event.attempts, event.payload.as_deref()), (0, Some(&b"y"[..])));
}

pub(super) async fn events_over_a_lowered_cutoff_are_given_up(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let taken = take(store, owner, 1).await.remove(0);
    finish(store, taken.lease_key().unwrap(), failed(5)).await;
    assert_eq!(store.events_give_up(&kind("t"), 6).await.unwrap(), 0);
    assert_eq!(store.events_give_up(&kind("t"), 5).await.unwrap(), 1);
    assert_eq!(one(store, "a").await.state, EventState::Dead);
}

pub(super) async fn a_lease_of_the_dead_and_one_that_ran_out_are_ended_as_failures(place: &Place) {
    let store = &*place.store;
    let (dead, alive) = (living(store).await, living(store).await);
    pushed_all(
        store,
        vec![
            new_event("t", "a", "x"),
            new_event("t", "b", "x"),
            new_event("t", "c", "x"),
        ],
    )
    .await;
    take(store, dead, 1).await;
    let claim = EventClaim {
        event_type: kind("t"),
        references: References::All,
        limit: 1,
        cutoff: 20,
        owner: alive,
        span: Duration::ZERO,
        after: None,
    };
    store.events_claim(&claim).await.unwrap();
    take(store, alive, 1).await;
    store.incarnation_end(dead).await.unwrap();
    let rules = HandlingRules {
        cutoff: 2,
        ..HandlingRules::default()
    };
    let reaped = store.events_reap(10, rules).await.unwrap();
    assert_eq!(reaped.len(), 2, "{reaped:?}");
    assert!(
        reaped
            .iter()
            .all(|reaped| reaped.attempts == 1 && reaped.how == Finished::Retried && !reaped.claimed)
    );
    let event = one(store, "a").await;
    assert!(
        event
            .reason
            .as_deref()
            .unwrap()
            .contains("error=lost: the lease of incarnation"),
        "{event:?}"
    );
    assert!(event.nbf > store.now().await.unwrap());
    assert_eq!(one(store, "c").await.state, EventState::Leased);
}

pub(super) async fn a_prolonged_lease_is_not_ended(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    push(store, "a", "x").await;
    let claim = EventClaim {
        event_type: kind("t"),
        references: References::All,
        limit: 1,
        cutoff: 20,
        owner,
        span: Duration::ZERO,
        after: None,
    };
    let key = store.events_claim(&claim).await.unwrap()[0].lease_key().unwrap();
    assert_eq!(store.events_renew(&[key], HOUR).await.unwrap(), [key]);
    assert!(
        store
            .events_reap(10, HandlingRules::default())
            .await
            .unwrap()
            .is_empty()
    );
    let stale = LeaseKey {
        token: key.token + 1,
        ..key
    };
    assert!(store.events_renew(&[stale], HOUR).await.unwrap().is_empty());
    // Of two leases of one event, the one that holds.
    assert_eq!(store.events_renew(&[stale, key], HOUR).await.unwrap(), [key]);
}

pub(super) async fn a_busy_key_waits_for_quiet_and_no_longer_than_its_bound(place: &Place) {
    let store = &*place.store;
    let window = [
        ("_coalesce_window", Value::Integer(3600)),
        ("_coalesce_window_max", Value::Integer(5400)),
    ];
    put_type(store, "t", &window).await;
    push(store, "a", "x").await;
    let first = one(store, "a").await;
    assert_eq!(first.nbf.since(first.created_at), HOUR);
    push(store, "a", "y").await;
    let second = one(store, "a").await;
    assert!(second.nbf > first.nbf && second.first_at == first.first_at);
    // As if it had begun to wait an hour ago.
    place
        .tamper("UPDATE TABLE.events SET first_at = first_at - 3600000000")
        .await
        .unwrap();
    push(store, "a", "z").await;
    let bounded = one(store, "a").await;
    assert_eq!(bounded.nbf.since(bounded.first_at), Duration::from_secs(5400));
}

pub(super) async fn events_with_a_lifetime_end_by_themselves(place: &Place) {
    let store = &*place.store;
    let lives = NewEvent {
        lifetime: Some(HOUR),
        ..new_event("t", "a", "x")
    };
    pushed_all(store, vec![lives, new_event("t", "b", "x")]).await;
    assert_eq!(store.events_expire(10).await.unwrap().events, 0);
    place
        .tamper("UPDATE TABLE.events SET expires_at = expires_at - 7200000000")
        .await
        .unwrap();
    let owner = living(store).await;
    assert_eq!(take(store, owner, 10).await.len(), 1, "its lifetime is over");
    assert_eq!(store.events_expire(10).await.unwrap().events, 1);
    assert!(of(store, "a").await.is_empty());
}

pub(super) async fn a_lifetime_that_is_over_by_a_leap_of_the_clock_alone_ends_a_day_later(place: &Place) {
    const DAY: i64 = 86_400_000_000;
    let store = &*place.store;
    let owner = living(store).await;
    let lives = |about: &str, days: u32| NewEvent {
        lifetime: Some(HOUR * 24 * days),
        ..new_event("t", about, "x")
    };
    put_type(store, "t", &[("_history_ttl", Value::Integer(864_000))]).await;
    push(store, "handled", "x").await;
    let taken = take(store, owner, 1).await.remove(0);
    finish(store, taken.lease_key().unwrap(), Verdict::Done(vec![])).await;
    pushed_all(store, vec![lives("long", 10), lives("over", 1)]).await;
    assert_eq!(store.events_expire(10).await.unwrap(), Expired::default());
    // As if two days had passed, and the clock had gone forty days ahead then.
    let passed = format!(
        "UPDATE TABLE.events SET created_at = created_at - {0}, expires_at = expires_at - {0}; \
         UPDATE TABLE.event_history SET handled_at = handled_at - {0}, expires_at = expires_at - {0}; \
         UPDATE TABLE.janitor SET aged_at = aged_at - {1}",
        DAY * 42,
        DAY * 40
    );
    place.tamper(&passed).await.unwrap();
    let ended = store.events_expire(10).await.unwrap();
    assert_eq!((ended.events, ended.history), (1, 0));
    assert!(of(store, "over").await.is_empty(), "it is over by any clock");
    // What was made since lives by the clock as it is.
    pushed_all(store, vec![lives("new", 1)]).await;
    let sooner = format!(
        "UPDATE TABLE.events SET expires_at = expires_at - {} WHERE reference = 'new'",
        DAY * 2
    );
    place.tamper(&sooner).await.unwrap();
    assert_eq!(store.events_expire(10).await.unwrap().events, 1);
    assert!(of(store, "new").await.is_empty() && !of(store, "long").await.is_empty());
    let next_day = format!("UPDATE TABLE.janitor SET leapt_at = leapt_at - {}", DAY * 2);
    place.tamper(&next_day).await.unwrap();
    let ended = store.events_expire(10).await.unwrap();
    assert_eq!((ended.events, ended.history), (1, 1));
}

pub(super) async fn handled_events_are_remembered_where_the_type_says_so(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    put_type(store, "t", &[("_history_ttl", Value::Integer(3600))]).await;
    push(store, "a", "x").await;
    let taken = take(store, owner, 1).await.remove(0);
    finish(store, taken.lease_key().unwrap(), Verdict::Done(vec![])).await;
    let history = store.event_history(&kind("t"), 10).await.unwrap();
    assert_eq!((history.len(), history[0].id, history[0].revision), (1, taken.id, 1));
    place
        .tamper("UPDATE TABLE.event_history SET expires_at = 0")
        .await
        .unwrap();
    assert_eq!(store.events_expire(10).await.unwrap().history, 1);
}

pub(super) async fn events_are_listed_newest_first_by_their_conditions(place: &Place) {
    let store = &*place.store;
    let mut events: Vec<_> = (0..5)
        .map(|number| new_event("t", &format!("r{number}"), "x"))
        .collect();
    events.push(NewEvent {
        reason: Some("retry: error=TimeOut 50%".to_owned()),
        ..new_event("u", "r0", "x")
    });
    pushed_all(store, events).await;
    let page = |query: EventQuery| async move { store.events_page(&query).await.unwrap() };
    let base = EventQuery {
        limit: 3,
        ..EventQuery::default()
    };
    let first = page(base.clone()).await;
    assert!(first.is_sorted_by(|one, two| one.id > two.id) && first.len() == 3);
    let rest = page(EventQuery {
        before: Some(first[2].id),
        ..base.clone()
    })
    .await;
    assert_eq!(rest.len(), 3);
    let of_type = page(EventQuery {
        event_type: Some(kind("u")),
        ..base.clone()
    })
    .await;
    assert_eq!(of_type.len(), 1);
    let by_reason = page(EventQuery {
        reason_part: Some("timeout 50%".to_owned()),
        ..base.clone()
    })
    .await;
    assert_eq!(by_reason.len(), 1);
    let by_reference = page(EventQuery {
        reference: Some(reference("r0")),
        ..base.clone()
    })
    .await;
    assert_eq!(by_reference.len(), 2);
    let leased = page(EventQuery {
        state: Some(EventState::Leased),
        ..base
    })
    .await;
    assert!(leased.is_empty());
    let counts = store.events_counts().await.unwrap();
    assert_eq!((counts.len(), counts[0].count, counts[0].due), (2, 5, 5));
}

pub(super) async fn a_persons_change_is_guarded_by_the_revision(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    let pushed = push(store, "a", "x").await;
    let at = Timestamp::from_seconds(4_000_000_000);
    assert_eq!(
        store.event_act(pushed.id, 7, EventAct::Cancel).await.unwrap(),
        Acted::Changed
    );
    let Acted::Done(event) = store.event_act(pushed.id, 1, EventAct::Reschedule(at)).await.unwrap() else {
        panic!("it is there");
    };
    assert_eq!(event.nbf, at);
    assert!(matches!(
        store.event_act(pushed.id, 1, EventAct::Retry).await.unwrap(),
        Acted::Done(_)
    ));
    assert_eq!(take(store, owner, 1).await.len(), 1);
    assert_eq!(
        store.event_act(pushed.id, 1, EventAct::Retry).await.unwrap(),
        Acted::Leased
    );
    assert!(matches!(
        store.event_act(pushed.id, 1, EventAct::Cancel).await.unwrap(),
        Acted::Done(_)
    ));
    assert_eq!(
        store.event_act(pushed.id, 1, EventAct::Cancel).await.unwrap(),
        Acted::Gone
    );
}

pub(super) async fn a_dead_event_that_is_retried_gets_its_whole_budget(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    let pushed = push(store, "a", "x").await;
    let taken = take(store, owner, 1).await.remove(0);
    let dead = Verdict::Dead {
        attempts: 20,
        reason: "never".to_owned(),
    };
    finish(store, taken.lease_key().unwrap(), dead).await;
    assert!(matches!(
        store.event_act(pushed.id, 1, EventAct::Retry).await.unwrap(),
        Acted::Done(_)
    ));
    let event = take(store, owner, 1).await.remove(0);
    assert_eq!((event.attempts, event.reason.as_deref()), (0, Some("never")));
}

pub(super) async fn a_batch_under_a_lost_lease_changes_nothing(place: &Place) {
    let store = &*place.store;
    let owner = living(store).await;
    let epoch = store.named_lease_take("intake", owner).await.unwrap().unwrap();
    let other = living(store).await;
    assert_eq!(store.named_lease_take("intake", other).await.unwrap(), None);
    let undecodable = Undecodable {
        event_type: kind("t"),
        reference: reference("m-1"),
        reason: "undecodable: not JSON".to_owned(),
        payload: vec![0, 255].into(),
        properties: "{}".to_owned(),
        comes_again: false,
    };
    let batch = EventBatch {
        guard: Some(NamedLease {
            name: "intake".to_owned(),
            epoch,
        }),
        events: vec![new_event("t", "a", "x")],
        undecodable: vec![undecodable],
    };
    assert!(matches!(
        store.events_push(&batch).await.unwrap(),
        PushOutcome::Pushed(_)
    ));
    assert_eq!(one(store, "m-1").await.payload.as_deref(), Some(&[0, 255][..]));
    let kept = one(store, "m-1").await;
    assert_eq!(kept.state, EventState::Dead);
    let retried = store.event_act(kept.id, kept.revision, EventAct::Retry).await.unwrap();
    assert_eq!(
        retried,
        Acted::NoEvent,
        "its bytes are no payload, and its reference is none"
    );
    let mut again = EventBatch {
        events: Vec::new(),
        ..batch.clone()
    };
    again.undecodable[0].comes_again = true;
    store.events_push(&again).await.unwrap();
    assert_eq!(of(store, "m-1").await.len(), 1, "it was kept already");
    again.undecodable[0].payload = vec![1].into();
    store.events_push(&again).await.unwrap();
    assert_eq!(of(store, "m-1").await.len(), 2, "another body");
    store.incarnation_end(owner).await.unwrap();
    let later = store.named_lease_take("intake", other).await.unwrap().unwrap();
    assert!(later > epoch);
    assert_eq!(store.events_push(&batch).await.unwrap(), PushOutcome::Fenced);
    assert_eq!(one(store, "a").await.revision, 1);
    assert_eq!(of(store, "m-1").await.len(), 2);
    assert!(!store.named_lease_free("intake", epoch).await.unwrap());
    assert!(store.named_lease_free("intake", later).await.unwrap());
}

pub(super) async fn each_push_makes_notification_ids_that_nobody_knows_before(place: &Place) {
    let store = &*place.store;
    let clock = Clock::manual(Timestamp::from_seconds(1_700_000_000));
    let directory = tempfile::tempdir().unwrap();
    let mut ids = HashSet::new();
    let mut is_new = |event: &Event| ids.insert(event.notification_id(1)) && ids.insert(event.notification_id(2));
    for number in 0..2 {
        push(store, "a", "1").await;
        let event = one(store, "a").await;
        assert!(is_new(&event), "push {number}: {event:?}");
        assert_eq!(
            one(store, "a").await.notification_id(1),
            event.notification_id(1),
            "it is kept"
        );
    }
    // Many in one statement.
    pushed_all(store, ["b", "c"].map(|about| new_event("t", about, "1")).to_vec()).await;
    for about in ["b", "c"] {
        assert!(is_new(&one(store, about).await), "{about}");
    }
    // Two stores at one time count alike, and their ids differ.
    let twins: Vec<Event> = join_all((0..2).map(async |twin| {
        let file = SqliteFile::open(&directory.path().join(format!("{twin}.db")))
            .await
            .unwrap();
        let store = SqliteStore::open(file, clock.clone()).await.unwrap();
        push(&store, "a", "1").await;
        one(&store, "a").await
    }))
    .await;
    let of = |event: &Event| (event.id, event.revision, event.created_at);
    assert_eq!(of(&twins[0]), of(&twins[1]));
    assert_ne!(twins[0].notification_id(1), twins[1].notification_id(1));
    assert!(!format!("{twins:?}").contains(twins[0].uid.expose()), "it is shown");
}
