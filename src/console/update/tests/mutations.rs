//! What changes something: scope, plans, confirmation, answers.

use std::sync::Arc;
use std::time::Duration;

use super::Stage;
use super::fixture::{
    confirmed, endpoint, incident, is_execution, plan, planned, queue, queue_name, queues, snapshot, stage, stage_with,
    url,
};
use crate::console::actions::all;
use crate::console::journal::Tone;
use crate::console::state::action::Action;
use crate::console::state::dialog::{ARMED_AFTER, COMMANDS_MAX, Dialog, Friction, Knob, ScopeKind};
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::{Mode, View};
use crate::domain::endpoint::EndpointState;
use crate::domain::pace::{self, Pace, PaceChange, PaceOrder, Ramp};
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::time::Timestamp;
use crate::engine::snapshot::{QueueFacts, QueueRow};
use crate::engine::{Access, Command, Danger, PaceWish, RedeliverTarget};

fn dialog(stage: &Stage) -> &Dialog {
    match &stage.state.input.mode {
        Mode::Dialog(dialog) => dialog,
        other => panic!("no dialog: {other:?}"),
    }
}

fn is_open(stage: &Stage) -> bool {
    matches!(stage.state.input.mode, Mode::Dialog(_))
}

fn redeliver(urls: &[&str]) -> Vec<Command> {
    vec![Command::Redeliver(RedeliverTarget::Urls(
        urls.iter().map(|text| url(text)).collect(),
    ))]
}

/// Keys that select a row on which the action is possible.
fn way_to(action: &Action) -> &'static str {
    match action.name {
        "resume" => "2 /dlv.mail.b Enter",
        "disable" => "3",
        // The first one is parked: nothing is sent to it.
        "pause_endpoint" | "pace_endpoint" => "3 /shop Enter",
        _ => "2",
    }
}

/// What changes something in the lists of the snapshot; `feeds` plays the others.
fn changing() -> impl Iterator<Item = &'static Action> {
    let of_a_snapshot = [View::Queues, View::Endpoints];
    all().filter(move |action| {
        let here = of_a_snapshot.iter().any(|view| action.context.has(*view));
        // What loses messages has friction of its own, and without a last action there is nothing to undo: `find`.
        // A test of one endpoint is done at once (`feel`), and so is its pause. None of the endpoints is paused.
        let at_once = matches!(action.name, "test" | "pause_endpoint");
        let elsewhere = at_once || matches!(action.name, "edit_policy" | "purge" | "undo" | "resume_endpoint");
        action.mutates() && here && !elsewhere
    })
}

#[test]
fn every_action_that_changes_something_is_planned_confirmed_and_then_executed() {
    for action in changing() {
        let mut stage = stage(incident());
        stage.play(way_to(action));
        let effects = stage.play(action.keys[0]);
        let (request, commands) = planned(&effects);
        assert!(is_open(&stage) && dialog(&stage).planning.is_awaited(), "{action:?}");
        assert!(
            stage.play("+1000 y").is_empty(),
            "{}: nothing is planned yet",
            action.name
        );
        let plans: Vec<_> = commands.iter().map(plan).collect();
        stage.event(Event::Planned {
            request,
            result: Ok(plans.clone()),
        });
        let effects = stage.play("+400 y");
        assert_eq!(confirmed(&effects), (request, plans), "{}", action.name);
        assert!(!is_open(&stage));
    }
}

#[test]
fn a_console_that_may_only_look_refuses_every_action_that_changes_something() {
    for action in changing() {
        let mut stage = stage_with(Access::ReadOnly, incident());
        stage.play(way_to(action));
        assert!(stage.play(action.keys[0]).is_empty(), "{}", action.name);
        let expected = format!("{}: read-only: this console may only look", action.title);
        assert_eq!(stage.toasts(), [expected.as_str()]);
        assert!(!is_open(&stage));
    }
}

