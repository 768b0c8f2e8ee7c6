//! Runs: starting one, following it, and what is done to one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use crate::domain::run::{ItemState, RunCounts, RunState, RunWish};
use crate::domain::time::Timestamp;
use crate::engine::Command;
use crate::engine::query;
use crate::engine::runs::{Order, OrderKind, RunView};
use crate::wire::input;
use crate::wire::run::{Item, OrderInput, Run as RunShape, RunWithItems};

use super::Session;
use super::dead_args::{Discarded, Pace, Run, Selected, Way};
use super::delivery_args::Listed;
use super::done::{How, OfRun};
use super::exit::{Exit, Failure};
use super::output::{Column, is_quiet, note, or_dash, say, shown};
use super::paged::paged;
use crate::domain::words::{about as span, from_now};

/// Reasons that are printed of what a run missed.
const REASONS_MAX: usize = 3;

/// Plans, asks, starts, and follows it to its end.
pub(super) async fn order(
    session: &Session<'_>,
    kind: OrderKind,
    selected: &Selected,
    way: &Way,
) -> Result<Exit, Failure> {
    let input = OrderInput {
        ids: selected.ids.clone(),
        group: selected.group.clone(),
        filter: selected.filter.clone(),
        all: selected.all,
        to: way.to.clone(),
        via: way.via.clone(),
        head: way.head,
        ..paced(&selected.pace)
    };
    start(session, input.order(kind)?, selected.pace.detach).await
}

/// Puts discarded messages back.
pub(super) async fn restore(session: &Session<'_>, discarded: &Discarded) -> Result<Exit, Failure> {
    let input = OrderInput {
        ids: discarded.ids.clone(),
        run: discarded.run.clone(),
        all: discarded.all,
        ..paced(&discarded.pace)
    };
    start(session, input.order(OrderKind::Restore)?, discarded.pace.detach).await
}

fn paced(pace: &Pace) -> OrderInput {
    OrderInput {
        rate: pace.rate,
        canary: pace.canary,
        canary_watch_s: pace.canary_watch,
        ramp: pace.ramp,
        ..OrderInput::default()
    }
}

/// Starts a run and follows it, unless a daemon has it and nobody wants to wait.
pub(super) async fn start(session: &Session<'_>, order: Order, detach: bool) -> Result<Exit, Failure> {
    let how = How::ONE.run(OfRun::started(detach));
    session.act(Command::Run(order), how).await
}

pub(super) async fn follow(session: &Session<'_>, run: &RunView, detach: bool) -> Result<Exit, Failure> {
    let id = run.record.id.clone();
    if detach && session.engine.query(query::OthersDeliver()).await? {
        print(session, run)?;
        return Ok(Exit::Done);
    }
    if detach {
        note("no daemon is alive to work on it: it is worked on here");
    }
    let mut progress = Progress::new();
    let ended = session.engine.follow_run(&id, |view| progress.show(view)).await?;
    progress.end();
    print(session, &ended)?;
    tell_missed(session, &ended).await?;
    Ok(exit(ended.state(), ended.counts()))
}

/// Why a run missed what it missed: each reason once, the first few of them.
async fn tell_missed(session: &Session<'_>, run: &RunView) -> Result<(), Failure> {
    let (id, counts) = (&run.record.id, run.counts());
    let missed = counts.failed + counts.skipped;
    if missed == 0 {
        return Ok(());
    }
    let query = query::Run {
        id: id.clone(),
        after: None,
        limit: input::LIMIT_MAX,
    };
    let detail = session.engine.query(query).await?;
    let mut reasons: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for item in detail.items.iter().map(|record| &record.item) {
        match (item.state, item.reason.as_deref()) {
            (ItemState::Failed | ItemState::Skipped | ItemState::Returned, Some(why)) => {
                *reasons.entry((item.state.as_str(), why)).or_default() += 1;
            }
            (ItemState::Failed | ItemState::Skipped | ItemState::Returned, None)
            | (ItemState::Planned | ItemState::Journalled | ItemState::Published | ItemState::Settled, _) => {}
        }
    }
    // Of more items than one page has, the first are counted.
    let least = if detail.items.len() as u64 >= u64::from(input::LIMIT_MAX) {
        "at least "
    } else {
        ""
    };
    let mut told = 0;
    for ((state, why), count) in reasons.into_iter().take(REASONS_MAX) {
        say(&format!("{least}{count} {state}: {}", shown(why)));
        told += count;
    }
    if told < missed {
        say(&format!("`redrive run show {id}` has the reason of each"));
    }
    Ok(())
}

