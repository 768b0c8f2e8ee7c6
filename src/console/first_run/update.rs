//! What a key does on the first screen. Pure.
//!
//! | in front | keys |
//! |---|---|
//! | what? | arrows, a number, Enter; `q`, Esc leave |
//! | where? | what is typed; Tab, arrows, Enter: the next line; Enter takes the address that is shown; on the last: try it; Esc back |
//! | being tried | Esc back |
//! | what was found | Enter, where nothing is broken, and `s` keep it, `o` this once, `l` only look, neither where it is of another store, `t` again, `e`, Esc back; `q` leaves |
//! | write this? | Enter, `y` write; arrows: where passwords go; Esc back; `q` leaves |
//!
//! Ctrl-C leaves anywhere. What writes wants a key that was pressed, alone, by a person.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::written::{files, has_secret};
use super::{Chosen, FirstEffect, FirstEvent, FirstRun, Found, Item, Pair, Question, Stage};
use crate::console::state::{SIZE_MIN, bounded};
use crate::console::typing;
use crate::console::typing::BURST_GAP;
use crate::domain::time::Timestamp;
use crate::engine::view::CheckResult;

const NOT_PASTED: &str = "pasted text is only taken in a line: nothing was done";
const NOT_YET: &str =
    "not everything works: t tries again, l only looks, e changes the addresses, s saves them as they are";
const OF_ANOTHER: &str =
    "not without the store of the daemons that deliver there: e enters its address, or another vhost";
const NO_PLACE: &str = "there is no place for a configuration: set HOME or XDG_CONFIG_HOME";

/// What `event` at `now` makes of the screen, and what is to be done about it.
pub fn update(first: &mut FirstRun, now: Timestamp, event: FirstEvent) -> Option<FirstEffect> {
    match event {
        FirstEvent::Key(key) if key.kind == KeyEventKind::Release => None,
        FirstEvent::Key(press) => key(first, now, press),
        FirstEvent::Paste(text) => {
            paste(first, &text);
            None
        }
        FirstEvent::Resize(columns, rows) => {
            first.size = bounded((columns, rows));
            None
        }
        FirstEvent::Tested(found) => {
            if first.stage == Stage::Testing {
                first.stage = Stage::Tested(found);
            }
            None
        }
        FirstEvent::Written(result) => written(first, result),
    }
}

fn key(first: &mut FirstRun, now: Timestamp, press: KeyEvent) -> Option<FirstEffect> {
    let gap = first.last_key_at.replace(now).map(|at| now.since(at));
    let deliberate = press.kind == KeyEventKind::Press && gap.is_none_or(|gap| gap >= BURST_GAP);
    if press.code == KeyCode::Char('c') && press.modifiers.contains(KeyModifiers::CONTROL) {
        return Some(leave());
    }
    first.note = None;
    if first.size.0 < SIZE_MIN.0 || first.size.1 < SIZE_MIN.1 {
        return None;
    }
    match &first.stage {
        Stage::Menu { selected } => menu(first, *selected, press),
        Stage::Form => form(first, press),
        Stage::Testing => testing(first, press),
        Stage::Tested(_) => tested(first, press),
        Stage::Save { .. } => save(first, press, deliberate),
    }
}

const fn leave() -> FirstEffect {
    FirstEffect::End(Chosen::Leave)
}

fn menu(first: &mut FirstRun, selected: usize, press: KeyEvent) -> Option<FirstEffect> {
    let last = Item::ALL.len() - 1;
    let chosen = match (press.code, press.kind) {
        (KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab, _) => {
            first.stage = Stage::Menu {
                selected: selected.saturating_sub(1),
            };
            None
        }
        (KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab, _) => {
            first.stage = Stage::Menu {
                selected: (selected + 1).min(last),
            };
            None
        }
        (KeyCode::Enter, KeyEventKind::Press) => Item::ALL.get(selected),
        (KeyCode::Char(digit @ '1'..='4'), _) => digit
            .to_digit(10)
            .and_then(|digit| Item::ALL.get(usize::try_from(digit).ok()?.checked_sub(1)?)),
        (KeyCode::Esc | KeyCode::Char('q'), _) => Some(&Item::Leave),
        _ => None,
    };
    chosen.and_then(|item| choose(first, *item))
}

