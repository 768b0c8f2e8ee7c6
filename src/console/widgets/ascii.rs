//! The same screen with characters that every terminal has, for a theme that asks for it.
//!
//! Signs and lines get their nearest ASCII character; any other character is a question mark, and a wide one
//! keeps its two cells.

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr as _;

/// Replaces what is not ASCII.
pub(in crate::console) fn flatten(buffer: &mut Buffer) {
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            let Some(cell) = buffer.cell_mut((x, y)) else { continue };
            if cell.symbol().is_ascii() {
                continue;
            }
            let wide = cell.symbol().width() > 1;
            let plain = plain(cell.symbol());
            cell.set_char(plain);
            if wide && let Some(next) = buffer.cell_mut((x + 1, y)) {
                next.set_char(' ');
            }
        }
    }
}

fn plain(symbol: &str) -> char {
    match symbol {
        "▲" | "▴" | "↑" => '^',
        "▼" | "▾" | "↓" => 'v',
        "●" | "•" => '*',
        "○" => 'o',
        "×" => 'x',
        "…" => '~',
        "│" | "┃" | "▌" | "▏" | "▕" => '|',
        "─" | "━" | "–" | "—" => '-',
        "✓" | "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" => '+',
        "→" | "▶" | "›" => '>',
        "←" | "‹" => '<',
        "▁" => '_',
        "·" | "▂" | "▃" => '.',
        "▄" | "▅" => ':',
        "◆" | "▆" | "▇" | "█" | "▉" | "▊" | "▋" | "▍" | "▎" => '#',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn signs_keep_their_meaning_and_wide_characters_their_cells() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "▼ ×│─ 日é a", Style::new());
        flatten(&mut buffer);
        let text: String = (0..12).map(|x| buffer[(x, 0)].symbol().to_owned()).collect();
        assert_eq!(text, "v x|- ? ? a ");
    }
}
