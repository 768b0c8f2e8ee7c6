//! What an action is about: the selected row, the marked rows, or all that the filter shows, frozen
//! into ids at the moment of the key.

use std::collections::HashSet;
use std::sync::Arc;

use super::say::counted;
use super::{State, dead, events, expiring, skip};
use crate::console::action::{ActionId, Reason};
use crate::console::detail::Subject;
use crate::console::dialog::{COMMANDS_MAX, Scope, ScopeKind};
use crate::console::state::View;
use crate::console::table::{List, Row, Table};
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueState};
use crate::domain::run::{ItemState, RunWish};
use crate::domain::url::EndpointUrl;
use crate::engine::policies::{PolicyAct, PolicyEdit, PolicyView};
use crate::engine::query::PolicyScope;
use crate::engine::runs::{Order, OrderKind, RunView, Selection};
use crate::engine::snapshot::{EndpointRow, QueueRow};
use crate::engine::view::Retry;
use crate::engine::{Command, RedeliverTarget};

/// A scope with the commands for it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) scope: Scope,
    pub(super) commands: Vec<Command>,
}

/// A row that is pointed at, whatever its list.
#[derive(Clone, Copy, Debug)]
enum Pointed<'a> {
    Queue(&'a QueueRow),
    Endpoint(&'a EndpointRow),
    /// A retry whose queue is on no list.
    Retry(&'a Retry),
    Policy(&'a PolicyView),
    Run(&'a RunView),
    /// An open queue whose row does not say where it delivers to, while its detail does.
    Opened(&'a QueueRow, &'a EndpointUrl),
    /// An open detail whose row is gone.
    Subject(&'a Subject),
}

/// What an action on a row acts on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Queue(QueueName),
    /// A queue whose head no client can read.
    Quarantined(QueueName),
    Endpoint(EndpointUrl),
    Policy(PolicyScope),
    Run(String),
}

/// Whether the action is possible where the operator is; looks at one row at most.
pub(in crate::console) fn possible(state: &State, action: ActionId) -> Result<(), Reason> {
    match kind(state, action) {
        ScopeKind::Marked if matches!(action, ActionId::Purge | ActionId::SkipHead) => {
            Err("one queue at a time: u takes the marks away".into())
        }
        ScopeKind::One => target(action, selected(state).ok_or("nothing is selected")?).map(drop),
        ScopeKind::Marked => Ok(()),
        ScopeKind::Filtered if !state.details.is_empty() => Err("a detail is open: Esc closes it".into()),
        ScopeKind::Filtered => match state.list() {
            Some(list) if !list.is_empty() => Ok(()),
            _ => Err("the list is empty".into()),
        },
    }
}

/// Freezes what the action is about.
pub(super) fn freeze(state: &State, action: ActionId) -> Result<Asked, Reason> {
    if action == ActionId::RestorePolicy {
        return restored(state);
    }
    if action == ActionId::MakeVhost {
        return Ok(Asked::one(Command::MakeVhost));
    }
    if action == ActionId::RestoreLetters {
        let order = Order::new(OrderKind::Restore, Selection::Ids(discarded(state)?));
        return Ok(Asked::one(Command::Run(order)));
    }
    if dead::is_about(action) {
        return dead::freeze(state, action);
    }
    if action.is_about_events() {
        return events::freeze(state, action);
    }
    if expiring::is_about(action) {
        return expiring::freeze(state, action);
    }
    if action == ActionId::Unsubscribe {
        return events::unsubscribe(state);
    }
    let kind = kind(state, action);
    let rows = match kind {
        ScopeKind::One => Rows::one(selected(state).ok_or("nothing is selected")?),
        ScopeKind::Marked => marked(state),
        ScopeKind::Filtered => filtered(state),
    };
    let mut scope = Scope {
        gone: rows.gone,
        ..Scope::of(kind, 0, note(action, rows.shown.first().or(rows.hidden.first())))
    };
    let mut targets = Vec::new();
    let mut seen = HashSet::new();
    let shown = rows.shown.into_iter().map(|row| (row, true));
    for (row, is_shown) in shown.chain(rows.hidden.into_iter().map(|row| (row, false))) {
        match target(action, row) {
            Ok(target) => {
                *(if is_shown { &mut scope.shown } else { &mut scope.hidden }) += 1;
                if seen.insert(target.clone()) {
                    targets.push(target);
                }
            }
            Err(why) => {
                scope.skipped += 1;
                scope.skipped_because.get_or_insert_with(|| why.into_owned());
            }
        }
    }
    check(&scope, targets.len())?;
    Ok(Asked {
        scope,
        commands: commands(state, action, targets),
    })
}

/// The version that is selected in a history.
fn restored(state: &State) -> Result<Asked, Reason> {
    let version = state.details.last().and_then(|detail| detail.selected_version());
    let version = version.ok_or("select a version in the history")?;
    Ok(Asked::one(Command::Policy(PolicyEdit {
        scope: version.scope.clone(),
        act: PolicyAct::Restore(version.version),
        expected: None,
    })))
}

impl Asked {
    /// One command about what is in front.
    pub(super) fn one(command: Command) -> Self {
        Self {
            scope: Scope::of(ScopeKind::One, 1, None),
            commands: vec![command],
        }
    }
}

impl Scope {
    /// So many, all of them on the list.
    pub(super) const fn of(kind: ScopeKind, shown: usize, note: Option<&'static str>) -> Self {
        Self {
            kind,
            shown,
            hidden: 0,
            gone: 0,
            skipped: 0,
            skipped_because: None,
            note,
        }
    }

    /// What the list in front has of this kind.
    pub(super) fn of_list(state: &State, kind: ScopeKind, note: Option<&'static str>) -> Self {
        let marks = state.list().map(List::mark_counts).unwrap_or_default();
        match kind {
            ScopeKind::One => Self::of(kind, 1, note),
            ScopeKind::Marked => Self {
                hidden: marks.hidden,
                ..Self::of(kind, marks.shown, note)
            },
            ScopeKind::Filtered => Self::of(kind, state.list().map_or(0, List::len), note),
        }
    }
}

fn check(scope: &Scope, targets: usize) -> Result<(), Reason> {
    if targets > COMMANDS_MAX {
        let limit = format!("{targets} are too many for one go: at most {COMMANDS_MAX}; filter or mark fewer");
        return Err(limit.into());
    }
    if targets > 0 {
        return Ok(());
    }
    Err(match &scope.skipped_because {
        Some(why) if scope.skipped == 1 => why.clone().into(),
        Some(why) => format!("none of {} rows: {why}", scope.skipped).into(),
        None if scope.gone > 0 => format!("{} gone since: nothing is left to act on", marks(scope.gone)).into(),
        None => "nothing is selected".into(),
    })
}

fn marks(gone: usize) -> String {
    let verb = if gone == 1 { "is" } else { "are" };
    format!(
        "{} {verb}",
        counted(u64::try_from(gone).unwrap_or(u64::MAX), "marked row")
    )
}

fn kind(state: &State, action: ActionId) -> ScopeKind {
    let marks = state.list().map(List::mark_counts).unwrap_or_default();
    if action == ActionId::RedeliverShown {
        ScopeKind::Filtered
    } else if state.details.is_empty() && marks.shown + marks.hidden + marks.gone > 0 {
        ScopeKind::Marked
    } else {
        ScopeKind::One
    }
}

fn note(action: ActionId, first: Option<&Pointed<'_>>) -> Option<&'static str> {
    let redelivers = matches!(action, ActionId::Redeliver | ActionId::RedeliverShown);
    let through_queue = matches!(first, Some(Pointed::Queue(_) | Pointed::Opened(..) | Pointed::Retry(_)));
    (redelivers && through_queue).then_some("acts on the endpoint: all queues of the URL go on")
}

fn commands(state: &State, action: ActionId, targets: Vec<Target>) -> Vec<Command> {
    if matches!(action, ActionId::Redeliver | ActionId::RedeliverShown) {
        let urls = targets.into_iter().filter_map(|target| match target {
            Target::Endpoint(url) => Some(url),
            Target::Queue(_) | Target::Quarantined(_) | Target::Policy(_) | Target::Run(_) => None,
        });
        return vec![Command::Redeliver(RedeliverTarget::Urls(urls.collect()))];
    }
    let command = |target| match target {
        Target::Queue(queue) if action == ActionId::Pause => Command::PauseQueue(queue),
        Target::Queue(queue) if action == ActionId::Purge => Command::PurgeQueue(queue),
        Target::Queue(queue) if action == ActionId::SkipHead => skip::command(state, queue),
        Target::Quarantined(queue) => Command::RescueQueue(queue),
        Target::Queue(queue) => Command::ResumeQueue(queue),
        Target::Endpoint(url) if action == ActionId::Disable => Command::DisableEndpoint(url),
        Target::Endpoint(url) => Command::TestEndpoint { url, method: None },
        Target::Policy(scope) => Command::Policy(PolicyEdit {
            scope,
            act: PolicyAct::Unset,
            expected: None,
        }),
        Target::Run(id) => Command::ChangeRun { id, wish: wish(action) },
    };
    targets.into_iter().map(command).collect()
}

/// What the action acts on at this row, or why it does not apply.
fn target(action: ActionId, row: Pointed<'_>) -> Result<Target, Reason> {
    if matches!(action, ActionId::Pause | ActionId::Resume) {
        return queue(row, action == ActionId::Resume).map(Target::Queue);
    }
    if action == ActionId::Purge {
        return emptied(row).map(Target::Queue);
    }
    if action == ActionId::SkipHead {
        return head(row);
    }
    if action == ActionId::UnsetPolicy {
        return set_policy(row).map(Target::Policy);
    }
    if matches!(action, ActionId::PauseRun | ActionId::ResumeRun | ActionId::CancelRun) {
        return run(row, wish(action)).map(Target::Run);
    }
    if action == ActionId::RedeliverShown {
        stuck(row)?;
    }
    if action == ActionId::Disable
        && matches!(row, Pointed::Endpoint(row) if row.endpoint.state == EndpointState::Disabled)
    {
        return Err("this endpoint is disabled already".into());
    }
    endpoint(row)
}

fn endpoint(row: Pointed<'_>) -> Result<Target, Reason> {
    let url = match row {
        Pointed::Queue(row) => row.url.as_deref(),
        Pointed::Endpoint(row) => Some(&row.endpoint.url),
        Pointed::Retry(retry) => retry.url.as_ref(),
        Pointed::Opened(_, url) | Pointed::Subject(Subject::Endpoint(url)) => Some(url),
        Pointed::Policy(_)
        | Pointed::Run(_)
        | Pointed::Subject(
            Subject::Queue(_)
            | Subject::Policy(_)
            | Subject::Run(_)
            | Subject::Letter(_)
            | Subject::Event(_)
            | Subject::EventType(_),
        ) => None,
    };
    match url {
        Some(url) => Ok(Target::Endpoint(url.clone())),
        None => Err("the endpoint of this queue is not known".into()),
    }
}

fn queue(row: Pointed<'_>, paused: bool) -> Result<QueueName, Reason> {
    match row {
        Pointed::Opened(row, _) => queue(Pointed::Queue(row), paused),
        Pointed::Queue(row) if row.kind != QueueKind::Delivery => Err("this is not a delivery queue".into()),
        Pointed::Queue(row) if row.paused && !paused => Err("this queue is paused already".into()),
        Pointed::Queue(row) if !row.paused && paused => Err("this queue is not paused".into()),
        Pointed::Queue(row) => Ok(row.name.clone()),
        Pointed::Retry(Retry { queue: Some(name), .. }) | Pointed::Subject(Subject::Queue(name)) => Ok(name.clone()),
        Pointed::Retry(_) => Err("its queue is not known".into()),
        Pointed::Endpoint(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => {
            Err("only a queue can be paused".into())
        }
    }
}

/// A queue whose first message holds it up.
fn head(row: Pointed<'_>) -> Result<Target, Reason> {
    match row {
        Pointed::Queue(row) | Pointed::Opened(row, _) if skip::is_unreadable(row) => {
            Ok(Target::Quarantined(row.name.clone()))
        }
        Pointed::Queue(row) | Pointed::Opened(row, _) => skip::of_queue(row).map(Target::Queue),
        Pointed::Retry(Retry { queue: Some(name), .. }) => Ok(Target::Queue(name.clone())),
        Pointed::Retry(_) => Err("its queue is not known".into()),
        Pointed::Endpoint(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => {
            Err("only a queue on the list has a first message".into())
        }
    }
}

/// A queue whose messages can be removed.
fn emptied(row: Pointed<'_>) -> Result<QueueName, Reason> {
    match row {
        Pointed::Queue(row) | Pointed::Opened(row, _) if row.depth() == Some(0) => Err("this queue is empty".into()),
        Pointed::Queue(row) | Pointed::Opened(row, _) => Ok(row.name.clone()),
        Pointed::Retry(Retry { queue: Some(name), .. }) | Pointed::Subject(Subject::Queue(name)) => Ok(name.clone()),
        Pointed::Retry(_) => Err("its queue is not known".into()),
        Pointed::Endpoint(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => {
            Err("only a queue has messages".into())
        }
    }
}

/// The policy in front, or that of the endpoint in front: what can be written.
pub(in crate::console) fn policy(state: &State) -> Result<PolicyScope, Reason> {
    let of_url = |url: &EndpointUrl| PolicyScope {
        event_type: None,
        url: Some(url.clone()),
    };
    let scope = match selected(state) {
        Some(Pointed::Policy(row)) => row.scope.clone(),
        Some(Pointed::Subject(Subject::Policy(scope))) => scope.clone(),
        Some(Pointed::Endpoint(row)) => of_url(&row.endpoint.url),
        Some(Pointed::Subject(Subject::Endpoint(url))) => of_url(url),
        Some(Pointed::Queue(_) | Pointed::Opened(..) | Pointed::Retry(_) | Pointed::Run(_) | Pointed::Subject(_))
        | None => {
            return Err("nothing is selected".into());
        }
    };
    if scope == PolicyScope::default() {
        return Err("this one is the configuration's: delivery.retry_policy".into());
    }
    Ok(scope)
}

/// A policy that can be taken away.
fn set_policy(row: Pointed<'_>) -> Result<PolicyScope, Reason> {
    match row {
        Pointed::Policy(row) if row.scope == PolicyScope::default() => {
            Err("this one is the configuration's: delivery.retry_policy".into())
        }
        Pointed::Policy(row) if row.document().is_none() => Err("no policy is set here".into()),
        Pointed::Policy(row) => Ok(row.scope.clone()),
        Pointed::Subject(Subject::Policy(scope)) => Ok(scope.clone()),
        Pointed::Queue(_)
        | Pointed::Opened(..)
        | Pointed::Endpoint(_)
        | Pointed::Retry(_)
        | Pointed::Run(_)
        | Pointed::Subject(_) => Err("this is no policy".into()),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only asked for the three of runs")]
const fn wish(action: ActionId) -> RunWish {
    match action {
        ActionId::PauseRun => RunWish::Pause,
        ActionId::ResumeRun => RunWish::Resume,
        _ => RunWish::Cancel,
    }
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
            Err(format!("a run that is {} cannot be {verb}", row.record.state.as_str()).into())
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

/// The letters that the open run took out.
pub(in crate::console) fn discarded(state: &State) -> Result<Vec<String>, Reason> {
    let run = state.details.last().and_then(|detail| detail.run());
    let run = run.ok_or("open the run that discarded them (Enter)")?;
    if run.run.record.command != OrderKind::Discard.command() {
        return Err("this run discarded nothing".into());
    }
    if run.next_after.is_some() {
        return Err("too many to name: `redrive dead restore --all`".into());
    }
    let taken = run.items.iter().filter(|item| item.item.state == ItemState::Settled);
    let ids: Vec<String> = taken.map(|item| item.item.letter.clone()).collect();
    if ids.is_empty() {
        return Err("this run has discarded nothing yet".into());
    }
    Ok(ids)
}

/// A row of a filter is acted on only when it does not move by itself.
fn stuck(row: Pointed<'_>) -> Result<(), Reason> {
    let moves = match row {
        Pointed::Queue(row) => matches!(
            row.state,
            None | Some(QueueState::Delivering | QueueState::Empty | QueueState::Ended | QueueState::RateLimited)
        ),
        Pointed::Endpoint(row) => row.endpoint.state == EndpointState::Available,
        Pointed::Opened(..) | Pointed::Retry(_) | Pointed::Policy(_) | Pointed::Run(_) | Pointed::Subject(_) => false,
    };
    if moves { Err("it is not stuck".into()) } else { Ok(()) }
}

#[derive(Default)]
struct Rows<'a> {
    shown: Vec<Pointed<'a>>,
    hidden: Vec<Pointed<'a>>,
    gone: usize,
}

impl<'a> Rows<'a> {
    fn one(row: Pointed<'a>) -> Self {
        Self {
            shown: vec![row],
            ..Self::default()
        }
    }

    fn marked<R: Row>(table: &'a Table<R>, point: impl Fn(&'a R) -> Pointed<'a>) -> Self {
        let marked = table.marked();
        let point = |row: &'a Arc<R>| point(row);
        Self {
            shown: marked.shown.into_iter().map(&point).collect(),
            hidden: marked.hidden.into_iter().map(&point).collect(),
            gone: marked.gone,
        }
    }

    fn filtered<R: Row>(table: &'a Table<R>, point: impl Fn(&'a R) -> Pointed<'a>) -> Self {
        Self {
            shown: table.shown_rows().map(|row| point(row)).collect(),
            ..Self::default()
        }
    }
}

fn marked(state: &State) -> Rows<'_> {
    match state.view {
        View::Queues => Rows::marked(&state.queues, Pointed::Queue),
        View::Endpoints => Rows::marked(&state.endpoints, Pointed::Endpoint),
        View::Retries => Rows::marked(&state.retries, |retry| of_retry(state, retry)),
        View::Policies => Rows::marked(&state.policies.table, Pointed::Policy),
        View::Runs => Rows::marked(&state.runs.table, Pointed::Run),
        View::Overview | View::Dead | View::Audit | View::Log | View::Events | View::Expiring => Rows::default(),
    }
}

fn filtered(state: &State) -> Rows<'_> {
    match state.view {
        View::Queues => Rows::filtered(&state.queues, Pointed::Queue),
        View::Endpoints => Rows::filtered(&state.endpoints, Pointed::Endpoint),
        View::Retries => Rows::filtered(&state.retries, |retry| of_retry(state, retry)),
        View::Policies => Rows::filtered(&state.policies.table, Pointed::Policy),
        View::Runs => Rows::filtered(&state.runs.table, Pointed::Run),
        View::Overview | View::Dead | View::Audit | View::Log | View::Events | View::Expiring => Rows::default(),
    }
}

fn selected(state: &State) -> Option<Pointed<'_>> {
    if let Some(detail) = state.details.last() {
        return Some(of_subject(state, &detail.subject));
    }
    match state.view {
        View::Queues => state.queues.selected_row().map(|row| Pointed::Queue(row)),
        View::Endpoints => state.endpoints.selected_row().map(|row| Pointed::Endpoint(row)),
        View::Retries => state.retries.selected_row().map(|row| of_retry(state, row)),
        View::Policies => state.policies.table.selected_row().map(|row| Pointed::Policy(row)),
        View::Runs => state.runs.table.selected_row().map(|row| Pointed::Run(row)),
        View::Overview | View::Dead | View::Audit | View::Log | View::Events | View::Expiring => None,
    }
}

fn of_subject<'a>(state: &'a State, subject: &'a Subject) -> Pointed<'a> {
    let row = match subject {
        Subject::Queue(name) => queue_row(state, name).map(|row| match told_url(state, row) {
            Some(url) => Pointed::Opened(row, url),
            None => Pointed::Queue(row),
        }),
        Subject::Endpoint(url) => {
            let rows = state.snapshot.as_ref().map(|snapshot| &snapshot.endpoints);
            let row = rows.and_then(|rows| rows.iter().find(|row| row.endpoint.url == *url));
            row.map(|row| Pointed::Endpoint(row))
        }
        Subject::Policy(scope) => {
            let mut rows = state.policies.table.rows.iter();
            rows.find(|row| row.scope == *scope).map(|row| Pointed::Policy(row))
        }
        Subject::Run(id) => {
            let open = state.details.last().and_then(|detail| detail.run()).map(|run| &run.run);
            let listed = state.runs.table.rows.iter().map(|row| &**row);
            let run = open.filter(|run| run.record.id == *id);
            run.or_else(|| listed.into_iter().find(|row| row.record.id == *id))
                .map(Pointed::Run)
        }
        Subject::Letter(_) | Subject::Event(_) | Subject::EventType(_) => None,
    };
    row.unwrap_or(Pointed::Subject(subject))
}

/// The URL that the open detail knows and the row does not.
fn told_url<'a>(state: &'a State, row: &QueueRow) -> Option<&'a EndpointUrl> {
    let answer = state.details.last()?.answer.as_ref().filter(|_| row.url.is_none())?;
    let queue = answer.queue.as_ref()?.as_ref().ok()?;
    let endpoint = answer.endpoint.as_ref().and_then(|endpoint| endpoint.as_ref().ok());
    queue.url.as_ref().or(endpoint.map(|endpoint| &endpoint.endpoint.url))
}

/// A retry is about the head of its queue, where that is on the list.
fn of_retry<'a>(state: &'a State, retry: &'a Retry) -> Pointed<'a> {
    let row = retry.queue.as_ref().and_then(|name| queue_row(state, name));
    row.map_or(Pointed::Retry(retry), Pointed::Queue)
}

/// The snapshot has its queues by name.
fn queue_row<'a>(state: &'a State, name: &QueueName) -> Option<&'a QueueRow> {
    let rows = &state.snapshot.as_ref()?.queues;
    let place = rows.binary_search_by(|row| row.name.cmp(name)).ok()?;
    rows.get(place).map(|row| &**row)
}