#[test]
fn a_redelivery_is_paced_in_its_plan_and_without_any_number_goes_at_once() {
    let mut stage = stage(incident());
    stage.plan("3 R");
    let commands = stage.plan("t 5 0 Enter");
    let [Command::RedeliverPaced { order, .. }] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert_eq!((order.rate, order.stop_after, order.ramp), (Some(50), Some(5), None));
    let commands = stage.plan("m 2 Enter");
    let [Command::RedeliverPaced { order, .. }] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    assert_eq!(
        order.in_words(),
        "from 1 a second, times 2 every 10 s, at most 50 a second, stops after 5 failures"
    );
    stage.plan("t Enter");
    let commands = stage.plan("m Enter");
    assert!(matches!(commands.as_slice(), [Command::Redeliver(_)]), "{commands:?}");
    // A stop alone is asked for as well, and one that was typed stays beside a rate.
    let stops = stage.plan("s 7 Enter");
    let [Command::RedeliverPaced { order, .. }] = stops.as_slice() else {
        panic!("{stops:?}");
    };
    assert_eq!(order.in_words(), "stops after 7 failures");
    let both = stage.plan("t 9 Enter");
    assert!(
        matches!(both.as_slice(), [Command::RedeliverPaced { order, .. }] if order.stop_after == Some(7)),
        "{both:?}"
    );
}

