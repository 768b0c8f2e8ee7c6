//! The line behind `:`: typed, completed, recalled, and done.

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use super::keys::{self, Press};
use super::{State, details, verbs};
use crate::console::state::effect::Effect;
use crate::console::state::palette::{self, Candidate, Choice, FindJob, FoundObjects, INLINE_MAX};
use crate::console::state::{Mode, verb};
use crate::console::{fuzzy, typing};

/// A line has at most this many bytes.
const LINE_BYTES_MAX: usize = 4_096;

/// Opens the line.
pub(in crate::console) fn open(state: &mut State) -> Vec<Effect> {
    open_with(state, "")
}

/// Opens it with the beginning of a command, to be completed.
pub(super) fn open_with(state: &mut State, typed: &str) -> Vec<Effect> {
    state.input.mode = Mode::Palette(Box::default());
    if let Mode::Palette(palette) = &mut state.input.mode {
        palette.input = Input::from(typed);
    }
    look(state)
}

/// A key while the line is open.
pub(super) fn key(state: &mut State, press: Press) -> Vec<Effect> {
    let control = press.key.modifiers.contains(KeyModifiers::CONTROL);
    match (press.key.code, control) {
        (KeyCode::Esc, _) | (KeyCode::Char('c'), true) => state.input.mode = Mode::Browse,
        (KeyCode::Enter, _) => return choose(state, press),
        (KeyCode::Tab, _) => return complete(state),
        (KeyCode::Char('p'), true) => return recall(state, 1),
        (KeyCode::Char('n'), true) => return recall(state, -1),
        (KeyCode::Up, _) if is_empty_or_recalled(state) => return recall(state, 1),
        (KeyCode::Down, _) if is_recalled(state) => return recall(state, -1),
        (KeyCode::Up | KeyCode::BackTab, _) => step(state, -1),
        (KeyCode::Down, _) => step(state, 1),
        (code, _) => {
            if let Some(request) = typing::request(code, press.key.modifiers) {
                return edit(state, &[request]);
            }
        }
    }
    Vec::new()
}

/// What is pasted is written, and nothing is done by it.
pub(super) fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    edit(state, &typing::pasted(text, LINE_BYTES_MAX))
}

/// Names that were looked for beside the screen's task.
pub(super) fn found(state: &mut State, found: FoundObjects) {
    let Mode::Palette(palette) = &mut state.input.mode else {
        return;
    };
    if palette.ticket == found.ticket {
        palette.found.extend(found.objects);
        palette::sort(&mut palette.found);
    }
}

fn edit(state: &mut State, requests: &[InputRequest]) -> Vec<Effect> {
    let Mode::Palette(palette) = &mut state.input.mode else {
        return Vec::new();
    };
    if !typing::edit(&mut palette.input, requests, LINE_BYTES_MAX) {
        return Vec::new();
    }
    palette.recalled = None;
    look(state)
}

/// What the line could mean now.
fn look(state: &mut State) -> Vec<Effect> {
    let Mode::Palette(open) = &state.input.mode else {
        return Vec::new();
    };
    let typed = open.input.value().to_owned();
    let ticket = open.ticket + 1;
    let (mut found, job) = match verb::read(&typed) {
        Some((spec, rest)) => (verbs::candidates(state, spec, rest, &typed), None),
        None => objects(state, &typed, ticket),
    };
    palette::sort(&mut found);
    if let Mode::Palette(open) = &mut state.input.mode {
        open.found = found;
        open.ticket = ticket;
        open.selected = 0;
        open.problem = None;
    }
    job.into_iter().collect()
}

