//! Attempts and what follows from them.

use std::time::Duration;

use redrive::internals::domain::endpoint::{EndpointChange, EndpointState};
use redrive::internals::domain::id::EndpointEpoch;
use redrive::internals::domain::outcome::OutcomeClass;
use redrive::internals::domain::queue::Decision;
use redrive::internals::store::{AttemptBounds, AttemptQuery, FailureRecorded, HeadScope, Lease, Success, Tally, Trim};

use super::fixtures::{
    HOUR, Place, attempt, closing_failure, endpoint, failure, fingerprint, fingerprint_of, held_queue, learned, living,
    message, queue, record, recorded, stale, success, taken, url,
};

fn of_queue(name: &str) -> AttemptQuery {
    AttemptQuery {
        queue: Some(queue(name)),
        limit: 1000,
        ..AttemptQuery::default()
    }
}

pub(super) async fn a_failure_keeps_its_attempt_its_head_and_the_time_of_the_next_attempt(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let before = store.now().await.unwrap();
    let mut failed = failure(&lease, "one", "m", Some(HOUR));
    failed.refusals_in_row = 2;
    let result = store.failure_record(&failed).await.unwrap();
    let FailureRecorded::Recorded {
        next_attempt_at: Some(next),
        endpoint: None,
        endpoint_changed: true,
    } = result
    else {
        panic!("recorded, without a change of the endpoint: {result:?}")
    };
    assert!(next >= before.plus(HOUR) && next <= store.now().await.unwrap().plus(HOUR));
    let after = record(store, "q").await;
    let head = after.head.expect("it has a head");
    assert_eq!(
        (&head.message, head.failures, head.attempts_allowed),
        (&message("m"), 1, 16)
    );
    assert_eq!(
        (head.next_attempt_at, head.last_status, head.parked),
        (Some(next), Some(500), false)
    );
    assert_eq!(
        (head.phase, head.last_error.as_deref()),
        (failed.head.phase, Some("no luck"))
    );
    assert!(head.first_failed_at >= before && head.first_failed_at == head.last_failed_at);
    assert_eq!(after.refusals_in_row, 2);
    assert_eq!(store.attempts(&of_queue("q")).await.unwrap(), [failed.attempt]);
}

pub(super) async fn a_failure_under_a_lost_lease_keeps_only_its_attempt(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let before = (record(store, "q").await, endpoint(store, "one").await);
    let mut failed = closing_failure(&lease, "one", "m", HOUR);
    failed.attempt.epoch = stale(lease.epoch);
    assert_eq!(store.failure_record(&failed).await.unwrap(), FailureRecorded::Fenced);
    assert_eq!((record(store, "q").await, endpoint(store, "one").await), before);
    assert_eq!(store.attempts(&of_queue("q")).await.unwrap().len(), 1);
    store.lease_free(&queue("q"), lease.epoch).await.unwrap();
    let freed = failure(&lease, "one", "m", None);
    assert_eq!(store.failure_record(&freed).await.unwrap(), FailureRecorded::Fenced);
}

pub(super) async fn the_first_failure_of_a_head_is_remembered_until_the_head_changes(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let mut heads = Vec::new();
    for id in ["m", "m", "n"] {
        recorded(store, &failure(&lease, "one", id, None)).await;
        heads.push(record(store, "q").await.head.unwrap());
    }
    assert_eq!(heads[1].first_failed_at, heads[0].first_failed_at);
    assert!(heads[1].last_failed_at > heads[0].last_failed_at);
    assert_eq!(heads[2].first_failed_at, heads[2].last_failed_at);
}

pub(super) async fn a_failure_changes_the_endpoint_only_under_the_epoch_it_began_with(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let (one, two) = (taken(store, id, "a").await, taken(store, id, "b").await);
    let closed = recorded(store, &closing_failure(&one, "one", "m", HOUR))
        .await
        .expect("it closes");
    assert_eq!(closed.state, EndpointState::Unavailable);
    assert!(closed.epoch > EndpointEpoch(0));
    assert_eq!(closed, endpoint(store, "one").await, "a missing row was made");
    let late = store
        .failure_record(&closing_failure(&two, "one", "n", HOUR))
        .await
        .unwrap();
    let FailureRecorded::Recorded {
        endpoint_changed: false,
        ..
    } = late
    else {
        panic!("the late one changes no endpoint: {late:?}")
    };
    assert_eq!(endpoint(store, "one").await, closed);
    assert!(record(store, "b").await.head.is_some(), "the rest is recorded");
}

fn decision(lease: &Lease, id: &str) -> Decision {
    Decision {
        id: id.to_owned(),
        message: message("m"),
        fingerprint: Some(fingerprint("m")),
        reason: "exhausted".to_owned(),
        epoch: lease.epoch,
    }
}

