//! Commands, each of which says in one place what it would do, does it, and says how it is taken back and what has to be
//! confirmed: an [`Operation`], beside the service that it is carried out by. `operations.rs` is the list of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use super::EngineError;
use super::command::{Command, Done, Plan, WriteGrant};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;
use crate::store::PolicyScope;

/// Targets that a line of the audit names, and the bytes of their names.
pub(super) const NAMED_MAX: usize = 100;
const NAMED_BYTES_MAX: usize = 8 * 1024;

/// What is named twice is meant once; in the order in which it is named.
pub(super) fn each_once<T: Clone + Ord>(named: &[T]) -> Vec<T> {
    let mut seen = BTreeSet::new();
    named.iter().filter(|one| seen.insert(*one)).cloned().collect()
}

/// Several targets by their names, behind what was done with them: as many as a line of the audit takes, of so many.
pub(super) fn named(targets: &[String], of: usize) -> String {
    let (mut text, mut left) = (String::new(), of);
    for target in targets.iter().take(NAMED_MAX) {
        if text.len() + target.len() > NAMED_BYTES_MAX {
            break;
        }
        text.push_str(if text.is_empty() { ": " } else { ", " });
        text.push_str(target);
        left -= 1;
    }
    if left > 0 && !text.is_empty() {
        let _ = write!(text, " and {left} more");
    }
    text
}

/// What is to be typed before plans of a command are carried out, where a yes is not enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Friction {
    /// Nothing.
    Yes,
    /// This word.
    Word(&'static str),
    /// The name of the queue, and the number of several.
    Name(QueueName),
    /// The number of lines.
    Lines(&'static str),
    /// The number of messages.
    Messages(&'static str),
    /// The number of messages, where they are more than the lines.
    LinesOrMessages(&'static str),
    /// The number of events.
    Events,
}

/// What a command is about, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An endpoint.
    Url(EndpointUrl),
    /// Something with a name (from outside).
    Name(String),
    /// A retry policy.
    Policy(PolicyScope),
    /// So many of something.
    Several(usize, &'static str),
    /// What needs no name.
    Words(&'static str),
}

/// What is said of a command.
pub(super) struct About {
    /// As audited: `redeliver`, `queue pause`, …
    pub(super) name: &'static str,
    pub(super) subject: Subject,
    pub(super) friction: Friction,
    /// What takes it back, whatever it was done to; or why nothing does.
    pub(super) undo: Result<Command, &'static str>,
}

/// A command as its service carries it out.
pub(super) trait Operation<Service> {
    fn about(&self) -> About;

    /// What takes back what was planned so, or why nothing does: it leads to what the plan says was there before.
    fn undo(&self, _plan: &Plan) -> Result<Command, &'static str> {
        self.about().undo
    }

    /// What it changes, each by the name by which somebody looks for it in the audit: a line of the plan each.
    fn changes(&self, plan: &Plan) -> Vec<String> {
        plan.lines.iter().map(|line| line.target.clone()).collect()
    }

    /// Whether it is for the daemons of this store alone, so that it is refused where the broker is another store's.
    fn needs_ownership(&self) -> bool {
        true
    }

    /// Whether it is refused as a whole where it would not be planned the same any more.
    fn is_planned_again(&self) -> bool {
        true
    }

    /// What it would do at present. A plan without a hash is hashed as it is.
    async fn plan(&self, service: &Arc<Service>) -> Result<Plan, EngineError>;

    /// What is only counted for people.
    async fn count(&self, _service: &Arc<Service>) -> Result<Option<u64>, EngineError> {
        Ok(None)
    }

    /// Does what was planned.
    async fn perform(&self, service: &Arc<Service>, plan: &Plan, grant: &WriteGrant) -> Result<Done, EngineError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_audit_names_several_targets_as_far_as_it_has_room() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|number| format!("q{number}")).collect() };
        assert_eq!(named(&names(0), 0), "");
        assert_eq!(named(&names(2), 2), ": q0, q1");
        let many = named(&names(120), 120);
        assert!(many.ends_with(", q99 and 20 more"), "{many}");
        let long = vec!["x".repeat(NAMED_BYTES_MAX / 2); 3];
        assert!(named(&long, 3).ends_with(" and 2 more"));
    }
}
