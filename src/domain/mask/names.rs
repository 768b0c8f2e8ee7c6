//! Values behind a JSON key that is hidden by its name.
//!
//! A key is `"name":`, wherever it stands: in JSON, in JSON with something before or missing behind, and in JSON that
//! is the text of a string, where its quotation marks have backslashes before them. So every quotation mark is tried.

use super::rewrite::{Rewrite, decoded, string_end, value_end};
use super::{MaskRules, Masked};

pub(super) fn hide(rules: &MaskRules, input: &[u8]) -> Option<Masked<Vec<u8>>> {
    let mut rewrite = Rewrite::new(input);
    let (mut at, mut backslashes) = (0, 0);
    while let Some(byte) = input.get(at) {
        if *byte == b'"'
            && let Some((name, value)) = key(input, at, backslashes)
            && rules.hides(&decoded(name))
        {
            let end = end(input, value, backslashes);
            if end > value {
                // Two digits of a delimiter are written as they are read.
                let delimiter = input.get(at - backslashes..=at).unwrap_or_default();
                rewrite.hide(value, end, delimiter);
            }
            (at, backslashes) = (end.max(value), 0);
            continue;
        }
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        at += 1;
    }
    rewrite.end()
}

/// The name that begins at this quotation mark, and where its value does.
fn key(input: &[u8], at: usize, backslashes: usize) -> Option<(&[u8], usize)> {
    let (name, behind) = if backslashes == 0 {
        let behind = string_end(input, at);
        (input.get(at + 1..behind.checked_sub(1)?)?, behind)
    } else {
        let quote = quote_behind(input, at + 1).filter(|quote| quote.backslashes == backslashes)?;
        (input.get(at + 1..quote.at - backslashes)?, quote.at + 1)
    };
    let colon = behind_spaces(input, behind, backslashes);
    (input.get(colon) == Some(&b':')).then(|| (name, behind_spaces(input, colon + 1, backslashes)))
}

/// Behind the spaces; inside a string line feeds and tabs are written with backslashes.
fn behind_spaces(input: &[u8], mut at: usize, backslashes: usize) -> usize {
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let escapes = rest.iter().take_while(|byte| **byte == b'\\').count();
        let escaped = backslashes > 0 && escapes > 0 && matches!(rest.get(escapes), Some(b'n' | b'r' | b't'));
        match rest.first() {
            Some(_) if escaped => at += escapes + 1,
            Some(space) if space.is_ascii_whitespace() => at += 1,
            _ => return at,
        }
    }
}

/// Behind the value. Inside a string nothing goes further than that string.
fn end(input: &[u8], value: usize, backslashes: usize) -> usize {
    if backslashes == 0 {
        return value_end(input, value);
    }
    let mut from = value;
    if let Some(first) = quote_behind(input, value).filter(|quote| quote.at == value + backslashes) {
        from = first.at + 1;
        while let Some(quote) = quote_behind(input, from) {
            match quote.backslashes {
                fewer if fewer < backslashes => return quote.at - fewer,
                same if same == backslashes => return quote.at + 1,
                _ => from = quote.at + 1,
            }
        }
        return input.len();
    }
    let nested = matches!(input.get(value), Some(b'{' | b'['));
    let word = super::rewrite::word_end(input, value);
    while let Some(quote) = quote_behind(input, from) {
        if quote.backslashes < backslashes {
            let last = quote.at - quote.backslashes;
            return if nested { last } else { word.min(last) };
        }
        if !nested && quote.at >= word {
            return word;
        }
        from = quote.at + 1;
    }
    if nested { input.len() } else { word }
}

struct Quote {
    at: usize,
    backslashes: usize,
}

/// The next quotation mark, and how many backslashes stand before it.
fn quote_behind(input: &[u8], from: usize) -> Option<Quote> {
    let rest = input.get(from..)?;
    let at = rest.iter().position(|byte| *byte == b'"')?;
    let backslashes = rest[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    Some(Quote {
        at: from + at,
        backslashes,
    })
}
