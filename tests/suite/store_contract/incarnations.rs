//! Starts of daemons, heartbeats and evidence of death.

use redrive::internals::domain::id::{ExecutionId, IncarnationId};
use redrive::internals::domain::naming::{Naming, QueueType};
use redrive::internals::domain::schema::SchemaRefusal;
use redrive::internals::store::{Beat, Begun, Evidence, LearnedQueue, NewIncarnation, StoreError};

use super::fixtures::{Place, daemon, learned, living, record, settings, taken, url};

pub(super) async fn a_living_incarnation_beats_and_is_listed_with_its_leases(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    taken(store, id, "q").await;
    assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Alive);
    assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Alive);
    let listed = store.incarnations().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].id, listed[0].counter, listed[0].leases), (id, 2, 1));
    assert!(listed[0].alive && listed[0].delivers);
    assert_eq!(listed[0].take_over.as_secs(), 60);
    assert_eq!(listed[0].deadline.map(|deadline| deadline.as_secs()), Some(15));
    assert_eq!(listed[0].process, daemon("daemon", None).process);
    assert!(listed[0].beat_at >= listed[0].started_at);
}

pub(super) async fn a_living_incarnation_is_listed_behind_any_number_that_ended(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    place.tamper(&ended(300)).await.unwrap();
    let newest = living(store).await;
    let alive = store.incarnations_living().await.unwrap();
    assert_eq!(alive.iter().map(|one| one.id).collect::<Vec<_>>(), [newest, id]);
    let listed = store.incarnations().await.unwrap();
    assert_eq!(listed.len(), 202, "a limit cuts only what is over");
    assert_eq!((listed[0].id, listed[201].id), (newest, id));
}

/// Incarnations that began and ended a moment ago.
fn ended(count: u32) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let row = format!("('command', 'host', 7, 1000, 60000000, FALSE, {now}, {now}, {now})");
    let rows = vec![row; count as usize].join(", ");
    format!(
        "INSERT INTO TABLE.incarnations (name, host, pid, version, take_over, alive, started_at, beat_at, ended_at) \
         VALUES {rows}"
    )
}

pub(super) async fn one_that_was_marked_dead_is_disowned_at_its_next_heartbeat(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    store.heartbeat(id).await.unwrap();
    assert!(store.incarnation_mark_dead(id, 1).await.unwrap());
    assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Disowned);
    assert!(
        !store.incarnation_mark_dead(id, 1).await.unwrap(),
        "only one call marks it"
    );
    assert_eq!(store.heartbeat(IncarnationId(999)).await.unwrap(), Beat::Disowned);
}

pub(super) async fn marking_dead_is_guarded_by_the_counter(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    store.heartbeat(id).await.unwrap();
    assert!(!store.incarnation_mark_dead(id, 0).await.unwrap());
    assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Alive);
}

pub(super) async fn evidence_says_no_more_than_it_proves(place: &Place) {
    let (of_the_living, of_the_dead) = if place.store.kind() == "sqlite" {
        (Evidence::Alive, Evidence::Dead)
    } else {
        (Evidence::Connected, Evidence::Missing)
    };
    let other = place.another().await.unwrap();
    let id = living(&*other).await;
    assert_eq!(place.store.evidence(id).await.unwrap(), of_the_living);
    assert_eq!(
        other.evidence(id).await.unwrap(),
        of_the_living,
        "its own process sees it too"
    );
    assert_eq!(
        place.store.evidence(id).await.unwrap(),
        of_the_living,
        "looking does not take it"
    );
    other.close().await;
    assert_eq!(place.store.evidence(id).await.unwrap(), of_the_dead);
    let unknown = place.store.evidence(IncarnationId(999)).await.unwrap();
    assert_eq!(unknown, Evidence::Missing);
}

pub(super) async fn an_orderly_end_frees_leases_and_evidence(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    taken(store, id, "q").await;
    store.incarnation_end(id).await.unwrap();
    assert_eq!(record(store, "q").await.owner, None);
    assert_eq!(store.evidence(id).await.unwrap(), Evidence::Missing);
    let listed = store.incarnations().await.unwrap();
    assert_eq!((listed.len(), listed[0].alive), (1, false));
    assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Disowned);
}

/// `found` are the settings that the store's daemons have.
fn refused(found: &str, living: Option<&str>, queues: u64) -> Begun {
    Begun::OtherSettings {
        found: settings(found).fingerprint(),
        living: living.map(|name| format!("{name} on host")),
        queues,
    }
}

