//! Finding events, hearing of them, and changing many in a run.

use std::time::Duration;

use futures_util::future::join_all;
use redrive::internals::domain::event::{Event, EventState, NewEvent};
use redrive::internals::domain::id::{Epoch, QueueName};
use redrive::internals::domain::run::{ItemState, RunCounts, RunState};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    EventAct, EventItem, EventSearch, EventSignal, EventsChange, EventsChanged, Finished, Frozen, ItemQuery, NewItem,
    NewRun, RunRecord, RunTaken, Store, Verdict,
};

use super::events::{finish, kind, new_event, of, one, push, pushed_all, reference, take};
use super::fixtures::{HOUR, Place, living};
use crate::support::wait::within;

const BOUND: Duration = Duration::from_secs(30);

async fn found(store: &dyn Store, search: EventSearch) -> Vec<String> {
    let search = EventSearch { limit: 100, ..search };
    let found = store.events_search(&search).await.unwrap();
    assert_eq!(found.reached, None, "so few are looked through at once");
    let mut names: Vec<String> = found
        .events
        .iter()
        .map(|event| event.reference.as_str().to_owned())
        .collect();
    assert!(found.events.is_sorted_by_key(|event| std::cmp::Reverse(event.id)));
    names.sort();
    names
}

async fn found_by_error(store: &dyn Store, parts: &[&str]) -> Vec<String> {
    let error_parts = parts.iter().map(|part| (*part).to_owned()).collect();
    found(
        store,
        EventSearch {
            error_parts,
            ..EventSearch::default()
        },
    )
    .await
}

/// Each is pushed, taken, and failed with its error.
async fn failed_with(store: &dyn Store, errors: &[(&str, &str)]) {
    let owner = living(store).await;
    for (about, error) in errors {
        push(store, about, "x").await;
        let taken = take(store, owner, 1).await.remove(0);
        let verdict = Verdict::Retry {
            attempts: 1,
            delay: HOUR,
            reason: format!("retry: failed_at=now error={error}"),
        };
        assert_eq!(
            finish(store, taken.lease_key().unwrap(), verdict).await,
            Finished::Retried
        );
    }
}

pub(super) async fn an_error_is_found_by_any_part_of_its_text_in_any_letter_case(place: &Place) {
    let store = &*place.store;
    let errors = [
        ("a", "exit 1: Connection REFUSED by db-17"),
        ("b", "timeout: no answer from db-17 in \"30 s\""),
        ("c", "exit 2: größer als erlaubt"),
        ("d", "x"),
        ("f", "it's 5 %_ off'; DROP TABLE event; --"),
    ];
    failed_with(store, &errors).await;
    push(store, "e", "never failed").await;
    for (parts, expected) in [
        (&["refused"][..], &["a"][..]),
        (&["db-17"], &["a", "b"]),
        (&["db-17", "no answer"], &["b"]),
        (&["\"30 s\""], &["b"]),
        (&["als erlaubt"], &["c"]),
        (&["no such"], &[]),
        // Too short for an index.
        (&["s\""], &["b"]),
        (&["db-17", "1:"], &["a"]),
        // What means something in SQL is text.
        (&["'; drop table event; --"], &["f"]),
        (&["%"], &["f"]),
        (&["_ off"], &["f"]),
    ] {
        assert_eq!(found_by_error(store, parts).await, expected, "{parts:?}");
    }
}

