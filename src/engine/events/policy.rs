//! The `_retry_policy` of an event type's metadata and of a subscription's options: it is the policy of that scope,
//! changed by the same machinery as by `policy set`, with its versions, its author and its preview.
//!
//! A policy that is written there is set, `null` unsets it, and leaving out what the metadata or options before had
//! set unsets it too, unless somebody has set another one since. A subscription that ends leaves out everything.
//! Nothing is saved where nothing changes.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::EventCommand;
use super::EventOperations;
use crate::domain::event::EventType;
use crate::domain::naming::hex;
use crate::domain::url::EndpointUrl;
use crate::engine::policies::{PolicyAct, PolicyEdit};
use crate::engine::{EngineError, Plan, WriteGrant};
use crate::store::PolicyScope;

const KEY: &str = "_retry_policy";

impl EventOperations {
    /// The plan with what becomes of the policy, where the command says something of it.
    pub(super) async fn with_policy(&self, mut plan: Plan, command: &EventCommand) -> Result<Plan, EngineError> {
        let Some(edit) = self.written_policy(command).await? else {
            plan.warnings.extend(self.policy_that_stays(command).await?);
            return Ok(plan);
        };
        let policy = self.policies.plan_policy(&edit).await?;
        plan.hash = hex(&Sha256::digest(format!("{}\n{}", plan.hash, policy.hash).as_bytes()));
        plan.lines.extend(policy.lines);
        plan.warnings.extend(policy.warnings);
        plan.messages = policy.messages;
        Ok(plan)
    }

    /// The change of a policy that a command comes to; `None` where nothing changes. Asked before the command is
    /// carried out: what was written before counts.
    pub(super) async fn written_policy(&self, command: &EventCommand) -> Result<Option<PolicyEdit>, EngineError> {
        let (scope, document, before) = match command {
            EventCommand::SetType { event_type, document } => {
                let before = self.store.event_type_get(event_type).await?;
                let before = before.map(|before| before.document);
                (scope(event_type, None), document.as_str(), before)
            }
            EventCommand::Subscribe {
                event_type,
                url,
                options,
            } => {
                let all = self.store.subscriptions(event_type).await?;
                let before = all.into_iter().find(|one| one.url == *url);
                let before = before.map(|before| before.options);
                (scope(event_type, Some(url)), options.as_str(), before)
            }
            EventCommand::Unsubscribe { event_type, which } => {
                let ends = self.chosen(event_type, which).await?;
                (scope(event_type, Some(&ends.url)), "{}", Some(ends.options))
            }
            EventCommand::Retry(_) | EventCommand::Reschedule(..) | EventCommand::Cancel(_) => return Ok(None),
        };
        let saved = self.saved_policy(&scope).await?;
        let act = act(
            written(document),
            before.as_deref().and_then(written).as_ref(),
            saved.as_ref(),
        );
        Ok(act.map(|act| PolicyEdit {
            scope,
            act,
            expected: None,
        }))
    }

    async fn saved_policy(&self, scope: &PolicyScope) -> Result<Option<Value>, EngineError> {
        let newest = self.policies.newest_policy(scope).await?;
        let document = newest.and_then(|newest| newest.document);
        Ok(document.and_then(|document| serde_json::from_str(&document).ok()))
    }

    /// What is to be said of the policy of a subscription that ends, where it was not set with its options.
    async fn policy_that_stays(&self, command: &EventCommand) -> Result<Option<String>, EngineError> {
        let EventCommand::Unsubscribe { event_type, which } = command else {
            return Ok(None);
        };
        let ends = self.chosen(event_type, which).await?;
        let stays = self.saved_policy(&scope(event_type, Some(&ends.url))).await?.is_some();
        Ok(stays.then(|| {
            "its retry policy was set by itself and stays, for what waits and for who subscribes again: `policy unset` ends it"
                .to_owned()
        }))
    }

    pub(super) async fn save_policy(&self, edit: Option<PolicyEdit>, grant: &WriteGrant) -> Result<(), EngineError> {
        if let Some(edit) = edit {
            self.policies.change_policy(&edit, grant).await?;
        }
        Ok(())
    }
}

fn scope(event_type: &EventType, url: Option<&EndpointUrl>) -> PolicyScope {
    PolicyScope {
        event_type: Some(event_type.as_str().to_owned()),
        url: url.cloned(),
    }
}

/// The policy that a document says, `null` too; `None` where it says nothing of it.
fn written(document: &str) -> Option<Value> {
    let Value::Object(mut keys) = serde_json::from_str(document).ok()? else {
        return None;
    };
    keys.remove(KEY)
}

/// What is to be done where `new` is written now, `before` was written before, and `saved` is in force.
fn act(new: Option<Value>, before: Option<&Value>, saved: Option<&Value>) -> Option<PolicyAct> {
    match (new, saved) {
        (Some(Value::Null), Some(_)) => Some(PolicyAct::Unset),
        (Some(Value::Null) | None, None) => None,
        (Some(new), saved) if saved == Some(&new) => None,
        (Some(new), _) => Some(PolicyAct::Set(new.to_string())),
        (None, saved @ Some(_)) => (before == saved).then_some(PolicyAct::Unset),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_becomes_the_policy_and_nothing_is_saved_twice() {
        let (a, b) = (|| Some(json!({"jitter": 0})), || Some(json!({"jitter": 1})));
        let set = |value: Value| Some(PolicyAct::Set(value.to_string()));
        let null = || Some(Value::Null);
        for (new, before, saved, expected) in [
            (a(), None, None, set(json!({"jitter": 0}))),
            (a(), a(), a(), None),
            (a(), a(), b(), set(json!({"jitter": 0}))),
            (null(), a(), a(), Some(PolicyAct::Unset)),
            (null(), None, None, None),
            (None, a(), a(), Some(PolicyAct::Unset)),
            (None, a(), b(), None),
            (None, None, b(), None),
            (None, null(), None, None),
        ] {
            assert_eq!(
                act(new.clone(), before.as_ref(), saved.as_ref()),
                expected,
                "{new:?} {before:?} {saved:?}"
            );
        }
        assert_eq!(written(r#"{"_retry_policy": null, "x": 1}"#), null());
        assert_eq!(written(r#"{"x": 1}"#), None);
        assert_eq!(written("null"), None);
    }
}
