//! JSON set out for people by its own text: nothing is sorted, rounded or added but space.
//!
//! Where it is nested deeply the indentation stops, so that what is set out is never much larger than what came.

/// Levels that are indented.
const INDENT_MAX: usize = 32;

/// Whether a place of JSON is inside a string.
#[derive(Debug, Default)]
pub struct Quotes {
    inside: bool,
    escaped: bool,
}

impl Quotes {
    /// Goes on behind a character.
    pub const fn pass(&mut self, character: char) {
        if character == '"' && !self.escaped {
            self.inside = !self.inside;
        }
        self.escaped = self.inside && character == '\\' && !self.escaped;
    }

    /// Whether what comes next is inside a string.
    #[must_use]
    pub const fn is_inside(&self) -> bool {
        self.inside
    }
}

/// An object or a list with a line for each of its parts; `None`: it is none, or would be longer than `bytes_max`.
#[must_use]
pub fn set_out(text: &str, bytes_max: usize) -> Option<String> {
    let begins = text.trim_start().starts_with(['{', '[']);
    if !begins {
        return None;
    }
    serde_json::from_str::<&serde_json::value::RawValue>(text).ok()?;
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut quotes) = (0_usize, Quotes::default());
    let mut characters = text.chars().peekable();
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(INDENT_MAX)));
    };
    while let Some(character) = characters.next() {
        if out.len() > bytes_max {
            return None;
        }
        let was_inside = quotes.inside;
        quotes.pass(character);
        match character {
            inside if was_inside => out.push(inside),
            '{' | '[' => {
                out.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    indent(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                indent(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                indent(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    Some(out)
}
