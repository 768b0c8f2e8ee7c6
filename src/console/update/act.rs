//! What an action does where the operator is.

use std::time::Duration;

use super::details;
use super::say::{self, counted};
use super::{
    State, columns, events, expiring, feeds, filter, find, palette, policy, relatives, reveal, snapshots, trail, verbs,
};
use crate::console::Effect;
use crate::console::action::ActionId;
use crate::console::detail::Subject;
use crate::console::journal::Tone;
use crate::console::state::{Mode, View};
use crate::console::table::{End, List};
use crate::console::view::help_scroll_max;
use crate::domain::text::show;
use crate::engine::query::PolicyScope;
use crate::engine::view::Retry;

/// Asked again within this, the console is left although something runs.
const LEAVE_AGAIN_WITHIN: Duration = Duration::from_secs(5);
/// A name on the clipboard is at most this wide.
const COPIED_WIDTH_MAX: usize = 8_192;

/// Carries out an action that changes nothing but the screen; one that changes more is asked for first.
#[expect(clippy::too_many_lines, reason = "a line for each action")]
pub(super) fn perform(state: &mut State, action: ActionId) -> Vec<Effect> {
    match action {
        ActionId::Overview => go(state, View::Overview),
        ActionId::Queues => go(state, View::Queues),
        ActionId::Endpoints => go(state, View::Endpoints),
        ActionId::Retries => go(state, View::Retries),
        ActionId::DeadLetters => go(state, View::Dead),
        ActionId::Policies => go(state, View::Policies),
        ActionId::Runs => go(state, View::Runs),
        ActionId::Audit => go(state, View::Audit),
        ActionId::Log => go(state, View::Log),
        ActionId::Events => go(state, View::Events),
        ActionId::Expiring => go(state, View::Expiring),
        ActionId::SavedMessages => expiring::other_list(state),
        ActionId::OpenType => return events::open_type(state),
        ActionId::NextView => turn(state, 1),
        ActionId::PreviousView => turn(state, -1),
        ActionId::Up => step(state, -1),
        ActionId::Down => step(state, 1),
        ActionId::PageUp => page(state, -1),
        ActionId::PageDown => page(state, 1),
        ActionId::First => jump(state, End::First),
        ActionId::Last => jump(state, End::Last),
        ActionId::Left => sideways(state, -1),
        ActionId::Right => sideways(state, 1),
        ActionId::Mark => with_list(state, |list| list.mark()),
        ActionId::MarkRange => with_list(state, |list| list.mark_range()),
        ActionId::MarkShown => with_list(state, |list| list.mark_shown()),
        ActionId::Unmark => with_list(state, |list| list.unmark()),
        ActionId::Palette => return palette::open(state),
        ActionId::GoBack => return trail::back(state),
        ActionId::GoForward => return trail::forward(state),
        ActionId::RelatedQueues
        | ActionId::RelatedEndpoint
        | ActionId::RelatedAttempts
        | ActionId::RelatedDead
        | ActionId::RelatedPolicy
        | ActionId::RelatedRun
        | ActionId::RelatedAudit => return relatives::go(state, action),
        ActionId::PayloadForm => details::next_form(state),
        ActionId::Wrap => details::wrap(state),
        ActionId::Reveal => return reveal::toggle(state),
        ActionId::NextMatch => find::step(state, 1),
        ActionId::PreviousMatch => find::step(state, -1),
        ActionId::Filter if !state.details.is_empty() => find::begin(state),
        ActionId::CopyCommand => return verbs::copy_command(state),
        ActionId::Columns => columns::open(state),
        ActionId::Help => state.mode = Mode::Help { scroll: 0 },
        ActionId::Open => return details::open(state),
        ActionId::Back => return back(state),
        ActionId::Browse => return details::browse(state),
        ActionId::Filter => filter::begin(state),
        ActionId::SortNext => return sort(state, |list| list.sort_next()),
        ActionId::SortReverse => return sort(state, |list| list.sort_reverse()),
        ActionId::Refresh => {
            feeds::hurry(state);
            return vec![Effect::Refresh];
        }
        ActionId::Freeze => return snapshots::freeze(state),
        ActionId::Copy => return copy(state),
        ActionId::PolicyHistory => return policy::history(state),
        ActionId::Suspend => return vec![Effect::Suspend],
        ActionId::Quit => return quit(state),
        ActionId::Redeliver
        | ActionId::RedeliverShown
        | ActionId::Pause
        | ActionId::Resume
        | ActionId::Test
        | ActionId::Disable
        | ActionId::Purge
        | ActionId::SkipHead
        | ActionId::MakeVhost
        | ActionId::Undo
        | ActionId::EditPolicy
        | ActionId::UnsetPolicy
        | ActionId::RestorePolicy
        | ActionId::Redrive
        | ActionId::RedriveShown
        | ActionId::Discard
        | ActionId::EditLetter
        | ActionId::PauseRun
        | ActionId::ResumeRun
        | ActionId::CancelRun
        | ActionId::RestoreLetters
        | ActionId::RetryEvents
        | ActionId::RetryEventsShown
        | ActionId::RescheduleEvents
        | ActionId::CancelEvents
        | ActionId::EditType
        | ActionId::EventPolicy
        | ActionId::Subscribe
        | ActionId::Unsubscribe
        | ActionId::SaveExpiring
        | ActionId::ExtendExpiring
        | ActionId::PurgeExpiring
        | ActionId::PurgeExpired
        | ActionId::RestoreSaved => {}
    }
    Vec::new()
}

