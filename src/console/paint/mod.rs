//! Paints a [`State`] into a buffer; changes nothing.
//!
//! Only rows that are on the screen are made into text; sums come ready from the snapshot. Styles are
//! roles of the theme, and every text passes the canvas, which makes it safe and cuts it to its place.

mod column_choice;
mod connecting;
mod detail;
mod dialog;
mod dialog_run;
mod document_form;
mod first_run;
mod form_lines;
mod frame;
mod health;
mod help;
mod hints;
mod menu;
mod palette;
mod payload;
mod pending;
mod policy_form;
mod preview;
mod profiles;
mod question;
mod small;
mod toasts;
mod when;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

pub use self::first_run::paint as first_run;
use self::frame::Frame;
use crate::console::state::page::PageKind;
use crate::console::state::{Link, Mode, SIZE_MIN, State, View};
use crate::console::theme::{Role, Theme};
use crate::console::widgets::ascii;
use crate::console::widgets::canvas::Canvas;
pub(super) use crate::console::widgets::canvas::Target;

/// Paints the whole screen into `buffer`, whose area is the terminal's; answers where the cursor
/// stands when something is typed.
pub fn view(state: &State, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    let (cursor, _) = screen(state, theme, buffer);
    if theme.is_ascii() {
        ascii::flatten(buffer);
    }
    cursor
}

/// What can be clicked at a cell of the screen.
///
/// The screen is painted once more, aside: so what is found is what is seen, and no place is counted twice.
#[must_use]
pub(super) fn target(state: &State, column: u16, row: u16) -> Option<Target> {
    let (width, height) = state.terminal.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let (_, targets) = screen(state, &Theme::default(), &mut buffer);
    let found = targets
        .iter()
        .rev()
        .find(|(area, _)| area.contains(Position { x: column, y: row }));
    found.map(|(_, target)| *target)
}

/// How far the help can be scrolled on the screen as it is.
#[must_use]
pub(super) fn help_scroll_max(state: &State) -> usize {
    let (width, height) = state.terminal.size;
    help::scroll_max(Frame::split(Rect::new(0, 0, width, height), state).body, state)
}

fn screen(state: &State, theme: &Theme, buffer: &mut Buffer) -> (Option<Position>, Vec<(Rect, Target)>) {
    let mut canvas = Canvas::new(buffer, theme, state.now);
    let cursor = paint(&mut canvas, state);
    (cursor, canvas.into_targets())
}

fn paint(canvas: &mut Canvas<'_>, state: &State) -> Option<Position> {
    let area = canvas.area();
    canvas.clear(area, Role::Screen);
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        small::paint(canvas, area);
        return None;
    }
    let frame = Frame::split(area, state);
    frame::paint(canvas, &frame, state);
    hints::paint(canvas, frame.hints, state);
    let cursor = body(canvas, frame.body, state);
    toasts::paint(canvas, frame.body, state);
    match &state.input.mode {
        Mode::Browse => {
            pending::paint(canvas, frame.body, state);
            cursor
        }
        Mode::Filter(_) | Mode::Find(_) => cursor,
        Mode::Palette(open) => palette::paint(canvas, frame.body, state, open),
        Mode::Columns(chosen) => {
            column_choice::paint(canvas, frame.body, state, *chosen);
            None
        }
        Mode::Policy(form) => policy_form::paint(canvas, frame.body, form),
        Mode::Document(form) => document_form::paint(canvas, frame.body, form),
        Mode::When(form) => when::paint(canvas, frame.body, form),
        Mode::Dialog(open) => dialog::paint(canvas, frame.body, state, open),
        Mode::Question(open) => {
            question::paint(canvas, frame.body, state, open);
            None
        }
        Mode::Page(page) => {
            match page.kind {
                PageKind::Profiles => profiles::paint(canvas, frame.body, state, page.line),
                PageKind::Health => health::paint(canvas, frame.body, state, page.line),
            }
            None
        }
        Mode::Menu(open) => {
            menu::paint(canvas, frame.body, state, open);
            None
        }
        Mode::Help(open) => help::paint(canvas, frame.body, state, open),
    }
}

fn body(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    if let (Link::Connecting { .. }, None) = (&state.data.link, &state.data.snapshot) {
        connecting::paint(canvas, area, state);
        return None;
    }
    if let Some(sides) = state.sides() {
        let parts = sides.divide(area);
        let of_list = view_in(canvas, parts.list, state);
        let of_preview = preview::paint(canvas, parts, sides, state);
        return of_preview.or(of_list);
    }
    if let Some(open) = state.nav.details.last() {
        return detail::paint(canvas, area, state, open);
    }
    view_in(canvas, area, state)
}

fn view_in(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    let cursor = state.nav.view.screen().paint(canvas, area, state);
    if frame::is_stale(state) && state.nav.view != View::Log {
        canvas.lay_over(area, Role::TextStale);
    }
    cursor
}
