//! Actions on events: events by their ids, groups and types by filters, which the plan then freezes into ids; and on
//! the type whose metadata or subscriptions are changed.

use crossterm::event::KeyCode;
use tui_input::Input;

use super::report::{self, changed};
use crate::console::journal::Tone;
use crate::console::state::action::{Action, Also, Context, Possible, Reason, Shows, named, require};
use crate::console::state::detail::{DetailTab, Subject, TypeDetail};
use crate::console::state::dialog::{Asked, COMMANDS_MAX, Scope, ScopeKind};
use crate::console::state::document_form::DocumentForm;
use crate::console::state::effect::Effect;
use crate::console::state::events::{TypeChoice, group_filter, type_filter};
use crate::console::state::when_form::WhenForm;
use crate::console::state::{Mode, State, View};
use crate::console::table::{Marking, Row, Table};
use crate::console::update::{events as event_table, policy, say};
use crate::domain::event::{Event, EventState};
use crate::engine::Command;
use crate::engine::events::{EventCommand, EventSelection, SubscriptionChoice};
use crate::engine::query::PolicyScope;

/// Events of one plan by their ids, at most.
const IDS_MAX: usize = 1_000;

const EVENTS: Context = Context::Views(&[View::Events]);

pub(super) const ACT: &[Action] = &[
    Action::new("retry_events", "retry now", &["R"])
        .help("Make the selected or marked events due now, or all of a group; dead ones get all of their attempts back. On a type: only what is dead of it.")
        .changes(EVENTS)
        .when(|state| possible(state, Wants::DeadOfTypes))
        .plans(|state| freeze(state, Wants::DeadOfTypes, EventCommand::Retry))
        .shows(Shows::Events)
        .reports(|task| report::events(task, "due now:"))
        .hinted(),
    Action::new("retry_events_shown", "retry shown", &["A"])
        .help("The same for everything that the filter matches.")
        .changes(EVENTS)
        .when(|state| possible(state, Wants::Shown))
        .plans(|state| freeze(state, Wants::Shown, EventCommand::Retry))
        .shows(Shows::Events)
        .reports(|task| report::events(task, "due now:"))
        .also(&[Also::Hinted, Also::Wide]),
    Action::new(named::RESCHEDULE_EVENTS, "reschedule", &["T"])
        .help("Make the selected or marked events, or all of a group, due at a time that is asked for: 10m, 03:30, 2026-11-22T03:30:00Z.")
        .changes(EVENTS)
        .when(|state| possible(state, Wants::Rows))
        .opens_form(ask_when)
        .shows(Shows::Events)
        .reports(|task| report::events(task, "rescheduled"))
        .hinted(),
    Action::new("cancel_events", "cancel", &["X"])
        .help("Remove the selected or marked events, or all of a group. They are gone.")
        .destroys(EVENTS)
        .when(|state| possible(state, Wants::Rows))
        .plans(|state| freeze(state, Wants::Rows, EventCommand::Cancel))
        .shows(Shows::Events)
        .reports(|task| report::events(task, "cancelled"))
        // As for a run: "cancel" would be both answers.
        .also(&[Also::Hinted, Also::Answers("remove the events", "do not remove")]),
    Action::new(named::EDIT_TYPE, "edit", &["E"])
        .help("Write the metadata of the open type, or the options of its selected subscription; what is there now is shown before it is saved.")
        .changes(EVENTS)
        .when(|state| open_detail(state).map(drop))
        .opens_form(|state, _| open_form(state, false))
        .shows(Shows::Document)
        .reports(|task| changed(task, "saved", "document"))
        .administers(),
    Action::new("event_policy", "policy", &["P"])
        .help("Write the retry policy of the open type, or of its selected subscription.")
        .changes(EVENTS)
        .when(|state| open_detail(state).map(drop))
        .opens_form(open_policy)
        .shows(Shows::Policy)
        .reports(|task| changed(task, "saved", "policy"))
        .administers(),
    Action::new(named::SUBSCRIBE, "subscribe", &["N"])
        .help("Send the events of the open type to another URL.")
        .changes(EVENTS)
        .when(|state| open_detail(state).map(drop))
        .opens_form(|state, _| open_form(state, true))
        .shows(Shows::Subscription)
        .reports(|task| changed(task, "subscribed", "endpoint"))
        .administers(),
    Action::new("unsubscribe", "unsubscribe", &["D"])
        .help("End the selected subscription of the open type.")
        .changes(EVENTS)
        .when(|state| {
            open_detail(state)?;
            let selected = state.nav.details.last().and_then(|detail| detail.selected_subscription());
            require(selected.is_some(), "select a subscription (Tab)")
        })
        .plans(unsubscribe)
        .shows(Shows::Subscription)
        .reports(|task| changed(task, "ended the subscription of", "endpoint"))
        .administers(),
];