/// The help takes the keys that move, and those that close.
pub(super) fn in_help(state: &mut State, action: ActionId) {
    let Mode::Help { scroll } = state.mode else {
        return;
    };
    let (page, most) = (state.page(), help_scroll_max(state));
    let moved = if action == ActionId::Up {
        scroll.saturating_sub(1)
    } else if action == ActionId::Down {
        scroll + 1
    } else if action == ActionId::PageUp {
        scroll.saturating_sub(page)
    } else if action == ActionId::PageDown {
        scroll + page
    } else if action == ActionId::First {
        0
    } else if action == ActionId::Last {
        most
    } else {
        if matches!(action, ActionId::Help | ActionId::Back | ActionId::Quit) {
            state.mode = Mode::Browse;
        }
        return;
    };
    state.mode = Mode::Help {
        scroll: moved.min(most),
    };
}

pub(super) fn go(state: &mut State, view: View) {
    state.view = view;
    state.details.clear();
}

/// The next view, or the next part of the detail in front.
fn turn(state: &mut State, by: isize) {
    if !state.details.is_empty() {
        return details::turn(state, by);
    }
    let place = View::ALL.iter().position(|view| *view == state.view).unwrap_or(0);
    let next = (place + View::ALL.len()).saturating_add_signed(by) % View::ALL.len();
    go(state, View::ALL[next]);
}

fn step(state: &mut State, by: isize) {
    if !state.details.is_empty() {
        details::step(state, by);
    } else if let Some(list) = state.list_mut() {
        list.step(by);
    } else if state.view == View::Log {
        let last = state.journal.len().saturating_sub(1);
        state.log_scroll = state.log_scroll.saturating_add_signed(by).min(last);
    } else {
        let last = state.worst_of_all().len().saturating_sub(1);
        state.worst_selected = state.worst_selected.min(last).saturating_add_signed(by).min(last);
    }
}

fn page(state: &mut State, by: isize) {
    let rows = isize::try_from(state.page()).unwrap_or(isize::MAX);
    if state.details.is_empty() {
        step(state, by.saturating_mul(rows));
    } else {
        details::scroll(state, by.saturating_mul(rows));
    }
}

fn jump(state: &mut State, to: End) {
    if !state.details.is_empty() {
        details::jump(state, to);
    } else if let Some(list) = state.list_mut() {
        list.jump(to);
    } else if state.view == View::Log {
        state.log_scroll = match to {
            End::First => 0,
            End::Last => state.journal.len().saturating_sub(1),
        };
    }
}

fn sideways(state: &mut State, by: isize) {
    if details::shift(state, by) {
        return;
    }
    if !state.details.is_empty() {
        details::turn(state, by);
    } else if let Some(list) = state.list_mut() {
        list.shift(by);
    }
}

fn with_list(state: &mut State, change: impl FnOnce(&mut dyn List)) {
    if let Some(list) = state.list_mut() {
        change(list);
    }
}

fn sort(state: &mut State, change: impl FnOnce(&mut dyn List)) -> Vec<Effect> {
    with_list(state, change);
    snapshots::arrange_front(state)
}

