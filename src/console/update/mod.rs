//! The one function that changes the [`State`].
//!
//! | file | what it changes |
//! |---|---|
//! | `help.rs` | the help: what is looked for in it, and scrolling |
//! | `menu.rs` | the list of what can be done with the row in front |
//! | `keys.rs` | which key goes where: bursts, repeats, sequences, pasted text |
//! | `act.rs` | what an action begins, and moving |
//! | `filter.rs`, `columns.rs` | the filter line, the choice of columns |
//! | `details.rs`, `find.rs`, `reveal.rs` | open details; what is looked for and revealed in their payload |
//! | `preview.rs` | what stands beside the list, and follows its selection |
//! | `policy.rs`, `edit.rs` | the form of a policy, a payload that was written in an editor |
//! | `events.rs`, `forms.rs` | what is about the event table: its types, a due time, forms |
//! | `scope.rs`, `confirm.rs`, `answers.rs` | a mutation: what it is about, its confirmation, what came of it |
//! | `pace.rs` | how fast a run that is confirmed goes |
//! | `snapshots.rs`, `differences.rs` | newer data, and what happened since the last |
//! | `feeds.rs` | the lists that are asked for while they are in front |
//! | `palette.rs`, `verbs.rs` | the line behind `:`, and the commands in it |
//! | `trail.rs`, `relatives.rs` | back and forward, and from anything to what belongs to it |
//! | `profiles.rs` | every profile on one page |
//! | `views.rs` | views that have a name |
//! | `window.rs`, `undo.rs` | the time for changes of a protected profile, what takes the last action back |
//! | `at.rs` | the place that the console was started for |
//! | `mouse.rs` | the wheel and clicks |
//! | `open_runs.rs` | open runs by name, from anywhere |
//! | `reload.rs` | the configuration, read again |
//! | `say.rs` | toasts and the action log |
//! | `wake.rs` | when something changes by time alone |
//!
//! What is particular about one kind of rows stands in `actions` and `views`.

pub(in crate::console) mod act;
pub(in crate::console) mod answers;
mod at;
pub(in crate::console) mod columns;
mod confirm;
mod courses;
pub(in crate::console) mod details;
mod differences;
pub(in crate::console) mod edit;
pub(in crate::console) mod events;
pub(in crate::console) mod feeds;
pub(in crate::console) mod filter;
pub(in crate::console) mod find;
mod forms;
pub(in crate::console) mod health;
pub(in crate::console) mod help;
pub(in crate::console) mod keys;
pub(in crate::console) mod menu;
mod mouse;
mod open_runs;
mod pace;
mod page;
pub(in crate::console) mod palette;
pub(in crate::console) mod policy;
pub(in crate::console) mod preview;
pub(in crate::console) mod profiles;
pub(in crate::console) mod relatives;
mod reload;
pub(in crate::console) mod reveal;
pub(in crate::console) mod say;
pub(in crate::console) mod scope;
pub(in crate::console) mod snapshots;
#[cfg(test)]
mod tests;
pub(in crate::console) mod trail;
pub(in crate::console) mod undo;
pub(in crate::console) mod verbs;
pub(in crate::console) mod views;
mod wake;
pub(in crate::console) mod window;

use crate::console::journal::Tone;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::trail::Spot;
use crate::console::state::{Link, Mode, State, Work};
use crate::domain::outcome::OutcomeClass;
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::domain::turn::TurnKind;
use crate::engine;
use crate::engine::handle::Attached;

/// The reason of a failed connection is shown at most this wide.
const PROBLEM_WIDTH_MAX: usize = 400;

/// What `event` at `now` makes of the state, and what is to be done about it. Pure.
#[must_use]
pub fn update(state: &mut State, now: Timestamp, event: Event) -> Vec<Effect> {
    state.now = now;
    say::expire(state);
    let mut effects = window::expire(state);
    keys::forget_sequence(state);
    effects.extend(happen(state, event));
    effects.extend(preview::follow(state));
    details::lay_out(state);
    effects.extend(feeds::ask(state));
    effects.extend(page::ask_again(state));
    effects.extend(state.said.calls.take(now).map(Effect::Call));
    effects
}

