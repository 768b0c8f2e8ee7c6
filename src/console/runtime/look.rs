//! The theme in use: what was asked for, how much the terminal can show, and what its own ground is.
//!
//! Where nobody asked for a theme the terminal is asked for the colour of its ground (OSC 11), once, behind the first
//! frame: that is drawn with what the environment says. An answer in time changes the theme; a later one changes
//! nothing, so that no screen turns over while it is read.

use std::io;
use std::time::Duration;

use crate::console::theme::{self, AUTO, Choice, Depth, Ground, Sources, Theme, ThemeError};

/// The question (OSC 11).
pub(super) const QUESTION: &str = "\x1b]11;?\x1b\\";
/// An answer that comes later is not used.
const IN_TIME: Duration = Duration::from_secs(1);

/// What a theme follows from.
#[derive(Clone, Debug)]
pub struct Look {
    name: Option<String>,
    depth: Depth,
    ground: Option<Ground>,
    term: Option<String>,
    /// The locale has no other characters.
    ascii: bool,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Not,
    /// At this uptime; there has been no answer.
    At(Duration),
    Answered,
}

impl Look {
    /// On the terminal of standard output.
    #[must_use]
    pub fn of_terminal(name: Option<String>) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self {
            name,
            depth: Depth::detect(&io::stdout()),
            ground: Ground::of_variable(variable("COLORFGBG").as_deref()),
            term: variable("TERM"),
            ascii: theme::is_ascii_locale(variable),
            asked: Asked::Not,
        }
    }

    /// Where the terminal is never asked.
    #[must_use]
    pub fn fixed(theme: &Theme) -> Self {
        Self {
            name: Some(theme.name().to_owned()),
            depth: Depth::TrueColour,
            ground: None,
            term: None,
            ascii: theme.is_ascii(),
            asked: Asked::Answered,
        }
    }

    /// The theme.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be used.
    pub fn choose(&self) -> Result<Choice, ThemeError> {
        let name = theme::for_ground(self.name.as_deref(), self.ground, self.depth);
        let choice = theme::choose(&Sources::of_user(), name, self.depth)?;
        Ok(if self.ascii {
            Choice {
                theme: choice.theme.in_ascii(),
                ..choice
            }
        } else {
            choice
        })
    }

    /// Another one from now on; `auto` follows the ground. Nothing changes where it cannot be used.
    pub(super) fn rename(&mut self, name: &str) -> Result<Choice, ThemeError> {
        let other = Self {
            name: Some(name.to_owned()).filter(|name| name != AUTO),
            depth: Depth::detect(&io::stdout()),
            ..self.clone()
        };
        let choice = other.choose()?;
        *self = other;
        Ok(choice)
    }

    /// What is to be asked of the terminal now; at most once.
    pub(super) fn question(&mut self, now: Duration) -> Option<&'static str> {
        let due =
            self.asked == Asked::Not && theme::asks_ground(self.name.as_deref(), self.depth, self.term.as_deref());
        due.then(|| {
            self.asked = Asked::At(now);
            QUESTION
        })
    }

    /// The terminal answered; the theme that follows, where it is another one.
    pub(super) fn answer(&mut self, ground: Ground, now: Duration) -> Option<Theme> {
        let Asked::At(at) = self.asked else { return None };
        self.asked = Asked::Answered;
        if now.saturating_sub(at) > IN_TIME || self.name.as_deref().is_some_and(|name| name != AUTO) {
            return None;
        }
        self.ground = Some(ground);
        self.choose().ok().map(|choice| choice.theme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto() -> Look {
        Look {
            name: None,
            depth: Depth::TrueColour,
            ground: None,
            term: Some("xterm-256color".to_owned()),
            ascii: false,
            asked: Asked::Not,
        }
    }

    fn name(look: &Look) -> String {
        look.choose().unwrap().theme.name().to_owned()
    }

    #[test]
    fn a_locale_without_signs_has_none_in_any_theme() {
        for name in [None, Some("nord"), Some("light")] {
            let look = Look {
                name: name.map(str::to_owned),
                ascii: true,
                ..auto()
            };
            assert!(look.choose().unwrap().theme.is_ascii(), "{name:?}");
        }
        assert!(!auto().choose().unwrap().theme.is_ascii());
    }

    #[test]
    fn the_terminal_is_asked_once_and_its_answer_decides() {
        let mut look = auto();
        assert_eq!(name(&look), "dark");
        assert_eq!(look.question(Duration::ZERO), Some(QUESTION));
        assert_eq!(look.question(Duration::ZERO), None);
        let theme = look.answer(Ground::Light, Duration::from_millis(80)).unwrap();
        assert_eq!((theme.name(), name(&look).as_str()), ("light", "light"));
        assert_eq!(
            look.answer(Ground::Dark, Duration::from_millis(90)),
            None,
            "one answer is enough"
        );
    }

    #[test]
    fn an_answer_that_nobody_asked_for_or_that_comes_late_changes_nothing() {
        let mut look = auto();
        assert_eq!(look.answer(Ground::Light, Duration::ZERO), None);
        look.question(Duration::ZERO);
        assert_eq!(look.answer(Ground::Light, IN_TIME + Duration::from_millis(1)), None);
        assert_eq!(name(&look), "dark");
    }

    #[test]
    fn who_asked_for_a_theme_and_terminals_that_are_mute_are_not_asked() {
        for (name, depth, term) in [
            (Some("nord"), Depth::TrueColour, "xterm"),
            (None, Depth::Ansi16, "xterm"),
            (None, Depth::NoColour, "xterm"),
            (None, Depth::TrueColour, "dumb"),
            (None, Depth::TrueColour, "linux"),
        ] {
            let mut look = Look {
                name: name.map(str::to_owned),
                depth,
                term: Some(term.to_owned()),
                ..auto()
            };
            assert_eq!(look.question(Duration::ZERO), None, "{name:?} {depth:?} {term}");
        }
        let mut look = Look {
            name: Some(AUTO.to_owned()),
            ..auto()
        };
        assert!(look.question(Duration::ZERO).is_some());
        let theme = look.answer(Ground::Light, Duration::ZERO);
        assert_eq!(theme.map(|theme| theme.name().to_owned()).as_deref(), Some("light"));
    }
}
