//! Reads one theme file: which theme it inherits from, its palette, its roles.
//!
//! ```toml
//! inherits = "dark"
//! [palette]
//! mine = "#ff8800"
//! [roles]
//! warning = "mine"
//! "tab.selected" = { fg = "#000000", bg = "mine", bold = true }
//! ```
//!
//! Unknown keys are errors, and every error names the file, the field and the nearest name.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use toml::{Table, Value};

use super::error::ThemeError;
use super::role::Role;
use crate::domain::nearest::nearest;
use crate::domain::text::show;

/// Columns of a name or message from a file, at most.
const SHOWN_MAX: usize = 80;

/// The terminal's own colours. `default` is the one it has without any.
const NAMED: &[(&str, Color)] = &[
    ("default", Color::Reset),
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("bright_black", Color::DarkGray),
    ("bright_red", Color::LightRed),
    ("bright_green", Color::LightGreen),
    ("bright_yellow", Color::LightYellow),
    ("bright_blue", Color::LightBlue),
    ("bright_magenta", Color::LightMagenta),
    ("bright_cyan", Color::LightCyan),
    ("bright_white", Color::White),
];

const MODIFIERS: &[(&str, Modifier)] = &[
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underlined", Modifier::UNDERLINED),
    ("reversed", Modifier::REVERSED),
];

/// A theme file as read.
#[derive(Clone, Debug, Default)]
pub(super) struct ThemeFile {
    /// The theme that says what this one leaves out.
    pub(super) inherits: Option<String>,
    /// Whether only characters that every terminal has are shown.
    pub(super) ascii: Option<bool>,
    /// The roles that it sets.
    pub(super) styles: BTreeMap<Role, Style>,
}

/// Reads `text`; errors name it `file`.
pub(super) fn parse(file: &str, text: &str) -> Result<ThemeFile, ThemeError> {
    let reader = Reader { file };
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| {
            1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count()
        });
        reader.problem(
            "",
            format!("line {line} is no TOML: {}", show(error.message(), SHOWN_MAX)),
        )
    })?;
    reader.known_keys(&table, "", &["inherits", "palette", "roles", "ascii"])?;
    let palette = reader.palette(table.get("palette"))?;
    Ok(ThemeFile {
        inherits: table
            .get("inherits")
            .map(|value| reader.text(value, "inherits"))
            .transpose()?
            .map(str::to_owned),
        ascii: table
            .get("ascii")
            .map(|value| reader.flag(value, "ascii"))
            .transpose()?,
        styles: reader.roles(table.get("roles"), &palette)?,
    })
}

type Palette = BTreeMap<String, Color>;

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn problem(&self, field: &str, problem: impl Into<String>) -> ThemeError {
        self.problem_with(field, problem, None)
    }

    fn problem_with(&self, field: &str, problem: impl Into<String>, nearest: Option<&str>) -> ThemeError {
        ThemeError::File {
            file: show(self.file, SHOWN_MAX),
            field: show(field, SHOWN_MAX),
            problem: problem.into(),
            nearest: nearest.map(str::to_owned),
        }
    }

    fn known_keys(&self, table: &Table, path: &str, known: &[&str]) -> Result<(), ThemeError> {
        match table.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let near = nearest(key, known.iter().copied());
                let problem = format!("is unknown; possible are {}", known.join(", "));
                Err(self.problem_with(&join(path, key), problem, near))
            }
        }
    }

    fn text<'v>(&self, value: &'v Value, field: &str) -> Result<&'v str, ThemeError> {
        value
            .as_str()
            .ok_or_else(|| self.problem(field, format!("is {}, and must be a string", kind(value))))
    }

    fn table<'v>(&self, value: &'v Value, field: &str) -> Result<&'v Table, ThemeError> {
        value
            .as_table()
            .ok_or_else(|| self.problem(field, format!("is {}, and must be a table", kind(value))))
    }

    fn palette(&self, value: Option<&Value>) -> Result<Palette, ThemeError> {
        let mut palette = Palette::new();
        let Some(value) = value else { return Ok(palette) };
        for (name, value) in self.table(value, "palette")? {
            let field = join("palette", name);
            let colour = self.colour(self.text(value, &field)?, &field, &Palette::new())?;
            palette.insert(name.clone(), colour);
        }
        Ok(palette)
    }

    fn roles(&self, value: Option<&Value>, palette: &Palette) -> Result<BTreeMap<Role, Style>, ThemeError> {
        let mut styles = BTreeMap::new();
        let Some(value) = value else { return Ok(styles) };
        for (name, value) in self.table(value, "roles")? {
            let field = join("roles", name);
            let Some(role) = Role::parse(name) else {
                let near = nearest(name, Role::ALL.iter().map(|role| role.name()));
                let problem = "is no role; themes/dark.toml has all of them (dotted names in quotation marks)";
                return Err(self.problem_with(&field, problem, near));
            };
            styles.insert(role, self.style(value, &field, palette)?);
        }
        Ok(styles)
    }

    fn style(&self, value: &Value, field: &str, palette: &Palette) -> Result<Style, ThemeError> {
        if let Some(colour) = value.as_str() {
            return Ok(Style::new().fg(self.colour(colour, field, palette)?));
        }
        let Some(table) = value.as_table() else {
            let problem = format!(
                "is {}, and must be a colour or a table such as {{ fg = \"red\", bold = true }}",
                kind(value)
            );
            return Err(self.problem(field, problem));
        };
        let known = ["fg", "bg", "bold", "dim", "italic", "underlined", "reversed"];
        self.known_keys(table, field, &known)?;
        let mut style = Style::new();
        for (key, value) in table {
            let field = join(field, key);
            match (key.as_str(), MODIFIERS.iter().find(|(name, _)| name == key)) {
                (_, Some((_, modifier))) => {
                    if self.flag(value, &field)? {
                        style = style.add_modifier(*modifier);
                    }
                }
                ("fg", None) => style = style.fg(self.colour(self.text(value, &field)?, &field, palette)?),
                (_, None) => style = style.bg(self.colour(self.text(value, &field)?, &field, palette)?),
            }
        }
        Ok(style)
    }

    fn flag(&self, value: &Value, field: &str) -> Result<bool, ThemeError> {
        value
            .as_bool()
            .ok_or_else(|| self.problem(field, format!("is {}, and must be true or false", kind(value))))
    }

    fn colour(&self, text: &str, field: &str, palette: &Palette) -> Result<Color, ThemeError> {
        if let Some(colour) = palette.get(text) {
            return Ok(*colour);
        }
        if let Some((_, colour)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*colour);
        }
        if let Some(colour) = hex(text) {
            return Ok(colour);
        }
        let names = palette
            .keys()
            .map(String::as_str)
            .chain(NAMED.iter().map(|(name, _)| *name));
        let problem = format!(
            "is {:?}, and must be #rrggbb, a name of the palette, or default, black, red, green, yellow, blue, \
             magenta, cyan, white, bright_red, …",
            show(text, SHOWN_MAX)
        );
        let near = nearest(text, names).map(|name| show(name, SHOWN_MAX));
        Err(self.problem_with(field, problem, near.as_deref()))
    }
}

/// `#rrggbb`.
pub(super) fn hex(text: &str) -> Option<Color> {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some(Color::Rgb(red, green, blue))
}

fn join(path: &str, key: &str) -> String {
    match (path.is_empty(), key.contains('.')) {
        (true, _) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
        (false, true) => format!("{path}.\"{key}\""),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a fractional number",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}
