//! Details: opened, answered, refreshed, browsed, closed, and where they lead.

use super::Stage;
use super::fixture::{incident, queue_name, snapshot, stage, url};
use crate::console::state::View;
use crate::console::state::detail::{DetailAnswer, DetailQuery, DetailTab, Extent, Subject};
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::engine::view::QueueView;

fn looked(effects: &[Effect]) -> Vec<DetailQuery> {
    let query = |effect: &Effect| match effect {
        Effect::Look(query) => Some(query.clone()),
        _ => None,
    };
    effects.iter().filter_map(query).collect()
}

fn queue_subject(name: &str) -> Subject {
    Subject::Queue(queue_name(name))
}

fn view_of(name: &str, endpoint: &str, taken_at: Timestamp) -> QueueView {
    QueueView {
        name: queue_name(name),
        kind: QueueKind::Delivery,
        execution: None,
        url: Some(url(endpoint)),
        ready: Some(1),
        unacked: Some(0),
        state: None,
        why: None,
        owner: None,
        oldest_age: None,
        next_attempt_at: None,
        paused: None,
        head: None,
        delivered: None,
        warnings: Vec::new(),
        findings: Vec::new(),
        on_broker: None,
        taken_at,
        problems: Vec::new(),
    }
}

fn answer(stage: &Stage, name: &str) -> DetailAnswer {
    DetailAnswer {
        queue: Some(Ok(view_of(name, "https://mail.example/in", stage.now))),
        ..DetailAnswer::nothing(queue_subject(name), stage.now)
    }
}

fn opened() -> Stage {
    let mut stage = stage(incident());
    let effects = stage.play("2 Enter");
    let expected = DetailQuery {
        subject: queue_subject("dlv.mail.a"),
        extent: Extent::Whole,
    };
    assert_eq!(looked(&effects), [expected]);
    stage
}

#[test]
fn a_detail_is_looked_up_again_with_every_snapshot_once_it_was_answered() {
    let mut stage = opened();
    let effects = stage.event(Event::Snapshot(snapshot(2, Vec::new(), Vec::new()).into()));
    assert!(looked(&effects).is_empty(), "an answer is due");
    let found = answer(&stage, "dlv.mail.a");
    stage.event(Event::Detail(Box::new(found)));
    let effects = stage.event(Event::Snapshot(snapshot(3, Vec::new(), Vec::new()).into()));
    assert_eq!(looked(&effects).len(), 1);
    stage.play("+11000");
    let effects = stage.event(Event::Snapshot(snapshot(4, Vec::new(), Vec::new()).into()));
    assert_eq!(
        looked(&effects).len(),
        1,
        "an answer that never comes is asked for again"
    );
}

#[test]
fn an_answer_about_something_else_or_an_older_one_is_dropped() {
    let mut stage = opened();
    let other = answer(&stage, "dlv.orders.a");
    stage.event(Event::Detail(Box::new(other)));
    assert_eq!(stage.state.nav.details[0].answer, None);
    let older = answer(&stage, "dlv.mail.a");
    stage.play("+1000");
    let newer = answer(&stage, "dlv.mail.a");
    stage.event(Event::Detail(Box::new(newer.clone())));
    stage.event(Event::Detail(Box::new(older)));
    assert_eq!(stage.state.nav.details[0].answer, Some(newer));
}

#[test]
fn messages_are_browsed_only_by_their_key_and_stay_over_a_refresh() {
    let mut stage = opened();
    assert!(looked(&stage.play("Right Right Left")).is_empty());
    let effects = stage.play("b");
    assert_eq!(looked(&effects)[0].extent, Extent::WithMessages);
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Messages);
    let mut found = answer(&stage, "dlv.mail.a");
    found.messages = Some(Ok(Vec::new()));
    stage.event(Event::Detail(Box::new(found)));
    stage.play("+100");
    let found = answer(&stage, "dlv.mail.a");
    stage.event(Event::Detail(Box::new(found)));
    let shown = stage.state.nav.details[0].answer.as_ref().unwrap();
    assert_eq!(shown.messages, Some(Ok(Vec::new())));
}

#[test]
fn enter_leads_from_a_queue_to_its_endpoint_and_from_there_to_its_queues() {
    let mut stage = opened();
    let found = answer(&stage, "dlv.mail.a");
    stage.event(Event::Detail(Box::new(found)));
    let effects = stage.play("Enter");
    assert_eq!(
        looked(&effects)[0].subject,
        Subject::Endpoint(url("https://mail.example/in"))
    );
    assert_eq!(stage.state.focus(), View::Endpoints);
    stage.play("Enter");
    assert!(stage.state.nav.details.is_empty());
    assert_eq!(
        stage.state.lists.queues.filter.text,
        "endpoint = \"https://mail.example/in\""
    );
    let shown: Vec<&str> = stage
        .state
        .lists
        .queues
        .shown_rows()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(shown, ["dlv.mail.a", "dlv.mail.b"]);
}

#[test]
fn closing_a_detail_looks_at_the_one_behind_it_again() {
    let mut stage = opened();
    let found = answer(&stage, "dlv.mail.a");
    stage.event(Event::Detail(Box::new(found)));
    stage.play("Enter");
    let effects = stage.play("Esc");
    assert_eq!(looked(&effects)[0].subject, queue_subject("dlv.mail.a"));
}

#[test]
fn an_action_in_a_detail_is_about_its_subject_and_not_about_marks() {
    let mut stage = stage(incident());
    stage.play("2 * /orders Enter Enter");
    assert_eq!(
        stage.plan("P"),
        [crate::engine::Command::PauseQueue(queue_name("dlv.orders.a"))]
    );
}

#[test]
fn an_endpoint_has_no_part_for_messages() {
    let mut stage = stage(incident());
    stage.play("3 Enter Tab");
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Attempts);
    stage.play("Tab");
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Hour);
    stage.play("Tab");
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Why);
    stage.play("Shift+Tab b");
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Hour);
}

#[test]
fn few_queues_all_have_their_last_hour_and_of_very_many_those_that_were_looked_at() {
    let few = stage(incident());
    assert_eq!(few.state.data.tracks.len(), 9);
    let many = |generation| snapshot(generation, super::fixture::queues(1_000), Vec::new());
    let mut stage = stage(many(1));
    assert!(stage.state.data.tracks.is_empty());
    stage.play("2 Enter");
    stage.event(Event::Snapshot(many(2).into()));
    let subject = stage.state.nav.details[0].subject.clone();
    assert!(stage.state.data.tracks.of(&subject).is_some());
    assert_eq!(stage.state.data.tracks.len(), 1);
}

#[test]
fn scrolling_ends_where_the_text_can_end() {
    let mut stage = opened();
    let found = answer(&stage, "dlv.mail.a");
    stage.event(Event::Detail(Box::new(found)));
    for _ in 0..100 {
        stage.play("PageDown");
    }
    assert!(stage.state.nav.details[0].reading.scroll < 200);
    stage.play("g");
    assert_eq!(stage.state.nav.details[0].reading.scroll, 0);
}
