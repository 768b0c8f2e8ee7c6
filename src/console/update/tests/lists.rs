//! Lists by keys: order, selection, scrolling, marks, filter.

use std::sync::Arc;

use super::Stage;
use super::fixture::{endpoint, incident, queue, queue_name, queues, snapshot, stage};
use crate::console::state::View;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::table::{INLINE_MAX, MarkCounts};
use crate::domain::endpoint::EndpointState;
use crate::domain::queue::QueueState;
use crate::engine::snapshot::{QueueRow, Snapshot};

fn shown(stage: &Stage) -> Vec<&str> {
    stage
        .state
        .lists
        .queues
        .shown_rows()
        .map(|row| row.name.as_str())
        .collect()
}

fn selected(stage: &Stage) -> &str {
    stage.state.lists.queues.cursor.id.as_ref().unwrap().as_str()
}

fn refresh(stage: &mut Stage, snapshot: Snapshot) -> Vec<Effect> {
    stage.event(Event::Snapshot(Arc::new(snapshot)))
}

fn stage_of(queues: Vec<QueueRow>) -> Stage {
    let mut stage = stage(snapshot(1, queues, Vec::new()));
    stage.play("2");
    stage
}

#[test]
fn the_digits_and_tab_go_to_the_views() {
    let mut stage = stage(incident());
    for (keys, view) in [
        ("2", View::Queues),
        ("Tab", View::Endpoints),
        ("Tab Tab", View::Dead),
        ("Tab Tab Tab Tab Tab Tab Tab Tab", View::Overview),
        ("Shift+Tab", View::Attempts),
        ("4", View::Retries),
    ] {
        stage.play(keys);
        assert_eq!(stage.state.nav.view, view, "{keys}");
    }
}

#[test]
fn queues_open_with_the_worst_state_and_then_the_deepest_on_top() {
    let stage = stage(incident());
    let expected = [
        "dlv.mail.a",
        "dlv.unknown",
        "dlv.orders.a",
        "dlv.orders.b",
        "dlv.mail.b",
        "dlv.stock.a",
    ];
    assert_eq!(shown(&stage), expected);
}

#[test]
fn endpoints_open_with_those_that_are_not_available_on_top() {
    let stage = stage(incident());
    let states: Vec<EndpointState> = stage
        .state
        .lists
        .endpoints
        .shown_rows()
        .map(|row| row.endpoint.state)
        .collect();
    assert_eq!(
        states,
        [
            EndpointState::Parked,
            EndpointState::Unavailable,
            EndpointState::Available
        ]
    );
}

#[test]
fn sorting_follows_the_selected_row_and_unknown_values_stay_last_either_way() {
    let mut rows = queues(3);
    rows.push(QueueRow::from(crate::engine::snapshot::QueueFacts::unknown(
        queue_name("dlv.a"),
        crate::domain::queue::QueueKind::Foreign,
    )));
    rows.push(queue("dlv.deep", None, QueueState::Empty, 900));
    let mut stage = stage_of(rows);
    stage.play("j j");
    assert_eq!(selected(&stage), "dlv.q00002");
    // By depth, the greatest first.
    stage.play("s");
    assert_eq!(
        shown(&stage),
        ["dlv.deep", "dlv.q00000", "dlv.q00001", "dlv.q00002", "dlv.a"]
    );
    assert_eq!(selected(&stage), "dlv.q00002");
    stage.play("S");
    assert_eq!(
        shown(&stage),
        ["dlv.q00000", "dlv.q00001", "dlv.q00002", "dlv.deep", "dlv.a"]
    );
}

#[test]
fn the_selection_is_a_row_and_not_a_place() {
    let mut stage = stage_of(queues(5));
    stage.play("j j");
    let mut rows = queues(5);
    rows.push(queue("dlv.worse", None, QueueState::Quarantined, 1));
    refresh(&mut stage, snapshot(2, rows, Vec::new()));
    assert_eq!(
        (selected(&stage), stage.state.lists.queues.cursor.place),
        ("dlv.q00002", 3)
    );
}

