//! Saved messages, and what the janitor remembers.

use redrive::internals::domain::id::IncarnationId;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    LifetimeQuery, LifetimeRecord, NewSave, SaveBegun, SaveCause, SaveQuery, SaveState, SaveTaken, SaveWindow,
    SavedMessage, Store, Trim,
};

use super::fixtures::{HOUR, Place, living, queue};

fn new(id: &str, name: &str, owner: IncarnationId) -> NewSave {
    NewSave {
        id: id.to_owned(),
        queue: queue(name),
        arguments: "{\"x-expires\":\"60000\"}".to_owned(),
        cause: SaveCause::Asked,
        actor: "ann".to_owned(),
        reason: Some("why".to_owned()),
        keep_for: HOUR,
        owner,
    }
}

fn window(number: u64, places: std::ops::Range<u64>) -> SaveWindow {
    let message = |place: u64| SavedMessage {
        place,
        window: number,
        message: vec![0, u8::try_from(place).unwrap(), 255],
        bytes: 3,
        exchange: "an exchange".to_owned(),
        routing_key: "a key".to_owned(),
    };
    SaveWindow {
        number,
        messages: places.map(message).collect(),
    }
}

pub(super) async fn what_a_dead_one_left_unbound_is_taken_over(place: &Place) {
    let store = &*place.store;
    let (dead, me) = (living(store).await, living(store).await);
    for name in ["a", "b", "c"] {
        store.unbinding_note(&queue(name), dead).await.unwrap();
    }
    store.unbinding_forget(&queue("c")).await.unwrap();
    assert_eq!(
        store.unbinding_take(me, 10).await.unwrap(),
        [],
        "who unbound them lives"
    );
    assert!(store.unbinding_holds(&queue("a"), dead).await.unwrap());
    assert!(!store.unbinding_holds(&queue("c"), dead).await.unwrap());
    store.incarnation_end(dead).await.unwrap();
    assert_eq!(store.unbinding_take(me, 1).await.unwrap(), [queue("a")]);
    assert!(!store.unbinding_holds(&queue("a"), dead).await.unwrap());
    let mut left = store.unbinding_take(me, 10).await.unwrap();
    left.sort_unstable();
    assert_eq!(
        left,
        [queue("a"), queue("b")],
        "what is mine and not mended comes again"
    );
    for name in left {
        store.unbinding_forget(&name).await.unwrap();
    }
    assert_eq!(store.unbinding_take(me, 10).await.unwrap(), []);
}

async fn states(store: &dyn Store) -> Vec<(String, SaveState, u64, u64)> {
    let query = SaveQuery {
        limit: 10,
        ..SaveQuery::default()
    };
    let saves = store.saves(&query).await.unwrap();
    saves
        .into_iter()
        .map(|one| (one.id, one.state, one.messages, one.left))
        .collect()
}

pub(super) async fn messages_are_kept_in_their_order_until_they_are_put_back(place: &Place) {
    let store = &*place.store;
    let me = living(store).await;
    assert_eq!(store.save_begin(&new("a", "q", me)).await.unwrap(), SaveBegun::Begun);
    for (number, places) in [(0, 0..3), (1, 3..5), (2, 5..6)] {
        assert!(store.save_keep("a", me, &window(number, places)).await.unwrap());
    }
    let last: Vec<u64> = store
        .saved_last("a")
        .await
        .unwrap()
        .iter()
        .map(|one| one.place)
        .collect();
    assert_eq!(last, [3, 4, 5], "the last two windows");
    assert!(store.save_end("a", me).await.unwrap());
    let kept = store.saved_messages("a", Some(1), 3).await.unwrap();
    assert_eq!(
        kept,
        [&window(0, 2..3).messages[..], &window(1, 3..5).messages[..]].concat()
    );
    assert!(matches!(store.save_take("a", me).await.unwrap(), SaveTaken::Taken(_)));
    assert!(store.saved_drop("a", me, &[0, 1, 2, 3]).await.unwrap());
    assert_eq!(states(store).await, [("a".to_owned(), SaveState::Kept, 6, 2)]);
    assert!(store.saved_drop("a", me, &[4, 5]).await.unwrap());
    store.save_free("a", me).await.unwrap();
    assert_eq!(states(store).await, [("a".to_owned(), SaveState::Restored, 6, 0)]);
    let record = store.save_get("a").await.unwrap().unwrap();
    assert_eq!((record.bytes, record.reason.as_deref()), (18, Some("why")));
    assert_eq!(record.until.since(record.at), HOUR);
    assert_eq!(store.trim(&Trim::Saves, 10).await.unwrap(), 0);
}

