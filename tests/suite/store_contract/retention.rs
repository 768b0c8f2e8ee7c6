//! What grows is trimmed, a page at a time, and what is needed stays.

use std::time::Duration;

use redrive::internals::domain::endpoint::EndpointChange;
use redrive::internals::domain::id::{EndpointEpoch, IncarnationId};
use redrive::internals::domain::outcome::OutcomeClass;
use redrive::internals::domain::run::{ItemState, RunCounts, RunState};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::value::Value;
use redrive::internals::store::{
    AttemptBounds, AttemptQuery, Changed, ClaimOutcome, ClaimSpan, Frozen, KeptKind, KeptMessage, NewAudit, NewClaim,
    NewItem, NewPolicy, NewRun, NewSave, NewSubscription, PolicyScope, RescuedMessage, RunBounds, RunQuery, SaveBegun,
    SaveCause, SaveQuery, SaveTaken, SaveWindow, SavedMessage, Store, Trim, TypePut,
};

use super::events::{kind, new_event, pushed_all, put_type};
use super::fixtures::{HOUR, Place, attempt, held_queue, learned, living, queue, url};

fn line(target: &str) -> NewAudit {
    NewAudit {
        actor: "ann".to_owned(),
        command: "redeliver".to_owned(),
        target: target.to_owned(),
        reason: None,
        plan: None,
        result: "done".to_owned(),
        detail: String::new(),
    }
}

const ALL_OF_THE_AUDIT: Trim = Trim::Audit { age: Duration::ZERO };

pub(super) async fn a_trim_of_the_audit_leaves_its_end_and_the_chain_goes_on(place: &Place) {
    let store = &*place.store;
    let mut ids = Vec::new();
    for target in ["a", "b", "c"] {
        ids.push(store.audit_append(&line(target)).await.unwrap());
    }
    assert_eq!(store.trim(&Trim::Audit { age: HOUR }, 10).await.unwrap(), 0);
    assert_eq!(store.audit_chain().await.unwrap().removed, 0);
    assert_eq!(store.trim(&ALL_OF_THE_AUDIT, 2).await.unwrap(), 2, "a page");
    let left = store.audit_from(0, 10).await.unwrap();
    assert_eq!(left.iter().map(|line| line.id).collect::<Vec<_>>(), [ids[2]]);
    let chain = store.audit_chain().await.unwrap();
    assert_eq!((chain.removed, chain.removed_id), (2, ids[1]));
    assert_eq!((chain.newest_id, &chain.newest_hash), (ids[2], &left[0].hash));
    assert!(chain.removed_at.is_some());
    assert!(left[0].follows(&chain.removed_hash));

    assert_eq!(store.trim(&ALL_OF_THE_AUDIT, 2).await.unwrap(), 1);
    let next = store.audit_append(&line("d")).await.unwrap();
    let (chain, left) = (
        store.audit_chain().await.unwrap(),
        store.audit_from(0, 10).await.unwrap(),
    );
    assert_eq!((chain.removed, chain.removed_id, chain.newest_id), (3, ids[2], next));
    assert!(
        left.len() == 1 && left[0].follows(&chain.removed_hash),
        "though nothing was left"
    );
    assert!(!left[0].follows(""));
}

pub(super) async fn nothing_goes_by_its_age_while_the_clock_may_be_ahead(place: &Place) {
    let store = &*place.store;
    for target in ["a", "b", "c"] {
        store.audit_append(&line(target)).await.unwrap();
    }
    assert_eq!(store.trim(&ALL_OF_THE_AUDIT, 1).await.unwrap(), 1);
    assert!(store.ages().await.unwrap().count());
    // As if the clock had gone ahead since.
    let hour = HOUR.as_micros();
    let ahead = format!("UPDATE TABLE.janitor SET aged_at = aged_at - {}", 9 * hour);
    place.tamper(&ahead).await.unwrap();
    assert_eq!(store.trim(&ALL_OF_THE_AUDIT, 10).await.unwrap(), 0);
    assert!(!store.ages().await.unwrap().count());
    let next_day = format!("UPDATE TABLE.janitor SET leapt_at = leapt_at - {}", 25 * hour);
    place.tamper(&next_day).await.unwrap();
    assert_eq!(store.trim(&ALL_OF_THE_AUDIT, 10).await.unwrap(), 2);
    assert!(store.ages().await.unwrap().count());
}