pub(super) const LOOK: &[Action] = &[Action::new("open_type", "its type", &["i"])
    .help("Open the type of the selected row: metadata, subscriptions, what was handled.")
    .within(EVENTS)
    .when(|state| event_table::type_in_front(state).map(drop))
    .does(event_table::open_type)
    .hinted()];

/// What an action on events is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// The events and groups that are pointed at.
    Rows,
    /// The same, and of types what is dead.
    DeadOfTypes,
    /// All that the filter matches.
    Shown,
}

/// Whether there is something to act on; looks at one row at most.
fn possible(state: &State, wants: Wants) -> Possible {
    let shown = wants == Wants::Shown;
    match state.nav.details.last().map(|detail| &detail.subject) {
        Some(_) if shown => return Err("a detail is open: Esc closes it".into()),
        Some(Subject::Event(_)) => return Ok(()),
        Some(_) => return Err("this is no event: Esc goes back to the list".into()),
        None => {}
    }
    let Some(list) = state.list().filter(|_| state.nav.view == View::Events) else {
        return Err("this is no list of events".into());
    };
    if state.lists.events.choice.is_none() {
        return of_types(state, wants);
    }
    if shown {
        return require(!list.is_empty(), "the list is empty");
    }
    require(list.has_selection() || list.is_marked(), "nothing is selected")
}

/// A whole type is only ever given its dead events back.
fn of_types(state: &State, wants: Wants) -> Possible {
    if wants != Wants::DeadOfTypes {
        return Err("open a type first (Enter)".into());
    }
    if state.lists.events.types.table.is_marked() {
        return Ok(());
    }
    let row = state.lists.events.types.table.selected_row();
    let row = row.ok_or("nothing is selected")?;
    require(
        row.in_state(EventState::Dead) > 0,
        "none of them is dead; Enter shows what waits",
    )
}

/// Freezes what the action is about.
fn freeze(state: &State, wants: Wants, command: fn(EventSelection) -> EventCommand) -> Result<Asked, Reason> {
    let (scope, selections) = selected(state, wants)?;
    let command = |selection| Command::Events(command(selection));
    Ok(Asked {
        scope,
        commands: selections.into_iter().map(command).collect(),
    })
}

fn selected(state: &State, wants: Wants) -> Result<(Scope, Vec<EventSelection>), Reason> {
    possible(state, wants)?;
    let one = |kind, selections: Vec<EventSelection>, note| {
        let scope = Scope::of_list(state, kind, note);
        (scope, selections)
    };
    if let Some(Subject::Event(id)) = state.nav.details.last().map(|detail| &detail.subject) {
        return Ok(one(ScopeKind::One, vec![EventSelection::Ids(vec![*id])], None));
    }
    let view = &state.lists.events;
    if wants == Wants::Shown {
        let everything = vec![EventSelection::Filter(view.expression(None))];
        let note = "everything that matches, also beyond what is listed";
        return Ok(one(ScopeKind::Filtered, everything, Some(note)));
    }
    let kind = if state.list().is_some_and(Marking::is_marked) {
        ScopeKind::Marked
    } else {
        ScopeKind::One
    };
    let (selections, note) = match (&view.choice, &view.group) {
        (None, _) => {
            let types = pointed(&view.types.table, kind);
            let note = "only what is dead; what waits is not touched";
            (
                types.iter().map(dead_of).map(EventSelection::Filter).collect(),
                Some(note),
            )
        }
        (Some(_), None) => {
            let groups = pointed(&view.groups.table, kind);
            let of_row = |group: &Option<String>| view.expression(group.as_deref().map(group_filter));
            let note = "everything of it, also beyond what was looked at";
            (
                groups.iter().map(of_row).map(EventSelection::Filter).collect(),
                Some(note),
            )
        }
        (Some(_), Some(_)) => (vec![EventSelection::Ids(ids(&view.events.table, kind)?)], None),
    };
    if selections.len() > COMMANDS_MAX {
        return Err(format!("{} are too many for one go: at most {COMMANDS_MAX}", selections.len()).into());
    }
    Ok(one(kind, selections, note))
}

