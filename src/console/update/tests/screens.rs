//! What stands on the screen: what is down, what is away, what is paused, what several plans do.

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Stage;
use super::feeds::run;
use super::fixture::{START, endpoint, incident, plan, planned, queue, snapshot, stage, stage_with};
use crate::console::runtime::picture;
use crate::console::state::event::Event;
use crate::console::theme::Theme;
use crate::console::view;
use crate::console::views::keys::by_keys;
use crate::domain::endpoint::EndpointState;
use crate::domain::pace::{self, Pace, PaceChange, PaceOrder};
use crate::domain::queue::QueueState;
use crate::domain::run::RunState;
use crate::engine::Access;
use crate::engine::snapshot::{ENDPOINT_STATES, EndpointRow, Part, Silent, Snapshot, Worst};

fn screen(stage: &mut Stage, (columns, rows): (u16, u16)) -> String {
    stage.event(Event::Resize { columns, rows });
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let _ = view(&stage.state, &Theme::default(), &mut buffer);
    picture::text(&buffer)
}

/// Six endpoints are down whose URLs differ only at their end.
fn six_down() -> Stage {
    let down = (405..411).map(|number| {
        let url = format!("https://receivers.example/answers/always/{number}");
        endpoint(&url, EndpointState::Unavailable)
    });
    let mut day = snapshot(1, Vec::new(), down.collect());
    day.worst = Worst::of(&day.queues, &day.endpoints);
    day.totals.endpoints_by_state =
        ENDPOINT_STATES.map(|state| if state == EndpointState::Unavailable { 6 } else { 0 });
    stage(day)
}

#[test]
fn the_overview_lists_all_that_has_room_and_counts_the_rest() {
    let mut stage = six_down();
    for size in [(80, 16), (80, 20), (80, 24), (120, 40), (200, 60)] {
        let screen = screen(&mut stage, size);
        let listed = (405..411)
            .filter(|number| screen.contains(&format!("/{number} ")))
            .count();
        assert!(listed >= 3, "{size:?}:\n{screen}");
        let more = format!("Worst first, and {} more: 3", 6 - listed);
        assert_eq!(screen.contains(&more), listed < 6, "{size:?}:\n{screen}");
        assert!(size.1 < 24 || listed == 6, "{size:?}:\n{screen}");
    }
}

#[test]
fn two_texts_of_a_line_do_not_run_into_each_other() {
    let mut stage = six_down();
    let mut day = (**stage.state.data.snapshot.as_ref().unwrap()).clone();
    day.generation += 1;
    day.worst.queues_in_all = 1;
    stage.event(Event::Snapshot(Arc::new(day)));
    let narrow = screen(&mut stage, (60, 16));
    assert!(
        narrow.contains("Worst first, and 3 more: 3, and 1 more queue: 2"),
        "{narrow}"
    );
    assert!(!narrow.contains("endpoints\n Worst"), "{narrow}");
    assert!(!narrow.contains("all endpoints"), "{narrow}");
    let wide = screen(&mut stage, (80, 16));
    assert!(wide.contains("3 all endpoints"), "{wide}");
}

#[test]
fn the_line_of_a_run_says_how_far_it_is_whatever_its_operator_is_called() {
    let mut one = run("r1", RunState::Paused);
    one.record.actor = "console:root@a-long-host-name pts/0".to_owned();
    let mut other = one.clone();
    other.record.id = "r2".to_owned();
    let day = Snapshot {
        runs: Arc::new(vec![one, other]),
        ..snapshot(1, Vec::new(), Vec::new())
    };
    let mut stage = stage(day);
    for columns in [60, 80] {
        let screen = screen(&mut stage, (columns, 24));
        assert!(screen.contains("dead redrive 0 of 10, paused"), "{screen}");
        assert!(screen.contains("press 7 to see them"), "{screen}");
    }
}

