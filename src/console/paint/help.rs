//! Every key and what it does, made from the table of actions.
//!
//! ```text
//! ┌ Keys ─────────────────────────────────────────────┐
//! │ Act (planned, then confirmed)                      │
//! │  R        redeliver      Make the endpoint of …    │
//! └────────────────────────────────── 1–18 of 52 ──────┘
//! ```

use ratatui::layout::Rect;

use super::dialog::{boxed, inside};
use crate::console::state::State;
use crate::console::state::action::{Action, Context};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row, wrap};

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

/// Paints the help over the whole body.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, scroll: usize) {
    let inner = boxed(canvas, area, "Keys", false);
    let wide = is_wide(inner);
    let lines = lines(state, inner);
    let scroll = scroll.min(lines.len().saturating_sub(inner.height.into()));
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
}

/// How far it can be scrolled on the screen as it is.
pub(super) fn scroll_max(body: Rect, state: &State) -> usize {
    let inner = inside(body);
    lines(state, inner).len().saturating_sub(inner.height.into())
}

const fn is_wide(inner: Rect) -> bool {
    inner.width >= 70
}

fn lines(state: &State, inner: Rect) -> Vec<Line> {
    let columns = if is_wide(inner) { KEYS + TITLE } else { KEYS };
    let help_width = usize::from(inner.width.saturating_sub(columns));
    let mut lines = Vec::new();
    let view = state.focus();
    let mut section = |title: String, actions: Vec<&'static Action>| {
        if !actions.is_empty() {
            lines.push(Line::Section(title));
        }
        for action in actions {
            action_lines(state, action, help_width, &mut lines);
        }
    };
    let all = || state.input.keymap.actions();
    let of_view = |action: &&'static Action| action.context != Context::Everywhere && action.context.has(view);
    section(
        format!("In this view: {}", view.title()),
        all().filter(of_view).collect(),
    );
    for group in state.input.keymap.sections {
        let everywhere = group
            .actions
            .iter()
            .copied()
            .filter(|action| action.context == Context::Everywhere);
        section(group.title.to_owned(), everywhere.collect());
    }
    section(
        "In other views".to_owned(),
        all().filter(|action| !action.context.has(view)).collect(),
    );
    if state.terminal.mouse {
        mouse_lines(help_width, &mut lines);
    }
    lines
}

/// What the mouse does: it takes the place of the terminal's own selection, which has to be said.
fn mouse_lines(help_width: usize, lines: &mut Vec<Line>) {
    lines.push(Line::Section("Mouse".to_owned()));
    for (keys, title, help) in [
        ("wheel", "move", "Moves the selection, or what is read."),
        (
            "click",
            "select",
            "Selects a row or a view; a second click opens. It never changes or confirms anything.",
        ),
        (
            "Shift+drag",
            "select text",
            "The terminal's own selection, as without the mouse (Option in some).",
        ),
    ] {
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
