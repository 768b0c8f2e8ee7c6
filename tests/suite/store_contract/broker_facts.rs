//! What a daemon knows of the broker: its policies, and what looks cost.

use std::time::Duration;

use redrive::internals::store::{AuditEntry, NewAudit};

use super::fixtures::{Place, queue};

pub(super) async fn the_brokers_policies_are_kept_with_their_age(place: &Place) {
    let store = &*place.store;
    assert_eq!(store.broker_policies_kept().await.unwrap(), None);
    for document in ["[]", "[\"zero is no text: \u{1}\"]"] {
        store.broker_policies_keep(document).await.unwrap();
        let kept = store.broker_policies_kept().await.unwrap().unwrap();
        assert_eq!(kept.document, document);
        assert!(kept.age < Duration::from_secs(30), "{kept:?}");
    }
    let before = store.broker_policies_kept().await.unwrap().unwrap().age;
    crate::support::wait::wait_until("them to grow older", Duration::from_secs(30), async || {
        let age = store.broker_policies_kept().await.unwrap().unwrap().age;
        (age > before).then_some(())
    })
    .await;
}

pub(super) async fn of_two_who_look_at_the_same_time_one_reads_anew(place: &Place) {
    let store = &*place.store;
    let (a, b) = (queue("a"), queue("b"));
    assert_eq!(store.looks_kept(&a).await.unwrap(), None);
    assert!(
        !store.looks_keep(&a, Some("1x1"), "1x2").await.unwrap(),
        "there is nothing"
    );
    assert!(store.looks_keep(&a, None, "1x1").await.unwrap());
    assert!(!store.looks_keep(&a, None, "9x9").await.unwrap(), "somebody was first");
    assert!(store.looks_keep(&a, Some("1x1"), "1x2").await.unwrap());
    assert!(
        !store.looks_keep(&a, Some("1x1"), "9x9").await.unwrap(),
        "somebody was first"
    );
    assert_eq!(store.looks_kept(&a).await.unwrap().as_deref(), Some("1x2"));
    assert_eq!(store.looks_kept(&b).await.unwrap(), None);
}

pub(super) async fn a_store_says_whose_it_is_and_so_do_the_lines_of_its_audit(place: &Place) {
    let store = &*place.store;
    let entry = NewAudit {
        actor: "ana".to_owned(),
        command: "redeliver".to_owned(),
        target: "x".to_owned(),
        reason: None,
        plan: None,
        result: "done".to_owned(),
        detail: String::new(),
    };
    assert_eq!(store.broker_name().await.unwrap(), None);
    store.audit_append(&entry).await.unwrap();
    for name in ["rabbit@a/live", "rabbit@b//"] {
        store.broker_name_keep(name).await.unwrap();
        let another = place.another().await.unwrap();
        assert_eq!(another.broker_name().await.unwrap().as_deref(), Some(name));
        another.close().await;
        store.audit_append(&entry).await.unwrap();
    }
    let lines = store.audit_from(0, 10).await.unwrap();
    let brokers: Vec<Option<&str>> = lines.iter().map(|line| line.broker.as_deref()).collect();
    assert_eq!(brokers, [None, Some("rabbit@a/live"), Some("rabbit@b//")]);
    let mut before = String::new();
    for line in &lines {
        assert!(line.follows(&before), "{line:?}");
        before.clone_from(&line.hash);
    }
    let moved = AuditEntry {
        broker: Some("rabbit@c/live".to_owned()),
        ..lines[1].clone()
    };
    assert!(!moved.follows(&lines[0].hash), "what it is of is part of the chain");
}
