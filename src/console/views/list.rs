//! The one list: its columns, the rows that are on the screen, and what the selected one says.
//!
//! ```text
//!    State ▲               Waiting  Queue        Endpoint
//!  ▌ ! parked                   22  order-21.0…  stock.example/changed
//!  ✓ ▼ endpoint_unavailab…      12  order-18.9…  stock.example/changed
//!  its URL is unavailable after 4 failed attempts (last answer 503); one message probes it
//!  1–2 of 12 · 1 marked · filter: state = parked
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use ratatui::layout::{Position, Rect};

use crate::console::state::feed::Progress;
use crate::console::state::filter_line::FilterLine;
use crate::console::state::{Mode, State};
use crate::console::table::{Filtering as _, ListFilter, MarkCounts, Row, Table};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, Target, behind, below, cells, row};
use crate::console::widgets::columns::{Placed, place};
use crate::console::widgets::words::{self, ago, count, plural_of};
use crate::domain::text::{show, width};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;

/// Cells for the signs of selection and mark.
const GUTTER: u16 = 3;
/// From this height on the selected row's sentence stands under the list.
const ROOM_FOR_SAYS: u16 = 9;
/// From this height on it may have two lines.
const ROOM_FOR_MORE: u16 = 16;
/// Columns of a text from outside that is put between others.
pub(in crate::console) const OUTSIDE_MAX: usize = 400;

/// What stands in a cell. Text from outside may be raw: the canvas makes it safe.
pub(in crate::console) struct Cell<'a> {
    pub(in crate::console) text: Cow<'a, str>,
    pub(in crate::console) role: Role,
    /// What is left of it where it has no room.
    keeps: Keeps,
}

/// What is left of a text that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Beginning,
    BothEnds,
    /// So many bytes of its beginning, and both ends of those where even they have no room.
    First(usize),
}

impl<'a> Cell<'a> {
    pub(in crate::console) fn new(text: impl Into<Cow<'a, str>>, role: Role) -> Self {
        Self {
            text: text.into(),
            role,
            keeps: Keeps::Beginning,
        }
    }

    /// A URL or another place: where there is little room, its beginning and its end.
    pub(in crate::console) fn place(text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            keeps: Keeps::BothEnds,
            ..Self::new(text, Role::Text)
        }
    }

    /// A name whose first bytes tell it from others: the rest goes first.
    pub(in crate::console) fn named(text: impl Into<Cow<'a, str>>, first: usize, role: Role) -> Self {
        Self {
            keeps: Keeps::First(first),
            ..Self::new(text, role)
        }
    }

    /// The same, of a URL that there may be none of.
    pub(in crate::console) fn url(url: Option<&'a EndpointUrl>) -> Self {
        url.map_or_else(
            || Self::new(words::NONE, Role::TextMuted),
            |url| Self::place(words::url(url)),
        )
    }

    fn paint(&self, canvas: &mut Canvas<'_>, place: Rect) {
        let room = usize::from(place.width);
        match self.keeps {
            Keeps::BothEnds => canvas.ends(place, &self.text, self.role),
            Keeps::First(bytes) if width(&self.text) > room => {
                let first = self.text.get(..bytes).unwrap_or(&self.text);
                if width(first) < room {
                    canvas.text(place, &self.text, self.role)
                } else {
                    canvas.ends(place, first, self.role)
                }
            }
            Keeps::Beginning | Keeps::First(_) => canvas.text(place, &self.text, self.role),
        };
    }

    /// A time or a number that there may be none of.
    pub(in crate::console) fn or_none(text: Option<impl Into<Cow<'a, str>>>, role: Role) -> Self {
        text.map_or_else(|| Self::new(words::NONE, Role::TextMuted), |text| Self::new(text, role))
    }
}

/// A row that can be painted.
pub(in crate::console) trait Listed: Row {
    /// What they are called, many of them.
    const MANY: &'static str;
    /// What to do when there is none.
    const WHEN_NONE: &'static str;