#[test]
fn a_store_that_is_away_is_said_once_with_what_becomes_of_deliveries_and_its_cause() {
    let mut stage = stage(incident());
    let mut away = incident();
    away.generation += 1;
    away.store = Part {
        problem: Some("store unreachable during listing endpoints: no answer from 127.0.0.1:21061".to_owned()),
        taken_at: Some(START),
    };
    away.incarnations = Arc::new(vec![super::news::daemon(1)]);
    stage.play("+6000");
    stage.event(Event::Snapshot(Arc::new(away)));
    stage.state.said.toasts.clear();
    let screen = screen(&mut stage, (120, 24));
    assert!(
        screen.contains(
            "! store unreachable, last read 6 s ago; deliveries stop until it answers: no answer from 127.0.0.1:21061 "
        ),
        "{screen}"
    );
}

#[test]
fn the_title_of_a_group_says_no_number_that_the_list_below_contradicts() {
    let mut stage = super::feeds::at("5");
    stage.play("Enter");
    stage.feed();
    let screen = screen(&mut stage, (80, 24));
    assert!(
        screen.contains("status 422 at shop.example/ · Esc shows all groups"),
        "{screen}"
    );
    assert!(screen.contains("1–3 of 3"), "{screen}");
}

#[test]
fn what_becomes_of_all_targets_is_said_whole() {
    let mut stage = stage(incident());
    let effects = stage.play("2 P");
    let (request, commands) = planned(&effects);
    let mut plan = plan(&commands[0]);
    let effect = "its messages are moved into the store for 7 d; the queue stays, and its lifetime restarts with it";
    plan.lines[0].effect = effect.to_owned();
    stage.event(Event::Planned {
        request,
        result: Ok(vec![plan]),
    });
    let screen = screen(&mut stage, (80, 24));
    assert!(screen.contains("→ its messages are moved"), "{screen}");
    assert!(screen.contains("│ lifetime restarts with it"), "{screen}");
}

/// Available, and nothing of what waits goes there until a person says so.
#[test]
fn an_endpoint_that_waits_for_a_person_is_among_the_worst_and_in_the_first_sentence() {
    let canary = PaceOrder {
        canary: Some(2),
        ..PaceOrder::default()
    };
    let over = Pace {
        taken: 2,
        ended: 2,
        ..Pace::new(canary, Some("ana".to_owned()), START)
    };
    let held = |waiting| {
        let mut row = endpoint("https://shop.example/", EndpointState::Available);
        row.endpoint.pace = Some(over.clone());
        row.waiting = Some(waiting);
        let mut day = snapshot(1, Vec::new(), vec![row]);
        day.worst = Worst::of(&day.queues, &day.endpoints);
        stage(day)
    };
    let shown = screen(&mut held(12), (80, 24));
    assert!(
        shown.contains("1 endpoint waits for a person to go on: press 3, then U"),
        "{shown}"
    );
    assert!(
        shown.contains("? canary asks") && shown.contains("12 waiting"),
        "{shown}"
    );
    let shown = screen(&mut held(0), (80, 24));
    assert!(!shown.contains("a person"), "nothing waits for it:\n{shown}");
}

#[test]
fn a_daemon_that_is_gone_is_one_line_with_its_cause() {
    let mut stage = stage(incident());
    let mut gone = incident();
    gone.generation += 1;
    let why = "the daemon at http://127.0.0.1:7780 does not answer: connection refused";
    for part in [&mut gone.broker, &mut gone.store] {
        part.problem = Some(why.to_owned());
        part.taken_at = Some(START);
    }
    gone.silent = Some(Silent::Daemon);
    stage.play("2 +34000");
    stage.event(Event::Snapshot(Arc::new(gone)));
    assert_eq!(stage.log(), [format!("nothing is read: {why}")]);
    stage.state.said.toasts.clear();
    for size in [(80, 24), (200, 60)] {
        let screen = screen(&mut stage, size);
        assert_eq!(screen.matches("does not answer").count(), 1, "{size:?}:\n{screen}");
        assert!(
            screen.contains("! the daemon does not answer since 34"),
            "{size:?}:\n{screen}"
        );
        assert!(
            screen.contains(": connection refused; the numbers"),
            "{size:?}:\n{screen}"
        );
        assert!(!screen.contains("unreachable"), "{size:?}:\n{screen}");
    }
    stage.event(Event::Snapshot(Arc::new(snapshot(9, Vec::new(), Vec::new()))));
    assert_eq!(stage.log()[0], "the daemon answers again");
}

