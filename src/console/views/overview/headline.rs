//! The one sentence: the worst thing that is so, with its number, its age and what happens next.
//!
//! 1. Nothing was read yet.
//! 2. Nobody delivers what waits.
//! 3. The broker takes no publishes.
//! 4. Endpoints are not available.
//! 5. Queues wait for a person.
//! 6. Dead letters wait for a person.
//! 7. Endpoints are held until a person has them go on, or queues are paused.
//! 8. Heads wait for their next attempt.
//! 9. It is not known, because something could not be read.
//! 10. Queues wait for a free slot.
//! 11. Nothing is stuck.

use super::trend::{self, Trend};
use crate::console::state::{State, Work, delivering};
use crate::console::theme::Role;
use crate::console::views::keys::by_keys;
use crate::console::views::list::OUTSIDE_MAX;
use crate::console::widgets::words::{count, plural, rate, span, until};
use crate::domain::endpoint::EndpointState;
use crate::domain::queue::QueueState;
use crate::domain::text::show;
use crate::engine::dead::DeadSum;
use crate::engine::snapshot::{Silent, Snapshot};

/// The sentence and how it is meant.
pub(in crate::console) fn of(state: &State) -> (String, Role) {
    let Some(snapshot) = &state.data.snapshot else {
        return (
            "Looking for the first time: broker and store have not answered yet …".to_owned(),
            Role::Title,
        );
    };
    nobody(state, snapshot)
        .or_else(|| blocked(state, snapshot))
        .or_else(|| endpoints(state, snapshot))
        .or_else(|| queues(snapshot))
        .or_else(|| dead(snapshot))
        .or_else(|| held(snapshot))
        .or_else(|| paused(snapshot))
        .or_else(|| retrying(state, snapshot))
        .or_else(|| unread(snapshot))
        .or_else(|| queued(snapshot))
        .unwrap_or_else(|| (fine(snapshot), Role::Good))
}

fn nobody(state: &State, snapshot: &Snapshot) -> Option<(String, Role)> {
    let waiting = snapshot.totals.waiting.filter(|waiting| *waiting > 0)?;
    // Who delivers is in the store.
    snapshot.store.taken_at?;
    if delivering(snapshot) > 0 || state.session.work == Work::Delivers {
        return None;
    }
    let wait = if waiting == 1 { "waits" } else { "wait" };
    let text = format!(
        "! Nobody delivers: {} {wait} and no process takes them. Start `redrive --daemon`.",
        plural(waiting, "message", "messages")
    );
    Some((text, Role::Critical))
}

/// Whether a queue is empty or not: who publishes is held up all the same. The banner says which alarm it is.
fn blocked(state: &State, snapshot: &Snapshot) -> Option<(String, Role)> {
    snapshot.alarm.as_ref()?;
    let waiting = snapshot.totals.waiting.filter(|waiting| *waiting > 0);
    let waiting = waiting.map_or_else(String::new, |waiting| {
        let wait = if waiting == 1 { "waits" } else { "wait" };
        let messages = plural(waiting, "message", "messages");
        format!(" Deliveries continue and make room: {messages} {wait}.")
    });
    let health = state.input.keymap.label("health");
    let health = health.map_or_else(String::new, |key| format!(" ({key} shows its nodes)"));
    let text = format!("! Broker alarm: publishing is blocked. Free memory or disk on the broker{health}.{waiting}");
    Some((text, Role::Critical))
}

fn endpoints(state: &State, snapshot: &Snapshot) -> Option<(String, Role)> {
    let totals = &snapshot.totals;
    let down = totals.endpoints_not_available();
    if down == 0 {
        return None;
    }
    let are = if down == 1 { "endpoint is" } else { "endpoints are" };
    let person = totals.endpoints_in(EndpointState::Parked) + totals.endpoints_in(EndpointState::Disabled) > 0;
    let next = match next_attempt(state, snapshot) {
        Some(next) => format!("; next attempt {next}"),
        None if person => by_keys("; it waits for `redrive redeliver`", state).into_owned(),
        None => "; tried with the next notification".to_owned(),
    };
    let oldest = totals
        .down_oldest_at
        .map(|at| format!(", the oldest {}", span(state.now.since(at))))
        .unwrap_or_default();
    let stuck = totals.down_waiting.map_or_else(
        || "an unknown number of messages waits".to_owned(),
        |stuck| {
            format!(
                "{} {}",
                plural(stuck, "message", "messages"),
                if stuck == 1 { "waits" } else { "wait" }
            )
        },
    );
    let text = format!("▼ {} {are} not available: {stuck}{oldest}{next}", count(down));
    Some((text, if person { Role::Critical } else { Role::Bad }))
}

fn queues(snapshot: &Snapshot) -> Option<(String, Role)> {
    let of = |state| snapshot.totals.queues_in(state);
    // What nobody has yet waits for a free slot, and for nobody's hand: no daemon at all was said before.
    let person = of(QueueState::Parked) + of(QueueState::Quarantined) + of(QueueState::Refused);
    if person > 0 {
        let text = format!(
            "! {} for a person: press 2, worst first",
            plural(person, "queue waits", "queues wait")
        );
        return Some((text, Role::Critical));
    }
    None
}

