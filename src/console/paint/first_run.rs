//! The screen of a start for which nobody wrote a configuration.
//!
//! ```text
//!  redrive: first start
//!
//!  No configuration was found. Nothing is written unless you say so.
//!
//!  ▌ 1  connect to RabbitMQ     asks where it is, and tries it first
//!    2  embedded, this once     no server: queues and record are in /u/me/.local/share/redrive/redrive.db
//!
//!  ↑↓ choose  Enter go on  q leave
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::{ascii, small};
use crate::console::first_run::{self, FirstRun, Item, Question, Stage, masked};
use crate::console::state::SIZE_MIN;
use crate::console::theme::{Role, Theme};
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row};
use crate::domain::text::{show, width};
use crate::domain::time::Timestamp;
use crate::engine::view::{Check, CheckResult};

/// Cells for what is asked, and for what was looked at.
const TITLES: u16 = 13;
/// Cells for what can be chosen.
const ITEMS: u16 = 30;
/// From this width on an item's sentence stands beside it.
const WIDE: u16 = 90;
/// Columns of a path.
const PATH_MAX: usize = 300;

/// Paints it; answers where the cursor stands when something is typed.
pub fn paint(first: &FirstRun, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    let area = buffer.area;
    // Nothing here tells an age.
    let mut canvas = Canvas::new(buffer, theme, Timestamp::default());
    canvas.clear(area, Role::Screen);
    let cursor = if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        small::paint(&mut canvas, area);
        None
    } else {
        screen(&mut canvas, area, first)
    };
    if theme.is_ascii() {
        ascii::flatten(buffer);
    }
    cursor
}

fn screen(canvas: &mut Canvas<'_>, area: Rect, first: &FirstRun) -> Option<Position> {
    canvas.clear(row(area, 0), Role::Header);
    canvas.text(row(area, 0), " redrive: first start", Role::Header);
    canvas.right(row(area, 0), &format!("{} ", step(first)), Role::HeaderMuted);
    let keys = row(area, area.height.saturating_sub(1));
    hints(canvas, keys, first);
    let note = Rect {
        height: 2,
        y: keys.y.saturating_sub(2),
        ..area
    };
    let body = Rect {
        x: area.x + 2,
        y: area.y + 2,
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(5),
    };
    let cursor = match &first.stage {
        Stage::Menu { selected } => {
            menu(canvas, body, first, *selected);
            None
        }
        Stage::Form => form(canvas, body, first),
        Stage::Testing => {
            let what = "Trying it: this changes nothing, except that it creates a queue for a moment …";
            canvas.wrapped(body, what, Role::Title);
            None
        }
        Stage::Tested(found) => {
            tested(canvas, body, &found.checks);
            None
        }
        Stage::Save { problem, .. } => {
            save(canvas, body, first, problem.as_deref());
            None
        }
    };
    if let Some(text) = &first.note {
        canvas.clear(note, Role::Screen);
        canvas.wrapped(behind(note, 2), &format!("! {text}"), Role::Error);
    }
    cursor
}

const fn step(first: &FirstRun) -> &'static str {
    match first.stage {
        Stage::Menu { .. } => "Start",
        Stage::Form => "Start › Connection",
        Stage::Testing | Stage::Tested(_) => "Start › Connection › Check",
        Stage::Save { .. } => "Start › Connection › Check › Save",
    }
}

