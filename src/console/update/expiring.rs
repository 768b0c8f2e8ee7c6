//! Queues that go by themselves: what of them is lost soon, and what can be done about it.

use std::sync::Arc;
use std::time::Duration;

use super::State;
use super::scope::Asked;
use crate::console::action::{ActionId, Reason};
use crate::console::dialog::{Scope, ScopeKind};
use crate::console::state::View;
use crate::console::table::{List, Row, Table};
use crate::domain::expiry::Extends;
use crate::domain::queue::QueueKind;
use crate::domain::time::Timestamp;
use crate::engine::Command;
use crate::engine::expiring::{ExpiringOrder, ExpiringQueue, Keep, SaveRecord, SaveState, Which};

/// What is soon.
const SOON: Duration = Duration::from_hours(1);

/// What is lost within the hour when nobody comes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct LostSoon {
    /// Messages, as far as their number is known.
    pub(in crate::console) messages: u64,
    /// The queues that they are in.
    pub(in crate::console) queues: u64,
    /// When the first of them goes.
    pub(in crate::console) first_at: Timestamp,
}

/// What is lost within the hour; `None`: nothing, as far as it is known.
pub(in crate::console) fn lost_soon(state: &State) -> Option<LostSoon> {
    let end = state.now.plus(SOON);
    let rows = state.expiring.table.rows.iter();
    let soon = rows.filter(|row| row.messages != Some(0));
    let soon = soon.filter_map(|row| Some((row, row.expires_at?)));
    let soon = soon.filter(|(_, at)| *at > state.now && *at <= end);
    let mut lost: Option<LostSoon> = None;
    for (row, at) in soon {
        let sum = lost.get_or_insert(LostSoon {
            messages: 0,
            queues: 0,
            first_at: at,
        });
        sum.messages += row.messages.unwrap_or(0);
        sum.queues += 1;
        sum.first_at = sum.first_at.min(at);
    }
    lost
}

/// Whether the action is about queues that go by themselves.
pub(super) const fn is_about(action: ActionId) -> bool {
    matches!(
        action,
        ActionId::SaveExpiring
            | ActionId::ExtendExpiring
            | ActionId::PurgeExpiring
            | ActionId::PurgeExpired
            | ActionId::RestoreSaved
    )
}

/// Whether the action is possible where the operator is; looks at one row at most.
pub(in crate::console) fn possible(state: &State, action: ActionId) -> Result<(), Reason> {
    if state.view != View::Expiring || !state.details.is_empty() {
        return Err("a detail is open: Esc closes it".into());
    }
    let marked = state.list().is_some_and(List::is_marked);
    if action == ActionId::RestoreSaved {
        if !state.shows_saves {
            return Err("w shows what was saved: it is restored from there".into());
        }
        return match state.saves.table.selected_row() {
            _ if marked => Ok(()),
            Some(row) => restorable(row),
            None => Err("nothing is selected".into()),
        };
    }
    if state.shows_saves {
        return Err("this is what was saved: w shows the queues".into());
    }
    if action == ActionId::PurgeExpired {
        let over = state.expiring.table.rows.iter().any(|row| row.over);
        return if over {
            Ok(())
        } else {
            Err("no queue is older than it should be".into())
        };
    }
    match state.expiring.table.selected_row() {
        _ if marked => Ok(()),
        Some(row) => of_queue(action, row),
        None => Err("nothing is selected".into()),
    }
}

/// Why this cannot be done with a queue.
fn of_queue(action: ActionId, row: &ExpiringQueue) -> Result<(), Reason> {
    if action == ActionId::ExtendExpiring {
        return match &row.extends {
            Extends::Redeclare | Extends::Policy => Ok(()),
            Extends::No(why) => Err(why.clone().into()),
        };
    }
    if row.consumers.is_some_and(|consumers| consumers > 0) {
        return Err("somebody consumes it".into());
    }
    if matches!(
        row.kind,
        QueueKind::Delivery | QueueKind::DeadLetter | QueueKind::Intake | QueueKind::Wake
    ) {
        return Err("it is one of our own that live on".into());
    }
    if action == ActionId::SaveExpiring && row.messages == Some(0) {
        return Err("nothing is in it".into());
    }
    Ok(())
}

