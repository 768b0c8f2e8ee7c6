//! Every screen as text: the tour at three sizes, everything else at the smallest usual one.

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
pub use redrive::internals::console::runtime::picture::text;
use redrive::internals::console::{Theme, view};

use super::fixture::{Player, SCENES, scene};

/// Those whose layout depends on the size.
const TOUR: &[&str] = &[
    "overview",
    "queues",
    "endpoints",
    "retries",
    "log",
    "queue_why",
    "queue_previewed",
    "attempts",
    "attempts_map",
    "queue_attempts",
    "queue_messages",
    "queue_messages_found",
    "queue_hour",
    "queue_map",
    "endpoint_hour",
    "dialog_one",
    "dead_groups",
    "dead_letters",
    "letter_why",
    "letter_payload",
    "letters_compared",
    "group_compared",
    "dialog_redrive",
    "dialog_redrive_warned",
    "policies",
    "policy_schedule",
    "policy_history",
    "policy_form",
    "runs",
    "run_progress",
    "run_items",
    "audit",
    "overview_lost",
    "event_types",
    "event_groups",
    "events",
    "event_why",
    "event_payload",
    "event_history",
    "event_type",
    "event_subscriptions",
    "event_type_form",
    "dialog_cancel_events",
    "expiring",
    "expiring_saves",
    "health",
    "help",
    "palette",
    "columns",
    "pending_keys",
];

fn check(name: &str, columns: u16, rows: u16) {
    let player = scene(name).sized(columns, rows);
    let screen = text(&player.paint(&Theme::default()));
    let stored = format!("{name}_{columns}x{rows}");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(stored, screen);
    });
}

#[test]
fn every_screen_is_as_it_was_at_80_by_24() {
    for scene in SCENES {
        check(scene.name, 80, 24);
    }
}

#[test]
fn every_screen_of_the_tour_is_as_it_was_at_120_by_40() {
    for name in TOUR {
        check(name, 120, 40);
    }
}

#[test]
fn every_screen_of_the_tour_is_as_it_was_at_200_by_60() {
    for name in TOUR {
        check(name, 200, 60);
    }
}

#[test]
fn a_terminal_that_is_too_small_is_told_how_large_it_must_be() {
    check("queues", 39, 10);
    check("overview", 20, 5);
    check("overview", 40, 10);
    check("endpoints", 40, 10);
}

#[test]
fn nothing_that_is_painted_depends_on_what_was_painted_before() {
    let theme = Theme::default();
    for one in SCENES {
        let player = (one.player)().sized(90, 30);
        let fresh = player.paint(&theme);
        let mut used = scene("help").sized(90, 30).paint(&theme);
        let _ = view(&player.state, &theme, &mut used);
        assert_eq!(used, fresh, "{}", one.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The painter may have another size than the last event said.
    #[test]
    fn no_size_is_too_small_or_too_large(number in 0..SCENES.len(), told in (0_u16..300, 0_u16..120), real in (0_u16..300, 0_u16..120), same: bool) {
        let player = (SCENES[number].player)().sized(told.0, told.1);
        let (columns, rows) = if same { told } else { real };
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        let cursor = view(&player.state, &Theme::default(), &mut buffer);
        prop_assert!(cursor.is_none_or(|cursor| buffer.area.contains(cursor)));
    }
}

#[test]
fn however_much_is_said_the_first_target_is_on_the_screen_with_its_effect() {
    let screen = text(&scene("dialog_redrive_warned").sized(80, 24).paint(&Theme::default()));
    for shown in [
        "duplicates are possible",
        "redrive.dead",
        "→ to the end of 3 delivery queues",
        "cancel ]",
    ] {
        assert!(screen.contains(shown), "{shown:?} is not in\n{screen}");
    }
}

#[test]
fn what_is_typed_has_the_cursor() {
    let cursor = |player: Player| {
        let (columns, rows) = player.state.terminal.size;
        view(
            &player.state,
            &Theme::default(),
            &mut Buffer::empty(Rect::new(0, 0, columns, rows)),
        )
    };
    let typed = cursor(scene("queues").keys("/ a b").sized(80, 24)).unwrap();
    assert_eq!((typed.x, typed.y), (5, 22));
    assert!(cursor(scene("dialog_many").sized(80, 24)).is_some());
    assert_eq!(cursor(scene("queues").sized(80, 24)), None);
}
