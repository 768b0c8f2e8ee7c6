//! Actions on runs.

use super::report::changed;
use crate::console::state::action::{Action, Also, Context, Reason, named};
use crate::console::state::detail::Subject;
use crate::console::state::dialog::Asked;
use crate::console::state::pointed::{Pointed, Reach};
use crate::console::state::{State, View};
use crate::console::update::scope::Aim;
use crate::domain::run::{RunState, RunWish};
use crate::engine::Command;
use crate::engine::runs::{Order, OrderKind, Selection};

const RUNS: Context = Context::Views(&[View::Runs]);

pub(super) const ACT: &[Action] = &[
    Action::new(named::PAUSE_RUN, "pause", &["P"])
        .help("Stop the selected or marked runs after the messages in flight.")
        .changes(RUNS)
        .when(|state| PAUSE.possible(state))
        .plans(|state| PAUSE.freeze(state))
        .reports(|task| changed(task, "paused", "run"))
        .hinted(),
    Action::new(named::RESUME_RUN, "resume", &["U"])
        .help("Continue the selected or marked runs: paused ones, those that ask after their first messages, those that failed.")
        .changes(RUNS)
        .when(|state| RESUME.possible(state))
        .plans(|state| RESUME.freeze(state))
        .reports(|task| changed(task, "resumed", "run"))
        .also(&[Also::Hinted, Also::Likely(|_| true)]),
    Action::new(named::CANCEL_RUN, "cancel", &["X"])
        .help("End the selected or marked runs; what is done stays done.")
        .changes(RUNS)
        .when(|state| CANCEL.possible(state))
        .plans(|state| CANCEL.freeze(state))
        .reports(|task| changed(task, "cancelled", "run"))
        // Whoever cancels a run reads "cancel" twice otherwise, once for each answer.
        .also(&[Also::Hinted, Also::Answers("cancel the run", "do not cancel")]),
    Action::new("restore_letters", "restore", &["R"])
        .help("Put back what the open run discarded, as long as it is kept.")
        .changes(RUNS)
        .when(|state| discarded(state).map(drop))
        .plans(|state| {
            let order = Order::new(OrderKind::Restore, Selection::Run(discarded(state)?));
            Ok(Asked::one(Command::Run(order)))
        })
        .reports(|task| changed(task, "restore begun:", "run"))
        .hinted(),
];

const PAUSE: Aim<String> = Aim::new(
    Reach::Rows,
    |row| run(row, RunWish::Pause),
    |_, ids| changes(ids, RunWish::Pause),
);

const RESUME: Aim<String> = Aim::new(
    Reach::Rows,
    |row| run(row, RunWish::Resume),
    |_, ids| changes(ids, RunWish::Resume),
);

const CANCEL: Aim<String> = Aim::new(
    Reach::Rows,
    |row| run(row, RunWish::Cancel),
    |_, ids| changes(ids, RunWish::Cancel),
);

fn changes(ids: Vec<String>, wish: RunWish) -> Vec<Command> {
    ids.into_iter().map(|id| Command::ChangeRun { id, wish }).collect()
}

/// A run that can be changed like that.
fn run(row: Pointed<'_>, wish: RunWish) -> Result<String, Reason> {
    match row {
        Pointed::Run(row) if row.record.state.after(wish).is_none() => {
            let verb = match wish {
                RunWish::Pause => "paused",
                RunWish::Resume => "resumed",
                RunWish::Cancel => "cancelled",
            };
            Err(format!("a run that {} cannot be {verb}", being(row.record.state)).into())
        }
        Pointed::Run(row) => Ok(row.record.id.clone()),
        Pointed::Subject(Subject::Run(id)) => Ok(id.clone()),
        Pointed::Queue(_)
        | Pointed::Opened(..)
        | Pointed::Endpoint(_)
        | Pointed::Retry(_)
        | Pointed::Policy(_)
        | Pointed::Subject(_) => Err("this is no run".into()),
    }
}

/// How a run is, in the middle of a sentence.
const fn being(state: RunState) -> &'static str {
    match state {
        RunState::Planned => "is planned",
        RunState::Running => "is running",
        RunState::Canary => "waits for your answer",
        RunState::Paused => "is paused",
        RunState::Done => "is done",
        RunState::Failed => "has failed",
        RunState::Cancelled => "is cancelled",
    }
}

/// The open run, where it took letters out.
fn discarded(state: &State) -> Result<String, Reason> {
    let run = state.nav.details.last().and_then(|detail| detail.run());
    let run = run.ok_or("open the run that discarded them (Enter)")?;
    if run.run.record.command != OrderKind::Discard.command() {
        return Err("this run discarded nothing".into());
    }
    if run.run.record.counts.done == 0 {
        return Err("this run has discarded nothing yet".into());
    }
    Ok(run.run.record.id.clone())
}
