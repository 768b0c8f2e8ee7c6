//! Everything that was written to a terminal, judged by a parser of such streams: only what we write.

/// Texts that would act on a terminal that took them as they are.
pub(super) const HOSTILE: [&str; 6] = [
    "\u{1b}]0;owned\u{7}",
    "\u{1b}[2J\u{1b}[31mred",
    "\u{9b}31mc1",
    "\u{1b}]52;c;b3duZWQ=\u{1b}\\",
    "bidi\u{202e}gnp.exe\u{2066}",
    "a\r\nb\u{8}\u{8}\tc",
];

/// Panics with the sequence that we never write.
#[track_caller]
pub(super) fn assert_only_ours(bytes: &[u8]) {
    let mut judge = Judge::default();
    vte::Parser::new().advance(&mut judge, bytes);
    assert!(judge.foreign.is_empty(), "not ours: {:?}", judge.foreign);
    assert!(judge.sequences > 10 && judge.letters > 100, "nothing was judged");
    let text = String::from_utf8_lossy(bytes);
    assert!(
        !text.contains(['\u{202e}', '\u{2066}', '\u{200b}']),
        "a hidden character reached the terminal"
    );
}

/// What does not belong there.
#[derive(Default)]
struct Judge {
    foreign: Vec<String>,
    sequences: usize,
    letters: usize,
}

impl Judge {
    fn expect(&mut self, ours: bool, what: impl FnOnce() -> String) {
        self.sequences += 1;
        if !ours {
            self.foreign.push(what());
        }
    }
}

impl vte::Perform for Judge {
    fn print(&mut self, _character: char) {
        self.letters += 1;
    }

    /// After the screen there may be lines.
    fn execute(&mut self, byte: u8) {
        self.expect(matches!(byte, b'\r' | b'\n'), || format!("control character {byte:#x}"));
    }

    fn osc_dispatch(&mut self, parameters: &[&[u8]], _bell: bool) {
        let words: Vec<String> = parameters
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let ours = match words.first().map(String::as_str) {
            // What is worst, where, and the name of the program: at the begin before anything is known, then at the end.
            Some("0") => words
                .get(1)
                .is_some_and(|title| title.starts_with("redrive") || title.ends_with("redrive")),
            // What the ground of the terminal is.
            Some("11") => words.get(1).is_some_and(|text| text == "?"),
            // A copy that a key asked for, not the one that a name asks for.
            Some("52") => words.get(2).is_some_and(|text| text != "b3duZWQ="),
            _ => false,
        };
        self.expect(ours, || format!("OSC {words:?}"));
    }

    fn csi_dispatch(&mut self, parameters: &vte::Params, intermediates: &[u8], _ignored: bool, action: char) {
        let numbers: Vec<u16> = parameters.iter().flatten().copied().collect();
        let ours = match (intermediates, action) {
            ([], 'H' | 'm') => true,
            ([], 'J') => numbers == [2],
            ([], 't') => matches!(numbers.as_slice(), [22 | 23, 0]),
            ([], 'c') | (b"?", 'u') => matches!(numbers.as_slice(), [] | [0]),
            (b"?", 'h' | 'l') => matches!(numbers.as_slice(), [25 | 1000 | 1004 | 1006 | 1049 | 2004 | 2026]),
            (b">", 'u') => numbers == [3],
            (b"<", 'u') => numbers == [1],
            _ => false,
        };
        self.expect(ours, || {
            format!("CSI {} {numbers:?} {action}", String::from_utf8_lossy(intermediates))
        });
    }

    fn esc_dispatch(&mut self, _intermediates: &[u8], _ignored: bool, byte: u8) {
        // The end of an OSC is reported as one of these.
        self.expect(byte == b'\\', || format!("ESC {byte:#x}"));
    }

    fn hook(&mut self, _parameters: &vte::Params, _intermediates: &[u8], _ignored: bool, action: char) {
        self.expect(false, || format!("DCS {action}"));
    }
}
