//! A body that is copied with some of its parts replaced, and JSON's small parts.

use super::{MASK, Masked};

/// The copy so far; nothing is copied before the first replacement.
pub(super) struct Rewrite<'a> {
    input: &'a [u8],
    output: Vec<u8>,
    copied: usize,
    hidden: usize,
}

impl<'a> Rewrite<'a> {
    pub(super) const fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            output: Vec::new(),
            copied: 0,
            hidden: 0,
        }
    }

    /// Hides a part, between two delimiters. What is hidden already is not counted again.
    pub(super) fn hide(&mut self, from: usize, to: usize, delimiter: &[u8]) {
        let mask = [delimiter, MASK.as_bytes(), delimiter].concat();
        let before = self.input.get(from..to).unwrap_or_default();
        if from < self.copied || before == mask || before == MASK.as_bytes() {
            return;
        }
        self.output
            .extend_from_slice(self.input.get(self.copied..from).unwrap_or_default());
        self.output.extend_from_slice(&mask);
        self.copied = to;
        self.hidden += 1;
    }

    /// `None`: nothing was hidden.
    pub(super) fn end(mut self) -> Option<Masked<Vec<u8>>> {
        if self.hidden == 0 {
            return None;
        }
        self.output
            .extend_from_slice(self.input.get(self.copied..).unwrap_or_default());
        Some(Masked {
            value: self.output,
            hidden: self.hidden,
        })
    }
}

/// Behind the quotation mark that ends the string whose first one is at `at`; the end of what is cut.
pub(super) fn string_end(input: &[u8], at: usize) -> usize {
    let mut place = at + 1;
    while let Some(byte) = input.get(place) {
        match byte {
            b'"' => return place + 1,
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    input.len()
}

/// Behind a value of JSON: string, list, object, or a word; the end of what is cut.
pub(super) fn value_end(input: &[u8], at: usize) -> usize {
    match input.get(at) {
        Some(b'"') => string_end(input, at),
        Some(b'{' | b'[') => nest_end(input, at),
        Some(_) => word_end(input, at),
        None => at,
    }
}

/// Behind a number, `true`, `false`, `null`, or whatever stands in their place.
pub(super) fn word_end(input: &[u8], at: usize) -> usize {
    let rest = input.get(at..).unwrap_or_default();
    let inside = |byte: &&u8| !(byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']'));
    at + rest.iter().take_while(inside).count()
}

fn nest_end(input: &[u8], at: usize) -> usize {
    let (mut place, mut depth) = (at, 0_usize);
    while let Some(byte) = input.get(place) {
        match byte {
            b'"' => {
                place = string_end(input, place);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        place += 1;
        if depth == 0 {
            return place;
        }
    }
    input.len()
}

/// A name as its reader would read it: escapes resolved, however often they were escaped again.
pub(super) fn decoded(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches('\\');
        let unit = rest.strip_prefix('u').and_then(|hex| hex.get(..4));
        if let Some(character) = unit
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32)
        {
            out.push(character);
            rest = &rest[5..];
        }
    }
    out.push_str(rest);
    out
}
