//! Whether an action is possible now, or why not. Asked with every frame: none looks at more than a row.

use super::{ActionId, Reason};
use crate::console::detail::{Detail, DetailTab, Subject};
use crate::console::state::{Link, State, View};
use crate::console::table::List;
use crate::console::update::{dead, events, expiring, relatives, scope, undo as undoing};
use crate::engine::snapshot::Silent;

type Possible = Result<(), Reason>;

#[expect(clippy::unnecessary_wraps, reason = "one shape for every action of the table")]
pub(super) fn always(_: &State) -> Possible {
    Ok(())
}

pub(super) fn list(state: &State) -> Possible {
    with_list(state, |_| Ok(()))
}

pub(super) fn selected(state: &State) -> Possible {
    with_list(state, |list| require(list.has_selection(), "nothing is selected"))
}

pub(super) fn mark_range(state: &State) -> Possible {
    with_list(state, |list| require(list.has_anchor(), "nothing is marked yet"))
}

pub(super) fn unmark(state: &State) -> Possible {
    with_list(state, |list| {
        let marks = list.mark_counts();
        require(marks.shown + marks.hidden + marks.gone > 0, "nothing is marked")
    })
}

pub(super) fn open(state: &State) -> Possible {
    match state.details.last() {
        Some(detail) if detail.event_type().is_some() && detail.tab != DetailTab::Subscriptions => {
            Err("it leads nowhere: Tab shows its subscriptions".into())
        }
        Some(detail) => require(detail.leads_to().is_some(), "its endpoint is not known"),
        None if state.view == View::Overview => require(state.worst().is_some(), "nothing is wrong"),
        None if state.view == View::Audit => {
            selected(state)?;
            require(
                relatives::of_audit(state).is_some(),
                "it is about nothing that can be opened",
            )
        }
        None if state.view == View::Expiring && state.shows_saves => Err("R puts it back".into()),
        None => selected(state),
    }
}

pub(super) fn payload_form(state: &State) -> Possible {
    let shows = state.details.last().is_some_and(|detail| {
        let begun = matches!(detail.tab, DetailTab::Messages | DetailTab::Payload);
        begun || (detail.shows_payload() && has_text(detail))
    });
    require(shows, "no payload is open")
}

/// In a list a filter, in a payload what is looked for.
pub(super) fn filter(state: &State) -> Possible {
    match state.details.last() {
        Some(detail) => require(detail.shows_payload() && has_text(detail), "no payload is open"),
        None => list(state),
    }
}

pub(super) fn step_match(state: &State) -> Possible {
    let find = state.details.last().and_then(|detail| detail.find.as_ref());
    let found = find.is_some_and(|find| !find.places.is_empty());
    require(found, "nothing was found: / looks for a text in a payload")
}

/// Who looks is written down, so where nothing can be written nobody looks.
pub(super) fn reveal(state: &State) -> Possible {
    let page = state.details.last().and_then(|detail| detail.page.as_ref());
    let page = page.filter(|page| page.hidden > 0);
    let page = page.ok_or("nothing is masked here")?;
    if page.revealed {
        return Ok(());
    }
    if let Some(why) = &state.place.read_only {
        return Err(format!("who looks is written into the audit, and this is read-only: {why}").into());
    }
    connected(state)
}

fn has_text(detail: &Detail) -> bool {
    detail.page.as_ref().is_some_and(|page| !page.lines.is_empty())
}

pub(super) fn related_queues(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedQueues)
}

pub(super) fn related_endpoint(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedEndpoint)
}

pub(super) fn related_attempts(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedAttempts)
}

pub(super) fn related_dead(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedDead)
}

pub(super) fn related_policy(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedPolicy)
}

pub(super) fn related_run(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedRun)
}

pub(super) fn related_audit(state: &State) -> Possible {
    relatives::possible(state, ActionId::RelatedAudit)
}

pub(super) fn go_back(state: &State) -> Possible {
    require(state.trail.has_behind(), "there is no place before this one")
}

