//! What comes by itself: snapshots, freezing, what happened, connections.

use std::sync::Arc;
use std::time::Duration;

use super::Stage;
use super::feeds::run;
use super::fixture::{START, endpoint, incident, queue, queue_name, settings, snapshot, stage, url};
use crate::console::journal::Tone;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::keymap::Keymap;
use crate::console::state::{Attempts, Link, State, Work};
use crate::domain::attempt::Attempt;
use crate::domain::dead_letter::place_of;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::{Epoch, IncarnationId, NotificationId};
use crate::domain::outcome::OutcomeClass;
use crate::domain::queue::QueueState;
use crate::domain::run::{RunCounts, RunState};
use crate::engine::dead::{DeadGroup, DeadSum};
use crate::engine::query::Incarnation;
use crate::engine::runs::RunView;
use crate::engine::snapshot::{QUEUE_STATES, Silent, Snapshot};
use crate::engine::{self, Access, Command};
use crate::store::ProcessMark;

use EndpointState::{Available, Disabled, Parked, Unavailable};

fn receive(stage: &mut Stage, snapshot: Snapshot) -> Vec<Effect> {
    stage.event(Event::Snapshot(Arc::new(snapshot)))
}

fn endpoints(generation: u64, states: &[EndpointState]) -> Snapshot {
    let row = |(number, state): (usize, &EndpointState)| endpoint(&format!("https://e{number}.example/"), *state);
    snapshot(generation, Vec::new(), states.iter().enumerate().map(row).collect())
}

fn attempt(class: OutcomeClass) -> Attempt {
    Attempt {
        message_id: NotificationId::parse("m1").unwrap(),
        queue: queue_name("dlv.mail.a"),
        url: url("https://mail.example/in"),
        number: 1,
        epoch: Epoch(1),
        started_at: START,
        duration_ms: 5,
        class,
        status: None,
        error: None,
        response: None,
        counted: true,
    }
}

#[test]
fn changes_of_endpoints_are_told_and_the_first_look_tells_nothing() {
    let mut stage = stage(endpoints(1, &[Available, Unavailable, Available, Parked]));
    assert!(stage.log().is_empty());
    receive(&mut stage, endpoints(2, &[Unavailable, Available, Disabled, Parked]));
    let expected = [
        "https://e1.example/ is available again",
        "https://e2.example/ is disabled",
        "https://e0.example/ is unavailable",
    ];
    assert_eq!(stage.log(), expected);
    assert_eq!(stage.toasts().len(), 3);
    receive(&mut stage, endpoints(3, &[Unavailable, Available, Disabled, Parked]));
    assert_eq!(stage.log().len(), 3);
}

#[test]
fn many_changes_at_once_are_one_sentence() {
    let mut stage = stage(endpoints(1, &[Available; 40]));
    receive(&mut stage, endpoints(2, &[Unavailable; 40]));
    assert_eq!(stage.log(), ["40 endpoints are unavailable"]);
    assert_eq!(stage.toasts(), ["40 endpoints are unavailable"]);
    receive(&mut stage, endpoints(3, &[Parked; 40]));
    assert_eq!(stage.log()[0], "40 endpoints are parked: they wait for a person");
}

#[test]
fn of_endpoints_that_look_alike_to_who_may_only_look_none_is_told_to_change() {
    let twins = |generation, other| {
        let twin = |state| endpoint("https://a.example/?token=***", state);
        let one = endpoint("https://a.example/plain", other);
        snapshot(generation, Vec::new(), vec![twin(Parked), twin(Disabled), one])
    };
    let mut stage = stage(twins(1, Available));
    receive(&mut stage, twins(2, Unavailable));
    assert_eq!(stage.log(), ["https://a.example/plain is unavailable"]);
}

#[test]
fn a_queue_that_is_quarantined_is_told() {
    let mut stage = stage(incident());
    let rows = vec![queue("dlv.bad\u{1b}", None, QueueState::Quarantined, 1)];
    receive(&mut stage, snapshot(2, rows, Vec::new()));
    assert_eq!(stage.log(), ["queue dlv.bad\\x1b is quarantined"]);
}