fn objects(state: &State, typed: &str, ticket: u64) -> (Vec<Candidate>, Option<Effect>) {
    let mut found = palette::at_once(state, typed);
    let words = fuzzy::words(typed);
    let Some(snapshot) = state.data.snapshot.as_ref().filter(|_| !words.is_empty()) else {
        return (found, None);
    };
    if snapshot.queues.len() + snapshot.endpoints.len() <= INLINE_MAX {
        found.extend(palette::of_snapshot(&words, snapshot));
        return (found, None);
    }
    let job = FindJob {
        ticket,
        words,
        snapshot: snapshot.clone(),
    };
    (found, Some(Effect::Find(job)))
}

fn step(state: &mut State, by: isize) {
    if let Mode::Palette(palette) = &mut state.input.mode {
        let last = palette.found.len().saturating_sub(1);
        palette.selected = palette.selected.saturating_add_signed(by).min(last);
    }
}

fn is_empty_or_recalled(state: &State) -> bool {
    is_recalled(state) || matches!(&state.input.mode, Mode::Palette(palette) if palette.input.value().is_empty())
}

fn is_recalled(state: &State) -> bool {
    matches!(&state.input.mode, Mode::Palette(palette) if palette.recalled.is_some())
}

/// A line of before; behind the newest one stands the empty line.
fn recall(state: &mut State, by: isize) -> Vec<Effect> {
    let Mode::Palette(palette) = &mut state.input.mode else {
        return Vec::new();
    };
    let next = match (palette.recalled, by > 0) {
        (None, true) => Some(0),
        (None | Some(0), false) => None,
        (Some(back), _) => back.checked_add_signed(by),
    };
    let line = match next {
        None => "",
        Some(back) => match state.input.lines.back(back) {
            Some(line) => line,
            None => return Vec::new(),
        },
    };
    palette.input = Input::new(line.to_owned());
    let effects = look(state);
    if let Mode::Palette(palette) = &mut state.input.mode {
        palette.recalled = next;
    }
    effects
}

/// The chosen candidate becomes the line.
fn complete(state: &mut State) -> Vec<Effect> {
    let Mode::Palette(palette) = &mut state.input.mode else {
        return Vec::new();
    };
    let line = match palette
        .found
        .get(palette.selected)
        .map(|candidate| (candidate, &candidate.choice))
    {
        Some((_, Choice::Verb(spec))) => format!("{} ", spec.name),
        Some((_, Choice::Line(line))) => line.clone(),
        Some((candidate, Choice::Action(_) | Choice::Open(_) | Choice::Group(_))) => candidate.name.clone(),
        None => return Vec::new(),
    };
    if line == palette.input.value() {
        return Vec::new();
    }
    palette.input = Input::new(line);
    palette.recalled = None;
    look(state)
}

/// Does what is chosen. What changes something wants a key that a person pressed, and asks first.
fn choose(state: &mut State, press: Press) -> Vec<Effect> {
    let Mode::Palette(palette) = &mut state.input.mode else {
        return Vec::new();
    };
    if !press.deliberate {
        return Vec::new();
    }
    let Some(chosen) = palette.found.get(palette.selected).cloned() else {
        palette.problem = Some("nothing is called like that".to_owned());
        return Vec::new();
    };
    if let Some(why) = chosen.refused {
        palette.problem = Some(format!("{}: {why}", chosen.name));
        return Vec::new();
    }
    let typed = palette.input.value().to_owned();
    if !matches!(chosen.choice, Choice::Verb(_)) {
        state.input.recent.remember(&chosen);
    }
    match chosen.choice {
        Choice::Verb(_) => complete(state),
        Choice::Line(line) => verbs::run(state, &line),
        Choice::Action(action) => {
            leave(state, &typed);
            keys::try_action(state, action, press)
        }
        Choice::Open(subject) => {
            leave(state, &typed);
            details::open_subject(state, subject)
        }
        Choice::Group(group) => {
            leave(state, &typed);
            details::show_group(state, group)
        }
    }
}

/// The line is left, and remembered.
pub(super) fn leave(state: &mut State, line: &str) {
    state.input.lines.remember(line);
    state.input.mode = Mode::Browse;
}
