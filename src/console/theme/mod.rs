//! Colours by meaning: the only place that names one.
//!
//! The view asks for a [`Role`]; a theme says how it looks. Themes are TOML files (`themes/` has the
//! program's own) that inherit from each other; what they leave out comes from the parent, then from
//! the role before the last dot. Meaning never hangs on colour alone: [`Theme::without_colour`] keeps it
//! by modifiers, and every state has a word and a symbol beside.

mod depth;
mod error;
mod file;
mod role;
mod sources;
#[cfg(test)]
mod tests;
mod written;

pub use depth::{AUTO, Choice, Depth, Ground, asks_ground, choose, for_ground, is_ascii_locale};
pub use error::ThemeError;
pub use role::Role;
pub use sources::{FILE_BYTES_MAX, Sources};
pub use written::written;

use ratatui::style::{Color, Modifier, Style};

/// The styles in use, by role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    name: String,
    depth: Depth,
    ascii: bool,
    styles: Vec<Style>,
}

impl Theme {
    fn new(name: &str, style: impl Fn(Role) -> Style) -> Self {
        Self {
            name: name.to_owned(),
            depth: Depth::TrueColour,
            ascii: false,
            styles: Role::ALL.iter().map(|role| style(*role)).collect(),
        }
    }

    /// One of the program's own.
    ///
    /// # Errors
    /// There is none of that name: with the nearest.
    pub fn builtin(name: &str) -> Result<Self, ThemeError> {
        Sources::builtin().find(name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether only characters that every terminal has are shown.
    #[must_use]
    pub const fn is_ascii(&self) -> bool {
        self.ascii
    }

    /// The same with characters that every terminal has.
    #[must_use]
    pub const fn in_ascii(mut self) -> Self {
        self.ascii = true;
        self
    }

    /// How something of this meaning looks.
    #[must_use]
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(role as usize).copied().unwrap_or_default()
    }

    /// How the label of a profile of this colour looks (a name or `#rrggbb`, as configured).
    #[must_use]
    pub fn profile(&self, colour: Option<&str>) -> Style {
        let role = colour.and_then(|colour| Role::parse(&format!("profile.{colour}")));
        let written = colour.and_then(file::hex);
        match (role, written) {
            (Some(role), _) => self.style(role),
            (None, Some(ground)) if self.depth == Depth::TrueColour => Style::new()
                .fg(readable_on(ground))
                .bg(ground)
                .add_modifier(Modifier::BOLD),
            (None, _) => self.style(Role::Profile),
        }
    }

    /// The same meaning without any colour.
    #[must_use]
    pub fn without_colour(&self) -> Self {
        let plain = |role: Role| {
            Style::new()
                .fg(Color::Reset)
                .bg(Color::Reset)
                .add_modifier(role.without_colour())
        };
        Self {
            depth: Depth::NoColour,
            ascii: self.ascii,
            ..Self::new(&self.name, plain)
        }
    }

    const fn with_depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        self
    }

    fn map_colours(mut self, depth: Depth, map: impl Fn(Color) -> Color) -> Self {
        for style in &mut self.styles {
            style.fg = style.fg.map(&map);
            style.bg = style.bg.map(&map);
        }
        self.with_depth(depth)
    }

    /// Whether it has colours that a terminal of sixteen cannot show.
    #[must_use]
    pub fn needs_more_than_16(&self) -> bool {
        let more = |colour: Option<Color>| matches!(colour, Some(Color::Rgb(..) | Color::Indexed(_)));
        self.styles.iter().any(|style| more(style.fg) || more(style.bg))
    }
}

/// The dark one.
impl Default for Theme {
    #[expect(clippy::expect_used, reason = "a test reads every theme of the program")]
    fn default() -> Self {
        Self::builtin("dark").expect("the program's own theme can be read")
    }
}

/// Black or white, by how bright the ground is to the eye.
fn readable_on(ground: Color) -> Color {
    let Color::Rgb(red, green, blue) = ground else {
        return Color::Reset;
    };
    let brightness = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    if brightness > 140_000 {
        Color::Rgb(0, 0, 0)
    } else {
        Color::Rgb(255, 255, 255)
    }
}