pub(super) async fn a_failure_commits_its_decision(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let mut failed = failure(&lease, "one", "m", None);
    failed.decision = Some(decision(&lease, "d"));
    failed.endpoint = Some((EndpointEpoch(0), EndpointChange::ProbeNext { queue: None }));
    let endpoint = recorded(store, &failed).await.expect("it was changed");
    assert_eq!(endpoint.probe_queue, None);
    assert_eq!(record(store, "q").await.decision, failed.decision);
}

pub(super) async fn successes_count_all_and_keep_the_last_few(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let mut failed = failure(&lease, "one", "bad", None);
    failed.refusals_in_row = 2;
    recorded(store, &failed).await;
    let mut batch: Vec<Success> = (0..12)
        .map(|number| success(&lease, "one", &format!("m{number}")))
        .collect();
    for (_, success) in batch.iter_mut().enumerate().filter(|(number, _)| *number != 4) {
        success.settles_head = None;
    }
    let before = store.now().await.unwrap();
    store.successes_record(&batch).await.unwrap();
    let after = record(store, "q").await;
    assert_eq!((after.delivered, after.refusals_in_row), (12, 0));
    assert!(after.last_delivered_at.unwrap() >= before);
    assert_eq!(endpoint(store, "one").await.last_success_at, after.last_delivered_at);
    let kept = store.attempts(&of_queue("q")).await.unwrap();
    let delivered: Vec<&str> = kept
        .iter()
        .filter(|attempt| attempt.class == OutcomeClass::Delivered)
        .map(|attempt| attempt.message_id.as_str())
        .collect();
    assert_eq!(delivered, ["m11", "m10", "m9", "m4"], "m4 had failed before");
    store.successes_record(&batch[..1]).await.unwrap();
    assert_eq!(record(store, "q").await.delivered, 13);
    let counted = Success {
        counted: 4,
        ..batch[1].clone()
    };
    store.successes_record(&[counted]).await.unwrap();
    assert_eq!(
        record(store, "q").await.delivered,
        18,
        "with those that are only counted"
    );
    store.successes_record(&[]).await.unwrap();
}

pub(super) async fn a_success_settles_the_head_that_it_is_about(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    recorded(store, &failure(&lease, "one", "m", Some(HOUR))).await;
    store
        .successes_record(&[success(&lease, "one", "other")])
        .await
        .unwrap();
    assert!(record(store, "q").await.head.is_some());
    store.successes_record(&[success(&lease, "one", "m")]).await.unwrap();
    assert_eq!(record(store, "q").await.head, None);
}

pub(super) async fn a_success_of_a_forgotten_queue_makes_no_queue(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    store.queue_forget(&queue("q"), lease.epoch).await.unwrap();
    store.successes_record(&[success(&lease, "one", "m")]).await.unwrap();
    assert_eq!(store.queue_get(&queue("q")).await.unwrap(), None);
}

pub(super) async fn failing_heads_are_those_after_the_last_success(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let names = ["a", "b", "c"];
    for name in names {
        store.queues_learn(&[learned(name, "one")]).await.unwrap();
    }
    let (a, b) = (taken(store, id, "a").await, taken(store, id, "b").await);
    let c = taken(store, id, "c").await;
    recorded(store, &failure(&a, "one", "m", None)).await;
    let failing = async |but: &str| {
        let tally = store.heads_failing(&url("one"), None, &queue(but)).await.unwrap();
        assert_eq!(tally.queues, 3);
        assert_eq!(tally.last_success, endpoint(store, "one").await.last_success_at);
        tally.failing
    };
    assert_eq!(failing("c").await, 1);
    assert_eq!(failing("a").await, 0, "but this one");
    store.successes_record(&[success(&c, "one", "fine")]).await.unwrap();
    assert_eq!(failing("c").await, 0);
    recorded(store, &failure(&b, "one", "m", None)).await;
    assert_eq!(failing("c").await, 1);
    let now = store.now().await.unwrap();
    let since = store.heads_failing(&url("one"), Some(now), &queue("c")).await.unwrap();
    assert_eq!((since.failing, since.last_success), (0, Some(now)));
    let nowhere = store.heads_failing(&url("none"), None, &queue("c")).await.unwrap();
    assert_eq!(nowhere, Tally::default());
}

