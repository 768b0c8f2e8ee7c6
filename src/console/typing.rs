//! How a line is typed: the keys of a line editor, a bounded length, and what is pasted.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use tui_input::{Input, InputRequest};

use crate::domain::text::is_hidden;

/// Keys closer together than this are not typed by hand.
pub(super) const BURST_GAP: Duration = Duration::from_millis(20);

/// Lines become one line; what cannot be seen is left out.
pub(super) fn pasted(text: &str, bytes_max: usize) -> Vec<InputRequest> {
    // No character is shorter than a byte: what comes after these has no room.
    let bounded = text.chars().take(bytes_max);
    let spaced = bounded.map(|c| if c.is_whitespace() { ' ' } else { c });
    spaced
        .filter(|c| !is_hidden(*c))
        .map(InputRequest::InsertChar)
        .collect()
}

/// Does it as far as there is room; answers whether the line says something else now.
pub(super) fn edit(input: &mut Input, requests: &[InputRequest], bytes_max: usize) -> bool {
    let before = input.value().to_owned();
    for request in requests {
        let full = input.value().len() + char::MAX.len_utf8() > bytes_max;
        if !(full && matches!(request, InputRequest::InsertChar(_))) {
            input.handle(*request);
        }
    }
    input.value() != before
}

/// The keys of a line editor.
pub(super) fn request(code: KeyCode, modifiers: KeyModifiers) -> Option<InputRequest> {
    let control = modifiers.contains(KeyModifiers::CONTROL);
    let alt = modifiers.contains(KeyModifiers::ALT);
    Some(match (code, control) {
        (KeyCode::Backspace, _) if alt => InputRequest::DeletePrevWord,
        (KeyCode::Backspace, false) | (KeyCode::Char('h'), true) => InputRequest::DeletePrevChar,
        (KeyCode::Delete, false) => InputRequest::DeleteNextChar,
        (KeyCode::Delete, true) => InputRequest::DeleteNextWord,
        (KeyCode::Left, false) | (KeyCode::Char('b'), true) => InputRequest::GoToPrevChar,
        (KeyCode::Left, true) => InputRequest::GoToPrevWord,
        (KeyCode::Right, false) | (KeyCode::Char('f'), true) => InputRequest::GoToNextChar,
        (KeyCode::Right, true) => InputRequest::GoToNextWord,
        (KeyCode::Home, _) | (KeyCode::Char('a'), true) => InputRequest::GoToStart,
        (KeyCode::End, _) | (KeyCode::Char('e'), true) => InputRequest::GoToEnd,
        (KeyCode::Char('u'), true) => InputRequest::DeleteLine,
        (KeyCode::Char('w'), true) => InputRequest::DeletePrevWord,
        (KeyCode::Char('k'), true) => InputRequest::DeleteTillEnd,
        (KeyCode::Char('y'), true) => InputRequest::Yank,
        (KeyCode::Char(c), false) if !alt && !is_hidden(c) => InputRequest::InsertChar(c),
        _ => return None,
    })
}
