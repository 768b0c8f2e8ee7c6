//! Themes: what files may say, what they inherit, what is left without colour.

use ratatui::style::{Color, Modifier, Style};

use super::{Depth, FILE_BYTES_MAX, Role, Sources, Theme, choose};

const OWN: [&str; 10] = [
    "dark",
    "light",
    "ansi16",
    "high_contrast",
    "colour_blind",
    "gruvbox",
    "nord",
    "dracula",
    "solarized_dark",
    "solarized_light",
];
/// What has to be read is at least so far from its ground (WCAG AA), and what stands beside it so far.
const READABLE: f64 = 4.5;
const SEEN: f64 = 3.0;

fn with(files: &[(&str, &str)]) -> Sources {
    let mut sources = Sources::builtin();
    for (name, text) in files {
        sources.add(name, &format!("themes/{name}.toml"), Ok((*text).to_owned()));
    }
    sources
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = with(&[("mine", text)]).find("mine").unwrap_err();
    assert_eq!(error.to_string(), format!("theme file themes/mine.toml: {expected}"));
}

#[test]
fn every_theme_of_the_program_gives_every_role_a_look_of_its_own_kind() {
    for name in OWN {
        let theme = Theme::builtin(name).unwrap();
        for role in Role::ALL {
            assert_ne!(theme.style(*role), Style::new(), "{name}: {}", role.name());
        }
        let state = [Role::Good, Role::Warning, Role::Bad, Role::Info].map(|role| theme.style(role));
        for (at, one) in state.iter().enumerate() {
            assert!(!state[..at].contains(one), "{name}: two states look alike");
        }
        for role in [Role::Selection, Role::TabSelected, Role::Alarm] {
            assert!(
                theme
                    .style(role)
                    .bg
                    .is_some_and(|bg| Some(bg) != theme.style(Role::Screen).bg),
                "{name}"
            );
        }
    }
}

