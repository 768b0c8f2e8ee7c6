//! What the notifications of a subscription are signed with: its own secret, where it has one.
//!
//! Read from the store and remembered for some seconds: an attempt costs no read, and a changed secret is used
//! soon.
//!
//! A subscription that was removed signs what still waits of it: without its signature a receiver would refuse it, and a
//! notification that was accepted would be lost to them.
//!
//! Anybody who publishes may write a type and a subscription into a message, so a secret signs for the URL of its
//! subscription alone (docs/protocols.md 40). What is remembered has all that the answer depends on as its key, the URL
//! too, and only subscriptions that exist or existed are remembered: a message that names none of them neither gets a
//! signature nor takes that of another away.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::EventTable;
use super::json::from_json;
use crate::ambient::HashMap;
use crate::domain::event::{EventType, SubscriptionOptions};
use crate::domain::notification::Notification;
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;
use crate::store::{StoreError, Subscription};

/// How long a look counts.
const FRESH: Duration = Duration::from_secs(5);
/// Subscriptions that are remembered.
const KNOWN_MAX: usize = 10_000;

/// What decides who signs: the type and the subscription that the message names, and where it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    event_type: String,
    subscription: String,
    url: EndpointUrl,
}

/// The secrets of subscriptions that exist, or that ended while something of them waited.
#[derive(Debug, Default)]
pub(in crate::engine) struct Secrets(Mutex<HashMap<Key, Known>>);

#[derive(Clone, Debug)]
struct Known {
    secrets: Vec<SigningSecret>,
    read_at: Duration,
}

impl EventTable {
    /// Something was written: the next look reads it.
    pub(super) fn forget_secrets(&self) {
        self.secrets.forget();
    }

    /// What signs a notification in the place of its endpoint's secrets; empty for what no subscription made.
    pub(in crate::engine) async fn secrets_of(
        &self,
        notification: &Notification,
    ) -> Result<Vec<SigningSecret>, StoreError> {
        let (Some(event_type), Some(subscription)) = (&notification.event_type, &notification.subscription) else {
            return Ok(Vec::new());
        };
        let Ok(named) = EventType::parse(event_type) else {
            return Ok(Vec::new());
        };
        let key = Key {
            event_type: event_type.clone(),
            subscription: subscription.clone(),
            url: notification.url.clone(),
        };
        let rows = self.subscription_rows(&key, &named);
        self.secrets.of(&key, self.clock.uptime(), rows).await
    }

    /// Those that there are, and where `key` is of none of them, those that ended.
    async fn subscription_rows(&self, key: &Key, named: &EventType) -> Result<Vec<Subscription>, StoreError> {
        let rows = self.store.subscriptions(named).await?;
        if rows.iter().any(|row| key.is_of(row)) {
            return Ok(rows);
        }
        self.store.ended_subscriptions(named).await
    }
}

impl Key {
    fn is_of(&self, row: &Subscription) -> bool {
        row.event_type.as_str() == self.event_type && row.id.to_string() == self.subscription && row.url == self.url
    }
}

impl Secrets {
    /// The secrets for `key`: remembered, or else of `rows`, the subscriptions of its type.
    async fn of(
        &self,
        key: &Key,
        now: Duration,
        rows: impl Future<Output = Result<Vec<Subscription>, StoreError>>,
    ) -> Result<Vec<SigningSecret>, StoreError> {
        if let Some(known) = self.fresh(key, now) {
            return Ok(known);
        }
        let rows = rows.await?;
        let Some(secrets) = rows.iter().find(|row| key.is_of(row)).map(secrets) else {
            return Ok(Vec::new());
        };
        self.learn(key.clone(), secrets.clone(), now);
        Ok(secrets)
    }

