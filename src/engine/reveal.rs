//! Looking at what is masked: nothing is changed by it, and who looked is in the audit before he sees it.
//!
//! What is masked, and where, is the matter of whoever shows it; here is only the record. It needs the same grant as
//! a change, so that nobody looks who cannot be written down.

use super::command::WriteGrant;
use super::{Engine, EngineError, core::Core};
use crate::domain::text::show;
use crate::store::NewAudit;

/// A target is at most this wide in the audit.
const TARGET_WIDTH_MAX: usize = 400;

/// What somebody wants to see unmasked.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reveal {
    /// Which message: `dead letter 0c1f…` (from outside).
    pub target: String,
    /// How many values of it are masked.
    pub hidden: usize,
}

impl Reveal {
    /// As audited.
    pub const NAME: &'static str = "payload reveal";
}

impl Engine {
    /// Writes down who looks at what; only after that it may be shown.
    ///
    /// # Errors
    /// The time of the grant is over, or the store cannot be written.
    pub async fn reveal(&self, reveal: &Reveal, grant: &WriteGrant) -> Result<(), EngineError> {
        self.0.audit_reveal(reveal, grant).await
    }
}

impl Core {
    async fn audit_reveal(&self, reveal: &Reveal, grant: &WriteGrant) -> Result<(), EngineError> {
        if !grant.holds_at(self.clock.now()) {
            return Err(EngineError::Refused {
                why: "the time in which it would be audited in your name is over".to_owned(),
            });
        }
        let values = if reveal.hidden == 1 { "value" } else { "values" };
        let entry = NewAudit {
            actor: grant.actor().to_owned(),
            command: Reveal::NAME.to_owned(),
            target: show(&reveal.target, TARGET_WIDTH_MAX),
            reason: grant.reason().map(ToOwned::to_owned),
            plan: None,
            result: "done".to_owned(),
            detail: format!("{} masked {values} shown", reveal.hidden),
        };
        self.store.audit_append(&entry).await?;
        self.news.moved.send_replace(());
        Ok(())
    }
}
