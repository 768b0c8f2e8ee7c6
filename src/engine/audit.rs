//! Whether the audit is what was written: each line's hash covers the line before it, from the end of what retention
//! removed to the newest line.
//!
//! It shows changes by whoever has the database's own tools and does not rewrite every line after the changed one, the
//! end of what was removed and the newest line alike. Lines that are appended or trimmed meanwhile do no harm.

use std::net::IpAddr;

use super::paging::{bounded, cut};
use super::view::Page;
use super::{Engine, EngineError, core::Core};
use crate::domain::time::Timestamp;
use crate::store::{AuditChain, AuditEntry, NewAudit};

/// Lines that are read at once.
const PAGE: u32 = 1_000;

/// What the chain of the audit was found to be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AuditVerified {
    /// Lines that were checked.
    pub lines: u64,
    /// The newest one of them, or the last that was removed; 0 for none.
    pub newest: i64,
    /// Lines that retention removed before.
    pub removed: u64,
    /// The last one of those, and when it was removed.
    pub removed_to: Option<(i64, Timestamp)>,
    /// Where the chain breaks first.
    pub broken: Option<BrokenLink>,
}

/// A line that does not follow what is before it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BrokenLink {
    /// The line.
    pub line: i64,
    /// What is wrong.
    pub problem: String,
}

impl Engine {
    /// Writes down that requests from `address` had a token that is none. What calls this bounds how often.
    pub async fn failed_logins(&self, address: IpAddr, count: u64) {
        let requests = if count == 1 { "request" } else { "requests" };
        let entry = NewAudit {
            actor: "api".to_owned(),
            command: "login".to_owned(),
            target: address.to_string(),
            reason: None,
            plan: None,
            result: "refused".to_owned(),
            detail: format!("{count} {requests} with a wrong token"),
        };
        if let Err(error) = self.0.store.audit_append(&entry).await {
            tracing::warn!(error = ?error, "failed logins are not in the audit");
        }
    }
}

/// How far the check has come.
struct Position {
    line: i64,
    hash: String,
    lines: u64,
    /// The newest line, when nothing was found after `line`.
    missed: Option<i64>,
}

impl Core {
    pub(super) async fn audit_page(&self, before: Option<i64>, limit: u32) -> Result<Page<AuditEntry>, EngineError> {
        let limit = bounded(limit);
        let items = self.store.audit_list(before, limit + 1).await?;
        let (items, next_cursor) = cut(items, limit, |entry| entry.id.to_string());
        Ok(Page {
            problems: Vec::new(),
            items,
            next_cursor,
            taken_at: self.clock.now(),
        })
    }

    pub(super) async fn audit_verify(&self) -> Result<AuditVerified, EngineError> {
        let mut chain = self.store.audit_chain().await?;
        let mut at = Position {
            line: chain.removed_id,
            hash: chain.removed_hash.clone(),
            lines: 0,
            missed: None,
        };
        loop {
            let page = self.store.audit_from(at.line, PAGE).await?;
            let stray = at.walk(&page);
            if stray.is_none() && !page.is_empty() {
                continue;
            }
            chain = self.store.audit_chain().await?;
            // What was read may have been trimmed meanwhile: then the chain begins later.
            if chain.removed_id > at.line {
                (at.line, at.hash) = (chain.removed_id, chain.removed_hash.clone());
                continue;
            }
            if let Some(line) = stray {
                let problem = format!(
                    "it was changed, or what stood between it and line {} is missing",
                    at.line
                );
                return Ok(at.end(&chain, Some(BrokenLink { line, problem })));
            }
            if chain.newest_id > at.line && at.missed != Some(chain.newest_id) {
                at.missed = Some(chain.newest_id);
                continue;
            }
            let broken = at.end_is_broken(&chain);
            return Ok(at.end(&chain, broken));
        }
    }
}

impl Position {
    /// Checks a page; answers the first line that does not follow.
    fn walk(&mut self, page: &[AuditEntry]) -> Option<i64> {
        for line in page {
            if !line.follows(&self.hash) {
                return Some(line.id);
            }
            self.line = line.id;
            self.hash.clone_from(&line.hash);
            self.lines += 1;
        }
        None
    }

    /// Nothing is after this line: is it the newest?
    fn end_is_broken(&self, chain: &AuditChain) -> Option<BrokenLink> {
        if (chain.newest_id, &chain.newest_hash) == (self.line, &self.hash) {
            return None;
        }
        Some(BrokenLink {
            line: chain.newest_id,
            problem: format!("it was the newest line, and now line {} is", self.line),
        })
    }

    fn end(self, chain: &AuditChain, broken: Option<BrokenLink>) -> AuditVerified {
        AuditVerified {
            lines: self.lines,
            newest: self.line,
            removed: chain.removed,
            removed_to: chain.removed_at.map(|at| (chain.removed_id, at)),
            broken,
        }
    }
}
