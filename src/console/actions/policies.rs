//! Actions on retry policies.

use super::report::changed;
use crate::console::state::action::{Action, Context, Reason, Shows, named, require};
use crate::console::state::detail::Subject;
use crate::console::state::dialog::Asked;
use crate::console::state::pointed::{Pointed, Reach};
use crate::console::state::{State, View};
use crate::console::update::policy;
use crate::console::update::scope::Aim;
use crate::engine::Command;
use crate::engine::policies::{PolicyAct, PolicyEdit};
use crate::engine::query::PolicyScope;

const POLICIES: Context = Context::Views(&[View::Policies]);
const POLICY_OF: Context = Context::Views(&[View::Policies, View::Endpoints]);

pub(super) const ACT: &[Action] = &[
    Action::new(named::EDIT_POLICY, "edit policy", &["E"])
        .help("Edit the retry policy of the selected row or endpoint: checked and drawn as you type; what it does to waiting messages is shown before it is saved.")
        .changes(POLICY_OF)
        .when(|state| policy::in_front(state).map(drop))
        .opens_form(policy::open)
        .shows(Shows::Policy)
        .reports(|task| changed(task, "saved", "policy"))
        .administers(),
    Action::new("unset_policy", "unset", &["X"])
        .help("Remove the policy of the selected or marked rows: the next one in precedence applies. The versions stay.")
        .changes(POLICIES)
        .when(|state| UNSET.possible(state))
        .plans(|state| UNSET.freeze(state))
        .shows(Shows::Policy)
        .reports(|task| changed(task, "unset", "policy"))
        .administers(),
    Action::new("restore_policy", "restore", &["R"])
        .help("Set the policy to what the selected version of its history says.")
        .changes(POLICIES)
        .when(|state| {
            let version = state.nav.details.last().and_then(|detail| detail.selected_version());
            require(version.is_some(), "select a version in the history (H)")
        })
        .plans(restored)
        .shows(Shows::Policy)
        .reports(|task| changed(task, "restored", "policy"))
        .administers(),
];

pub(super) const LOOK: &[Action] = &[Action::new("policy_history", "history", &["H"])
    .help("Open the versions of the selected policy.")
    .within(POLICIES)
    .when(|state| policy::in_front(state).map(drop))
    .does(policy::history)
    .hinted()];

const UNSET: Aim<PolicyScope> = Aim::new(Reach::Rows, set_policy, |_, scopes| {
    let unset = |scope| {
        Command::Policy(PolicyEdit {
            scope,
            act: PolicyAct::Unset,
            expected: None,
        })
    };
    scopes.into_iter().map(unset).collect()
});

/// The version that is selected in a history.
fn restored(state: &State) -> Result<Asked, Reason> {
    let version = state.nav.details.last().and_then(|detail| detail.selected_version());
    let version = version.ok_or("select a version in the history")?;
    Ok(Asked::one(Command::Policy(PolicyEdit {
        scope: version.scope.clone(),
        act: PolicyAct::Restore(Some(version.version)),
        expected: None,
    })))
}

/// A policy that can be taken away.
fn set_policy(row: Pointed<'_>) -> Result<PolicyScope, Reason> {
    match row {
        Pointed::Policy(row) if row.scope == PolicyScope::default() => {
            Err("this one is the configuration's: delivery.retry_policy".into())
        }
        Pointed::Policy(row) if row.document().is_none() => Err("no policy is set here".into()),
        Pointed::Policy(row) => Ok(row.scope.clone()),
        Pointed::Subject(Subject::Policy(scope)) => Ok(scope.clone()),
        Pointed::Queue(_)
        | Pointed::Opened(..)
        | Pointed::Endpoint(_)
        | Pointed::Retry(_)
        | Pointed::Run(_)
        | Pointed::Subject(_) => Err("this is no policy".into()),
    }
}
