//! Endpoints and their state.

use std::time::Duration;

use redrive::internals::domain::endpoint::{Endpoint, EndpointChange, EndpointState, disabled_by};
use redrive::internals::domain::id::{EndpointEpoch, ExecutionId};
use redrive::internals::domain::pace::{self, PaceChange, PaceOrder};
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{
    Changed, EndpointQuery, Failure, LearnedQueue, PaceChanged, ProbeNext, ProbeOutcome, Store,
};

use super::fixtures::{
    HOUR, Place, closing_failure, endpoint, failure, held_queue, learned, living, message, queue, record, recorded,
    success, taken, url,
};

async fn changed(store: &dyn Store, change: &EndpointChange) -> Endpoint {
    match store.endpoint_change(&url("one"), None, change).await.unwrap() {
        Changed::Done { now, .. } => {
            assert_eq!(*now, endpoint(store, "one").await);
            *now
        }
        other => panic!("it should be changed: {other:?}"),
    }
}

/// The endpoint `one`, closed by message `m` of queue `q`, with its probe due after `delay`.
async fn closed(store: &dyn Store, delay: Duration) -> Endpoint {
    let lease = held_queue(store, "q", "one").await;
    recorded(store, &closing_failure(&lease, "one", "m", delay))
        .await
        .expect("it closes")
}

async fn claim(store: &dyn Store, name: &str, hold: Duration) -> ProbeOutcome {
    store.probe_claim(&url("one"), &queue(name), hold).await.unwrap()
}

async fn claimed(store: &dyn Store, name: &str) -> i64 {
    match claim(store, name, HOUR).await {
        ProbeOutcome::Claimed { token, endpoint } => {
            assert_eq!(endpoint.probe.as_ref().map(|claim| claim.token), Some(token));
            assert_eq!(endpoint.probe_queue, Some(queue(name)));
            token
        }
        other => panic!("{name} should probe: {other:?}"),
    }
}

pub(super) async fn closing_makes_the_failing_message_the_probe(place: &Place) {
    let store = &*place.store;
    let before = store.now().await.unwrap();
    let closed = closed(store, HOUR).await;
    assert_eq!((closed.state, closed.attempts), (EndpointState::Unavailable, 1));
    assert_eq!(
        (&closed.probe_queue, &closed.probe_message),
        (&Some(queue("q")), &Some(message("m")))
    );
    assert_eq!(
        (closed.last_status, closed.last_error.as_deref()),
        (Some(500), Some("no luck"))
    );
    assert!(closed.since >= before && closed.next_attempt_at == Some(closed.since.plus(HOUR)));
    assert_eq!(store.endpoints_not_available().await.unwrap(), [closed]);
}

pub(super) async fn a_failed_probe_is_due_later_and_lets_go_of_the_claim(place: &Place) {
    let store = &*place.store;
    let first = closed(store, Duration::ZERO).await;
    claimed(store, "q").await;
    let change = EndpointChange::ProbeFailed {
        attempts: 2,
        delay: HOUR,
    };
    let second = changed(store, &change).await;
    assert_eq!((second.attempts, second.probe.clone()), (2, None));
    assert_eq!(
        (second.since, second.probe_queue.clone()),
        (first.since, first.probe_queue)
    );
    assert!(second.next_attempt_at > first.next_attempt_at);
    assert!(second.epoch > first.epoch);
}

pub(super) async fn the_next_message_probes_at_once_with_the_whole_policy(place: &Place) {
    let store = &*place.store;
    closed(store, HOUR).await;
    let next = changed(
        store,
        &EndpointChange::ProbeNext {
            queue: Some(queue("q")),
        },
    )
    .await;
    assert_eq!((next.attempts, &next.probe_message), (0, &None));
    claimed(store, "q").await;
    let next = changed(store, &EndpointChange::ProbeNext { queue: None }).await;
    assert_eq!((next.probe_queue, next.probe), (None, None));
    claimed(store, "any other").await;
}

