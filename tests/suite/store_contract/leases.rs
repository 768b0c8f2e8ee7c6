//! Who may work on a queue.

use std::time::Duration;

use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::queue::Closing;
use redrive::internals::store::{HeldLease, LeaseOutcome, NewPause, Purpose, QueueMark};

use super::fixtures::{
    HOUR, Place, failure, held_queue, learned, living, queue, record, recorded, stale, take, taken, url,
};

pub(super) async fn a_free_lease_is_taken_with_its_row_and_one_epoch_for_the_call(place: &Place) {
    let store = &*place.store;
    store.queues_learn(&[learned("known", "one")]).await.unwrap();
    let id = living(store).await;
    let asked = [queue("new"), queue("known")];
    let outcomes = store.leases_take(id, Purpose::Deliver, &asked).await.unwrap();
    let [LeaseOutcome::Taken(new), LeaseOutcome::Taken(known)] = &outcomes[..] else {
        panic!("both are free: {outcomes:?}")
    };
    assert_eq!(new.epoch, known.epoch);
    assert_eq!(new.record.epoch, new.epoch);
    assert_eq!(
        (new.record.owner, &new.record.url, &new.endpoint),
        (Some(id), &None, &None)
    );
    assert_eq!(known.record.url, Some(url("one")));
    assert_eq!(known.endpoint.as_ref().map(|endpoint| &endpoint.url), Some(&url("one")));
    assert_eq!(known.taken_from, None);
    assert_eq!(record(store, "known").await, known.record);
}

pub(super) async fn a_lease_of_the_living_is_held_and_of_the_dead_is_taken_with_their_name(place: &Place) {
    let store = &*place.store;
    let first = living(store).await;
    let second = living(store).await;
    let lease = taken(store, first, "q").await;
    assert_eq!(
        take(store, second, Purpose::Manage, "q").await,
        LeaseOutcome::Held(first)
    );
    assert_eq!(
        take(store, first, Purpose::Deliver, "q").await,
        LeaseOutcome::Held(first)
    );
    assert!(store.incarnation_mark_dead(first, 0).await.unwrap());
    let taken_over = taken(store, second, "q").await;
    assert_eq!(taken_over.taken_from.as_deref(), Some("daemon"));
    assert!(taken_over.epoch > lease.epoch);
    assert!(
        !store.lease_free(&queue("q"), lease.epoch).await.unwrap(),
        "the dead frees nothing"
    );
}

pub(super) async fn epochs_never_go_back_and_begin_at_the_clock(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let clock = store.now().await.unwrap().micros() / 1000;
    let first = taken(store, id, "a").await.epoch;
    assert!(first.0 >= clock, "{first} is the clock in milliseconds at least");
    let far = clock + 1_000_000_000;
    place
        .tamper(&format!("UPDATE TABLE.numbers SET value = {far} WHERE name = 'epoch'"))
        .await
        .unwrap();
    assert_eq!(taken(store, id, "b").await.epoch.0, far + 1);
    place
        .tamper("UPDATE TABLE.numbers SET value = 5 WHERE name = 'epoch'")
        .await
        .unwrap();
    assert!(
        taken(store, id, "c").await.epoch >= first,
        "a restored store does not go back"
    );
}

pub(super) async fn of_two_concurrent_takers_exactly_one_gets_each_queue(place: &Place) {
    let other = place.another().await.unwrap();
    let takers = [
        (&*place.store, living(&*place.store).await),
        (&*other, living(&*other).await),
    ];
    for round in 0..20 {
        let names: Vec<QueueName> = (0..10).map(|number| queue(&format!("q{round}.{number}"))).collect();
        let backwards: Vec<QueueName> = names.iter().rev().cloned().collect();
        let (one, two) = tokio::join!(
            takers[0].0.leases_take(takers[0].1, Purpose::Deliver, &names),
            takers[1].0.leases_take(takers[1].1, Purpose::Deliver, &backwards),
        );
        let (one, mut two) = (one.unwrap(), two.unwrap());
        two.reverse();
        for (one, two) in one.iter().zip(&two) {
            let taken = [one, two]
                .into_iter()
                .filter(|outcome| matches!(outcome, LeaseOutcome::Taken(_)));
            assert_eq!(taken.count(), 1, "{one:?} {two:?}");
        }
    }
    other.close().await;
}

