//! Text from outside, which may be hostile.
//!
//! Names, bodies, headers, URLs and error texts come from others. The one way to a screen, a log or a
//! clipboard is [`show`], which replaces by a visible escape whatever would move the cursor, reorder,
//! hide, or pile up: controls, bidirectional and zero-width characters, tags, private use, more than
//! four combining marks in a row. It cuts before anything is laid out, so that 50 MB on one line cost no
//! more than one screen's width.
//!
//! Showing what was shown changes nothing. A backslash is therefore not escaped, and a text can
//! imitate an escape; it cannot do anything by it.

use unicode_width::UnicodeWidthChar;

/// Combining marks on one character, at most; those past it are shown as escapes.
const MARKS_MAX: u32 = 4;
/// A text whose ends are shown is looked at this far.
const ENDS_OF_MAX: usize = 2_048;
/// No column of output takes more bytes of input than this: a character and its marks, four bytes each.
const BYTES_PER_COLUMN_MAX: usize = 32;

/// `text` fit for a screen, at most `width_max` columns wide; what was cut is marked by `…`.
#[must_use]
pub fn show(text: &str, width_max: usize) -> String {
    show_bytes(text.as_bytes(), width_max)
}

/// Bytes fit for a screen, at most `width_max` columns wide: what is UTF-8 as [`show`] does, any other
/// byte as `\xNN`.
#[must_use]
pub fn show_bytes(bytes: &[u8], width_max: usize) -> String {
    // What lies past this can no longer fit, and need not even be looked at.
    let enough = width_max.saturating_add(2).saturating_mul(BYTES_PER_COLUMN_MAX);
    let bytes = bytes.get(..enough).unwrap_or(bytes);
    let mut line = Line::new(width_max);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if line.full {
                return line.text;
            }
            line.push(character);
        }
        for byte in chunk.invalid() {
            line.push_escape(&format!("\\x{byte:02x}"));
        }
    }
    line.text
}

/// As [`show`], but what has no room goes from the middle: beginning and end say together what it is (of a URL: host and path).
#[must_use]
pub fn show_ends(text: &str, width_max: usize) -> String {
    let whole = show(text, ENDS_OF_MAX.max(width_max));
    if width(&whole) <= width_max || width_max == 0 {
        return show(&whole, width_max);
    }
    let head_max = width_max.saturating_sub(1) / 2;
    let mut room = width_max.saturating_sub(1) - head_max;
    let mut from = whole.len();
    for (at, character) in whole.char_indices().rev() {
        let columns = character.width().unwrap_or(0) + mark_columns(character);
        if columns > room {
            break;
        }
        room -= columns;
        // A mark does not stand without what it is on.
        if character.width().is_some_and(|columns| columns > 0) {
            from = at;
        }
    }
    let head = show(&whole, head_max + 1);
    format!("{head}{}", &whole[from..])
}

/// How many columns a terminal takes for a text that was shown.
#[must_use]
pub fn width(shown: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(shown)
}

/// A word as a shell takes it.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The same as an argument of a command, which would take a dash at its beginning for one of its own options.
#[must_use]
pub fn shell_argument(word: &str) -> String {
    let behind = if word.starts_with('-') { "-- " } else { "" };
    format!("{behind}{}", shell_word(word))
}

