//! From cells to bytes: what differs from the last frame, in one write, and nothing where nothing differs.
//!
//! A frame stands between the two marks of a synchronized update, so that no terminal shows half of it.
//! Symbols that would act on the terminal are the view's matter; one that slipped through becomes a
//! blank here, the last place before the terminal.

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// Bytes of one cell, at most: a letter with more combining marks than anybody writes.
const SYMBOL_MAX: usize = 64;

/// Paints frames on a terminal.
#[derive(Debug)]
pub struct Painter<W> {
    out: W,
    bytes: Vec<u8>,
    shown: Buffer,
    next: Buffer,
    cursor: Option<Position>,
    /// What is on the terminal is not known.
    whole: bool,
    /// The title that the terminal was told last.
    title: Option<String>,
}

impl<W: Write> Painter<W> {
    /// For a terminal of which nothing is known.
    pub fn new(out: W) -> Self {
        Self {
            out,
            bytes: Vec::new(),
            shown: Buffer::empty(Rect::ZERO),
            next: Buffer::empty(Rect::ZERO),
            cursor: None,
            whole: true,
            title: None,
        }
    }

    /// The next frame is painted whole, and the title told again: something else may have written on the terminal.
    pub fn forget(&mut self) {
        self.whole = true;
        self.title = None;
    }

    /// Lets `render` fill a buffer of this size and writes what changed; answers how many bytes.
    pub fn paint(
        &mut self,
        (columns, rows): (u16, u16),
        render: impl FnOnce(&mut Buffer) -> Option<Position>,
    ) -> io::Result<usize> {
        let area = Rect::new(0, 0, columns, rows);
        if self.next.area != area {
            self.next.resize(area);
        }
        self.next.reset();
        let cursor = render(&mut self.next).filter(|position| area.contains(*position));
        // Before the comparison, which believes the width of a symbol.
        for cell in &mut self.next.content {
            if !is_harmless(cell.symbol()) {
                cell.set_symbol(" ");
            }
        }
        if self.shown.area != area {
            self.shown.resize(area);
            self.whole = true;
        }
        let changed = self.whole || cursor != self.cursor || self.shown.diff_iter(&self.next).next().is_some();
        if !changed {
            return Ok(0);
        }
        self.encode(cursor)?;
        let count = self.bytes.len();
        self.out.write_all(&self.bytes)?;
        self.out.flush()?;
        std::mem::swap(&mut self.shown, &mut self.next);
        self.cursor = cursor;
        self.whole = false;
        Ok(count)
    }

    /// Tells the terminal the title of its window, where that is another one now. It has to be safe to send.
    pub fn entitle(&mut self, title: String) -> io::Result<()> {
        if self.title.as_ref() != Some(&title) {
            self.send(&format!("\x1b]0;{title}\x07"))?;
            self.title = Some(title);
        }
        Ok(())
    }

    /// Writes something that moves no cursor and changes no cell.
    pub fn send(&mut self, sequence: &str) -> io::Result<()> {
        self.out.write_all(sequence.as_bytes())?;
        self.out.flush()
    }

    fn encode(&mut self, cursor: Option<Position>) -> io::Result<()> {
        self.bytes.clear();
        queue!(self.bytes, BeginSynchronizedUpdate)?;
        if self.whole || self.cursor.is_some() {
            queue!(self.bytes, Hide)?;
        }
        if self.whole {
            queue!(self.bytes, Clear(ClearType::All))?;
            self.shown.reset();
        }
        let changes = self.shown.diff_iter(&self.next);
        CrosstermBackend::new(&mut self.bytes).draw(changes)?;
        if let Some(position) = cursor {
            queue!(self.bytes, MoveTo(position.x, position.y), Show)?;
        }
        queue!(self.bytes, EndSynchronizedUpdate)
    }
}