pub(super) async fn what_the_trim_of_the_audit_has_not_anchored_cannot_be_deleted(place: &Place) {
    let store = &*place.store;
    store.audit_append(&line("a")).await.unwrap();
    store.audit_append(&line("b")).await.unwrap();
    assert_eq!(store.trim(&ALL_OF_THE_AUDIT, 1).await.unwrap(), 1);
    let refused = place.tamper("DELETE FROM TABLE.audit").await.unwrap_err().to_string();
    assert!(refused.contains("append-only"), "{refused}");
    assert_eq!(store.audit_from(0, 10).await.unwrap().len(), 1);
}

pub(super) async fn attempts_go_a_page_at_a_time(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    for number in 0..7 {
        let one = attempt(&lease, "one", &format!("m{number}"), OutcomeClass::Failed);
        store.attempt_record(&one).await.unwrap();
    }
    let beyond = |rows| Trim::Attempts(AttemptBounds { age: HOUR, rows });
    assert_eq!(store.trim(&beyond(1), 4).await.unwrap(), 4);
    assert_eq!(store.trim(&beyond(1), 4).await.unwrap(), 2);
    assert_eq!(store.trim(&beyond(1), 4).await.unwrap(), 0);
    let query = AttemptQuery {
        limit: 10,
        ..AttemptQuery::default()
    };
    let left = store.attempts(&query).await.unwrap();
    assert_eq!(
        left.iter().map(|one| one.message_id.as_str()).collect::<Vec<_>>(),
        ["m6"]
    );
}

fn items(count: u64) -> Vec<NewItem> {
    let item = |ordinal| NewItem {
        ordinal,
        letter: format!("letter-{ordinal}"),
        source: queue("dead"),
        target: None,
        bytes: 1,
        state: ItemState::Planned,
        reason: None,
    };
    (0..count).map(item).collect()
}

async fn draft(store: &dyn Store, id: &str, count: u64) {
    let new = NewRun {
        id: id.to_owned(),
        command: "dead redrive".to_owned(),
        rate: None,
        canary: None,
    };
    store.run_create(&new).await.unwrap();
    store.run_items_add(id, &items(count)).await.unwrap();
}

fn frozen(total: u64) -> Frozen {
    Frozen {
        total,
        counts: RunCounts::default(),
        plan: "{}".to_owned(),
        hash: "h".to_owned(),
    }
}

fn runs_older(age: Duration) -> Trim {
    Trim::Runs(RunBounds {
        age,
        runs: 1_000,
        planned: age,
    })
}

pub(super) async fn a_run_that_is_removed_counts_as_gone_from_the_first_page_on(place: &Place) {
    let store = &*place.store;
    draft(store, "over", 5).await;
    assert!(store.run_freeze("over", &frozen(5)).await.unwrap());
    assert!(
        store
            .run_change("over", &[RunState::Planned], RunState::Cancelled, None)
            .await
            .unwrap()
    );
    draft(store, "open", 5).await;
    assert!(store.run_freeze("open", &frozen(5)).await.unwrap());
    assert!(store.run_start("open", "h", "ann", None).await.unwrap());
    assert_eq!(store.trim(&runs_older(HOUR), 3).await.unwrap(), 0);
    assert_eq!(store.trim(&runs_older(Duration::ZERO), 3).await.unwrap(), 3);
    assert_eq!(store.run_get("over").await.unwrap(), None);
    let query = RunQuery {
        planned: true,
        limit: 9,
        ..RunQuery::default()
    };
    let listed = store.runs(&query).await.unwrap();
    assert_eq!(listed.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["open"]);
    assert_eq!(
        store.trim(&runs_older(Duration::ZERO), 3).await.unwrap(),
        3,
        "two items and the run"
    );
    assert_eq!(store.trim(&runs_older(Duration::ZERO), 3).await.unwrap(), 0);
    draft(store, "over", 5).await;
}

pub(super) async fn a_plan_that_is_removed_cannot_be_started_nor_frozen_any_more(place: &Place) {
    let store = &*place.store;
    draft(store, "frozen", 5).await;
    assert!(store.run_freeze("frozen", &frozen(5)).await.unwrap());
    draft(store, "draft", 5).await;
    assert_eq!(store.trim(&runs_older(Duration::ZERO), 1).await.unwrap(), 1);
    assert!(!store.run_start("frozen", "h", "ann", None).await.unwrap());
    assert!(!store.run_freeze("draft", &frozen(5)).await.unwrap());
    assert!(store.run_items_add("draft", &[]).await.is_err());
    assert!(
        !store
            .run_change("frozen", &[RunState::Planned], RunState::Cancelled, None)
            .await
            .unwrap()
    );
}