/// What the exit code says: done, partly, or not at all. What somebody else took meanwhile did not fail.
const fn exit(state: RunState, counts: RunCounts) -> Exit {
    match state {
        RunState::Done if counts.failed == 0 && counts.skipped == 0 => Exit::Done,
        RunState::Done if counts.failed == 0 => Exit::Partly,
        RunState::Canary | RunState::Paused | RunState::Running | RunState::Planned => Exit::Partly,
        RunState::Done | RunState::Failed | RunState::Cancelled if counts.done > 0 => Exit::Partly,
        RunState::Done | RunState::Failed | RunState::Cancelled => Exit::Failed,
    }
}

/// One line on standard error that is drawn again on a terminal, and now and then elsewhere.
struct Progress {
    terminal: bool,
    last: String,
    /// What it was said to wait for, without numbers: seconds that are left are no news.
    note: Option<String>,
    shown: u64,
}

impl Progress {
    fn new() -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            last: String::new(),
            note: None,
            shown: 0,
        }
    }

    fn show(&mut self, view: &RunView) {
        let run = &view.record;
        let mut line = format!("{} of {}", run.counts.settled(), run.total);
        if run.counts.failed + run.counts.skipped > 0 {
            let _ = write!(line, " ({} failed, {} skipped)", run.counts.failed, run.counts.skipped);
        }
        if let Some(eta) = view.eta {
            let _ = write!(line, ", {} to go", span(eta));
        }
        if let Some(note) = &run.note {
            let _ = write!(line, ": {}", shown(note));
        }
        if line == self.last || is_quiet() {
            return;
        }
        // On a terminal each change, elsewhere about one line in five seconds, and at once why it stands still.
        let is_news = self.is_news(run.note.as_deref());
        if self.terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        } else if is_news || self.shown.is_multiple_of(25) {
            say(&line);
        }
        self.shown += 1;
        self.last = line;
    }

    /// Whether it says something else than before.
    fn is_news(&mut self, note: Option<&str>) -> bool {
        let note = note.map(|note| note.replace(|c: char| c.is_ascii_digit(), ""));
        let is_news = note.is_some() && note != self.note;
        self.note = note.or_else(|| self.note.take());
        is_news
    }

    fn end(&self) {
        if self.terminal && !self.last.is_empty() {
            say("");
        }
    }
}

/// The run as it is now.
pub(super) fn print(session: &Session<'_>, view: &RunView) -> Result<(), Failure> {
    let run = &view.record;
    session.output.facts(
        &RunShape::from(view),
        &[
            ("run", Some(run.id.clone())),
            ("command", Some(run.command.clone())),
            ("state", Some(view.phase().to_string())),
            ("done", Some(run.counts.done.to_string())),
            ("failed", Some(run.counts.failed.to_string())),
            ("skipped", Some(run.counts.skipped.to_string())),
            (
                "restored",
                (run.restored > 0).then(|| format!("{} of them were put back", run.restored)),
            ),
            ("total", Some(run.total.to_string())),
            ("note", run.note.clone()),
            ("broker", run.broker.clone()),
        ],
    )?;
    Ok(())
}

const COLUMNS: &[Column] = &[
    Column::Text("run"),
    Column::Text("command"),
    Column::Text("state"),
    Column::Number("done"),
    Column::Number("failed"),
    Column::Number("skipped"),
    Column::Number("restored"),
    Column::Number("total"),
    Column::Text("who"),
    Column::Text("created"),
    Column::Text("note"),
];

pub(super) async fn one(session: &Session<'_>, run: &Run) -> Result<Exit, Failure> {
    let (id, wish) = match run {
        Run::List(listed) => return list(session, listed).await,
        Run::Show { id, limit } => return show(session, id, *limit).await,
        Run::Pause { id } => (id, RunWish::Pause),
        Run::Resume { id } => (id, RunWish::Resume),
        Run::Cancel { id } => (id, RunWish::Cancel),
    };
    let command = Command::ChangeRun { id: id.clone(), wish };
    session.act(command, How::ONE.run(OfRun::wished(wish))).await
}

