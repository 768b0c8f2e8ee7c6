//! What calls the operator: what is new and bad, once for each cause, and nothing where he wants none.

use std::sync::Arc;

use super::Stage;
use super::feeds::{fed, run};
use super::fixture::{endpoint, incident, snapshot, stage};
use crate::console::state::call::Notify;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::domain::endpoint::EndpointState;
use crate::domain::run::RunState;
use crate::engine::snapshot::Snapshot;

fn calls(effects: &[Effect]) -> Vec<String> {
    let text = |effect: &Effect| match effect {
        Effect::Call(text) => Some(text.clone()),
        _ => None,
    };
    effects.iter().filter_map(text).collect()
}

fn calling() -> Stage {
    let mut stage = stage(incident());
    stage.state.terminal.notify = Notify::Bell;
    stage
}

/// The incident as it stands later, with something changed.
fn later(generation: u64, change: impl FnOnce(&mut Snapshot)) -> Event {
    let incident = incident();
    let mut later = snapshot(generation, Vec::new(), Vec::new());
    (later.queues, later.endpoints) = (incident.queues, incident.endpoints);
    change(&mut later);
    Event::Snapshot(Arc::new(later))
}

#[test]
fn an_alarm_of_the_broker_calls_once_and_its_end_does_not() {
    let mut stage = calling();
    let alarm = |snapshot: &mut Snapshot| snapshot.alarm = Some("memory".to_owned());
    let called = calls(&stage.event(later(2, alarm)));
    assert!(
        matches!(called.as_slice(), [text] if text.contains("takes no publishes: memory")),
        "{called:?}"
    );
    stage.play("+20000");
    assert_eq!(calls(&stage.event(later(3, |_| ()))), [""; 0]);
    assert_eq!(
        calls(&stage.event(later(4, alarm))),
        [""; 0],
        "the same cause within the hour"
    );
}

#[test]
fn a_run_that_stops_and_asks_calls() {
    let mut stage = calling();
    let asks = |snapshot: &mut Snapshot| snapshot.runs = Arc::new(vec![run("0198-aaaa", RunState::Canary)]);
    let called = calls(&stage.event(later(2, asks)));
    assert!(
        matches!(called.as_slice(), [text] if text.contains("0198-aaaa") && text.contains("asks")),
        "{called:?}"
    );
}

#[test]
fn endpoints_that_go_down_at_once_are_one_call_and_what_comes_soon_after_waits() {
    let mut stage = calling();
    let down = |names: &'static [&'static str]| {
        move |snapshot: &mut Snapshot| {
            let url = |name: &&str| Arc::new(endpoint(&format!("https://{name}.example/"), EndpointState::Parked));
            snapshot.endpoints = Arc::new(names.iter().map(url).collect());
        }
    };
    let called = calls(&stage.event(later(2, down(&["a", "b", "c"]))));
    assert!(
        matches!(called.as_slice(), [text] if text.contains("a.example") && text.ends_with("(and 2 more)")),
        "{called:?}"
    );
    assert_eq!(calls(&stage.event(later(3, down(&["a", "b", "c", "d"])))), [""; 0]);
    assert!(stage.state.wake_at().is_some());
    let called = calls(&stage.play("+11000"));
    assert!(
        matches!(called.as_slice(), [text] if text.contains("d.example")),
        "{called:?}"
    );
}

#[test]
fn what_is_lost_within_minutes_calls_whatever_view_is_in_front() {
    let mut stage = calling();
    let asks = |effect: &Effect| matches!(effect, Effect::Feed(query) if query.source.name == "expiring");
    stage.play("2");
    let (query, _) = stage
        .state
        .lists
        .expiring
        .queues
        .feed
        .asked
        .clone()
        .expect("it is looked for");
    let answer = Event::Fed(fed(query, stage.now, true));
    let called = calls(&stage.event(answer));
    assert!(
        matches!(called.as_slice(), [text] if text.contains("jobs.2.result") && text.contains("minutes")),
        "{called:?}"
    );
    assert!(!stage.play("+20000").iter().any(asks), "once a minute");
    assert!(stage.play("+41000").iter().any(asks));
}

#[test]
fn who_wants_no_calls_gets_none_and_nothing_is_asked_for_them() {
    let mut stage = stage(incident());
    let effects = stage.play("2");
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::Feed(_))));
    let alarm = |snapshot: &mut Snapshot| snapshot.alarm = Some("memory".to_owned());
    assert_eq!(calls(&stage.event(later(2, alarm))), [""; 0]);
}

#[test]
fn the_title_says_the_worst_and_only_what_the_terminal_can_show() {
    let mut stage = stage(incident());
    stage.state.session.place.label = "PRODUCTION\u{1b}]0;x\u{7}".to_owned();
    let title = stage.state.title(false);
    assert!(
        !title.chars().any(char::is_control) && title.ends_with(" redrive"),
        "{title:?}"
    );
    stage.event(later(2, |snapshot| {
        snapshot.totals.endpoints_by_state = [1, 1, 1, 4];
        snapshot.incarnations = Arc::default();
    }));
    assert!(stage.state.title(false).starts_with("! PRODUCTION"), "nobody delivers");
    stage.state.session.work = crate::console::state::Work::Delivers;
    assert!(stage.state.title(false).starts_with("▼3 PRODUCTION"));
    assert!(stage.state.title(true).starts_with("v3 PRODUCTION"));
    stage.event(later(3, |snapshot| {
        snapshot.broker.problem = Some("refused".to_owned());
    }));
    assert!(stage.state.title(false).starts_with("? PRODUCTION"));
}
