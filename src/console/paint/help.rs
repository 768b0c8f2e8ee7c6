//! Every key and what it does, made from the table of actions; what is typed is looked for in it. What cannot be done
//! now stands behind what can.
//!
//! ```text
//! ┌ Keys ─────────────────────────────────────────────┐
//! │ redel▏                                             │
//! │ In this view: Queues                               │
//! │  R        redeliver      Make the endpoint of …    │
//! └────────────────────────────────── 1–18 of 52 ──────┘
//! ```

use ratatui::layout::{Position, Rect};

use super::dialog::{boxed, inside};
use crate::console::state::action::{Action, Context};
use crate::console::state::help::Help;
use crate::console::state::{Mode, State};
use crate::console::theme::Role;
use crate::console::views::list::skip_columns;
use crate::console::widgets::canvas::{Canvas, behind, below, cells, row, wrap};

const KEYS: u16 = 14;
const TITLE: u16 = 20;

enum Line {
    Section(String),
    Action {
        keys: String,
        title: &'static str,
        help: String,
        enabled: bool,
    },
}

/// Paints the help over the whole body; answers where the cursor stands.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, help: &Help) -> Option<Position> {
    let inner = boxed(canvas, area, "Keys", false);
    let cursor = wanted_line(canvas, row(inner, 0), help);
    let inner = below(inner, 1);
    let wide = is_wide(inner);
    let lines = lines(state, inner, help.input.value());
    let scroll = help.scroll.min(lines.len().saturating_sub(inner.height.into()));
    if lines.is_empty() {
        canvas.text(
            row(inner, 0),
            "No key has that in its name or its explanation.",
            Role::TextMuted,
        );
    }
    for (at, line) in (0..inner.height).zip(lines.iter().skip(scroll)) {
        let place = row(inner, at);
        match line {
            Line::Section(title) => {
                canvas.text(place, title, Role::Title);
            }
            Line::Action {
                keys,
                title,
                help,
                enabled,
            } => {
                let role = if *enabled { Role::Text } else { Role::HintDisabled };
                canvas.text(
                    Rect {
                        width: KEYS - 2,
                        ..behind(place, 1)
                    },
                    keys,
                    Role::DialogKey,
                );
                let mut x = KEYS;
                if wide {
                    canvas.text(
                        Rect {
                            width: TITLE - 1,
                            ..behind(place, x)
                        },
                        title,
                        role,
                    );
                    x += TITLE;
                }
                canvas.text(behind(place, x), help, role);
            }
        }
    }
    let end = (scroll + usize::from(inner.height)).min(lines.len());
    let text = format!(" {}–{end} of {} ", (scroll + 1).min(end), lines.len());
    let corner = Rect {
        width: area.width.saturating_sub(2),
        ..row(area, area.height.saturating_sub(1))
    };
    canvas.right(corner, &text, Role::DialogBorder);
    cursor
}

/// What is looked for.
fn wanted_line(canvas: &mut Canvas<'_>, area: Rect, help: &Help) -> Option<Position> {
    let taken = canvas.text(area, "Look for: ", Role::TextMuted);
    let field = behind(area, taken);
    canvas.lay_over(field, Role::Input);
    let input = &help.input;
    let scroll = input.visual_scroll(usize::from(field.width).saturating_sub(1));
    canvas.text(field, &skip_columns(input.value(), scroll), Role::Input);
    canvas.cursor(field.x + cells(input.visual_cursor().saturating_sub(scroll)), field.y)
}

/// How far it can be scrolled on the screen as it is.
pub(super) fn scroll_max(body: Rect, state: &State) -> usize {
    let inner = below(inside(body), 1);
    let wanted = if let Mode::Help(help) = &state.input.mode {
        help.input.value()
    } else {
        ""
    };
    lines(state, inner, wanted).len().saturating_sub(inner.height.into())
}

const fn is_wide(inner: Rect) -> bool {
    inner.width >= 70
}

