//! Queues that go by themselves.

use std::time::Duration;

use super::Stage;
use super::fixture::{START, incident, queue_name, stage};
use crate::console::event::Event;
use crate::console::feed::{Batch, Fed, FedRows, FeedQuery};
use crate::console::update::expiring::{LostSoon, lost_soon};
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::engine::expiring::ExpiringQueue;

fn queue(name: &str, left: Option<u64>, messages: u64) -> ExpiringQueue {
    ExpiringQueue {
        name: queue_name(name),
        kind: QueueKind::Job,
        ttl: Some(Duration::from_hours(48)),
        idle: None,
        expires_at: left.map(|left| at(left)),
        estimated: true,
        consumers: Some(u64::from(left.is_none())),
        messages: Some(messages),
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
    };
    stage.event(Event::Fed(Fed {
        query: FeedQuery::Expiring,
        taken_at: stage.now,
        rows: Ok(FedRows::Expiring(batch)),
    }));
    stage
}

#[test]
fn what_is_lost_first_stands_first_and_what_is_empty_behind_it() {
    let stage = shown();
    let names: Vec<&str> = stage
        .state
        .expiring
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
    assert_eq!(lost_soon(&stage.state), Some(later), "what is gone is not lost any more");
}
