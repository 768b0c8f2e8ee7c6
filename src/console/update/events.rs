//! What an action on events is about: events by their ids, groups and types by filters, which the plan then
//! freezes into ids; and the type whose metadata or subscriptions are changed.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use super::keys::Press;
use super::scope::Asked;
use super::{State, confirm, details, filter, say};
use crate::console::Effect;
use crate::console::action::{ActionId, Reason};
use crate::console::detail::{DetailQuery, DetailTab, Subject, TypeDetail};
use crate::console::dialog::{COMMANDS_MAX, Scope, ScopeKind};
use crate::console::document_form::DocumentForm;
use crate::console::events::{TypeChoice, group_filter, type_filter};
use crate::console::journal::Tone;
use crate::console::policy_form::PolicyForm;
use crate::console::state::{Mode, View};
use crate::console::table::{List, Row, Table};
use crate::console::when_form::{self, LENGTH_MAX, WhenForm};
use crate::domain::event::{Event, EventState, EventType};
use crate::domain::text::is_hidden;
use crate::engine::Command;
use crate::engine::events::{EventCommand, EventSelection, SubscriptionChoice};
use crate::engine::query::PolicyScope;

/// Events of one plan by their ids, at most.
const IDS_MAX: usize = 1_000;

/// Whether the action is possible where the operator is; looks at one row at most.
pub(in crate::console) fn possible(state: &State, action: ActionId) -> Result<(), Reason> {
    let shown = action == ActionId::RetryEventsShown;
    match state.details.last().map(|detail| &detail.subject) {
        Some(_) if shown => return Err("a detail is open: Esc closes it".into()),
        Some(Subject::Event(_)) => return Ok(()),
        Some(_) => return Err("this is no event: Esc goes back to the list".into()),
        None => {}
    }
    let Some(list) = state.list().filter(|_| state.view == View::Events) else {
        return Err("this is no list of events".into());
    };
    if state.events.choice.is_none() {
        return of_types(state, action);
    }
    if shown {
        return require(!list.is_empty(), "the list is empty");
    }
    require(list.has_selection() || list.is_marked(), "nothing is selected")
}

/// A whole type is only ever given its dead events back.
fn of_types(state: &State, action: ActionId) -> Result<(), Reason> {
    if action != ActionId::RetryEvents {
        return Err("open a type first (Enter)".into());
    }
    if state.events.types.table.is_marked() {
        return Ok(());
    }
    let row = state.events.types.table.selected_row();
    let row = row.ok_or("nothing is selected")?;
    require(
        row.in_state(EventState::Dead) > 0,
        "none of them is dead; Enter shows what waits",
    )
}

/// Freezes what the action is about; a time is asked for first where one is needed.
pub(super) fn freeze(state: &State, action: ActionId) -> Result<Asked, Reason> {
    let (scope, selections) = selected(state, action)?;
    let command = |selection| {
        Command::Events(if action == ActionId::CancelEvents {
            EventCommand::Cancel(selection)
        } else {
            EventCommand::Retry(selection)
        })
    };
    Ok(Asked {
        scope,
        commands: selections.into_iter().map(command).collect(),
    })
}

