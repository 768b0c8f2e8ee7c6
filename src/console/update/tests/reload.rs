//! The configuration, read again: what holds at once, what is asked, and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Stage;
use super::fixture::{incident, stage};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::settings::{OtherProfile, Reloaded};

fn read() -> Reloaded {
    let keys = BTreeMap::from([("freeze".to_owned(), "F7".to_owned())]);
    Reloaded {
        theme: Some("nord".to_owned()),
        keys: Arc::new(Keymap::from_config(&keys).unwrap()),
        refresh: Duration::from_secs(9),
        mouse: true,
        preview: Some(false),
        notify: crate::console::state::call::Notify::Off,
        titles: true,
        mask: Arc::new(crate::domain::mask::MaskRules::usual()),
        label: "STAGING".to_owned(),
        colour: Some("blue".to_owned()),
        profiles: vec![OtherProfile {
            name: "live".to_owned(),
            says: "LIVE".to_owned(),
        }],
        applied: vec!["console.keys".to_owned(), "console.theme".to_owned()],
        waits: Vec::new(),
    }
}

fn reloaded(stage: &mut Stage, read: Reloaded) -> Vec<Effect> {
    stage.event(Event::Reloaded(Ok(Box::new(read))))
}

fn waiting() -> Reloaded {
    Reloaded {
        waits: vec!["store.url".to_owned()],
        ..read()
    }
}

#[test]
fn it_is_asked_for_by_name() {
    let mut stage = stage(incident());
    let effects = stage.play(": 'reload Enter");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Reload)),
        "{effects:?}"
    );
    assert!(matches!(stage.state.input.mode, Mode::Browse));
}

#[test]
fn keys_theme_label_pace_and_mouse_hold_at_once() {
    let mut stage = stage(incident());
    let effects = reloaded(&mut stage, read());
    assert!(
        matches!(effects.as_slice(), [Effect::Theme(name), Effect::Pace(pace), Effect::Mouse]
            if name == "nord" && *pace == Duration::from_secs(9)),
        "{effects:?}"
    );
    let state = &stage.state;
    assert_eq!(
        (
            state.session.place.label.as_str(),
            state.session.place.colour.as_deref()
        ),
        ("STAGING", Some("blue"))
    );
    assert_eq!(state.session.profiles.others.len(), 1);
    assert!(state.terminal.mouse && matches!(state.input.mode, Mode::Browse));
    assert!(
        stage.toasts()[0].contains("console.keys, console.theme"),
        "{:?}",
        stage.toasts()
    );
}

#[test]
fn what_cannot_be_read_changes_nothing_and_is_told() {
    let mut stage = stage(incident());
    let before = stage.state.input.keymap.clone();
    let effects = stage.event(Event::Reloaded(Err(
        "console.keys.x: there is no such action".to_owned()
    )));
    assert!(effects.is_empty());
    assert_eq!(stage.state.input.keymap, before);
    assert!(
        stage.toasts()[0].contains("nothing is changed: console.keys.x"),
        "{:?}",
        stage.toasts()
    );
    assert!(stage.log()[0].contains("console.keys.x"));
}

#[test]
fn what_needs_a_new_connection_is_asked_and_only_y_says_yes() {
    for no in ["Esc", "n", "q", "Enter", "~y", "!y", "y"] {
        let mut stage = stage(incident());
        reloaded(&mut stage, waiting());
        assert!(
            matches!(&stage.state.input.mode, Mode::Question(question) if question.lines.join(" ").contains("store.url"))
        );
        let effects = stage.play(no);
        assert!(
            !effects
                .iter()
                .any(|effect| matches!(effect, Effect::Again | Effect::Quit)),
            "{no}, at once"
        );
    }
    let mut stage = stage(incident());
    reloaded(&mut stage, waiting());
    let effects = stage.play("+500 y");
    assert!(matches!(effects.as_slice(), [Effect::Again]), "{effects:?}");
}

#[test]
fn a_question_is_not_pasted_away_and_takes_the_place_of_nothing() {
    let mut stage = stage(incident());
    reloaded(&mut stage, waiting());
    stage.play("+500");
    let effects = stage.event(Event::Paste("y".to_owned()));
    assert!(effects.is_empty() && matches!(stage.state.input.mode, Mode::Question(_)));
    stage.play("Esc 2 /depth");
    reloaded(&mut stage, waiting());
    assert!(matches!(stage.state.input.mode, Mode::Filter(_)), "what is typed stays");
    assert!(
        stage
            .toasts()
            .iter()
            .any(|text| text.contains("not used yet: store.url"))
    );
}
