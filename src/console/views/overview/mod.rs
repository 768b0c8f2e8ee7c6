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
use std::ops::Range;

use ratatui::layout::{Position, Rect};

use super::endpoints::state_in_words;
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
use crate::domain::time::Timestamp;
use crate::engine::query::Incarnation;
use crate::engine::snapshot::{EndpointRow, QUEUE_STATES, QueueRow, Snapshot};
use crate::engine::view::Retry;

/// Rows of each short list at least, by how high the terminal is.
const FEW: usize = 3;
const MANY: usize = 5;
const TALL: u16 = 30;
/// The title of a short list, and the empty line under it.
const AROUND_ROWS: usize = 2;
/// Lines that the sums need.
const SUMS: usize = 4;
/// Names of daemons, at most.
const DAEMONS_MAX: usize = 4;
const DAEMON_WIDTH_MAX: usize = 40;
/// Where names begin: behind the state of an endpoint or a queue, or a time; how long they are, at most; and what stands
/// behind them.
const NAME_AT: u16 = 20;
const NAME_MAX: u16 = 80;
/// Cells between a name and its numbers.
const GAP: u16 = 2;

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
    let few = if tall { MANY } else { FEW };
    let due = next_attempts(snapshot).count().min(few);
    let next_lines = if due > 0 { due + AROUND_ROWS } else { 0 };
    let room = usize::from(area.height.saturating_sub(line));
    let rows = room.saturating_sub(AROUND_ROWS + next_lines + SUMS).max(few);
    line += worst(canvas, below(area, line), state, snapshot, rows);
    line += next(canvas, below(area, line), state, snapshot, few);
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
    let taken = canvas.text(area, text, Role::Title);
    let place = behind(area, area.width.saturating_sub(cells(width(&format!("{key} {what}")))));
    if place.x > area.x + taken {
        canvas.pieces(place, &[(key, Role::HintKey), (" ", Role::Hint), (what, Role::Hint)]);
    }
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
    let all = worst.endpoints.len() + worst.queues.len();
    let selected = selected(state);
    let first = (selected.min(all.saturating_sub(1)) + 1).saturating_sub(rows);
    let endpoints = worst.endpoints.iter().map(|one| bad_endpoint(canvas.now, one));
    let shown: Vec<Line<'_>> = endpoints
        .chain(worst.queues.iter().map(|one| bad_queue(one)))
        .skip(first)
        .take(rows)
        .collect();
    let places = first..first + shown.len();
    let said = format!("Worst first{}", not_shown(state, snapshot, &places));
    title(canvas, row(area, 0), &said, key, what);
    list(canvas, below(area, 1), &shown, first, selected);
    cells(shown.len() + AROUND_ROWS)
}

/// How many more there are than have room, with the keys of the views that have them.
fn not_shown(state: &State, snapshot: &Snapshot, places: &Range<usize>) -> String {
    let listed = snapshot.worst.endpoints.len();
    let endpoints = places.end.min(listed).saturating_sub(places.start);
    let queues = places.len() - endpoints;
    let down = usize::try_from(snapshot.totals.endpoints_not_available()).unwrap_or(usize::MAX);
    let bad = down.saturating_add(snapshot.worst.held);
    let key = |view| state.key_of(view).unwrap_or_default();
    let of = |more: usize, [one, many]: [&str; 2], view| match more {
        0 => String::new(),
        1 => format!(", and 1 more{one}: {}", key(view)),
        more => format!(", and {} more{many}: {}", words::count(more as u64), key(view)),
    };
    let endpoints = of(bad.saturating_sub(endpoints), ["", ""], View::Endpoints);
    let queues = snapshot.worst.queues_in_all.saturating_sub(queues);
    endpoints + &of(queues, [" queue", " queues"], View::Queues)
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

/// A row of a short list.
struct Line<'a> {
    /// Its state, or when it comes.
    first: (String, Role),
    name: Cow<'a, str>,
    /// How many there are of what the numbers begin with: those of all rows end in one column.
    count: String,
    numbers: String,
}