/// A text as a field of CSV, quoted where RFC 4180 asks for it. What a spreadsheet would take for a formula is made text:
/// also behind a semicolon, a tab or the end of a line, where many spreadsheets begin another cell, in quotes too.
#[must_use]
pub fn csv_field(text: &str) -> String {
    let mut field = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins && "=+-@＝＋－＠\t\r".contains(c) {
            field.push('\'');
        }
        begins = ";\t\r\n".contains(c) || (begins && c == '"');
        field.push(c);
    }
    if field.contains(['"', ',', ';', '\t', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

/// The output while it is made: never wider than it may be.
struct Line {
    text: String,
    width: usize,
    width_max: usize,
    /// Length in bytes of the longest beginning that leaves a column for the mark of a cut.
    cut_at: usize,
    marks: u32,
    full: bool,
}

impl Line {
    const fn new(width_max: usize) -> Self {
        Self {
            text: String::new(),
            width: 0,
            width_max,
            cut_at: 0,
            // A mark at the beginning would sit on whatever stands before this text.
            marks: MARKS_MAX,
            full: false,
        }
    }

    fn push(&mut self, character: char) {
        let columns = character.width().unwrap_or(0);
        if is_hidden(character) {
            self.marks = 0;
            self.push_escape(&escape(character));
        } else if columns == 0 && self.marks >= MARKS_MAX {
            // The count goes on: a mark behind this escape belongs to the same pile.
            self.push_escape(&escape(character));
        } else if columns == 0 {
            self.marks += 1;
            self.append(character.encode_utf8(&mut [0; 4]), mark_columns(character));
        } else {
            self.marks = 0;
            self.append(character.encode_utf8(&mut [0; 4]), columns);
        }
    }

    /// An escape is printable ASCII, and is never cut in two.
    fn push_escape(&mut self, escape: &str) {
        self.append(escape, escape.len());
    }

    fn append(&mut self, piece: &str, columns: usize) {
        if self.full {
            return;
        }
        if self.width + columns > self.width_max {
            self.full = true;
            self.text.truncate(self.cut_at);
            if self.width_max > 0 {
                self.text.push('…');
            }
            return;
        }
        self.text.push_str(piece);
        self.width += columns;
        if self.width < self.width_max {
            self.cut_at = self.text.len();
        }
    }
}

/// The selector for emoji makes many characters one column wider; other marks take none.
const fn mark_columns(mark: char) -> usize {
    if mark == '\u{fe0f}' { 1 } else { 0 }
}

fn escape(character: char) -> String {
    match character {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        control if u32::from(control) < 0x80 => format!("\\x{:02x}", u32::from(control)),
        other => format!("\\u{{{:x}}}", u32::from(other)),
    }
}

/// Whether a character must not reach a screen: it acts, reorders, cannot be seen, or means something
/// else everywhere.
#[must_use]
pub const fn is_hidden(character: char) -> bool {
    matches!(character,
        // C0, DEL and C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Bidirectional marks, embeddings, overrides and isolates; zero-width characters.
        | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        // Line and paragraph separator.
        | '\u{2028}' | '\u{2029}'
        // Invisible: soft hyphen, joiner, fillers, vowel separators, byte order mark, annotations.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        // Tags, and the variation selectors behind them, in which text can be smuggled.
        | '\u{e0000}'..='\u{e0fff}'
        // Private use, and what is no character.
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{csv_field, is_hidden, shell_argument, shell_word, show, show_bytes, show_ends, width};

    #[track_caller]
    fn check(text: &str, width_max: usize, expected: &str) {
        assert_eq!(show(text, width_max), expected);
    }

    #[track_caller]
    fn ends(text: &str, width_max: usize, expected: &str) {
        assert_eq!(show_ends(text, width_max), expected);
    }

    #[test]
    fn both_ends_are_shown_of_what_has_no_room() {
        ends("a.example/in", 12, "a.example/in");
        ends("10.0.0.7:8080/orders/changed", 17, "10.0.0.7…/changed");
        ends("10.0.0.7:8080/orders/changed", 18, "10.0.0.7…s/changed");
        ends("会社会社会社", 7, "会…社");
        ends("ab", 1, "…");
        ends("ab", 0, "");
        ends("e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}", 3, "e\u{301}…e\u{301}");
        ends("bad\u{1b}[2J\nand more", 9, "bad\\…more");
    }

    #[test]
    fn a_shell_takes_each_word_as_it_is() {
        assert_eq!(shell_word("https://a.example/x"), "https://a.example/x");
        assert_eq!(shell_word("depth > 5"), "'depth > 5'");
        assert_eq!(shell_word("it's $(rm)"), "'it'\\''s $(rm)'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_argument("a.$(touch b)"), "'a.$(touch b)'");
        assert_eq!(shell_argument("--yes"), "-- --yes");
    }

    #[test]
    fn no_field_of_csv_has_a_formula_wherever_a_spreadsheet_begins_a_cell() {
        for (text, field) in [
            ("plain - text", "plain - text"),
            ("a,\"b\"", "\"a,\"\"b\"\"\""),
            ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("x;=cmd|'/C calc'!A0;y", "\"x;'=cmd|'/C calc'!A0;y\""),
            ("x;\"=1\"", "\"x;\"\"'=1\"\"\""),
            ("x\n@y\t+z", "\"x\n'@y\t'+z\""),
        ] {
            assert_eq!(csv_field(text), field, "{text:?}");
        }
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        check("plain text, ümläut, 漢字, C:\\n", 80, "plain text, ümläut, 漢字, C:\\n");
        check("", 80, "");
        check("", 0, "");
    }

    #[test]
    fn what_acts_or_hides_becomes_visible() {
        check("\u{1b}[2J\u{7}", 80, r"\x1b[2J\x07");
        check("a\r\nb\tc\u{7f}\0", 80, r"a\r\nb\tc\x7f\x00");
        check("\u{9b}2J", 80, r"\u{9b}2J");
        check("x\u{202e}txt.exe\u{2066}", 80, r"x\u{202e}txt.exe\u{2066}");
        check(
            "a\u{200b}\u{200d}\u{200f}\u{2028}\u{2029}\u{feff}",
            80,
            r"a\u{200b}\u{200d}\u{200f}\u{2028}\u{2029}\u{feff}",
        );
        check(
            "\u{e0041}\u{e000}\u{10fffd}\u{ad}",
            80,
            r"\u{e0041}\u{e000}\u{10fffd}\u{ad}",
        );
    }

    #[test]
    fn combining_marks_pile_up_to_four() {
        check(
            &format!("a{}b", "\u{301}".repeat(4)),
            80,
            "a\u{301}\u{301}\u{301}\u{301}b",
        );
        check(
            &format!("a{}b", "\u{301}".repeat(5)),
            80,
            "a\u{301}\u{301}\u{301}\u{301}\\u{301}b",
        );
        let pile = format!("a{}", "\u{301}".repeat(100_000));
        assert!(show(&pile, 40).len() < 100);
        assert!(width(&show(&pile, 40)) <= 40);
    }

    #[test]
    fn what_is_too_wide_is_cut_and_marked() {
        check("12345", 5, "12345");
        check("123456", 5, "1234…");
        check("123456", 1, "…");
        check("123456", 0, "");
        check("漢字漢", 5, "漢字…");
        check("漢字漢", 4, "漢…");
        check("abc\u{202e}", 10, "abc…");
        check("abc\u{202e}", 11, r"abc\u{202e}");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_hexadecimal() {
        assert_eq!(show_bytes(b"ok \xff\xc3 \xe2\x82", 80), r"ok \xff\xc3 \xe2\x82");
        assert_eq!(show_bytes("é".as_bytes(), 80), "é");
        assert_eq!(show_bytes(&[0xff; 1_000], 9), r"\xff\xff…");
    }

    #[test]
    fn a_text_of_any_length_costs_only_what_is_shown() {
        let line = "x".repeat(50_000_000);
        assert_eq!(show(&line, 80), format!("{}…", "x".repeat(79)));
    }

    /// Mostly characters that do something, mixed with ordinary ones.
    fn hostile() -> impl Strategy<Value = String> {
        let trouble = proptest::sample::select(vec![
            '\u{1b}',
            '\u{9b}',
            '\n',
            '\u{202e}',
            '\u{200d}',
            '\u{301}',
            '\u{fe0f}',
            '\u{fe0e}',
            '\u{20e3}',
            '☠',
            '漢',
            '😀',
            '🇩',
            'ᄀ',
            'ᅡ',
            'ᆨ',
            '\u{e0041}',
            '\u{e01ef}',
            '\\',
            '…',
            '\u{644}',
            '\u{627}',
            '#',
            '\u{1f3fb}',
        ]);
        let character = prop_oneof![2 => trouble, 1 => any::<char>(), 1 => proptest::char::range('a', 'z')];
        proptest::collection::vec(character, 0..60).prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_shown_is_harmless_bounded_and_shown_alike_again(text in hostile(), width_max in 0_usize..80) {
            let shown = show(&text, width_max);
            prop_assert!(!shown.chars().any(|character| character.is_control() || is_hidden(character)));
            prop_assert!(width(&shown) <= width_max, "{} columns: {shown:?}", width(&shown));
            prop_assert_eq!(show(&shown, width_max), shown);
        }

        #[test]
        fn any_bytes_are_shown_harmless_and_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..200), width_max in 0_usize..80) {
            let shown = show_bytes(&bytes, width_max);
            prop_assert!(!shown.chars().any(|character| character.is_control() || is_hidden(character)));
            prop_assert!(width(&shown) <= width_max);
            prop_assert_eq!(show(&shown, width_max), shown);
        }
    }
}