pub(super) async fn parking_and_disabling_wait_for_a_person(place: &Place) {
    let store = &*place.store;
    closed(store, Duration::ZERO).await;
    claimed(store, "q").await;
    let parked = changed(store, &EndpointChange::Park { attempts: Some(3) }).await;
    assert_eq!(
        (parked.state, parked.attempts, parked.next_attempt_at, parked.probe),
        (EndpointState::Parked, 3, None, None)
    );
    let again = changed(store, &EndpointChange::Park { attempts: None }).await;
    assert_eq!(again.attempts, 3, "a policy that parks it tells of no attempt");
    let reason = "the partner left".to_owned();
    let disabled = changed(store, &EndpointChange::Disable { reason }).await;
    assert_eq!(
        (disabled.state, disabled.next_attempt_at),
        (EndpointState::Disabled, None)
    );
    assert_eq!(disabled.last_error.as_deref(), Some("the partner left"));
    assert_eq!(claim(store, "q", HOUR).await, ProbeOutcome::NotNeeded);
    assert_eq!(store.endpoints_not_available().await.unwrap(), [disabled]);
}

pub(super) async fn opening_clears_everything_and_resets_every_head_of_the_url(place: &Place) {
    let store = &*place.store;
    closed(store, Duration::ZERO).await;
    let other = held_queue(store, "p", "one").await;
    let mut refused = failure(&other, "one", "n", Some(HOUR));
    refused.refusals_in_row = 2;
    recorded(store, &refused).await;
    let elsewhere = held_queue(store, "r", "two").await;
    recorded(store, &failure(&elsewhere, "two", "n", Some(HOUR))).await;
    claimed(store, "q").await;
    let open = changed(store, &EndpointChange::Open).await;
    assert_eq!(
        (open.state, open.attempts, open.next_attempt_at),
        (EndpointState::Available, 0, None)
    );
    assert_eq!(
        (&open.probe_queue, &open.probe_message, &open.probe),
        (&None, &None, &None)
    );
    assert_eq!(
        open.last_error.as_deref(),
        Some("no luck"),
        "what was wrong stays readable"
    );
    for name in ["q", "p"] {
        let record = record(store, name).await;
        assert_eq!((record.head, record.refusals_in_row), (None, 0));
    }
    assert!(record(store, "r").await.head.is_some());
    assert_eq!(store.endpoints_not_available().await.unwrap(), []);
}

pub(super) async fn a_probe_that_opens_gives_back_what_failed_by_the_url_alone(place: &Place) {
    let store = &*place.store;
    closed(store, Duration::ZERO).await;
    let id = living(store).await;
    let mut leases = Vec::new();
    for (name, status) in [
        ("down", None),
        ("busy", Some(503)),
        ("bad", Some(500)),
        ("refused", Some(422)),
    ] {
        store.queues_learn(&[learned(name, "one")]).await.unwrap();
        let lease = taken(store, id, name).await;
        let mut failed = failure(&lease, "one", "n", Some(HOUR));
        failed.head.last_status = status;
        failed.head.failures = 4;
        failed.refusals_in_row = 3;
        recorded(store, &failed).await;
        leases.push(lease);
    }
    // A person waits for no schedule; what is parked alone stays so as well.
    let mut parked = failure(&leases[3], "one", "n", None);
    parked.head.parked = true;
    recorded(store, &parked).await;
    claimed(store, "q").await;
    let before = record(store, "bad").await;
    changed(store, &EndpointChange::Reopen { slow_start: None }).await;
    for name in ["down", "busy"] {
        let record = record(store, name).await;
        assert_eq!((record.head, record.refusals_in_row), (None, 0), "{name}");
    }
    let bad = record(store, "bad").await;
    assert_eq!((&bad.head, bad.refusals_in_row), (&before.head, 0));
    let refused = record(store, "refused").await;
    assert!(refused.head.is_some_and(|head| head.parked));
    changed(store, &EndpointChange::Open).await;
    for name in ["bad", "refused"] {
        assert_eq!(record(store, name).await.head, None, "{name}");
    }
}

