//! What happened between two snapshots, as toasts and entries of the log.
//!
//! Many changes of one kind at once are one sentence: the screen of an incident must stay readable.

use std::collections::{HashMap, HashSet};

use super::say::{self, counted};
use super::{State, courses, feeds};
use crate::console::journal::Tone;
use crate::console::state::effect::Effect;
use crate::domain::dead_letter::place_of;
use crate::domain::endpoint::EndpointState;
use crate::domain::queue::QueueState;
use crate::domain::url::EndpointUrl;
use crate::engine::snapshot::{EndpointRow, Part, QueueRow, Silent, Snapshot};

/// More changes of one kind than this are counted, not named.
const NAMED_MAX: usize = 5;

/// Says what is different now.
pub(super) fn tell(state: &mut State, before: &Snapshot, now: &Snapshot) -> Vec<Effect> {
    died(state, before, now);
    let (broken, mended) = match now.silent.or(before.silent) {
        Some(Silent::Daemon) => ("nothing is read", "the daemon answers again"),
        Some(Silent::Management) => ("the management API cannot be read", "the management API is read again"),
        Some(Silent::Vhost) => ("the vhost does not exist", "the vhost is there"),
        Some(Silent::Broker) | None => ("broker unreachable", "broker is back"),
    };
    part(state, ("broker", broken, mended), &before.broker, &now.broker);
    // A daemon that does not answer says nothing of the store.
    if now.silent.or(before.silent) != Some(Silent::Daemon) {
        let names = ("store", "store unreachable", "store is back");
        part(state, names, &before.store, &now.store);
    }
    endpoints(state, before, now);
    queues(state, before, now);
    courses::tell(state, before, now)
}

/// Something died just now where a place has more than before. When what is in a place that was not counted before died,
/// nobody knows: it may have been there all along, in the hands of a consumer.
fn died(state: &mut State, before: &Snapshot, now: &Snapshot) {
    let (Some(before), Some(places)) = (&before.dead_places, &now.dead_places) else {
        return;
    };
    let grew = |(name, count): (&String, &u64)| before.get(name).is_some_and(|before| count > before);
    let appeared = |(name, count): (&String, &u64)| *count > 0 && !before.contains_key(name);
    if places.iter().any(grew) {
        state.data.died_at = Some(now.taken_at);
    } else if places.iter().any(appeared) {
        state.data.died_at = None;
    }
}

fn part(state: &mut State, (name, broken, mended): (&str, &str, &str), before: &Part, now: &Part) {
    let (tone, text) = match (before.cause(), now.cause()) {
        (None, Some(cause)) => (Tone::Bad, format!("{broken}: {}", say::name(cause))),
        (Some(_), None) => {
            // Lists that waited for it, or could not be read meanwhile, are as new as the numbers.
            feeds::hurry(state);
            (Tone::Good, mended.to_owned())
        }
        (None, None) | (Some(_), Some(_)) => return,
    };
    say::happened(state, tone, &text);
    say::toast_about(state, tone, name, &text);
    if tone == Tone::Bad {
        say::call(state, name, &text);
    }
}