/// Paused by a person while it is in this state.
fn paused(state: EndpointState) -> EndpointRow {
    let mut row = endpoint("https://shop.example/orders", state);
    let brake = PaceChange::Brake {
        by: "ana".to_owned(),
        reason: None,
    };
    row.endpoint.pace = pace::after(None, &brake, START).unwrap();
    row
}

#[test]
fn an_endpoint_that_is_down_and_paused_says_both_and_what_is_sent() {
    let mut stage = stage(snapshot(1, Vec::new(), vec![paused(EndpointState::Unavailable)]));
    stage.play("3");
    let screen = screen(&mut stage, (80, 24));
    assert!(screen.contains("▼ down, paused"), "{screen}");
    assert!(screen.contains("nothing is sent, no probe either"), "{screen}");
}

#[test]
fn an_endpoint_that_is_paused_is_found_by_that_word_and_is_so_since_it_was_paused() {
    let mut rows = vec![endpoint("https://mail.example/in", EndpointState::Available)];
    rows.push(paused(EndpointState::Available));
    for row in &mut rows {
        row.endpoint.since = START.minus(Duration::from_secs(7_200));
    }
    let mut stage = stage(snapshot(1, Vec::new(), rows));
    stage.play("3 +9000");
    for filter in ["paused", "state=paused"] {
        stage.play(&format!("/{filter} Enter"));
        let screen = screen(&mut stage, (120, 24));
        assert!(
            screen.contains("◆ paused") && !screen.contains("mail.example"),
            "{screen}"
        );
        assert!(!screen.contains("2h00m"), "{screen}");
        stage.play("Esc");
    }
}

#[test]
fn no_value_of_a_query_is_shown_where_an_endpoint_is_opened_or_looked_for() {
    let mut stage = stage(snapshot(
        1,
        Vec::new(),
        vec![endpoint("https://mail.example/in?key=S3CRET", EndpointState::Parked)],
    ));
    for keys in ["3", "Enter", "Esc : 'mail"] {
        stage.play(keys);
        let screen = screen(&mut stage, (120, 30));
        assert!(screen.contains("mail.example/in?key=***"), "{keys}:\n{screen}");
        assert!(!screen.contains("S3CRET"), "{keys}:\n{screen}");
    }
}

#[test]
fn a_console_that_may_only_look_names_commands_and_no_keys_that_do_nothing_here() {
    let said = |access| {
        let stage = stage_with(access, incident());
        by_keys("it waits for `redrive redeliver`", &stage.state).into_owned()
    };
    assert_eq!(said(Access::Operator), "waiting for you: R redelivers");
    assert_eq!(said(Access::ReadOnly), "it waits for `redrive redeliver`");
}

#[test]
fn several_plans_are_what_they_do_and_to_how_many() {
    for (keys, title) in [
        ("2 Space j Space P", "pause 2 queues"),
        ("3 Space j Space T", "test 2 endpoints"),
    ] {
        let mut stage = stage(incident());
        let (request, commands) = planned(&stage.play(keys));
        assert_eq!(commands.len(), 2);
        let plans = commands.iter().map(plan).collect();
        stage.event(Event::Planned {
            request,
            result: Ok(plans),
        });
        let screen = screen(&mut stage, (80, 24));
        assert!(screen.contains(&format!("│ {title} ")), "{screen}");
    }
}

#[test]
fn resuming_is_offered_for_marked_queues_only_where_one_of_them_is_paused() {
    let mut stage = stage(snapshot(
        1,
        vec![
            queue("dlv.a", None, QueueState::Parked, 3),
            queue("dlv.b", None, QueueState::Paused, 2),
        ],
        Vec::new(),
    ));
    stage.play("2 Space");
    let parked = screen(&mut stage, (120, 24));
    assert!(!parked.contains("U resume"), "{parked}");
    stage.play("U");
    assert_eq!(stage.toasts(), ["resume: none of the marked queues is paused"]);
    stage.play("j Space");
    let both = screen(&mut stage, (120, 24));
    assert!(both.contains("U resume"), "{both}");
}
