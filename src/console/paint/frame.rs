//! What is on every screen: where this is, who delivers, how old the numbers are, the views.
//!
//! ```text
//!  PRODUCTION  READ-ONLY  rabbitmq mq1/redrive · postgres db1/redrive   ana · 2 daemons ● live
//!  1 Overview  2 Queues 12  3 Endpoints 6 ▼4  4 Retries 7  5 Log 9
//!  ! broker unreachable since 34 s: connection refused; numbers are from 03:12:09 UTC
//!  (the body)
//!  R redeliver  P pause  Enter open  / filter                              ? help  q quit
//! ```

use ratatui::layout::Rect;

use crate::console::state::action::named;
use crate::console::state::{Link, State, View, Work, delivering};
use crate::console::theme::Role;
use crate::console::views::list::OUTSIDE_MAX;
use crate::console::widgets::canvas::{Canvas, Target, behind, cells, row};
use crate::console::widgets::words::{ago, clock, count, plural_of, span};
use crate::domain::run::{Phase, RunState};
use crate::domain::text::{show, width};
use crate::engine::query::Incarnation;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{NOT_ANSWERING, Part, Silent, Snapshot};

/// From this width on the tabs have whole names and every count.
const COUNTS_FROM: u16 = 160;
/// From this width on they have whole names, and what needs a look.
const NAMES_FROM: u16 = 136;
/// From this width on they have short names; below only the view in front has a name.
const SHORT_FROM: u16 = 118;
/// From this width on the other operators are named in the header; below they are counted.
const OPERATORS_FROM: u16 = 118;
/// Operators that are named in the header, at most.
const OPERATORS_MAX: usize = 2;
/// From this height on runs have a line.
const LOW: u16 = 14;
/// From this width on a run has a bar.
const BAR_FROM: u16 = 100;
/// Cells of a command's and a person's name.
const NAME_MAX: usize = 24;

/// The parts of the screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    header: Rect,
    tabs: Rect,
    banner: Rect,
    pub(super) body: Rect,
    tasks: Rect,
    pub(super) hints: Rect,
}

impl Frame {
    /// Divides the screen.
    pub(super) fn split(area: Rect, state: &State) -> Self {
        let banners = cells(problems(state).len());
        let hints = 1;
        let tasks = u16::from(area.height >= LOW && !open_runs(state).is_empty());
        let body = area.height.saturating_sub(2 + banners + hints + tasks);
        let part = |y: u16, height: u16| Rect {
            y: area.y + y,
            height,
            ..area
        };
        Self {
            header: part(0, 1),
            tabs: part(1, 1),
            banner: part(2, banners),
            body: part(2 + banners, body),
            tasks: part(2 + banners + body, tasks),
            hints: part(2 + banners + body + tasks, hints),
        }
    }
}

/// Paints header, tabs and banners.
pub(super) fn paint(canvas: &mut Canvas<'_>, frame: &Frame, state: &State) {
    header(canvas, frame.header, state);
    tabs(canvas, frame.tabs, state);
    task_bar(canvas, frame.tasks, state);
    for (line, problem) in (0..).zip(problems(state)) {
        let area = row(frame.banner, line);
        canvas.clear(area, Role::Alarm);
        canvas.text(area, &format!(" ! {problem}"), Role::Alarm);
    }
}

/// A protected profile has the whole line in its colour: nobody takes it for another one.
fn header(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let place = &state.session.place;
    let ground = state
        .session
        .profiles
        .protected
        .then(|| canvas.theme.profile(place.colour.as_deref()));
    canvas.clear(area, Role::Header);
    if let Some(style) = ground {
        canvas.styled(area, &" ".repeat(area.width.into()), style);
    }
    let put = |canvas: &mut Canvas<'_>, area: Rect, text: &str, role: Role| match ground {
        Some(style) if matches!(role, Role::Header | Role::HeaderMuted) => canvas.styled(area, text, style),
        Some(_) | None => canvas.text(area, text, role),
    };
    let right = right_of_header(state, area.width);
    let right_width = right
        .iter()
        .map(|(text, _)| cells(width(text)) + 1)
        .sum::<u16>()
        .min(area.width);
    let mut left = Rect {
        width: area.width.saturating_sub(right_width + 2),
        ..area
    };
    if !place.label.is_empty() {
        let style = canvas.theme.profile(place.colour.as_deref());
        let taken = canvas.styled(left, &format!(" {} ", place.label), style);
        left = behind(left, taken);
    }
    if let Some(until) = state.session.window.until {
        let text = format!(" CHANGES ALLOWED {} ", span(until.since(state.now)));
        let taken = canvas.text(left, &text, Role::Alarm);
        left = behind(left, taken);
    }
    if state.session.read_only().is_some() {
        let taken = canvas.text(left, " READ-ONLY ", Role::AlarmWarning);
        left = behind(left, taken);
    }
    put(
        canvas,
        left,
        &format!(" {}", place.parts().join(" · ")),
        Role::HeaderMuted,
    );
    let mut x = area.right() - right_width;
    for (text, role) in right {
        let place = Rect {
            x,
            width: area.right() - x,
            ..area
        };
        x += put(canvas, place, &text, role) + 1;
    }
}

