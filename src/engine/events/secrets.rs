//! What the notifications of a subscription are signed with: its own secret, where it has one.
//!
//! Read from the store and remembered for some seconds: an attempt costs no read, and a changed secret is used
//! soon. What is shown of options never has it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::json::from_json;
use crate::domain::event::{EventType, SECRET, SubscriptionOptions};
use crate::domain::notification::Notification;
use crate::domain::signature::SigningSecret;
use crate::engine::Inner;
use crate::store::{StoreError, Subscription};

/// How long a look counts.
const FRESH: Duration = Duration::from_secs(5);
/// Subscriptions that are remembered.
const KNOWN_MAX: usize = 10_000;
/// What stands for a secret.
const HIDDEN: &str = "***";

/// The secrets of subscriptions, by type and id.
#[derive(Debug, Default)]
pub(in crate::engine) struct Secrets(Mutex<HashMap<(String, String), Known>>);

#[derive(Clone, Debug)]
struct Known {
    secrets: Vec<SigningSecret>,
    read_at: Duration,
}

impl Inner {
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
        let key = (event_type.clone(), subscription.clone());
        if let Some(known) = self.secrets.fresh(&key, self.clock.uptime()) {
            return Ok(known);
        }
        let rows = self.store.subscriptions(&named).await?;
        // Anybody may write a subscription's id into a message: only its own URL gets its signature.
        let is_it = |row: &&Subscription| row.id.to_string() == *subscription && row.url == notification.url;
        let secrets = rows.iter().find(is_it).map(secrets).unwrap_or_default();
        self.secrets.learn(key, secrets.clone(), self.clock.uptime());
        Ok(secrets)
    }
}

impl Secrets {
    fn fresh(&self, key: &(String, String), now: Duration) -> Option<Vec<SigningSecret>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(key)?;
        (found.read_at + FRESH > now).then(|| found.secrets.clone())
    }

    fn learn(&self, key: (String, String), secrets: Vec<SigningSecret>, read_at: Duration) {
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

/// Options as they may be shown.
#[must_use]
pub fn shown_options(options: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<serde_json::Value>(options) else {
        return HIDDEN.to_owned();
    };
    match json.get_mut(SECRET) {
        Some(secret) if !secret.is_null() => {
            *secret = HIDDEN.into();
            json.to_string()
        }
        Some(_) | None => options.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_shown_as_they_were_written_without_the_secret() {
        assert_eq!(shown_options(r#"{"headers":  {}}"#), r#"{"headers":  {}}"#);
        let shown = shown_options(r#"{"secret": ["whsec_a", "whsec_b"], "headers": {}}"#);
        assert!(
            !shown.contains("whsec") && shown.contains(r#""secret":"***""#),
            "{shown}"
        );
    }
}