fn lines(state: &State, inner: Rect, wanted: &str) -> Vec<Line> {
    let columns = if is_wide(inner) { KEYS + TITLE } else { KEYS };
    let help_width = usize::from(inner.width.saturating_sub(columns));
    let words = wanted_words(wanted);
    let mut lines = Vec::new();
    let view = state.focus();
    let mut section = |title: String, actions: Vec<&'static Action>| {
        let found: Vec<_> = actions
            .into_iter()
            .filter(|action| has(state, action, &words))
            .collect();
        if !found.is_empty() {
            lines.push(Line::Section(title));
        }
        for action in found {
            action_lines(state, action, help_width, &mut lines);
        }
    };
    let all = || state.input.keymap.actions();
    let is_here = |action: &Action| action.context.has(view);
    let of_view = |action: &Action| action.context != Context::Everywhere && is_here(action);
    let can = |action: &Action| action.possible(state).is_ok();
    section(
        format!("In this view: {}", title_of_front(state)),
        all().filter(|action| of_view(action) && can(action)).collect(),
    );
    for group in state.input.keymap.sections {
        let everywhere = group.actions.iter().copied();
        let everywhere = everywhere.filter(|action| action.context == Context::Everywhere && can(action));
        section(group.title.to_owned(), everywhere.collect());
    }
    section(
        "Not possible now".to_owned(),
        all().filter(|action| is_here(action) && !can(action)).collect(),
    );
    section(
        "In other views".to_owned(),
        all().filter(|action| !is_here(action)).collect(),
    );
    if state.terminal.mouse {
        mouse_lines(help_width, &words, &mut lines);
    }
    lines
}

/// The view in front, or that of the open detail.
fn title_of_front(state: &State) -> &'static str {
    if state.nav.details.is_empty() {
        state.nav.view.title()
    } else {
        state.focus().title()
    }
}

fn wanted_words(wanted: &str) -> Vec<String> {
    wanted.split_whitespace().map(str::to_lowercase).collect()
}

/// Whether each word is in its keys, its names or its explanation.
fn has(state: &State, action: &Action, words: &[String]) -> bool {
    if words.is_empty() {
        return true;
    }
    let keys: Vec<String> = state.input.keymap.labels(action.name).collect();
    let text = format!("{} {} {} {}", keys.join(" "), action.name, action.title, action.help).to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

/// What the mouse does: it takes the place of the terminal's own selection, which has to be said.
fn mouse_lines(help_width: usize, words: &[String], lines: &mut Vec<Line>) {
    let entries = [
        ("wheel", "move", "Moves the selection, or what is read."),
        (
            "click",
            "select",
            "Selects a row or a view, a second click opens; on a column it sorts, on a key below it does what the key does. It confirms nothing.",
        ),
        (
            "Shift+drag",
            "select text",
            "The terminal's own selection, as without the mouse (Option in some).",
        ),
    ];
    let found = entries.into_iter().filter(|(keys, title, help)| {
        let text = format!("mouse {keys} {title} {help}").to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    });
    for (number, (keys, title, help)) in found.enumerate() {
        if number == 0 {
            lines.push(Line::Section("Mouse".to_owned()));
        }
        let mut keys = keys.to_owned();
        let mut title = title;
        for part in wrap(help, help_width.max(1)) {
            lines.push(Line::Action {
                keys: std::mem::take(&mut keys),
                title: std::mem::take(&mut title),
                help: part.to_owned(),
                enabled: true,
            });
        }
    }
}

fn action_lines(state: &State, action: &'static Action, help_width: usize, lines: &mut Vec<Line>) {
    let keys: Vec<String> = state.input.keymap.labels(action.name).collect();
    let is_here = action.context.has(state.focus());
    let enabled = action.possible(state);
    let mut keys = keys.join(" ");
    let mut title = action.title;
    let reason = match &enabled {
        _ if !is_here => format!(" Is for: {}.", action.context.named()),
        Ok(()) => String::new(),
        Err(reason) => format!(" Not now: {}.", reason.as_ref()),
    };
    for part in wrap(
        &format!("{}{reason}", action.help),
        help_width.max(usize::from(cells(1))),
    ) {
        lines.push(Line::Action {
            keys: std::mem::take(&mut keys),
            title: std::mem::take(&mut title),
            help: part.to_owned(),
            enabled: is_here && enabled.is_ok(),
        });
    }
}
