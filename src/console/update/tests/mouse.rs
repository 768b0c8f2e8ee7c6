//! The mouse: what it selects and opens, and that it changes and confirms nothing.

use std::time::Duration;

use super::Stage;
use super::fixture::{endpoint, incident, queues, snapshot, stage};
use crate::console::paint::{Target, target};
use crate::console::state::detail::Subject;
use crate::console::state::effect::Effect;
use crate::console::state::event::{Event, Mouse, MouseDid};
use crate::console::state::{Mode, View};
use crate::domain::endpoint::EndpointState;

impl Stage {
    fn with_mouse(mut self) -> Self {
        self.state.terminal.mouse = true;
        self
    }

    fn mouse(&mut self, what: MouseDid, column: u16, row: u16) -> Vec<Effect> {
        self.now = self.now.plus(Duration::from_millis(100));
        self.event(Event::Mouse(Mouse { what, column, row }))
    }

    /// Clicks where this is.
    fn click(&mut self, wanted: Target) -> Vec<Effect> {
        let (column, row) = self
            .place(wanted)
            .unwrap_or_else(|| panic!("{wanted:?} is not on the screen"));
        self.mouse(MouseDid::Click, column, row)
    }

    fn place(&self, wanted: Target) -> Option<(u16, u16)> {
        let (columns, rows) = self.state.terminal.size;
        let mut cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row)));
        cells.find(|(column, row)| target(&self.state, *column, *row) == Some(wanted))
    }
}

#[test]
fn a_click_selects_a_view_and_a_row_and_a_second_one_opens_it() {
    let mut stage = stage(incident()).with_mouse();
    stage.click(tab(View::Endpoints));
    assert_eq!(stage.state.nav.view, View::Endpoints);
    stage.play("[");
    assert_eq!(stage.state.nav.view, View::Overview, "a click is a step of the way");
    stage.click(tab(View::Endpoints));
    stage.click(Target::Row(1));
    let selected = stage.state.lists.endpoints.selected_row().unwrap().endpoint.url.clone();
    assert_eq!(
        (stage.state.lists.endpoints.cursor.place, stage.state.nav.details.len()),
        (1, 0)
    );
    stage.click(Target::Row(1));
    assert_eq!(
        stage.state.nav.details.last().unwrap().subject,
        Subject::Endpoint(selected)
    );
}

#[test]
fn two_slow_clicks_and_clicks_on_two_rows_open_nothing() {
    let mut stage = stage(incident()).with_mouse();
    stage.play("2");
    stage.click(Target::Row(2));
    stage.play("+800");
    stage.click(Target::Row(2));
    stage.click(Target::Row(3));
    assert!(stage.state.nav.details.is_empty());
    assert_eq!(stage.state.lists.queues.cursor.place, 3);
}

#[test]
fn a_row_that_came_under_the_hand_between_two_clicks_is_not_opened() {
    let mut stage = stage(incident()).with_mouse();
    stage.play("3");
    stage.click(Target::Row(0));
    let only = vec![endpoint("https://another.example/", EndpointState::Parked)];
    stage.event(Event::Snapshot(std::sync::Arc::new(snapshot(2, queues(1), only))));
    stage.click(Target::Row(0));
    assert!(stage.state.nav.details.is_empty(), "it is another one");
}

#[test]
fn the_worst_are_selected_and_opened_in_the_overview() {
    let mut day = incident();
    day.worst.endpoints = day.endpoints.iter().take(2).cloned().collect();
    let mut stage = stage(day).with_mouse();
    assert!(stage.place(Target::Row(0)).is_some());
    stage.click(Target::Row(1));
    let worst = stage.state.worst();
    stage.click(Target::Row(1));
    assert_eq!(
        stage.state.nav.details.last().map(|detail| detail.subject.clone()),
        worst
    );
}

#[test]
fn the_wheel_moves_the_selection_the_detail_and_the_help() {
    let mut stage = stage(snapshot(1, queues(50), Vec::new())).with_mouse();
    stage.play("2");
    stage.mouse(MouseDid::WheelDown, 10, 10);
    assert_eq!(stage.state.lists.queues.cursor.place, 3);
    stage.mouse(MouseDid::WheelUp, 10, 10);
    assert_eq!(stage.state.lists.queues.cursor.place, 0);
    stage.play("?");
    stage.mouse(MouseDid::WheelDown, 10, 10);
    assert!(
        matches!(&stage.state.input.mode, Mode::Help(help) if help.scroll == 3),
        "{:?}",
        stage.state.input.mode
    );
}

#[test]
fn without_a_wish_the_mouse_does_nothing() {
    let mut stage = stage(incident());
    stage.click(tab(View::Endpoints));
    stage.mouse(MouseDid::WheelDown, 10, 10);
    assert_eq!(stage.state.nav.view, View::Overview);
}

#[test]
fn no_click_anywhere_executes_leaves_or_closes_what_waits_for_an_answer() {
    for script in [
        "", "2", "3", "2 Enter", "3 R", "3 R +500", "2 X +500", "3 E", ":", "2 /", "2 t", "?", "2 *", "q",
    ] {
        let mut stage = stage(incident()).with_mouse();
        if !script.is_empty() {
            stage.play(script);
        }
        let waits = !matches!(stage.state.input.mode, Mode::Browse);
        let before = format!("{:?}", stage.state.input.mode);
        let (columns, rows) = stage.state.terminal.size;
        for (column, row) in (0..rows).flat_map(|row| (0..columns).step_by(3).map(move |column| (column, row))) {
            for what in [MouseDid::Click, MouseDid::Click, MouseDid::WheelUp, MouseDid::WheelDown] {
                let effects = stage.mouse(what, column, row);
                let changes = |effect: &Effect| {
                    matches!(
                        effect,
                        Effect::Execute { .. } | Effect::Quit | Effect::Window(_) | Effect::Edit(_)
                    )
                };
                assert!(
                    !effects.iter().any(changes),
                    "{script:?} at {column}, {row}: {effects:?}"
                );
            }
        }
        if waits && script != "?" {
            assert_eq!(format!("{:?}", stage.state.input.mode), before, "{script:?}");
        }
    }
}

fn tab(view: View) -> Target {
    Target::Tab(View::ALL.iter().position(|one| *one == view).unwrap())
}
