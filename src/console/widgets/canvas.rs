//! Puts text on the buffer: cut to its place, made safe, styled by role. Nothing else writes cells.
//!
//! Every text goes through [`show`] here, also one that was shown before (that changes nothing), so
//! that no caller can forget it. Plain ASCII, which nearly everything is, takes the short way.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Block, Widget as _};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::console::theme::{Role, Theme};
use crate::domain::text::{show, show_ends, width};
use crate::domain::time::Timestamp;

/// A piece of a line in one style.
pub(in crate::console) type Piece<'a> = (&'a str, Role);

/// What a click on a cell is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) enum Target {
    /// The view at a place of the tabs.
    Tab(usize),
    /// The row at a position of the list in front, or of the worst.
    Row(usize),
    /// The list in front is sorted by the column of that name.
    Column(&'static str),
    /// The action of that name, on the line of keys.
    Action(&'static str),
}

/// The buffer with what is needed to paint on it.
pub(in crate::console) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    targets: Vec<(Rect, Target)>,
    pub(in crate::console) theme: &'a Theme,
    pub(in crate::console) now: Timestamp,
}

impl<'a> Canvas<'a> {
    pub(in crate::console) const fn new(buffer: &'a mut Buffer, theme: &'a Theme, now: Timestamp) -> Self {
        Self {
            buffer,
            targets: Vec::new(),
            theme,
            now,
        }
    }

    /// Everything there is.
    pub(in crate::console) const fn area(&self) -> Rect {
        self.buffer.area
    }

    /// A click on these cells is about that, unless something is painted over them.
    pub(in crate::console) fn target(&mut self, area: Rect, target: Target) {
        self.targets.push((area, target));
    }

    /// What can be clicked.
    pub(in crate::console) fn into_targets(self) -> Vec<(Rect, Target)> {
        self.targets
    }

    /// Empties an area and gives it a ground. A wide character that reaches into it goes as a whole.
    pub(in crate::console) fn clear(&mut self, area: Rect, role: Role) {
        let area = self.buffer.area.intersection(area);
        let style = self.theme.style(role);
        for y in area.top()..area.bottom() {
            if area.left() > self.buffer.area.left()
                && let Some(before) = self.buffer.cell_mut((area.left() - 1, y))
                && before.symbol().width() > 1
            {
                before.set_symbol(" ");
            }
            for x in area.left()..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                    cell.set_style(style);
                }
            }
        }
    }

    /// Lays a style over what is there.
    pub(in crate::console) fn lay_over(&mut self, area: Rect, role: Role) {
        let style = self.theme.style(role);
        self.buffer.set_style(area, style);
    }

    /// A text on one line; answers how many cells it took.
    pub(in crate::console) fn text(&mut self, area: Rect, text: &str, role: Role) -> u16 {
        self.styled(area, text, self.theme.style(role))
    }

    /// The same; where it has no room, both of its ends, and of a URL none of its scheme.
    pub(in crate::console) fn ends(&mut self, area: Rect, text: &str, role: Role) -> u16 {
        let has_room = width(text) <= area.width.into();
        let text = if has_room {
            text
        } else {
            text.split_once("://").map_or(text, |(_, rest)| rest)
        };
        self.text(area, &show_ends(text, area.width.into()), role)
    }

    /// The same with a style that is not a role's own (the label of a profile).
    pub(in crate::console) fn styled(&mut self, area: Rect, text: &str, style: Style) -> u16 {
        let area = self.buffer.area.intersection(area);
        if area.is_empty() {
            return 0;
        }
        let plain = text.len() <= usize::from(area.width) && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if plain {
            return self.ascii(area, text, style);
        }
        let shown = show(text, area.width.into());
        let (end, _) = self
            .buffer
            .set_stringn(area.x, area.y, &shown, area.width.into(), style);
        end - area.x
    }

    fn ascii(&mut self, area: Rect, text: &str, style: Style) -> u16 {
        let mut x = area.x;
        for byte in text.bytes() {
            if let Some(cell) = self.buffer.cell_mut((x, area.y)) {
                cell.set_char(char::from(byte)).set_style(style);
            }
            x += 1;
        }
        x - area.x
    }

    /// A text whose end stands at the end of its place.
    pub(in crate::console) fn right(&mut self, area: Rect, text: &str, role: Role) {
        let taken = cells(width(text));
        let left = area.width.saturating_sub(taken);
        let area = Rect {
            x: area.x.saturating_add(left),
            width: area.width - left,
            ..area
        };
        self.text(area, text, role);
    }

    /// Pieces one after the other on one line; answers how many cells they took.
    pub(in crate::console) fn pieces(&mut self, area: Rect, pieces: &[Piece<'_>]) -> u16 {
        let mut rest = area;
        for (text, role) in pieces {
            let taken = self.text(rest, text, *role);
            rest.x = rest.x.saturating_add(taken);
            rest.width = rest.width.saturating_sub(taken);
        }
        area.width - rest.width
    }

    /// A text over as many lines as it needs and the area has; answers how many it took.
    pub(in crate::console) fn wrapped(&mut self, area: Rect, text: &str, role: Role) -> u16 {
        let lines = wrap_at_most(text, area.width.into(), area.height.into());
        for (at, line) in (0..).zip(&lines) {
            self.text(row(area, at), line, role);
        }
        cells(lines.len())
    }

    /// A border with a title in it.
    pub(in crate::console) fn border(&mut self, area: Rect, title: &str, role: Role) {
        let style = self.theme.style(role);
        let title = show(&format!(" {title} "), usize::from(area.width.saturating_sub(4)));
        let block = Block::bordered().title(format!("─{title}"));
        block.border_style(style).title_style(style).render(area, self.buffer);
    }

    /// Where the cursor would stand in an area.
    pub(in crate::console) fn cursor(&self, x: u16, y: u16) -> Option<Position> {
        let position = Position { x, y };
        self.buffer.area.contains(position).then_some(position)
    }
}