/// How far two colours are apart to the eye, from 1 to 21.
fn contrast(one: Color, other: Color) -> f64 {
    let channel = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.039_28 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    let brightness = |colour| {
        let Color::Rgb(r, g, b) = colour else {
            panic!("{colour} has no brightness of its own")
        };
        0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
    };
    let (a, b) = (brightness(one), brightness(other));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_theme_of_its_own_colours_can_be_read_on_its_ground() {
    for name in OWN.into_iter().filter(|name| *name != "ansi16") {
        let theme = Theme::builtin(name).unwrap();
        let ground = theme.style(Role::Screen).bg.unwrap();
        for role in Role::ALL.iter().copied() {
            let style = theme.style(role);
            let Some(ink) = style.fg else { continue };
            let is_read = matches!(
                role,
                Role::Text | Role::TextMuted | Role::Title | Role::Good | Role::Warning | Role::Bad | Role::Critical
            );
            let least = if is_read { READABLE } else { SEEN };
            let found = contrast(ink, style.bg.unwrap_or(ground));
            assert!(found >= least, "{name}: {} has {found:.1}", role.name());
        }
        let selected = theme.style(Role::Selection).bg.unwrap();
        for role in [Role::Text, Role::Good, Role::Warning, Role::Bad, Role::Critical] {
            let ink = theme.style(Role::Selection).fg.or(theme.style(role).fg).unwrap();
            let found = contrast(ink, selected);
            assert!(found >= SEEN, "{name}: {} selected has {found:.1}", role.name());
        }
    }
}

#[test]
fn the_theme_of_sixteen_colours_uses_no_other() {
    assert!(!Theme::builtin("ansi16").unwrap().needs_more_than_16());
    assert!(Theme::builtin("dark").unwrap().needs_more_than_16());
}

#[test]
fn a_partial_file_takes_the_rest_from_its_parent_and_from_before_the_dot() {
    let sources = with(&[
        (
            "mine",
            "inherits = \"light\"\n[palette]\nsun = \"#ffcc00\"\n[roles]\nwarning = \"sun\"",
        ),
        (
            "bare",
            "[roles]\ntext = \"red\"\n\"tab.selected\" = { bg = \"blue\", bold = true }",
        ),
    ]);
    let (mine, light) = (sources.find("mine").unwrap(), Theme::builtin("light").unwrap());
    assert_eq!(mine.style(Role::Warning), Style::new().fg(Color::Rgb(0xff, 0xcc, 0)));
    assert_eq!(mine.style(Role::Bad), light.style(Role::Bad));
    let bare = sources.find("bare").unwrap();
    assert_eq!(bare.style(Role::TextStale), Style::new().fg(Color::Red));
    assert_eq!(
        bare.style(Role::TabSelected),
        Style::new().bg(Color::Blue).add_modifier(Modifier::BOLD)
    );
    assert_eq!(bare.style(Role::Good), Style::new());
}

#[test]
fn a_file_may_go_before_the_programs_theme_of_its_name_and_inherit_from_that() {
    let theme = with(&[("dark", "inherits = \"dark\"\n[roles]\ngood = \"blue\"")])
        .find("dark")
        .unwrap();
    assert_eq!(theme.style(Role::Good), Style::new().fg(Color::Blue));
    assert_eq!(theme.style(Role::Bad), Theme::default().style(Role::Bad));
}

#[test]
fn what_is_wrong_is_named_with_file_field_and_nearest_name() {
    refused(
        "[roles]\nwarnign = \"red\"",
        "roles.warnign is no role; themes/dark.toml has all of them (dotted names in quotation marks) (did you mean \"warning\"?)",
    );
    refused(
        "[roles]\n\"tab.selectde\" = \"red\"",
        "roles.\"tab.selectde\" is no role; themes/dark.toml has all of them (dotted names in quotation marks) (did you mean \"tab.selected\"?)",
    );
    refused(
        "[roles]\ngood = \"gren\"",
        "roles.good is \"gren\", and must be #rrggbb, a name of the palette, or default, black, red, green, yellow, blue, magenta, cyan, white, bright_red, … (did you mean \"green\"?)",
    );
    refused(
        "[roles]\ngood = { bold = 1 }",
        "roles.good.bold is an integer, and must be true or false",
    );
    refused(
        "[roles]\ngood = { bolt = true }",
        "roles.good.bolt is unknown; possible are fg, bg, bold, dim, italic, underlined, reversed (did you mean \"bold\"?)",
    );
    refused("roles = 5", "roles is an integer, and must be a table");
    refused(
        "inherit = \"dark\"",
        "inherit is unknown; possible are inherits, palette, roles, ascii (did you mean \"inherits\"?)",
    );
    refused(
        "inherits = \"drak\"",
        "inherits is \"drak\", and there is no such theme (did you mean \"dark\"?)",
    );
    refused("inherits = \"mine\"", "inherits from itself; let it inherit from dark");
    let error = with(&[("mine", "\n[roles")]).find("mine").unwrap_err().to_string();
    assert!(
        error.starts_with("theme file themes/mine.toml: line 2 is no TOML"),
        "{error}"
    );
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let error = with(&[("night", "")]).find("nigth").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no theme \"nigth\" (did you mean \"night\"?); themes are ansi16, ascii, colour_blind, dark, dracula, gruvbox, high_contrast, light, night, nord, solarized_dark, solarized_light"
    );
}

#[test]
fn a_theme_for_terminals_without_signs_says_so_and_keeps_it_without_colour() {
    let theme = Theme::builtin("ascii").unwrap();
    assert!(theme.is_ascii() && !theme.needs_more_than_16() && theme.without_colour().is_ascii());
    let own = with(&[("mine", "inherits = \"ascii\"\nascii = false")])
        .find("mine")
        .unwrap();
    assert!(!own.is_ascii());
    refused("ascii = 1", "ascii is an integer, and must be true or false");
}

#[test]
fn a_circle_of_parents_ends_with_an_error() {
    let error = with(&[("a", "inherits = \"b\""), ("b", "inherits = \"a\"")])
        .find("a")
        .unwrap_err();
    assert!(error.to_string().contains("inherits from itself"), "{error}");
}

#[test]
fn a_hostile_file_cannot_speak_through_its_error() {
    let hostile = "\u{1b}[2J\u{202e}".repeat(1_000);
    for text in [
        format!("\"{}\" = 1", hostile.replace('\u{1b}', "\\u001b")),
        hostile.clone(),
    ] {
        let error = with(&[("mine", &text)]).find("mine").unwrap_err().to_string();
        assert!(
            !error.contains(['\u{1b}', '\u{202e}']) && error.len() < 1_000,
            "{error:?}"
        );
    }
}