pub(super) async fn a_pause_outlives_disabling_and_redelivering_and_the_reason_does_not(place: &Place) {
    let store = &*place.store;
    closed(store, HOUR).await;
    let brake = PaceChange::Brake {
        by: "ana".to_owned(),
        reason: None,
    };
    let paused = store.endpoint_pace(&url("one"), None, &brake).await.unwrap();
    assert!(matches!(paused, PaceChanged::Done(_)), "{paused:?}");
    let reason = disabled_by("bob");
    let disabled = changed(store, &EndpointChange::Disable { reason }).await;
    let order = PaceOrder {
        rate: Some(5),
        ..PaceOrder::default()
    };
    let by = "bob".to_owned();
    for open in [EndpointChange::Open, EndpointChange::OpenPaced { order, by }] {
        assert_eq!(disabled.last_error.as_deref(), Some("disabled by bob"));
        let open = changed(store, &open).await;
        assert_eq!((open.state, &open.last_error), (EndpointState::Available, &None));
        assert_eq!(open.paused(), disabled.paused());
        assert!(open.paused().is_some_and(|brake| brake.by == "ana"));
        let reason = disabled_by("bob");
        changed(store, &EndpointChange::Disable { reason }).await;
    }
}

pub(super) async fn what_it_failed_with_is_over_with_the_first_success_of_an_endpoint_that_is_available(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    recorded(store, &closing_failure(&lease, "one", "m", HOUR)).await;
    let told = async || {
        let endpoint = endpoint(store, "one").await;
        (endpoint.last_status, endpoint.last_error)
    };
    let failed = (Some(500), Some("no luck".to_owned()));
    // It was sent before the endpoint was closed.
    store
        .successes_record(&[success(&lease, "one", "before")])
        .await
        .unwrap();
    assert_eq!(told().await, failed);
    changed(store, &EndpointChange::Reopen { slow_start: None }).await;
    assert_eq!(told().await, failed, "nothing was delivered since");
    store.successes_record(&[success(&lease, "one", "m")]).await.unwrap();
    assert_eq!(told().await, (None, None));
}

pub(super) async fn a_change_under_an_old_epoch_is_stale(place: &Place) {
    let store = &*place.store;
    let closed = closed(store, HOUR).await;
    let stale = store
        .endpoint_change(&url("one"), Some(EndpointEpoch(0)), &EndpointChange::Open)
        .await
        .unwrap();
    assert_eq!(stale, Changed::Stale(Box::new(closed.clone())));
    assert!(record(store, "q").await.head.is_some(), "nothing was reset");
    let done = store
        .endpoint_change(&url("one"), Some(closed.epoch), &EndpointChange::Open)
        .await
        .unwrap();
    assert!(matches!(done, Changed::Done { before, .. } if *before == closed));
}

pub(super) async fn an_unknown_endpoint_is_unknown(place: &Place) {
    let store = &*place.store;
    let changed = store
        .endpoint_change(&url("one"), None, &EndpointChange::Open)
        .await
        .unwrap();
    assert_eq!(changed, Changed::Unknown);
    assert_eq!(store.endpoint_get(&url("one")).await.unwrap(), None);
    assert_eq!(claim(store, "q", HOUR).await, ProbeOutcome::NotNeeded);
}

pub(super) async fn every_change_of_state_raises_epoch_and_generation(place: &Place) {
    let store = &*place.store;
    store.queues_learn(&[learned("q", "one")]).await.unwrap();
    let steps = [
        (EndpointChange::Open, false),
        (
            EndpointChange::Close {
                queue: queue("q"),
                message: message("m"),
                attempts: 1,
                delay: HOUR,
            },
            true,
        ),
        (
            EndpointChange::ProbeFailed {
                attempts: 2,
                delay: HOUR,
            },
            true,
        ),
        (EndpointChange::ProbeNext { queue: None }, true),
        (EndpointChange::Park { attempts: None }, true),
        (
            EndpointChange::Disable {
                reason: "because".to_owned(),
            },
            true,
        ),
        (EndpointChange::Open, true),
        (EndpointChange::Open, false),
    ];
    for (change, raised) in steps {
        let before = (
            endpoint(store, "one").await.epoch.0,
            store.numbers().await.unwrap().generation,
        );
        let now = changed(store, &change).await;
        let after = (now.epoch.0, store.numbers().await.unwrap().generation);
        assert_eq!((after.0 > before.0, after.1 > before.1), (raised, raised), "{change:?}");
        assert!(raised || after == before, "{change:?}");
    }
}

