//! The commands of the palette: what they take is offered, and they are done or say why not.

use std::path::PathBuf;
use std::sync::Arc;

use super::say::counted;
use super::{State, open_runs, say, snapshots, views, window};
use crate::console::fuzzy;
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::effect::{Content, Effect, Picture, SaveJob};
use crate::console::state::palette::{Candidate, Choice};
use crate::console::state::verb::{self, Verb, VerbSpec};
use crate::console::table::export::{Form, One, Records};
use crate::console::table::{Columns, List};
use crate::domain::url::redact_urls;

/// What the command could take, the line itself in front.
pub(super) fn candidates(state: &State, spec: &'static VerbSpec, rest: &str, line: &str) -> Vec<Candidate> {
    let one = |name: String, says: String, line: String, score| Candidate {
        kind: "command",
        name,
        says,
        refused: None,
        choice: Choice::Line(line),
        score,
    };
    let whole = one(
        line.trim().to_owned(),
        spec.help.to_owned(),
        line.trim().to_owned(),
        i32::MAX / 2,
    );
    let words = fuzzy::words(rest);
    let known = taken(state, spec.verb).into_iter().filter_map(|(name, says)| {
        let score = fuzzy::score(&words, &name)?;
        let line = format!("{} {name}", spec.name);
        Some(one(line.clone(), says, line, score))
    });
    let known: Vec<Candidate> = known.filter(|known| known.name != whole.name).collect();
    // An incomplete line does nothing: what could complete it stands before it.
    if is_complete(state, spec.verb, rest) {
        return std::iter::once(whole).chain(known).collect();
    }
    if known.is_empty() { vec![whole] } else { known }
}

fn is_complete(state: &State, verb: Verb, rest: &str) -> bool {
    let first = rest.split_whitespace().next().unwrap_or_default();
    match verb {
        Verb::Filter | Verb::Write | Verb::ReadOnly | Verb::Reload => true,
        Verb::Save => !first.is_empty(),
        Verb::Sort
        | Verb::View
        | Verb::Forget
        | Verb::Theme
        | Verb::Profile
        | Verb::Export
        | Verb::Screen
        | Verb::PauseRun
        | Verb::ResumeRun
        | Verb::CancelRun => taken(state, verb).iter().any(|(name, _)| name == first),
    }
}

/// What is known to be possible behind the command, with a word about each.
fn taken(state: &State, verb: Verb) -> Vec<(String, String)> {
    let plain = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
    match verb {
        Verb::Filter | Verb::ReadOnly | Verb::Reload | Verb::Save => Vec::new(),
        Verb::View => views::offered(state),
        Verb::Forget => views::kept(state),
        Verb::Sort => {
            let columns = state.list().map(Columns::columns).unwrap_or_default();
            let both = |column: crate::console::table::ColumnInfo| {
                [String::new(), "-".to_owned()].map(|sign| (format!("{sign}{}", column.name), column.title.to_owned()))
            };
            columns.into_iter().flat_map(both).collect()
        }
        Verb::Write => plain(window::WINDOWS),
        Verb::Theme => state
            .session
            .themes
            .iter()
            .map(|name| (name.clone(), String::new()))
            .collect(),
        Verb::Profile => {
            let others = state.session.profiles.others.iter();
            others.map(|one| (one.name.clone(), one.says.clone())).collect()
        }
        Verb::PauseRun | Verb::ResumeRun | Verb::CancelRun => open_runs::offered(state, verb),
        Verb::Export => plain(&["json", "csv"]),
        Verb::Screen => plain(&["text", "svg"]),
    }
}

/// Does the line; where it cannot, the line stays open and says why.
pub(super) fn run(state: &mut State, line: &str) -> Vec<Effect> {
    let done = match verb::read(line) {
        Some((spec, rest)) => perform(state, spec.verb, rest),
        None => Err("there is no such command".to_owned()),
    };
    match done {
        Ok(effects) => {
            state.input.lines.remember(line);
            if matches!(state.input.mode, Mode::Palette(_)) {
                state.input.mode = Mode::Browse;
            }
            effects
        }
        Err(why) => {
            if let Mode::Palette(open) = &mut state.input.mode {
                open.problem = Some(say::name(&why));
            }
            Vec::new()
        }
    }
}

fn perform(state: &mut State, verb: Verb, rest: &str) -> Result<Vec<Effect>, String> {
    match verb {
        Verb::Filter => filter(state, rest),
        Verb::Sort => sort(state, rest),
        Verb::View => views::show(state, &one_word(rest, "which view?")?),
        Verb::Save => views::save(state, &one_word(rest, "under which name?")?),
        Verb::Forget => views::forget(state, &one_word(rest, "which view?")?),
        Verb::Write => window::open(state, rest),
        Verb::ReadOnly => window::close(state),
        Verb::Theme => Ok(vec![Effect::Theme(one_word(rest, "which theme?")?)]),
        Verb::Profile => profile(state, rest),
        Verb::Reload => Ok(vec![Effect::Reload]),
        Verb::PauseRun | Verb::ResumeRun | Verb::CancelRun => open_runs::change(state, verb, rest),
        Verb::Export => export(state, rest),
        Verb::Screen => screen(state, rest),
    }
}

pub(super) fn one_word(rest: &str, asks: &str) -> Result<String, String> {
    match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
        [word] => Ok((*word).to_owned()),
        [] => Err(asks.to_owned()),
        _ => Err("one word is enough".to_owned()),
    }
}