#[test]
fn files_are_read_bounded_and_only_files() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("mine.toml", "inherits = \"dark\"");
    write("large.toml", &"#".repeat(FILE_BYTES_MAX + 1));
    write("note.txt", "not one");
    std::fs::create_dir(directory.path().join("folder.toml")).unwrap();
    let sources = Sources::read(directory.path());
    assert_eq!(
        sources.find("mine").unwrap().style(Role::Bad),
        Theme::default().style(Role::Bad)
    );
    assert!(
        sources
            .find("large")
            .unwrap_err()
            .to_string()
            .ends_with("has more than 65536 bytes")
    );
    assert!(sources.find("folder").unwrap_err().to_string().ends_with("is no file"));
    assert!(sources.find("note").is_err());
    assert!(Sources::read(&directory.path().join("gone")).find("dark").is_ok());
}

#[test]
fn the_ground_is_believed_where_the_terminal_names_it() {
    use super::{Ground, for_ground};
    let named = |variable| {
        let ground = Ground::of_variable(variable);
        for_ground(None, ground, Depth::TrueColour)
    };
    for light in ["0;15", "0;default;15", "0;7"] {
        assert_eq!(named(Some(light)), Some("light"), "{light}");
    }
    for dark in [Some("15;0"), Some("7;8")] {
        assert_eq!(named(dark), Some("dark"), "{dark:?}");
    }
    for unknown in [Some("15;default"), Some("0;200"), Some(""), None] {
        assert_eq!(named(unknown), None, "{unknown:?}");
    }
    assert_eq!(
        for_ground(Some("auto"), Some(Ground::Light), Depth::Ansi256),
        Some("light")
    );
    assert_eq!(
        for_ground(Some("nord"), Some(Ground::Light), Depth::TrueColour),
        Some("nord")
    );
    assert_eq!(
        for_ground(None, Some(Ground::Light), Depth::Ansi16),
        None,
        "its own sixteen fit any ground"
    );
}

#[test]
fn the_terminal_decides_which_theme_and_how() {
    let chosen = |name, depth| choose(&Sources::builtin(), name, depth).unwrap();
    assert_eq!(chosen(None, Depth::TrueColour).theme.name(), "dark");
    assert_eq!(chosen(None, Depth::Ansi16).theme.name(), "ansi16");
    assert!(chosen(None, Depth::Ansi16).notice.is_none());
    let replaced = chosen(Some("light"), Depth::Ansi16);
    assert_eq!(replaced.theme.name(), "ansi16");
    assert!(
        replaced
            .notice
            .unwrap()
            .contains("\"light\" needs more than the 16 colours")
    );
    let palette = chosen(None, Depth::Ansi256).theme;
    assert!(
        palette
            .styles
            .iter()
            .all(|style| !matches!(style.fg, Some(Color::Rgb(..))))
    );
    assert_eq!(palette.style(Role::Profile).bg, Some(Color::Indexed(103)));
}

#[test]
fn without_colour_nothing_has_one_and_what_matters_stands_out() {
    for name in OWN {
        let plain = Theme::builtin(name).unwrap().without_colour();
        for role in Role::ALL {
            let style = plain.style(*role);
            assert_eq!(
                (style.fg, style.bg),
                (Some(Color::Reset), Some(Color::Reset)),
                "{}",
                role.name()
            );
        }
        for (role, modifier) in [
            (Role::Selection, Modifier::REVERSED),
            (Role::TabSelected, Modifier::REVERSED),
            (Role::Alarm, Modifier::REVERSED),
            (Role::Bad, Modifier::BOLD),
            (Role::Critical, Modifier::BOLD | Modifier::UNDERLINED),
        ] {
            assert!(plain.style(role).add_modifier.contains(modifier), "{}", role.name());
        }
        assert!(plain.profile(Some("#ff0000")).add_modifier.contains(Modifier::REVERSED));
    }
}

#[test]
fn a_profiles_own_colour_is_its_ground_with_readable_letters() {
    let theme = Theme::default();
    assert_eq!(theme.profile(Some("red")), theme.style(Role::ProfileRed));
    assert_eq!(theme.profile(Some("#ffff00")).fg, Some(Color::Rgb(0, 0, 0)));
    assert_eq!(theme.profile(Some("#000080")).fg, Some(Color::Rgb(255, 255, 255)));
    assert_eq!(theme.profile(Some("nonsense")), theme.style(Role::Profile));
}