    /// What stands in a column.
    fn cell(&self, column: &'static str, now: Timestamp) -> Cell<'_>;

    /// The column that [`Listed::says`] repeats.
    const SAID_BY: &'static str;

    /// Lines of that sentence above the columns of one row, at most.
    const SAID_LINES: u16 = 4;

    /// Whether [`Listed::says`] has what stands in this column.
    #[must_use]
    fn is_said(column: &str) -> bool {
        column == Self::SAID_BY
    }

    /// One sentence about the row.
    fn says(&self, now: Timestamp) -> Cow<'_, str>;
}

/// Paints a list of the snapshot, or the one in front that is fed; answers where the cursor stands when its
/// filter is typed.
pub(in crate::console) fn paint<R: Listed>(
    canvas: &mut Canvas<'_>,
    area: Rect,
    state: &State,
    table: &Table<R>,
) -> Option<Position> {
    let says_lines = match area.height {
        // The preview says it, and more.
        _ if state.sides().is_some() && !matches!(state.input.mode, Mode::Filter(_)) => 0,
        0..ROOM_FOR_SAYS => 0,
        ROOM_FOR_SAYS..ROOM_FOR_MORE => 1,
        _ => 2,
    };
    let rows = Rect {
        height: area.height.saturating_sub(1 + says_lines + 1),
        ..below(area, 1)
    };
    let room = area.width.saturating_sub(GUTTER + 1);
    let placed = place(R::COLUMNS, &table.layout.columns, room, table.layout.column_offset);
    head(canvas, row(area, 0), table, &placed);
    let window = table.window(rows.height.into());
    let about = About::of(state, table);
    if window.is_empty() {
        nothing(canvas, rows, state, &about);
    }
    for (line, position) in (0..).zip(window.clone()) {
        if let Some(one) = table.row(position) {
            canvas.target(row(rows, line), Target::Row(position));
            let selected = table.cursor.place == position;
            paint_row(
                canvas,
                row(rows, line),
                &**one,
                &placed,
                selected,
                table.marks.ids.contains(&one.id()),
            );
        }
    }
    let sentence = Rect {
        height: says_lines,
        ..below(area, area.height.saturating_sub(1 + says_lines))
    };
    says(canvas, sentence, state, table, &placed);
    foot(canvas, row(area, area.height.saturating_sub(1)), state, &about, &window)
}

/// What a list is, whatever its rows are.
struct About<'a> {
    /// [`Listed::MANY`] and [`Listed::WHEN_NONE`].
    many: &'static str,
    when_none: &'static str,
    /// Whether the filter is applied before they are read.
    filtered_before: bool,
    /// Why the snapshot has none of them.
    unread: Option<&'a str>,
    taken_at: Option<Timestamp>,
    rows: usize,
    shown: usize,
    marked: MarkCounts,
    filter: &'a ListFilter,
}

impl<'a> About<'a> {
    fn of<R: Listed>(state: &'a State, table: &'a Table<R>) -> Self {
        Self {
            many: R::MANY,
            when_none: R::WHEN_NONE,
            filtered_before: R::FILTERED_BEFORE,
            unread: state.data.snapshot.as_deref().and_then(R::unread),
            taken_at: table.taken_at,
            rows: table.rows.len(),
            shown: table.order.len(),
            marked: table.marks.counts,
            filter: &table.filter,
        }
    }
}

fn head<R: Listed>(canvas: &mut Canvas<'_>, area: Rect, table: &Table<R>, placed: &[Placed]) {
    canvas.lay_over(area, Role::Column);
    for column in placed {
        let Some(spec) = R::COLUMNS.get(column.index) else {
            continue;
        };
        let sign = match (table.layout.sort.column == column.index, table.layout.sort.descending) {
            (false, _) => "",
            (true, false) => " ▲",
            (true, true) => " ▼",
        };
        let place = inside(area, column);
        canvas.target(place, Target::Column(spec.name));
        let title = format!("{}{sign}", spec.title);
        let title = if width(&title) > usize::from(place.width) {
            title.replace(' ', "")
        } else {
            title
        };
        if spec.right {
            canvas.right(place, &title, Role::Column);
        } else {
            canvas.text(place, &title, Role::Column);
        }
    }
}

fn paint_row<R: Listed>(canvas: &mut Canvas<'_>, area: Rect, one: &R, placed: &[Placed], selected: bool, marked: bool) {
    if selected {
        canvas.text(row(area, 0), "▌", Role::Mark);
    }
    if marked {
        canvas.text(behind(area, 1), "✓", Role::Mark);
    }
    for column in placed {
        let Some(spec) = R::COLUMNS.get(column.index) else {
            continue;
        };
        let cell = one.cell(spec.name, canvas.now);
        let place = inside(area, column);
        if spec.right {
            canvas.right(place, &cell.text, cell.role);
        } else {
            cell.paint(canvas, place);
        }
    }
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}

