//! Runs: plans that are frozen, leases, journals, kept messages.

use std::time::Duration;

use redrive::internals::domain::id::Epoch;
use redrive::internals::domain::run::{ItemState, RunCounts, RunState, RunWish, Target};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    Advance, Frozen, Guarded, ItemMark, ItemQuery, KeptKind, KeptMessage, KeptQuery, NewItem, NewRun, RunBounds,
    RunQuery, RunRecord, RunStop, RunTaken, SourceTaken, Store, Trim,
};

use super::fixtures::{Place, living, queue};

fn item(ordinal: u64) -> NewItem {
    NewItem {
        ordinal,
        letter: format!("letter-{ordinal}"),
        source: queue("dead"),
        target: Some(Target::Queue(queue("origin"))),
        bytes: 512,
        state: ItemState::Planned,
        reason: None,
    }
}

fn frozen(total: u64) -> Frozen {
    Frozen {
        total,
        counts: RunCounts::default(),
        plan: "{}".to_owned(),
        hash: "h".to_owned(),
    }
}

async fn planned(store: &dyn Store, id: &str, total: u64) {
    let new = NewRun {
        id: id.to_owned(),
        command: "dead redrive".to_owned(),
        rate: Some(50),
        canary: Some(2),
    };
    store.run_create(&new).await.unwrap();
    let items: Vec<NewItem> = (0..total).map(item).collect();
    store.run_items_add(id, &items).await.unwrap();
    assert!(store.run_freeze(id, &frozen(total)).await.unwrap());
}

async fn started(store: &dyn Store, id: &str, total: u64) {
    planned(store, id, total).await;
    assert!(store.run_start(id, "h", "ann", Some("why")).await.unwrap());
}