fn bad_endpoint(now: Timestamp, one: &EndpointRow) -> Line<'_> {
    let (first, role) = state_in_words(&one.endpoint, now);
    let since = span(now.since(one.endpoint.shown_since()));
    let status = one
        .endpoint
        .last_status
        .map(|status| format!(" · {status}"))
        .unwrap_or_default();
    Line {
        first: (first, role),
        name: words::url(&one.endpoint.url),
        count: known(one.waiting),
        numbers: format!(" waiting · {since}{status}"),
    }
}

fn bad_queue(one: &QueueRow) -> Line<'_> {
    let first = one.state.map(|state| {
        let (symbol, role) = words::queue_state(state);
        (format!("{symbol} {}", state.plain()), role)
    });
    Line {
        first: first.unwrap_or_else(|| (words::UNKNOWN.to_owned(), Role::Text)),
        name: Cow::Borrowed(one.name.as_str()),
        count: known(one.depth()),
        numbers: " waiting".to_owned(),
    }
}

fn attempt(now: Timestamp, retry: &Retry) -> Line<'_> {
    Line {
        first: (retry.at.map_or_else(String::new, |at| until(now, at)), Role::Warning),
        name: retry.url.as_ref().map_or(Cow::Borrowed(words::NONE), words::url),
        count: String::new(),
        numbers: format!("attempt {}", retry.counted()),
    }
}

/// Rows one under the other, of which the first has this place among all that can be selected.
fn list(canvas: &mut Canvas<'_>, area: Rect, rows: &[Line<'_>], first: usize, selected: usize) {
    let widest = rows.iter().map(|one| width(&one.count)).max().unwrap_or(0);
    let numbers = |one: &Line<'_>| format!("{:>widest$}{}", one.count, one.numbers);
    let name_width = name_width(area.width.saturating_sub(NAME_AT), rows, numbers);
    for (line, (place, one)) in (0..).zip((first..).zip(rows)) {
        let at = row(area, line);
        let (text, role) = &one.first;
        canvas.text(at, text, *role);
        let rest = behind(at, NAME_AT);
        let name = Rect {
            width: name_width.saturating_sub(GAP).min(rest.width),
            ..rest
        };
        canvas.ends(name, &one.name, Role::Text);
        canvas.text(behind(rest, name_width), &numbers(one), Role::TextMuted);
        canvas.target(at, Target::Row(place));
        if place == selected {
            canvas.lay_over(at, Role::Selection);
            canvas.text(before(at), "▌", Role::Mark);
        }
    }
}

/// Cells for names: all that the numbers leave free. What the names are changes nothing: they come from outside.
fn name_width(room: u16, rows: &[Line<'_>], numbers: impl Fn(&Line<'_>) -> String) -> u16 {
    let numbers = rows.iter().map(|one| cells(width(&numbers(one)))).max().unwrap_or(0);
    room.saturating_sub(numbers).max(room / 2).min(NAME_MAX)
}

/// What is tried next; it is selected like the worst, behind them.
fn next(canvas: &mut Canvas<'_>, area: Rect, state: &State, snapshot: &Snapshot, rows: usize) -> u16 {
    let before_them = snapshot.worst.endpoints.len() + snapshot.worst.queues.len();
    let due: Vec<_> = next_attempts(snapshot).collect();
    if due.is_empty() {
        return 0;
    }
    title(canvas, row(area, 0), "Next", "4", "all retries");
    let selected = selected(state);
    let first = selected
        .checked_sub(before_them)
        .map_or(0, |selected| (selected + 1).saturating_sub(rows));
    let shown: Vec<Line<'_>> = due
        .into_iter()
        .skip(first)
        .take(rows)
        .map(|retry| attempt(canvas.now, retry))
        .collect();
    list(canvas, below(area, 1), &shown, before_them + first, selected);
    cells(shown.len() + AROUND_ROWS)
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