fn inside(area: Rect, column: &Placed) -> Rect {
    let area = behind(area, GUTTER + column.x);
    Rect {
        width: column.width.min(area.width),
        ..area
    }
}

/// Cells for the names of columns beside what stands in them.
const LABEL: u16 = 15;

/// Paints everything that a list has of its selected row: its sentence, and every column whole. `more` is what to press for
/// what the list does not have. Answers how many lines it took.
pub(in crate::console) fn glance<R: Listed>(
    canvas: &mut Canvas<'_>,
    area: Rect,
    state: &State,
    table: &Table<R>,
    more: &str,
) -> u16 {
    let Some(one) = table.selected_row() else {
        return 0;
    };
    let sentence = Rect {
        height: area.height.min(R::SAID_LINES),
        ..area
    };
    let says = one.says(canvas.now);
    let text = super::keys::by_keys(&says, state);
    let mut rest = below(area, canvas.wrapped(sentence, &text, Role::Title) + 1);
    for column in R::COLUMNS.iter().filter(|column| !R::is_said(column.name)) {
        let cell = one.cell(column.name, canvas.now);
        if cell.text.is_empty() {
            continue;
        }
        let label = Rect {
            width: rest.width.min(LABEL - 1),
            ..rest
        };
        if rest.height > 0 {
            canvas.text(row(label, 0), column.title, Role::TextMuted);
        }
        let place = Rect {
            height: rest.height.min(4),
            ..behind(rest, LABEL)
        };
        rest = below(rest, canvas.wrapped(place, &cell.text, cell.role).max(1));
    }
    rest = below(rest, canvas.wrapped(below(rest, 1), more, Role::Info) + 1);
    area.height - rest.height
}

/// Why the filter cannot be read; else the sentence of the selected row, unless all of it is on the screen.
fn says<R: Listed>(canvas: &mut Canvas<'_>, area: Rect, state: &State, table: &Table<R>, placed: &[Placed]) {
    let place = behind(area, 1);
    let error = |line: &FilterLine| table.filter.error.as_ref().filter(|_| line.says_errors(state.now));
    if let Mode::Filter(open) = &state.input.mode
        && let Some(line) = completions(state, table, &open.input)
    {
        canvas.pieces(row(place, 0), &[("Tab ", Role::HintKey), (line.as_str(), Role::Info)]);
        if let Some(error) = error(open) {
            canvas.wrapped(below(place, 1), &format!("! {error}"), Role::Error);
        }
        return;
    }
    if let Mode::Filter(open) = &state.input.mode
        && let Some(error) = error(open)
    {
        canvas.wrapped(place, &format!("! {error}"), Role::Error);
        return;
    }
    let Some(one) = table.row(table.cursor.place) else {
        return;
    };
    let says = one.says(canvas.now);
    let text = super::keys::by_keys(&says, state);
    let said = |column: &&Placed| R::COLUMNS.get(column.index).is_some_and(|spec| spec.name == R::SAID_BY);
    let room = placed.iter().find(said).map_or(0, |column| usize::from(column.width));
    let taken = if width(&text) > room {
        canvas.wrapped(place, &text, Role::Info)
    } else {
        0
    };
    let rest = below(place, taken);
    if rest.height > 0 {
        canvas.text(row(rest, 0), &cut(&**one, placed, canvas.now), Role::TextMuted);
    }
}

/// What has no room in its columns, whole.
fn cut<R: Listed>(one: &R, placed: &[Placed], now: Timestamp) -> String {
    let cells = placed.iter().filter_map(|column| {
        let spec = R::COLUMNS.get(column.index).filter(|spec| !R::is_said(spec.name))?;
        let text = one.cell(spec.name, now).text;
        (width(&text) > column.width.into()).then_some(text)
    });
    cells.collect::<Vec<_>>().join(" · ")
}

