//! What a task says when all of it ended well.

use crate::console::state::dialog::{Report, Task};
use crate::console::update::say::counted;

/// `paused dlv.a`, `paused 3 queues`.
pub(super) fn changed(task: &Task, verb: &str, what: &str) -> String {
    format!("{verb} {}", one_or_many(task, what))
}

/// What the only command answered, else how many there were.
pub(super) fn one_or_many(task: &Task, what: &str) -> String {
    let well = done(task);
    let last = task.report.last.as_deref().filter(|_| well == 1);
    last.map_or_else(|| counted(well, what), str::to_owned)
}

/// Commands that ended well.
fn done(task: &Task) -> u64 {
    number(task.ended.unwrap_or_default().0)
}

fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(super) fn redelivered(task: &Task) -> String {
    let report = &task.report;
    let endpoints = counted(number(report.endpoints), "endpoint");
    let queues = counted(report.queues, "queue");
    let verb = if report.queues == 1 { "continues" } else { "continue" };
    match report.paused {
        0 => format!("redelivered {endpoints}: {queues} {verb}"),
        paused if paused == report.endpoints => format!("redelivered {endpoints}: nothing is sent until U resumes"),
        paused => format!("redelivered {endpoints}: {paused} wait for U; {queues} in all"),
    }
}

pub(super) fn tested(task: &Task) -> String {
    let well = done(task);
    if well == 1 {
        return format!("test: {}", one_or_many(task, "endpoint"));
    }
    let failed = task.report.tests_failed;
    format!(
        "tested {}: {failed} did not answer with a 2xx",
        counted(well, "endpoint")
    )
}

pub(super) fn purged(task: &Task) -> String {
    match &task.report.purged {
        Some((queue, messages)) => format!("purged {queue}: {} removed", counted(*messages, "message")),
        None => changed(task, "purged", "queue"),
    }
}

/// Events that were changed, and those that were not. Many are changed by a run.
pub(super) fn events(task: &Task, verb: &str) -> String {
    if task.report.last.is_some() {
        return format!("{} begun: run {}", task.action.title, one_or_many(task, "run"));
    }
    let events = counted(number(task.report.events), "event");
    with_those_left(&task.report, format!("{verb} {events}"))
}

/// Queues that something was done with, and those that were left.
pub(super) fn queues(task: &Task, verb: &str) -> String {
    let report = &task.report;
    let (queues, messages) = (counted(report.queues, "queue"), counted(report.messages, "message"));
    with_those_left(report, format!("{verb} {queues} with {messages}"))
}

/// Dead letters that are sent otherwise from now on, and those that a patch does not apply to.
pub(super) fn edited(task: &Task) -> String {
    with_those_left(&task.report, changed(task, "edited", "dead letter"))
}

fn with_those_left(report: &Report, done: String) -> String {
    match &report.left_because {
        Some(why) => format!("{done}; {} left: {why}", report.left),
        None => done,
    }
}