pub(super) async fn an_error_that_is_no_longer_there_is_not_found(place: &Place) {
    let store = &*place.store;
    failed_with(
        store,
        &[("a", "no luck"), ("b", "no luck"), ("c", "no luck"), ("d", "no luck")],
    )
    .await;
    push(store, "a", "again").await;
    let owner = living(store).await;
    let cancelled = one(store, "b").await;
    store
        .event_act(cancelled.id, cancelled.revision, EventAct::Cancel)
        .await
        .unwrap();
    let retried = one(store, "c").await;
    store
        .event_act(retried.id, retried.revision, EventAct::Retry)
        .await
        .unwrap();
    let taken = take(store, owner, 10).await;
    assert_eq!(taken.len(), 2);
    let held = found_by_error(store, &["luck"]).await;
    assert_eq!(held, ["c", "d"], "what is in hand is found, too");
    for event in taken {
        finish(store, event.lease_key().unwrap(), Verdict::Done(vec![])).await;
    }
    assert_eq!(found_by_error(store, &["luck"]).await, ["d"]);
}

fn by(set: impl FnOnce(&mut EventSearch)) -> EventSearch {
    let mut search = EventSearch::default();
    set(&mut search);
    search
}

pub(super) async fn conditions_hold_together(place: &Place) {
    let store = &*place.store;
    failed_with(store, &[("old-1", "no luck"), ("old-2", "bad luck")]).await;
    let dated = NewEvent {
        nbf: Some(Timestamp::from_seconds(4_000_000_000)),
        ..new_event("t", "new-1", "later")
    };
    let events = vec![
        dated,
        new_event("u", "new-1", "PAYload"),
        new_event("t", "new-2", "other"),
    ];
    pushed_all(store, events).await;
    let now = store.now().await.unwrap();
    for (search, expected) in [
        (by(|_| {}), &["new-1", "new-1", "new-2", "old-1", "old-2"][..]),
        (by(|search| search.event_type = Some(kind("u"))), &["new-1"]),
        (
            by(|search| search.reference = Some(reference("new-1"))),
            &["new-1", "new-1"],
        ),
        (
            by(|search| {
                search.reference = Some(reference("new-1"));
                search.event_type = Some(kind("t"));
            }),
            &["new-1"],
        ),
        (
            by(|search| {
                search.reference_part = Some("old-".to_owned());
                search.attempts_min = 1;
            }),
            &["old-1", "old-2"],
        ),
        (
            by(|search| search.payload_part = Some("payload".to_owned())),
            &["new-1"],
        ),
        (by(|search| search.due_before = Some(now)), &["new-1", "new-2"]),
        (by(|search| search.state = Some(EventState::Dead)), &[]),
        (
            by(|search| {
                search.error_parts = vec!["luck".to_owned()];
                search.event_type = Some(kind("u"));
            }),
            &[],
        ),
    ] {
        let what = format!("{search:?}");
        assert_eq!(found(store, search).await, expected, "{what}");
    }
}

pub(super) async fn pages_of_a_search_have_no_gaps(place: &Place) {
    let store = &*place.store;
    let errors: Vec<(String, String)> = (0..25).map(|n| (format!("r{n}"), format!("no luck {n}"))).collect();
    let errors: Vec<(&str, &str)> = errors
        .iter()
        .map(|(about, error)| (about.as_str(), error.as_str()))
        .collect();
    failed_with(store, &errors).await;
    for error_parts in [vec![], vec!["luck".to_owned()]] {
        let mut search = EventSearch {
            error_parts,
            limit: 10,
            ..EventSearch::default()
        };
        let mut seen: Vec<Event> = Vec::new();
        loop {
            let page = store.events_search(&search).await.unwrap();
            seen.extend(page.events);
            search.before = page.reached;
            if search.before.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 25, "{search:?}");
        assert!(seen.is_sorted_by_key(|event| std::cmp::Reverse(event.id)));
    }
}

pub(super) async fn a_push_of_another_process_is_heard_of(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    push(store, "a", "known type").await;
    let mut signals = store.event_signals();
    // Nobody says when listening has begun: pushes go on until one is heard of.
    let hearing = async {
        loop {
            match signals.next().await {
                EventSignal::Type(event_type) if event_type == kind("t") => return,
                EventSignal::Anything if store.kind() == "sqlite" => return,
                EventSignal::Type(_) | EventSignal::Outbox | EventSignal::Anything => {}
            }
        }
    };
    let pushing = async {
        loop {
            push(&*other, "b", "x").await;
        }
    };
    let heard = async {
        tokio::select! {
            () = hearing => {}
            () = pushing => {}
        }
    };
    within(BOUND, heard).await.expect("a signal");
    other.close().await;
}