async fn save(store: &dyn Store, id: &str, owner: IncarnationId, keep_for: Duration) {
    let new = NewSave {
        id: id.to_owned(),
        queue: queue("jobs"),
        arguments: "{}".to_owned(),
        cause: SaveCause::Asked,
        owner,
        actor: "ann".to_owned(),
        reason: None,
        keep_for,
    };
    assert_eq!(store.save_begin(&new).await.unwrap(), SaveBegun::Begun);
    let message = |place| SavedMessage {
        place,
        window: 0,
        message: vec![1, 2],
        bytes: 2,
        exchange: String::new(),
        routing_key: "jobs".to_owned(),
    };
    let window = SaveWindow {
        number: 0,
        messages: (0..4).map(message).collect(),
    };
    assert!(store.save_keep(id, owner, &window).await.unwrap());
    assert!(store.save_end(id, owner).await.unwrap());
}

pub(super) async fn a_save_that_is_removed_cannot_be_restored_any_more(place: &Place) {
    let store = &*place.store;
    let me = living(store).await;
    save(store, "over", me, Duration::ZERO).await;
    save(store, "taken", me, Duration::ZERO).await;
    save(store, "kept", me, HOUR).await;
    assert!(matches!(
        store.save_take("taken", me).await.unwrap(),
        SaveTaken::Taken(_)
    ));
    assert_eq!(store.trim(&Trim::Saves, 3).await.unwrap(), 3);
    assert_eq!(store.save_take("over", me).await.unwrap(), SaveTaken::Missing);
    assert_eq!(store.trim(&Trim::Saves, 3).await.unwrap(), 2, "a message and the save");
    let query = SaveQuery {
        limit: 10,
        ..SaveQuery::default()
    };
    let mut left: Vec<(String, u64)> = store
        .saves(&query)
        .await
        .unwrap()
        .into_iter()
        .map(|save| (save.id, save.left))
        .collect();
    left.sort();
    assert_eq!(left, [("kept".to_owned(), 4), ("taken".to_owned(), 4)]);
}

fn unused(span: Duration) -> Trim {
    Trim::Endpoints { unused: span }
}

/// An endpoint without a queue: its queue ended.
async fn lone_endpoint(store: &dyn Store, host: &str) {
    let lease = held_queue(store, host, host).await;
    assert!(store.queue_forget(&lease.record.name, lease.epoch).await.unwrap());
}

async fn set_policy(store: &dyn Store, scope: &PolicyScope, document: Option<&str>) -> i64 {
    let new = NewPolicy {
        scope: scope.clone(),
        document: document.map(str::to_owned),
        author: "ann".to_owned(),
    };
    store.policy_put(&new).await.unwrap()
}

pub(super) async fn an_endpoint_is_forgotten_only_when_nothing_needs_it(place: &Place) {
    let store = &*place.store;
    for host in ["idle", "parked", "policy", "unset"] {
        lone_endpoint(store, host).await;
    }
    store.queues_learn(&[learned("waiting", "queue")]).await.unwrap();
    let parked = store
        .endpoint_change(&url("parked"), None, &EndpointChange::Park { attempts: None })
        .await;
    assert!(matches!(parked.unwrap(), Changed::Done { .. }));
    let of = |host| PolicyScope {
        event_type: None,
        url: Some(url(host)),
    };
    set_policy(store, &of("policy"), Some("{}")).await;
    set_policy(store, &of("unset"), Some("{}")).await;
    set_policy(store, &of("unset"), None).await;
    assert_eq!(
        store.trim(&unused(HOUR), 10).await.unwrap(),
        0,
        "all were used within the hour"
    );
    assert_eq!(store.trim(&unused(Duration::ZERO), 1).await.unwrap(), 1, "a page");
    assert_eq!(store.trim(&unused(Duration::ZERO), 10).await.unwrap(), 1);
    for (host, stays) in [
        ("idle", false),
        ("unset", false),
        ("parked", true),
        ("policy", true),
        ("queue", true),
    ] {
        let found = store.endpoint_get(&url(host)).await.unwrap();
        assert_eq!(found.is_some(), stays, "{host}");
    }
    let opened = store.endpoint_change(&url("idle"), None, &EndpointChange::Open).await;
    assert_eq!(opened.unwrap(), Changed::Unknown);
}

pub(super) async fn an_endpoint_that_comes_back_does_not_get_an_older_epoch(place: &Place) {
    let store = &*place.store;
    lone_endpoint(store, "one").await;
    for change in [EndpointChange::Park { attempts: None }, EndpointChange::Open] {
        store.endpoint_change(&url("one"), None, &change).await.unwrap();
    }
    let before = store.endpoint_get(&url("one")).await.unwrap().unwrap().epoch;
    assert!(before > EndpointEpoch(0));
    assert_eq!(store.trim(&unused(Duration::ZERO), 10).await.unwrap(), 1);
    lone_endpoint(store, "one").await;
    let after = store.endpoint_get(&url("one")).await.unwrap().unwrap().epoch;
    assert!(after > before, "{after:?} follows {before:?}");
}

