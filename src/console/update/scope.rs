//! What an action is about: the selected row, the marked rows, or all that the filter shows, frozen
//! into ids at the moment of the key.

use std::collections::HashSet;
use std::hash::Hash;

use super::State;
use super::say::counted;
use crate::console::state::action::{Possible, Reason, require};
use crate::console::state::detail::Subject;
use crate::console::state::dialog::{Asked, COMMANDS_MAX, Scope, ScopeKind};
use crate::console::state::pointed::{Pointed, Reach, Rows, queue_row};
use crate::console::table::{List, Marking};
use crate::domain::url::EndpointUrl;
use crate::engine::Command;
use crate::engine::snapshot::QueueRow;

/// What an action does with the rows that it is about; `T` is what it acts on at a row.
pub(in crate::console) struct Aim<T> {
    pub(in crate::console) reach: Reach,
    /// What it acts on at this row, or why it does not apply.
    pub(in crate::console) target: fn(Pointed<'_>) -> Result<T, Reason>,
    pub(in crate::console) commands: fn(&State, Vec<T>) -> Vec<Command>,
    /// What the targets do not say by themselves, for the first row.
    pub(in crate::console) note: fn(&Pointed<'_>) -> Option<&'static str>,
}

impl<T: Clone + Eq + Hash> Aim<T> {
    pub(in crate::console) const fn new(
        reach: Reach,
        target: fn(Pointed<'_>) -> Result<T, Reason>,
        commands: fn(&State, Vec<T>) -> Vec<Command>,
    ) -> Self {
        Self {
            reach,
            target,
            commands,
            note: |_| None,
        }
    }

    /// Whether it is possible where the operator is; looks at one row at most.
    pub(in crate::console) fn possible(&self, state: &State) -> Possible {
        match self.kind(state) {
            ScopeKind::Marked if self.reach == Reach::OneRow => Err("one queue at a time: u clears the marks".into()),
            ScopeKind::One => (self.target)(selected(state).ok_or("nothing is selected")?).map(drop),
            ScopeKind::Marked => Ok(()),
            ScopeKind::Filtered if !state.nav.details.is_empty() => Err("a detail is open: Esc closes it".into()),
            ScopeKind::Filtered => require(state.list().is_some_and(|list| !list.is_empty()), "the list is empty"),
        }
    }

    /// Freezes what it is about.
    pub(in crate::console) fn freeze(&self, state: &State) -> Result<Asked, Reason> {
        let kind = self.kind(state);
        let screen = state.nav.view.screen();
        let rows = match kind {
            ScopeKind::One => Rows::one(selected(state).ok_or("nothing is selected")?),
            ScopeKind::Marked => screen.rows(state, Reach::Rows),
            ScopeKind::Filtered => screen.rows(state, Reach::Shown),
        };
        let note = rows.shown.first().or(rows.hidden.first()).and_then(self.note);
        let mut scope = Scope {
            gone: rows.gone,
            ..Scope::of(kind, 0, note)
        };
        let mut targets = Vec::new();
        let mut seen = HashSet::new();
        let shown = rows.shown.into_iter().map(|row| (row, true));
        for (row, is_shown) in shown.chain(rows.hidden.into_iter().map(|row| (row, false))) {
            match (self.target)(row) {
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
            commands: (self.commands)(state, targets),
        })
    }

    fn kind(&self, state: &State) -> ScopeKind {
        if self.reach == Reach::Shown {
            ScopeKind::Filtered
        } else if state.nav.details.is_empty() && state.list().is_some_and(Marking::is_marked) {
            ScopeKind::Marked
        } else {
            ScopeKind::One
        }
    }
}

impl Scope {
    /// What the list in front has of this kind.
    pub(in crate::console) fn of_list(state: &State, kind: ScopeKind, note: Option<&'static str>) -> Self {
        let marks = state.list().map(Marking::mark_counts).unwrap_or_default();
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

/// The row that is pointed at: that of the open detail, else the selected one.
pub(in crate::console) fn selected(state: &State) -> Option<Pointed<'_>> {
    match state.nav.details.last() {
        Some(detail) => Some(of_subject(state, &detail.subject)),
        None => state.nav.view.screen().rows(state, Reach::OneRow).shown.pop(),
    }
}

fn of_subject<'a>(state: &'a State, subject: &'a Subject) -> Pointed<'a> {
    let row = match subject {
        Subject::Queue(name) => queue_row(state, name).map(|row| match told_url(state, row) {
            Some(url) => Pointed::Opened(row, url),
            None => Pointed::Queue(row),
        }),
        Subject::Endpoint(url) => {
            let rows = state.data.snapshot.as_ref().map(|snapshot| &snapshot.endpoints);
            let row = rows.and_then(|rows| rows.iter().find(|row| row.endpoint.url == *url));
            row.map(|row| Pointed::Endpoint(row))
        }
        Subject::Policy(scope) => {
            let mut rows = state.lists.policies.table.rows.iter();
            rows.find(|row| row.scope == *scope).map(|row| Pointed::Policy(row))
        }
        Subject::Run(id) => {
            let open = state
                .nav
                .details
                .last()
                .and_then(|detail| detail.run())
                .map(|run| &run.run);
            let listed = state.lists.runs.table.rows.iter().map(|row| &**row);
            let run = open.filter(|run| run.record.id == *id);
            run.or_else(|| listed.into_iter().find(|row| row.record.id == *id))
                .map(Pointed::Run)
        }
        Subject::Letter(_) | Subject::Compared(_) | Subject::Event(_) | Subject::EventType(_) => None,
    };
    row.unwrap_or(Pointed::Subject(subject))
}

/// The URL that the open detail knows and the row does not.
fn told_url<'a>(state: &'a State, row: &QueueRow) -> Option<&'a EndpointUrl> {
    let answer = state
        .nav
        .details
        .last()?
        .answer
        .as_ref()
        .filter(|_| row.url.is_none())?;
    let queue = answer.queue.as_ref()?.as_ref().ok()?;
    let endpoint = answer.endpoint.as_ref().and_then(|endpoint| endpoint.as_ref().ok());
    queue.url.as_ref().or(endpoint.map(|endpoint| &endpoint.endpoint.url))
}