/// The innermost first: detail, filter, marks.
fn back(state: &mut State) -> Vec<Effect> {
    if !state.details.is_empty() {
        return details::close(state);
    }
    let Some(list) = state.list_mut() else {
        return Vec::new();
    };
    if list.filter().text.is_empty() {
        let marked = list.is_marked();
        list.unmark();
        if !marked && state.view == View::Dead {
            state.dead_group = None;
        } else if !marked && state.view == View::Events {
            state.events.close();
        } else if !marked && state.view == View::Expiring {
            state.shows_saves = false;
        }
        return Vec::new();
    }
    list.filter_write("");
    snapshots::arrange_front(state)
}

/// The name or URL of what is in front: of the detail, or of the selected row.
pub(super) fn name_in_front(state: &State) -> Option<String> {
    let retry = |retry: &Retry| {
        let queue = retry.queue.as_ref().map(|queue| queue.as_str().to_owned());
        queue.or_else(|| retry.url.as_ref().map(|url| url.as_str().to_owned()))
    };
    let named = |scope: &PolicyScope| {
        let url = scope.url.as_ref().map(|url| url.as_str().to_owned());
        url.or_else(|| scope.event_type.clone())
    };
    match (state.details.last().map(|detail| &detail.subject), state.view) {
        (Some(Subject::Queue(name)), _) => Some(name.as_str().to_owned()),
        (Some(Subject::Endpoint(url)), _) => Some(url.as_str().to_owned()),
        (Some(Subject::Policy(scope)), _) => named(scope),
        (Some(Subject::Run(id) | Subject::Letter(id)), _) => Some(id.clone()),
        (Some(Subject::Event(id)), _) => Some(id.to_string()),
        (Some(Subject::EventType(name)), _) => Some(name.as_str().to_owned()),
        (None, View::Events) => events::copied(state),
        (None, View::Expiring) if state.shows_saves => {
            let row = state.saves.table.selected_row();
            row.map(|row| row.id.clone())
        }
        (None, View::Expiring) => {
            let row = state.expiring.table.selected_row();
            row.map(|row| row.name.as_str().to_owned())
        }
        (None, View::Dead) if state.dead_group.is_some() => {
            let row = state.dead_letters.table.selected_row();
            row.map(|row| row.id.as_str().to_owned())
        }
        (None, View::Dead) => state
            .dead_groups
            .table
            .selected_row()
            .map(|row| row.fingerprint.clone()),
        (None, View::Runs) => state.runs.table.selected_row().map(|row| row.record.id.clone()),
        (None, View::Queues) => state.queues.selected_row().map(|row| row.name.as_str().to_owned()),
        (None, View::Endpoints) => {
            let row = state.endpoints.selected_row();
            row.map(|row| row.endpoint.url.as_str().to_owned())
        }
        (None, View::Retries) => state.retries.selected_row().and_then(|row| retry(row)),
        (None, View::Policies) => state.policies.table.selected_row().and_then(|row| named(&row.scope)),
        (None, View::Audit) => state.audit.table.selected_row().map(|row| row.entry.target.clone()),
        (None, View::Overview | View::Log) => None,
    }
}

fn copy(state: &mut State) -> Vec<Effect> {
    let Some(text) = name_in_front(state) else {
        return Vec::new();
    };
    say::toast(state, Tone::Note, &format!("copied {}", say::name(&text)));
    vec![Effect::Copy(show(&text, COPIED_WIDTH_MAX))]
}

/// Leaving breaks off what runs, so that is said first.
fn quit(state: &mut State) -> Vec<Effect> {
    let running = state.tasks.iter().filter(|task| task.is_running()).count();
    let asked = state.leaving_until.is_some_and(|until| state.now < until);
    if running == 0 || asked {
        return vec![Effect::Quit];
    }
    state.leaving_until = Some(state.now.plus(LEAVE_AGAIN_WITHIN));
    let (verb, running) = (
        if running == 1 { "runs" } else { "run" },
        counted(u64::try_from(running).unwrap_or(u64::MAX), "action"),
    );
    let text = format!("{running} still {verb}: again to leave now; what has not begun is then not done");
    say::toast(state, Tone::Warning, &text);
    Vec::new()
}