fn hints(canvas: &mut Canvas<'_>, area: Rect, first: &FirstRun) {
    let hints: &[(&str, &str)] = match &first.stage {
        Stage::Menu { .. } => &[("↑↓", "choose"), ("Enter", "continue"), ("q", "leave")],
        Stage::Form if first.form.question() == Question::Store => &[
            ("Enter", "try it"),
            ("↑", "previous line"),
            ("→", "take the suggestion"),
            ("Esc", "back"),
            ("Ctrl+c", "leave"),
        ],
        Stage::Form => &[
            ("Enter", "next line"),
            ("→", "take the suggestion"),
            ("Esc", "back"),
            ("Ctrl+c", "leave"),
        ],
        Stage::Testing => &[("Esc", "back"), ("q", "leave")],
        stage @ Stage::Tested(_) if first_run::is_of_another(stage) => {
            &[("e", "change"), ("t", "try again"), ("s", "save it"), ("q", "leave")]
        }
        stage @ Stage::Tested(_) if first_run::is_broken(stage) => &[
            ("l", "only look"),
            ("t", "try again"),
            ("e", "change"),
            ("s", "save it"),
            ("o", "this once"),
            ("q", "leave"),
        ],
        Stage::Tested(_) => &[
            ("Enter", "save it"),
            ("o", "this once"),
            ("l", "only look"),
            ("t", "try again"),
            ("e", "change"),
            ("q", "leave"),
        ],
        Stage::Save { .. } if first_run::asks_where(first) => &[
            ("Enter", "write it and continue"),
            ("←→", "where passwords go"),
            ("Esc", "back"),
            ("q", "leave"),
        ],
        Stage::Save { .. } => &[("Enter", "write it and continue"), ("Esc", "back"), ("q", "leave")],
    };
    let mut rest = behind(area, 1);
    for (key, does) in hints {
        let taken = canvas.pieces(rest, &[(" ", Role::Hint), (key, Role::HintKey), (" ", Role::Hint)]);
        rest = behind(rest, taken);
        let taken = canvas.text(rest, &format!("{does} "), Role::Hint);
        rest = behind(rest, taken);
    }
}

fn menu(canvas: &mut Canvas<'_>, area: Rect, first: &FirstRun, selected: usize) {
    let title = "No configuration was found. Nothing is written unless you say so.";
    let used = canvas.wrapped(area, title, Role::Title);
    let looked = format!("looked for: --config, $REDRIVE_CONFIG, {}", config_path(first));
    let used = used + canvas.wrapped(below(area, used), &looked, Role::TextMuted);
    let mut rest = below(area, used + 1);
    for (at, item) in Item::ALL.into_iter().enumerate() {
        let line = row(rest, 0);
        if at == selected {
            canvas.lay_over(line, Role::Selection);
            canvas.text(line, "▌", Role::Mark);
        }
        let number = format!("{}  {}", at + 1, item.title());
        canvas.text(
            behind(line, 2),
            &number,
            if at == selected { Role::Title } else { Role::Text },
        );
        let beside = area.width >= WIDE;
        let place = if beside {
            behind(rest, ITEMS)
        } else {
            behind(below(rest, 1), 5)
        };
        let place = Rect {
            height: place.height.min(2),
            ..place
        };
        let used = canvas.wrapped(place, &says(first, item), Role::TextMuted);
        rest = below(rest, used + u16::from(!beside));
    }
    let other = "`redrive --demo` shows everything with traffic of its own; `redrive --config FILE` asks nothing.";
    canvas.wrapped(below(rest, 1), other, Role::TextMuted);
}

fn says(first: &FirstRun, item: Item) -> String {
    let embedded = first.settings.embedded.as_ref();
    let file = embedded.map_or_else(|| "this user's data directory".to_owned(), |(path, _)| shown_path(path));
    match item {
        Item::RabbitMq => "asks where it is, and tries it before anything else".to_owned(),
        Item::EmbeddedOnce if embedded.is_some_and(|(_, used)| *used) => {
            format!("as before: queues and record are in {file}")
        }
        Item::EmbeddedOnce => format!("no server is needed: queues and record are in {file}; asks again next time"),
        Item::EmbeddedKept => format!(
            "the same, and {} says so: redrive does not ask again",
            config_path(first)
        ),
        Item::Leave => "nothing happens".to_owned(),
    }
}

fn form(canvas: &mut Canvas<'_>, area: Rect, first: &FirstRun) -> Option<Position> {
    canvas.text(row(area, 0), "Where is the broker?", Role::Title);
    let mut cursor = None;
    for (at, question) in (0..).zip(Question::ALL) {
        let line = row(area, 2 + at);
        let selected = first.form.question() == question;
        if selected {
            canvas.text(line, "▌", Role::Mark);
        }
        canvas.text(behind(line, 2), question.title(), Role::Text);
        let field = behind(line, TITLES);
        cursor = cursor.or(answer(canvas, field, first, usize::from(at), question, selected));
    }
    let below_lines = below(area, 6);
    let used = match &first.form.problem {
        Some(problem) => canvas.wrapped(below_lines, &format!("! {problem}"), Role::Error) + 1,
        None => 0,
    };
    canvas.wrapped(below(below_lines, used), first.form.question().help(), Role::TextMuted);
    cursor
}

