//! A colour as pictures write it.

use ratatui::style::Color;

/// Names and numbers as most terminals show them.
#[must_use]
pub fn written(colour: Color, otherwise: &str) -> String {
    let named = match colour {
        Color::Rgb(red, green, blue) => return format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Indexed(index) => return indexed(index),
        Color::Reset => return otherwise.to_owned(),
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    };
    indexed(named)
}

fn indexed(index: u8) -> String {
    const NAMED: [&str; 16] = [
        "#000000", "#cd3131", "#0dbc79", "#e5e510", "#2472c8", "#bc3fbc", "#11a8cd", "#e5e5e5", "#666666", "#f14c4c",
        "#23d18b", "#f5f543", "#3b8eea", "#d670d6", "#29b8db", "#ffffff",
    ];
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match (NAMED.get(usize::from(index)), index) {
        (Some(named), _) => (*named).to_owned(),
        (None, 232..) => {
            let gray = 8 + 10 * (index - 232);
            format!("#{gray:02x}{gray:02x}{gray:02x}")
        }
        (None, _) => {
            let level = |place: u8| LEVELS.get(usize::from(place % 6)).copied().unwrap_or_default();
            let cube = index - 16;
            format!("#{:02x}{:02x}{:02x}", level(cube / 36), level(cube / 6), level(cube))
        }
    }
}
