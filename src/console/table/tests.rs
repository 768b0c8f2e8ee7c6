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

fn rows() -> Arc<Vec<Arc<QueueRow>>> {
    Arc::new(vec![
        row("b", QueueState::Parked, Some(1)),
        row("a", QueueState::Empty, None),
        row("d", QueueState::Parked, Some(9)),
        row("c", QueueState::Delivering, Some(9)),
    ])
}

fn sort(column: &str, descending: bool) -> Sort {
    let column = QueueRow::COLUMNS.iter().position(|one| one.name == column).unwrap();
    Sort { column, descending }
}

/// By sorting what the filter leaves, and by what it leaves of all that was sorted before: the same.
fn arranged(filter: Option<&str>, column: &str, descending: bool) -> Vec<String> {
    let mut job = Job {
        ticket: 1,
        rows: rows(),
        taken_at: Timestamp::EPOCH,
        filter: None,
        sort: sort(column, descending),
        now: Timestamp::EPOCH,
        whole: None,
    };
    let whole = arrange(&job).whole;
    job.filter = filter.map(|text| Filter::parse(text, QUEUE_FIELDS).unwrap());
    let sorted = arrange(&job);
    job.whole = whole;
    assert_eq!(arrange(&job).order, sorted.order);
    let name = |index: &u32| sorted.rows[*index as usize].name.as_str().to_owned();
    sorted.order.iter().map(name).collect()
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
fn a_filter_takes_from_the_order_of_these_rows_by_this_column_alone() {
    let mut table: Table<QueueRow> = Table::default();
    let named = |table: &Table<QueueRow>| -> Vec<String> {
        table.shown_rows().map(|row| row.name.as_str().to_owned()).collect()
    };
    let show = |table: &mut Table<QueueRow>, rows: &Arc<Vec<Arc<QueueRow>>>| {
        assert!(
            table
                .submit(Arc::clone(rows), Timestamp::EPOCH, Timestamp::EPOCH)
                .is_none()
        );
    };
    let old = rows();
    table.layout.sort = sort("name", true);
    show(&mut table, &old);
    table.filter.write::<QueueRow>("state = parked");
    show(&mut table, &old);
    assert_eq!(named(&table), ["d", "b"]);
    table.layout.sort = sort("name", false);
    show(&mut table, &old);
    assert_eq!(named(&table), ["b", "d"]);
    let new = Arc::new(vec![row("e", QueueState::Parked, None)]);
    show(&mut table, &new);
    assert_eq!(named(&table), ["e"]);
    table.filter.write::<QueueRow>("");
    show(&mut table, &old);
    assert_eq!(named(&table), ["a", "b", "c", "d"]);
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
