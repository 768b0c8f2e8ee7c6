//! Takes answers of the terminal out of what is typed.
//!
//! The library reads keys, and makes of an answer (`ESC ] 11 ; rgb:ffff/ffff/ffff ESC \`) the keys Alt-], 1, 1, ;
//! and so on: in a console they would be actions. So what begins like one is held until it is known to be one, and
//! then never becomes a key, however late, long or wrong it is. Keys that only looked like it are given on as they
//! were, once something else follows or nothing does for a moment.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use crate::console::theme::Ground;

/// Characters of an answer that are looked at.
const ANSWER_MAX: usize = 128;

/// What came of something that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is for the console.
    Event(Event),
    /// The terminal said what its ground is.
    Ground(Ground),
}

/// Keys that may be an answer.
#[derive(Debug, Default)]
pub(super) struct Answers {
    held: Vec<Event>,
    found: Found,
    text: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Nothing,
    /// ESC ], or Alt-].
    Begun,
    /// A digit behind it: an answer, whatever comes.
    Inside,
    /// The half of its end.
    Ending,
}

impl Answers {
    /// Something was read.
    pub(super) fn take(&mut self, event: Event) -> Vec<Heard> {
        let Event::Key(key) = event else {
            return vec![Heard::Event(event)];
        };
        match self.found {
            Found::Nothing if is(key, ']', KeyModifiers::ALT) => {
                self.held.push(event);
                self.found = Found::Begun;
                Vec::new()
            }
            Found::Nothing => vec![Heard::Event(event)],
            Found::Begun => self.begun(key),
            Found::Ending if is(key, '\\', KeyModifiers::NONE) => self.end(),
            Found::Inside | Found::Ending => self.inside(key),
        }
    }

    /// Nothing followed for a moment.
    pub(super) fn pause(&mut self) -> Vec<Heard> {
        let given = match self.found {
            Found::Nothing | Found::Begun => std::mem::take(&mut self.held),
            // The begin of an answer without its end.
            Found::Inside | Found::Ending => Vec::new(),
        };
        *self = Self::default();
        given.into_iter().map(Heard::Event).collect()
    }

    /// Whether something is held.
    pub(super) fn is_waiting(&self) -> bool {
        self.found != Found::Nothing
    }

    fn begun(&mut self, key: KeyEvent) -> Vec<Heard> {
        self.held.push(Event::Key(key));
        if let (KeyCode::Char(digit @ '0'..='9'), KeyModifiers::NONE) = (key.code, key.modifiers) {
            self.text.push(digit);
            self.found = Found::Inside;
            return Vec::new();
        }
        self.pause()
    }

    fn inside(&mut self, key: KeyEvent) -> Vec<Heard> {
        self.found = Found::Inside;
        if is(key, '\\', KeyModifiers::ALT) || is(key, 'g', KeyModifiers::CONTROL) {
            return self.end();
        }
        if key.code == KeyCode::Esc {
            self.found = Found::Ending;
        } else if let KeyCode::Char(character) = key.code
            && self.text.len() < ANSWER_MAX
        {
            self.text.push(character);
        }
        Vec::new()
    }

    fn end(&mut self) -> Vec<Heard> {
        let ground = ground(&self.text);
        *self = Self::default();
        ground.map(Heard::Ground).into_iter().collect()
    }
}

fn is(key: KeyEvent, character: char, modifiers: KeyModifiers) -> bool {
    key.code == KeyCode::Char(character) && key.modifiers == modifiers
}

/// `11;rgb:ffff/ffff/ffff`, `11;rgba:…`, `11;#ffffff`: as terminals write it, and a little beside.
fn ground(answer: &str) -> Option<Ground> {
    let colour = answer.strip_prefix("11;")?.trim().to_ascii_lowercase();
    let [red, green, blue] = match colour.strip_prefix('#') {
        Some(digits) if digits.len() % 3 == 0 && !digits.is_empty() => {
            let each = digits.len() / 3;
            let part = |place: usize| share(digits.get(place * each..(place + 1) * each)?);
            [part(0)?, part(1)?, part(2)?]
        }
        Some(_) => return None,
        None => {
            let parts = colour.strip_prefix("rgba:").or_else(|| colour.strip_prefix("rgb:"))?;
            let mut parts = parts.split('/').map(share);
            [parts.next()??, parts.next()??, parts.next()??]
        }
    };
    // As bright as it looks to the eye.
    let brightness = 299 * red + 587 * green + 114 * blue;
    Some(if brightness > 500_000 {
        Ground::Light
    } else {
        Ground::Dark
    })
}

/// One to four hexadecimal digits as thousandths of the most.
fn share(digits: &str) -> Option<u32> {
    let is_hex = (1..=4).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let most = 16_u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1)?;
    let value = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some(value * 1_000 / most)
}

#[cfg(any(test, feature = "internals"))]
const ESCAPE: char = '\u{1b}';

/// The keys that the library makes of this text.
#[cfg(any(test, feature = "internals"))]
fn keys_of(text: &str) -> Vec<Event> {
    let mut alt = false;
    let mut keys = Vec::new();
    for character in text.chars() {
        let (code, modifiers) = match character {
            ESCAPE if !alt => {
                alt = true;
                continue;
            }
            ESCAPE => (KeyCode::Esc, KeyModifiers::NONE),
            '\u{7}' => (KeyCode::Char('g'), KeyModifiers::CONTROL),
            character if alt => (KeyCode::Char(character), KeyModifiers::ALT),
            character if character.is_ascii_uppercase() => (KeyCode::Char(character), KeyModifiers::SHIFT),
            character => (KeyCode::Char(character), KeyModifiers::NONE),
        };
        alt = false;
        keys.push(Event::Key(KeyEvent::new(code, modifiers)));
    }
    keys
}