/// Columns as cells of a line.
pub(in crate::console) fn cells(columns: usize) -> u16 {
    u16::try_from(columns).unwrap_or(u16::MAX)
}

/// One line of an area; without height when the area has no such line.
pub(in crate::console) const fn row(area: Rect, line: u16) -> Rect {
    Rect {
        x: area.x,
        y: area.y.saturating_add(line),
        width: area.width,
        height: if line < area.height { 1 } else { 0 },
    }
}

/// What is left of an area below its first lines.
pub(in crate::console) fn below(area: Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    Rect {
        y: area.y.saturating_add(lines),
        height: area.height - lines,
        ..area
    }
}

/// What is left of an area behind its first columns.
pub(in crate::console) fn behind(area: Rect, columns: u16) -> Rect {
    let columns = columns.min(area.width);
    Rect {
        x: area.x.saturating_add(columns),
        width: area.width - columns,
        ..area
    }
}

/// Lines of at most `columns`, broken at a space where there is one in the second half.
pub(in crate::console) fn wrap(text: &str, columns: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while columns > 0 && !rest.is_empty() {
        let fits = fitting(rest, columns);
        if fits == rest.len() {
            lines.push(rest);
            break;
        }
        let at = rest
            .get(..fits)
            .and_then(|line| line.rfind(' '))
            .filter(|at| *at > 0 && at * 2 >= fits)
            .unwrap_or(fits);
        let (line, after) = rest.split_at(at);
        lines.push(line);
        rest = after.trim_start_matches(' ');
    }
    lines
}

/// The same on at most `lines_max` lines, made safe; what has no room is marked by `…`.
pub(in crate::console) fn wrap_at_most(text: &str, columns: usize, lines_max: usize) -> Vec<String> {
    let shown = show(text, columns * lines_max);
    let lines = wrap(&shown, columns);
    let kept = lines.len().min(lines_max.saturating_sub(1));
    let (whole, rest) = lines.split_at(kept);
    let whole = whole.iter().map(|line| (*line).to_owned());
    let last = (lines_max > 0 && !rest.is_empty()).then(|| show(&rest.join(" "), columns));
    whole.chain(last).collect()
}

/// Bytes of the beginning that takes at most `columns`; at least one character.
pub(in crate::console) fn fitting(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += character.width().unwrap_or(0);
        if taken > columns && at > 0 {
            return at;
        }
    }
    text.len()
}