#[test]
fn alarms_daemons_and_runs_are_told_when_they_begin_and_end() {
    let with = |generation, alarm: Option<&str>, daemons: &[i64], runs: Vec<RunView>| Snapshot {
        alarm: alarm.map(str::to_owned),
        incarnations: Arc::new(daemons.iter().map(|id| daemon(*id)).collect()),
        runs: Arc::new(runs),
        ..snapshot(generation, Vec::new(), Vec::new())
    };
    let mut stage = stage(with(1, None, &[1, 2], vec![run("r1", RunState::Running)]));
    assert!(stage.log().is_empty());
    let stopped = vec![run("r1", RunState::Canary)];
    receive(&mut stage, with(2, Some("memory\u{7}"), &[1], stopped.clone()));
    let asks = "run r1 (dead redrive) stopped and asks";
    assert_eq!(
        stage.log(),
        [
            asks,
            "daemon d2 on h is gone",
            "the broker takes no publishes: memory\\x07"
        ]
    );
    assert!(stage.toasts().contains(&asks), "{:?}", stage.toasts());
    receive(&mut stage, with(3, Some("memory"), &[1], stopped));
    assert_eq!(stage.log().len(), 3, "what stays is not told again");
    let effects = receive(&mut stage, with(4, None, &[1, 3], Vec::new()));
    let newest = &stage.log()[..2];
    assert_eq!(newest, ["daemon d3 on h delivers", "the broker takes publishes again"]);
    let over: Vec<&RunView> = effects.iter().filter_map(outcome).collect();
    assert_eq!(over, [&run("r1", RunState::Canary)], "what came of it is asked for");
}

fn outcome(effect: &Effect) -> Option<&RunView> {
    match effect {
        Effect::Outcome(run) => Some(run),
        _ => None,
    }
}

#[test]
fn a_run_that_is_over_says_how_much_of_it_was_not_done() {
    let mut stage = stage(incident());
    let with = |state, done, failed, skipped| {
        let mut run = run("r1", state);
        run.record.counts = RunCounts { done, failed, skipped };
        run
    };
    let of = "run r1 (dead redrive) is over";
    for (run, tone, text) in [
        (
            with(RunState::Done, 10, 0, 0),
            Tone::Good,
            format!("{of}: 10 of 10 done"),
        ),
        (
            with(RunState::Done, 0, 0, 10),
            Tone::Warning,
            format!("{of}: 0 of 10 done, 10 skipped"),
        ),
        (
            with(RunState::Done, 2, 8, 0),
            Tone::Bad,
            format!("{of}: 2 of 10 done, 8 failed"),
        ),
        (
            with(RunState::Cancelled, 4, 0, 0),
            Tone::Warning,
            format!("{of}: 4 of 10 done"),
        ),
    ] {
        stage.event(Event::Ended(Box::new(run)));
        let toast = stage.state.said.toasts.last().unwrap();
        assert_eq!((toast.tone, toast.text.as_str()), (tone, text.as_str()));
        assert_eq!(stage.log()[0], text);
    }
}

#[test]
fn a_run_that_stopped_is_said_until_somebody_looks_at_runs_or_it_goes_on() {
    let with = |generation, state| Snapshot {
        runs: Arc::new(vec![run("r1", state)]),
        ..snapshot(generation, Vec::new(), Vec::new())
    };
    let asks = "run r1 (dead redrive) stopped and asks";
    let mut stage = stage(with(1, RunState::Running));
    receive(&mut stage, with(2, RunState::Canary));
    for number in 0..8 {
        stage.play("+600000");
        let states: Vec<_> = (0..number)
            .map(|one| if one % 2 == number % 2 { Unavailable } else { Parked })
            .collect();
        let news = Snapshot {
            runs: Arc::new(vec![run("r1", RunState::Canary)]),
            ..endpoints(3 + number, &states)
        };
        receive(&mut stage, news);
        assert!(stage.toasts().contains(&asks), "{:?}", stage.toasts());
    }
    stage.play("7 +1000");
    assert!(!stage.toasts().contains(&asks), "it was seen");

    receive(&mut stage, with(20, RunState::Running));
    stage.play("1");
    receive(&mut stage, with(21, RunState::Canary));
    stage.play("+600000");
    assert!(stage.toasts().contains(&asks));
    receive(&mut stage, with(22, RunState::Running));
    stage.play("+1000");
    assert!(!stage.toasts().contains(&asks), "it continues");
}

#[test]
fn what_of_the_broker_is_away_is_named_as_that_and_not_as_all_of_it() {
    for (silent, gone, back) in [
        (
            Silent::Management,
            "the management API cannot be read: no answer",
            "the management API is read again",
        ),
        (
            Silent::Vhost,
            "the vhost does not exist: no answer",
            "the vhost is there",
        ),
        (Silent::Broker, "broker unreachable: no answer", "broker is back"),
    ] {
        let mut stage = stage(incident());
        let mut lost = snapshot(2, Vec::new(), Vec::new());
        lost.broker.problem = Some("no answer".to_owned());
        lost.silent = Some(silent);
        receive(&mut stage, lost);
        receive(&mut stage, snapshot(3, Vec::new(), Vec::new()));
        assert_eq!(stage.log(), [back, gone]);
    }
}