fn dead(snapshot: &Snapshot) -> Option<(String, Role)> {
    let sum = &snapshot.totals.dead;
    let is_one = sum.letters.unwrap_or(0) + sum.events.unwrap_or(0) == 1;
    let wait = if is_one { "waits" } else { "wait" };
    let text = format!("× {} {wait} for a person: press 5", dead_letters(sum)?);
    Some((text, Role::Warning))
}

/// `1,330 dead letters in 3 queues and 2 dead events`; nothing where none is known of.
pub(super) fn dead_letters(sum: &DeadSum) -> Option<String> {
    let letters = sum.letters.filter(|letters| *letters > 0).map(|letters| {
        let queues = if sum.queues > 1 {
            format!(" in {} queues", count(sum.queues))
        } else {
            String::new()
        };
        format!("{}{queues}", plural(letters, "dead letter", "dead letters"))
    });
    let events = sum.events.filter(|events| *events > 0);
    let events = events.map(|events| plural(events, "dead event", "dead events"));
    let parts: Vec<String> = letters.into_iter().chain(events).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// Paused, or after a canary that failed or that nobody watches.
fn held(snapshot: &Snapshot) -> Option<(String, Role)> {
    let held = snapshot.worst.held as u64;
    let text = format!(
        "◆ {} a person to go on: press 3, then U; everything else moves",
        plural(held, "endpoint waits for", "endpoints wait for")
    );
    (held > 0).then_some((text, Role::Warning))
}

fn paused(snapshot: &Snapshot) -> Option<(String, Role)> {
    let paused = snapshot.totals.queues_in(QueueState::Paused);
    let text = format!(
        "◆ {} paused by a person; everything else moves",
        plural(paused, "queue is", "queues are")
    );
    (paused > 0).then_some((text, Role::Warning))
}

fn retrying(state: &State, snapshot: &Snapshot) -> Option<(String, Role)> {
    let heads = snapshot.totals.queues_in(QueueState::WaitingRetry);
    if heads == 0 {
        return None;
    }
    let next = next_attempt(state, snapshot)
        .map(|next| format!("; next {next}"))
        .unwrap_or_default();
    let text = format!(
        "… {} for the next attempt of its head{next}",
        plural(heads, "queue waits", "queues wait")
    );
    Some((text, Role::Warning))
}

/// Nothing bad is known of, and something is not known.
fn unread(snapshot: &Snapshot) -> Option<(String, Role)> {
    let totals = &snapshot.totals;
    let because = |why: &Option<String>| why.as_deref().map(|why| show(why, OUTSIDE_MAX));
    if let (Some(Silent::Daemon), Some(why)) = (snapshot.silent, because(&snapshot.broker.problem)) {
        let text = format!("? Whether anything is stuck is not known: {why}");
        return Some((text, Role::Warning));
    }
    let (what, why) = if let Some(why) = because(&snapshot.broker.problem) {
        ("the queues of the broker", Some(why))
    } else if let Some(why) = because(&snapshot.store.problem) {
        ("the store", Some(why))
    } else if totals.dead.letters.is_none() {
        ("where dead letters are", because(&snapshot.dead_unread))
    } else if totals.dead.events.is_none() {
        ("how many events are dead", None)
    } else if totals.waiting.is_none() {
        ("how much waits", None)
    } else {
        return None;
    };
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let text = format!("? Whether anything is stuck is not known: {what} could not be read{why}");
    Some((text, Role::Warning))
}

fn queued(snapshot: &Snapshot) -> Option<(String, Role)> {
    let queued = snapshot.totals.queues_in(QueueState::Unowned);
    let text = format!(
        "… {} for a free worker or slot; nothing is stuck",
        plural(queued, "queue waits", "queues wait")
    );
    (queued > 0).then_some((text, Role::Info))
}

fn fine(snapshot: &Snapshot) -> String {
    match snapshot.totals.waiting.unwrap_or(0) {
        0 => "✓ Nothing is stuck, nothing waits.".to_owned(),
        waiting => format!(
            "✓ Nothing is stuck: {} on the way.",
            plural(waiting, "message is", "messages are")
        ),
    }
}

fn next_attempt(state: &State, snapshot: &Snapshot) -> Option<String> {
    let at = snapshot.retries.first()?.at?;
    Some(until(state.now, at))
}

/// Since when, better or worse, and how fast it comes and goes.
pub(super) fn since_and_trend(state: &State, snapshot: &Snapshot) -> String {
    let mut parts = Vec::new();
    if let Some(since) = snapshot.worst.down_since {
        parts.push(format!("since {}", span(state.now.since(since))));
    }
    parts.push(match trend::of(&state.data.history) {
        Trend::Unknown => "trend in a minute".to_owned(),
        Trend::Steady => "waiting: steady".to_owned(),
        Trend::Rising { by, over } => format!("waiting ▲ rising, +{} in {}", count(by), span(over)),
        Trend::Falling { by, over } => format!("waiting ▼ falling, −{} in {}", count(by), span(over)),
    });
    if let Some(rates) = trend::rates(&state.data.history) {
        let came = rates
            .came
            .map(|came| format!("in {}, ", rate(came)))
            .unwrap_or_default();
        parts.push(format!("{came}delivered {}", rate(rates.delivered)));
    }
    parts.join(" · ")
}