pub(super) async fn delivery_respects_pause_and_wish_and_managing_does_not(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    store
        .queues_learn(&[learned("paused", "one"), learned("wanted", "one")])
        .await
        .unwrap();
    let pause = NewPause {
        by: "ann".to_owned(),
        reason: Some("deploying".to_owned()),
    };
    let paused = store.queue_pause(&queue("paused"), Some(pause)).await.unwrap().unwrap();
    assert_eq!(paused.pause.as_ref().map(|pause| pause.by.as_str()), Some("ann"));
    let purge = living(store).await;
    store.queue_want(&queue("wanted"), purge).await.unwrap();
    for name in ["paused", "wanted"] {
        let LeaseOutcome::Reserved(found) = take(store, id, Purpose::Deliver, name).await else {
            panic!("{name} is reserved")
        };
        assert_eq!(found.owner, None);
        let LeaseOutcome::Taken(lease) = take(store, purge, Purpose::Manage, name).await else {
            panic!("{name} can be managed")
        };
        assert_eq!(lease.record.wanted_by, None);
        assert!(store.lease_free(&queue(name), lease.epoch).await.unwrap());
    }
    assert!(
        record(store, "paused").await.pause.is_some(),
        "managing does not resume"
    );
    store.queue_pause(&queue("paused"), None).await.unwrap();
    taken(store, id, "paused").await;
    taken(store, id, "wanted").await;
}

pub(super) async fn a_closing_that_was_left_is_ended_again_when_taken(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    for (mark, expected) in [
        (Closing::Open, Closing::Open),
        (Closing::Closing, Closing::Ended),
        (Closing::Ended, Closing::Ended),
    ] {
        let lease = taken(store, id, "q").await;
        assert!(
            store
                .queue_mark(&queue("q"), lease.epoch, QueueMark::Closing(mark))
                .await
                .unwrap()
        );
        assert!(store.lease_free(&queue("q"), lease.epoch).await.unwrap());
        let lease = taken(store, id, "q").await;
        assert_eq!(lease.record.closing, expected);
        store.lease_free(&queue("q"), lease.epoch).await.unwrap();
    }
}

pub(super) async fn a_dead_incarnation_gets_no_lease(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    store.incarnation_mark_dead(id, 0).await.unwrap();
    let asked = [queue("a"), queue("b")];
    let outcomes = store.leases_take(id, Purpose::Deliver, &asked).await.unwrap();
    assert_eq!(outcomes, [LeaseOutcome::Disowned, LeaseOutcome::Disowned]);
    assert_eq!(store.queue_get(&queue("a")).await.unwrap(), None, "nothing was made");
}

pub(super) async fn a_lease_is_freed_only_under_its_epoch(place: &Place) {
    let store = &*place.store;
    let lease = held_queue(store, "q", "one").await;
    assert!(!store.lease_free(&queue("q"), stale(lease.epoch)).await.unwrap());
    assert_eq!(record(store, "q").await.owner, lease.record.owner);
    assert!(store.lease_free(&queue("q"), lease.epoch).await.unwrap());
    assert!(
        !store.lease_free(&queue("q"), lease.epoch).await.unwrap(),
        "it is free already"
    );
}

pub(super) async fn the_holder_sees_the_wishes_of_others(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let (a, b) = (taken(store, id, "a").await, taken(store, id, "b").await);
    let pause = NewPause {
        by: "ann".to_owned(),
        reason: None,
    };
    store.queue_pause(&queue("a"), Some(pause)).await.unwrap();
    let (run, ended) = (living(store).await, living(store).await);
    store.queue_want(&queue("a"), ended).await.unwrap();
    store.queue_want(&queue("b"), run).await.unwrap();
    assert!(store.incarnation_mark_dead(ended, 0).await.unwrap());
    let held = |lease: &redrive::internals::store::Lease, paused, wanted_by| HeldLease {
        queue: lease.record.name.clone(),
        epoch: lease.epoch,
        paused,
        wanted_by,
    };
    let expected = [held(&a, true, None), held(&b, false, Some(run))];
    assert_eq!(store.leases_held(id).await.unwrap(), expected);
}