#[test]
fn a_missing_vhost_is_made_from_the_overview_and_one_that_is_there_is_not() {
    let mut stage = stage(snapshot(1, Vec::new(), Vec::new()));
    stage.play("1 V");
    assert_eq!(stage.toasts(), ["make the vhost: the vhost is there"]);
    let mut missing = snapshot(2, Vec::new(), Vec::new());
    missing.broker.problem = Some("vhost \"ux\" does not exist".to_owned());
    missing.silent = Some(Silent::Vhost);
    receive(&mut stage, missing);
    let effects = stage.play("1 V");
    assert!(
        matches!(effects.as_slice(), [Effect::Plan { commands, .. }] if *commands == [Command::MakeVhost]),
        "{effects:?}"
    );
}

pub(super) fn daemon(id: i64) -> Incarnation {
    Incarnation {
        id: IncarnationId(id),
        name: format!("d{id}"),
        host: "h".to_owned(),
        pid: 1,
        process: ProcessMark::default(),
        counter: 1,
        alive: true,
        delivers: true,
        take_over: Duration::from_mins(1),
        deadline: None,
        started_at: START,
        beat_at: START,
        leases: 0,
    }
}

#[test]
fn something_died_where_a_place_has_more_and_not_where_one_is_counted_again() {
    let with = |generation, places: &[(&str, u64)]| Snapshot {
        dead_places: Some(Arc::new(
            places
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        )),
        ..snapshot(generation, Vec::new(), Vec::new())
    };
    let mut stage = stage(with(1, &[("app.dlq", 9), ("store", 0)]));
    receive(&mut stage, with(2, &[("app.dlq", 12), ("store", 0)]));
    let died_at = stage.state.data.died_at;
    assert!(died_at.is_some());
    // For a while it is said to be consumed.
    receive(&mut stage, with(3, &[("store", 0)]));
    assert_eq!(stage.state.data.died_at, died_at);
    receive(&mut stage, with(4, &[("app.dlq", 12), ("store", 0)]));
    assert_eq!(stage.state.data.died_at, None, "when they died is not known");
    receive(&mut stage, with(5, &[("app.dlq", 11), ("store", 1)]));
    assert!(stage.state.data.died_at.is_some());
}

#[test]
fn broker_and_store_are_told_when_they_go_and_come_back() {
    let mut stage = stage(incident());
    let mut lost = snapshot(2, Vec::new(), Vec::new());
    lost.broker.problem = Some("broker unreachable during listing queues: connection refused".to_owned());
    receive(&mut stage, lost);
    receive(&mut stage, snapshot(3, Vec::new(), Vec::new()));
    assert_eq!(
        stage.log(),
        ["broker is back", "broker unreachable: connection refused"]
    );
}

#[test]
fn what_is_frozen_stays_while_history_and_log_go_on() {
    let mut stage = stage(endpoints(1, &[Available]));
    stage.play("3 z");
    assert!(receive(&mut stage, endpoints(2, &[Parked])).is_empty());
    assert_eq!(stage.state.data.snapshot.as_ref().unwrap().generation, 1);
    assert_eq!(stage.state.data.history.samples().len(), 2);
    assert_eq!(stage.log().len(), 1);
    stage.play("z");
    assert_eq!(stage.state.data.snapshot.as_ref().unwrap().generation, 2);
    assert_eq!(
        stage.state.lists.endpoints.selected_row().unwrap().endpoint.state,
        Parked
    );
}

#[test]
fn an_older_snapshot_and_an_empty_one_are_dropped() {
    let mut stage = stage(incident());
    receive(&mut stage, snapshot(3, Vec::new(), Vec::new()));
    receive(&mut stage, incident());
    receive(&mut stage, Snapshot::default());
    assert_eq!(stage.state.data.snapshot.as_ref().unwrap().generation, 3);
}