fn choose(first: &mut FirstRun, item: Item) -> Option<FirstEffect> {
    match item {
        Item::RabbitMq => {
            first.pair = Pair::RabbitMq;
            first.stage = Stage::Form;
            None
        }
        Item::EmbeddedOnce => {
            first.pair = Pair::Embedded;
            go_on(first)
        }
        Item::EmbeddedKept => {
            first.pair = Pair::Embedded;
            ask_to_save(first);
            None
        }
        Item::Leave => Some(leave()),
    }
}

/// Goes on with the answers as they are; nothing is written.
fn go_on(first: &mut FirstRun) -> Option<FirstEffect> {
    match first.config() {
        Ok(config) => Some(FirstEffect::End(Chosen::Use(Box::new(config)))),
        Err(why) => {
            first.note = Some(why);
            None
        }
    }
}

/// The same without the right to change anything: enough for those who only have dead letters to read.
fn only_look(first: &mut FirstRun) -> Option<FirstEffect> {
    let mut effect = go_on(first);
    if let Some(FirstEffect::End(Chosen::Use(config))) = &mut effect {
        config.profile.read_only = true;
    }
    effect
}

fn ask_to_save(first: &mut FirstRun) {
    if first.settings.path.is_none() {
        first.note = Some(NO_PLACE.to_owned());
        return;
    }
    let found = match std::mem::replace(&mut first.stage, Stage::Form) {
        Stage::Tested(found) => found,
        Stage::Menu { .. } | Stage::Form | Stage::Testing | Stage::Save { .. } => Found::default(),
    };
    first.stage = Stage::Save { found, problem: None };
}

fn form(first: &mut FirstRun, press: KeyEvent) -> Option<FirstEffect> {
    let last = first.form.lines.len() - 1;
    let at_last = first.form.selected >= last;
    match (press.code, press.kind) {
        (KeyCode::Esc, _) => first.stage = Stage::Menu { selected: 0 },
        (KeyCode::Enter, KeyEventKind::Press) if at_last => return try_it(first),
        (KeyCode::Enter, _) if at_last => {}
        (KeyCode::Enter, KeyEventKind::Press) if first.form.question() == Question::Broker && is_empty(first) => {
            take_guess(first);
            step(first, 1);
        }
        (KeyCode::Down | KeyCode::Tab | KeyCode::Enter, _) => step(first, 1),
        (KeyCode::Up | KeyCode::BackTab, _) => step(first, -1),
        (KeyCode::Right, _) if is_empty(first) => take_guess(first),
        _ => {
            if let Some(request) = typing::request(press.code, press.modifiers) {
                first.form.edit(request);
            }
        }
    }
    None
}

fn take_guess(first: &mut FirstRun) {
    let environment = first.settings.environment.clone();
    first.form.take_guess(&environment);
}

fn is_empty(first: &FirstRun) -> bool {
    let line = first.form.lines.get(first.form.selected);
    line.is_some_and(|line| line.input.value().is_empty())
}

/// To the next line or the one before; what is wrong with the one that is left is told at once.
fn step(first: &mut FirstRun, by: isize) {
    let typed = first.form.answers();
    let all_empty = Question::ALL.into_iter().all(|question| typed.get(question).is_empty());
    first.form.problem = if all_empty { None } else { checked(first).err() };
    let last = first.form.lines.len() - 1;
    first.form.selected = first.form.selected.saturating_add_signed(by).min(last);
}

/// The configuration; without an address there is nothing to try.
fn checked(first: &FirstRun) -> Result<crate::config::Config, String> {
    let broker = first.form.answers();
    match broker.get(Question::Broker) {
        "" => Err("broker: where is it? amqp://localhost is one on this host; Right takes it".to_owned()),
        "embedded:" => Err("broker: Esc goes back to where embedded can be chosen".to_owned()),
        _ => first.config(),
    }
}

fn try_it(first: &mut FirstRun) -> Option<FirstEffect> {
    match checked(first) {
        Ok(config) => {
            first.form.problem = None;
            first.stage = Stage::Testing;
            Some(FirstEffect::Test(Box::new(config)))
        }
        Err(why) => {
            let about = |question: &Question| {
                let (section, key) = question.key();
                why.starts_with(&format!("{section}.{key} ")) || why.starts_with(&format!("{}: ", question.title()))
            };
            if let Some(at) = Question::ALL.iter().position(about) {
                first.form.selected = at;
            }
            first.form.problem = Some(why);
            None
        }
    }
}