fn endpoints(state: &mut State, before: &Snapshot, now: &Snapshot) {
    let down: HashMap<&EndpointUrl, EndpointState> = before
        .endpoints
        .iter()
        .filter(|row| row.endpoint.state != EndpointState::Available)
        .map(|row| (&row.endpoint.url, row.endpoint.state))
        .collect();
    let known = |row: &EndpointRow| down.get(&row.endpoint.url).copied().unwrap_or_default();
    // Who may only look does not see the values in a query: of those that look alike nobody knows which one changed.
    let (mut seen, mut alike) = (HashSet::new(), HashSet::new());
    for row in now
        .endpoints
        .iter()
        .filter(|row| row.endpoint.url.as_str().contains('?'))
    {
        if !seen.insert(&row.endpoint.url) {
            alike.insert(&row.endpoint.url);
        }
    }
    let kinds = [
        (EndpointState::Unavailable, Tone::Warning, "unavailable", ["", ""]),
        (
            EndpointState::Parked,
            Tone::Bad,
            "parked",
            [": it waits for a person", ": they wait for a person"],
        ),
        (EndpointState::Disabled, Tone::Bad, "disabled", ["", ""]),
        (EndpointState::Available, Tone::Good, "available again", ["", ""]),
    ];
    let mut changed: [Vec<&EndpointRow>; 4] = Default::default();
    let changes = now.endpoints.iter().filter(|row| known(row) != row.endpoint.state);
    for row in changes.filter(|row| !alike.contains(&row.endpoint.url)) {
        let kind = kinds.iter().position(|(to, ..)| *to == row.endpoint.state);
        if let Some(rows) = kind.and_then(|kind| changed.get_mut(kind)) {
            rows.push(row);
        }
    }
    for ((_, tone, what, [one, many]), rows) in kinds.into_iter().zip(changed) {
        let sentences = rows.iter().map(|row| {
            let error = row.endpoint.last_error.as_deref().filter(|_| tone != Tone::Good);
            let why = error.map_or_else(String::new, |error| format!(" ({})", say::name(error)));
            format!("{} is {what}{one}{why}", say::url(&row.endpoint.url))
        });
        let cause = match rows.as_slice() {
            [one] => say::url(&one.endpoint.url),
            _ => "endpoints".to_owned(),
        };
        several(state, tone, &cause, sentences, |number| {
            format!("{} are {what}{many}", counted(number, "endpoint"))
        });
        if tone == Tone::Good && !rows.is_empty() {
            suggest_redrive(state, &rows);
        }
    }
}

/// What died of theirs while they were down does not come back by itself. What is not known to have died is not told.
fn suggest_redrive(state: &mut State, back: &[&EndpointRow]) {
    let places: HashSet<String> = back.iter().map(|row| place_of(&row.endpoint.url)).collect();
    let groups = state.lists.dead.groups.table.rows.iter();
    let dead: u64 = groups
        .filter(|group| places.contains(&group.place))
        .map(|group| group.count)
        .sum();
    if dead == 0 {
        return;
    }
    let Some(key) = state.input.keymap.label("dead_letters") else {
        return;
    };
    let whose = match back {
        [one] => say::url(&one.endpoint.url),
        _ => "theirs".to_owned(),
    };
    let text = format!(
        "{} of {whose} may be redriven now: press {key} to see them",
        counted(dead, "dead letter")
    );
    say::toast_about(state, Tone::Note, &format!("dead letters of {whose}"), &text);
}

fn queues(state: &mut State, before: &Snapshot, now: &Snapshot) {
    for (kind, what) in [
        (QueueState::Quarantined, "quarantined"),
        (QueueState::Refused, "refused"),
    ] {
        let is_kind = |row: &&QueueRow| row.state == Some(kind);
        let known: HashSet<&str> = before
            .queues
            .iter()
            .map(|row| &**row)
            .filter(is_kind)
            .map(|row| row.name.as_str())
            .collect();
        let rows = now.queues.iter().map(|row| &**row).filter(is_kind);
        let new: Vec<&QueueRow> = rows.filter(|row| !known.contains(row.name.as_str())).collect();
        let sentences = new.iter().map(|row| {
            let why = row
                .why()
                .map_or_else(String::new, |why| format!(": {}", say::name(why)));
            format!("queue {} is {what}{why}", say::name(row.name.as_str()))
        });
        several(state, Tone::Bad, what, sentences, |many| {
            format!("{} are {what}", counted(many, "queue"))
        });
    }
}

/// Each for itself where they are few; one toast at most.
fn several(
    state: &mut State,
    tone: Tone,
    cause: &str,
    sentences: impl ExactSizeIterator<Item = String>,
    together: impl Fn(u64) -> String,
) {
    let count = sentences.len();
    let many = u64::try_from(count).unwrap_or(u64::MAX);
    if count > NAMED_MAX {
        let text = together(many);
        say::happened(state, tone, &text);
        if tone != Tone::Good {
            say::call(state, cause, &text);
        }
        say::toast_about(state, tone, cause, &text);
        return;
    }
    let sentences: Vec<String> = sentences.collect();
    for text in &sentences {
        say::happened(state, tone, text);
        if tone != Tone::Good {
            // Whatever the reason is this time.
            let cause = text.split(" (").next().and_then(|cause| cause.split(": ").next());
            say::call(state, cause.unwrap_or(text), text);
        }
    }
    match sentences.as_slice() {
        [] => {}
        [one] => say::toast_about(state, tone, cause, one),
        _ => say::toast_about(state, tone, cause, &together(many)),
    }
}