pub(super) async fn other_settings_are_refused_while_somebody_alive_or_a_queue_has_the_old_ones(place: &Place) {
    let store = &*place.store;
    assert_eq!(store.fingerprint().await.unwrap(), None);
    let old = living(store).await;
    let begun = store.incarnation_begin(daemon("command", None)).await.unwrap();
    assert!(
        matches!(begun, Begun::Alive(_)),
        "one that delivers nothing has no settings"
    );
    let begun = store.incarnation_begin(daemon("new", Some("other"))).await.unwrap();
    assert_eq!(begun, refused("settings", Some("daemon"), 0), "nobody alive is ousted");
    assert_eq!(store.heartbeat(old).await.unwrap(), Beat::Alive);
    store.incarnation_end(old).await.unwrap();
    let begun = store.incarnation_begin(daemon("new", Some("other"))).await.unwrap();
    let Begun::Alive(new) = begun else {
        panic!("without queues other settings are taken over: {begun:?}")
    };
    assert_eq!(store.heartbeat(new).await.unwrap(), Beat::Alive);
    assert_eq!(
        store.fingerprint().await.unwrap(),
        Some(settings("other").fingerprint())
    );
    store.incarnation_end(new).await.unwrap();
    let again = NewIncarnation {
        replaces_settings: false,
        ..daemon("old", Some("settings"))
    };
    assert_eq!(
        store.incarnation_begin(again).await.unwrap(),
        refused("other", None, 0),
        "one that was disowned does not take them back"
    );
    store
        .queues_learn(&[learned("a", "one"), learned("b", "one")])
        .await
        .unwrap();
    let begun = store.incarnation_begin(daemon("old", Some("settings"))).await.unwrap();
    assert_eq!(begun, refused("other", None, 2));
}

pub(super) async fn settings_that_name_every_queue_come_back(place: &Place) {
    let store = &*place.store;
    let other = store.incarnation_begin(daemon("new", Some("other"))).await.unwrap();
    let Begun::Alive(other) = other else {
        panic!("it is the first: {other:?}")
    };
    let (execution, url) = (ExecutionId::parse("order-7").unwrap(), url("one"));
    let own = LearnedQueue {
        name: settings("settings").delivery_queue(&execution, &url),
        execution,
        url,
    };
    store.queues_learn(&[own]).await.unwrap();
    let begun = store.incarnation_begin(daemon("old", Some("settings"))).await.unwrap();
    assert_eq!(begun, refused("other", Some("new"), 0), "nobody alive is ousted");
    store.incarnation_end(other).await.unwrap();
    let quorum = NewIncarnation {
        naming: Some(Naming {
            queue_type: QueueType::Quorum,
            ..settings("other")
        }),
        ..daemon("new", None)
    };
    let begun = store.incarnation_begin(quorum).await.unwrap();
    assert_eq!(begun, refused("other", None, 1), "another type names them alike");
    let begun = store.incarnation_begin(daemon("old", Some("settings"))).await.unwrap();
    assert!(matches!(begun, Begun::Alive(_)), "the queue is its own: {begun:?}");
}

pub(super) async fn a_store_that_demands_a_newer_program_refuses_an_older_one(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    place
        .tamper("UPDATE TABLE.settings SET minimum_version = 1001")
        .await
        .unwrap();
    let begun = store.incarnation_begin(daemon("old", Some("settings"))).await.unwrap();
    assert_eq!(begun, Begun::TooOld { minimum: 1_001 });
    assert_eq!(store.heartbeat(id).await.unwrap(), Beat::Disowned);
}

pub(super) async fn a_store_of_a_newer_schema_is_refused_with_both_versions(place: &Place) {
    place
        .tamper("UPDATE TABLE.schema_changes SET number = 999 WHERE number = (SELECT max(number) FROM TABLE.schema_changes WHERE number < 999)")
        .await
        .unwrap();
    let refused = place.another().await;
    let Err(StoreError::Schema(SchemaRefusal::Newer { found: 999, known })) = refused else {
        panic!("it should be refused: {refused:?}")
    };
    assert!(known < 999);
}

pub(super) async fn dead_incarnations_are_forgotten_after_a_day_unless_they_own_queues(place: &Place) {
    let store = &*place.store;
    let ended = living(store).await;
    let owner = living(store).await;
    taken(store, owner, "q").await;
    for id in [ended, owner] {
        assert!(store.incarnation_mark_dead(id, 0).await.unwrap());
    }
    place
        .tamper("UPDATE TABLE.incarnations SET ended_at = 5")
        .await
        .unwrap();
    let next = living(store).await;
    let lease = taken(store, next, "q").await;
    assert_eq!(
        lease.taken_from.as_deref(),
        Some("daemon"),
        "the owner was not forgotten"
    );
    assert_eq!(store.incarnations().await.unwrap().len(), 1, "the list shows a day");
}

pub(super) async fn a_store_has_one_identity_whoever_asks_first(place: &Place) {
    let store = &*place.store;
    let (one, other) = tokio::join!(store.identity(), store.identity());
    let identity = one.unwrap();
    assert_eq!(identity, other.unwrap());
    let again = place.another().await.unwrap();
    assert_eq!(again.identity().await.unwrap(), identity);
    again.close().await;
}
