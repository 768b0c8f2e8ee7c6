//! Values of forms and of lines: `name=value` anywhere, `Name: value` at the beginning of a line.

use super::rewrite::Rewrite;
use super::{MaskRules, Masked};

/// Words before what really opens the door.
const SCHEMES: [&[u8]; 4] = [b"bearer", b"basic", b"digest", b"token"];

pub(super) fn hide(rules: &MaskRules, input: &[u8]) -> Option<Masked<Vec<u8>>> {
    let mut rewrite = Rewrite::new(input);
    let (mut at, mut begins_line) = (0, true);
    while let Some(byte) = input.get(at).copied() {
        let escaped = at > 0 && input[at - 1] == b'\\';
        if byte == b'\n' || (escaped && matches!(byte, b'n' | b'r')) {
            (at, begins_line) = (at + 1, true);
            continue;
        }
        if !is_name(byte) {
            begins_line &= matches!(byte, b' ' | b'\t' | b'>' | b'*' | b'\\' | b'\r');
            at += 1;
            continue;
        }
        let behind = at + input[at..].iter().take_while(|byte| is_name(**byte)).count();
        let name = &input[at..behind];
        let value = value(input, behind, begins_line.then_some(line_end as End));
        // A list of YAML begins a line as well.
        begins_line &= name.iter().all(|byte| *byte == b'-');
        at = behind;
        // Where it ends is looked for only when it is hidden: what is long is read once.
        if let Some((from, end)) = value.filter(|_| rules.hides(&percent_decoded(name))) {
            let to = end(input, from);
            if to > from {
                rewrite.hide(from, to, b"");
                at = to;
            }
        }
    }
    rewrite.end()
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'%') || byte >= 0x80
}

/// Finds the end of a value that begins there.
type End = fn(&[u8], usize) -> usize;

/// Where the value begins, if a name ends here, and how it ends. `behind_colon`: how what stands behind `name:` ends,
/// where that is a value.
fn value(input: &[u8], behind_name: usize, behind_colon: Option<End>) -> Option<(usize, End)> {
    let quoted = usize::from(input.get(behind_name) == Some(&b'\''));
    let separator = behind_blanks(input, behind_name + quoted);
    let from = behind_blanks(input, separator + 1);
    match input.get(separator)? {
        b'=' => Some((from, word_end)),
        b':' if quoted == 1 => Some((from, word_end)),
        b':' => behind_colon.map(|end| (from, end)),
        _ => None,
    }
}

fn behind_blanks(input: &[u8], at: usize) -> usize {
    let rest = input.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// A quoted value to its end, else a word; with a scheme before it also the next one.
fn word_end(input: &[u8], from: usize) -> usize {
    let rest = input.get(from..).unwrap_or_default();
    let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    let delimiter = rest.get(..=backslashes).unwrap_or_default();
    if let Some(b'"' | b'\'') = delimiter.last() {
        let inside = rest.get(delimiter.len()..).unwrap_or_default();
        let end = inside.windows(delimiter.len()).position(|window| window == delimiter);
        return end.map_or(input.len(), |end| from + end + 2 * delimiter.len());
    }
    let word = |from: usize| {
        let rest = input.get(from..).unwrap_or_default();
        let goes_on = |byte: &&u8| !(byte.is_ascii_whitespace() || b"&;,\"'<>})]\\".contains(byte));
        from + rest.iter().take_while(goes_on).count()
    };
    let end = word(from);
    let first = input.get(from..end).unwrap_or_default();
    if SCHEMES.iter().any(|scheme| first.eq_ignore_ascii_case(scheme)) {
        return word(behind_blanks(input, end));
    }
    end
}

/// The end of the line, or of the string of JSON that it stands in.
fn line_end(input: &[u8], from: usize) -> usize {
    let rest = input.get(from..).unwrap_or_default();
    let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    if backslashes > 0 && rest.get(backslashes) == Some(&b'"') {
        return word_end(input, from);
    }
    let ends = |at: usize, byte: u8| {
        matches!(byte, b'\n' | b'\r' | b'"') || (byte == b'\\' && matches!(rest.get(at + 1), Some(b'n' | b'r' | b'"')))
    };
    let end = rest.iter().enumerate().position(|(at, byte)| ends(at, *byte));
    // A quoted value is hidden with its quotation marks.
    match end {
        Some(0) if rest.first() == Some(&b'"') => super::rewrite::string_end(input, from),
        Some(end) => from + end,
        None => input.len(),
    }
}

fn percent_decoded(name: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *byte == b'%');
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(hex.unwrap_or(*byte));
        rest = if hex.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
