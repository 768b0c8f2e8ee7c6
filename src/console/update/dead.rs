//! What an action on dead letters is about: letters by their ids, groups by their fingerprints, or what the
//! filter says, which the plan then freezes into ids.

use super::State;
use super::scope::Asked;
use crate::console::action::{ActionId, Reason};
use crate::console::detail::Subject;
use crate::console::dialog::{COMMANDS_MAX, Scope, ScopeKind};
use crate::console::state::View;
use crate::console::table::{List, Row};
use crate::domain::dead_letter::DeadLetterId;
use crate::domain::filter::Filter;
use crate::engine::Command;
use crate::engine::runs::{Order, OrderKind, Selection};

/// Letters of one order by their ids, at most: more are named by their group or a filter.
const IDS_MAX: usize = 10_000;

/// Whether the action is about dead letters.
pub(super) const fn is_about(action: ActionId) -> bool {
    matches!(action, ActionId::Redrive | ActionId::RedriveShown | ActionId::Discard)
}

/// Whether the action is possible where the operator is; looks at one row at most.
pub(in crate::console) fn possible(state: &State, action: ActionId) -> Result<(), Reason> {
    let list = state.list().filter(|_| state.view == View::Dead);
    match (action, state.details.last().map(|detail| &detail.subject)) {
        (ActionId::RedriveShown, Some(_)) => Err("a detail is open: Esc closes it".into()),
        (_, Some(Subject::Letter(_))) => Ok(()),
        (_, Some(_)) => Err("this is no dead letter".into()),
        (ActionId::RedriveShown, None) => match list {
            Some(list) if !list.is_empty() => Ok(()),
            _ => Err("the list is empty".into()),
        },
        (_, None) => match list {
            Some(list) if list.has_selection() || list.is_marked() => Ok(()),
            _ => Err("nothing is selected".into()),
        },
    }
}

/// Freezes what the action is about.
pub(super) fn freeze(state: &State, action: ActionId) -> Result<Asked, Reason> {
    possible(state, action)?;
    let (kind, selections) = selections(state, action);
    if selections.len() > COMMANDS_MAX {
        return Err(format!(
            "{} groups are too many for one go: at most {COMMANDS_MAX}",
            selections.len()
        )
        .into());
    }
    if let Some(Selection::Ids(ids)) = selections.first()
        && ids.len() > IDS_MAX
    {
        let why = format!(
            "{} letters are too many to name: at most {IDS_MAX}; use their group or a filter",
            ids.len()
        );
        return Err(why.into());
    }
    let order = if action == ActionId::Discard {
        OrderKind::Discard
    } else {
        OrderKind::Redrive
    };
    let note = (kind == ScopeKind::Filtered)
        .then_some("everything that matches, also beyond what is listed; what died again after a redrive is left out");
    let command = |selection| Command::Run(Order::new(order, selection));
    Ok(Asked {
        scope: Scope::of_list(state, kind, note),
        commands: selections.into_iter().map(command).collect(),
    })
}

fn selections(state: &State, action: ActionId) -> (ScopeKind, Vec<Selection>) {
    if let Some(Subject::Letter(id)) = state.details.last().map(|detail| &detail.subject) {
        return (ScopeKind::One, vec![Selection::Ids(vec![id.clone()])]);
    }
    if action == ActionId::RedriveShown {
        return (ScopeKind::Filtered, vec![everything_shown(state)]);
    }
    let marked = state.list().is_some_and(List::is_marked);
    let kind = if marked { ScopeKind::Marked } else { ScopeKind::One };
    let selections = if state.dead_group.is_some() {
        let table = &state.dead_letters.table;
        let selected = table.selected_row().map(|row| row.id());
        let mut ids: Vec<&DeadLetterId> = if marked {
            table.marks.iter().collect()
        } else {
            selected.iter().collect()
        };
        ids.sort();
        vec![Selection::Ids(
            ids.into_iter().map(|id| id.as_str().to_owned()).collect(),
        )]
    } else {
        let table = &state.dead_groups.table;
        let selected = table.selected_row().map(|row| row.id());
        let mut groups: Vec<String> = if marked {
            table.marks.iter().cloned().collect()
        } else {
            selected.into_iter().collect()
        };
        groups.sort();
        groups.into_iter().map(Selection::Group).collect()
    };
    (kind, selections)
}

/// The filter, within the open group.
fn everything_shown(state: &State) -> Selection {
    let expression = |filter: &Option<Filter>| filter.as_ref().map(|filter| filter.as_str().to_owned());
    match &state.dead_group {
        None => expression(&state.dead_groups.table.filter.applied).map_or(Selection::All, Selection::Filter),
        Some(group) => match expression(&state.dead_letters.table.filter.applied) {
            None => Selection::Group(group.fingerprint.clone()),
            Some(filter) => Selection::Filter(format!("fingerprint = \"{}\" and ({filter})", group.fingerprint)),
        },
    }
}