#[test]
fn dead_letters_are_told_and_attempts_are_counted() {
    let mut stage = stage(incident());
    stage.event(Event::Engine(engine::Event::DeadLettered {
        queue: queue_name("dlv.mail.a"),
        reason: "refused".to_owned(),
    }));
    assert_eq!(stage.log(), ["a message of dlv.mail.a was dead-lettered: refused"]);
    for class in [OutcomeClass::Delivered, OutcomeClass::Failed, OutcomeClass::Delivered] {
        stage.event(Event::Engine(engine::Event::Attempted(Box::new(attempt(class)))));
    }
    let expected = Attempts {
        delivered: 2,
        failed: 1,
    };
    assert_eq!(stage.state.data.attempts, expected);
}

#[test]
fn connecting_says_why_and_when_it_is_tried_again() {
    let mut stage = Stage::new(State::new(
        &settings(Access::Operator),
        Arc::new(Keymap::default()),
        START,
    ));
    let next_at = START.plus(Duration::from_secs(4));
    stage.event(Event::Connecting {
        problem: Some("no\u{7} route".to_owned()),
        attempt: 2,
        next_at,
    });
    let expected = Link::Connecting {
        since: START,
        problem: Some("no\\x07 route".to_owned()),
        attempt: 2,
        next_at,
    };
    assert_eq!(stage.state.data.link, expected);
    assert_eq!(stage.state.wake_at(), Some(START.plus(Duration::from_secs(1))));
    stage.event(Event::Connected);
    assert_eq!(stage.state.data.link, Link::Open);
    stage.event(Event::Delivering(true));
    assert_eq!(stage.state.session.work, Work::Delivers);
}

#[test]
fn a_quiet_console_wakes_only_to_say_that_its_data_is_old() {
    let mut stage = stage(snapshot(1, Vec::new(), Vec::new()));
    stage.now = START.plus(Duration::from_secs(2));
    stage.event(Event::Tick);
    let old_at = START.plus(Duration::from_secs(2) + stage.state.live_for());
    assert_eq!(stage.state.wake_at(), Some(old_at));
    stage.now = old_at;
    stage.event(Event::Tick);
    assert!(!stage.state.is_live());
    assert_eq!(stage.state.wake_at(), Some(old_at.plus(Duration::from_secs(1))));
}

#[test]
fn an_endpoint_that_is_back_announces_its_own_dead_letters_and_no_others() {
    let group = |place: &str, count| {
        Arc::new(DeadGroup {
            fingerprint: place.to_owned(),
            place: place.to_owned(),
            what: "status 500".to_owned(),
            count,
            first_failed_at: None,
            last_failed_at: None,
            recent: 0,
            before: 0,
        })
    };
    let back = |groups: Vec<Arc<DeadGroup>>| {
        let mut stage = stage(endpoints(1, &[Unavailable]));
        stage.state.lists.dead.groups.table.rows = Arc::new(groups);
        receive(&mut stage, endpoints(2, &[Available]));
        let mut toasts: Vec<String> = stage.toasts().into_iter().map(str::to_owned).collect();
        toasts.retain(|text| text.contains("may be redriven"));
        toasts
    };
    let url = endpoints(1, &[Unavailable]).endpoints[0].endpoint.url.clone();
    let own = place_of(&url);
    let told = back(vec![group(&own, 12), group("other.example/", 135)]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("12 dead letters of "), "{told:?}");
    assert_eq!(back(vec![group("other.example/", 135)]), Vec::<String>::new());
}

#[test]
fn an_endpoint_that_changes_again_and_again_is_one_toast_that_says_how_often() {
    let mut stage = stage(endpoints(1, &[Available]));
    for generation in 2..8 {
        let state = if generation % 2 == 0 { Unavailable } else { Available };
        receive(&mut stage, endpoints(generation, &[state]));
    }
    let toasts = stage.toasts();
    assert_eq!(toasts.len(), 1, "{toasts:?}");
    assert!(
        toasts[0].contains("available again") && toasts[0].contains("6 changes"),
        "{toasts:?}"
    );
}

#[test]
fn what_waits_for_a_free_slot_waits_for_no_person() {
    let mut snapshot = endpoints(1, &[Available]);
    let place = QUEUE_STATES
        .iter()
        .position(|state| *state == QueueState::Unowned)
        .unwrap();
    snapshot.totals.queues_by_state[place] = 4;
    // Everything was read.
    snapshot.totals.waiting = Some(0);
    snapshot.totals.dead = DeadSum {
        letters: Some(0),
        queues: 0,
        events: Some(0),
    };
    let stage = stage(snapshot);
    let (said, _) = crate::console::views::headline::of(&stage.state);
    assert!(said.contains("4 queues wait for a free worker or slot"), "{said}");
}
