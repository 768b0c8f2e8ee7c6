//! What every view says while something could not be read: never that there is none, that all is well, or that it is
//! live.

use std::sync::Arc;
use std::time::Duration;

use redrive::internals::console::actions::action;
use redrive::internals::console::state::dialog::Friction;
use redrive::internals::console::state::{Mode, View};
use redrive::internals::console::{Event, Theme};
use redrive::internals::engine::dead::DeadSum;
use redrive::internals::engine::snapshot::{Part, Silent, Snapshot};

use super::fixture::{Player, before, day, plans};
use super::screens::text;

const REASON: &str = "nobody answers there";

fn never_read() -> Part {
    Part {
        problem: Some(REASON.to_owned()),
        taken_at: None,
    }
}

/// The console in a view, whose own question is answered with the reason.
fn shown(snapshot: Snapshot, view: View) -> String {
    let mut player = Player::connected()
        .event(Event::Snapshot(Arc::new(snapshot)))
        .sized(120, 40);
    player.state.nav.view = view;
    player = player.later(Duration::from_millis(1));
    if player.state.feed().is_some_and(|feed| feed.asked.is_some()) {
        player = player.fed_with(Err(REASON.to_owned()), None);
    }
    player.state.said.toasts.clear();
    text(&player.paint(&Theme::default()))
}

#[test]
fn no_view_says_that_there_is_none_or_that_all_is_well_over_what_was_never_read() {
    for view in View::ALL {
        let screen = shown(
            Snapshot {
                broker: never_read(),
                store: never_read(),
                totals: redrive::internals::engine::snapshot::Totals::default(),
                incarnations: Arc::default(),
                ..day::empty()
            },
            view,
        );
        assert!(screen.contains(REASON), "{view:?}:\n{screen}");
        let lies = [
            "There are no",
            "There is no",
            "● live",
            "✓",
            " none ",
            "Nothing",
            "NOBODY",
            "obody delivers",
            "0 delivery queues",
        ];
        // The log is this console's own.
        let read = |lie: &&str| view != View::Log || *lie == "● live";
        for lie in lies.into_iter().filter(read) {
            assert!(!screen.contains(lie), "{view:?} says {lie:?}:\n{screen}");
        }
    }
}

#[test]
fn each_view_says_why_for_each_source_that_it_reads() {
    for view in View::ALL {
        for source in view.reads() {
            let mut snapshot = day::empty();
            match *source {
                "broker" => snapshot.broker = never_read(),
                "store" => snapshot.store = never_read(),
                other => panic!("{view:?} reads {other:?}, which no snapshot has"),
            }
            let screen = shown(snapshot, view);
            assert!(screen.contains(REASON), "{view:?} without its {source}:\n{screen}");
            assert!(!screen.contains("● live"), "{view:?} without its {source}:\n{screen}");
        }
    }
}

#[test]
fn nothing_is_called_stuck_or_not_where_one_of_its_sources_is_not_read() {
    let well = shown(day::empty(), View::Overview);
    assert!(well.contains("✓ Nothing is stuck") && well.contains("● live"), "{well}");
    let mut cuts: Vec<(&str, Snapshot)> = Vec::new();
    let stale = || Part {
        problem: Some(REASON.to_owned()),
        taken_at: Some(before(34)),
    };
    cuts.push((
        "broker",
        Snapshot {
            broker: stale(),
            ..day::empty()
        },
    ));
    cuts.push((
        "store",
        Snapshot {
            store: stale(),
            ..day::empty()
        },
    ));
    let mut dead = day::empty();
    dead.dead_unread = Some(REASON.to_owned());
    dead.totals.dead.letters = None;
    cuts.push(("dead letters", dead));
    for (cut, snapshot) in cuts {
        let is_stale = snapshot.broker.problem.is_some() || snapshot.store.problem.is_some();
        let screen = shown(snapshot, View::Overview);
        assert!(
            screen.contains("Whether anything is stuck is not known") && screen.contains(REASON),
            "{cut}:\n{screen}"
        );
        assert!(!screen.contains('✓'), "{cut}:\n{screen}");
        assert_eq!(screen.contains("stale 34"), is_stale, "{cut}:\n{screen}");
        assert_eq!(screen.contains("● live"), !is_stale, "{cut}:\n{screen}");
    }
}

#[test]
fn dead_letters_of_all_queues_and_dead_events_are_what_is_said_first_where_nothing_else_is_wrong() {
    let mut snapshot = day::empty();
    snapshot.totals.dead = DeadSum {
        letters: Some(1_330),
        queues: 3,
        events: Some(2),
    };
    let screen = shown(snapshot, View::Overview);
    assert!(
        screen.contains("× 1,330 dead letters in 3 queues and 2 dead events wait for a person: press 5"),
        "{screen}"
    );
    assert!(screen.contains("Dead 1,330") && !screen.contains('✓'), "{screen}");
}

#[test]
fn a_banner_names_what_is_not_read_and_whether_deliveries_go_on() {
    let with = |silent, alive: bool| {
        let mut snapshot = day::empty();
        snapshot.broker.problem = Some(REASON.to_owned());
        snapshot.silent = Some(silent);
        if !alive {
            snapshot.incarnations = Arc::default();
        }
        shown(snapshot, View::Overview)
    };
    let management = with(Silent::Management, true);
    assert!(
        management.contains("! management API not read, deliveries continue") && management.contains(REASON),
        "{management}"
    );
    assert!(!management.contains("broker unreachable"), "{management}");
    let nobody = with(Silent::Management, false);
    assert!(
        nobody.contains("! management API not read") && !nobody.contains("deliveries continue"),
        "{nobody}"
    );
    let broker = with(Silent::Broker, true);
    assert!(
        broker.contains("! broker unreachable") && broker.contains("nothing is delivered until it answers"),
        "{broker}"
    );
    let vhost = with(Silent::Vhost, true);
    assert!(vhost.contains(&format!("! V makes it: {REASON}")), "{vhost}");
}

#[test]
fn the_number_of_a_headline_is_that_of_the_endpoints_that_it_names() {
    let mut snapshot = day::empty();
    snapshot.totals.waiting = Some(1_499);
    snapshot.totals.stuck = Some(401);
    snapshot.totals.down_waiting = Some(120);
    snapshot.totals.endpoints_by_state = [0, 0, 1, 3];
    let screen = shown(snapshot, View::Overview);
    assert!(
        screen.contains("1 endpoint is not available: 120 messages wait"),
        "{screen}"
    );
}

#[test]
fn whoever_ends_a_run_does_not_read_cancel_for_both_answers() {
    let mut player = plans::destroys();
    if let Mode::Dialog(dialog) = &mut player.state.input.mode {
        dialog.action = action("cancel_run");
        dialog.friction = Friction::Key('y');
    }
    let screen = text(&player.paint(&Theme::default()));
    assert!(
        screen.contains("[ Enter  do not cancel ]   y  cancel the run"),
        "{screen}"
    );
}