fn dead_of(choice: &TypeChoice) -> String {
    let dead = "state = dead".to_owned();
    match choice {
        TypeChoice::Every => dead,
        TypeChoice::One(name) => format!("{} and {dead}", type_filter(name)),
    }
}

/// The rows that are pointed at, by their ids; one that stands for all of them stands alone.
fn pointed<R: Row>(table: &Table<R>, kind: ScopeKind) -> Vec<R::Id>
where
    R::Id: Ord + Everything,
{
    let mut ids: Vec<R::Id> = match kind {
        ScopeKind::Marked => table.marks.ids.iter().cloned().collect(),
        ScopeKind::One | ScopeKind::Filtered => table.selected_row().map(|row| row.id()).into_iter().collect(),
    };
    ids.sort_unstable();
    if let Some(place) = ids.iter().position(Everything::is_everything) {
        return vec![ids.swap_remove(place)];
    }
    ids
}

/// The id of a row that may stand for all of them.
trait Everything {
    fn is_everything(&self) -> bool;
}

impl Everything for TypeChoice {
    fn is_everything(&self) -> bool {
        *self == Self::Every
    }
}

impl Everything for Option<String> {
    fn is_everything(&self) -> bool {
        self.is_none()
    }
}

impl Everything for i64 {
    fn is_everything(&self) -> bool {
        false
    }
}

fn ids(table: &Table<Event>, kind: ScopeKind) -> Result<Vec<i64>, Reason> {
    let ids = pointed(table, kind);
    if ids.len() > IDS_MAX {
        let why = format!(
            "{} events are too many to name: at most {IDS_MAX}; use their group or a filter",
            ids.len()
        );
        return Err(why.into());
    }
    Ok(ids)
}

/// The type that is open, once it was read.
fn open_detail(state: &State) -> Result<&TypeDetail, Reason> {
    let detail = state.nav.details.last().and_then(|detail| detail.event_type());
    detail.ok_or_else(|| "open its type first (i)".into())
}

/// Opens the form of what is in front: metadata, or the selected subscription.
fn open_form(state: &mut State, new: bool) -> Vec<Effect> {
    let Ok(found) = open_detail(state) else {
        return Vec::new();
    };
    let subscriptions = state
        .nav
        .details
        .last()
        .is_some_and(|detail| detail.tab == DetailTab::Subscriptions);
    let selected = state
        .nav
        .details
        .last()
        .and_then(|detail| detail.selected_subscription());
    let form = match selected {
        _ if new => DocumentForm::subscription(&found.record.name, None),
        Some(one) => DocumentForm::subscription(&found.record.name, Some(one)),
        None if subscriptions => DocumentForm::subscription(&found.record.name, None),
        None => DocumentForm::metadata(found),
    };
    state.input.mode = Mode::Document(Box::new(form));
    Vec::new()
}

/// Opens the form of the policy of what is in front: that of the type, or of the selected subscription.
fn open_policy(state: &mut State, _: KeyCode) -> Vec<Effect> {
    let Ok(found) = open_detail(state) else {
        return Vec::new();
    };
    let selected = state
        .nav
        .details
        .last()
        .and_then(|detail| detail.selected_subscription());
    let scope = PolicyScope {
        event_type: Some(found.record.name.as_str().to_owned()),
        url: selected.map(|one| one.url.clone()),
    };
    policy::open_for(state, scope)
}

/// The subscription that would be ended.
fn unsubscribe(state: &State) -> Result<Asked, Reason> {
    let one = state
        .nav
        .details
        .last()
        .and_then(|detail| detail.selected_subscription());
    let one = one.ok_or("select one of the subscriptions of a type (i, Tab)")?;
    Ok(Asked::one(Command::Events(EventCommand::Unsubscribe {
        event_type: one.event_type.clone(),
        which: SubscriptionChoice::Id(one.id),
    })))
}

/// Asks for the time that the events are due at.
fn ask_when(state: &mut State, _: KeyCode) -> Vec<Effect> {
    match selected(state, Wants::Rows) {
        Ok((scope, selections)) => {
            state.input.mode = Mode::When(Box::new(WhenForm {
                scope,
                selections,
                input: Input::default(),
            }));
        }
        Err(why) => say::toast(state, Tone::Warning, &format!("reschedule: {why}")),
    }
    Vec::new()
}