/// A restore, or a failover that lost the last seconds: what is drawn after it is still above all that was seen before.
pub(super) async fn numbers_that_guard_never_go_back_even_with_a_store_that_does(place: &Place) {
    let store = &*place.store;
    let begin = store.now().await.unwrap().micros() / 1_000;
    let seen = closed(store, HOUR).await;
    let generation = store.numbers().await.unwrap().generation;
    assert!(seen.epoch.0 >= begin && generation >= begin, "both begin at the clock");
    place
        .tamper(
            "UPDATE TABLE.endpoints SET epoch = 1; \
             UPDATE TABLE.numbers SET value = 1 WHERE name = 'generation'",
        )
        .await
        .unwrap();
    let after = changed(store, &EndpointChange::Park { attempts: None }).await;
    assert!(after.epoch >= seen.epoch, "{after:?}");
    assert!(store.numbers().await.unwrap().generation >= generation);
    place
        .tamper("UPDATE TABLE.numbers SET value = 1 WHERE name = 'generation'")
        .await
        .unwrap();
    store.generation_raise().await.unwrap();
    assert!(store.numbers().await.unwrap().generation >= generation);
}

pub(super) async fn a_url_waits_for_any_queue_when_its_probe_has_no_attempts_left(place: &Place) {
    let store = &*place.store;
    let first = closed(store, Duration::ZERO).await;
    claimed(store, "q").await;
    let wait = |delay| EndpointChange::WaitForAny { attempts: 5, delay };
    let waits = changed(store, &wait(HOUR)).await;
    assert_eq!((waits.state, waits.attempts), (EndpointState::Unavailable, 5));
    assert_eq!(
        (&waits.probe_queue, &waits.probe_message, &waits.probe),
        (&None, &None, &None)
    );
    assert_eq!(waits.since, first.since, "it was closed all the time");
    assert!(matches!(claim(store, "other", HOUR).await, ProbeOutcome::NotYours(_)));
    changed(store, &wait(Duration::ZERO)).await;
    claimed(store, "other").await;
}

pub(super) async fn one_of_many_claims_the_probe(place: &Place) {
    let other = place.another().await.unwrap();
    closed(&*place.store, Duration::ZERO).await;
    let outcomes = tokio::join!(
        claim(&*place.store, "q", HOUR),
        claim(&*other, "q", HOUR),
        claim(&*place.store, "q", HOUR),
        claim(&*other, "q", HOUR),
    );
    let outcomes = [outcomes.0, outcomes.1, outcomes.2, outcomes.3];
    let claimed = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, ProbeOutcome::Claimed { .. }));
    assert_eq!(claimed.count(), 1, "{outcomes:?}");
    other.close().await;
}

pub(super) async fn a_probe_is_claimed_only_when_it_is_due_and_for_its_queue(place: &Place) {
    let store = &*place.store;
    closed(store, HOUR).await;
    assert!(
        matches!(claim(store, "q", HOUR).await, ProbeOutcome::NotYours(_)),
        "it is not due"
    );
    let due = EndpointChange::ProbeFailed {
        attempts: 1,
        delay: Duration::ZERO,
    };
    changed(store, &due).await;
    assert!(
        matches!(claim(store, "other", HOUR).await, ProbeOutcome::NotYours(_)),
        "it is another's"
    );
    claimed(store, "q").await;
    assert_eq!(endpoint(store, "one").await.probe_message, Some(message("m")));
    changed(store, &EndpointChange::Open).await;
    assert_eq!(claim(store, "q", HOUR).await, ProbeOutcome::NotNeeded);
}

pub(super) async fn a_claim_that_ran_out_is_retaken(place: &Place) {
    let store = &*place.store;
    closed(store, Duration::ZERO).await;
    let ProbeOutcome::Claimed { token: first, endpoint } = claim(store, "q", Duration::ZERO).await else {
        panic!("it is due")
    };
    let until = endpoint.probe.expect("it is claimed").until;
    let mut looks = 0;
    while store.now().await.unwrap() <= until {
        looks += 1;
        assert!(looks < 100_000, "the clock stands still");
    }
    let second = claimed(store, "q").await;
    assert_ne!(first, second);
    store
        .probe_release(&url("one"), first, ProbeNext::AnyQueue)
        .await
        .unwrap();
    let kept = super::fixtures::endpoint(store, "one").await.probe;
    assert_eq!(
        kept.map(|claim| claim.token),
        Some(second),
        "an old token releases nothing"
    );
}