pub(super) async fn older_versions_of_a_policy_go_and_the_one_that_holds_stays(place: &Place) {
    let store = &*place.store;
    let of = |event_type: &str| PolicyScope {
        event_type: Some(event_type.to_owned()),
        url: None,
    };
    for _ in 0..5 {
        set_policy(store, &of("set"), Some("{}")).await;
        set_policy(store, &of("unset"), Some("{}")).await;
    }
    set_policy(store, &of("unset"), None).await;
    let trim = |age, versions| Trim::Policies { age, versions };
    assert_eq!(store.trim(&trim(HOUR, 100), 10).await.unwrap(), 0);
    assert_eq!(store.trim(&trim(HOUR, 4), 10).await.unwrap(), 3, "all but four of each");
    // What unsets goes last: the version before it would hold again.
    for page in 0..9 {
        store.trim(&trim(Duration::ZERO, 100), 1).await.unwrap();
        assert_eq!(store.policy_get(&of("unset")).await.unwrap(), None, "page {page}");
        assert_eq!(
            store.policy_get(&of("set")).await.unwrap().unwrap().version,
            5,
            "page {page}"
        );
    }
    assert_eq!(store.policy_history(&of("set")).await.unwrap().len(), 1);
    assert_eq!(store.policy_history(&of("unset")).await.unwrap(), []);
}

pub(super) async fn an_edit_goes_when_its_dead_letter_is_long_gone(place: &Place) {
    let store = &*place.store;
    let edit = KeptMessage {
        letter: "gone".to_owned(),
        kind: KeptKind::Edited,
        queue: queue("dead"),
        message: vec![1],
        run: None,
        ordinal: 0,
        actor: "ann".to_owned(),
        keep_for: None,
        at: Timestamp::EPOCH,
        until: None,
    };
    store.kept_put(std::slice::from_ref(&edit)).await.unwrap();
    let there = KeptMessage {
        letter: "there".to_owned(),
        ..edit
    };
    store.kept_put(std::slice::from_ref(&there)).await.unwrap();
    let row = "INSERT INTO TABLE.dead_letters (id, home, queue, generation, position, reason, redriven, fingerprint, \
        place, what, size_bytes, redelivered) VALUES ('there', 'broker', 'dead', 1, 0, 'x', 0, '', '', '', 1, NOREDELIVERY)";
    let no = if place.url().is_empty() { "0" } else { "false" };
    place.tamper(&row.replace("NOREDELIVERY", no)).await.unwrap();
    let trim = |edits| Trim::Kept { edits };
    assert_eq!(store.trim(&trim(HOUR), 10).await.unwrap(), 0);
    assert_eq!(store.trim(&trim(Duration::ZERO), 10).await.unwrap(), 1);
    assert!(store.kept_get("there", KeptKind::Edited).await.unwrap().is_some());
}

pub(super) async fn rescued_messages_go_after_their_time(place: &Place) {
    let store = &*place.store;
    let message = RescuedMessage {
        id: 0,
        queue: queue("q"),
        header_frame: vec![1],
        body: vec![2],
        reason: "content type is not UTF-8".to_owned(),
        at: Timestamp::EPOCH,
    };
    for _ in 0..3 {
        store.rescued_insert(&message).await.unwrap();
    }
    assert_eq!(store.trim(&Trim::Rescued { age: HOUR }, 10).await.unwrap(), 0);
    let all = Trim::Rescued { age: Duration::ZERO };
    assert_eq!(store.trim(&all, 2).await.unwrap(), 2);
    assert_eq!(store.trim(&all, 2).await.unwrap(), 1);
    assert_eq!(store.rescued_list(None, None, 10).await.unwrap(), []);
}

const UNUSED_TYPES: Trim = Trim::EventTypes { unused: HOUR };

async fn types(store: &dyn Store) -> Vec<String> {
    let types = store.event_types().await.unwrap();
    types.iter().map(|one| one.name.as_str().to_owned()).collect()
}

/// As if every type had been used last long ago.
async fn nobody_uses_types(place: &Place) {
    place.tamper("UPDATE TABLE.event_types SET used_at = 1").await.unwrap();
}

