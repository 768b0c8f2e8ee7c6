//! Retry policies at work: which one applies to a notification, what a changed one does to what already waits,
//! and the plans by which a person changes one.
//!
//! The policy is looked up at each failed attempt, never for a success: a change applies from the moment at
//! which it is saved, and no cache can be behind it.

mod act;
mod answers;
mod backlog;
mod document;
pub(super) mod view;

pub use document::{canonical, read, value};
pub use view::{Forecast, ForecastLine, PolicyAct, PolicyEdit, PolicyPreview, PolicyView};

use std::sync::Arc;

use super::EngineError;
use super::core::{Core, over_core};
use crate::ambient::HashMap;
use crate::domain::notification::Notification;
use crate::domain::policy::{PolicyOwner, PolicySource, RetryPolicy, applicable};
use crate::domain::url::EndpointUrl;
use crate::store::{PolicyScope, PolicyVersion, StoreError};

/// An event type's name has this many bytes, at most.
const TYPE_BYTES_MAX: usize = 255;

/// The policy that applies to one notification, and what it was found by.
pub(super) struct Applied {
    pub(super) policy: RetryPolicy,
    book: Book,
}

/// Policies as saved, by scope, over the configuration's.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Book {
    saved: HashMap<PolicyScope, Saved>,
    default: RetryPolicy,
}

/// The newest version of one scope.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    version: i64,
    /// `None`: it was unset, or cannot be read any more.
    policy: Option<RetryPolicy>,
}

impl Book {
    /// What applies to notifications of this event type (none: published directly) to this URL.
    fn applicable(&self, event_type: Option<&str>, url: &EndpointUrl) -> (&RetryPolicy, PolicySource) {
        let subscription = self.policy(&scope_of(event_type, Some(url)));
        match event_type {
            Some(_) => applicable(self.policy(&scope_of(event_type, None)), subscription, &self.default),
            // Published directly: the URL's counts as the subscription's, the configuration's as the queue's.
            None => match applicable(Some(&self.default), subscription, &self.default) {
                (policy, PolicySource::Queue) => (policy, PolicySource::Default),
                found @ (_, PolicySource::Subscription | PolicySource::Default) => found,
            },
        }
    }

    /// What applies where a policy of `scope` would.
    fn of_scope(&self, scope: &PolicyScope) -> (&RetryPolicy, PolicySource) {
        match &scope.url {
            Some(url) => self.applicable(scope.event_type.as_deref(), url),
            None => applicable(self.policy(scope), None, &self.default),
        }
    }

    fn policy(&self, scope: &PolicyScope) -> Option<&RetryPolicy> {
        self.saved.get(scope)?.policy.as_ref()
    }

    fn learn(&mut self, versions: Vec<PolicyVersion>) {
        for version in versions {
            let policy = version
                .document
                .as_deref()
                .and_then(|document| saved(document, owner_of(&version.scope)));
            let saved = Saved {
                version: version.version,
                policy,
            };
            self.saved.insert(version.scope, saved);
        }
    }

    /// As if `scope` had this policy.
    fn suppose(&mut self, scope: &PolicyScope, policy: Option<RetryPolicy>) {
        self.saved.insert(scope.clone(), Saved { version: 0, policy });
    }
}

/// Retry policies for people: what is set, what it does, and setting it.
#[derive(Debug)]
pub(super) struct Policies {
    core: Arc<Core>,
}

over_core!(Policies);

impl Policies {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }
}

impl Core {
    /// The policy that applies now.
    pub(super) async fn policy_for(&self, notification: &Notification) -> Result<Applied, StoreError> {
        let event_type = notification.event_type.as_deref();
        let book = self.book(&scopes_of(event_type, &notification.url)).await?;
        let (policy, source) = book.applicable(event_type, &notification.url);
        tracing::trace!(url = ?notification.url, source = source.as_str(), "policy looked up");
        Ok(Applied {
            policy: policy.clone(),
            book,
        })
    }

