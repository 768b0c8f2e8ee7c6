//! Is anything stuck, since when, how much, better or worse, what happens next: in five seconds.
//!
//! ```text
//!  ▼ 3 endpoints are not available: 41 messages wait, the oldest 12m04s; next attempt in 8 s
//!  since 14m02s · waiting ▲ rising, +12 in 5 min · in 14.1/s, delivered 12.3/s
//!
//!  waiting    41   ▁▁▂▃▅▆▇█      15 min, max 45
//!  delivered 12/s  ▅▅▅▆▅▃▂▂      15 min, max 15.0/s
//!
//!  Worst first                                                              3 all endpoints
//!  ! parked        billing.example/hook     22 waiting  since 12m04s  status 500
//!
//!  Next                                                                     4 all retries
//!  in 8 s          stock.example/changed    attempt 5 of 13
//!
//!  12 queues       5 delivering · 3 endpoint_unavailable · 2 parked · 2 empty
//!  3 dead letters · delivering: host-a, host-b; ana is also connected
//! ```

mod chart;
pub(in crate::console) mod headline;
mod trend;

use std::borrow::Cow;
use std::fmt::Write as _;

use ratatui::layout::{Position, Rect};

use super::{command_words, expiring};
use crate::console::state::action::{Action, Possible, require};
use crate::console::state::detail::Subject;
use crate::console::state::feed::{Feed, FeedQuery};
use crate::console::state::lists::Lists;
use crate::console::state::pointed::{Pointed, Reach, Rows, endpoint_row, queue_row};
use crate::console::state::screen::{About, Screen, Selection};
use crate::console::state::{State, View, delivering, next_attempts};
use crate::console::table::End;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, Target, behind, below, cells, row};
use crate::console::widgets::words::{self, count, known, plural, span, until};
use crate::domain::text::{show, width};
use crate::engine::query::Incarnation;
use crate::engine::snapshot::{EndpointRow, QUEUE_STATES, QueueRow, Snapshot};

/// Rows of each short list, by how high the terminal is.
const FEW: usize = 3;
const MANY: usize = 5;
const TALL: u16 = 30;
/// Names of daemons, at most.
const DAEMONS_MAX: usize = 4;
const DAEMON_WIDTH_MAX: usize = 40;
/// Where names begin: behind the state of an endpoint or a queue, or a time; how long they are, at most; and what stands
/// behind them.
const NAME_AT: u16 = 20;
const NAME_MAX: u16 = 60;
const NUMBERS: u16 = 32;

/// The view.
pub(super) struct Overview;

static ABOUT: About = About {
    title: "Overview",
    short_title: "Overview",
    reads: &["broker", "store"],
    go: Action::new("overview", "overview", &["1"])
        .help("Go to the overview: is anything stuck, since when, how much.")
        .turns(|state| state.go_to_top(View::Overview)),
};

impl Screen for Overview {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn paint(&self, canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
        paint(canvas, area, state);
        None
    }

    fn has_rows(&self) -> bool {
        false
    }

    /// The overview says what is lost next.
    fn feed<'a>(&self, lists: &'a Lists) -> Option<&'a Feed> {
        Some(&lists.expiring.queues.feed)
    }

    fn feed_mut<'a>(&self, lists: &'a mut Lists) -> Option<&'a mut Feed> {
        Some(&mut lists.expiring.queues.feed)
    }

    fn asks(&self, _: &Lists) -> Option<FeedQuery> {
        Some(FeedQuery::all(&expiring::QUEUES))
    }

    fn shows_an_age(&self, state: &State) -> bool {
        state.data.snapshot.as_ref().is_some_and(|snapshot| {
            let totals = &snapshot.totals;
            totals.endpoints_not_available() > 0 || totals.oldest_at.is_some() || expiring::lost_soon(state).is_some()
        })
    }
}

impl Selection for Overview {
    fn opens(&self, state: &State) -> Possible {
        require(state.worst().is_some(), "nothing is wrong")
    }

