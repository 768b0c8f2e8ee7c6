//! Arrangement of rows that are made for it.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::domain::queue::{QueueKind, QueueState};
use crate::engine::snapshot::{EndpointRow, QUEUE_FIELDS, QueueFacts, QueueRow};
use crate::engine::view::Retry;

fn row(name: &str, state: QueueState, ready: Option<u64>) -> Arc<QueueRow> {
    Arc::new(QueueRow::from(QueueFacts {
        ready,
        state: Some(state),
        ..QueueFacts::unknown(QueueName::parse(name).unwrap(), QueueKind::Delivery)
    }))
}

fn arranged(filter: Option<&str>, column: &str, descending: bool) -> Vec<String> {
    let rows = vec![
        row("b", QueueState::Parked, Some(1)),
        row("a", QueueState::Empty, None),
        row("d", QueueState::Parked, Some(9)),
        row("c", QueueState::Delivering, Some(9)),
    ];
    let column = QueueRow::COLUMNS.iter().position(|one| one.name == column).unwrap();
    let job = Job {
        ticket: 1,
        rows: Arc::new(rows),
        taken_at: Timestamp::EPOCH,
        filter: filter.map(|text| Filter::parse(text, QUEUE_FIELDS).unwrap()),
        sort: Sort { column, descending },
        now: Timestamp::EPOCH,
    };
    let order = arrange(&job);
    let name = |index: &u32| order.rows[*index as usize].name.as_str().to_owned();
    order.order.iter().map(name).collect()
}

#[test]
fn rows_alike_in_the_column_are_in_the_order_that_the_list_opens_with() {
    assert_eq!(arranged(None, "state", false), ["d", "b", "c", "a"]);
    assert_eq!(arranged(None, "depth", true), ["d", "c", "b", "a"]);
    assert_eq!(arranged(None, "depth", false), ["b", "d", "c", "a"]);
    assert_eq!(arranged(None, "name", true), ["d", "c", "b", "a"]);
}

#[test]
fn only_rows_that_match_are_in_the_order() {
    assert_eq!(arranged(Some("state = parked"), "state", false), ["d", "b"]);
    assert_eq!(arranged(Some("depth > 100"), "state", false), Vec::<String>::new());
}

#[test]
fn every_column_has_a_name_of_its_own() {
    fn check<R: Row>() {
        let names: HashSet<&str> = R::COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), R::COLUMNS.len());
        assert!(R::COLUMNS.iter().any(|column| column.drop_rank == 0));
    }
    check::<QueueRow>();
    check::<EndpointRow>();
    check::<Retry>();
}