/// What the filter line could go on with; `None`: nothing is begun.
fn completions<R: Listed>(state: &State, table: &Table<R>, input: &tui_input::Input) -> Option<String> {
    let found = table.completion(input.value(), input.cursor(), state.now);
    let words: Vec<&str> = found.words.iter().map(String::as_str).collect();
    (!words.is_empty()).then(|| words.join("  "))
}

/// Where in the list this is, what is marked, what is filtered.
fn foot(
    canvas: &mut Canvas<'_>,
    area: Rect,
    state: &State,
    about: &About<'_>,
    window: &Range<usize>,
) -> Option<Position> {
    if let Mode::Filter(line) = &state.input.mode {
        return filter_line(canvas, area, state, about, line);
    }
    let mut place = match window.len() {
        0 if is_unread(state, about) => " not read".to_owned(),
        0 => " none".to_owned(),
        _ => format!(" {}–{} of {}", window.start + 1, window.end, of(about.shown)),
    };
    if state.feed().is_some_and(|feed| feed.more) {
        place.push_str(" and more");
    }
    if about.shown < about.rows {
        let _ = write!(place, " ({} hidden)", of(about.rows - about.shown));
    }
    let taken = canvas.text(area, &place, Role::TextMuted);
    let mut rest = behind(area, taken);
    if let Some(marked) = marked(about.marked) {
        let taken = canvas.pieces(rest, &[(" · ", Role::TextMuted), (&marked, Role::Mark)]);
        rest = behind(rest, taken);
    }
    if !about.filter.text.is_empty() {
        let taken = canvas.pieces(
            rest,
            &[(" · filter: ", Role::TextMuted), (&about.filter.text, Role::Info)],
        );
        rest = behind(rest, taken);
    }
    if let Some((text, role)) = how_it_is_fed(state, about.taken_at) {
        canvas.pieces(rest, &[(" · ", Role::TextMuted), (&text, role)]);
    }
    None
}

/// What a list of its own has to say of its rows: why there are no newer ones, and how old these are.
fn how_it_is_fed(state: &State, taken_at: Option<Timestamp>) -> Option<(String, Role)> {
    let feed = state.feed()?;
    let age = taken_at.map_or_else(|| "never read".to_owned(), |at| format!("read {}", ago(state.now, at)));
    if let Some(problem) = &feed.problem {
        return Some((format!("! {age}: {}", show(problem, OUTSIDE_MAX)), Role::Error));
    }
    let asked = feed.asked.as_ref().map(|(asked, _)| asked);
    let answered = feed.answered.as_ref().map(|(answered, _)| answered);
    match (&feed.progress, asked) {
        (None | Some(Progress::AsOf(_)), _) if feed.lacks.is_some() => {
            let lacks = feed.lacks.as_deref().unwrap_or_default();
            Some((format!("! not all read: {}", show(lacks, OUTSIDE_MAX)), Role::Error))
        }
        (Some(Progress::Says(text)), _) => Some((text.clone(), Role::Info)),
        (_, Some(_)) if asked != answered && taken_at.is_some() => Some(("looking …".to_owned(), Role::Info)),
        _ if !state.is_fed() && taken_at.is_some() => Some((age, Role::Warning)),
        (Some(Progress::AsOf(at)), _) => Some((format!("as of {}", ago(state.now, *at)), Role::TextMuted)),
        (None, _) => None,
    }
}

/// Whether there are no rows because they could not be read.
fn is_unread(state: &State, about: &About<'_>) -> bool {
    let is_feed_broken = || {
        state
            .feed()
            .is_some_and(|feed| feed.problem.is_some() || feed.lacks.is_some())
    };
    about.rows == 0 && (about.unread.is_some() || is_feed_broken())
}

fn marked(marks: MarkCounts) -> Option<String> {
    let all = marks.all();
    if all == 0 {
        return None;
    }
    let mut text = format!("{} marked", of(all));
    if marks.hidden > 0 {
        let _ = write!(text, " ({} hidden)", of(marks.hidden));
    }
    if marks.gone > 0 {
        let _ = write!(text, " ({} gone)", of(marks.gone));
    }
    Some(text)
}

fn of(number: usize) -> String {
    count(u64::try_from(number).unwrap_or(u64::MAX))
}