    /// A failure was recorded by the policy that applied before: if another one was saved in between, whoever
    /// saved it may have looked before this head waited.
    pub(super) async fn keep_up(&self, applied: &Applied, notification: &Notification) {
        let scopes = scopes_of(notification.event_type.as_deref(), &notification.url);
        let kept_up = async {
            if self.book(&scopes).await? != applied.book {
                self.reapply(&scope_of(notification.event_type.as_deref(), Some(&notification.url)))
                    .await?;
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = kept_up.await {
            tracing::warn!(error = ?error, "a changed policy applies from the next attempt on");
        }
    }

    /// What is saved for these scopes.
    pub(super) async fn book(&self, scopes: &[PolicyScope]) -> Result<Book, StoreError> {
        let mut book = Book {
            saved: HashMap::default(),
            default: self.settings.default_policy.clone(),
        };
        book.learn(self.store.policies_newest(scopes).await?);
        Ok(book)
    }

    /// Applies what is saved to what waits; changes nothing where that was done. Answers how many heads moved.
    pub(in crate::engine) async fn reapply(&self, scope: &PolicyScope) -> Result<u64, StoreError> {
        let mut moved = 0;
        let mut backlog = backlog::Backlog::new(self, scope, None);
        while let Some(page) = backlog.next().await? {
            let moves: Vec<_> = page.iter().filter_map(backlog::Judged::moves).collect();
            moved += self.store.heads_move(&moves).await?;
        }
        Ok(moved)
    }
}

/// The policy as text for a record.
#[must_use]
pub fn text(policy: &RetryPolicy) -> String {
    document::text(&policy.to_value(PolicyOwner::Default))
}

/// A saved policy; `None` (with an error in the log) when it can no longer be read.
fn saved(document: &str, owner: PolicyOwner) -> Option<RetryPolicy> {
    read(document, owner).unwrap_or_else(|error| {
        tracing::error!(error = ?error, "a saved retry policy is not valid");
        None
    })
}

/// Whose a policy of this scope is.
fn owner_of(scope: &PolicyScope) -> PolicyOwner {
    if scope.url.is_some() {
        PolicyOwner::Subscription
    } else {
        PolicyOwner::Queue
    }
}

fn scope_of(event_type: Option<&str>, url: Option<&EndpointUrl>) -> PolicyScope {
    PolicyScope {
        event_type: event_type.map(ToOwned::to_owned),
        url: url.cloned(),
    }
}

/// The scopes that say something about notifications of this event type to this URL.
fn scopes_of(event_type: Option<&str>, url: &EndpointUrl) -> Vec<PolicyScope> {
    let queue = event_type.map(|_| scope_of(event_type, None));
    queue.into_iter().chain([scope_of(event_type, Some(url))]).collect()
}

/// A scope that a policy can be saved for.
fn check_scope(scope: &PolicyScope) -> Result<(), EngineError> {
    let invalid = |field: &str, message: String| {
        Err(EngineError::Invalid {
            field: field.to_owned(),
            message,
        })
    };
    match (&scope.event_type, &scope.url) {
        (None, None) => invalid(
            "url",
            "give a URL, an event type or both; the default is the configuration's delivery.retry_policy".to_owned(),
        ),
        (Some(name), _) if name.is_empty() || name.len() > TYPE_BYTES_MAX || name.chars().any(char::is_control) => {
            invalid(
                "type",
                format!("type must be 1 to {TYPE_BYTES_MAX} bytes without control characters"),
            )
        }
        _ => Ok(()),
    }
}

/// A scope for people.
fn name_of(scope: &PolicyScope) -> String {
    match (&scope.event_type, &scope.url) {
        (None, None) => "the configuration".to_owned(),
        (Some(name), None) => format!("event type {name:?}"),
        (None, Some(url)) => url.redacted(),
        (Some(name), Some(url)) => format!("the subscription of event type {name:?} to {}", url.redacted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::OnExhausted;

    const VECTORS: &str = include_str!("../../../tests/vectors/policy_precedence.json");

    fn url() -> EndpointUrl {
        EndpointUrl::parse("http://example.com/hook").unwrap()
    }

    /// A default that is no policy of the vectors.
    fn configured() -> RetryPolicy {
        RetryPolicy {
            retries_with_no_delay: 77,
            ..RetryPolicy::default()
        }
    }

    fn suppose(book: &mut Book, scope: &PolicyScope, written: &serde_json::Value) -> bool {
        match read(&written.to_string(), owner_of(scope)) {
            Ok(policy) => book.suppose(scope, policy),
            Err(_) => return false,
        }
        true
    }

    #[test]
    fn an_events_notification_uses_the_policy_of_the_vectors() {
        let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        for case in &cases {
            let mut book = Book {
                default: configured(),
                ..Book::default()
            };
            let valid = suppose(&mut book, &scope_of(Some("t"), None), &case["queue"])
                && suppose(&mut book, &scope_of(Some("t"), Some(&url())), &case["subscription"]);
            // What is published directly is not asked, and has no part in it.
            suppose(
                &mut book,
                &scope_of(None, Some(&url())),
                &serde_json::json!({"jitter": 1}),
            );
            let uses = if valid {
                book.applicable(Some("t"), &url()).1.as_str()
            } else {
                "rejected"
            };
            assert_eq!(uses, case["uses"].as_str().unwrap(), "{case}");
        }
    }

    #[test]
    fn what_is_published_directly_uses_the_urls_policy_over_the_configurations() {
        let mut book = Book {
            default: configured(),
            ..Book::default()
        };
        assert_eq!(book.applicable(None, &url()), (&configured(), PolicySource::Default));
        let own = RetryPolicy {
            on_exhausted: OnExhausted::DeadLetter,
            ..RetryPolicy::default()
        };
        book.suppose(&scope_of(None, Some(&url())), Some(own.clone()));
        assert_eq!(book.applicable(None, &url()), (&own, PolicySource::Subscription));
        book.default.ignore_subscription_override = true;
        assert_eq!(book.applicable(None, &url()).1, PolicySource::Default);
    }

    #[test]
    fn a_scope_without_anything_or_with_a_hostile_type_is_refused() {
        let field = |scope: &PolicyScope| match check_scope(scope) {
            Err(EngineError::Invalid { field, .. }) => Some(field),
            _ => None,
        };
        assert_eq!(field(&PolicyScope::default()).as_deref(), Some("url"));
        for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(256)] {
            assert_eq!(field(&scope_of(Some(name), None)).as_deref(), Some("type"), "{name:?}");
        }
        assert_eq!(field(&scope_of(Some("hr-import"), Some(&url()))), None);
    }
}