async fn taken(store: &dyn Store, id: &str) -> RunRecord {
    let me = living(store).await;
    match store.run_take(id, me).await.unwrap() {
        RunTaken::Taken(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn mark(ordinal: u64, state: ItemState) -> ItemMark {
    ItemMark {
        ordinal,
        state,
        reason: None,
        dropped: None,
    }
}

fn kept(letter: &str, keep_for: Option<Duration>) -> KeptMessage {
    KeptMessage {
        letter: letter.to_owned(),
        kind: KeptKind::Discarded,
        queue: queue("dead"),
        message: vec![0, 255, 1],
        run: Some("r".to_owned()),
        ordinal: 0,
        actor: "ann".to_owned(),
        keep_for,
        at: Timestamp::EPOCH,
        until: None,
    }
}

fn all_kept() -> KeptQuery {
    KeptQuery {
        kind: KeptKind::Discarded,
        run: None,
        letters: Vec::new(),
        after: None,
        limit: 10,
    }
}

fn items_of(run: &str) -> ItemQuery {
    ItemQuery {
        run: run.to_owned(),
        limit: 1_000,
        ..ItemQuery::default()
    }
}

pub(super) async fn a_plan_is_frozen_once_and_started_only_with_its_hash(place: &Place) {
    let store = &*place.store;
    planned(store, "r", 3).await;
    assert!(!store.run_freeze("r", &frozen(9)).await.unwrap());
    store
        .run_items_add("r", &[item(3)])
        .await
        .expect_err("a frozen plan takes no more items");
    let run = store.run_get("r").await.unwrap().unwrap();
    assert_eq!(
        (run.state, run.total, run.rate, run.canary),
        (RunState::Planned, 3, Some(50), Some(2))
    );
    assert_eq!(
        store
            .runs(&RunQuery {
                limit: 9,
                ..RunQuery::default()
            })
            .await
            .unwrap(),
        []
    );
    assert!(!store.run_start("r", "other", "ann", None).await.unwrap());
    assert!(store.run_start("r", "h", "ann", Some("why")).await.unwrap());
    assert!(!store.run_start("r", "h", "bob", None).await.unwrap(), "once");
    let run = store.run_get("r").await.unwrap().unwrap();
    assert_eq!(
        (run.state, run.actor.as_str(), run.reason.as_deref()),
        (RunState::Running, "ann", Some("why"))
    );
    assert!(run.started_at.is_some() && run.ended_at.is_none());
    assert_eq!(store.run_get("none").await.unwrap(), None);
}

pub(super) async fn of_two_concurrent_takers_of_a_run_exactly_one_gets_it(place: &Place) {
    let (store, other) = (&*place.store, place.another().await.unwrap());
    let (one, two) = (living(store).await, living(&*other).await);
    for round in 0..10 {
        let id = format!("r{round}");
        started(store, &id, 1).await;
        let (a, b) = tokio::join!(store.run_take(&id, one), other.run_take(&id, two));
        let both = [a.unwrap(), b.unwrap()];
        let got = both.iter().filter(|taken| matches!(taken, RunTaken::Taken(_))).count();
        let held = both.iter().filter(|taken| matches!(taken, RunTaken::Held(_))).count();
        assert_eq!((got, held), (1, 1), "{both:?}");
    }
    other.close().await;
}

pub(super) async fn a_run_of_the_dead_is_open_and_taken_over(place: &Place) {
    let store = &*place.store;
    started(store, "r", 1).await;
    assert_eq!(store.runs_open(9).await.unwrap().len(), 1);
    let first = taken(store, "r").await;
    assert_eq!(store.runs_open(9).await.unwrap(), []);
    let owner = first.owner.unwrap();
    assert!(matches!(
        store.run_take("r", living(store).await).await.unwrap(),
        RunTaken::Held(_)
    ));
    assert!(store.incarnation_mark_dead(owner, 0).await.unwrap());
    assert_eq!(store.runs_open(9).await.unwrap().len(), 1);
    assert_eq!(
        store.run_take("r", owner).await.unwrap(),
        RunTaken::Refused,
        "the dead take nothing"
    );
    let second = taken(store, "r").await;
    assert!(second.epoch > first.epoch);
    assert!(!store.run_free("r", first.epoch).await.unwrap());
    assert!(store.run_free("r", second.epoch).await.unwrap());
    assert_eq!(store.runs_open(9).await.unwrap().len(), 1);
}

pub(super) async fn a_stale_epoch_changes_nothing(place: &Place) {
    let store = &*place.store;
    started(store, "r", 2).await;
    let run = taken(store, "r").await;
    let stale = Epoch(run.epoch.0 - 1);
    let before = (
        store.run_get("r").await.unwrap(),
        store.run_items(&items_of("r")).await.unwrap(),
    );
    let advance = Advance {
        marks: vec![mark(0, ItemState::Settled), mark(1, ItemState::Published)],
        counts: RunCounts {
            done: 1,
            ..RunCounts::default()
        },
        note: Some("x".to_owned()),
        keep: vec![kept("a", None)],
        forget: Vec::new(),
    };
    assert_eq!(store.run_advance("r", stale, &advance).await.unwrap(), Guarded::Lost);
    let stop = RunStop {
        state: RunState::Done,
        counts: RunCounts::default(),
        note: None,
    };
    assert!(!store.run_stop("r", stale, &stop).await.unwrap());
    assert_eq!(
        store.source_take(&queue("dead"), "r", stale).await.unwrap(),
        SourceTaken::Lost
    );
    let after = (
        store.run_get("r").await.unwrap(),
        store.run_items(&items_of("r")).await.unwrap(),
    );
    assert_eq!(before, after);
    assert_eq!(store.kept_list(&all_kept()).await.unwrap(), []);
    assert_eq!(
        store.run_advance("r", run.epoch, &advance).await.unwrap(),
        Guarded::Held(RunState::Running)
    );
    assert_eq!(store.run_counts("r").await.unwrap(), advance.counts);
    assert_eq!(store.run_in_hand("r").await.unwrap(), 1);
    assert_eq!(store.run_get("r").await.unwrap().unwrap().counts, advance.counts);
}

pub(super) async fn a_person_changes_a_run_only_from_where_that_makes_sense(place: &Place) {
    let store = &*place.store;
    started(store, "r", 1).await;
    let run = taken(store, "r").await;
    let wish = async |wish: RunWish, to: RunState| {
        store
            .run_change("r", &wish.possible_from(), to, Some("note"))
            .await
            .unwrap()
    };
    assert!(!wish(RunWish::Resume, RunState::Running).await);
    assert!(wish(RunWish::Pause, RunState::Paused).await);
    let idle = Advance::default();
    assert_eq!(
        store.run_advance("r", run.epoch, &idle).await.unwrap(),
        Guarded::Held(RunState::Paused)
    );
    let stop = RunStop {
        state: RunState::Done,
        counts: RunCounts::default(),
        note: None,
    };
    assert!(
        !store.run_stop("r", run.epoch, &stop).await.unwrap(),
        "a paused run is not ended by its worker"
    );
    assert!(wish(RunWish::Resume, RunState::Running).await);
    let canary = async || store.run_get("r").await.unwrap().unwrap().canary;
    assert_eq!(canary().await, Some(2), "a pause leaves the canary");
    assert!(store.run_stage("r", run.epoch, 7).await.unwrap());
    assert_eq!(canary().await, Some(7));
    let before = Epoch(run.epoch.0 - 1);
    assert!(!store.run_stage("r", before, 9).await.unwrap(), "under another lease");
    assert!(wish(RunWish::Pause, RunState::Paused).await);
    assert!(!store.run_stage("r", run.epoch, 9).await.unwrap(), "while it is paused");
    assert!(wish(RunWish::Resume, RunState::Running).await);
    let asks = RunStop {
        state: RunState::Canary,
        ..stop.clone()
    };
    assert!(store.run_stop("r", run.epoch, &asks).await.unwrap());
    assert!(wish(RunWish::Resume, RunState::Running).await);
    assert_eq!(canary().await, None, "a person said to go on");
    let run = taken(store, "r").await;
    assert!(store.run_stop("r", run.epoch, &stop).await.unwrap());
    assert!(!wish(RunWish::Cancel, RunState::Cancelled).await);
    let over = store.run_get("r").await.unwrap().unwrap();
    assert!(over.state == RunState::Done && over.ended_at.is_some() && over.owner.is_none());
    planned(store, "s", 1).await;
    assert!(
        store
            .run_change("s", &[RunState::Planned], RunState::Cancelled, None)
            .await
            .unwrap()
    );
}

pub(super) async fn items_keep_their_journal_and_are_paged(place: &Place) {
    let store = &*place.store;
    started(store, "r", 5).await;
    let run = taken(store, "r").await;
    let marks = vec![
        ItemMark {
            dropped: Some("{\"x-death\":1}".to_owned()),
            ..mark(1, ItemState::Journalled)
        },
        ItemMark {
            reason: Some("gone".to_owned()),
            ..mark(3, ItemState::Skipped)
        },
    ];
    let advance = Advance {
        marks,
        ..Advance::default()
    };
    store.run_advance("r", run.epoch, &advance).await.unwrap();
    let published = Advance {
        marks: vec![mark(1, ItemState::Published)],
        ..Advance::default()
    };
    store.run_advance("r", run.epoch, &published).await.unwrap();
    let items = store.run_items(&items_of("r")).await.unwrap();
    assert_eq!(items.len(), 5);
    assert_eq!(items[1].item.state, ItemState::Published);
    assert_eq!(items[1].dropped.as_deref(), Some("{\"x-death\":1}"));
    assert_eq!(items[3].item.reason.as_deref(), Some("gone"));
    assert_eq!(items[4].item, item(4));
    let page = ItemQuery {
        after: Some(0),
        open: true,
        limit: 2,
        source: Some(queue("dead")),
        run: "r".to_owned(),
    };
    let ordinals: Vec<u64> = store
        .run_items(&page)
        .await
        .unwrap()
        .iter()
        .map(|item| item.item.ordinal)
        .collect();
    assert_eq!(ordinals, [1, 2]);
    let elsewhere = ItemQuery {
        source: Some(queue("other")),
        ..items_of("r")
    };
    assert_eq!(store.run_items(&elsewhere).await.unwrap(), []);
}

pub(super) async fn a_source_is_one_runs_at_a_time(place: &Place) {
    let store = &*place.store;
    started(store, "a", 1).await;
    started(store, "b", 1).await;
    let (a, b) = (taken(store, "a").await, taken(store, "b").await);
    let dead = queue("dead");
    assert_eq!(
        store.source_take(&dead, "a", a.epoch).await.unwrap(),
        SourceTaken::Taken
    );
    assert_eq!(
        store.source_take(&dead, "a", a.epoch).await.unwrap(),
        SourceTaken::Taken
    );
    assert_eq!(
        store.source_take(&dead, "b", b.epoch).await.unwrap(),
        SourceTaken::Other("a".to_owned())
    );
    store.source_free(&dead, "b").await.unwrap();
    assert_eq!(
        store.source_take(&dead, "b", b.epoch).await.unwrap(),
        SourceTaken::Other("a".to_owned())
    );
    store.source_free(&dead, "a").await.unwrap();
    assert_eq!(
        store.source_take(&dead, "b", b.epoch).await.unwrap(),
        SourceTaken::Taken
    );
    assert!(store.incarnation_mark_dead(b.owner.unwrap(), 0).await.unwrap());
    assert_eq!(
        store.source_take(&dead, "a", a.epoch).await.unwrap(),
        SourceTaken::Taken,
        "of the dead"
    );
}

pub(super) async fn kept_messages_are_kept_until_their_time(place: &Place) {
    let store = &*place.store;
    store.kept_put(&[kept("a", None)]).await.unwrap();
    store.kept_put(&[kept("b", Some(Duration::ZERO))]).await.unwrap();
    store
        .kept_put(&[kept("c", Some(Duration::from_hours(1)))])
        .await
        .unwrap();
    let c = store.kept_get("c", KeptKind::Discarded).await.unwrap().unwrap();
    assert_eq!(c.message, [0, 255, 1]);
    assert_eq!(c.until, Some(c.at.plus(Duration::from_hours(1))));
    assert_eq!(store.kept_get("c", KeptKind::Edited).await.unwrap(), None);
    let some = KeptQuery {
        letters: vec!["a".to_owned(), "z".to_owned()],
        ..all_kept()
    };
    assert_eq!(store.kept_list(&some).await.unwrap().len(), 1);
    let trim = Trim::Kept {
        edits: Duration::from_hours(1),
    };
    assert_eq!(store.trim(&trim, 10).await.unwrap(), 1);
    let letters: Vec<String> = store
        .kept_list(&all_kept())
        .await
        .unwrap()
        .into_iter()
        .map(|kept| kept.letter)
        .collect();
    assert_eq!(letters, ["a", "c"]);
    assert!(store.kept_drop("a", KeptKind::Discarded).await.unwrap());
    assert!(!store.kept_drop("a", KeptKind::Discarded).await.unwrap());
}

pub(super) async fn the_history_of_runs_is_bounded(place: &Place) {
    let store = &*place.store;
    for id in ["a", "b", "c"] {
        started(store, id, 1).await;
        let run = taken(store, id).await;
        let stop = RunStop {
            state: RunState::Failed,
            counts: RunCounts::default(),
            note: Some("x".to_owned()),
        };
        assert!(store.run_stop(id, run.epoch, &stop).await.unwrap());
    }
    started(store, "d", 1).await;
    planned(store, "e", 1).await;
    let bounds = RunBounds {
        age: Duration::from_hours(1),
        runs: 2,
        planned: Duration::ZERO,
    };
    assert_eq!(
        store.trim(&Trim::Runs(bounds), 10).await.unwrap(),
        4,
        "each with its item"
    );
    let query = RunQuery {
        planned: true,
        limit: 9,
        ..RunQuery::default()
    };
    let ids: Vec<String> = store
        .runs(&query)
        .await
        .unwrap()
        .into_iter()
        .map(|run| run.id)
        .collect();
    assert_eq!(ids, ["d", "c", "b"]);
    assert_eq!(
        store.run_items(&items_of("a")).await.unwrap(),
        [],
        "its items went with it"
    );
}

pub(super) async fn marks_reach_their_items_in_any_order_and_no_others(place: &Place) {
    let store = &*place.store;
    started(store, "other", 10).await;
    started(store, "r", 10).await;
    let run = taken(store, "r").await;
    let failed = |ordinal, reason: &str| ItemMark {
        reason: Some(reason.to_owned()),
        ..mark(ordinal, ItemState::Failed)
    };
    let off = |ordinal| ItemMark {
        dropped: Some("{}".to_owned()),
        ..mark(ordinal, ItemState::Journalled)
    };
    let marks = vec![
        mark(7, ItemState::Settled),
        failed(3, "late"),
        mark(0, ItemState::Settled),
        off(5),
        failed(2, "early"),
        mark(1, ItemState::Settled),
        off(4),
        mark(8, ItemState::Settled),
    ];
    let advance = Advance {
        marks,
        ..Advance::default()
    };
    store.run_advance("r", run.epoch, &advance).await.unwrap();
    let items = store.run_items(&items_of("r")).await.unwrap();
    let found: String = items
        .iter()
        .map(
            |one| match (one.item.state, one.item.reason.as_deref(), one.dropped.as_deref()) {
                (ItemState::Settled, None, None) => 's',
                (ItemState::Failed, Some("early"), None) => 'e',
                (ItemState::Failed, Some("late"), None) => 'l',
                (ItemState::Journalled, None, Some("{}")) => 'j',
                (ItemState::Planned, None, None) => '.',
                other => panic!("{other:?}"),
            },
        )
        .collect();
    assert_eq!(found, "sseljj.ss.");
    let others = store.run_items(&items_of("other")).await.unwrap();
    assert!(others.iter().all(|one| one.item.state == ItemState::Planned));
}

pub(super) async fn runs_that_are_not_over_are_listed_without_their_plans(place: &Place) {
    let store = &*place.store;
    planned(store, "a", 1).await;
    for id in ["b", "c", "d"] {
        started(store, id, 1).await;
    }
    let from = RunWish::Pause.possible_from();
    assert!(store.run_change("c", &from, RunState::Paused, None).await.unwrap());
    let over = taken(store, "b").await;
    let stop = RunStop {
        state: RunState::Done,
        counts: RunCounts::default(),
        note: None,
    };
    assert!(store.run_stop("b", over.epoch, &stop).await.unwrap());
    let open = async |before: Option<&str>| -> Vec<(String, String)> {
        let query = RunQuery {
            before: before.map(str::to_owned),
            open: true,
            limit: 9,
            ..RunQuery::default()
        };
        let runs = store.runs(&query).await.unwrap();
        runs.into_iter().map(|run| (run.id, run.plan)).collect()
    };
    let of = |id: &str| (id.to_owned(), String::new());
    assert_eq!(open(None).await, [of("d"), of("c")]);
    assert_eq!(open(Some("d")).await, [of("c")]);
    let all = RunQuery {
        limit: 9,
        ..RunQuery::default()
    };
    let plans: Vec<String> = store
        .runs(&all)
        .await
        .unwrap()
        .into_iter()
        .map(|run| run.plan)
        .collect();
    assert_eq!(plans, ["{}", "{}", "{}"]);
}

pub(super) async fn a_thousand_items_move_on_in_one_call(place: &Place) {
    let store = &*place.store;
    started(store, "r", 1_000).await;
    let run = taken(store, "r").await;
    let marks = (0..1_000).map(|ordinal| mark(ordinal, ItemState::Settled)).collect();
    let counts = RunCounts {
        done: 1_000,
        ..RunCounts::default()
    };
    let advance = Advance {
        marks,
        counts,
        ..Advance::default()
    };
    for _ in 0..2 {
        let guarded = store.run_advance("r", run.epoch, &advance).await.unwrap();
        assert_eq!(
            guarded,
            Guarded::Held(RunState::Running),
            "and again, when the answer was lost"
        );
    }
    assert_eq!(store.run_counts("r").await.unwrap(), counts);
    assert_eq!(store.run_get("r").await.unwrap().unwrap().counts, counts);
}