async fn list(session: &Session<'_>, listed: &Listed) -> Result<Exit, Failure> {
    let page = |limit, before| query::Runs { before, limit };
    let list = paged(session, listed.limit, "runs", "raise --limit", page).await?;
    let rows: Vec<Row> = list.items.iter().map(|view| Row::of(view, list.taken_at)).collect();
    session.output.list(&rows, COLUMNS, |Row { shape: run, created }| {
        vec![
            run.id.clone(),
            run.command.clone(),
            run.phase.clone(),
            run.done.to_string(),
            run.failed.to_string(),
            run.skipped.to_string(),
            run.restored.to_string(),
            run.total.to_string(),
            run.actor.clone(),
            created.clone(),
            or_dash(run.note.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

/// A run, and when it was created as people say it.
#[derive(schemars::JsonSchema, serde::Serialize)]
#[serde(transparent)]
struct Row {
    shape: RunShape,
    #[serde(skip)]
    created: String,
}

impl Row {
    fn of(view: &RunView, now: Timestamp) -> Self {
        Self {
            shape: RunShape::from(view),
            created: from_now(view.record.created_at, now),
        }
    }
}

const ITEMS: &[Column] = &[
    Column::Text("id"),
    Column::Text("queue"),
    Column::Text("target"),
    Column::Text("state"),
    Column::Text("reason"),
];

async fn show(session: &Session<'_>, id: &str, limit: u32) -> Result<Exit, Failure> {
    let page = |missing: u32, after| query::Run {
        id: id.to_owned(),
        after,
        limit: missing.min(input::LIMIT_MAX),
    };
    let wanted = limit as usize;
    let mut detail = session.engine.query(page(limit, None)).await?;
    while let Some(after) = detail.next_after.filter(|_| detail.items.len() < wanted) {
        let missing = u32::try_from(wanted - detail.items.len()).unwrap_or(limit);
        let next = session.engine.query(page(missing, Some(after))).await?;
        detail.items.extend(next.items);
        detail.next_after = next.next_after;
    }
    let total = detail.run.record.total;
    if total > detail.items.len() as u64 && detail.next_after.is_some() {
        session.output.tell(&format!(
            "{} of {total} items are shown: raise --limit",
            detail.items.len()
        ));
    }
    let shape = RunWithItems::from(&detail);
    if session.output.is_json() {
        super::output::document(&shape)?;
        return Ok(Exit::Done);
    }
    print(session, &detail.run)?;
    session.output.list(&shape.items, ITEMS, |item: &Item| {
        vec![
            item.id.clone(),
            item.queue.clone(),
            or_dash(item.target.as_deref()),
            item.state.to_owned(),
            or_dash(item.reason.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_only_missed_what_somebody_else_took_did_not_fail() {
        let counts = |done, failed, skipped| RunCounts { done, failed, skipped };
        for (state, counts, expected) in [
            (RunState::Done, counts(1, 0, 0), Exit::Done),
            (RunState::Done, counts(0, 0, 1), Exit::Partly),
            (RunState::Done, counts(1, 1, 0), Exit::Partly),
            (RunState::Done, counts(0, 2, 1), Exit::Failed),
            (RunState::Cancelled, counts(0, 0, 1), Exit::Failed),
            (RunState::Failed, counts(3, 0, 0), Exit::Partly),
        ] {
            assert_eq!(exit(state, counts), expected, "{state:?} {counts:?}");
        }
    }

    #[test]
    fn why_a_run_stands_still_is_news_once_and_the_seconds_that_are_left_are_not() {
        let mut progress = Progress::new();
        let notes = [
            (None, false),
            (Some("the broker takes nothing at present"), true),
            (Some("the broker takes nothing at present"), false),
            (None, false),
            (Some("goes on in 9 s"), true),
            (Some("goes on in 8 s"), false),
        ];
        for (note, expected) in notes {
            assert_eq!(progress.is_news(note), expected, "{note:?}");
        }
    }
}
