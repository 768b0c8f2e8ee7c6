//! Paints a [`State`] into a buffer; changes nothing.
//!
//! Only rows that are on the screen are made into text; sums come ready from the snapshot. Styles are
//! roles of the theme, and every text passes the canvas, which makes it safe and cuts it to its place.

mod ascii;
mod audit;
mod bars;
mod canvas;
mod column_choice;
mod columns;
mod connecting;
mod dead;
mod detail;
mod dialog;
mod dialog_run;
mod document_form;
mod endpoints;
mod events;
mod expiring;
mod form_lines;
mod frame;
mod help;
mod hints;
mod list;
mod log;
mod overview;
mod palette;
mod payload;
mod pending;
mod policies;
mod policy_form;
mod queues;
mod retries;
mod runs;
mod schedule;
mod small;
mod timeline;
mod toasts;
mod when;
mod words;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use self::canvas::Canvas;
use self::frame::Frame;
use super::state::{Link, Mode, SIZE_MIN, State, View};
use super::theme::{Role, Theme};

/// Paints the whole screen into `buffer`, whose area is the terminal's; answers where the cursor
/// stands when something is typed.
pub fn view(state: &State, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    let cursor = screen(state, theme, buffer);
    if theme.is_ascii() {
        ascii::flatten(buffer);
    }
    cursor
}

fn screen(state: &State, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    let area = buffer.area;
    let mut canvas = Canvas::new(buffer, theme, state.now);
    canvas.clear(area, Role::Screen);
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        small::paint(&mut canvas, area);
        return None;
    }
    let frame = Frame::split(area, state);
    frame::paint(&mut canvas, &frame, state);
    hints::paint(&mut canvas, frame.hints, state);
    let cursor = body(&mut canvas, frame.body, state);
    toasts::paint(&mut canvas, frame.body, state);
    match &state.mode {
        Mode::Browse => {
            pending::paint(&mut canvas, frame.body, state);
            cursor
        }
        Mode::Filter(_) | Mode::Find(_) => cursor,
        Mode::Palette(open) => palette::paint(&mut canvas, frame.body, state, open),
        Mode::Columns(chosen) => {
            column_choice::paint(&mut canvas, frame.body, state, *chosen);
            None
        }
        Mode::Policy(form) => policy_form::paint(&mut canvas, frame.body, form),
        Mode::Document(form) => document_form::paint(&mut canvas, frame.body, form),
        Mode::When(form) => when::paint(&mut canvas, frame.body, form),
        Mode::Dialog(open) => dialog::paint(&mut canvas, frame.body, state, open),
        Mode::Help { scroll } => {
            help::paint(&mut canvas, frame.body, state, *scroll);
            None
        }
    }
}

fn body(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Option<Position> {
    if let (Link::Connecting { .. }, None) = (&state.link, &state.snapshot) {
        connecting::paint(canvas, area, state);
        return None;
    }
    if let Some(open) = state.details.last() {
        return detail::paint(canvas, area, state, open);
    }
    let cursor = match state.view {
        View::Overview => {
            overview::paint(canvas, area, state);
            None
        }
        View::Queues => queues::paint(canvas, area, state),
        View::Endpoints => endpoints::paint(canvas, area, state),
        View::Retries => retries::paint(canvas, area, state),
        View::Dead => dead::paint(canvas, area, state),
        View::Policies => policies::paint(canvas, area, state),
        View::Runs => runs::paint(canvas, area, state),
        View::Audit => audit::paint(canvas, area, state),
        View::Events => events::paint(canvas, area, state),
        View::Expiring => expiring::paint(canvas, area, state),
        View::Log => {
            log::paint(canvas, area, state);
            None
        }
    };
    if frame::is_stale(state) && state.view != View::Log {
        canvas.lay_over(area, Role::TextStale);
    }
    cursor
}
