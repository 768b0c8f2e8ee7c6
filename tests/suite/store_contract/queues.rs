//! Delivery-queue records.

use redrive::internals::domain::endpoint::EndpointState;
use redrive::internals::domain::id::ExecutionId;
use redrive::internals::domain::queue::{Closing, Decision};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{HeadScope, LearnedQueue, NewPause, QueueMark, QueueQuery, QueueUrl, QueuesOnly};

use super::fixtures::{
    HOUR, Place, closing_failure, endpoint, failure, fingerprint, held_queue, learned, living, message, queue, record,
    recorded, stale, success, taken, url,
};

pub(super) async fn learned_queues_have_rows_and_endpoints_and_keep_what_was_known(place: &Place) {
    let store = &*place.store;
    store
        .queues_learn(&[learned("b", "one"), learned("a", "one"), learned("b", "one")])
        .await
        .unwrap();
    let before = record(store, "a").await;
    assert_eq!(before.url, Some(url("one")));
    assert_eq!(before.created_at, before.active_at);
    assert_eq!(endpoint(store, "one").await.state, EndpointState::Available);
    store.queues_learn(&[learned("a", "two")]).await.unwrap();
    let after = record(store, "a").await;
    assert_eq!(after.url, Some(url("one")), "what is known is not overwritten");
    assert!(after.active_at >= before.active_at);
    assert_eq!(after.created_at, before.created_at);
}