pub(super) async fn the_next_due_event_is_known(place: &Place) {
    let store = &*place.store;
    assert_eq!(store.events_next_due(&kind("t")).await.unwrap(), None);
    let later = NewEvent {
        nbf: Some(store.now().await.unwrap().plus(HOUR)),
        ..new_event("t", "a", "x")
    };
    pushed_all(store, vec![later]).await;
    let left = store.events_next_due(&kind("t")).await.unwrap().unwrap();
    assert!(left <= HOUR && left > HOUR / 2, "{left:?}");
    push(store, "b", "x").await;
    assert_eq!(store.events_next_due(&kind("t")).await.unwrap(), Some(Duration::ZERO));
    assert_eq!(store.events_next_due(&kind("u")).await.unwrap(), None);
}

pub(super) async fn pushes_at_once_are_all_answered_and_counted(place: &Place) {
    let store = &*place.store;
    let other = place.another().await.unwrap();
    let pushes = (0..60).map(|number: usize| {
        let about = if number.is_multiple_of(2) {
            "same".to_owned()
        } else {
            format!("r{number}")
        };
        let store = if number.is_multiple_of(3) { &*other } else { store };
        async move { (number, push(store, &about, &number.to_string()).await) }
    });
    let mut revisions = Vec::new();
    for (number, pushed) in join_all(pushes).await {
        if number.is_multiple_of(2) {
            revisions.push(pushed.revision);
        } else {
            assert_eq!(pushed.revision, 1);
            let event = store.event_get(pushed.id).await.unwrap().unwrap();
            assert_eq!(event.reference.as_str(), format!("r{number}"));
            assert_eq!(event.payload.as_deref(), Some(number.to_string().as_bytes()));
        }
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=30).collect::<Vec<i64>>());
    assert_eq!(one(store, "same").await.merged, 29);
    other.close().await;
}

