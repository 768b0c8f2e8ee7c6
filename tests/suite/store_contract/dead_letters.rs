//! The index of dead letters.

use std::time::Duration;

use redrive::internals::domain::dead_letter::{DeadLetter, DeadLetterId, Found, STORE, likeness, read};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::{HeaderValue, Message, encode};
use redrive::internals::domain::time::Timestamp;
use redrive::internals::store::{
    DeadClaim, DeadGroupQuery, DeadLooked, DeadOrigin, DeadQuery, DeadRow, DeadSort, DeadSpan, DeadText,
    NewStoredLetter,
};

use super::fixtures::{HOUR, Place};

const HOLD: Duration = Duration::from_mins(1);
const WHOLE: DeadLooked = DeadLooked {
    messages: 0,
    whole: true,
    problem: None,
};

fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

/// A refused message with this number, which failed last at this second.
fn message(number: u32, status: i64, at: i64) -> Message {
    Message {
        message_id: Some(format!("m{number}\0")),
        headers: vec![
            ("x-redrive-url".into(), HeaderValue::text("https://a.example/hook")),
            ("x-redrive-dead-decision".into(), HeaderValue::text(&number.to_string())),
            ("x-redrive-dead-reason".into(), HeaderValue::text("refused")),
            ("x-redrive-dead-status".into(), HeaderValue::Integer(status)),
            ("x-redrive-dead-last-failed-at".into(), HeaderValue::Integer(at)),
        ],
        ..Message::default()
    }
}

fn row(name: &str, number: u32, status: i64, at: i64) -> DeadRow {
    let (queue, message) = (queue(name), message(number, status, at));
    let found = Found {
        queue: &queue,
        position: number.into(),
        redelivered: true,
        message_ttl_ms: None,
        queue_expires_at: None,
    };
    DeadRow {
        letter: read(&message, &likeness(name, &message), 1, &found),
        copy: None,
    }
}