pub(super) async fn pages_go_by_name_in_byte_order_and_by_url(place: &Place) {
    let store = &*place.store;
    store
        .queues_learn(&[
            learned("a-1", "one"),
            learned("B", "one"),
            learned("a.2", "two"),
            learned("ä", "one"),
        ])
        .await
        .unwrap();
    let names = |records: Vec<redrive::internals::domain::queue::QueueRecord>| {
        records
            .into_iter()
            .map(|record| record.name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let first = names(store.queues_page(&QueueQuery::first(3)).await.unwrap());
    assert_eq!(first, ["B", "a-1", "a.2"]);
    let rest = QueueQuery {
        after: Some(queue("a.2")),
        ..QueueQuery::first(3)
    };
    assert_eq!(names(store.queues_page(&rest).await.unwrap()), ["ä"]);
    let of_one = QueueQuery {
        only: QueuesOnly::OfUrl(url("one")),
        ..QueueQuery::first(10)
    };
    assert_eq!(names(store.queues_page(&of_one).await.unwrap()), ["B", "a-1", "ä"]);
}

pub(super) async fn unused_queues_are_those_that_nobody_holds_and_whose_head_did_not_fail(place: &Place) {
    let store = &*place.store;
    held_queue(store, "held", "one").await;
    let lease = held_queue(store, "failing", "one").await;
    recorded(store, &failure(&lease, "one", "m", Some(HOUR))).await;
    assert!(store.lease_free(&queue("failing"), lease.epoch).await.unwrap());
    store.queues_learn(&[learned("unused", "one")]).await.unwrap();
    let unused = record(store, "unused").await;
    let since = async |since: Timestamp| {
        let query = QueueQuery {
            only: QueuesOnly::UnusedSince(since),
            ..QueueQuery::first(10)
        };
        store.queues_page(&query).await.unwrap()
    };
    assert_eq!(since(unused.active_at).await, []);
    assert_eq!(since(unused.active_at.plus(HOUR)).await, [unused]);
}

pub(super) async fn of_some_names_the_rows_that_are_there_are_read(place: &Place) {
    let store = &*place.store;
    let odd = "it's \"odd\", ü";
    store
        .queues_learn(&[learned("a", "one"), learned("b", "one"), learned(odd, "two")])
        .await
        .unwrap();
    let asked = [queue("a"), queue("missing"), queue(odd), queue("a")];
    let mut found = store.queues_get(&asked).await.unwrap();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(found, [record(store, "a").await, record(store, odd).await]);
    assert_eq!(store.queues_get(&[]).await.unwrap(), []);
}

fn marks() -> Vec<QueueMark> {
    let reason = || Some("because".to_owned());
    vec![
        QueueMark::Closing(Closing::Closing),
        QueueMark::Refused(reason()),
        QueueMark::Refusing(reason()),
        QueueMark::Quarantined(reason()),
        QueueMark::Learned(LearnedQueue {
            name: queue("q"),
            execution: ExecutionId::parse("another").unwrap(),
            url: url("two"),
        }),
        QueueMark::Companion(true),
        QueueMark::HeadGone,
        QueueMark::Active,
    ]
}

pub(super) async fn every_mark_is_guarded_by_the_lease(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    recorded(store, &failure(&lease, "one", "m", Some(HOUR))).await;
    let before = record(store, "q").await;
    for mark in marks() {
        assert!(!store.queue_mark(&queue("q"), stale(lease.epoch), mark).await.unwrap());
    }
    assert_eq!(record(store, "q").await, before);
    assert_eq!(store.endpoint_get(&url("two")).await.unwrap(), None);
    store.lease_free(&queue("q"), lease.epoch).await.unwrap();
    for mark in marks() {
        assert!(
            !store.queue_mark(&queue("q"), lease.epoch, mark).await.unwrap(),
            "a free lease marks nothing"
        );
    }
}

pub(super) async fn marks_are_kept(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    recorded(store, &failure(&lease, "one", "m", Some(HOUR))).await;
    let before = record(store, "q").await;
    for mark in marks() {
        assert!(store.queue_mark(&queue("q"), lease.epoch, mark).await.unwrap());
    }
    let marked = record(store, "q").await;
    assert_eq!(marked.closing, Closing::Closing);
    for reason in [&marked.refused, &marked.refusing, &marked.quarantined] {
        assert_eq!(reason.as_deref(), Some("because"));
    }
    assert_eq!(marked.url, Some(url("two")));
    assert_eq!(marked.execution.as_ref().map(AsRef::<str>::as_ref), Some("another"));
    assert!(marked.has_companion && marked.head.is_none());
    assert!(marked.active_at >= before.active_at);
    endpoint(store, "two").await;
    for mark in [
        QueueMark::Refused(None),
        QueueMark::Refusing(None),
        QueueMark::Quarantined(None),
    ] {
        assert!(store.queue_mark(&queue("q"), lease.epoch, mark).await.unwrap());
    }
    let cleared = record(store, "q").await;
    assert_eq!(
        (cleared.refused, cleared.refusing, cleared.quarantined),
        (None, None, None)
    );
}

pub(super) async fn pausing_an_unknown_queue_answers_nothing(place: &Place) {
    assert_eq!(place.store.queue_pause(&queue("q"), None).await.unwrap(), None);
}

/// What is due, by name.
async fn due(place: &Place) -> Vec<String> {
    let records = place.store.queues_due(100).await.unwrap();
    records
        .into_iter()
        .map(|record| record.name.as_str().to_owned())
        .collect()
}

pub(super) async fn due_queues_are_those_that_wait_for_somebody(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let names = ["due", "later", "parked", "deleting", "decided", "paused", "closed"];
    for name in names {
        let host = if name == "closed" { "closed" } else { "one" };
        store.queues_learn(&[learned(name, host)]).await.unwrap();
        let lease = taken(store, id, name).await;
        let now = Some(std::time::Duration::ZERO);
        let mut failed = failure(&lease, host, "m", if name == "later" { Some(HOUR) } else { now });
        failed.head.parked = name == "parked";
        if name == "decided" {
            failed.delay = None;
            failed.decision = Some(Decision {
                id: "d".to_owned(),
                message: message("m"),
                fingerprint: Some(fingerprint("m")),
                reason: "exhausted".to_owned(),
                epoch: lease.epoch,
            });
        }
        if name == "deleting" {
            let mark = QueueMark::Closing(Closing::Closing);
            store.queue_mark(&queue(name), lease.epoch, mark).await.unwrap();
        } else {
            recorded(store, &failed).await;
        }
    }
    let closing = closing_failure(&taken(store, id, "closer").await, "closed", "m", HOUR);
    recorded(store, &closing).await;
    let pause = NewPause {
        by: "ann".to_owned(),
        reason: None,
    };
    store.queue_pause(&queue("paused"), Some(pause)).await.unwrap();
    assert_eq!(
        due(place).await,
        Vec::<String>::new(),
        "a living owner looks after them"
    );
    store.incarnation_mark_dead(id, 0).await.unwrap();
    assert_eq!(due(place).await, ["decided", "deleting", "due"]);
}

pub(super) async fn waiting_heads_come_soonest_first_and_parked_last(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    for (name, delay) in [
        ("parked", None),
        ("late", Some(2 * HOUR)),
        ("soon", Some(HOUR)),
        ("with url", None),
    ] {
        let lease = taken(store, id, name).await;
        let mut failed = failure(&lease, "one", "m", delay);
        failed.head.parked = name == "parked";
        recorded(store, &failed).await;
    }
    let waiting = store.queues_waiting(10).await.unwrap();
    let names: Vec<&str> = waiting.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["soon", "late", "parked"]);
    assert_eq!(store.queues_waiting(1).await.unwrap().len(), 1);
}

pub(super) async fn queues_are_found_by_the_message_at_their_head(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    for (name, message) in [("b", "m"), ("a", "m"), ("c", "n")] {
        let lease = taken(store, id, name).await;
        recorded(store, &failure(&lease, "one", message, None)).await;
    }
    let of = async |id: &str| {
        let query = QueueQuery {
            only: QueuesOnly::WithHead(message(id)),
            ..QueueQuery::first(10)
        };
        let found = store.queues_page(&query).await.unwrap();
        found
            .into_iter()
            .map(|record| record.name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("m").await, ["a", "b"]);
    assert_eq!(of("n").await, ["c"]);
    assert!(of("o").await.is_empty());
}

pub(super) async fn heads_are_reset_for_a_queue_or_a_url_but_decisions_stay(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    store
        .queues_learn(&[
            learned("a", "one"),
            learned("b", "one"),
            learned("c", "one"),
            learned("d", "two"),
        ])
        .await
        .unwrap();
    for (name, host) in [("a", "one"), ("b", "one"), ("d", "two")] {
        let lease = taken(store, id, name).await;
        let mut failed = failure(&lease, host, "m", Some(HOUR));
        failed.refusals_in_row = 2;
        failed.decision = Some(Decision {
            id: format!("decision {name}"),
            message: message("m"),
            fingerprint: Some(fingerprint("m")),
            reason: "refused".to_owned(),
            epoch: lease.epoch,
        });
        recorded(store, &failed).await;
    }
    let epoch = record(store, "a").await.epoch;
    let late = HeadScope::Queue(queue("a"), stale(epoch));
    assert_eq!(
        store.heads_reset(&late).await.unwrap(),
        [],
        "the lease is somebody else's"
    );
    let reset = store.heads_reset(&HeadScope::Queue(queue("a"), epoch)).await.unwrap();
    assert_eq!(reset, [queue("a")]);
    let reset = store.heads_reset(&HeadScope::Url(url("one"))).await.unwrap();
    assert_eq!(reset, [queue("b")], "the others of the URL have no head");
    let after = record(store, "b").await;
    assert_eq!((after.head, after.refusals_in_row), (None, 0));
    assert_eq!(
        after.decision.map(|decision| decision.id).as_deref(),
        Some("decision b")
    );
    assert!(record(store, "d").await.head.is_some());
}

pub(super) async fn a_queue_is_forgotten_only_under_its_lease_and_without_a_companion(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    assert!(!store.queue_forget(&queue("q"), stale(lease.epoch)).await.unwrap());
    let companion = |exists| store.queue_mark(&lease.record.name, lease.epoch, QueueMark::Companion(exists));
    assert!(companion(true).await.unwrap());
    assert!(
        !store.queue_forget(&queue("q"), lease.epoch).await.unwrap(),
        "its companion is there"
    );
    assert!(companion(false).await.unwrap());
    assert!(store.queue_forget(&queue("q"), lease.epoch).await.unwrap());
    assert_eq!(store.queue_get(&queue("q")).await.unwrap(), None);
    endpoint(store, "one").await;
}

pub(super) async fn it_is_known_whose_queues_some_are_and_whether_that_url_answered(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "a", "one").await;
    store.successes_record(&[success(&lease, "one", "m")]).await.unwrap();
    store
        .queues_learn(&[learned("b", "two"), learned("c", "one"), learned("other", "one")])
        .await
        .unwrap();
    // Taken before its URL was known.
    taken(store, living(store).await, "nobody's").await;
    let asked = ["a", "b", "c", "nobody's", "unknown"].map(queue);
    let mut found = store.queue_urls(&asked).await.unwrap();
    found.sort_by(|one, other| one.queue.cmp(&other.queue));
    let expected = [("a", "one", true), ("b", "two", false), ("c", "one", true)];
    let expected = expected.map(|(name, host, answered)| QueueUrl {
        queue: queue(name),
        url: url(host),
        answered,
    });
    assert_eq!(found, expected);
    assert_eq!(store.queue_urls(&[]).await.unwrap(), []);
}
