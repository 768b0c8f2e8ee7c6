//! Policies, runs, audit, rescued messages.

use redrive::internals::domain::time::Timestamp;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::store::{AuditEntry, NewAudit, NewPolicy, PolicyScope, RescuedMessage};
use sha2::{Digest, Sha256};

use super::fixtures::{Place, queue, url};

fn line(target: &str) -> NewAudit {
    NewAudit {
        actor: "ann".to_owned(),
        command: "redeliver".to_owned(),
        target: target.to_owned(),
        reason: Some("they said it works again".to_owned()),
        plan: None,
        result: "done".to_owned(),
        detail: "3 queues".to_owned(),
    }
}

/// The hash as its definition says, written down a second time.
fn expected_hash(previous: &str, line: &AuditEntry) -> String {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(line.at.micros().to_be_bytes());
    let entry = &line.entry;
    for field in [
        Some(&entry.actor),
        Some(&entry.command),
        Some(&entry.target),
        entry.reason.as_ref(),
        entry.plan.as_ref(),
        Some(&entry.result),
        Some(&entry.detail),
    ] {
        hasher.update(
            field
                .map_or(-1, |text| i64::try_from(text.len()).unwrap())
                .to_be_bytes(),
        );
        hasher.update(field.map_or("", |text| text.as_str()));
    }
    redrive::internals::domain::naming::hex(&hasher.finalize())
}

fn assert_chain(newest_first: &[AuditEntry]) {
    let mut previous = String::new();
    for line in newest_first.iter().rev() {
        assert_eq!(line.hash, expected_hash(&previous, line), "line {}", line.id);
        previous.clone_from(&line.hash);
    }
}

pub(super) async fn the_audit_is_a_chain_of_hashes(place: &Place) {
    let store = &*place.store;
    let mut ids = Vec::new();
    for target in ["a", "zero\0byte", "c"] {
        ids.push(store.audit_append(&line(target)).await.unwrap());
    }
    assert!(ids.is_sorted());
    let listed = store.audit_list(None, 10).await.unwrap();
    assert_chain(&listed);
    assert_eq!(listed[0].entry, line("c"));
    let older = store.audit_list(Some(ids[2]), 1).await.unwrap();
    assert_eq!((older.len(), older[0].id), (1, ids[1]));
}

pub(super) async fn concurrent_appends_to_the_audit_do_not_fork_the_chain(place: &Place) {
    let other = place.another().await.unwrap();
    for round in 0..10 {
        let lines: Vec<NewAudit> = (0..4).map(|number| line(&format!("{round}.{number}"))).collect();
        let (one, two, three, four) = tokio::join!(
            place.store.audit_append(&lines[0]),
            other.audit_append(&lines[1]),
            place.store.audit_append(&lines[2]),
            other.audit_append(&lines[3]),
        );
        for result in [one, two, three, four] {
            result.unwrap();
        }
    }
    let listed = other.audit_list(None, 100).await.unwrap();
    assert_eq!(listed.len(), 40);
    assert_chain(&listed);
    other.close().await;
}

pub(super) async fn the_audit_refuses_to_be_changed(place: &Place) {
    place.store.audit_append(&line("a")).await.unwrap();
    for statement in ["UPDATE TABLE.audit SET actor = 'nobody'", "DELETE FROM TABLE.audit"] {
        let refused = place.tamper(statement).await.expect_err(statement).to_string();
        assert!(refused.contains("append-only"), "{refused}");
    }
    assert_eq!(place.store.audit_list(None, 10).await.unwrap()[0].entry, line("a"));
}

fn policy(scope: &PolicyScope, document: Option<&str>) -> NewPolicy {
    NewPolicy {
        scope: scope.clone(),
        document: document.map(str::to_owned),
        author: "ann".to_owned(),
    }
}