fn restorable(row: &SaveRecord) -> Result<(), Reason> {
    match row.state {
        SaveState::Kept if row.left > 0 => Ok(()),
        SaveState::Kept => Err("nothing of it is left".into()),
        SaveState::Taking => Err("it is still being saved".into()),
        SaveState::Restored => Err("it was restored already".into()),
    }
}

/// Freezes what the action is about.
pub(super) fn freeze(state: &State, action: ActionId) -> Result<Asked, Reason> {
    possible(state, action)?;
    if action == ActionId::PurgeExpired {
        let note = "every queue that is unused for longer than it should live; what is in it is saved first";
        let order = ExpiringOrder::Purge {
            which: Which::Expired,
            keep: Keep::Saved,
        };
        let mut asked = Asked::one(Command::Expiring(order));
        asked.scope.kind = ScopeKind::Filtered;
        asked.scope.shown = state.expiring.table.rows.iter().filter(|row| row.over).count();
        asked.scope.note = Some(note);
        return Ok(asked);
    }
    if action == ActionId::RestoreSaved {
        let (scope, saves) = pointed(&state.saves.table, restorable);
        let saves: Vec<String> = saves.into_iter().map(|row| row.id.clone()).collect();
        return asked(scope, ExpiringOrder::Restore { saves, to: None });
    }
    let (scope, rows) = pointed(&state.expiring.table, |row| of_queue(action, row));
    let queues = Which::Queues(rows.into_iter().map(|row| row.name.clone()).collect());
    let order = if action == ActionId::SaveExpiring {
        ExpiringOrder::Save(queues)
    } else if action == ActionId::ExtendExpiring {
        ExpiringOrder::Extend {
            which: queues,
            lifetime: None,
        }
    } else {
        ExpiringOrder::Purge {
            which: queues,
            keep: Keep::Saved,
        }
    };
    asked(scope, order)
}

fn asked(scope: Scope, order: ExpiringOrder) -> Result<Asked, Reason> {
    if scope.shown + scope.hidden == 0 {
        let why = scope.skipped_because.clone();
        return Err(why.map_or_else(|| "nothing is selected".into(), Reason::from));
    }
    Ok(Asked {
        scope,
        commands: vec![Command::Expiring(order)],
    })
}

/// The rows that are pointed at and that the action applies to; the others are counted with the reason of the first.
fn pointed<R: Row>(table: &Table<R>, applies: impl Fn(&R) -> Result<(), Reason>) -> (Scope, Vec<Arc<R>>) {
    let marks = table.marked();
    let is_marked = !table.marks.is_empty();
    let kind = if is_marked { ScopeKind::Marked } else { ScopeKind::One };
    let mut scope = Scope {
        gone: marks.gone,
        ..Scope::of(kind, 0, None)
    };
    let rows: Vec<(&Arc<R>, bool)> = if is_marked {
        let shown = marks.shown.into_iter().map(|row| (row, true));
        shown.chain(marks.hidden.into_iter().map(|row| (row, false))).collect()
    } else {
        table.selected_row().into_iter().map(|row| (row, true)).collect()
    };
    let mut chosen = Vec::new();
    for (row, is_shown) in rows {
        match applies(row) {
            Ok(()) => {
                *(if is_shown { &mut scope.shown } else { &mut scope.hidden }) += 1;
                chosen.push(Arc::clone(row));
            }
            Err(why) => {
                scope.skipped += 1;
                scope.skipped_because.get_or_insert_with(|| why.into_owned());
            }
        }
    }
    (scope, chosen)
}

/// From the queues to what was saved, and back.
pub(super) fn other_list(state: &mut State) {
    state.shows_saves = !state.shows_saves;
}