fn right_of_header(state: &State, columns: u16) -> Vec<(String, Role)> {
    let parts = [operators(state, columns), who_delivers(state), data_age(state)];
    parts.into_iter().flatten().collect()
}

/// The other operators who may change something, in every view.
fn operators(state: &State, columns: u16) -> Option<(String, Role)> {
    let snapshot = state.data.snapshot.as_ref()?;
    let alive = snapshot.incarnations.iter().filter(|one| one.alive);
    let mut names: Vec<&str> = alive.filter_map(Incarnation::operator).collect();
    names.sort_unstable();
    names.dedup();
    let text = match names.as_slice() {
        [] => return None,
        [one] => format!("{} ·", show(one, NAME_MAX)),
        [_, _, ..] if columns < OPERATORS_FROM => format!("{} others ·", names.len()),
        some => {
            let shown: Vec<String> = some
                .iter()
                .take(OPERATORS_MAX)
                .map(|name| show(name, NAME_MAX))
                .collect();
            let more = some.len().saturating_sub(OPERATORS_MAX);
            let more = if more > 0 { format!(" +{more}") } else { String::new() };
            format!("{}{more} ·", shown.join(", "))
        }
    };
    Some((text, Role::Header))
}

/// Who takes messages, as far as it is known.
fn who_delivers(state: &State) -> Option<(String, Role)> {
    let read = state
        .data
        .snapshot
        .as_ref()
        .filter(|snapshot| snapshot.store.taken_at.is_some());
    let daemons = read.map(|snapshot| delivering(snapshot));
    match (state.session.work, daemons) {
        (Work::Delivers, None | Some(0 | 1)) => Some(("this console delivers".to_owned(), Role::Header)),
        (Work::Delivers, Some(all)) => {
            let others = plural_of(all - 1, "daemon", "daemons");
            Some((format!("this console and {others}"), Role::Header))
        }
        (_, None) => None,
        (_, Some(0)) => Some((" NOBODY delivers ".to_owned(), Role::Alarm)),
        (_, Some(many)) => Some((plural_of(many, "daemon", "daemons"), Role::Header)),
    }
}

fn data_age(state: &State) -> Option<(String, Role)> {
    if let Some(at) = state.data.frozen_at {
        return Some((format!(" FROZEN {} ", span(state.now.since(at))), Role::AlarmWarning));
    }
    let snapshot = state.data.snapshot.as_ref()?;
    if state.is_live() {
        // How far away the daemon is that this is attached to.
        let way = snapshot.latency.map(|way| format!(" {} ms", way.as_millis()));
        return Some((format!("● live{} ", way.unwrap_or_default()), Role::Header));
    }
    let stale = match snapshot.read_at() {
        Some(at) => format!(" stale {} ", span(state.now.since(at))),
        None => " not read yet ".to_owned(),
    };
    Some((stale, Role::AlarmWarning))
}

/// Whether what the body shows is older than it should be, so that it is dimmed.
pub(super) fn is_stale(state: &State) -> bool {
    state.data.snapshot.as_ref().is_some_and(|snapshot| {
        let broken = |part: &Part| part.problem.is_some();
        broken(&snapshot.broker) || broken(&snapshot.store) || (state.data.frozen_at.is_none() && !state.is_live())
    })
}