/// Whether a terminal that sends these bytes says what its ground is; a NUL stands for a moment in which nothing comes.
///
/// # Panics
/// More comes out than went in, or what no answer is does not come out as it went in.
#[cfg(any(test, feature = "internals"))]
pub(crate) fn are_understood(bytes: &[u8]) -> bool {
    const PAUSE: Event = Event::Key(KeyEvent::new(KeyCode::Char('\0'), KeyModifiers::NONE));
    let typed = keys_of(&String::from_utf8_lossy(bytes));
    let begins = |event: &Event| matches!(event, Event::Key(key) if is(*key, ']', KeyModifiers::ALT));
    let may_be_answers = typed.iter().any(begins);
    let mut answers = Answers::default();
    let mut heard = Vec::new();
    for event in &typed {
        heard.extend(answers.take(event.clone()));
        if *event == PAUSE {
            heard.extend(answers.pause());
        }
        assert!(
            answers.held.len() <= 2 && answers.text.len() <= ANSWER_MAX + char::MAX_LEN_UTF8,
            "{} keys and {} bytes are held",
            answers.held.len(),
            answers.text.len()
        );
    }
    heard.extend(answers.pause());
    assert!(!answers.is_waiting() && heard.len() <= typed.len());
    let is_ground = |heard: &Heard| matches!(heard, Heard::Ground(_));
    let has_ground = heard.iter().any(is_ground);
    if !may_be_answers {
        let typed: Vec<Heard> = typed.into_iter().map(Heard::Event).collect();
        assert_eq!(heard, typed, "keys were taken for an answer");
    }
    has_ground
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEventKind;
    use proptest::prelude::*;

    use super::*;

    /// As the library reads these bytes; `~` stands for the escape character.
    fn keys(text: &str) -> Vec<Event> {
        keys_of(&text.replace('~', "\u{1b}"))
    }

    /// What reaches the console, and the ground that was heard.
    fn heard(events: Vec<Event>) -> (Vec<Event>, Option<Ground>) {
        let mut answers = Answers::default();
        let mut all: Vec<Heard> = events.into_iter().flat_map(|event| answers.take(event)).collect();
        all.extend(answers.pause());
        let mut ground = None;
        let mut events = Vec::new();
        for one in all {
            match one {
                Heard::Event(event) => events.push(event),
                Heard::Ground(found) => ground = Some(found),
            }
        }
        (events, ground)
    }

    #[track_caller]
    fn check(answer: &str, ground: Option<Ground>) {
        let text = format!("j{answer}k");
        assert_eq!(heard(keys(&text)), (keys("jk"), ground), "{answer:?}");
    }

    #[test]
    fn answers_are_understood_as_terminals_write_them() {
        for light in [
            "~]11;rgb:ffff/ffff/ffff~\\",
            "~]11;rgb:FF/FF/FF\u{7}",
            "~]11;rgba:eeee/e8e8/d5d5/ffff~\\",
            "~]11;#fdf6e3~\\",
        ] {
            check(light, Some(Ground::Light));
        }
        for dark in ["~]11;rgb:0000/0000/0000~\\", "~]11;rgb:1/2/3\u{7}", "~]11;#002b36~\\"] {
            check(dark, Some(Ground::Dark));
        }
    }

    #[test]
    fn a_wrong_answer_is_no_key_either() {
        for wrong in [
            "~]11;rgb:zz/R/D~\\",
            "~]11;qqyyDX\u{7}",
            "~]10;rgb:ffff/ffff/ffff~\\",
            "~]52;c;YQ==\u{7}",
            "~]11;~\\",
        ] {
            check(wrong, None);
        }
        assert_eq!(
            heard(keys("~]11;rgb:ff")),
            (Vec::new(), None),
            "an answer that breaks off"
        );
    }

    #[test]
    fn an_end_in_two_pieces_is_an_end() {
        let mut events = keys("~]11;rgb:ff/ff/ff");
        events.push(Event::Key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE)));
        events.extend(keys("\\q"));
        assert_eq!(heard(events), (keys("q"), Some(Ground::Light)));
    }

    #[test]
    fn keys_that_only_begin_like_an_answer_are_keys() {
        for typed in ["~]", "~]q", "~]~]x", "]11;", "1~]"] {
            assert_eq!(heard(keys(typed)), (keys(typed), None), "{typed:?}");
        }
        let focus = vec![Event::FocusGained, Event::Paste("~]11;".to_owned())];
        assert_eq!(heard(focus.clone()), (focus, None));
    }

    proptest! {
        #[test]
        fn whatever_an_answer_says_no_key_comes_of_it(text in "[ -}]{0,200}", before in "[a-z]{0,3}", after in "[a-z]{0,3}") {
            let typed = format!("{before}~]1{text}~\\{after}");
            let (events, _) = heard(keys(&typed));
            prop_assert_eq!(events, keys(&format!("{before}{after}")));
        }

        #[test]
        fn what_is_typed_without_alt_and_bracket_is_untouched(text in "[ -Z^-}]{0,100}") {
            let events = keys(&text);
            prop_assert!(events.iter().all(|event| matches!(event, Event::Key(key) if key.kind == KeyEventKind::Press)));
            prop_assert_eq!(heard(events.clone()), (events, None));
        }
    }
}