/// A running run over these events, under a lease.
async fn started(store: &dyn Store, events: &[Event]) -> RunRecord {
    let new = NewRun {
        id: "run-1".to_owned(),
        command: "event retry".to_owned(),
        rate: None,
        canary: None,
    };
    store.run_create(&new).await.unwrap();
    let items: Vec<NewItem> = (0..)
        .zip(events)
        .map(|(ordinal, event)| NewItem {
            ordinal,
            letter: format!("{}.{}", event.id, event.revision),
            source: QueueName::parse("t").unwrap(),
            target: None,
            bytes: 1,
            state: ItemState::Planned,
            reason: None,
        })
        .collect();
    store.run_items_add("run-1", &items).await.unwrap();
    let frozen = Frozen {
        total: events.len() as u64,
        counts: RunCounts::default(),
        plan: "{}".to_owned(),
        hash: "h".to_owned(),
    };
    assert!(store.run_freeze("run-1", &frozen).await.unwrap());
    assert!(store.run_start("run-1", "h", "me", None).await.unwrap());
    let owner = living(store).await;
    match store.run_take("run-1", owner).await.unwrap() {
        RunTaken::Taken(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn window(run: &RunRecord, events: &[Event], act: EventAct) -> EventsChange {
    EventsChange {
        run: run.id.clone(),
        epoch: run.epoch,
        counts: RunCounts::default(),
        act,
        items: (0..)
            .zip(events)
            .map(|(ordinal, event)| EventItem {
                ordinal,
                id: event.id,
                revision: event.revision,
            })
            .collect(),
    }
}

pub(super) async fn a_window_of_a_run_changes_its_events_and_journals_each(place: &Place) {
    let store = &*place.store;
    let names = ["waits", "pushed-anew", "in-hand", "gone", "waits-too"];
    failed_with(store, &names.map(|name| (name, "no luck"))).await;
    let mut events = Vec::new();
    for name in names {
        events.push(one(store, name).await);
    }
    push(store, "pushed-anew", "newer").await;
    store
        .event_act(events[2].id, events[2].revision, EventAct::Retry)
        .await
        .unwrap();
    let owner = living(store).await;
    let held = take(store, owner, 10).await;
    for event in held.iter().filter(|event| event.reference.as_str() == "pushed-anew") {
        finish(store, event.lease_key().unwrap(), Verdict::Release).await;
    }
    store
        .event_act(events[3].id, events[3].revision, EventAct::Cancel)
        .await
        .unwrap();
    let run = started(store, &events).await;
    let changed = store
        .events_change(&window(&run, &events, EventAct::Retry))
        .await
        .unwrap();
    let counts = RunCounts {
        done: 2,
        failed: 0,
        skipped: 3,
    };
    assert_eq!(changed, EventsChanged::Changed(counts));
    assert_eq!(store.run_counts("run-1").await.unwrap(), counts);
    assert!(one(store, "waits").await.nbf <= store.now().await.unwrap());
    assert!(of(store, "gone").await.is_empty());
    let query = ItemQuery {
        run: "run-1".to_owned(),
        limit: 10,
        ..ItemQuery::default()
    };
    let items = store.run_items(&query).await.unwrap();
    let reasons: Vec<Option<&str>> = items.iter().map(|record| record.item.reason.as_deref()).collect();
    assert_eq!(
        reasons,
        [
            None,
            Some("it was pushed again since the plan"),
            Some("it is being handled"),
            Some("it is not there any more"),
            None,
        ]
    );
}

/// Two of one reference: only one of them can have the new date as its key.
pub(super) async fn a_window_moves_dated_events_to_one_date(place: &Place) {
    let store = &*place.store;
    let at = Timestamp::from_seconds(4_000_000_000);
    for date in [at, at.plus(Duration::from_secs(1))] {
        let dated = NewEvent {
            nbf: Some(date),
            ..new_event("t", "a", "x")
        };
        pushed_all(store, vec![dated]).await;
    }
    let events = of(store, "a").await;
    let run = started(store, &events).await;
    let date = at.plus(Duration::from_secs(9));
    let moved = store
        .events_change(&window(&run, &events, EventAct::Reschedule(date)))
        .await
        .unwrap();
    let done = RunCounts {
        done: 2,
        ..RunCounts::default()
    };
    assert_eq!(moved, EventsChanged::Changed(done));
    let events = of(store, "a").await;
    assert!(events.iter().all(|event| event.nbf == date), "{events:?}");
    let keys: Vec<_> = events.iter().map(|event| event.dated).collect();
    assert!(keys[0] != keys[1] && keys.contains(&Some(date)), "{keys:?}");
}

pub(super) async fn a_window_under_a_lost_or_stopped_run_changes_nothing(place: &Place) {
    let store = &*place.store;
    push(store, "a", "x").await;
    let events = [one(store, "a").await];
    let run = started(store, &events).await;
    let stale = EventsChange {
        epoch: Epoch(run.epoch.0 - 1),
        ..window(&run, &events, EventAct::Cancel)
    };
    assert_eq!(store.events_change(&stale).await.unwrap(), EventsChanged::Lost);
    let paused = store
        .run_change("run-1", &[RunState::Running], RunState::Paused, None)
        .await
        .unwrap();
    assert!(paused);
    let asked = store
        .events_change(&window(&run, &events, EventAct::Cancel))
        .await
        .unwrap();
    assert_eq!(asked, EventsChanged::Asked(RunState::Paused));
    assert_eq!(one(store, "a").await, events[0]);
    assert_eq!(store.run_counts("run-1").await.unwrap(), RunCounts::default());
}