fn happen(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Key(key) => return along_the_trail(state, |state| keys::key(state, key)),
        Event::Mouse(mouse) => return along_the_trail(state, |state| mouse::mouse(state, mouse)),
        Event::Paste(text) => return keys::paste(state, &text),
        Event::Snapshot(snapshot) => return snapshots::receive(state, snapshot),
        Event::Planned { request, result } => return confirm::planned(state, request, result),
        Event::Executed { request, item, result } => return answers::executed(state, request, item, result),
        Event::Resize { columns, rows } => state.resize((columns, rows)),
        Event::Focus(focused) => focus(state, focused),
        Event::Connecting {
            problem,
            attempt,
            next_at,
        } => connecting(state, problem, attempt, next_at),
        Event::Connected => state.data.link = Link::Open,
        Event::Attached(said) => attached(state, said),
        Event::Delivering(delivers) => delivering(state, delivers),
        Event::Engine(event) => engine_event(state, event),
        Event::Arranged(arranged) => {
            for listing in state.lists.all_mut() {
                listing.list_mut().take(&arranged);
            }
        }
        Event::Detail(answer) => details::answered(state, *answer),
        Event::Fed(fed) => return feeds::answered(state, fed),
        Event::Edited { of, result } => return edit::edited(state, of, result),
        Event::Found(found) => palette::found(state, found),
        Event::Saved(result) => verbs::saved(state, result),
        Event::Surveyed { profile, result } => profiles::answered(state, profile, result.map(|one| *one)),
        Event::Tried { profile, closed } => return profiles::tried(state, profile, closed),
        Event::Checked(result) => health::answered(state, result),
        Event::Ended(run) => return courses::ended(state, &run),
        Event::Kept(why) => say::toast(state, Tone::Bad, &format!("not kept beyond this console: {why}")),
        Event::Themed(result) => verbs::themed(state, result),
        Event::Revealed { key, result } => reveal::answered(state, &key, result),
        Event::Reloaded(result) => return reload::reloaded(state, result),
        Event::Tick => {}
    }
    Vec::new()
}

/// What an operator does; where he was is noted when he is elsewhere after it.
fn along_the_trail(state: &mut State, act: impl FnOnce(&mut State) -> Vec<Effect>) -> Vec<Effect> {
    let before = Spot::of(state);
    let effects = act(state);
    if !state.nav.trail_moved {
        trail::note(state, before);
    }
    state.nav.trail_moved = false;
    effects
}

fn focus(state: &mut State, focused: bool) {
    state.terminal.focused = focused;
    if !focused && matches!(state.input.mode, Mode::Dialog(_)) {
        confirm::close(state);
        say::toast(
            state,
            Tone::Warning,
            "the window lost the focus: the confirmation is closed, nothing was done",
        );
    }
}

fn connecting(state: &mut State, problem: Option<String>, attempt: u32, next_at: Timestamp) {
    let since = match state.data.link {
        Link::Connecting { since, .. } => since,
        Link::Open => state.now,
    };
    state.data.link = Link::Connecting {
        since,
        problem: problem.map(|text| show(&text, PROBLEM_WIDTH_MAX)),
        attempt,
        next_at,
    };
}

/// A daemon that was started again may know the token with other scopes.
fn attached(state: &mut State, said: Attached) {
    state.session.place.store = show(&format!("vhost {}", said.vhost), PROBLEM_WIDTH_MAX);
    let could = state.session.attached.as_ref().map(|before| before.may_change);
    let text = match (could, said.may_change) {
        (Some(true), false) => Some("this token may only look now: the daemon knows it without the scope \"operate\""),
        (Some(false), true) => Some("this token may change something now"),
        (None, _) | (Some(true), true) | (Some(false), false) => None,
    };
    state.session.attached = Some(said);
    if let Some(text) = text {
        say::happened(state, Tone::Warning, text);
        say::toast(state, Tone::Warning, text);
    }
}

fn delivering(state: &mut State, delivers: bool) {
    let work = if delivers { Work::Delivers } else { Work::StandsBy };
    if state.session.work == work {
        return;
    }
    state.session.work = work;
    let text = if delivers {
        "this process delivers"
    } else {
        "this process does not deliver any more: another one does, or it cannot"
    };
    say::happened(state, Tone::Note, text);
}

/// What the snapshots cannot tell; the rest comes with them.
fn engine_event(state: &mut State, event: engine::Event) {
    match event {
        engine::Event::Attempted(attempt) if attempt.class == OutcomeClass::Delivered => {
            state.data.attempts.delivered += 1;
        }
        engine::Event::Attempted(_) => state.data.attempts.failed += 1,
        engine::Event::DeadLettered { queue, reason } => {
            state.data.died_at = Some(state.now);
            let text = format!(
                "a message of {} was dead-lettered: {}",
                say::name(queue.as_str()),
                say::name(&reason)
            );
            say::happened(state, Tone::Warning, &text);
        }
        engine::Event::Incident(text) => say::happened(state, Tone::Warning, &say::name(&text)),
        engine::Event::QueueGone {
            queue, how, messages, ..
        } => {
            let lost = messages.unwrap_or(0);
            if lost > 0 {
                let text = format!(
                    "{} is gone ({}) with {}",
                    say::name(queue.as_str()),
                    how.as_str(),
                    say::counted(lost, "message")
                );
                say::happened(state, Tone::Warning, &text);
            }
        }
        // The rest is seen in the snapshots.
        engine::Event::Turned(turn) if turn.kind == TurnKind::DaemonDead => {
            say::notice(state, &turn.text);
        }
        engine::Event::Turned(_)
        | engine::Event::EndpointChanged { .. }
        | engine::Event::QueueEnded(_)
        | engine::Event::QueueRefused { .. }
        | engine::Event::Connection { .. } => {}
    }
}
