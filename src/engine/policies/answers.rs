//! Answers to queries about policies.

use super::act::around;
use super::view::{PolicyPreview, PolicyView};
use super::{Policies, check_scope, owner_of, read};
use crate::domain::policy::PolicyOwner;
use crate::engine::EngineError;
use crate::engine::view::Page;
use crate::store::{PolicyScope, PolicyVersion};

/// Policies of one answer, at most.
const POLICIES_MAX: u32 = 1_000;

impl Policies {
    /// What is saved for `scope`, and what applies there.
    pub(in crate::engine) async fn policy_view(&self, scope: &PolicyScope) -> Result<PolicyView, EngineError> {
        let newest = self.newest_policy(scope).await?;
        let book = self.book(&around(scope)).await?;
        let (effective, source) = book.of_scope(scope);
        Ok(PolicyView {
            scope: scope.clone(),
            newest,
            effective: effective.clone(),
            source,
        })
    }

    /// Every policy that is set.
    pub(in crate::engine) async fn policy_views(&self) -> Result<Page<PolicyView>, EngineError> {
        let versions = self.store.policies(POLICIES_MAX).await?;
        let mut scopes: Vec<PolicyScope> = versions.iter().flat_map(|version| around(&version.scope)).collect();
        scopes.dedup();
        let book = self.book(&scopes).await?;
        let view = |version: PolicyVersion| {
            let (effective, source) = book.of_scope(&version.scope);
            PolicyView {
                scope: version.scope.clone(),
                effective: effective.clone(),
                source,
                newest: Some(version),
            }
        };
        Ok(Page {
            problems: Vec::new(),
            items: versions.into_iter().map(view).collect(),
            next_cursor: None,
            taken_at: self.clock.now(),
        })
    }

    /// All versions of a policy, newest first.
    pub(in crate::engine) async fn policy_versions(
        &self,
        scope: &PolicyScope,
    ) -> Result<Page<PolicyVersion>, EngineError> {
        check_scope(scope)?;
        Ok(Page {
            problems: Vec::new(),
            items: self.store.policy_history(scope).await?,
            next_cursor: None,
            taken_at: self.clock.now(),
        })
    }

    /// What a policy that is not saved would do; with a scope, to what waits there.
    pub(in crate::engine) async fn policy_preview(
        &self,
        document: &str,
        scope: Option<&PolicyScope>,
    ) -> Result<PolicyPreview, EngineError> {
        let owner = scope.map_or(PolicyOwner::Queue, owner_of);
        let written = read(document, owner)?;
        let Some(scope) = scope else {
            return Ok(PolicyPreview {
                policy: written.unwrap_or_default(),
                before: None,
                forecast: None,
            });
        };
        check_scope(scope)?;
        let mut book = self.book(&around(scope)).await?;
        let before = book.of_scope(scope).0.clone();
        let forecast = self.forecast(scope, written.as_ref()).await?;
        book.suppose(scope, written.clone());
        Ok(PolicyPreview {
            policy: written.unwrap_or_else(|| book.of_scope(scope).0.clone()),
            before: Some(before),
            forecast: Some(forecast),
        })
    }
}