#[test]
fn an_endpoint_that_goes_is_paused_with_a_key_and_continues_with_another() {
    let mut paced = endpoint("https://slow.example/hook", EndpointState::Available);
    let order = PaceOrder {
        rate: Some(5),
        ..PaceOrder::default()
    };
    paced.endpoint.pace = Some(Pace::new(order, None, Timestamp::from_seconds(0)));
    let mut stage = stage(snapshot(1, queues(1), vec![paced.clone()]));
    let wish = |commands: &[Command]| match commands {
        [Command::PaceEndpoint { wish, .. }] => wish.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(wish(&stage.plan("3 P")), PaceWish::Pause);
    stage.play("Esc");
    assert_eq!(wish(&stage.plan("F")), PaceWish::Go(order));
    let changed = stage.plan("t 9 Enter");
    assert!(
        matches!(wish(&changed), PaceWish::Go(PaceOrder { rate: Some(9), .. })),
        "{changed:?}"
    );
    stage.play("Esc");
    // What no key turned stays: where a ramp begins, and how long its steps are.
    let ramp = Ramp {
        from: 7,
        factor: 3,
        every_s: 60,
    };
    let slow_start = PaceOrder {
        rate: Some(100),
        ramp: Some(ramp),
        ends_at_rate: true,
        ..PaceOrder::default()
    };
    let mut ramped = paced.clone();
    ramped.endpoint.pace = Some(Pace::new(slow_start, None, Timestamp::from_seconds(0)));
    let mut other = super::fixture::stage(snapshot(1, queues(1), vec![ramped]));
    other.plan("3 F");
    let stopping = PaceOrder {
        stop_after: Some(9),
        ..slow_start
    };
    assert_eq!(wish(&other.plan("s 9 Enter")), PaceWish::Go(stopping));
    let faster = PaceOrder {
        rate: Some(50),
        ramp: Some(Ramp { factor: 2, ..ramp }),
        ends_at_rate: false,
        ..stopping
    };
    other.plan("m 2 Enter");
    assert_eq!(wish(&other.plan("t 5 0 Enter")), PaceWish::Go(faster));
    stage.play("U");
    assert_eq!(stage.toasts(), ["resume: this endpoint is not paused"]);
    let brake = PaceChange::Brake {
        by: "ana".to_owned(),
        reason: None,
    };
    let pace = pace::after(paced.endpoint.pace.as_ref(), &brake, Timestamp::from_seconds(9));
    paced.endpoint.pace = pace.unwrap();
    let mut stage = super::fixture::stage(snapshot(1, queues(1), vec![paced]));
    assert_eq!(wish(&stage.plan("3 U")), PaceWish::Resume);
}

#[test]
fn the_script_of_a_bad_night_redelivers_what_is_marked() {
    let mut stage = stage(incident());
    let effects = stage.play("3 j Space /mail Enter R");
    let (_, commands) = planned(&effects);
    assert_eq!(commands, redeliver(&["https://shop.example/orders"]));
    let scope = &dialog(&stage).scope;
    assert_eq!(
        (scope.kind, scope.shown, scope.hidden, scope.gone),
        (ScopeKind::Marked, 0, 1, 0)
    );
}

#[test]
fn a_queue_is_redelivered_through_its_endpoint_and_the_dialog_says_so() {
    let mut stage = stage(incident());
    let commands = stage.plan("2 /orders Enter * R");
    assert_eq!(commands, redeliver(&["https://shop.example/orders"]));
    let dialog = dialog(&stage);
    assert_eq!((dialog.scope.shown, dialog.planning.targets()), (2, 1));
    assert_eq!(
        dialog.scope.note,
        Some("acts on the endpoint: all queues of the URL continue")
    );
}

#[test]
fn redeliver_all_shown_leaves_out_what_moves() {
    let mut stage = stage(incident());
    let commands = stage.plan("3 A");
    assert_eq!(
        commands,
        redeliver(&["https://mail.example/in", "https://shop.example/orders"])
    );
    let scope = &dialog(&stage).scope;
    assert_eq!((scope.kind, scope.shown, scope.skipped), (ScopeKind::Filtered, 2, 1));
    assert_eq!(scope.skipped_because.as_deref(), Some("it is not stuck"));
}

#[test]
fn marks_whose_rows_are_gone_are_counted_and_not_acted_on() {
    let mut stage = stage(incident());
    stage.play("3 *");
    let rows = vec![endpoint("https://mail.example/in", EndpointState::Parked)];
    stage.event(Event::Snapshot(snapshot(2, Vec::new(), rows).into()));
    assert_eq!(stage.plan("R"), redeliver(&["https://mail.example/in"]));
    assert_eq!(dialog(&stage).scope.gone, 2);
}

#[test]
fn what_was_pointed_at_does_not_move_with_a_refresh() {
    let mut stage = stage(incident());
    let commands = stage.plan("2 P");
    assert_eq!(commands, [Command::PauseQueue(queue_name("dlv.mail.a"))]);
    let rows = vec![queue("dlv.worse", None, QueueState::Quarantined, 1)];
    stage.event(Event::Snapshot(snapshot(2, rows, Vec::new()).into()));
    let (_, plans) = confirmed(&stage.play("+400 y"));
    assert_eq!(plans[0].command, commands[0]);
}

#[test]
fn more_than_one_request_takes_are_refused_with_the_number() {
    let count = COMMANDS_MAX + 1;
    let mut stage = stage(snapshot(1, queues(count), Vec::new()));
    assert!(stage.play("2 * P").is_empty());
    let expected = format!("pause: {count} are too many for one go: at most {COMMANDS_MAX}; filter or mark fewer");
    assert_eq!(stage.toasts(), [expected.as_str()]);
    assert_eq!(stage.plan("R").len(), 1, "one endpoint is one target");
}

#[test]
fn cancel_is_in_front() {
    for keys in ["Enter", "Esc", "n", "q", "Ctrl+c"] {
        let mut stage = stage(incident());
        stage.plan("2 R");
        assert!(stage.play(&format!("+1000 {keys}")).is_empty(), "{keys}");
        assert!(!is_open(&stage) && stage.state.commands.tasks.is_empty(), "{keys}");
    }
}

#[test]
fn plans_that_come_after_the_dialog_was_closed_are_dropped() {
    let mut stage = stage(incident());
    let (request, commands) = planned(&stage.play("2 R"));
    stage.play("Esc");
    let plans = commands.iter().map(plan).collect();
    stage.event(Event::Planned {
        request,
        result: Ok(plans),
    });
    assert!(!is_open(&stage));
    assert!(stage.play("+1000 y").is_empty());
}

#[test]
fn a_dialog_takes_no_answer_before_it_is_armed() {
    let mut stage = stage(incident());
    stage.plan("2 R");
    assert_eq!(stage.state.wake_at(), Some(stage.now.plus(ARMED_AFTER)));
    assert!(stage.play("y y +100").is_empty());
    assert!(stage.play("y").iter().any(is_execution));
}

#[test]
fn repeats_bursts_and_the_opening_key_confirm_nothing() {
    let mut stage = stage(incident());
    stage.plan("2 R");
    assert!(stage.play("+1000 ~y ~y R ~R").is_empty());
    // Somebody pastes, and the terminal does not say so.
    assert!(stage.play("x !x !x !x !y").is_empty());
    assert!(is_open(&stage));
    assert!(stage.play("y").iter().any(is_execution));
}

#[test]
fn repeats_and_bursts_ask_for_nothing() {
    let mut stage = stage(incident());
    stage.play("2");
    assert!(stage.play("~R").is_empty() && !is_open(&stage));
    assert!(stage.play("j !j !j !j !R").is_empty() && !is_open(&stage));
}

#[test]
fn losing_the_focus_closes_the_dialog() {
    let mut stage = stage(incident());
    stage.plan("2 R");
    stage.event(Event::Focus(false));
    assert!(!is_open(&stage));
    stage.event(Event::Focus(true));
    assert!(stage.play("+1000 y").is_empty());
}

#[test]
fn from_eleven_targets_on_their_number_is_typed() {
    let rows = (0..11).map(|number| endpoint(&format!("https://e{number:02}.example/"), EndpointState::Parked));
    let mut stage = stage(snapshot(1, Vec::new(), rows.collect()));
    stage.plan("3 A");
    let expected = Friction::Type {
        what: "number of endpoints",
        word: "11".to_owned(),
    };
    assert_eq!(dialog(&stage).friction, expected);
    assert!(stage.play("+1000 y Backspace 1 2 Enter").is_empty());
    assert_eq!(
        dialog(&stage).refused.as_deref(),
        Some("this is not the number of endpoints; Esc leaves everything as it is")
    );
    stage.play("3");
    assert_eq!(dialog(&stage).refused, None, "the next key goes on");
    stage.event(Event::Paste("11".to_owned()));
    assert_eq!(
        dialog(&stage).refused.as_deref(),
        Some("pasted text is not taken here: type it")
    );
    stage.play("Backspace");
    assert!(stage.play("Backspace ~1 Enter").is_empty());
    assert!(stage.play("1 Enter").iter().any(is_execution));
}

#[test]
fn an_empty_answer_to_what_is_typed_is_cancel() {
    let rows = (0..11).map(|number| endpoint(&format!("https://e{number:02}.example/"), EndpointState::Parked));
    let mut stage = stage(snapshot(1, Vec::new(), rows.collect()));
    stage.plan("3 A");
    assert!(stage.play("+1000 Enter").is_empty());
    assert!(!is_open(&stage));
}

#[test]
fn where_messages_are_lost_the_name_is_typed() {
    let mut stage = stage(incident());
    let (request, commands) = planned(&stage.play("2 P"));
    let mut plans: Vec<_> = commands.iter().map(plan).collect();
    plans[0].danger = Danger::Destroys;
    stage.event(Event::Planned {
        request,
        result: Ok(plans),
    });
    assert!(stage.play("+1000 y Backspace 'dlv.mail Enter").is_empty());
    assert!(stage.play("'.a Enter").iter().any(is_execution));
}

#[test]
fn what_cannot_be_planned_says_why_and_is_in_the_log() {
    let mut stage = stage(incident());
    let (request, _) = planned(&stage.play("2 R"));
    stage.event(Event::Planned {
        request,
        result: Err("endpoint is gone\u{1b}[2J".to_owned()),
    });
    assert!(!is_open(&stage) && stage.state.commands.tasks.is_empty());
    assert_eq!(stage.toasts(), ["redeliver: endpoint is gone\\x1b[2J"]);
    assert_eq!(stage.log(), ["redeliver: endpoint is gone\\x1b[2J"]);
}

#[test]
fn the_end_is_one_sentence_with_the_numbers_and_a_new_look() {
    let mut stage = stage(incident());
    stage.plan("3 A");
    let effects = stage.play("+400 y");
    let effects = stage.execute(&effects, &[]);
    assert!(matches!(effects.as_slice(), [Effect::Refresh]));
    assert_eq!(stage.toasts(), ["redelivered 2 endpoints: 40 queues continue"]);
    assert!(stage.state.commands.tasks.is_empty());
}

#[test]
fn what_was_refused_is_counted_and_each_is_in_the_log() {
    let mut stage = stage(incident());
    stage.play("2 /depth_>_3 Enter *");
    assert_eq!(stage.plan("P").len(), 3);
    let effects = stage.play("+400 y");
    assert!(
        stage.state.lists.queues.marks.ids.is_empty(),
        "the marks have done their work"
    );
    stage.execute(&effects, &[(1, "the plan is stale")]);
    assert_eq!(stage.toasts(), ["pause: 2 of 3 done, 1 refused: the plan is stale"]);
    let log = stage.log();
    assert_eq!(log[0], "pause: 2 of 3 done, 1 refused: the plan is stale");
    assert_eq!(log[1], "pause dlv.unknown refused: the plan is stale");
    assert_eq!(stage.state.said.toasts[0].tone, Tone::Warning);
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut stage = stage(incident());
    stage.play("2 /depth_>_3 Enter *");
    stage.plan("P");
    let (request, _) = confirmed(&stage.play("+400 y"));
    for item in [0, 0, 7, 0] {
        let result = Err("no".to_owned());
        assert!(stage.event(Event::Executed { request, item, result }).is_empty());
    }
    assert_eq!(stage.state.commands.tasks[0].ended, Some((0, 1)));
}

#[test]
fn toasts_go_by_themselves() {
    let mut stage = stage(incident());
    stage.play("2 U");
    let until = stage.state.said.toasts[0].until;
    assert!(stage.state.wake_at().is_some_and(|at| at <= until));
    stage.now = until.plus(Duration::from_millis(1));
    stage.event(Event::Tick);
    assert!(stage.toasts().is_empty());
}

#[test]
fn a_queue_that_waits_for_its_paused_endpoint_is_resumed_by_the_key_that_its_sentence_names() {
    let why = format!(
        "nothing is sent to its URL: continue with {} (paused by ana)",
        pace::ENDPOINT_RESUME
    );
    let held = QueueRow::from(QueueFacts {
        url: Some(Arc::new(url("https://shop.example/orders"))),
        ready: Some(3),
        state: Some(QueueState::Paused),
        why: Some(Arc::new(why)),
        ..QueueFacts::unknown(queue_name("dlv.held"), QueueKind::Delivery)
    });
    let moving = queue("dlv.moving", Some("https://stock.example/"), QueueState::RateLimited, 3);
    let mut stage = stage(snapshot(1, vec![held, moving], Vec::new()));
    let commands = stage.plan("2 /held Enter U");
    let resumes = Command::PaceEndpoint {
        url: url("https://shop.example/orders"),
        wish: PaceWish::Resume,
    };
    assert_eq!(commands, [resumes]);
    assert_eq!(
        dialog(&stage).scope.note,
        Some("acts on the endpoint: all queues of the URL continue")
    );
    stage.play("Esc");
    assert!(
        !stage
            .play("/moving Enter U")
            .iter()
            .any(|effect| matches!(effect, Effect::Plan { .. }))
    );
}

#[test]
fn knobs_of_a_pace_that_stays_say_so_until_one_is_turned() {
    let order = PaceOrder {
        rate: Some(50),
        ..PaceOrder::default()
    };
    let mut row = endpoint("https://shop.example/orders", EndpointState::Parked);
    row.endpoint.pace = Some(Pace::new(order, Some("ana".to_owned()), Timestamp::from_seconds(0)));
    let other = endpoint("https://mail.example/in", EndpointState::Parked);
    let mut stage = stage(snapshot(1, Vec::new(), vec![row, other]));
    let stays = |stage: &Stage, knob| dialog(stage).pace.as_ref().unwrap().is_as_it_is(knob);
    stage.plan("3 /orders Enter R");
    assert!(stays(&stage, Knob::Rate) && stays(&stage, Knob::Stop));
    stage.plan("s 4 Enter");
    assert!(stays(&stage, Knob::Rate) && !stays(&stage, Knob::Stop));
    stage.plan("t 9 Enter");
    assert!(!stays(&stage, Knob::Rate));
    stage.play("Esc");
    stage.plan("/in Enter R");
    assert!(!stays(&stage, Knob::Rate), "nobody set a pace for that one");
}
