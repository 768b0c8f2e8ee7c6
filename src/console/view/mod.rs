//! Paints a [`State`] into a buffer; changes nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use super::state::State;
use super::theme::Theme;

/// Paints the whole screen into `buffer`, whose area is the terminal's; answers where the cursor
/// stands when something is typed.
pub fn view(state: &State, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    let _ = (state, theme, buffer);
    None
}