#[test]
fn what_is_done_with_the_first_row_keeps_it_selected_when_another_comes_before_it() {
    let after = |keys: &str| {
        let mut stage = stage_of(queues(3));
        stage.play(keys);
        let mut rows = queues(3);
        rows.push(queue("dlv.worse", None, QueueState::Quarantined, 1));
        refresh(&mut stage, snapshot(2, rows, Vec::new()));
        selected(&stage).to_owned()
    };
    assert_eq!(
        after("r"),
        "dlv.worse",
        "nothing was done with it: the worst row is selected"
    );
    for keys in [
        "P Esc",
        "R",
        "X",
        "V",
        "T",
        "U",
        "Space",
        "*",
        "a Esc",
        "c",
        "Enter Esc",
    ] {
        assert_eq!(after(keys), "dlv.q00000", "{keys}");
    }
}

#[test]
fn when_the_selected_row_goes_the_nearest_place_is_selected() {
    let mut stage = stage_of(queues(5));
    stage.play("G");
    refresh(&mut stage, snapshot(2, queues(3), Vec::new()));
    assert_eq!(selected(&stage), "dlv.q00002");
    refresh(&mut stage, snapshot(3, queues(5), Vec::new()));
    assert_eq!(selected(&stage), "dlv.q00002");
}

#[test]
fn a_refresh_keeps_the_selected_row_on_its_line_of_the_screen() {
    let mut stage = stage_of(queues(100));
    stage.play("PageDown PageDown Up");
    let line = |stage: &Stage| stage.state.lists.queues.cursor.place - stage.state.lists.queues.cursor.offset;
    let before = (line(&stage), selected(&stage).to_owned());
    let mut rows = queues(100);
    rows.extend((0..7).map(|number| queue(&format!("dlv.new{number}"), None, QueueState::Quarantined, 1)));
    refresh(&mut stage, snapshot(2, rows, Vec::new()));
    assert_eq!((line(&stage), selected(&stage).to_owned()), before);
}

#[test]
fn the_selected_row_is_among_those_on_the_screen_at_any_height() {
    let mut stage = stage_of(queues(100));
    stage.play("PageDown PageDown j j");
    for height in 0..120 {
        let window = stage.state.lists.queues.window(height);
        assert!(window.len() <= height && window.end <= 100, "{height}: {window:?}");
        assert!(
            height == 0 || window.contains(&stage.state.lists.queues.cursor.place),
            "{height}: {window:?}"
        );
    }
}

#[test]
fn marks_stay_with_their_rows_and_are_counted_where_they_are() {
    let mut stage = stage_of(queues(30));
    stage.play("Space j j j v");
    assert_eq!(stage.state.lists.queues.marks.ids.len(), 4);
    stage.play("/q0000 Enter");
    stage.play("Esc");
    stage.play("/q00000 Enter");
    assert_eq!(
        stage.state.lists.queues.marks.counts,
        MarkCounts {
            shown: 1,
            hidden: 3,
            gone: 0
        }
    );
    refresh(&mut stage, snapshot(2, queues(2), Vec::new()));
    assert_eq!(
        stage.state.lists.queues.marks.counts,
        MarkCounts {
            shown: 1,
            hidden: 1,
            gone: 2
        }
    );
    stage.play("Esc *");
    assert_eq!(
        stage.state.lists.queues.marks.counts,
        MarkCounts {
            shown: 2,
            hidden: 0,
            gone: 2
        }
    );
    stage.play("Space");
    assert_eq!(stage.state.lists.queues.marks.counts.shown, 1);
    stage.play("u");
    assert_eq!(stage.state.lists.queues.marks.counts, MarkCounts::default());
}

#[test]
fn a_filter_is_applied_while_it_is_typed_and_a_half_typed_one_changes_nothing() {
    let mut stage = stage(incident());
    stage.play("2 /depth_>_6");
    assert_eq!(shown(&stage), ["dlv.mail.a", "dlv.orders.a"]);
    stage.play("'_and_sta");
    assert_eq!(shown(&stage), ["dlv.mail.a", "dlv.orders.a"]);
    let filter = &stage.state.lists.queues.filter;
    assert_eq!(filter.text, "depth > 6 and sta");
    assert!(filter.error.is_some(), "{filter:?}");
    // The line stays open until it can be read.
    stage.play("Enter 'te_=_parked Enter");
    assert_eq!(shown(&stage), ["dlv.mail.a"]);
    assert_eq!(stage.state.lists.queues.filter.error, None);
}

