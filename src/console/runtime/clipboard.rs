//! The terminal's clipboard (OSC 52): works over SSH, needs no program beside the terminal.
//!
//! Whoever copies makes the text safe to show before: what is pasted elsewhere must not act there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of text, at most: terminals take sequences up to 100,000 bytes, and base64 makes four of three.
pub const TEXT_MAX: usize = 74_994;

/// The sequence that puts `text` on the clipboard, cut where it is too long.
#[must_use]
pub fn sequence(text: &str) -> String {
    let cut = &text[..text.floor_char_boundary(TEXT_MAX)];
    format!("\x1b]52;c;{}\x07", STANDARD.encode(cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_one_sequence_of_plain_characters() {
        assert_eq!(sequence("a b"), "\x1b]52;c;YSBi\x07");
        let hostile = sequence("x\x1b[2Jy\x07");
        assert!(
            hostile[7..hostile.len() - 1]
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        );
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let long = "é".repeat(TEXT_MAX);
        let sequence = sequence(&long);
        assert!(sequence.len() <= 100_000, "{}", sequence.len());
        let text = STANDARD.decode(&sequence[7..sequence.len() - 1]).unwrap();
        assert_eq!(text.len(), TEXT_MAX);
        assert!(String::from_utf8(text).is_ok());
    }
}