fn selected(state: &State, action: ActionId) -> Result<(Scope, Vec<EventSelection>), Reason> {
    possible(state, action)?;
    let one = |kind, selections: Vec<EventSelection>, note| {
        let scope = Scope::of_list(state, kind, note);
        (scope, selections)
    };
    if let Some(Subject::Event(id)) = state.details.last().map(|detail| &detail.subject) {
        return Ok(one(ScopeKind::One, vec![EventSelection::Ids(vec![*id])], None));
    }
    let view = &state.events;
    if action == ActionId::RetryEventsShown {
        let everything = vec![EventSelection::Filter(view.expression(None))];
        let note = "everything that matches, also beyond what is listed";
        return Ok(one(ScopeKind::Filtered, everything, Some(note)));
    }
    let kind = if state.list().is_some_and(List::is_marked) {
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
        ScopeKind::Marked => table.marks.iter().cloned().collect(),
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

/// What of the selected row goes to the clipboard.
pub(super) fn copied(state: &State) -> Option<String> {
    let view = &state.events;
    match (&view.choice, &view.group) {
        (None, _) => {
            let row = view.types.table.selected_row();
            row.map(|row| row.choice.name().to_owned())
        }
        (Some(_), None) => view.groups.table.selected_row().map(|row| row.what.clone()),
        (Some(_), Some(_)) => {
            let row = view.events.table.selected_row();
            row.map(|row| row.reference.as_str().to_owned())
        }
    }
}

/// Opens the selected row: the groups of a type, the events of a group, an event.
pub(super) fn open(state: &mut State) -> Option<Subject> {
    let page = state.page();
    let view = &mut state.events;
    match (&view.choice, &view.group) {
        (None, _) => {
            let choice = view.types.table.selected_row().map(|row| row.choice.clone())?;
            view.open(choice, page);
            None
        }
        (Some(_), None) => {
            let group = view.groups.table.selected_row().cloned()?;
            view.open_group(group, page);
            None
        }
        (Some(_), Some(_)) => view.events.table.selected_row().map(|row| Subject::Event(row.id)),
    }
}

/// Opens the type that is selected or looked at.
pub(super) fn open_type(state: &mut State) -> Vec<Effect> {
    match type_in_front(state) {
        Ok(name) => details::open_at(state, Subject::EventType(name), DetailTab::Metadata),
        Err(_) => Vec::new(),
    }
}

/// The one type that is selected or looked at.
pub(in crate::console) fn type_in_front(state: &State) -> Result<EventType, Reason> {
    let every = || Reason::from("this is every type: select one");
    if let Some(detail) = state.details.last() {
        let event = detail.event().map(|found| found.event.event_type.clone());
        return event.ok_or_else(|| "the type is open".into());
    }
    let Some(choice) = &state.events.choice else {
        let row = state.events.types.table.selected_row().ok_or("nothing is selected")?;
        return row.choice.one().cloned().ok_or_else(every);
    };
    let of_row = state.events.events.table.selected_row();
    let of_row = of_row.filter(|_| state.events.group.is_some());
    let name = choice.one().or(of_row.map(|row| &row.event_type));
    name.cloned().ok_or_else(every)
}

/// The type that is open, once it was read.
pub(in crate::console) fn open_detail(state: &State) -> Result<&TypeDetail, Reason> {
    let detail = state.details.last().and_then(|detail| detail.event_type());
    detail.ok_or_else(|| "open its type first (i)".into())
}

/// Opens the form of what is in front: metadata, or the selected subscription.
pub(super) fn open_form(state: &mut State, new: bool) -> Vec<Effect> {
    let Ok(found) = open_detail(state) else {
        return Vec::new();
    };
    let subscriptions = state
        .details
        .last()
        .is_some_and(|detail| detail.tab == DetailTab::Subscriptions);
    let selected = state.details.last().and_then(|detail| detail.selected_subscription());
    let form = match selected {
        _ if new => DocumentForm::subscription(&found.record.name, None),
        Some(one) => DocumentForm::subscription(&found.record.name, Some(one)),
        None if subscriptions => DocumentForm::subscription(&found.record.name, None),
        None => DocumentForm::metadata(found),
    };
    state.mode = Mode::Document(Box::new(form));
    Vec::new()
}

/// Opens the form of the policy of what is in front: that of the type, or of the selected subscription.
pub(super) fn open_policy(state: &mut State, trigger: KeyCode) -> Vec<Effect> {
    let Ok(found) = open_detail(state) else {
        return Vec::new();
    };
    let selected = state.details.last().and_then(|detail| detail.selected_subscription());
    let scope = PolicyScope {
        event_type: Some(found.record.name.as_str().to_owned()),
        url: selected.map(|one| one.url.clone()),
    };
    state.mode = Mode::Policy(Box::new(PolicyForm::new(scope.clone(), trigger)));
    vec![Effect::Look(DetailQuery {
        subject: Subject::Policy(scope),
        browse: false,
    })]
}

/// The subscription that would be ended.
pub(super) fn unsubscribe(state: &State) -> Result<Asked, Reason> {
    let one = state.details.last().and_then(|detail| detail.selected_subscription());
    let one = one.ok_or("select one of the subscriptions of a type (i, Tab)")?;
    Ok(Asked::one(Command::Events(EventCommand::Unsubscribe {
        event_type: one.event_type.clone(),
        which: SubscriptionChoice::Id(one.id),
    })))
}

/// Asks for the time that the events are due at.
pub(super) fn ask_when(state: &mut State) -> Vec<Effect> {
    match selected(state, ActionId::RescheduleEvents) {
        Ok((scope, selections)) => {
            state.mode = Mode::When(Box::new(WhenForm {
                scope,
                selections,
                input: Input::default(),
            }));
        }
        Err(why) => say::toast(state, Tone::Warning, &format!("reschedule: {why}")),
    }
    Vec::new()
}

/// A key while the time is written.
pub(super) fn when_key(state: &mut State, press: Press) -> Vec<Effect> {
    let (code, control) = (press.key.code, press.key.modifiers.contains(KeyModifiers::CONTROL));
    match (code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => state.mode = Mode::Browse,
        (KeyCode::Enter, _) if press.deliberate => return when_ends(state),
        (KeyCode::Enter, _) => {}
        _ => {
            if let Some(request) = filter::request(code, press.key.modifiers) {
                when_edit(state, request);
            }
        }
    }
    Vec::new()
}

/// What fits is typed; the rest is left out.
pub(super) fn when_paste(state: &mut State, text: &str) {
    for character in text.lines().next().unwrap_or_default().trim().chars() {
        when_edit(state, InputRequest::InsertChar(character));
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other request is the input's own")]
fn when_edit(state: &mut State, request: InputRequest) {
    let Mode::When(form) = &mut state.mode else { return };
    let full = form.input.value().chars().count() >= LENGTH_MAX;
    match request {
        InputRequest::InsertChar(character) if full || is_hidden(character) => {}
        request => {
            form.input.handle(request);
        }
    }
}

fn when_ends(state: &mut State) -> Vec<Effect> {
    let Mode::When(form) = &state.mode else {
        return Vec::new();
    };
    let at = match when_form::read(form.input.value(), state.now) {
        Ok(at) => at,
        Err(why) => {
            say::toast(state, Tone::Warning, &format!("not a time: {why}"));
            return Vec::new();
        }
    };
    let mode = std::mem::take(&mut state.mode);
    let Mode::When(form) = &mode else {
        return Vec::new();
    };
    let command = |selection| Command::Events(EventCommand::Reschedule(selection, at));
    let asked = Asked {
        scope: form.scope.clone(),
        commands: form.selections.iter().cloned().map(command).collect(),
    };
    state.behind = Some(Box::new(mode));
    confirm::begin(state, ActionId::RescheduleEvents, KeyCode::Enter, asked)
}

fn require(fine: bool, why: &'static str) -> Result<(), Reason> {
    if fine { Ok(()) } else { Err(why.into()) }
}
