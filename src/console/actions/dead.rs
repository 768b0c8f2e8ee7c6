//! What an action on dead letters is about: letters by their ids, groups by their fingerprints, or what the
//! filter says, which the plan then freezes into ids. Of a group in a filtered list it is what the filter leaves of it: the
//! letters that its row counts.

use super::report::{changed, edited};
use crate::console::state::action::{Action, Also, Context, Possible, Reason, Shows, named, require};
use crate::console::state::detail::{Compared, Subject};
use crate::console::state::dialog::{Asked, COMMANDS_MAX, Scope, ScopeKind};
use crate::console::state::pointed::Reach;
use crate::console::state::{State, View};
use crate::console::table::{Marking, Row};
use crate::console::update::{details, edit};
use crate::domain::dead_letter::DeadLetterId;
use crate::domain::words::plural_of;
use crate::engine::Command;
use crate::engine::dead::NAMED_MAX;
use crate::engine::runs::{Order, OrderKind, Selection};

/// Letters of one order by their ids, at most: more are named by their group or a filter.
const IDS_MAX: usize = 10_000;

const DEAD: Context = Context::Views(&[View::Dead]);

pub(super) const ACT: &[Action] = &[
    Action::new("redrive", "redrive", &["R"])
        .help("Send the selected or marked dead letters, or whole groups, back where they came from. The plan says where that is; t there changes the rate, c stops after the first few.")
        .changes(DEAD)
        .when(|state| possible(state, Reach::Rows))
        .plans(|state| freeze(state, OrderKind::Redrive, Reach::Rows))
        .reports(|task| changed(task, "redrive begun:", "run"))
        .hinted(),
    Action::new("redrive_shown", "redrive shown", &["A"])
        .help("The same for everything that the filter matches; what died again after a redrive is left out.")
        .changes(DEAD)
        .when(|state| possible(state, Reach::Shown))
        .plans(|state| freeze(state, OrderKind::Redrive, Reach::Shown))
        .reports(|task| changed(task, "redrive begun:", "run"))
        .also(&[Also::Hinted, Also::Wide]),
    Action::new("discard", "discard", &["X"])
        .help("Remove the selected or marked dead letters; they are kept for a while and can be restored until then.")
        .changes(DEAD)
        .when(|state| possible(state, Reach::Rows))
        .plans(|state| freeze(state, OrderKind::Discard, Reach::Rows))
        .reports(|task| changed(task, "discard begun:", "run"))
        .hinted(),
    Action::new("compare", "compare", &["d"])
        .help("Show dead letters side by side: the marked ones, or the first 50 of the group. Where they differ comes first.")
        .within(DEAD)
        .when(|state| compared(state).map(|_| ()))
        .does(|state| match compared(state) {
            Ok(compared) => details::open_subject(state, Subject::Compared(compared)),
            Err(_) => Vec::new(),
        })
        .hinted(),
    Action::new(named::EDIT_LETTER, "edit", &["E"])
        .help("Write the payload of the open dead letter in $EDITOR, or in a list a JSON patch for the group or the marked letters. What is sent instead is shown before it is kept.")
        .changes(DEAD)
        .when(|state| match state.nav.details.last() {
            Some(detail) if matches!(detail.subject, Subject::Letter(_)) => {
                possible(state, Reach::Rows)?;
                require(detail.letter().is_some(), "the dead letter is being read")
            }
            _ => patched(state).map(|_| ()),
        })
        .opens_form(|state, _| edit::begin(state, patched(state).ok()))
        .shows(Shows::Message)
        .reports(edited)
        .hinted(),
];

/// Whether there is something to act on; looks at one row at most.
fn possible(state: &State, reach: Reach) -> Possible {
    let list = state.list().filter(|_| state.nav.view == View::Dead);
    let shown = reach == Reach::Shown;
    match state.nav.details.last().map(|detail| &detail.subject) {
        Some(_) if shown => Err("a detail is open: Esc closes it".into()),
        Some(Subject::Letter(_)) if is_gone(state) => Err("it is not there any more".into()),
        Some(Subject::Letter(_) | Subject::Compared(_)) => Ok(()),
        Some(_) => Err("this is no dead letter".into()),
        None if shown => require(list.is_some_and(|list| !list.is_empty()), "the list is empty"),
        None => {
            let chosen = list.is_some_and(|list| list.has_selection() || list.is_marked());
            require(chosen, "nothing is selected")
        }
    }
}

/// Whether the letter in front could not be read again.
fn is_gone(state: &State) -> bool {
    let answer = state.nav.details.last().and_then(|detail| detail.answer.as_ref());
    answer.is_some_and(|answer| matches!(answer.about, Some(Err(_))))
}

/// What would be compared: marked letters, else the group.
fn compared(state: &State) -> Result<Compared, Reason> {
    if !state.nav.details.is_empty() {
        return Err("a detail is open: Esc closes it, then mark letters with Space".into());
    }
    let dead = &state.lists.dead;
    let Some(group) = &dead.open else {
        let group = dead.groups.table.selected_row();
        return group
            .map(|group| Compared::Group {
                fingerprint: group.fingerprint.clone(),
                filter: dead.groups.table.filter.written(),
            })
            .ok_or_else(|| "no group is selected".into());
    };
    let marks = &dead.letters.table.marks.ids;
    match marks.len() {
        0 => Ok(Compared::Group {
            fingerprint: group.fingerprint.clone(),
            filter: dead.letters.table.filter.written(),
        }),
        1 => Err("one letter is marked: Space marks another one".into()),
        count if count > NAMED_MAX => {
            Err(format!("{count} letters are marked: at most {NAMED_MAX} are compared").into())
        }
        _ => {
            let shown = dead.letters.table.shown_rows().map(|row| row.id());
            let mut ids: Vec<String> = shown
                .filter(|id| marks.contains(id))
                .map(|id| id.as_str().to_owned())
                .collect();
            let mut hidden: Vec<String> = marks
                .iter()
                .map(|id| id.as_str().to_owned())
                .filter(|id| !ids.contains(id))
                .collect();
            hidden.sort();
            ids.append(&mut hidden);
            Ok(Compared::Letters(ids))
        }
    }
}