pub(super) async fn a_released_probe_goes_back_or_elsewhere(place: &Place) {
    let store = &*place.store;
    closed(store, Duration::ZERO).await;
    let later = EndpointChange::ProbeFailed {
        attempts: 7,
        delay: Duration::ZERO,
    };
    let closed = changed(store, &later).await;
    let token = claimed(store, "q").await;
    store.probe_release(&url("one"), token, ProbeNext::Same).await.unwrap();
    assert_eq!(endpoint(store, "one").await, closed);
    let generation = store.numbers().await.unwrap().generation;
    let token = claimed(store, "q").await;
    store
        .probe_release(&url("one"), token, ProbeNext::AnyQueue)
        .await
        .unwrap();
    let released = endpoint(store, "one").await;
    assert_eq!(
        (released.probe_queue, released.probe_message, released.probe),
        (None, None, None)
    );
    assert_eq!(
        released.attempts, 7,
        "how far its schedule got does not depend on who looks at the queue"
    );
    assert!(
        store.numbers().await.unwrap().generation > generation,
        "the others hear of it"
    );
    claimed(store, "other").await;
}

pub(super) async fn endpoints_are_listed_with_the_unavailable_first_and_their_queues(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    store
        .queues_learn(&[
            learned("1", "a"),
            learned("2", "b"),
            learned("3", "b"),
            learned("4", "c"),
        ])
        .await
        .unwrap();
    let lease = taken(store, id, "4").await;
    recorded(store, &closing_failure(&lease, "c", "m", HOUR)).await;
    let query = |not_available, offset, limit| EndpointQuery {
        not_available,
        offset,
        limit,
    };
    let page = async |query: EndpointQuery| {
        let page = store.endpoints_page(&query).await.unwrap();
        page.into_iter()
            .map(|(endpoint, queues)| (endpoint.url, queues))
            .collect::<Vec<_>>()
    };
    assert_eq!(page(query(false, 0, 2)).await, [(url("c"), 1), (url("a"), 1)]);
    assert_eq!(page(query(false, 2, 2)).await, [(url("b"), 2)]);
    assert_eq!(page(query(true, 0, 10)).await, [(url("c"), 1)]);
}

pub(super) async fn the_order_of_endpoints_tells_nothing_of_the_values_in_their_queries(place: &Place) {
    let store = &*place.store;
    let hook = |rest: &str| EndpointUrl::parse(&format!("https://a.example/{rest}")).unwrap();
    let in_order = [hook("b?key=z"), hook("b?key=a"), hook("c")];
    for (name, at) in [("1", 2), ("2", 0), ("3", 1)] {
        let learned = LearnedQueue {
            url: in_order[at].clone(),
            ..learned(name, "another")
        };
        store.queues_learn(&[learned]).await.unwrap();
    }
    let page = async || {
        let query = EndpointQuery {
            not_available: false,
            offset: 0,
            limit: 10,
        };
        let page = store.endpoints_page(&query).await.unwrap();
        page.into_iter().map(|(endpoint, _)| endpoint.url).collect::<Vec<_>>()
    };
    assert_eq!(page().await, in_order);
    let change = EndpointChange::Disable {
        reason: "because".to_owned(),
    };
    for url in &in_order {
        store.endpoint_change(url, None, &change).await.unwrap();
    }
    assert_eq!(page().await, in_order);
    let listed = store.endpoints_not_available().await.unwrap();
    let listed: Vec<EndpointUrl> = listed.into_iter().map(|endpoint| endpoint.url).collect();
    assert_eq!(listed, in_order);
}

pub(super) async fn a_url_of_eight_kibibytes_is_an_endpoint(place: &Place) {
    let store = &*place.store;
    let noise: String = (0..8_000u64)
        .map(|n| char::from(b'a' + (n * n * 7919 / 13 % 26) as u8))
        .collect();
    let long = |end: char| EndpointUrl::parse(&format!("https://long.example/{noise}{end}")).unwrap();
    for (name, end) in [("q", '1'), ("p", '2')] {
        let queue = LearnedQueue {
            name: queue(name),
            execution: ExecutionId::parse("order-7").unwrap(),
            url: long(end),
        };
        store.queues_learn(&[queue]).await.unwrap();
    }
    let change = EndpointChange::Disable {
        reason: "because".to_owned(),
    };
    store.endpoint_change(&long('1'), None, &change).await.unwrap();
    let listed = store.endpoints_not_available().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].url, long('1'));
}