async fn claims(store: &dyn Store, event_type: &str) -> ClaimOutcome {
    let new = NewClaim {
        id: format!("claim-of-{event_type}"),
        event_type: kind(event_type),
        limit: 1,
        span: ClaimSpan { ttl: HOUR, grace: None },
    };
    store.claim_create(&new).await.unwrap()
}

pub(super) async fn an_event_type_goes_when_nothing_is_there_of_it_and_nobody_used_it(place: &Place) {
    let store = &*place.store;
    let all = ["claimed", "event", "history", "idle", "policy", "pushed", "subscribed"];
    pushed_all(store, all.map(|name| new_event(name, "a", "{}")).into()).await;
    assert!(matches!(put_type(store, "target", &[]).await, TypePut::Saved(_)));
    let pointing = [("_dead_letter_queue", Value::Text("target".to_owned()))];
    assert!(matches!(
        put_type(store, "pointing", &pointing).await,
        TypePut::Saved(_)
    ));
    place
        .tamper(
            "DELETE FROM TABLE.events WHERE type <> 'event'; \
             INSERT INTO TABLE.event_history (id, type, reference, revision, attempts, created_at, handled_at, \
             expires_at) VALUES (1, 'history', 'a', 1, 1, 1, 1, 1)",
        )
        .await
        .unwrap();
    let subscribed = NewSubscription {
        event_type: kind("subscribed"),
        url: url("one"),
        options: "{}".to_owned(),
    };
    store.subscription_put(&subscribed).await.unwrap().unwrap();
    let scope = PolicyScope {
        event_type: Some("policy".to_owned()),
        url: None,
    };
    set_policy(store, &scope, Some("{}")).await;
    assert_eq!(
        store.trim(&UNUSED_TYPES, 10).await.unwrap(),
        0,
        "they were used just now"
    );

    nobody_uses_types(place).await;
    // Somebody who asks for events uses the type, though there are none; and so does a process that pushes again.
    assert!(matches!(claims(store, "claimed").await, ClaimOutcome::Claimed { .. }));
    let another = place.another().await.unwrap();
    pushed_all(&*another, vec![new_event("pushed", "a", "{}")]).await;
    place
        .tamper("DELETE FROM TABLE.events WHERE type = 'pushed'")
        .await
        .unwrap();
    assert_eq!(store.trim(&UNUSED_TYPES, 10).await.unwrap(), 1);
    let left = [
        "claimed",
        "event",
        "history",
        "pointing",
        "policy",
        "pushed",
        "subscribed",
        "target",
    ];
    assert_eq!(types(store).await, left);
    assert_eq!(claims(store, "idle").await, ClaimOutcome::UnknownType);
    another.close().await;
}

pub(super) async fn a_subscription_that_ended_goes_when_nothing_waits_for_its_url(place: &Place) {
    let store = &*place.store;
    put_type(store, "t", &[]).await;
    for host in ["one", "two"] {
        let new = NewSubscription {
            event_type: kind("t"),
            url: url(host),
            options: "{}".to_owned(),
        };
        let made = store.subscription_put(&new).await.unwrap().unwrap();
        assert!(store.subscription_remove(&kind("t"), made.id).await.unwrap());
    }
    held_queue(store, "waits", "one").await;
    assert_eq!(store.trim(&UNUSED_TYPES, 10).await.unwrap(), 0, "they ended just now");
    place
        .tamper("UPDATE TABLE.ended_subscriptions SET ended_at = 1")
        .await
        .unwrap();
    assert_eq!(store.trim(&UNUSED_TYPES, 10).await.unwrap(), 1);
    let left = store.ended_subscriptions(&kind("t")).await.unwrap();
    let left: Vec<_> = left.into_iter().map(|one| one.url).collect();
    assert_eq!(left, [url("one")]);
}

pub(super) async fn an_event_type_that_went_comes_back_with_the_next_push(place: &Place) {
    let store = &*place.store;
    for name in ["a", "b", "c"] {
        pushed_all(store, vec![new_event(name, "a", "{}")]).await;
    }
    place.tamper("DELETE FROM TABLE.events").await.unwrap();
    nobody_uses_types(place).await;
    assert_eq!(store.trim(&UNUSED_TYPES, 2).await.unwrap(), 2, "a page");
    assert_eq!(store.trim(&UNUSED_TYPES, 2).await.unwrap(), 1);
    // In a process that does not remember it: one that does said less than two hours ago that it is used.
    let another = place.another().await.unwrap();
    pushed_all(&*another, vec![new_event("a", "a", "{}")]).await;
    assert_eq!(types(store).await, ["a"]);
    another.close().await;
}
