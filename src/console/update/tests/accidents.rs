//! What other consoles' users were burnt by, each as a test that it cannot happen here.
//!
//! | accident elsewhere | rule here | test |
//! |---|---|---|
//! | marks survived a filter, and the action hit rows that nobody saw | the dialog splits shown, hidden, gone | `marks_that_a_filter_hides_are_counted_before_anything_is_done` |
//! | a key's repeat, or Enter by habit, confirmed | cancel is in front, another key accepts, armed late | `neither_a_held_key_nor_enter_by_habit_confirms` |
//! | Ctrl with R, D, K collided with shells and multiplexers | no change is on such a key, by default or by configuration | `no_change_is_on_a_key_that_means_something_elsewhere` |
//! | pasted text and keys for another window ran commands | paste is no keys, bursts change nothing, focus lost closes | `pasted_text_and_keys_for_another_window_change_nothing` |
//! | read-only leaked through other keys and plug-ins | each change needs a grant that read-only access cannot make | `read_only_has_no_way_to_a_plan` |
//! | the wrong cluster | the dialog repeats label, broker and store | `the_confirmation_says_where_it_acts` |
//! | no dry run, and too late to add one | a key asks for a plan, never for an execution | `no_key_executes_what_was_not_planned` |
//! | *purge all?* without a number | count and name in the dialog, the name is typed | `a_purge_says_how_much_and_asks_for_the_name` |
//! | too many prompts are skipped | friction grows with what is touched | `friction_grows_with_what_is_touched` |
//! | a replay became a thundering herd or a loop | a run has a rate and a canary; what died again is left out of all | `a_redrive_of_everything_has_a_pace_and_leaves_out_what_died_again` |
//! | the row went while the key was pressed, and its neighbour was hit | what is done at once asks first where the selection fell | `what_is_done_at_once_asks_where_the_chosen_row_went` |
//! | nobody knew who did what | every end is in the log of the session, and the engine audits before and after | `what_was_done_and_what_was_refused_is_in_the_log` |

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Stage;
use super::fixture::{endpoint, incident, is_execution, planned, queues, snapshot, stage, stage_with};
use crate::console::actions::{action, all};
use crate::console::runtime::picture;
use crate::console::state::dialog::Friction;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::{Mode, View};
use crate::console::theme::Theme;
use crate::console::view;
use crate::domain::endpoint::EndpointState;
use crate::engine::{Access, Command};

fn screen(stage: &Stage) -> String {
    let (columns, rows) = stage.state.terminal.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let _ = view(&stage.state, &Theme::default(), &mut buffer);
    picture::text(&buffer)
}

fn friction(stage: &Stage) -> &Friction {
    match &stage.state.input.mode {
        Mode::Dialog(dialog) => &dialog.friction,
        other => panic!("{other:?}"),
    }
}

#[test]
fn marks_that_a_filter_hides_are_counted_before_anything_is_done() {
    let mut stage = stage(incident());
    stage.plan("2 * /stock Enter P");
    let text = screen(&stage);
    assert!(text.contains("4 hidden by"), "{text}");
}

#[test]
fn what_is_done_at_once_asks_where_the_chosen_row_went() {
    let named = |name: &str, state| endpoint(&format!("https://{name}.example/"), state);
    let all = |second| {
        let rows = [
            ("a", EndpointState::Available),
            ("b", second),
            ("c", EndpointState::Available),
        ];
        rows.map(|(name, state)| named(name, state)).to_vec()
    };
    let mut stage = stage(snapshot(1, Vec::new(), all(EndpointState::Available)));
    stage.play("3 /state=available Enter j");
    stage.event(Event::Snapshot(
        snapshot(2, Vec::new(), all(EndpointState::Unavailable)).into(),
    ));
    let selected = stage.state.lists.endpoints.selected_row().unwrap();
    assert_eq!(selected.endpoint.url.as_str(), "https://c.example/");
    stage.play("P");
    assert!(matches!(stage.state.input.mode, Mode::Dialog(_)), "it asks");
    stage.play("Esc k P");
    assert!(matches!(stage.state.input.mode, Mode::Browse), "that one was chosen");
}

#[test]
fn neither_a_held_key_nor_enter_by_habit_confirms() {
    let mut stage = stage(incident());
    stage.plan("3 R");
    assert!(!stage.play("+1000 ~y ~y R ~R Enter").iter().any(is_execution));
    assert!(matches!(stage.state.input.mode, Mode::Browse));
    let mut stage = super::fixture::stage(incident());
    stage.plan("3 R");
    assert!(!stage.play("y").iter().any(is_execution), "not armed yet");
}