fn filter(state: &mut State, expression: &str) -> Result<Vec<Effect>, String> {
    let list = list(state)?;
    let before = list.filter().text.clone();
    list.filter_write(expression);
    if !list.filter_keep() {
        let error = list.filter().error.as_ref().map(ToString::to_string);
        list.filter_write(&before);
        list.filter_keep();
        return Err(error.unwrap_or_else(|| "it cannot be read".to_owned()));
    }
    Ok(snapshots::arrange_front(state))
}

fn sort(state: &mut State, column: &str) -> Result<Vec<Effect>, String> {
    let (name, other_way) = match column.strip_prefix('-') {
        Some(name) => (name, true),
        None => (column, false),
    };
    let list = list(state)?;
    if !list.sort_by(name, other_way) {
        let known: Vec<&str> = list.columns().iter().map(|column| column.name).collect();
        return Err(format!("no column is called {name:?}: {}", known.join(", ")));
    }
    Ok(snapshots::arrange_front(state))
}

fn list(state: &mut State) -> Result<&mut dyn List, String> {
    if !state.nav.details.is_empty() {
        return Err("a detail is open: Esc closes it".to_owned());
    }
    let view = state.nav.view;
    state
        .list_mut()
        .ok_or_else(|| crate::console::state::action::no_list(view).into_owned())
}

pub(super) fn profile(state: &State, rest: &str) -> Result<Vec<Effect>, String> {
    let name = one_word(rest, "which profile?")?;
    if state.session.profiles.others.iter().all(|one| one.name != name) {
        return Err(format!("the configuration has no profile {name:?}"));
    }
    nothing_runs(state)?;
    Ok(vec![Effect::TryProfile(name)])
}

/// What was confirmed is not broken off by leaving.
pub(super) fn nothing_runs(state: &State) -> Result<(), String> {
    match state.commands.tasks.iter().filter(|task| task.is_running()).count() {
        0 => Ok(()),
        running => {
            let running = counted(u64::try_from(running).unwrap_or(u64::MAX), "action");
            Err(format!("{running} not ended yet: wait for the end"))
        }
    }
}

/// The first word says the form, what is behind it the file.
fn form_and_file<'a, T>(rest: &'a str, forms: &[(&str, T)]) -> Result<(T, Option<&'a str>), String>
where
    T: Copy,
{
    let (word, file) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let known = || forms.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or ");
    let form = forms.iter().find(|(name, _)| *name == word);
    let (_, form) = form.ok_or_else(|| format!("as what? {}", known()))?;
    let file = file.trim();
    Ok((*form, Some(file).filter(|file| !file.is_empty())))
}

fn export(state: &State, rest: &str) -> Result<Vec<Effect>, String> {
    let (form, file) = form_and_file(rest, &[("json", Form::Json), ("csv", Form::Csv)])?;
    let (records, what): (Arc<dyn Records>, &str) = match state.nav.details.last() {
        Some(detail) => {
            let record = detail.record(&state.session.mask).ok_or("it was not read yet")?;
            (Arc::new(One(record)), detail.subject.kind())
        }
        None => match state.list() {
            Some(list) => (list.records(state.now), state.nav.view.title()),
            None => return Err(crate::console::state::action::no_list(state.nav.view).into_owned()),
        },
    };
    Ok(vec![Effect::Save(SaveJob {
        path: path(state, file, what, form.suffix()),
        content: Content::Records(records, form),
    })])
}

fn screen(state: &State, rest: &str) -> Result<Vec<Effect>, String> {
    let (picture, file) = form_and_file(rest, &[("text", Picture::Text), ("svg", Picture::Svg)])?;
    let path = path(state, file, "screen", picture.suffix());
    Ok(vec![Effect::Screen { picture, path }])
}

/// The named file, or one in the working directory whose name says what and when.
fn path(state: &State, file: Option<&str>, what: &str, suffix: &str) -> PathBuf {
    match file {
        Some(file) => PathBuf::from(file),
        None => PathBuf::from(format!(
            "redrive-{}-{}.{suffix}",
            what.to_lowercase().replace(' ', "-"),
            compact(state.now)
        )),
    }
}

/// `20261121T031244Z`.
fn compact(at: crate::domain::time::Timestamp) -> String {
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp(at.seconds()) else {
        return "now".to_owned();
    };
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

/// What came of a file that was to be written.
pub(super) fn saved(state: &mut State, result: Result<String, String>) {
    let (tone, text) = match result {
        Ok(path) => (Tone::Good, format!("written: {path}")),
        Err(why) => (Tone::Bad, format!("not written: {why}")),
    };
    say::toast(state, tone, &text);
    say::did(state, tone, &text);
}

/// What came of a theme that was asked for.
pub(super) fn themed(state: &mut State, result: Result<String, String>) {
    match result {
        Ok(text) => say::toast(state, Tone::Note, &text),
        Err(why) => say::toast(state, Tone::Bad, &why),
    }
}

/// The command that prints what is in front, onto the clipboard.
pub(in crate::console) fn copy_command(state: &mut State) -> Vec<Effect> {
    let Some(command) = crate::console::state::link::command(state) else {
        return Vec::new();
    };
    say::toast(state, Tone::Note, &format!("copied: {}", redact_urls(&command)));
    vec![Effect::Copy(crate::domain::text::show(&command, COMMAND_WIDTH_MAX))]
}

/// A command on the clipboard is at most this wide.
const COMMAND_WIDTH_MAX: usize = 8_192;