/// Which dead letters a patch would change.
fn patched(state: &State) -> Result<(ScopeKind, Selection), Reason> {
    possible(state, Reach::Rows)?;
    let dead = &state.lists.dead;
    if state.nav.details.is_empty() && dead.open.is_some() && dead.letters.table.marks.ids.is_empty() {
        return Err("open the dead letter (Enter), or mark several (Space)".into());
    }
    no_group_is_hidden(state)?;
    let (kind, mut selections) = selections(state, Reach::Rows);
    match (selections.pop(), selections.is_empty()) {
        (Some(selection), true) => Ok((kind, selection)),
        _ => Err("a patch is for one group, or for marked letters of one".into()),
    }
}

/// Freezes what the order is about.
fn freeze(state: &State, order: OrderKind, reach: Reach) -> Result<Asked, Reason> {
    possible(state, reach)?;
    if reach == Reach::Rows {
        no_group_is_hidden(state)?;
    }
    let (kind, selections) = selections(state, reach);
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
    let note = match kind {
        ScopeKind::Filtered => {
            Some("everything that matches, also beyond what is listed; what died again after a redrive is left out")
        }
        ScopeKind::One | ScopeKind::Marked => selections.first().and_then(Scope::note_on),
    };
    let command = |selection| {
        Command::Run(Order {
            without_redriven: kind == ScopeKind::Filtered,
            ..Order::new(order, selection)
        })
    };
    Ok(Asked {
        scope: Scope::of_list(state, kind, note),
        commands: selections.into_iter().map(command).collect(),
    })
}

/// A marked group without a row has nothing that the filter matches, and was marked for all that it has.
fn no_group_is_hidden(state: &State) -> Possible {
    let dead = &state.lists.dead;
    if !state.nav.details.is_empty() || dead.open.is_some() || dead.groups.table.filter.applied.is_none() {
        return Ok(());
    }
    let hidden = dead.groups.table.mark_counts().hidden;
    let (groups, is) = (
        plural_of(hidden, "marked group", "marked groups"),
        if hidden == 1 { "is" } else { "are" },
    );
    let why = format!("{groups} {is} hidden by the filter: clear the filter or the marks first");
    if hidden == 0 { Ok(()) } else { Err(why.into()) }
}

/// Of a group everything, or what matches the filter.
fn of_group(fingerprint: &str, filter: Option<&str>) -> Selection {
    match filter {
        None => Selection::Group(fingerprint.to_owned()),
        Some(filter) => Selection::Filter(format!("fingerprint = \"{fingerprint}\" and ({filter})")),
    }
}

fn selections(state: &State, reach: Reach) -> (ScopeKind, Vec<Selection>) {
    if let Some(Subject::Letter(id)) = state.nav.details.last().map(|detail| &detail.subject) {
        return (ScopeKind::One, vec![Selection::Ids(vec![id.clone()])]);
    }
    if let Some(Subject::Compared(compared)) = state.nav.details.last().map(|detail| &detail.subject) {
        return match compared {
            Compared::Letters(ids) => (ScopeKind::Marked, vec![Selection::Ids(ids.clone())]),
            Compared::Group { fingerprint, filter } => (ScopeKind::One, vec![of_group(fingerprint, filter.as_deref())]),
        };
    }
    if reach == Reach::Shown {
        return (ScopeKind::Filtered, vec![everything_shown(state)]);
    }
    let marked = state.list().is_some_and(Marking::is_marked);
    let kind = if marked { ScopeKind::Marked } else { ScopeKind::One };
    let selections = if state.lists.dead.open.is_some() {
        let table = &state.lists.dead.letters.table;
        let selected = table.selected_row().map(|row| row.id());
        let mut ids: Vec<&DeadLetterId> = if marked {
            table.marks.ids.iter().collect()
        } else {
            selected.iter().collect()
        };
        ids.sort();
        vec![Selection::Ids(
            ids.into_iter().map(|id| id.as_str().to_owned()).collect(),
        )]
    } else {
        let table = &state.lists.dead.groups.table;
        let selected = table.selected_row().map(|row| row.id());
        let mut groups: Vec<String> = if marked {
            table.marks.ids.iter().cloned().collect()
        } else {
            selected.into_iter().collect()
        };
        groups.sort();
        let filter = table.filter.written();
        groups.iter().map(|group| of_group(group, filter.as_deref())).collect()
    };
    (kind, selections)
}

/// The filter, within the open group.
fn everything_shown(state: &State) -> Selection {
    let dead = &state.lists.dead;
    match &dead.open {
        None => dead
            .groups
            .table
            .filter
            .written()
            .map_or(Selection::All, Selection::Filter),
        Some(group) => of_group(&group.fingerprint, dead.letters.table.filter.written().as_deref()),
    }
}