fn is_harmless(symbol: &str) -> bool {
    match symbol.as_bytes() {
        [byte] => !byte.is_ascii_control(),
        bytes => bytes.len() <= SYMBOL_MAX && !symbol.chars().any(char::is_control),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::{Modifier, Style};

    use super::*;

    fn painter() -> Painter<Vec<u8>> {
        crossterm::style::force_color_output(true);
        Painter::new(Vec::new())
    }

    fn text(text: &'static str) -> impl FnOnce(&mut Buffer) -> Option<Position> {
        move |buffer| {
            buffer.set_string(0, 0, text, Style::new());
            None
        }
    }

    /// What a terminal shows after everything that was written.
    fn screen(painter: &Painter<Vec<u8>>, (columns, rows): (u16, u16)) -> vt100::Parser {
        let size = |cells| std::num::NonZeroU16::new(cells).unwrap();
        let mut parser = vt100::Parser::new(size(rows), size(columns), 0);
        parser.process(&painter.out);
        parser
    }

    #[test]
    fn an_equal_frame_writes_nothing() {
        let mut painter = painter();
        assert!(painter.paint((20, 3), text("hello")).unwrap() > 0);
        let before = painter.out.len();
        assert_eq!(painter.paint((20, 3), text("hello")).unwrap(), 0);
        assert_eq!(painter.out.len(), before);
    }

    #[test]
    fn a_change_writes_only_itself_between_the_marks_of_an_update() {
        let mut painter = painter();
        painter.paint((80, 24), text("waiting 1")).unwrap();
        painter.out.clear();
        painter.paint((80, 24), text("waiting 2")).unwrap();
        let written = String::from_utf8(painter.out.clone()).unwrap();
        assert!(
            written.starts_with("\x1b[?2026h") && written.ends_with("\x1b[?2026l"),
            "{written:?}"
        );
        assert!(written.contains('2') && !written.contains("waiting"), "{written:?}");
    }

    #[test]
    fn another_size_and_a_forgotten_screen_are_painted_whole() {
        let mut painter = painter();
        painter.paint((20, 3), text("hello")).unwrap();
        painter.paint((10, 2), text("hello")).unwrap();
        assert_eq!(screen(&painter, (10, 2)).screen().contents(), "hello");
        painter.out.clear();
        painter.forget();
        painter.paint((10, 2), text("hello")).unwrap();
        assert_eq!(screen(&painter, (10, 2)).screen().contents(), "hello");
    }

    #[test]
    fn the_cursor_is_seen_only_where_something_is_typed() {
        let mut painter = painter();
        painter.paint((20, 3), text("a")).unwrap();
        assert!(screen(&painter, (20, 3)).screen().hide_cursor());
        painter.paint((20, 3), |_| Some(Position::new(4, 1))).unwrap();
        let parser = screen(&painter, (20, 3));
        assert!(!parser.screen().hide_cursor());
        assert_eq!(parser.screen().cursor_position(), (1, 4));
        painter.paint((20, 3), text("a")).unwrap();
        assert!(screen(&painter, (20, 3)).screen().hide_cursor());
    }

    #[test]
    fn a_symbol_that_would_act_on_the_terminal_becomes_a_blank() {
        let mut painter = painter();
        let hostile = |buffer: &mut Buffer| {
            buffer[(0, 0)].set_symbol("\x1b]0;owned\x07");
            buffer[(1, 0)].set_symbol("\u{9b}2J");
            buffer[(2, 0)].set_symbol("a\u{301}");
            let bomb = format!("a{}", "\u{301}".repeat(100_000));
            buffer[(3, 0)].set_symbol(&bomb);
            None
        };
        let written = painter.paint((20, 3), hostile).unwrap();
        assert!(written < 200, "{written}");
        let text = String::from_utf8(painter.out.clone()).unwrap();
        assert!(
            !text.contains("owned") && !text.contains('\u{9b}') && text.contains("a\u{301}"),
            "{text:?}"
        );
    }

    #[test]
    fn an_inverse_cell_stays_inverse_where_the_environment_says_no_colour() {
        let mut painter = painter();
        let row = |buffer: &mut Buffer| {
            buffer.set_string(0, 0, "row", Style::new().add_modifier(Modifier::REVERSED));
            None
        };
        painter.paint((20, 3), row).unwrap();
        let parser = screen(&painter, (20, 3));
        assert!(parser.screen().cell(0, 0).unwrap().inverse());
    }
}
