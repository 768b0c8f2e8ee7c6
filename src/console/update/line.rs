//! A line of bounded length: how it is edited, and what is pasted into it.

use tui_input::{Input, InputRequest};

use crate::domain::text::is_hidden;

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