pub(super) async fn a_wish_counts_while_its_incarnation_lives(place: &Place) {
    let store = &*place.store;
    let daemon = living(store).await;
    taken(store, daemon, "killed").await;
    taken(store, daemon, "ended").await;
    for (name, is_killed) in [("killed", true), ("ended", false)] {
        let command = living(store).await;
        let lease = record(store, name).await;
        store.queue_want(&queue(name), command).await.unwrap();
        assert!(store.lease_free(&queue(name), lease.epoch).await.unwrap());
        assert!(matches!(
            take(store, daemon, Purpose::Deliver, name).await,
            LeaseOutcome::Reserved(_)
        ));
        if is_killed {
            assert!(store.incarnation_mark_dead(command, 0).await.unwrap());
            assert_eq!(
                record(store, name).await.wanted_by,
                Some(command),
                "people see whose it was"
            );
        } else {
            store.incarnation_end(command).await.unwrap();
            assert_eq!(record(store, name).await.wanted_by, None);
        }
        let lease = taken(store, daemon, name).await;
        assert_eq!(lease.record.wanted_by, None, "the next lease forgets it");
    }
}

pub(super) async fn a_wish_waits_for_that_of_another_one_who_lives(place: &Place) {
    let store = &*place.store;
    let [first, second] = [living(store).await, living(store).await];
    taken(store, living(store).await, "q").await;
    let q = queue("q");
    store.queue_want(&q, first).await.unwrap();
    store.queue_want(&q, second).await.unwrap();
    assert_eq!(record(store, "q").await.wanted_by, Some(first));
    store.queue_unwant(&q, second).await.unwrap();
    assert_eq!(record(store, "q").await.wanted_by, Some(first), "it is not its own");
    store.queue_unwant(&q, first).await.unwrap();
    assert_eq!(record(store, "q").await.wanted_by, None);
    store.queue_want(&q, first).await.unwrap();
    assert!(store.incarnation_mark_dead(first, 0).await.unwrap());
    store.queue_want(&q, second).await.unwrap();
    assert_eq!(record(store, "q").await.wanted_by, Some(second));
}

pub(super) async fn who_manages_a_queue_takes_its_lease_anew_and_who_delivers_does_not(place: &Place) {
    let store = &*place.store;
    let id = living(store).await;
    let before = taken(store, id, "q").await;
    assert_eq!(take(store, id, Purpose::Deliver, "q").await, LeaseOutcome::Held(id));
    let LeaseOutcome::Taken(anew) = take(store, id, Purpose::Manage, "q").await else {
        panic!("an answer that was lost is asked for again")
    };
    assert!(anew.epoch > before.epoch);
    assert_eq!(anew.taken_from, None, "nobody died");
    assert!(!store.lease_free(&queue("q"), before.epoch).await.unwrap());
    assert!(store.lease_free(&queue("q"), anew.epoch).await.unwrap());
}

pub(super) async fn a_hundred_leases_are_taken_in_one_call_and_answered_in_order(place: &Place) {
    let store = &*place.store;
    let first = living(store).await;
    taken(store, first, "q50").await;
    let second = living(store).await;
    let names: Vec<QueueName> = (0..100).rev().map(|number| queue(&format!("q{number}"))).collect();
    let outcomes = store.leases_take(second, Purpose::Deliver, &names).await.unwrap();
    assert_eq!(outcomes.len(), 100);
    for (name, outcome) in names.iter().zip(&outcomes) {
        match outcome {
            LeaseOutcome::Taken(lease) => assert_eq!(&lease.record.name, name),
            other => assert_eq!((name.as_str(), other), ("q50", &LeaseOutcome::Held(first))),
        }
    }
    assert_eq!(store.leases_held(second).await.unwrap().len(), 99);
}

/// By the clock that wrote the time: nobody compares it with his own.
pub(super) async fn a_lease_says_how_long_its_head_still_waits(place: &Place) {
    let store = &*place.store;
    for (name, delay) in [("later", Some(HOUR)), ("now", Some(Duration::ZERO)), ("never", None)] {
        let lease = held_queue(store, name, "one").await;
        recorded(store, &failure(&lease, "one", "m", delay)).await;
        assert!(store.lease_free(&queue(name), lease.epoch).await.unwrap());
        let again = taken(store, living(store).await, name).await;
        let waits = again.due_in.unwrap_or_default();
        let expected = delay.unwrap_or_default();
        assert!(
            waits <= expected && expected.saturating_sub(waits) < Duration::from_mins(1),
            "{name}: {waits:?}"
        );
        assert_eq!(again.due_in.is_some(), name == "later");
    }
}