    fn fresh(&self, key: &Key, now: Duration) -> Option<Vec<SigningSecret>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(key)?;
        (found.read_at + FRESH > now).then(|| found.secrets.clone())
    }

    fn learn(&self, key: Key, secrets: Vec<SigningSecret>, read_at: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(key, Known { secrets, read_at });
    }

    /// Something was written: the next look reads it.
    pub(in crate::engine) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn secrets(row: &Subscription) -> Vec<SigningSecret> {
    let options: serde_json::Value = serde_json::from_str(&row.options).unwrap_or_default();
    SubscriptionOptions::from_value(&from_json(&options))
        .map(|options| options.secrets)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::time::Timestamp;

    const NOW: Duration = Duration::from_secs(100);

    /// Subscription `id` of type `t-<of>`, at `/<at>`, with a secret of its own.
    fn subscription(id: i64, of: u8, at: u8) -> Subscription {
        Subscription {
            id,
            event_type: EventType::parse(&format!("t-{of}")).unwrap(),
            url: url(at),
            options: format!(r#"{{"secret": "{}"}}"#, secret_of(id)),
            created_at: Timestamp::from_seconds(0),
        }
    }

    fn url(at: u8) -> EndpointUrl {
        EndpointUrl::parse(&format!("https://receiver.test/{at}")).unwrap()
    }

    fn secret_of(id: i64) -> String {
        use base64::Engine as _;
        format!(
            "whsec_{}",
            base64::engine::general_purpose::STANDARD.encode(format!("{id:024}"))
        )
    }

    /// The signatures of a message that names a type and a subscription and goes to a URL.
    fn asked(known: &Secrets, rows: &[Subscription], (of, id, at): (u8, i64, u8)) -> Vec<String> {
        let key = Key {
            event_type: format!("t-{of}"),
            subscription: id.to_string(),
            url: url(at),
        };
        let of_type = rows.iter().filter(|row| row.event_type.as_str() == key.event_type);
        let read = std::future::ready(Ok(of_type.cloned().collect()));
        let mut answer = Box::pin(known.of(&key, NOW, read));
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(Ok(secrets)) = answer.as_mut().poll(context) else {
            panic!("it waits for nothing");
        };
        let id = crate::domain::id::NotificationId::parse("n").unwrap();
        secrets.iter().map(|secret| secret.sign(&id, "1", b"body")).collect()
    }

    fn signature(id: i64) -> String {
        let secret = SigningSecret::parse(&secret_of(id)).unwrap();
        secret.sign(&crate::domain::id::NotificationId::parse("n").unwrap(), "1", b"body")
    }

    #[test]
    fn a_secret_signs_for_no_other_url_while_it_is_remembered() {
        let (known, rows) = (Secrets::default(), [subscription(1, 0, 0)]);
        assert_eq!(asked(&known, &rows, (0, 1, 0)), [signature(1)]);
        assert!(asked(&known, &rows, (0, 1, 9)).is_empty(), "another URL");
    }

    #[test]
    fn a_message_to_another_url_leaves_that_of_the_subscription_signed() {
        let (known, rows) = (Secrets::default(), [subscription(1, 0, 0)]);
        assert!(asked(&known, &rows, (0, 1, 9)).is_empty(), "another URL");
        assert_eq!(asked(&known, &rows, (0, 1, 0)), [signature(1)]);
    }

    #[test]
    fn a_subscription_that_is_made_a_moment_later_signs_at_once() {
        let known = Secrets::default();
        assert!(asked(&known, &[], (0, 1, 0)).is_empty());
        assert_eq!(asked(&known, &[subscription(1, 0, 0)], (0, 1, 0)), [signature(1)]);
    }

    proptest! {
        /// At one moment, whatever was asked before.
        #[test]
        fn only_the_subscription_that_a_message_names_in_full_signs_it(
            made in prop::collection::vec((0_u8..3, 0_u8..3), 1..5),
            asks in prop::collection::vec((0_u8..3, 1_i64..6, 0_u8..3), 1..40),
        ) {
            let ids = 1_i64..;
            let rows: Vec<_> = made.iter().zip(ids).map(|((of, at), id)| subscription(id, *of, *at)).collect();
            let known = Secrets::default();
            for ask in asks {
                let (of, id, at) = ask;
                let named = rows.iter().any(|row| *row == subscription(id, of, at));
                let expected = if named { vec![signature(id)] } else { Vec::new() };
                prop_assert_eq!(asked(&known, &rows, ask), expected);
            }
        }
    }
}
