//! Where keys go: hints, reasons, help, pasted text, small terminals, leaving.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stage;
use super::fixture::{START, incident, is_execution, settings, stage};
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::{Mode, State, View};
use crate::engine::Access;

#[test]
fn what_is_not_possible_says_why() {
    let mut stage = stage(incident());
    for (keys, expected) in [
        ("2 U", "resume: this queue is not paused"),
        ("2 D", "disable is for: endpoints"),
        ("2 v", "mark range: nothing is marked yet"),
        ("1 s", "sort: Overview has no rows: go to queues or endpoints"),
        ("2 b", "messages: open a queue first"),
    ] {
        stage.state.said.toasts.clear();
        assert!(stage.play(keys).is_empty(), "{keys}");
        assert_eq!(stage.toasts(), [expected], "{keys}");
    }
}

#[test]
fn until_it_is_connected_nothing_can_be_changed() {
    let mut stage = Stage::new(State::new(
        &settings(Access::Operator),
        Arc::new(Keymap::default()),
        START,
    ));
    assert!(stage.play("2 R r").is_empty());
    assert_eq!(
        stage.toasts(),
        ["redeliver: still connecting", "refresh: still connecting"]
    );
}

#[test]
fn pasted_text_is_never_keys() {
    let mut stage = stage(incident());
    stage.play("2");
    let effects = stage.event(Event::Paste("RRyq".to_owned()));
    assert!(effects.is_empty());
    assert_eq!(
        stage.toasts(),
        ["pasted text was dropped: press / to paste into the filter"]
    );
    assert_eq!(stage.state.nav.view, View::Queues);
    stage.play("/");
    stage.event(Event::Paste("depth\u{202e}\n> 5\u{1b}".to_owned()));
    assert_eq!(stage.state.lists.queues.filter.text, "depth > 5");
    stage.play("Esc");
    stage.plan("R");
    stage.event(Event::Paste("y".to_owned()));
    assert!(matches!(stage.state.input.mode, Mode::Dialog(_)));
}

#[test]
fn a_sequence_is_one_action_and_is_forgotten_when_it_breaks_or_takes_too_long() {
    let keys = BTreeMap::from([
        ("refresh".to_owned(), "Q r".to_owned()),
        ("freeze".to_owned(), String::new()),
    ]);
    let keymap = Keymap::from_config(&keys).unwrap();
    let mut stage = stage(incident());
    stage.state.input.keymap = Arc::new(keymap);
    assert!(matches!(stage.play("Q r").as_slice(), [Effect::Refresh]));
    assert!(stage.play("Q z r").is_empty());
    assert!(stage.play("Q +6000 r").is_empty());
}

#[test]
fn the_help_scrolls_within_itself_and_closes() {
    let mut stage = stage(incident());
    let mut scrolled = |keys: &str| {
        stage.play(keys);
        let Mode::Help(help) = &stage.state.input.mode else {
            panic!("{:?}", stage.state.input.mode);
        };
        help.scroll
    };
    let end = scrolled("2 ? End");
    assert_eq!(scrolled("PageDown Down"), end, "it ends with its last line");
    assert_eq!(scrolled("Up"), end - 1, "every key moves what is seen");
    assert_eq!(scrolled("Home"), 0);
    assert!(stage.play("R").is_empty());
    assert!(matches!(stage.state.input.mode, Mode::Help(_)), "help takes no action");
    stage.play("Backspace q");
    assert!(matches!(stage.state.input.mode, Mode::Browse));
}

#[test]
fn a_terminal_that_shows_nothing_takes_no_key_but_leaving() {
    let mut stage = stage(incident());
    stage.play("2");
    stage.plan("R");
    stage.event(Event::Resize { columns: 20, rows: 5 });
    assert!(!stage.play("+1000 y").iter().any(is_execution));
    stage.event(Event::Resize { columns: 80, rows: 24 });
    assert!(stage.play("y").iter().any(is_execution));
    stage.event(Event::Resize { columns: 20, rows: 5 });
    assert!(matches!(stage.play("Ctrl+z").as_slice(), [Effect::Suspend]));
}

#[test]
fn leaving_asks_only_while_something_runs() {
    let mut stage = stage(incident());
    assert!(matches!(stage.play("q").as_slice(), [Effect::Quit]));
    stage.plan("2 R");
    stage.play("+500 y");
    assert!(stage.play("q").is_empty());
    assert_eq!(
        stage.toasts(),
        ["1 action still runs: again to leave now; what has not begun is then not done"]
    );
    assert!(stage.play("+6000 q").is_empty(), "asked too long ago");
    assert!(matches!(stage.play("q").as_slice(), [Effect::Quit]));
}

#[test]
fn esc_closes_the_innermost_first() {
    let mut stage = stage(incident());
    stage.play("2 /orders Enter Space Enter ?");
    stage.play("Esc");
    assert_eq!(stage.state.nav.details.len(), 1);
    stage.play("Esc");
    assert_eq!(
        (stage.state.nav.details.len(), stage.state.lists.queues.marks.ids.len()),
        (0, 1)
    );
    stage.play("Esc");
    assert_eq!(
        (
            stage.state.lists.queues.filter.text.as_str(),
            stage.state.lists.queues.marks.ids.len()
        ),
        ("", 1)
    );
    stage.play("Esc");
    assert_eq!(stage.state.lists.queues.marks.ids.len(), 0);
    assert!(stage.play("Esc").is_empty() && stage.toasts().is_empty());
}

#[test]
fn a_name_is_copied_as_it_is_safe_to_show() {
    let mut rows = super::fixture::queues(1);
    rows.push(super::fixture::queue(
        "dlv.\u{1b}]52;c;\u{7}",
        None,
        crate::domain::queue::QueueState::Quarantined,
        1,
    ));
    let mut stage = stage(super::fixture::snapshot(1, rows, Vec::new()));
    let effects = stage.play("2 c");
    let [Effect::Copy(text)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(text, "dlv.\\x1b]52;c;\\x07");
}
