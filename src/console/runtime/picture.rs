//! A screen as text, or as SVG: what the terminal shows, cell by cell, with nothing but rectangles and text.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

use crate::console::theme::written;

/// A cell in pixels.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 17.0;
/// From the top of a line to the foot of its letters.
const BASE: f32 = 13.0;
const MARGIN: f32 = 10.0;
/// The terminal's own, which a picture has to make up.
const BLACK: &str = "#000000";
const INK: &str = "#d5dbe5";

/// The lines of a screen; the second half of a wide character is no character.
#[must_use]
pub fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let mut screen = String::new();
    for y in 0..area.height {
        let mut line = String::new();
        let mut x = 0;
        while let Some(cell) = buffer.cell((x, y)).filter(|_| x < area.width) {
            line.push_str(cell.symbol());
            x += cells(cell.symbol());
        }
        screen.push_str(line.trim_end());
        screen.push('\n');
    }
    screen
}

/// The picture of a screen.
#[must_use]
pub fn svg(buffer: &Buffer, title: &str) -> String {
    let area = buffer.area;
    let (width, height) = (x(area.width) + MARGIN, y(area.height) + MARGIN);
    let corner = buffer.cell((0, area.height.saturating_sub(1)));
    let ground = corner.map_or_else(|| BLACK.to_owned(), |cell| written(cell.bg, BLACK));
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{ground}\"/>\n\
         <g font-family=\"'DejaVu Sans Mono','Menlo','Consolas',monospace\" font-size=\"14\" xml:space=\"preserve\">\n"
    );
    for line in 0..area.height {
        for run in runs(buffer, line) {
            run.ground(&mut svg, &ground, line);
            run.text(&mut svg, line);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn x(columns: u16) -> f32 {
    MARGIN + WIDTH * f32::from(columns)
}

fn y(rows: u16) -> f32 {
    MARGIN + HEIGHT * f32::from(rows)
}

/// Neighbours that look alike.
struct Run {
    from: u16,
    columns: u16,
    text: String,
    cell: Cell,
}

fn runs(buffer: &Buffer, line: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut column = 0;
    while let Some(cell) = buffer.cell((column, line)).filter(|_| column < buffer.area.width) {
        let wide = cells(cell.symbol());
        let alike = |run: &&mut Run| (run.cell.fg, run.cell.bg, run.cell.modifier) == (cell.fg, cell.bg, cell.modifier);
        match runs.last_mut().filter(alike) {
            Some(run) => {
                run.columns += wide;
                run.text.push_str(cell.symbol());
            }
            None => runs.push(Run {
                from: column,
                columns: wide,
                text: cell.symbol().to_owned(),
                cell: cell.clone(),
            }),
        }
        column += wide;
    }
    runs
}

impl Run {
    fn colours(&self) -> (String, String) {
        let (fg, bg) = (written(self.cell.fg, INK), written(self.cell.bg, BLACK));
        if self.cell.modifier.contains(Modifier::REVERSED) {
            (bg, fg)
        } else {
            (fg, bg)
        }
    }

    fn ground(&self, svg: &mut String, ground: &str, line: u16) {
        let (_, bg) = self.colours();
        if bg != ground {
            let (left, top, width) = (x(self.from), y(line), WIDTH * f32::from(self.columns));
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{bg}\"/>"
            );
        }
    }

    fn text(&self, svg: &mut String, line: u16) {
        let text = self.text.trim_end();
        let underlined = self.cell.modifier.contains(Modifier::UNDERLINED);
        if text.trim().is_empty() && !underlined {
            return;
        }
        let text = if underlined { self.text.as_str() } else { text };
        let columns = u16::try_from(text.width()).unwrap_or(u16::MAX);
        let (fg, _) = self.colours();
        let mut style = String::new();
        for (modifier, attribute) in [
            (Modifier::BOLD, " font-weight=\"bold\""),
            (Modifier::ITALIC, " font-style=\"italic\""),
            (Modifier::UNDERLINED, " text-decoration=\"underline\""),
            (Modifier::DIM, " opacity=\"0.6\""),
        ] {
            if self.cell.modifier.contains(modifier) {
                style.push_str(attribute);
            }
        }
        let (left, foot, length) = (x(self.from), y(line) + BASE, WIDTH * f32::from(columns));
        let _ = writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{foot:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{fg}\"{style}>{}</text>",
            escaped(text)
        );
    }
}

/// Columns of a symbol; never none, so that a walk over a line ends.
fn cells(symbol: &str) -> u16 {
    u16::try_from(symbol.width().max(1)).unwrap_or(1)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
