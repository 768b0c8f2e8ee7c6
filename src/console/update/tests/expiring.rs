//! Queues that expire.

use std::time::Duration;

use super::Stage;
use super::fixture::{START, incident, queue_name, stage, stage_with};
use crate::console::state::Mode;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::state::feed::{Batch, Fed};
use crate::console::views::{LostSoon, lost_soon};
use crate::domain::expiry::Extends;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::engine::expiring::{ExpiringOrder, ExpiringQueue, Keep, SaveCause, SaveRecord, SaveState, Which};
use crate::engine::{Access, Command};

fn queue(name: &str, left: Option<u64>, messages: u64) -> ExpiringQueue {
    ExpiringQueue {
        name: queue_name(name),
        kind: QueueKind::Job,
        ttl: Some(Duration::from_hours(48)),
        idle: None,
        expires_at: left.map(at),
        estimated: true,
        consumers: Some(u64::from(left.is_none())),
        messages: Some(messages),
        unused_since: None,
        bytes: None,
        over: false,
        extends: Extends::Redeclare,
        seen_at: START,
    }
}

fn at(left: u64) -> Timestamp {
    START.plus(Duration::from_secs(left))
}

pub(super) fn queues() -> Vec<ExpiringQueue> {
    vec![
        queue("jobs.1.result", Some(7_200), 3),
        queue("jobs.2.result", Some(600), 2),
        queue("jobs.3.status", Some(60), 0),
        queue("jobs.4.progress", None, 5),
        queue("jobs.5.result", Some(900), 1),
    ]
}

fn shown() -> Stage {
    let mut stage = stage(incident());
    stage.play("-");
    let batch = Batch {
        rows: std::sync::Arc::new(queues().into_iter().map(std::sync::Arc::new).collect()),
        more: false,
        progress: None,
        lacks: None,
    };
    stage.event(Event::Fed(Fed {
        query: stage.state.feed().unwrap().asked.clone().unwrap().0,
        taken_at: stage.now,
        rows: Ok(batch.into()),
    }));
    stage
}

#[test]
fn what_is_lost_first_stands_first_and_what_is_empty_behind_it() {
    let stage = shown();
    let names: Vec<&str> = stage
        .state
        .lists
        .expiring
        .queues
        .table
        .shown_rows()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "jobs.2.result",
            "jobs.5.result",
            "jobs.1.result",
            "jobs.3.status",
            "jobs.4.progress"
        ]
    );
}

#[test]
fn the_hour_that_comes_is_counted_without_what_is_empty_or_used() {
    let mut stage = shown();
    let lost = LostSoon {
        messages: 3,
        queues: 2,
        first_at: at(600),
    };
    assert_eq!(lost_soon(&stage.state), Some(lost));
    stage.now = at(601);
    stage.event(Event::Tick);
    let later = LostSoon {
        messages: 1,
        queues: 1,
        first_at: at(900),
    };
    assert_eq!(
        lost_soon(&stage.state),
        Some(later),
        "what is gone is not lost any more"
    );
}

pub(super) fn saves() -> Vec<SaveRecord> {
    let save = |number: u32, state, left| SaveRecord {
        id: format!("s{number}"),
        queue: queue_name("jobs.9.result"),
        arguments: "{}".to_owned(),
        cause: SaveCause::Asked,
        state,
        actor: "ana".to_owned(),
        reason: None,
        messages: 3,
        bytes: 30,
        left,
        at: START,
        until: at(9_000),
    };
    vec![save(2, SaveState::Kept, 3), save(1, SaveState::Restored, 0)]
}

fn asked_of(stage: &mut Stage, script: &str) -> ExpiringOrder {
    let commands = stage.plan(script);
    let [Command::Expiring(order)] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    order.clone()
}

fn queues_of(names: &[&str]) -> Which {
    Which::Queues(names.iter().map(|name| queue_name(name)).collect())
}

#[test]
fn the_selected_queue_is_saved_extended_or_purged_softly() {
    let mut stage = shown();
    assert_eq!(
        asked_of(&mut stage, "V"),
        ExpiringOrder::Save(queues_of(&["jobs.2.result"]))
    );
    let which = queues_of(&["jobs.2.result"]);
    let extend = ExpiringOrder::Extend { which, lifetime: None };
    assert_eq!(asked_of(&mut stage, "Esc E"), extend);
    let purge = ExpiringOrder::Purge {
        which: queues_of(&["jobs.2.result"]),
        keep: Keep::Saved,
    };
    assert_eq!(asked_of(&mut stage, "Esc X"), purge);
}

#[test]
fn what_cannot_be_done_with_a_queue_is_said_and_left_out_of_the_marked() {
    let mut stage = shown();
    stage.play("G V");
    assert!(
        stage
            .toasts()
            .iter()
            .any(|toast| toast.contains("somebody consumes it")),
        "{:?}",
        stage.toasts()
    );
    stage.play("k V A R");
    for why in ["nothing is in it", "nothing has outlived", "w shows what was saved"] {
        assert!(
            stage.toasts().iter().any(|toast| toast.contains(why)),
            "{why}: {:?}",
            stage.toasts()
        );
    }
    assert_eq!(
        asked_of(&mut stage, "g * V"),
        ExpiringOrder::Save(queues_of(&["jobs.2.result", "jobs.5.result", "jobs.1.result"]))
    );
    let Mode::Dialog(dialog) = &stage.state.input.mode else {
        panic!("a confirmation is open");
    };
    assert_eq!((dialog.scope.shown, dialog.scope.skipped), (3, 2));
}

#[test]
fn what_was_saved_is_listed_beside_the_queues_and_restored_from_there() {
    let mut stage = shown();
    let effects = stage.play("w");
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Feed(query) => Some(query.clone()),
        _ => None,
    });
    let query = asked.unwrap();
    assert_eq!(
        (query.source.name, query.limit),
        ("saves", Some(crate::console::state::feed::PAGE))
    );
    stage.event(Event::Fed(super::feeds::fed(query, stage.now, true)));
    let restore = ExpiringOrder::Restore {
        saves: vec!["s2".to_owned()],
        to: None,
    };
    assert_eq!(asked_of(&mut stage, "R"), restore);
    stage.play("Esc Down R V");
    for why in ["restored already", "this is what was saved"] {
        assert!(
            stage.toasts().iter().any(|toast| toast.contains(why)),
            "{why}: {:?}",
            stage.toasts()
        );
    }
    stage.play("Esc");
    assert!(!stage.state.lists.expiring.shows_saves);
}

#[test]
fn read_only_refuses_every_action_on_expiring_queues() {
    let mut stage = stage_with(Access::ReadOnly, incident());
    let effects = stage.play("- V E X A R");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Plan { .. })));
    assert!(
        stage.toasts().iter().all(|toast| toast.contains("read-only")),
        "{:?}",
        stage.toasts()
    );
}
