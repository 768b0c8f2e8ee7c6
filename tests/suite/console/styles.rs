//! What the text of a screen does not say: how it is styled, in true colour, in sixteen, in none.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use redrive::internals::console::Theme;
use redrive::internals::console::theme::Role;

use super::fixture::scene;
use super::screens::text;

/// Each style of the screen gets a letter; under each line of text stands a line of letters.
fn dump(buffer: &Buffer) -> String {
    let mut styles: Vec<String> = Vec::new();
    let mut page = String::new();
    for (y, line) in (0..buffer.area.height).zip(text(buffer).lines()) {
        let mut letters = String::new();
        for x in 0..buffer.area.width {
            let style = described(&buffer[(x, y)]);
            let place = styles.iter().position(|known| *known == style).unwrap_or_else(|| {
                styles.push(style);
                styles.len() - 1
            });
            letters.push(letter(place));
        }
        let _ = writeln!(page, "{line}\n{}", letters.trim_end_matches('.'));
    }
    for (place, style) in styles.iter().enumerate() {
        let _ = writeln!(page, "{} {style}", letter(place));
    }
    page
}

/// The first style is the ground, mostly.
fn letter(place: usize) -> char {
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        .get(place)
        .map_or('?', |byte| char::from(*byte))
}

fn described(cell: &Cell) -> String {
    let modifier = if cell.modifier.is_empty() {
        String::new()
    } else {
        format!(" {:?}", cell.modifier)
    };
    format!("{} on {}{modifier}", cell.fg, cell.bg)
}

fn themes() -> [(&'static str, Theme); 3] {
    let dark = Theme::builtin("dark").unwrap();
    let plain = dark.without_colour();
    [
        ("true_colour", dark),
        ("16_colours", Theme::builtin("ansi16").unwrap()),
        ("no_colour", plain),
    ]
}

fn check(name: &str) {
    for (class, theme) in themes() {
        let buffer = scene(name).sized(80, 24).paint(&theme);
        let stored = format!("style_{name}_{class}");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(stored, dump(&buffer));
        });
    }
}

#[test]
fn a_list_is_styled_as_it_was_in_every_class_of_theme() {
    check("queues");
}

#[test]
fn a_dialog_is_styled_as_it_was_in_every_class_of_theme() {
    check("dialog_one");
}

#[test]
fn what_is_found_in_a_payload_is_styled_as_it_was_in_every_class_of_theme() {
    check("queue_messages_found");
}

#[test]
fn the_event_table_is_styled_as_it_was_in_every_class_of_theme() {
    check("event_groups");
}

#[test]
fn queues_that_go_are_styled_as_they_were_in_every_class_of_theme() {
    check("expiring");
}

#[test]
fn without_colour_the_selected_row_is_inverse_and_no_cell_has_a_colour() {
    let theme = Theme::default().without_colour();
    for name in [
        "queues",
        "endpoints",
        "retries",
        "queue_attempts",
        "event_types",
        "expiring",
    ] {
        let buffer = scene(name).sized(80, 24).paint(&theme);
        let mut inverse = 0;
        for y in 0..24 {
            let cells = (0..80).map(|x| &buffer[(x, y)]);
            assert!(
                cells
                    .clone()
                    .all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)),
                "{name}"
            );
            let selected = buffer[(0, y)].symbol() == "▌" || buffer[(1, y)].symbol() == "▌";
            let reversed = cells
                .skip(1)
                .take(70)
                .all(|cell| cell.modifier.contains(Modifier::REVERSED));
            assert!(!selected || reversed, "{name}: line {y}");
            inverse += usize::from(selected);
        }
        assert_eq!(inverse, 1, "{name}");
    }
}

#[test]
fn what_is_bad_is_told_without_colour_by_sign_word_and_weight() {
    let buffer = scene("endpoints")
        .keys("Down Down Down")
        .sized(80, 24)
        .paint(&Theme::default().without_colour());
    let line = |word: &str| {
        (0..24)
            .find(|y| text(&buffer).lines().nth(usize::from(*y)).unwrap().contains(word))
            .unwrap()
    };
    let parked = &buffer[(3, line("parked"))];
    assert_eq!(
        (parked.symbol(), parked.modifier),
        ("!", Modifier::BOLD | Modifier::UNDERLINED)
    );
    let available = &buffer[(3, line("● available"))];
    assert!(!available.modifier.contains(Modifier::BOLD));
}

#[test]
fn old_numbers_are_dimmed() {
    let theme = Theme::default();
    let buffer = scene("overview_unreachable").sized(80, 24).paint(&theme);
    assert_eq!(Some(buffer[(1, 5)].fg), theme.style(Role::TextStale).fg);
    assert_eq!(Some(buffer[(1, 2)].bg), theme.style(Role::Alarm).bg);
}