/// What keeps numbers from being read, a sentence each.
fn problems(state: &State) -> Vec<String> {
    let Some(snapshot) = &state.data.snapshot else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    if let Link::Connecting { problem, next_at, .. } = &state.data.link {
        let because = show(problem.as_deref().unwrap_or("the connection was lost"), OUTSIDE_MAX);
        problems.push(format!(
            "connecting again, next try at {} UTC: {because}",
            clock(*next_at)
        ));
    }
    if let Some(alarm) = &snapshot.alarm {
        let alarm = show(alarm, OUTSIDE_MAX);
        problems.push(format!("the broker takes no publishes, deliveries continue: {alarm}"));
    }
    if let Some(incident) = &snapshot.incident {
        let incident = show(incident, OUTSIDE_MAX);
        problems.push(format!("see `redrive doctor`: {incident}"));
    }
    match (snapshot.silent, &snapshot.broker.problem) {
        (Some(Silent::Daemon), Some(why)) => {
            problems.push(daemon_away(state, &snapshot.broker, why));
            return problems;
        }
        (Some(Silent::Vhost), Some(why)) => problems.push(vhost_missing(state, why)),
        (Some(_) | None, _) => {
            let (what, then) = unread(snapshot);
            problems.extend(part(state, what, then, &snapshot.broker));
        }
    }
    let then = if delivering(snapshot) > 0 {
        "; deliveries stop until it answers"
    } else {
        ""
    };
    problems.extend(part(state, "store unreachable", then, &snapshot.store));
    problems
}

/// The daemon that this is attached to is gone: how broker and store are, nobody says. The cause stands before what a
/// narrow screen has no room for.
fn daemon_away(state: &State, part: &Part, why: &str) -> String {
    let cause = why.split_once(NOT_ANSWERING).map_or(why, |(_, cause)| cause);
    let cause = show(cause.trim_start_matches(": "), OUTSIDE_MAX);
    match part.taken_at {
        Some(at) => {
            let (since, at) = (span(state.now.since(at)), clock(at));
            format!("the daemon does not answer since {since}: {cause}; the numbers are from {at} UTC")
        }
        None => format!("the daemon does not answer: {cause}"),
    }
}

/// What of the broker cannot be read, and what that means for deliveries.
fn unread(snapshot: &Snapshot) -> (&'static str, &'static str) {
    match (snapshot.silent, delivering(snapshot)) {
        (Some(Silent::Management), 0) => ("management API not read", ""),
        (Some(Silent::Management), _) => ("management API not read, deliveries continue", ""),
        (Some(Silent::Broker | Silent::Vhost), _) => ("broker unreachable", "; nothing is delivered until it answers"),
        (Some(Silent::Daemon) | None, _) => ("broker unreachable", ""),
    }
}

fn vhost_missing(state: &State, why: &str) -> String {
    let why = show(why, OUTSIDE_MAX);
    match state.input.keymap.label(named::MAKE_VHOST) {
        Some(key)
            if state.nav.view == View::Overview
                && state.input.keymap.action(named::MAKE_VHOST).possible(state).is_ok() =>
        {
            format!("{key} makes it: {why}")
        }
        _ => why,
    }
}

fn part(state: &State, what: &str, then: &str, part: &Part) -> Option<String> {
    let why = part.cause().map(|why| show(why, OUTSIDE_MAX))?;
    Some(match part.taken_at {
        Some(at) => {
            let (since, at) = (ago(state.now, at), clock(at));
            format!("{what}, last read {since}{then}: {why} (its numbers are from {at} UTC)")
        }
        None => format!("{what}, never read{then}: {why}"),
    })
}

/// Runs that are not over, as the snapshot has them.
fn open_runs(state: &State) -> &[RunView] {
    state
        .data
        .snapshot
        .as_ref()
        .map_or(&[], |snapshot| snapshot.runs.as_slice())
}

/// Whatever is being done with many messages, by whomever: how far it is, and where it is paused or cancelled.
fn task_bar(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let runs = open_runs(state);
    if area.height == 0 || runs.is_empty() {
        return;
    }
    canvas.clear(area, Role::Toast);
    let key = state.key_of(View::Runs).unwrap_or_default();
    let key = format!(" press {key} to see them ");
    let mut rest = Rect {
        width: area.width.saturating_sub(cells(width(&key))),
        ..area
    };
    canvas.text(behind(area, rest.width), &key, Role::Toast);
    for (place, run) in runs.iter().enumerate() {
        let text = format!(" {} ", one_run(run, area.width));
        // The first one is cut where it has no room: how far it is, and whether it waits, stands before who began it.
        if place > 0 && cells(width(&text)) > rest.width {
            canvas.text(rest, "…", Role::Toast);
            return;
        }
        let role = match run.record.state {
            RunState::Canary | RunState::Paused | RunState::Failed => Role::ToastWarning,
            RunState::Planned | RunState::Running | RunState::Done | RunState::Cancelled => Role::Toast,
        };
        let taken = canvas.text(rest, &text, role);
        rest = behind(rest, taken);
    }
}