pub(super) async fn a_queue_of_which_a_message_was_refused_counts_until_the_next_success(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    for name in ["a", "b"] {
        store.queues_learn(&[learned(name, "one")]).await.unwrap();
    }
    let (a, b) = (taken(store, id, "a").await, taken(store, id, "b").await);
    let failing = async || {
        let tally = store.heads_failing(&url("one"), None, &queue("b")).await.unwrap();
        (tally.failing, tally.queues)
    };
    // The message is a dead letter, the next one of its queue waits, and then the sequence ends.
    let refuse = async |lease: &Lease| {
        let mut refused = failure(lease, "one", "m", None);
        refused.attempt.class = OutcomeClass::Refused;
        let decided = Decision {
            message: refused.head.message.clone(),
            fingerprint: refused.head.fingerprint,
            ..decision(lease, "d")
        };
        refused.decision = Some(decided);
        recorded(store, &refused).await;
        assert!(
            store
                .decision_close(&lease.record.name, lease.epoch, "d")
                .await
                .unwrap()
        );
    };
    refuse(&a).await;
    assert_eq!(record(store, "a").await.head, None);
    assert_eq!(failing().await, (1, 2));
    assert!(store.queue_forget(&queue("a"), a.epoch).await.unwrap());
    assert_eq!(failing().await, (1, 2));
    store.successes_record(&[success(&b, "one", "fine")]).await.unwrap();
    assert_eq!(failing().await, (0, 1));
    // A person who redelivers begins anew.
    store.queues_learn(&[learned("c", "one")]).await.unwrap();
    refuse(&taken(store, id, "c").await).await;
    assert_eq!(failing().await, (1, 2));
    store.heads_reset(&HeadScope::Url(url("one"))).await.unwrap();
    assert_eq!(failing().await, (0, 2));
}

pub(super) async fn a_refusal_of_before_a_success_goes_with_the_attempts(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let mut refused = failure(&lease, "one", "m", None);
    refused.attempt.class = OutcomeClass::Refused;
    recorded(store, &refused).await;
    let keep = Trim::Attempts(AttemptBounds { age: HOUR, rows: 1_000 });
    assert_eq!(store.trim(&keep, 100).await.unwrap(), 0);
    store.successes_record(&[success(&lease, "one", "fine")]).await.unwrap();
    assert_eq!(store.trim(&keep, 100).await.unwrap(), 1, "it counts no more");
}

pub(super) async fn a_message_with_the_same_id_and_another_body_has_a_head_and_a_decision_of_its_own(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let (first, second) = (fingerprint_of("m", "first"), fingerprint_of("m", "second"));
    let of = |print| {
        let mut failed = failure(&lease, "one", "m", None);
        failed.head.fingerprint = Some(print);
        failed
    };
    recorded(store, &of(first)).await;
    let failed_at = record(store, "q").await.head.unwrap().first_failed_at;
    recorded(store, &of(first)).await;
    assert_eq!(record(store, "q").await.head.unwrap().first_failed_at, failed_at);
    recorded(store, &of(second)).await;
    let head = record(store, "q").await.head.unwrap();
    assert_eq!(head.fingerprint, Some(second));
    assert!(head.first_failed_at > failed_at, "it failed for the first time");
    let mut late = success(&lease, "one", "m");
    late.settles_head = Some(first);
    store.successes_record(&[late]).await.unwrap();
    assert!(
        record(store, "q").await.head.is_some(),
        "the first was delivered, not this one"
    );
    let about_first = Decision {
        fingerprint: Some(first),
        ..decision(&lease, "d")
    };
    assert!(store.decision_open(&queue("q"), &about_first).await.unwrap());
    assert_eq!(record(store, "q").await.decision, Some(about_first));
    assert!(store.decision_close(&queue("q"), lease.epoch, "d").await.unwrap());
    assert!(
        record(store, "q").await.head.is_some(),
        "it is the head of another message"
    );
    let mut own = success(&lease, "one", "m");
    own.settles_head = Some(second);
    store.successes_record(&[own]).await.unwrap();
    assert_eq!(record(store, "q").await.head, None);
}

pub(super) async fn a_head_from_before_fingerprints_is_matched_by_its_id(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let mut old = failure(&lease, "one", "m", None);
    old.head.fingerprint = None;
    recorded(store, &old).await;
    let failed_at = record(store, "q").await.head.unwrap().first_failed_at;
    recorded(store, &failure(&lease, "one", "m", None)).await;
    assert_eq!(record(store, "q").await.head.unwrap().first_failed_at, failed_at);
    recorded(store, &old).await;
    store.successes_record(&[success(&lease, "one", "m")]).await.unwrap();
    assert_eq!(record(store, "q").await.head, None);
}

pub(super) async fn a_decision_is_opened_and_closed_under_the_lease(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    recorded(store, &failure(&lease, "one", "m", None)).await;
    let late = Decision {
        epoch: stale(lease.epoch),
        ..decision(&lease, "d")
    };
    assert!(!store.decision_open(&queue("q"), &late).await.unwrap());
    assert!(store.decision_open(&queue("q"), &decision(&lease, "d")).await.unwrap());
    assert!(
        !store
            .decision_close(&queue("q"), stale(lease.epoch), "d")
            .await
            .unwrap()
    );
    assert!(!store.decision_close(&queue("q"), lease.epoch, "other").await.unwrap());
    assert!(record(store, "q").await.decision.is_some());
    assert!(store.decision_close(&queue("q"), lease.epoch, "d").await.unwrap());
    let after = record(store, "q").await;
    assert_eq!((after.decision, after.head), (None, None), "the head went with it");
}