pub(super) async fn urls_that_answered_are_remembered_without_a_queue_the_latest_first(place: &Place) {
    let store = &*place.store;
    for (name, host) in [("q1", "one"), ("q2", "two")] {
        let lease = held_queue(store, name, host).await;
        store.successes_record(&[success(&lease, host, "m")]).await.unwrap();
        assert!(store.queue_forget(&queue(name), lease.epoch).await.unwrap());
    }
    store.queues_learn(&[learned("q3", "never")]).await.unwrap();
    assert_eq!(store.endpoints_answered(10).await.unwrap(), [url("two"), url("one")]);
    assert_eq!(store.endpoints_answered(1).await.unwrap(), [url("two")]);
}

pub(super) async fn a_pace_is_kept_counts_failures_and_closes_its_endpoint(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let order = PaceOrder {
        rate: Some(5),
        canary: Some(1),
        stop_after: Some(2),
        ..PaceOrder::default()
    };
    let by = "ana".to_owned();
    let paced = changed(store, &EndpointChange::OpenPaced { order, by: by.clone() }).await;
    assert_eq!(paced.pace.as_ref().map(|pace| pace.order), Some(order));
    assert_eq!(store.endpoints_paced(10).await.unwrap(), std::slice::from_ref(&paced));
    let change = async |expected: Option<i64>, change: PaceChange| {
        store.endpoint_pace(&url("one"), expected, &change).await.unwrap()
    };
    let generation = store.numbers().await.unwrap().generation;
    let PaceChanged::Done(taken) = change(None, PaceChange::Take).await else {
        panic!("the canary begins")
    };
    let after = store.numbers().await.unwrap().generation;
    assert_eq!(after, generation, "nobody has to look");
    assert!(matches!(change(None, PaceChange::Take).await, PaceChanged::Refused(..)));
    assert_eq!(taken.epoch, paced.epoch);
    let revision = taken.pace.unwrap().revision;
    let brake = PaceChange::Brake { by, reason: None };
    let stale = change(Some(revision + 1), brake.clone()).await;
    assert!(matches!(stale, PaceChanged::Refused(..)), "{stale:?}");
    assert!(matches!(change(Some(revision), brake).await, PaceChanged::Done(_)));
    let after = store.numbers().await.unwrap().generation;
    assert!(after > generation, "every daemon looks");
    let failed = Failure {
        paced: Some(pace::Request::InTurn),
        ..failure(&lease, "one", "m", Some(HOUR))
    };
    let once = recorded(store, &failed).await.unwrap();
    assert_eq!((once.state, once.pace.unwrap().failed), (EndpointState::Available, 1));
    let again = Failure {
        paced: Some(pace::Request::Probe),
        ..failure(&lease, "one", "n", Some(HOUR))
    };
    let twice = recorded(store, &again).await.unwrap();
    assert_eq!(twice.state, EndpointState::Parked);
    let kept = twice.pace.as_ref().expect("the pause is a person's, and stays");
    assert!(kept.brake.is_some() && kept.order.is_none(), "{kept:?}");
    assert!(twice.epoch > paced.epoch);
    let unknown = store.endpoint_pace(&url("nowhere"), None, &PaceChange::Resume).await;
    assert_eq!(unknown.unwrap(), PaceChanged::Unknown);
}

pub(super) async fn an_endpoint_that_opens_again_keeps_its_pace_and_a_person_ends_it(place: &Place) {
    let store = &*place.store;
    closed(store, HOUR).await;
    let slow = PaceOrder {
        rate: Some(7),
        ..PaceOrder::default()
    };
    let reopen = |slow_start| EndpointChange::Reopen { slow_start };
    let opened = changed(store, &reopen(Some(slow))).await;
    assert_eq!(opened.pace.as_ref().map(|pace| pace.order), Some(slow));
    let other = PaceOrder { rate: Some(9), ..slow };
    let again = changed(store, &reopen(Some(other))).await;
    assert_eq!(again.pace.map(|pace| pace.order), Some(slow), "its own stays");
    assert_eq!(changed(store, &EndpointChange::Open).await.pace, None);
    assert_eq!(changed(store, &reopen(None)).await.pace, None);
}