fn answer(
    canvas: &mut Canvas<'_>,
    field: Rect,
    first: &FirstRun,
    at: usize,
    question: Question,
    selected: bool,
) -> Option<Position> {
    let input = &first.form.lines.get(at)?.input;
    let shown = masked(input.value(), selected);
    if selected {
        canvas.lay_over(field, Role::Input);
    }
    if shown.is_empty() {
        let guess = first.form.guess(question, &first.settings.environment);
        canvas.text(field, &format!("({})", guess.unwrap_or_default()), Role::TextMuted);
        return selected.then(|| canvas.cursor(field.x, field.y)).flatten();
    }
    let before: String = shown.chars().take(input.cursor()).collect();
    let scroll = width(&before).saturating_sub(usize::from(field.width).saturating_sub(1));
    let visible = crate::console::views::list::skip_columns(&shown, scroll);
    canvas.text(field, &visible, if selected { Role::Input } else { Role::Text });
    let column = cells(width(&before).saturating_sub(scroll));
    selected.then(|| canvas.cursor(field.x + column, field.y)).flatten()
}

fn tested(canvas: &mut Canvas<'_>, area: Rect, checks: &[Check]) {
    let broken = checks.iter().any(|check| check.result == CheckResult::Broken);
    let title = if broken {
        "It does not work yet. What was found:"
    } else {
        "It works. What was found:"
    };
    canvas.text(row(area, 0), title, if broken { Role::Error } else { Role::Title });
    let mut rest = below(area, 2);
    for check in checks {
        let (sign, role) = match check.result {
            CheckResult::Fine => ("✓", Role::Good),
            CheckResult::Warning => ("▲", Role::Warning),
            CheckResult::Broken => ("×", Role::Bad),
        };
        canvas.text(row(rest, 0), sign, role);
        canvas.text(behind(row(rest, 0), 2), &check.name, Role::Text);
        let place = behind(rest, TITLES + 3);
        let room = |place: Rect, lines: u16| Rect {
            height: place.height.min(lines),
            ..place
        };
        let mut used = canvas.wrapped(room(place, 3), &check.found, role).max(1);
        if let Some(mend) = &check.mend {
            used += canvas.wrapped(room(below(place, used), 3), &format!("→ {mend}"), Role::TextMuted);
        }
        rest = below(rest, used);
    }
}

fn save(canvas: &mut Canvas<'_>, area: Rect, first: &FirstRun, problem: Option<&str>) {
    let Some(path) = &first.settings.path else { return };
    let answers = first.answers();
    canvas.text(
        row(area, 0),
        "Write this? Both path and text are exact; passwords are hidden.",
        Role::Title,
    );
    let mut rest = below(area, 2);
    if let Some(problem) = problem {
        let used = canvas.wrapped(rest, &format!("! not written: {problem}"), Role::Error);
        rest = below(rest, used + 1);
    }
    let new = |path: &std::path::Path| format!("{} (new, for you alone: 0600)", shown_path(path));
    let used = canvas.wrapped(rest, &new(path), Role::Info);
    rest = below(rest, used);
    for line in first_run::shown(&answers, first.keep, path).lines() {
        canvas.text(row(rest, 0), &format!("│ {line}"), Role::Text);
        rest = below(rest, 1);
    }
    for file in first_run::secret_files(&answers, first.keep, path) {
        let used = canvas.wrapped(below(rest, 1), &new(&file.path), Role::Info);
        let said = canvas.wrapped(behind(below(rest, used + 1), 2), file.says, Role::Text);
        for line in 0..said {
            canvas.text(row(rest, used + 1 + line), "│", Role::Text);
        }
        rest = below(rest, used + 1 + said);
    }
    if first_run::asks_where(first) {
        let place = format!("passwords: ‹ {} ›", first.keep.title());
        canvas.text(row(rest, 1), &place, Role::DialogKey);
        rest = below(rest, 2);
    }
    if first.keep == first_run::Keep::Variable && first_run::asks_where(first) {
        let text = "set it where redrive is started, before the next start";
        canvas.wrapped(rest, text, Role::Warning);
    }
}

fn config_path(first: &FirstRun) -> String {
    let path = first.settings.path.as_deref();
    path.map_or_else(|| "(no home directory is known)".to_owned(), shown_path)
}

fn shown_path(path: &std::path::Path) -> String {
    show(&path.to_string_lossy(), PATH_MAX)
}
