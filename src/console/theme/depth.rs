//! How many colours the terminal can show, and the theme that goes with it.
//!
//! 1. `NO_COLOR`: the theme's meaning by modifiers alone.
//! 2. Sixteen colours: `ansi16`, made by hand; a theme that needs more is replaced by it, and says so.
//! 3. 256: each colour by the nearest of the palette.
//! 4. True colour: as written.

use std::io::IsTerminal;

use ratatui::style::Color;
use termprofile::{DetectorSettings, TermProfile};

use super::{Sources, Theme, ThemeError};

/// How many colours can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// None: `NO_COLOR`, or a terminal that has none.
    NoColour,
    /// The terminal's own sixteen.
    Ansi16,
    /// The palette of 256.
    Ansi256,
    /// Every one.
    TrueColour,
}

impl Depth {
    /// What the environment says of the terminal that `output` is.
    #[must_use]
    pub fn detect(output: &impl IsTerminal) -> Self {
        // The convention: any value but the empty one, also `0`.
        if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Self::NoColour;
        }
        match TermProfile::detect(output, DetectorSettings::new()) {
            TermProfile::NoTty | TermProfile::NoColor => Self::NoColour,
            TermProfile::Ansi16 => Self::Ansi16,
            TermProfile::Ansi256 => Self::Ansi256,
            TermProfile::TrueColor => Self::TrueColour,
        }
    }
}

/// Whether the locale has only the characters of ASCII: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set says
/// `C` or `POSIX`. Where none is set nothing is known, and terminals show every character.
#[must_use]
pub fn is_ascii_locale(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let first = set.into_iter().find(|value| !value.is_empty());
    first.is_some_and(|value| matches!(value.as_str(), "C" | "POSIX"))
}

/// The name of a theme that follows the terminal's ground: the same as none.
pub const AUTO: &str = "auto";

/// What a terminal's own ground is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Light text stands out on it.
    Dark,
    /// Dark text stands out on it.
    Light,
}

impl Ground {
    /// What `COLORFGBG` (foreground;background) says; `None`: nothing that can be understood.
    #[must_use]
    pub fn of_variable(variable: Option<&str>) -> Option<Self> {
        match variable?.rsplit(';').next()?.parse::<u8>().ok()? {
            7 | 9..=15 => Some(Self::Light),
            0..=6 | 8 => Some(Self::Dark),
            16.. => None,
        }
    }

    const fn theme(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
        }
    }
}

/// The theme by name where one is asked for, and else the one for this ground; `None`: the one for the terminal.
#[must_use]
pub fn for_ground(name: Option<&str>, ground: Option<Ground>, depth: Depth) -> Option<&str> {
    match name.filter(|name| *name != AUTO) {
        Some(name) => Some(name),
        None => ground.filter(|_| depth > Depth::Ansi16).map(Ground::theme),
    }
}

/// Whether the theme depends on an answer of the terminal: nobody asked for one, more than the terminal's own
/// colours are used, and it is not known to stay silent or to print the question.
#[must_use]
pub fn asks_ground(name: Option<&str>, depth: Depth, term: Option<&str>) -> bool {
    let is_mute = term.is_none_or(|term| matches!(term, "" | "dumb" | "linux" | "cons25" | "emacs"));
    name.is_none_or(|name| name == AUTO) && depth > Depth::Ansi16 && !is_mute
}

/// A theme that the terminal can show.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The theme.
    pub theme: Theme,
    /// Why it is another one than was asked for.
    pub notice: Option<String>,
}

/// The theme of that name, or the one for this terminal.
///
/// # Errors
/// As [`Sources::find`].
pub fn choose(sources: &Sources, name: Option<&str>, depth: Depth) -> Result<Choice, ThemeError> {
    let default = if depth == Depth::Ansi16 { "ansi16" } else { "dark" };
    let theme = sources.find(name.unwrap_or(default))?;
    let fits = |theme| Choice { theme, notice: None };
    match depth {
        Depth::NoColour => Ok(fits(theme.without_colour())),
        Depth::TrueColour => Ok(fits(theme)),
        Depth::Ansi256 => Ok(fits(theme.map_colours(Depth::Ansi256, to_256))),
        Depth::Ansi16 if theme.needs_more_than_16() => Ok(Choice {
            notice: Some(format!(
                "the theme {:?} needs more than the 16 colours of this terminal: ansi16 is used",
                theme.name()
            )),
            theme: sources.find("ansi16")?.with_depth(Depth::Ansi16),
        }),
        Depth::Ansi16 => Ok(fits(theme.with_depth(Depth::Ansi16))),
    }
}

/// The nearest of the palette's cube (6 × 6 × 6 from 16 on) and its grays (24 from 232 on).
fn to_256(colour: Color) -> Color {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let Color::Rgb(red, green, blue) = colour else {
        return colour;
    };
    let level = |value: u8| {
        (0_u8..)
            .zip(LEVELS)
            .min_by_key(|(_, level)| value.abs_diff(*level))
            .unwrap_or_default()
    };
    let ((r, red_at), (g, green_at), (b, blue_at)) = (level(red), level(green), level(blue));
    let average = (u16::from(red) + u16::from(green) + u16::from(blue)) / 3;
    let gray = u8::try_from(average.saturating_sub(3) / 10).unwrap_or(u8::MAX).min(23);
    let gray_at = 8 + 10 * gray;
    let off = |at: [u8; 3]| -> u32 {
        at.into_iter()
            .zip([red, green, blue])
            .map(|(at, value)| u32::from(value.abs_diff(at)).pow(2))
            .sum()
    };
    if off([gray_at; 3]) < off([red_at, green_at, blue_at]) {
        Color::Indexed(232 + gray)
    } else {
        Color::Indexed(16 + 36 * r + 6 * g + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_c_has_no_signs_and_the_first_variable_that_is_set_decides() {
        let locale = |all: &str, lang: &str| {
            is_ascii_locale(|name| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            })
        };
        assert!(locale("C", "en_GB.UTF-8") && locale("", "POSIX") && locale("POSIX", ""));
        assert!(!locale("C.UTF-8", "C") && !locale("en_GB.UTF-8", "C") && !locale("", ""));
    }
}