#[test]
fn the_nearest_field_is_named_where_one_is_mistyped() {
    let mut stage = stage(incident());
    stage.play("2 /dept_>_6");
    let error = stage.state.lists.queues.filter.error.clone().unwrap();
    assert_eq!((error.column, error.nearest.as_deref()), (1, Some("depth")));
}

#[test]
fn esc_in_the_filter_line_restores_filter_and_selection() {
    let mut stage = stage(incident());
    stage.play("2 /orders Enter j");
    assert_eq!(selected(&stage), "dlv.orders.b");
    let before = shown(&stage).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    stage.play("/");
    stage.play("Ctrl+u 'mail Esc");
    assert_eq!((shown(&stage).len(), selected(&stage)), (before.len(), "dlv.orders.b"));
    assert_eq!(stage.state.lists.queues.filter.text, "orders");
    stage.play("Esc");
    assert_eq!(shown(&stage).len(), 6);
}

#[test]
fn a_single_word_is_looked_for_in_names_and_urls() {
    let mut stage = stage(incident());
    for (word, expected) in [
        ("orders", 2),
        ("shop.example/", 2),
        ("MAIL", 2),
        ("https://stock.example/", 1),
    ] {
        stage.play(&format!("2 /{word} Enter"));
        assert_eq!(shown(&stage).len(), expected, "{word}");
        stage.play("Esc");
    }
    // It could become a field: only Enter says that it is a word.
    stage.play("/own");
    assert_eq!(shown(&stage).len(), 6);
    stage.play("Enter");
    // Two endpoints are down, as the screen says it.
    assert_eq!(shown(&stage), ["dlv.unknown", "dlv.orders.a", "dlv.orders.b"]);
}

#[test]
fn a_long_list_is_arranged_elsewhere_and_shows_its_old_rows_meanwhile() {
    let mut stage = stage_of(queues(3));
    let effects = refresh(&mut stage, snapshot(2, queues(INLINE_MAX + 1), Vec::new()));
    let [Effect::Arrange(older)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(shown(&stage).len(), 3);
    let effects = stage.play("s");
    let [Effect::Arrange(newer)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    stage.event(Event::Arranged(older.run()));
    assert_eq!(shown(&stage).len(), 3, "an answer to an older job is dropped");
    stage.event(Event::Arranged(newer.run()));
    assert_eq!(shown(&stage).len(), INLINE_MAX + 1);
    assert_eq!(selected(&stage), "dlv.q00000");
}

#[test]
fn marks_belong_to_their_list() {
    let mut stage = stage(incident());
    stage.play("3 Space 2");
    assert_eq!(stage.state.lists.queues.marks.counts, MarkCounts::default());
    assert_eq!(stage.state.lists.endpoints.marks.counts.shown, 1);
    let rows = vec![endpoint("https://stock.example/", EndpointState::Available)];
    refresh(&mut stage, snapshot(2, Vec::new(), rows));
    assert_eq!(stage.state.lists.endpoints.marks.counts.gone, 1);
}

#[test]
fn a_regular_expression_and_what_does_not_have_something_are_looked_for_in_the_names() {
    let shown = |typed: &str| {
        let mut stage = stage(incident());
        stage.play(&format!("2 /{typed} Enter"));
        assert_eq!(stage.state.lists.queues.filter.error, None, "{typed}");
        stage.state.lists.queues.shown_rows().count()
    };
    assert_eq!(shown("orders"), 2);
    assert_eq!(shown("!orders"), 4);
    assert_eq!(shown("/orders|mail/"), 4);
    assert_eq!(shown("!/orders|mail/"), 2);
    let mut stage = stage(incident());
    stage.play("2 //(/");
    let error = stage.state.lists.queues.filter.error.clone().unwrap();
    assert!(error.message.contains("regular expression"), "{error:?}");
}
