//! The preview: it follows the selection, takes the keys and gives them back, and costs nothing where a row is only passed.

use std::sync::Arc;

use super::Stage;
use super::fixture::{incident, queue, queue_name, snapshot, stage};
use crate::console::state::View;
use crate::console::state::detail::{Detail, DetailAnswer, DetailQuery, DetailTab, Extent, Subject};
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::domain::queue::QueueState;

fn looked(effects: &[Effect]) -> Vec<DetailQuery> {
    let query = |effect: &Effect| match effect {
        Effect::Look(query) => Some(query.clone()),
        _ => None,
    };
    effects.iter().filter_map(query).collect()
}

fn of(name: &str, extent: Extent) -> DetailQuery {
    DetailQuery {
        subject: Subject::Queue(queue_name(name)),
        extent,
    }
}

/// The queues on a terminal that has room for list and preview.
fn wide() -> Stage {
    let mut stage = stage(incident());
    stage.event(Event::Resize { columns: 140, rows: 40 });
    stage
}

fn answered(stage: &mut Stage, name: &str) {
    let answer = DetailAnswer::nothing(Subject::Queue(queue_name(name)), stage.now);
    stage.event(Event::Detail(Box::new(answer)));
}

fn preview(stage: &Stage) -> Option<&Detail> {
    stage.state.nav.preview.detail.as_ref()
}

fn previewed(stage: &Stage) -> Option<Subject> {
    preview(stage).map(|detail| detail.subject.clone())
}

#[test]
fn a_row_is_looked_up_where_the_selection_rests_and_not_where_it_only_passes() {
    let mut stage = wide();
    assert_eq!(looked(&stage.play("2 +200")), [of("dlv.mail.a", Extent::Brief)]);
    let passed = looked(&stage.play("j j j k"));
    assert!(passed.is_empty(), "{passed:?}");
    let rested = looked(&stage.play("+200 +200"));
    let selected = stage.state.lists.queues.cursor.id.clone().unwrap();
    assert_eq!(rested, [of(selected.as_str(), Extent::Brief)]);
}

#[test]
fn the_screen_wakes_to_look_the_row_up() {
    let mut stage = wide();
    stage.play("2");
    let wakes = stage.state.wake_at().unwrap();
    assert!(wakes.since(stage.now) <= super::super::preview::REST, "{wakes:?}");
}

#[test]
fn a_narrow_terminal_has_no_preview_and_asks_for_none() {
    let mut stage = stage(incident());
    assert!(looked(&stage.play("2 +500 j +500")).is_empty());
    assert!(stage.state.sides().is_none());
}

#[test]
fn the_key_switches_it_off_and_on_in_every_view() {
    let mut stage = wide();
    stage.play("2 +200 e");
    assert!(stage.state.sides().is_none());
    assert!(looked(&stage.play("j +500 3 +500 j +500")).is_empty());
    stage.play("e");
    assert!(stage.state.sides().is_some());
    assert_eq!(looked(&stage.play("+500")).len(), 1);
}

#[test]
fn the_keys_go_to_the_preview_and_back_and_the_list_stays_where_it_was() {
    let mut stage = wide();
    stage.play("2 +200");
    answered(&mut stage, "dlv.mail.a");
    // What it had no room for is looked up as soon as somebody reads it.
    assert_eq!(looked(&stage.play("Tab")), [of("dlv.mail.a", Extent::Whole)]);
    assert!(stage.state.is_beside());
    stage.play("Right");
    assert_eq!(stage.state.nav.details[0].tab, DetailTab::Attempts);
    stage.play("Tab");
    assert!(stage.state.nav.details.is_empty() && stage.state.nav.view == View::Queues);
    assert_eq!(previewed(&stage), Some(Subject::Queue(queue_name("dlv.mail.a"))));
    stage.play("Tab Esc");
    assert!(stage.state.nav.details.is_empty(), "Esc gives the keys back as well");
    assert!(!stage.state.nav.trail.has_behind() || stage.state.nav.view == View::Queues);
}

#[test]
fn the_view_is_changed_by_tab_only_where_there_is_no_preview() {
    let mut stage = wide();
    stage.play("1 Tab");
    assert_eq!(stage.state.nav.view, View::Queues, "the overview has none");
    stage.play("e Tab");
    assert_eq!(stage.state.nav.view, View::Endpoints);
}

#[test]
fn enter_gives_the_preview_all_of_the_screen_with_what_it_has() {
    let mut stage = wide();
    stage.play("2 +200");
    answered(&mut stage, "dlv.mail.a");
    stage.play("Enter");
    let [open] = stage.state.nav.details.as_slice() else {
        panic!("one detail");
    };
    assert!(open.answer.is_some(), "what was read is seen at once");
    assert!(stage.state.sides().is_none());
    stage.play("Esc");
    assert!(preview(&stage).is_some_and(|detail| detail.answer.is_some()));
}

#[test]
fn the_next_row_is_opened_without_leaving_the_detail_and_at_the_same_part() {
    let mut stage = stage(incident());
    let before = stage.play("2 Enter Tab");
    assert_eq!(looked(&before), [of("dlv.mail.a", Extent::Whole)]);
    // Rows that are only passed are not looked up.
    assert!(looked(&stage.play("J J K")).is_empty());
    let [open] = stage.state.nav.details.as_slice() else {
        panic!("one detail");
    };
    assert_eq!(open.tab, DetailTab::Attempts);
    let selected = stage.state.lists.queues.cursor.id.clone().unwrap();
    assert_ne!(selected.as_str(), "dlv.mail.a");
    assert_eq!(open.subject, Subject::Queue(selected.clone()));
    assert_eq!(looked(&stage.play("+200")), [of(selected.as_str(), Extent::Whole)]);
    stage.play("[");
    assert!(stage.state.nav.details.is_empty(), "the way back leads to the list");
}

#[test]
fn a_row_that_did_not_change_is_not_looked_up_again_with_every_snapshot() {
    let mut stage = wide();
    stage.play("2 +200");
    answered(&mut stage, "dlv.mail.a");
    let shown = incident();
    let mut same = snapshot(2, Vec::new(), Vec::new());
    let before = stage.state.data.snapshot.clone().unwrap();
    same.queues = Arc::clone(&before.queues);
    stage.play("+2000");
    let asked = looked(&stage.event(Event::Snapshot(Arc::new(same))));
    assert!(asked.is_empty(), "{asked:?}");
    let mut rows: Vec<_> = shown.queues.iter().map(|row| (**row).clone()).collect();
    rows.retain(|row| row.name.as_str() != "dlv.mail.a");
    rows.push(queue(
        "dlv.mail.a",
        Some("https://mail.example/in"),
        QueueState::Parked,
        8,
    ));
    let changed = snapshot(3, rows, Vec::new());
    stage.play("+2000");
    let asked = looked(&stage.event(Event::Snapshot(Arc::new(changed))));
    assert_eq!(asked, [of("dlv.mail.a", Extent::Brief)]);
}
