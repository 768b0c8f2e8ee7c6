//! Every screen as text: the tour at three sizes, everything else at the smallest usual one.

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
pub use redrive::internals::console::runtime::picture::text;
use redrive::internals::console::state::Mode;
use redrive::internals::console::{Theme, view};
use redrive::internals::engine::PlanLine;

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

/// A redrive of dead letters to ten queues, of which much has to be known before.
fn redrive_of_many() -> Player {
    let mut player = scene("dialog_redrive_warned");
    if let Mode::Dialog(dialog) = &mut player.state.input.mode
        && let Some([plan]) = dialog.planning.plans.as_deref_mut()
    {
        plan.lines = (0..10)
            .map(|number| PlanLine {
                target: format!("dead.{number}"),
                now: "41 messages".to_owned(),
                effect: format!("sent to queue order-{number}"),
            })
            .collect();
        plan.warnings = (0..7)
            .map(|number| format!("reason {number}, at a length that takes more than one line of a narrow terminal, so that much of it gives way"))
            .collect();
        let headers = (0..8).map(|number| format!("x-death-of-the-exchange-{number}"));
        plan.run.as_mut().unwrap().dropped = headers.collect();
    }
    player
}

#[test]
fn however_much_is_said_three_targets_are_on_the_screen_and_what_is_cut_says_so() {
    for (columns, rows) in [(80, 24), (80, 20), (120, 40), (200, 60), (100, 24)] {
        let screen = text(&redrive_of_many().sized(columns, rows).paint(&Theme::default()));
        for number in 0..3 {
            assert!(
                screen.contains(&format!("dead.{number}")),
                "{columns}x{rows}:\n{screen}"
            );
        }
        assert!(
            screen.contains("warning") || screen.contains("reason 6"),
            "{columns}x{rows}:\n{screen}"
        );
        let mut headers = screen.lines().skip_while(|line| !line.contains("headers removed"));
        let cut = headers.by_ref().take(2).any(|line| line.contains('…'));
        assert!(
            cut || !screen.contains("headers removed") || screen.contains("x-death-of-the-exchange-7"),
            "{columns}x{rows}:\n{screen}"
        );
    }
    let low = text(&redrive_of_many().sized(80, 14).paint(&Theme::default()));
    assert!(low.contains("dead.0") && low.contains("→"), "{low}");
}

#[test]
fn what_was_not_taken_is_said_in_the_confirmation_where_it_is_typed() {
    let mut player = scene("dialog_many");
    if let Mode::Dialog(dialog) = &mut player.state.input.mode {
        dialog.refused = Some("this is not the number of queues; Esc leaves everything as it is".to_owned());
    }
    for (columns, rows) in [(80, 24), (120, 40), (60, 14)] {
        let screen = text(&player.clone().sized(columns, rows).paint(&Theme::default()));
        let lines: Vec<&str> = screen.lines().collect();
        let said = lines.iter().position(|line| line.contains("! this is not the number"));
        let asked = lines.iter().rposition(|line| line.contains("type the number"));
        let between = said.zip(asked).map(|(said, asked)| asked.saturating_sub(said));
        assert!(matches!(between, Some(1 | 2)), "{columns}x{rows}:\n{screen}");
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