pub(super) fn go_forward(state: &State) -> Possible {
    require(state.trail.has_ahead(), "there is no place after this one")
}

pub(super) fn copy_command(state: &State) -> Possible {
    require(crate::console::link::command(state).is_some(), "no command prints this")
}

pub(super) fn undo(state: &State) -> Possible {
    writable(state)?;
    undoing::possible(state)
}

/// What cannot be undone is not done on old numbers.
pub(super) fn purge(state: &State) -> Possible {
    mutate(state, ActionId::Purge)?;
    fresh(state)
}

pub(super) fn skip_head(state: &State) -> Possible {
    mutate(state, ActionId::SkipHead)
}

pub(super) fn make_vhost(state: &State) -> Possible {
    writable(state)?;
    let silent = state.snapshot.as_ref().and_then(|snapshot| snapshot.silent);
    require(silent == Some(Silent::Vhost), "the vhost is there")
}

fn fresh(state: &State) -> Possible {
    if let Some(at) = state.frozen_at {
        let span = state.now.since(at).as_secs();
        return Err(format!("what is shown is frozen since {span} s: look at it live first").into());
    }
    let broken = state
        .snapshot
        .as_ref()
        .is_none_or(|snapshot| snapshot.broker.problem.is_some() || snapshot.store.problem.is_some());
    if broken || !state.is_live() {
        return Err("what is shown is old: messages are not removed on old numbers".into());
    }
    Ok(())
}

pub(super) fn back(state: &State) -> Possible {
    let something = !state.details.is_empty()
        || (state.view == View::Dead && state.dead_group.is_some())
        || (state.view == View::Expiring && state.shows_saves)
        || (state.view == View::Events && state.events.choice.is_some())
        || state.list().is_some_and(|list| {
            let marks = list.mark_counts();
            !list.filter().text.is_empty() || marks.shown + marks.hidden + marks.gone > 0
        });
    require(something, "nothing is open")
}

pub(super) fn browse(state: &State) -> Possible {
    connected(state)?;
    match state.details.last().map(|detail| &detail.subject) {
        Some(Subject::Queue(_)) => Ok(()),
        Some(Subject::Endpoint(_)) => Err("an endpoint has no messages: open one of its queues".into()),
        Some(_) => Err("only a queue has messages".into()),
        None => Err("open a queue first".into()),
    }
}

pub(super) fn copy(state: &State) -> Possible {
    match state.details.last() {
        Some(_) => Ok(()),
        None => selected(state),
    }
}

pub(super) fn refresh(state: &State) -> Possible {
    connected(state)
}

pub(super) fn freeze(state: &State) -> Possible {
    require(
        state.snapshot.is_some() || state.frozen_at.is_some(),
        "nothing is shown yet",
    )
}

pub(super) fn redeliver(state: &State) -> Possible {
    mutate(state, ActionId::Redeliver)
}

pub(super) fn redeliver_shown(state: &State) -> Possible {
    mutate(state, ActionId::RedeliverShown)
}

pub(super) fn pause(state: &State) -> Possible {
    mutate(state, ActionId::Pause)
}

pub(super) fn resume(state: &State) -> Possible {
    mutate(state, ActionId::Resume)
}

pub(super) fn test(state: &State) -> Possible {
    mutate(state, ActionId::Test)
}

pub(super) fn disable(state: &State) -> Possible {
    mutate(state, ActionId::Disable)
}

pub(super) fn edit_policy(state: &State) -> Possible {
    writable(state)?;
    scope::policy(state).map(drop)
}

pub(super) fn unset_policy(state: &State) -> Possible {
    mutate(state, ActionId::UnsetPolicy)
}

pub(super) fn restore_policy(state: &State) -> Possible {
    writable(state)?;
    let version = state.details.last().and_then(|detail| detail.selected_version());
    require(version.is_some(), "select a version in the history (H)")
}

pub(super) fn policy_history(state: &State) -> Possible {
    scope::policy(state).map(drop)
}