pub(super) async fn one_takes_the_messages_of_a_queue_at_a_time_and_the_dead_are_told(place: &Place) {
    let store = &*place.store;
    let (dead, me) = (living(store).await, living(store).await);
    assert_eq!(store.save_begin(&new("a", "q", dead)).await.unwrap(), SaveBegun::Begun);
    assert!(store.save_keep("a", dead, &window(0, 0..1)).await.unwrap());
    assert_eq!(store.save_begin(&new("b", "q", me)).await.unwrap(), SaveBegun::Busy);
    assert_eq!(
        store.save_begin(&new("c", "other", me)).await.unwrap(),
        SaveBegun::Begun
    );
    assert_eq!(store.save_take("a", me).await.unwrap(), SaveTaken::Busy);
    assert_eq!(store.saves_left(10).await.unwrap(), []);
    store.incarnation_end(dead).await.unwrap();
    assert_eq!(
        store.save_begin(&new("b", "q", me)).await.unwrap(),
        SaveBegun::Left("a".to_owned())
    );
    assert_eq!(store.saves_left(10).await.unwrap().len(), 1);
    assert!(!store.save_end("a", me).await.unwrap(), "it has to be taken first");
    assert!(matches!(store.save_take("a", me).await.unwrap(), SaveTaken::Taken(_)));
    assert!(
        !store.save_keep("a", dead, &window(2, 2..3)).await.unwrap(),
        "it is another's now"
    );
    assert!(!store.saved_drop("a", dead, &[0]).await.unwrap());
    assert!(!store.save_end("a", dead).await.unwrap());
    assert!(store.save_end("a", me).await.unwrap());
    assert_eq!(store.save_begin(&new("b", "q", me)).await.unwrap(), SaveBegun::Begun);
    assert!(store.save_end("b", me).await.unwrap());
    assert_eq!(
        store.save_get("b").await.unwrap(),
        None,
        "a save of nothing is forgotten"
    );
    assert_eq!(store.save_take("b", me).await.unwrap(), SaveTaken::Missing);
}

fn lifetime(name: &str, expires_s: Option<i64>, messages: Option<u64>) -> LifetimeRecord {
    LifetimeRecord {
        name: queue(name),
        quorum: true,
        lifetime_ms: Some(60_000),
        argument_ms: None,
        by_operator: true,
        consumers: Some(0),
        messages,
        bytes: messages.map(|count| count * 10),
        unused_since: Some(Timestamp::from_seconds(5)),
        expires_at: expires_s.map(Timestamp::from_seconds),
        seen_at: Timestamp::from_seconds(7),
    }
}

pub(super) async fn what_a_sweep_does_not_see_is_gone_and_what_is_lost_first_comes_first(place: &Place) {
    let store = &*place.store;
    let (me, other) = (living(store).await, living(store).await);
    assert_eq!(store.lifetimes_sweep().await.unwrap(), None);
    let sweep = store.janitor_take(me).await.unwrap().unwrap();
    assert_eq!(store.janitor_take(other).await.unwrap(), None, "there is one janitor");
    let soon = lifetime("soon", Some(10), Some(3));
    let seen = [
        lifetime("used", None, Some(9)),
        lifetime("empty", Some(5), Some(0)),
        lifetime("later", Some(20), None),
        soon.clone(),
    ];
    store.lifetimes_note(sweep, &seen).await.unwrap();
    assert_eq!(store.lifetimes_swept(sweep).await.unwrap(), []);
    let all = LifetimeQuery { offset: 0, limit: 10 };
    let names = async || {
        let known = store.lifetimes(&all).await.unwrap();
        known
            .into_iter()
            .map(|one| one.name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["soon", "later", "empty", "used"]);
    assert_eq!(store.lifetime_get(&queue("soon")).await.unwrap(), Some(soon.clone()));
    let swept = store.lifetimes_sweep().await.unwrap().unwrap();
    assert_eq!((swept.queues, swept.soon, swept.soon_messages), (4, 1, 3));
    let next = store.janitor_take(me).await.unwrap().unwrap();
    assert!(next > sweep);
    let mut again = seen[1].clone();
    again.messages = Some(4);
    store.lifetimes_note(next, &[again]).await.unwrap();
    assert_eq!(
        store.lifetimes_swept(sweep).await.unwrap(),
        [],
        "an old sweep forgets nothing"
    );
    assert_eq!(store.lifetime_forget(&queue("soon")).await.unwrap(), Some(soon));
    assert_eq!(store.lifetime_forget(&queue("soon")).await.unwrap(), None);
    let mut gone = store.lifetimes_swept(next).await.unwrap();
    gone.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(
        gone.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["later", "used"]
    );
    assert_eq!(names().await, ["empty"]);
    store.incarnation_end(me).await.unwrap();
    assert!(
        store.janitor_take(other).await.unwrap().is_some(),
        "the dead are no janitors"
    );
}