    fn open(&self, state: &mut State) -> Option<Subject> {
        state.worst()
    }

    fn subject(&self, state: &State) -> Option<Subject> {
        state.worst()
    }

    /// What the row in front is in its own list.
    fn rows<'a>(&self, state: &'a State, _: Reach) -> Rows<'a> {
        let row = match state.worst() {
            Some(Subject::Queue(name)) => queue_row(state, &name).map(Pointed::Queue),
            Some(Subject::Endpoint(url)) => endpoint_row(state, &url).map(Pointed::Endpoint),
            Some(_) | None => None,
        };
        row.map(Rows::one).unwrap_or_default()
    }

    fn step(&self, state: &mut State, by: isize) {
        state.choose_worst(selected(state).saturating_add_signed(by));
    }

    fn jump(&self, state: &mut State, to: End) {
        state.choose_worst(match to {
            End::First => 0,
            End::Last => usize::MAX,
        });
    }

    fn command(&self, _: &State) -> Option<Vec<String>> {
        Some(command_words("endpoints --unavailable"))
    }
}

/// Paints the overview.
fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let area = Rect {
        width: area.width.saturating_sub(2),
        ..behind(area, 1)
    };
    let (said, role) = headline::of(state);
    let mut line = canvas.wrapped(
        Rect {
            height: area.height.min(2),
            ..area
        },
        &said,
        role,
    );
    let Some(snapshot) = &state.data.snapshot else {
        return;
    };
    canvas.text(row(area, line), &headline::since_and_trend(state, snapshot), Role::Text);
    line += 2;
    let tall = area.height >= TALL;
    if let Some(lost) = expiring::headline(state) {
        let place = Rect {
            height: below(area, line - 1).height.min(1),
            ..below(area, line - 1)
        };
        canvas.text(place, &lost, Role::Bad);
        line += 1;
    }
    line += chart::paint(canvas, below(area, line), state, chart_height(area.height));
    let rows = if tall { MANY } else { FEW };
    line += worst(canvas, below(area, line), state, snapshot, rows);
    line += next(canvas, below(area, line), state, snapshot, rows);
    sums(canvas, below(area, line), state, snapshot);
}

/// Lines of a chart, by how much room there is.
const fn chart_height(room: u16) -> u16 {
    match room {
        0..24 => 1,
        24..TALL => 2,
        _ => 4,
    }
}

fn title(canvas: &mut Canvas<'_>, area: Rect, text: &str, key: &str, what: &str) {
    let hint = format!("{key} {what}");
    let place = behind(area, area.width.saturating_sub(cells(width(&hint))));
    canvas.pieces(place, &[(key, Role::HintKey), (" ", Role::Hint), (what, Role::Hint)]);
    canvas.text(area, text, Role::Title);
}

/// The endpoints that keep most messages waiting, then the queues that stand still by themselves.
fn worst(canvas: &mut Canvas<'_>, area: Rect, state: &State, snapshot: &Snapshot, rows: usize) -> u16 {
    let worst = &snapshot.worst;
    if worst.endpoints.is_empty() && worst.queues.is_empty() {
        return 0;
    }
    let (key, what) = if worst.endpoints.is_empty() {
        ("2", "all queues")
    } else {
        ("3", "all endpoints")
    };
    title(canvas, row(area, 0), "Worst first", key, what);
    let all = worst.endpoints.len() + worst.queues.len();
    let selected = selected(state);
    let first = (selected.min(all.saturating_sub(1)) + 1).saturating_sub(rows);
    let mut line = 1;
    for place in (first..all).take(rows) {
        let at = row(area, line);
        match (
            worst.endpoints.get(place),
            worst.queues.get(place.wrapping_sub(worst.endpoints.len())),
        ) {
            (Some(endpoint), _) => bad_endpoint(canvas, at, endpoint),
            (None, Some(queue)) => bad_queue(canvas, at, queue),
            (None, None) => {}
        }
        canvas.target(at, Target::Row(place));
        if place == selected {
            canvas.lay_over(at, Role::Selection);
            canvas.text(before(at), "▌", Role::Mark);
        }
        line += 1;
    }
    line + 1
}