/// `/` with what is typed, and how much it shows.
fn filter_line(
    canvas: &mut Canvas<'_>,
    area: Rect,
    state: &State,
    about: &About<'_>,
    line: &FilterLine,
) -> Option<Position> {
    let input = &line.input;
    let is_wrong = about.filter.error.is_some() && line.says_errors(state.now);
    canvas.text(area, " /", Role::HintKey);
    let room = behind(area, 3);
    let said = if is_wrong {
        " ! ".to_owned()
    } else {
        format!(" {} ", plural_of(about.shown, "row", "rows"))
    };
    let said_width = cells(width(&said)).min(room.width / 2);
    let field = Rect {
        width: room.width - said_width,
        ..room
    };
    let role = if is_wrong { Role::Error } else { Role::TextMuted };
    canvas.text(behind(room, field.width), &said, role);
    canvas.lay_over(field, Role::Input);
    let scroll = input.visual_scroll(usize::from(field.width).saturating_sub(1));
    let typed: String = skip_columns(input.value(), scroll);
    let taken = canvas.text(field, &typed, Role::Input);
    if line.selected {
        canvas.lay_over(Rect { width: taken, ..field }, Role::Selection);
    }
    canvas.cursor(field.x + cells(input.visual_cursor().saturating_sub(scroll)), field.y)
}

pub(in crate::console) fn skip_columns(text: &str, columns: usize) -> String {
    let mut skipped = 0;
    let kept = text.chars().skip_while(|character| {
        let skip = skipped < columns;
        skipped += unicode_width::UnicodeWidthChar::width(*character).unwrap_or(0);
        skip
    });
    kept.collect()
}

/// Why there is no row, and what to do.
fn nothing(canvas: &mut Canvas<'_>, area: Rect, state: &State, about: &About<'_>) {
    let many = about.many;
    let problem = state.feed().and_then(|feed| feed.problem.as_deref());
    let lacks = state.feed().and_then(|feed| feed.lacks.as_deref());
    let unread = problem.or(lacks).filter(|_| about.rows == 0);
    let (title, mend) = if let Some(problem) = unread {
        (format!("The {many} cannot be read."), show(problem, OUTSIDE_MAX))
    } else if about.taken_at.is_none() && state.feed().is_some() {
        match state.data.frozen_at {
            None => (format!("Looking for the {many} …"), String::new()),
            Some(_) => (
                format!("The {many} were not read before everything was frozen."),
                String::new(),
            ),
        }
    } else if about.filtered_before && about.rows == 0 && !about.filter.text.is_empty() {
        (
            format!("No {many} match the filter."),
            "Esc clears the filter, / changes it.".to_owned(),
        )
    } else if about.taken_at.is_none() && state.data.snapshot.is_none() {
        (
            format!("Looking for the {many} for the first time …"),
            "This takes as long as broker and store take to answer.".to_owned(),
        )
    } else if about.taken_at.is_none() {
        (format!("Sorting the {many} …"), String::new())
    } else if let Some(why) = about.unread.filter(|_| about.rows == 0) {
        (format!("The {many} could not be read."), show(why, OUTSIDE_MAX))
    } else if about.rows > 0 {
        let hidden = of(about.rows);
        (
            format!("The filter shows none of the {hidden} {many}."),
            "Esc clears the filter, / changes it.".to_owned(),
        )
    } else {
        (format!("There are no {many}."), about.when_none.to_owned())
    };
    let area = behind(below(area, 1), GUTTER);
    let used = canvas.wrapped(area, &title, Role::Title);
    canvas.wrapped(below(area, used), &mend, Role::TextMuted);
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;

    use super::*;
    use crate::console::theme::Theme;

    #[test]
    fn of_a_name_without_room_the_end_that_tells_nothing_goes_first() {
        let shown = |columns: u16| {
            let (area, theme) = (Rect::new(0, 0, columns, 1), Theme::default());
            let mut buffer = Buffer::empty(area);
            let cell = Cell::named("order-1001.0cc175b9", "order-1001".len(), Role::Text);
            cell.paint(&mut Canvas::new(&mut buffer, &theme, Timestamp::EPOCH), area);
            buffer
                .content()
                .iter()
                .map(ratatui::buffer::Cell::symbol)
                .collect::<String>()
        };
        assert_eq!(shown(19), "order-1001.0cc175b9");
        assert_eq!(shown(12), "order-1001.…");
        assert_eq!(shown(10), "order-1001");
        assert_eq!(shown(8), "ord…1001");
    }
}