pub(super) async fn an_open_decision_is_not_replaced(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    assert!(store.decision_open(&queue("q"), &decision(&lease, "d")).await.unwrap());
    assert!(
        store.decision_open(&queue("q"), &decision(&lease, "d")).await.unwrap(),
        "again is the same"
    );
    assert!(!store.decision_open(&queue("q"), &decision(&lease, "e")).await.unwrap());
    recorded(store, &failure(&lease, "one", "other", None)).await;
    assert!(store.decision_close(&queue("q"), lease.epoch, "d").await.unwrap());
    assert!(
        record(store, "q").await.head.is_some(),
        "a head of another message stays"
    );
}

pub(super) async fn attempts_are_found_by_queue_url_and_message_newest_first(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let (a, b) = (taken(store, id, "a").await, taken(store, id, "b").await);
    let mut all = Vec::new();
    for (number, (lease, host, id)) in [(&a, "one", "m"), (&a, "one", "n"), (&b, "two", "m"), (&a, "one", "m")]
        .into_iter()
        .enumerate()
    {
        let mut one = attempt(lease, host, id, OutcomeClass::Interrupted);
        one.started_at = one.started_at.plus(Duration::from_secs(number as u64));
        one.counted = false;
        store.attempt_record(&one).await.unwrap();
        all.push(one);
    }
    all.reverse();
    let query = |queue_name: Option<&str>, host: Option<&str>, id: Option<&str>, limit| AttemptQuery {
        queue: queue_name.map(queue),
        url: host.map(url),
        message: id.map(message),
        limit,
    };
    let cases = [
        (query(None, None, None, 10), vec![0, 1, 2, 3]),
        (query(None, None, None, 2), vec![0, 1]),
        (query(Some("a"), None, None, 10), vec![0, 2, 3]),
        (query(None, Some("two"), None, 10), vec![1]),
        (query(None, None, Some("m"), 10), vec![0, 1, 3]),
        (query(Some("a"), Some("one"), Some("n"), 10), vec![2]),
        (query(Some("a"), Some("two"), None, 10), vec![]),
    ];
    for (query, expected) in cases {
        let found = store.attempts(&query).await.unwrap();
        let expected: Vec<_> = expected.into_iter().map(|index: usize| all[index].clone()).collect();
        assert_eq!(found, expected, "{query:?}");
    }
}

pub(super) async fn the_attempt_log_is_trimmed_by_age_and_by_rows(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let now = store.now().await.unwrap();
    for (number, age) in [
        (0, 3 * HOUR),
        (1, 2 * HOUR),
        (2, Duration::from_secs(2)),
        (3, Duration::ZERO),
    ] {
        let mut one = attempt(&lease, "one", &format!("m{number}"), OutcomeClass::Failed);
        one.started_at = now.minus(age);
        store.attempt_record(&one).await.unwrap();
    }
    let keep = |age, rows| Trim::Attempts(AttemptBounds { age, rows });
    assert_eq!(store.trim(&keep(HOUR * 24, 100), 100).await.unwrap(), 0);
    assert_eq!(store.trim(&keep(HOUR * 24, 3), 100).await.unwrap(), 1);
    assert_eq!(store.trim(&keep(HOUR, 3), 100).await.unwrap(), 1);
    let left = store.attempts(&of_queue("q")).await.unwrap();
    let left: Vec<&str> = left.iter().map(|attempt| attempt.message_id.as_str()).collect();
    assert_eq!(left, ["m3", "m2"]);
}

pub(super) async fn text_with_a_zero_byte_is_kept_readable(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    let mut failed = closing_failure(&lease, "one", "m", HOUR);
    let nasty = "zero\0byte \u{1b}[2J \u{202e}".to_owned();
    failed.attempt.error = Some(nasty.clone());
    failed.head.last_error = Some(nasty);
    let closed = recorded(store, &failed).await.expect("it closes");
    for kept in [
        endpoint(store, "one").await.last_error,
        record(store, "q").await.head.unwrap().last_error,
        store.attempts(&of_queue("q")).await.unwrap()[0].error.clone(),
    ] {
        let kept = kept.expect("the text is there");
        assert!(
            kept.starts_with("zero") && kept.ends_with("byte \u{1b}[2J \u{202e}"),
            "{kept:?}"
        );
    }
    assert_eq!(closed.state, EndpointState::Unavailable);
    assert_eq!(
        store.attempts(&of_queue("q")).await.unwrap()[0].response,
        failed.attempt.response
    );
}