/// Which of the worst and of what is next is selected.
fn selected(state: &State) -> usize {
    let last = state.worst_of_all().len().saturating_sub(1);
    state.nav.worst.place.min(last)
}

/// The cell before a line.
const fn before(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_sub(1),
        width: if area.height == 0 { 0 } else { 1 },
        ..area
    }
}

fn bad_endpoint(canvas: &mut Canvas<'_>, area: Rect, one: &EndpointRow) {
    let (symbol, role) = words::endpoint_state(one.endpoint.state);
    canvas.text(area, &format!("{symbol} {}", one.endpoint.state.as_str()), role);
    let since = span(canvas.now.since(one.endpoint.since));
    let status = one
        .endpoint
        .last_status
        .map(|status| format!(" · {status}"))
        .unwrap_or_default();
    let numbers = format!("{:>7} waiting · {since}{status}", known(one.waiting));
    named(canvas, area, &words::url(&one.endpoint.url), &numbers);
}

fn bad_queue(canvas: &mut Canvas<'_>, area: Rect, one: &QueueRow) {
    let Some(state) = one.state else { return };
    let (symbol, role) = words::queue_state(state);
    canvas.text(area, &format!("{symbol} {}", state.plain()), role);
    named(
        canvas,
        area,
        one.name.as_str(),
        &format!("{:>7} waiting", known(one.depth())),
    );
}

/// A name of the second column, and numbers behind it.
fn named(canvas: &mut Canvas<'_>, area: Rect, name: &str, numbers: &str) {
    let rest = behind(area, NAME_AT);
    let name_width = rest.width.saturating_sub(NUMBERS).max(rest.width / 2).min(NAME_MAX);
    let place = Rect {
        width: name_width.saturating_sub(1),
        ..rest
    };
    canvas.ends(place, name, Role::Text);
    canvas.text(behind(rest, name_width), numbers, Role::TextMuted);
}

/// What is tried next; it is selected like the worst, behind them.
fn next(canvas: &mut Canvas<'_>, area: Rect, state: &State, snapshot: &Snapshot, rows: usize) -> u16 {
    let before_them = snapshot.worst.endpoints.len() + snapshot.worst.queues.len();
    let due: Vec<_> = next_attempts(snapshot).collect();
    if due.is_empty() {
        return 0;
    }
    title(canvas, row(area, 0), "Next", "4", "all retries");
    let selected = selected(state).checked_sub(before_them);
    let first = selected.map_or(0, |selected| (selected + 1).saturating_sub(rows));
    let mut line = 1;
    for (place, retry) in due.into_iter().enumerate().skip(first).take(rows) {
        let at = row(area, line);
        if let Some(due_at) = retry.at {
            canvas.text(at, &until(canvas.now, due_at), Role::Warning);
        }
        let name = retry.url.as_ref().map_or(Cow::Borrowed(words::NONE), words::url);
        named(canvas, at, &name, &format!("attempt {}", retry.counted()));
        canvas.target(at, Target::Row(before_them + place));
        if Some(place) == selected {
            canvas.lay_over(at, Role::Selection);
            canvas.text(before(at), "▌", Role::Mark);
        }
        line += 1;
    }
    line + 1
}

/// What there is of everything.
fn sums(canvas: &mut Canvas<'_>, area: Rect, state: &State, snapshot: &Snapshot) {
    let line = states(canvas, area, snapshot);
    let (text, role) = dead(state, snapshot);
    let taken = canvas.text(row(area, line), &text, role);
    let who = format!("{}{}", daemons(state, snapshot), operators(snapshot));
    let rest = behind(row(area, line), taken);
    let beside = format!(" · {who}");
    if width(&beside) <= rest.width.into() {
        canvas.text(rest, &beside, Role::TextMuted);
    } else {
        canvas.wrapped(below(area, line + 1), &who, Role::TextMuted);
    }
}

