//! Values at a place of a JSON body.
//!
//! What is deeper than [`DEPTH_MAX`] has no place here; names hide it all the same.

use super::rewrite::{Rewrite, decoded, string_end, value_end, word_end};
use super::{MaskRules, Masked, Segment, What};

/// Levels of nesting whose keys are remembered.
const DEPTH_MAX: usize = 64;

/// Where the reader is in a container.
enum Level {
    /// In an object: at the value of this key, or before a key.
    Key(Option<String>),
    /// In a list, at this place.
    Place(usize),
}

pub(super) fn hide(rules: &MaskRules, input: &[u8]) -> Option<Masked<Vec<u8>>> {
    let mut rewrite = Rewrite::new(input);
    let mut path: Vec<Level> = Vec::new();
    // Containers that are too deep to have a place.
    let mut deeper = 0_usize;
    let mut at = 0;
    while let Some(byte) = input.get(at).copied() {
        match byte {
            b'}' | b']' if deeper > 0 => (at, deeper) = (at + 1, deeper - 1),
            b'}' | b']' => {
                path.pop();
                at += 1;
            }
            b',' => {
                if deeper == 0 {
                    next(&mut path);
                }
                at += 1;
            }
            b'"' if deeper == 0 && matches!(path.last(), Some(Level::Key(None))) => {
                let end = string_end(input, at);
                let name = input.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
                path.pop();
                path.push(Level::Key(Some(decoded(name))));
                at = end;
            }
            blank if blank == b':' || blank.is_ascii_whitespace() => at += 1,
            _ if deeper == 0 && is_hidden(rules, &path) => {
                let end = value_end(input, at).max(at + 1);
                rewrite.hide(at, end, b"\"");
                at = end;
            }
            b'{' | b'[' if deeper > 0 || path.len() >= DEPTH_MAX => (at, deeper) = (at + 1, deeper + 1),
            b'{' | b'[' => {
                path.push(if byte == b'{' {
                    Level::Key(None)
                } else {
                    Level::Place(0)
                });
                at += 1;
            }
            b'"' => at = string_end(input, at),
            _ => at = word_end(input, at).max(at + 1),
        }
    }
    rewrite.end()
}

fn next(path: &mut [Level]) {
    match path.last_mut() {
        Some(Level::Key(key)) => *key = None,
        Some(Level::Place(place)) => *place += 1,
        None => {}
    }
}

fn is_hidden(rules: &MaskRules, path: &[Level]) -> bool {
    let pointers = rules.hidden.iter().filter_map(|rule| match &rule.what {
        What::Pointer(segments) => Some(segments),
        What::Name(_) => None,
    });
    let fits = |(segment, level): (&Segment, &Level)| match (segment, level) {
        (Segment::Any, _) => true,
        (Segment::Named(name), Level::Key(key)) => key.as_deref() == Some(name),
        (Segment::Named(name), Level::Place(place)) => name.parse() == Ok(*place),
    };
    pointers
        .into_iter()
        .any(|segments| segments.len() == path.len() && segments.iter().zip(path).all(fits))
}