#[test]
fn no_change_is_on_a_key_that_means_something_elsewhere() {
    for action in all().filter(|action| action.mutates()) {
        for key in ["Ctrl+r", "Ctrl+d", "Ctrl+k", "Ctrl+w", "Ctrl+u", "j", "Space", "Enter"] {
            let keys = std::collections::BTreeMap::from([(action.name.to_owned(), key.to_owned())]);
            assert!(Keymap::from_config(&keys).is_err(), "{} on {key}", action.name);
        }
    }
}

#[test]
fn pasted_text_and_keys_for_another_window_change_nothing() {
    let mut stage = stage(incident());
    stage.play("2 *");
    assert!(stage.event(Event::Paste("R\ny\nX".to_owned())).is_empty());
    assert!(
        stage
            .play("!R !A !P !X !R !y")
            .iter()
            .all(|effect| !matches!(effect, Effect::Execute { .. }))
    );
    stage.play("Esc Esc +1000");
    stage.plan("P");
    stage.event(Event::Focus(false));
    assert!(!stage.play("+1000 y").iter().any(is_execution));
}

#[test]
fn read_only_has_no_way_to_a_plan() {
    for action in all().filter(|action| action.mutates()) {
        for view in ["1", "2", "3", "4", "5", "6", "7", "8", "9"] {
            let mut stage = stage_with(Access::ReadOnly, incident());
            let line = action.name;
            let effects = stage.play(&format!("{view} {} : '{line} Enter Esc", action.keys[0]));
            let plans = effects
                .iter()
                .any(|effect| matches!(effect, Effect::Plan { .. } | Effect::Execute { .. } | Effect::Edit(_)));
            assert!(!plans, "{} in {view}", action.name);
        }
    }
}

#[test]
fn the_confirmation_says_where_it_acts() {
    let mut stage = stage(incident());
    stage.state.session.place.label = "PRODUCTION".to_owned();
    stage.plan("3 R");
    let text = screen(&stage);
    assert!(text.contains("on PRODUCTION · rabbitmq localhost/redrive"), "{text}");
}

#[test]
fn no_key_executes_what_was_not_planned() {
    for action in all().filter(|action| action.mutates()) {
        for view in View::ALL {
            let mut stage = stage(incident());
            stage.state.nav.view = view;
            let effects = stage.play(&format!("{} +1000 y Enter y", action.keys[0]));
            assert!(!effects.iter().any(is_execution), "{} in {view:?}", action.name);
        }
    }
}

#[test]
fn a_purge_says_how_much_and_asks_for_the_name() {
    let mut stage = stage(incident());
    let effects = stage.play("2 /stock Enter X");
    let (request, commands) = planned(&effects);
    let mut plan = super::fixture::plan(&commands[0]);
    plan.messages = Some(3);
    stage.event(Event::Planned {
        request,
        result: Ok(vec![plan]),
    });
    let text = screen(&stage);
    assert!(
        text.contains("3 messages") && text.contains("it cannot be undone"),
        "{text}"
    );
    assert!(matches!(friction(&stage), Friction::Type { word, .. } if word == "dlv.stock.a"));
    assert!(!stage.play("+1000 y Enter").iter().any(is_execution));
}

#[test]
fn friction_grows_with_what_is_touched() {
    let mut one = stage(incident());
    one.plan("2 /stock Enter P");
    assert!(matches!(friction(&one), Friction::Key('y')));
    let mut many = stage(snapshot(1, queues(12), Vec::new()));
    many.plan("2 * P");
    assert!(matches!(friction(&many), Friction::Type { word, .. } if word == "12"));
}

#[test]
fn a_redrive_of_everything_has_a_pace_and_leaves_out_what_died_again() {
    let mut stage = super::feeds::at("5");
    let effects = stage.play("A");
    let (_, commands) = planned(&effects);
    assert!(matches!(commands.as_slice(), [Command::Run(_)]));
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("{:?}", stage.state.input.mode);
    };
    assert!(dialog.pace.is_some());
    assert!(
        dialog.scope.note.is_some_and(|note| note.contains("died again")),
        "{:?}",
        dialog.scope
    );
    assert_eq!(action("redrive_shown").keys, ["A"]);
}

#[test]
fn what_was_done_and_what_was_refused_is_in_the_log() {
    let mut stage = stage(incident());
    stage.plan("2 /orders Enter * P");
    let confirmed = stage.play("+500 y");
    stage.execute(&confirmed, &[(1, "the plan is stale")]);
    let log = stage.log();
    assert!(
        log.iter().any(|line| line.contains("refused: the plan is stale")),
        "{log:?}"
    );
    assert!(log[0].contains("1 of 2 done"), "{log:?}");
}