/// How many dead letters and dead events there are; `?` for what is not known.
fn dead(state: &State, snapshot: &Snapshot) -> (String, Role) {
    let sum = &snapshot.totals.dead;
    let unknown = [
        ("dead letters: ?", sum.letters.is_none()),
        ("dead events: ?", sum.events.is_none()),
    ];
    let unknown: Vec<&str> = unknown
        .into_iter()
        .filter_map(|(text, is)| is.then_some(text))
        .collect();
    let Some(mut text) = headline::dead_letters(sum) else {
        return match unknown.as_slice() {
            [] => (plural(0, "dead letter", "dead letters"), Role::Text),
            some => (some.join(", "), Role::Warning),
        };
    };
    if sum.letters.is_some_and(|letters| letters > 0)
        && let Some(at) = state.data.died_at
    {
        let _ = write!(text, ", the newest {}", words::ago(state.now, at));
    }
    for what in unknown {
        let _ = write!(text, ", {what}");
    }
    text.push_str(": press 5");
    (text, Role::Warning)
}

/// Queues by state, on as many lines as they need; answers how many.
fn states(canvas: &mut Canvas<'_>, area: Rect, snapshot: &Snapshot) -> u16 {
    let by_state = snapshot.totals.queues_by_state;
    let all = by_state.iter().sum();
    let is_unread = snapshot.broker.taken_at.is_none() || snapshot.store.taken_at.is_none();
    let all = if all == 0 && is_unread {
        "delivery queues: ?".to_owned()
    } else {
        plural(all, "delivery queue", "delivery queues")
    };
    let mut line = 0;
    let mut rest = row(area, line);
    let taken = canvas.text(rest, &all, Role::Text);
    rest = behind(rest, taken + 2);
    for (one, number) in QUEUE_STATES.iter().zip(by_state).filter(|(_, number)| *number > 0) {
        let (symbol, role) = words::queue_state(*one);
        let text = format!("{symbol} {} {}", count(number), one.plain());
        if cells(width(&text)) > rest.width {
            line += 1;
            rest = behind(row(area, line), 2);
        }
        let taken = canvas.text(rest, &text, role);
        rest = behind(rest, taken + 2);
    }
    line + 1
}

/// Who else may act: `; ana is also connected`.
fn operators(snapshot: &Snapshot) -> String {
    let alive = snapshot.incarnations.iter().filter(|one| one.alive);
    let mut names: Vec<&str> = alive.filter_map(Incarnation::operator).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(DAEMONS_MAX);
    let names: Vec<String> = names
        .into_iter()
        .take(DAEMONS_MAX)
        .map(|name| show(name, DAEMON_WIDTH_MAX))
        .collect();
    match (names.as_slice(), more) {
        ([], _) => String::new(),
        ([one], 0) => format!("; {one} is also connected"),
        (some, 0) => format!("; {} are also connected", some.join(", ")),
        (some, more) => format!("; {} and {more} more are also connected", some.join(", ")),
    }
}

fn daemons(state: &State, snapshot: &Snapshot) -> String {
    let all = delivering(snapshot);
    let names: Vec<String> = snapshot
        .incarnations
        .iter()
        .filter(|one| one.alive && one.delivers)
        .take(DAEMONS_MAX)
        .map(|one| show(&one.name, DAEMON_WIDTH_MAX))
        .collect();
    let more = if all > names.len() { ", …" } else { "" };
    match all {
        0 if state.session.work == crate::console::state::Work::Delivers => "this console delivers".to_owned(),
        0 if snapshot.store.taken_at.is_none() => "who delivers is not known".to_owned(),
        0 => "nobody delivers".to_owned(),
        _ => format!("delivering: {}{more}", names.join(", ")),
    }
}