pub(super) fn redrive(state: &State) -> Possible {
    writable(state)?;
    dead::possible(state, ActionId::Redrive)
}

pub(super) fn redrive_shown(state: &State) -> Possible {
    writable(state)?;
    dead::possible(state, ActionId::RedriveShown)
}

pub(super) fn discard(state: &State) -> Possible {
    writable(state)?;
    dead::possible(state, ActionId::Discard)
}

pub(super) fn edit_letter(state: &State) -> Possible {
    writable(state)?;
    let letter = state.details.last().and_then(|detail| detail.letter());
    require(letter.is_some(), "open the dead letter first (Enter)")
}

pub(super) fn pause_run(state: &State) -> Possible {
    mutate(state, ActionId::PauseRun)
}

pub(super) fn resume_run(state: &State) -> Possible {
    mutate(state, ActionId::ResumeRun)
}

pub(super) fn cancel_run(state: &State) -> Possible {
    mutate(state, ActionId::CancelRun)
}

pub(super) fn restore_letters(state: &State) -> Possible {
    writable(state)?;
    scope::discarded(state).map(drop)
}

pub(super) fn retry_events(state: &State) -> Possible {
    writable(state)?;
    events::possible(state, ActionId::RetryEvents)
}

pub(super) fn retry_events_shown(state: &State) -> Possible {
    writable(state)?;
    events::possible(state, ActionId::RetryEventsShown)
}

pub(super) fn reschedule_events(state: &State) -> Possible {
    writable(state)?;
    events::possible(state, ActionId::RescheduleEvents)
}

pub(super) fn cancel_events(state: &State) -> Possible {
    writable(state)?;
    events::possible(state, ActionId::CancelEvents)
}

pub(super) fn edit_type(state: &State) -> Possible {
    writable(state)?;
    events::open_detail(state).map(drop)
}

pub(super) fn unsubscribe(state: &State) -> Possible {
    writable(state)?;
    events::open_detail(state)?;
    let selected = state.details.last().and_then(|detail| detail.selected_subscription());
    require(selected.is_some(), "select a subscription (Tab)")
}

pub(super) fn save_expiring(state: &State) -> Possible {
    of_expiring(state, ActionId::SaveExpiring)
}

pub(super) fn extend_expiring(state: &State) -> Possible {
    of_expiring(state, ActionId::ExtendExpiring)
}

pub(super) fn purge_expiring(state: &State) -> Possible {
    of_expiring(state, ActionId::PurgeExpiring)
}

pub(super) fn purge_expired(state: &State) -> Possible {
    of_expiring(state, ActionId::PurgeExpired)
}

pub(super) fn restore_saved(state: &State) -> Possible {
    of_expiring(state, ActionId::RestoreSaved)
}

fn of_expiring(state: &State, action: ActionId) -> Possible {
    writable(state)?;
    expiring::possible(state, action)
}

pub(super) fn open_type(state: &State) -> Possible {
    events::type_in_front(state).map(drop)
}

fn mutate(state: &State, action: ActionId) -> Possible {
    writable(state)?;
    scope::possible(state, action)
}

fn writable(state: &State) -> Possible {
    if let Some(why) = &state.place.read_only {
        let way = if state.profiles.window {
            " (:write 15m REASON allows changes)"
        } else {
            ""
        };
        return Err(format!("read-only: {why}{way}").into());
    }
    connected(state)
}

fn connected(state: &State) -> Possible {
    require(state.link == Link::Open, "still connecting")
}

fn with_list(state: &State, check: impl FnOnce(&dyn List) -> Possible) -> Possible {
    if !state.details.is_empty() {
        return Err("a detail is open: Esc closes it".into());
    }
    match state.list() {
        Some(list) => check(list),
        None => Err(no_list(state.view)),
    }
}

pub(in crate::console) fn no_list(view: View) -> Reason {
    format!("{} has no rows: go to queues or endpoints", view.title()).into()
}

fn require(fine: bool, why: &'static str) -> Possible {
    if fine { Ok(()) } else { Err(why.into()) }
}