fn testing(first: &mut FirstRun, press: KeyEvent) -> Option<FirstEffect> {
    match (press.code, press.kind) {
        (KeyCode::Esc, _) => {
            first.stage = Stage::Form;
            Some(FirstEffect::Forget)
        }
        (KeyCode::Char('q'), _) => Some(leave()),
        _ => None,
    }
}

fn tested(first: &mut FirstRun, press: KeyEvent) -> Option<FirstEffect> {
    match (press.code, press.kind) {
        (KeyCode::Enter | KeyCode::Char('o' | 'l'), KeyEventKind::Press) if is_of_another(&first.stage) => {
            first.note = Some(OF_ANOTHER.to_owned());
            None
        }
        (KeyCode::Enter, KeyEventKind::Press) if is_broken(&first.stage) => {
            first.note = Some(NOT_YET.to_owned());
            None
        }
        (KeyCode::Enter, KeyEventKind::Press) | (KeyCode::Char('s'), _) => {
            ask_to_save(first);
            None
        }
        (KeyCode::Char('o'), KeyEventKind::Press) => go_on(first),
        (KeyCode::Char('l'), KeyEventKind::Press) => only_look(first),
        (KeyCode::Char('t'), KeyEventKind::Press) => try_it(first),
        (KeyCode::Esc | KeyCode::Char('e'), _) => {
            first.stage = Stage::Form;
            first.form.selected = 0;
            None
        }
        (KeyCode::Char('q'), _) => Some(leave()),
        _ => None,
    }
}

/// Whether something of what was tried does not work.
#[must_use]
pub(in crate::console) fn is_broken(stage: &Stage) -> bool {
    matches!(stage, Stage::Tested(found) if found.checks.iter().any(|check| check.result == CheckResult::Broken))
}

/// Whether daemons of another store deliver what was tried.
#[must_use]
pub(in crate::console) const fn is_of_another(stage: &Stage) -> bool {
    matches!(stage, Stage::Tested(found) if found.is_of_another)
}

fn save(first: &mut FirstRun, press: KeyEvent, deliberate: bool) -> Option<FirstEffect> {
    match (press.code, deliberate) {
        (KeyCode::Enter | KeyCode::Char('y'), true) => {
            let path = first.settings.path.clone()?;
            return Some(FirstEffect::Write(files(&first.answers(), first.keep, &path)));
        }
        (KeyCode::Left | KeyCode::Right | KeyCode::Tab | KeyCode::BackTab, _) if asks_where(first) => {
            first.keep = first.keep.turn(matches!(press.code, KeyCode::Right | KeyCode::Tab));
            if let Stage::Save { problem, .. } = &mut first.stage {
                *problem = None;
            }
        }
        (KeyCode::Esc | KeyCode::Char('n'), _) => back(first),
        (KeyCode::Char('q'), _) => return Some(leave()),
        _ => {}
    }
    None
}

/// Whether there is a password that could go to one place or another.
#[must_use]
pub(in crate::console) fn asks_where(first: &FirstRun) -> bool {
    let answers = first.answers();
    Question::ALL
        .into_iter()
        .any(|question| has_secret(answers.get(question)))
}

fn back(first: &mut FirstRun) {
    let stage = match (&mut first.stage, first.pair) {
        (Stage::Save { found, .. }, Pair::RabbitMq) => Stage::Tested(std::mem::take(found)),
        _ => Stage::Menu { selected: 2 },
    };
    first.stage = stage;
}

/// The configuration goes on as it was tried: a variable that it names now is not set here yet.
fn written(first: &mut FirstRun, result: Result<(), String>) -> Option<FirstEffect> {
    match result {
        Ok(()) => {
            let mut config = first.config().ok()?;
            config.file.clone_from(&first.settings.path);
            Some(FirstEffect::End(Chosen::Use(Box::new(config))))
        }
        Err(why) => {
            if let Stage::Save { problem, .. } = &mut first.stage {
                *problem = Some(why);
            }
            None
        }
    }
}

fn paste(first: &mut FirstRun, text: &str) {
    if first.stage != Stage::Form {
        first.note = Some(NOT_PASTED.to_owned());
        return;
    }
    for character in text.lines().next().unwrap_or_default().trim().chars() {
        first.form.edit(tui_input::InputRequest::InsertChar(character));
    }
}