pub(super) async fn a_policy_has_versions_and_can_be_unset(place: &Place) {
    let store = &*place.store;
    let scope = PolicyScope {
        event_type: Some("invoice".to_owned()),
        url: Some(url("one")),
    };
    assert_eq!(store.policy_get(&scope).await.unwrap(), None);
    assert_eq!(store.policy_put(&policy(&scope, Some("{}"))).await.unwrap(), 1);
    assert_eq!(
        store.policy_put(&policy(&scope, Some("{\"jitter\":1}"))).await.unwrap(),
        2
    );
    let newest = store.policy_get(&scope).await.unwrap().expect("it is set");
    assert_eq!(
        (newest.version, newest.document.as_deref()),
        (2, Some("{\"jitter\":1}"))
    );
    assert_eq!((&newest.scope, newest.author.as_str()), (&scope, "ann"));
    assert_eq!(store.policy_put(&policy(&scope, None)).await.unwrap(), 3);
    assert_eq!(store.policy_get(&scope).await.unwrap(), None);
    assert_eq!(store.policies(10).await.unwrap(), []);
    let history = store.policy_history(&scope).await.unwrap();
    let versions: Vec<i64> = history.iter().map(|policy| policy.version).collect();
    assert_eq!(versions, [3, 2, 1]);
}

pub(super) async fn policies_of_different_scopes_stand_beside_each_other(place: &Place) {
    let store = &*place.store;
    let scope = |event_type: Option<&str>, host: Option<&str>| PolicyScope {
        event_type: event_type.map(str::to_owned),
        url: host.map(url),
    };
    let scopes = [
        scope(None, None),
        scope(None, Some("one")),
        scope(Some("invoice"), None),
        scope(Some("invoice"), Some("one")),
    ];
    for one in &scopes {
        assert_eq!(store.policy_put(&policy(one, Some("{}"))).await.unwrap(), 1);
    }
    let listed = store.policies(10).await.unwrap();
    let listed: Vec<PolicyScope> = listed.into_iter().map(|policy| policy.scope).collect();
    assert_eq!(listed, scopes);
    assert_eq!(store.policies(2).await.unwrap().len(), 2);
}

pub(super) async fn the_order_of_policies_tells_nothing_of_the_values_in_queries(place: &Place) {
    let store = &*place.store;
    let in_order = ["?key=z", "?key=a"].map(|rest| PolicyScope {
        event_type: None,
        url: Some(EndpointUrl::parse(&format!("https://a.example/{rest}")).unwrap()),
    });
    for scope in &in_order {
        store.policy_put(&policy(scope, Some("{}"))).await.unwrap();
    }
    let listed = store.policies(10).await.unwrap();
    let listed: Vec<PolicyScope> = listed.into_iter().map(|policy| policy.scope).collect();
    assert_eq!(listed, in_order);
}

pub(super) async fn concurrent_saves_of_a_policy_get_versions_of_their_own(place: &Place) {
    let other = place.another().await.unwrap();
    let scope = PolicyScope::default();
    let new = policy(&scope, Some("{}"));
    let mut versions = Vec::new();
    for _ in 0..10 {
        let (one, two) = tokio::join!(place.store.policy_put(&new), other.policy_put(&new));
        versions.extend([one.unwrap(), two.unwrap()]);
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=20).collect::<Vec<i64>>());
    other.close().await;
}

pub(super) async fn a_rescued_message_keeps_its_exact_bytes(place: &Place) {
    let store = &*place.store;
    let rescued = |name: &str| RescuedMessage {
        id: 0,
        queue: queue(name),
        header_frame: (0..=255).collect(),
        body: vec![0, 159, 146, 150],
        reason: "content type is not UTF-8".to_owned(),
        at: Timestamp::EPOCH,
    };
    let first = store.rescued_insert(&rescued("a")).await.unwrap();
    let second = store.rescued_insert(&rescued("b")).await.unwrap();
    let all = store.rescued_list(None, None, 10).await.unwrap();
    assert_eq!(
        all.iter().map(|message| message.id).collect::<Vec<_>>(),
        [second, first]
    );
    assert_eq!((all[0].queue.as_str(), all[0].bytes), ("b", 4));
    let older = store.rescued_list(None, Some(second), 10).await.unwrap();
    let of_a = store.rescued_list(Some(&queue("a")), None, 10).await.unwrap();
    assert_eq!((older.len(), &older), (1, &of_a));
    assert!(of_a[0].at > Timestamp::EPOCH);
    let expected = RescuedMessage {
        id: first,
        at: of_a[0].at,
        ..rescued("a")
    };
    assert_eq!(store.rescued_get(first).await.unwrap(), Some(expected));
    assert_eq!(store.rescued_get(second + 1).await.unwrap(), None);
}