async fn claimed(place: &Place, name: &str) -> i64 {
    match place.store.dead_claim(&queue(name), "me", Some(3), HOLD).await.unwrap() {
        DeadClaim::Claimed(generation) => generation,
        DeadClaim::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// A whole look that sees these rows.
async fn looked(place: &Place, name: &str, rows: &[DeadRow]) {
    let generation = claimed(place, name).await;
    assert!(
        place
            .store
            .dead_write(&queue(name), generation, rows, HOLD)
            .await
            .unwrap()
    );
    let looked = DeadLooked {
        messages: rows.len() as u64,
        ..WHOLE
    };
    assert!(
        place
            .store
            .dead_finish(&queue(name), generation, &looked)
            .await
            .unwrap()
    );
}

async fn ids(place: &Place, query: &DeadQuery) -> Vec<DeadLetterId> {
    let letters = place.store.dead_letters(query).await.unwrap();
    letters.into_iter().map(|letter| letter.id).collect()
}

fn all() -> DeadQuery {
    DeadQuery {
        limit: 100,
        ..DeadQuery::default()
    }
}

pub(super) async fn a_letter_that_no_queue_takes_is_kept_once_and_listed_without_its_body(place: &Place) {
    let store = &place.store;
    let letter = |number: u32, body: &'static [u8]| {
        let message = message(number, 404, 1);
        NewStoredLetter {
            id: DeadLetterId::new(&likeness(STORE, &message), 1),
            message: encode(&message).unwrap().into(),
            body: body.into(),
        }
    };
    let (first, second) = (letter(1, b"first"), letter(2, b"the second"));
    assert!(store.stored_letter_put(&first).await.unwrap());
    assert!(store.stored_letter_put(&second).await.unwrap());
    assert!(
        !store.stored_letter_put(&letter(1, b"other")).await.unwrap(),
        "it stays as it is"
    );
    assert_eq!(store.stored_letters_count().await.unwrap(), 2);
    let all = store.stored_letters(None, 10).await.unwrap();
    let ids: Vec<&DeadLetterId> = all.iter().map(|one| &one.id).collect();
    assert_eq!(ids, [&first.id, &second.id]);
    assert_eq!((&all[1].message, all[1].bytes), (&second.message, 10));
    assert_eq!(
        store.stored_letters(Some(all[0].place), 10).await.unwrap(),
        [all[1].clone()]
    );
    assert_eq!(store.stored_letters(None, 1).await.unwrap(), [all[0].clone()]);
    assert_eq!(store.stored_letter(&first.id).await.unwrap(), Some(all[0].clone()));
    let body = store.stored_letter_body(all[0].place).await.unwrap();
    assert_eq!(body.as_deref(), Some(&b"first"[..]));
    assert_eq!(store.stored_letters_drop(&[all[0].place, 99]).await.unwrap(), 1);
    assert_eq!(store.stored_letter(&first.id).await.unwrap(), None);
    assert_eq!(store.stored_letter_body(all[0].place).await.unwrap(), None);
    // Its row in the index goes with the next whole look, like that of any queue.
    let row = |number: u32| row(STORE, number, 404, 1);
    looked(place, STORE, &[row(1), row(2)]).await;
    looked(place, STORE, &[row(2)]).await;
    assert_eq!(ids_of(place, STORE).await, [row(2).letter.id]);
    assert!(store.dead_queue_forget(&queue(STORE)).await.unwrap());
    assert_eq!(ids_of(place, STORE).await, []);
}

async fn ids_of(place: &Place, name: &str) -> Vec<DeadLetterId> {
    let query = DeadQuery {
        queue: Some(queue(name)),
        ..all()
    };
    ids(place, &query).await
}

pub(super) async fn one_look_at_a_time_and_a_silent_one_is_taken_over(place: &Place) {
    let first = claimed(place, "dlq").await;
    let DeadClaim::Busy(busy) = place.store.dead_claim(&queue("dlq"), "you", None, HOLD).await.unwrap() else {
        panic!("two have it");
    };
    assert_eq!((busy.claimed_by.as_deref(), busy.expected), (Some("me"), Some(3)));
    // Its holder stays silent: the hold is over at once.
    assert!(
        place
            .store
            .dead_write(&queue("dlq"), first, &[], Duration::ZERO)
            .await
            .unwrap()
    );
    let second = claimed(place, "dlq").await;
    assert!(second > first);
    let late = place
        .store
        .dead_write(&queue("dlq"), first, &[row("dlq", 1, 404, 5)], HOLD)
        .await;
    assert!(!late.unwrap(), "the old look is fenced");
    assert!(!place.store.dead_finish(&queue("dlq"), first, &WHOLE).await.unwrap());
    let third = claimed(place, "dlq").await;
    let held = place.store.dead_write(&queue("dlq"), second, &[], HOLD).await;
    assert!(!held.unwrap(), "whoever begins anew has it anew");
    assert!(place.store.dead_free(&queue("dlq"), third).await.unwrap());
    claimed(place, "dlq").await;
}

pub(super) async fn what_a_whole_look_does_not_see_is_removed(place: &Place) {
    let rows: Vec<DeadRow> = (1..=3).map(|n| row("dlq", n, 404, n.into())).collect();
    looked(place, "dlq", &rows).await;
    looked(place, "other", &[row("other", 9, 404, 9)]).await;
    assert_eq!(ids(place, &all()).await.len(), 4);
    looked(place, "dlq", &rows[1..]).await;
    let left = ids(place, &all()).await;
    assert_eq!(left.len(), 3);
    assert!(!left.contains(&rows[0].letter.id));
    let generation = claimed(place, "dlq").await;
    let partial = DeadLooked {
        messages: 0,
        whole: false,
        problem: Some("poison\0".to_owned()),
    };
    place
        .store
        .dead_finish(&queue("dlq"), generation, &partial)
        .await
        .unwrap();
    assert_eq!(
        ids(place, &all()).await.len(),
        3,
        "a look that broke off removes nothing"
    );
    let queues = place.store.dead_queues().await.unwrap();
    let dlq = queues.iter().find(|one| one.name == queue("dlq")).unwrap();
    assert_eq!((dlq.looks, dlq.messages, dlq.claimed_by.as_deref()), (3, Some(2), None));
    assert!(dlq.problem.as_deref().unwrap().starts_with("poison"));
}

pub(super) async fn a_row_is_read_as_it_was_written(place: &Place) {
    let mut kept = row("dlq", 1, 404, 5);
    kept.copy = encode(&message(1, 404, 5));
    looked(place, "dlq", std::slice::from_ref(&kept)).await;
    let found = place.store.dead_letter(&kept.letter.id).await.unwrap().unwrap();
    let readable = |letter: &DeadLetter| DeadLetter {
        message_id: None,
        ..letter.clone()
    };
    assert_eq!(readable(&found.letter), readable(&kept.letter));
    assert!(found.letter.message_id.unwrap().starts_with("m1"));
    assert_eq!(found.copy, kept.copy);
    // A later look without a copy keeps the one there is.
    looked(place, "dlq", &[row("dlq", 1, 404, 5)]).await;
    assert_eq!(
        place.store.dead_letter(&kept.letter.id).await.unwrap().unwrap().copy,
        kept.copy
    );
}

pub(super) async fn copies_in_one_batch_are_one_row(place: &Place) {
    looked(place, "dlq", &[row("dlq", 1, 404, 5), row("dlq", 1, 404, 5)]).await;
    assert_eq!(ids(place, &all()).await.len(), 1);
}

pub(super) async fn pages_follow_the_order_without_gaps(place: &Place) {
    let rows: Vec<DeadRow> = (1..=7).map(|n| row("dlq", n, 404, i64::from(n / 2))).collect();
    looked(place, "dlq", &rows).await;
    for sort in [
        DeadSort::LastFailed,
        DeadSort::FirstFailed,
        DeadSort::Attempts,
        DeadSort::Redriven,
        DeadSort::Size,
        DeadSort::Position,
    ] {
        let whole = place.store.dead_letters(&DeadQuery { sort, ..all() }).await.unwrap();
        assert!(whole.is_sorted_by_key(|letter| (std::cmp::Reverse(sort.value(letter)), letter.id.clone())));
        let mut paged = Vec::new();
        let mut query = DeadQuery {
            sort,
            limit: 2,
            ..DeadQuery::default()
        };
        loop {
            let page = place.store.dead_letters(&query).await.unwrap();
            let Some(last) = page.last() else { break };
            query.after = Some((sort.value(last), last.id.clone()));
            paged.extend(page);
        }
        assert_eq!(paged, whole, "{sort:?}");
    }
}

pub(super) async fn letters_are_found_by_queue_and_group(place: &Place) {
    looked(place, "dlq", &[row("dlq", 1, 404, 5), row("dlq", 2, 500, 6)]).await;
    looked(place, "other", &[row("other", 3, 404, 7)]).await;
    let group = row("dlq", 1, 404, 5).letter.fingerprint;
    let of = |queue: Option<QueueName>, fingerprint: Option<String>| DeadQuery {
        queue,
        fingerprint,
        ..all()
    };
    assert_eq!(ids(place, &of(Some(queue("dlq")), None)).await.len(), 2);
    assert_eq!(ids(place, &of(None, Some(group.clone()))).await.len(), 2);
    assert_eq!(ids(place, &of(Some(queue("dlq")), Some(group))).await.len(), 1);
}

pub(super) async fn letters_are_found_by_their_exact_texts(place: &Place) {
    let rows = [row("dlq", 1, 404, 5), row("dlq", 2, 500, 6), row("dlq", 3, 500, 7)];
    looked(place, "dlq", &rows).await;
    let of = |texts: &[(DeadText, &str)]| DeadQuery {
        exactly: texts.iter().map(|(text, is)| (*text, (*is).to_owned())).collect(),
        ..all()
    };
    let (second, third) = (rows[1].letter.id.clone(), rows[2].letter.id.clone());
    let newest_first = [third.clone(), second.clone()];
    assert_eq!(ids(place, &of(&[(DeadText::What, "status 500")])).await, newest_first);
    let url = (DeadText::Url, "https://a.example/hook");
    assert_eq!(ids(place, &of(&[url])).await.len(), 3);
    let both = [url, (DeadText::MessageId, "m2\0")];
    assert_eq!(ids(place, &of(&both)).await, std::slice::from_ref(&second));
    assert_eq!(ids(place, &of(&[(DeadText::What, "STATUS 500")])).await, []);
    let behind = DeadQuery {
        after: Some((DeadSort::LastFailed.value(&rows[2].letter), third)),
        queue: Some(queue("dlq")),
        ..of(&[(DeadText::What, "status 500")])
    };
    assert_eq!(ids(place, &behind).await, [second]);
}

pub(super) async fn groups_are_counted_with_their_times_and_trend(place: &Place) {
    let now = place.store.now().await.unwrap();
    let at = |ago: Duration| now.minus(ago).seconds();
    let rows = [
        row("dlq", 1, 404, at(HOUR / 2)),
        row("dlq", 2, 404, at(HOUR * 3 / 2)),
        row("dlq", 3, 404, at(HOUR * 5)),
        row("dlq", 4, 500, at(HOUR / 2)),
    ];
    looked(place, "dlq", &rows).await;
    let query = DeadGroupQuery {
        queue: None,
        recent_since: now.minus(HOUR),
        before_since: now.minus(HOUR * 2),
        limit: 10,
    };
    let groups = place.store.dead_groups(&query).await.unwrap();
    let summary: Vec<_> = groups
        .iter()
        .map(|group| (group.what.as_str(), group.count, group.recent, group.before))
        .collect();
    assert_eq!(summary, [("status 404", 3, 1, 1), ("status 500", 1, 1, 0)]);
    assert_eq!(groups[0].last_failed_at, Some(Timestamp::from_seconds(at(HOUR / 2))));
    assert_eq!(groups[0].place, "a.example/hook");
    let none = DeadGroupQuery {
        queue: Some(queue("none")),
        ..query
    };
    assert_eq!(place.store.dead_groups(&none).await.unwrap(), []);
}

pub(super) async fn each_queue_has_the_times_of_its_letters_and_the_queues_that_they_died_in(place: &Place) {
    let from = |name: &str, origin: &str, number: u32, at: i64| {
        let mut row = row(name, number, 404, at);
        row.letter.origin = Some(origin.to_owned());
        row
    };
    let rows = [
        from("dlq", "orders", 1, 10),
        from("dlq", "orders", 2, 30),
        from("dlq", "mails", 3, 20),
    ];
    looked(place, "dlq", &rows).await;
    looked(place, "other", &[from("other", "orders", 4, 5)]).await;
    let spans = place.store.dead_spans().await.unwrap();
    let last = |span: &DeadSpan| span.last_failed_at.map(Timestamp::seconds);
    let read: Vec<_> = spans.iter().map(|span| (span.queue.as_str(), last(span))).collect();
    assert_eq!(read, [("dlq", Some(30)), ("other", Some(5))]);
    let origins = async |limit| {
        let origins = place.store.dead_origins(limit).await.unwrap();
        let told = |of: &DeadOrigin| (of.queue.as_str().to_owned(), of.origin.clone(), of.letters);
        origins.iter().map(told).collect::<Vec<_>>()
    };
    let of = |queue: &str, origin: &str, letters| (queue.to_owned(), origin.to_owned(), letters);
    let all = [of("dlq", "orders", 2), of("dlq", "mails", 1), of("other", "orders", 1)];
    assert_eq!(origins(10).await, all);
    assert_eq!(origins(1).await, all[..1]);
}

pub(super) async fn a_queue_that_is_gone_is_forgotten_unless_somebody_has_it(place: &Place) {
    looked(place, "dlq", &[row("dlq", 1, 404, 5)]).await;
    let generation = claimed(place, "dlq").await;
    assert!(!place.store.dead_queue_forget(&queue("dlq")).await.unwrap());
    place.store.dead_free(&queue("dlq"), generation).await.unwrap();
    assert!(place.store.dead_queue_forget(&queue("dlq")).await.unwrap());
    assert_eq!(ids(place, &all()).await, []);
    assert_eq!(place.store.dead_queues().await.unwrap(), []);
}

pub(super) async fn what_a_run_changed_is_as_if_nobody_had_looked(place: &Place) {
    looked(place, "dlq", &[row("dlq", 1, 404, 5)]).await;
    place.store.dead_stale(&queue("dlq")).await.unwrap();
    place.store.dead_stale(&queue("never-seen")).await.unwrap();
    let known = place.store.dead_queues().await.unwrap();
    assert_eq!((known.len(), known[0].looked_at, known[0].messages), (1, None, Some(1)));
    assert_eq!(
        ids(place, &all()).await.len(),
        1,
        "what was seen is listed until the next look"
    );
    looked(place, "dlq", &[]).await;
    assert!(place.store.dead_queues().await.unwrap()[0].looked_at.is_some());
}

pub(super) async fn taken_out_letters_are_removed_by_id(place: &Place) {
    let rows: Vec<DeadRow> = (1..=3).map(|n| row("dlq", n, 404, n.into())).collect();
    looked(place, "dlq", &rows).await;
    let taken = [rows[0].letter.id.clone(), rows[2].letter.id.clone()];
    assert_eq!(place.store.dead_letters_remove(&taken).await.unwrap(), 2);
    assert_eq!(place.store.dead_letters_remove(&taken).await.unwrap(), 0);
    assert_eq!(ids(place, &all()).await, [rows[1].letter.id.clone()]);
}