/// Cells of a run's bar, where there is room for it.
const BAR: u16 = 8;

fn one_run(run: &RunView, columns: u16) -> String {
    let record = &run.record;
    let sign = match record.state {
        RunState::Running | RunState::Planned => '▶',
        RunState::Canary => '?',
        RunState::Paused => '◆',
        RunState::Failed => '×',
        RunState::Done | RunState::Cancelled => '✓',
    };
    let command = show(&record.command, NAME_MAX);
    let by = show(&record.actor, NAME_MAX);
    let failed = match record.counts.failed {
        0 => String::new(),
        failed => format!(", {} failed", count(failed)),
    };
    let what = match (run.phase(), run.eta) {
        (Phase::Running | Phase::Planned, Some(eta)) => format!(", {} left", span(eta)),
        (Phase::Running | Phase::Planned, None) => String::new(),
        (phase, _) => format!(", {phase}"),
    };
    let bar = if columns < BAR_FROM {
        String::new()
    } else {
        format!("▕{}▏ ", crate::console::views::run_bar(run, BAR))
    };
    format!(
        "{sign} {command} {bar}{} of {}{failed}{what} by {by}",
        count(record.counts.settled()),
        count(record.total)
    )
}

/// What a tab says beside its key: by the width of the screen alone, so that nothing jumps while one looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tabs {
    /// Its whole name, and how many there are.
    Counts,
    /// Its whole name, and what needs a look.
    Names,
    /// A short name, and what needs a look.
    Short,
    /// What needs a look; the view in front also its whole name.
    Keys,
}

impl Tabs {
    const fn of(columns: u16) -> Self {
        match columns {
            COUNTS_FROM.. => Self::Counts,
            NAMES_FROM.. => Self::Names,
            SHORT_FROM.. => Self::Short,
            _ => Self::Keys,
        }
    }
}

fn tabs(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    canvas.clear(area, Role::Tab);
    let says = Tabs::of(area.width);
    let mut rest = area;
    for (place, view) in View::ALL.into_iter().enumerate() {
        let taken = tab(canvas, rest, state, view, says);
        canvas.target(Rect { width: taken, ..rest }, Target::Tab(place));
        rest = behind(rest, taken);
    }
}

/// Its key in the accent, its name, what needs a look in the colour of that, plain counts where they recede.
fn tab(canvas: &mut Canvas<'_>, area: Rect, state: &State, view: View, says: Tabs) -> u16 {
    let in_front = state.nav.view == view;
    let name = match says {
        Tabs::Short if !in_front => view.screen().about().short_title,
        Tabs::Keys if !in_front => "",
        Tabs::Counts | Tabs::Names | Tabs::Short | Tabs::Keys => view.title(),
    };
    let alarm = alarm(state, view);
    let plain = if says == Tabs::Counts {
        badge(state, view)
    } else {
        String::new()
    };
    let plain = plain
        .strip_suffix(alarm.as_str())
        .unwrap_or(&plain)
        .trim_end()
        .to_owned();
    let between = match (name.is_empty(), alarm.chars().next()) {
        (false, Some(_)) => " ",
        // A number right behind a key would be read as a key.
        (true, Some(first)) if first.is_alphanumeric() => ":",
        (true, Some(_)) | (_, None) => "",
    };
    let role = |role| if in_front { Role::TabSelected } else { role };
    let key = state.key_of(view).unwrap_or_default();
    let space = if key.is_empty() || name.is_empty() { "" } else { " " };
    let end = if in_front || says == Tabs::Counts { " " } else { "" };
    let pieces = [
        (" ", role(Role::Tab)),
        (key.as_str(), role(Role::HintKey)),
        (space, role(Role::Tab)),
        (name, role(Role::Tab)),
        (plain.as_str(), role(Role::TextMuted)),
        (between, role(Role::Tab)),
        (alarm.as_str(), role(Role::Warning)),
        (end, role(Role::Tab)),
    ];
    canvas.pieces(area, &pieces)
}

/// How many need a look.
fn alarm(state: &State, view: View) -> String {
    view.screen().alarm(&badge(state, view))
}

/// How many there are, and how many of them need a look.
fn badge(state: &State, view: View) -> String {
    let Some(snapshot) = &state.data.snapshot else {
        return String::new();
    };
    view.screen().badge(state, snapshot)
}
