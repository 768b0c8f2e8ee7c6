//! Actions on queues that expire, and on what was saved of them.

use std::sync::Arc;

use super::possible::list;
use super::report::queues;
use crate::console::state::action::{Action, Also, Context, Possible, Reason, require};
use crate::console::state::dialog::{Asked, Scope, ScopeKind};
use crate::console::state::{State, View};
use crate::console::table::{Marking, Row, Table};
use crate::domain::expiry::Extends;
use crate::domain::queue::QueueKind;
use crate::engine::Command;
use crate::engine::expiring::{ExpiringOrder, ExpiringQueue, Keep, SaveRecord, SaveState, Which};

const EXPIRING: Context = Context::Views(&[View::Expiring]);

pub(super) const ACT: &[Action] = &[
    Action::new("save_expiring", "save now", &["V"])
        .help("Move the messages of the selected or marked queues into the store before they are lost; they can be restored from there.")
        .changes(EXPIRING)
        .when(|state| on_queues(state, savable))
        .plans(|state| freeze_queues(state, savable, ExpiringOrder::Save))
        .reports(|task| queues(task, "saved"))
        .hinted(),
    Action::new("extend_expiring", "extend", &["E"])
        .help("Restart the lifetime of the selected or marked queues where that is possible; where it is not, say why.")
        .changes(EXPIRING)
        .when(|state| on_queues(state, extendable))
        .plans(|state| {
            freeze_queues(state, extendable, |which| ExpiringOrder::Extend { which, lifetime: None })
        })
        .reports(|task| queues(task, "extended"))
        .hinted(),
    Action::new("purge_expiring", "purge", &["X"])
        .help("Delete the selected or marked queues that nobody uses; what is in them is saved and can be restored for a while.")
        .changes(EXPIRING)
        .when(|state| on_queues(state, unused))
        .plans(|state| freeze_queues(state, unused, purge))
        .reports(|task| queues(task, "purged"))
        .hinted(),
    Action::new("purge_expired", "purge all expired", &["A"])
        .help("The same for every queue that is unused for longer than it should live.")
        .changes(EXPIRING)
        .when(expired)
        .plans(freeze_expired)
        .reports(|task| queues(task, "purged"))
        .also(&[Also::Hinted, Also::Wide]),
    Action::new("restore_saved", "restore", &["R"])
        .help("Put the selected or marked saves back into their queues.")
        .changes(EXPIRING)
        .when(on_saves)
        .plans(freeze_saves)
        .reports(|task| queues(task, "restored"))
        .hinted(),
];

pub(super) const LOOK: &[Action] = &[Action::new("saved_messages", "what was saved", &["w"])
    .help("What was saved from queues that expire; again: the queues.")
    .within(EXPIRING)
    .when(list)
    .turns(|state| state.lists.expiring.shows_saves = !state.lists.expiring.shows_saves)
    .hinted()];

/// Whether this applies to the selected queue; looks at one row at most.
fn on_queues(state: &State, applies: fn(&ExpiringQueue) -> Possible) -> Possible {
    queues_in_front(state)?;
    match state.lists.expiring.queues.table.selected_row() {
        _ if state.lists.expiring.queues.table.is_marked() => Ok(()),
        Some(row) => applies(row),
        None => Err("nothing is selected".into()),
    }
}

fn queues_in_front(state: &State) -> Possible {
    list_in_front(state)?;
    require(
        !state.lists.expiring.shows_saves,
        "this is what was saved: w shows the queues",
    )
}

fn list_in_front(state: &State) -> Possible {
    let in_front = state.nav.view == View::Expiring && state.nav.details.is_empty();
    require(in_front, "a detail is open: Esc closes it")
}

fn expired(state: &State) -> Possible {
    queues_in_front(state)?;
    let over = state.lists.expiring.queues.table.rows.iter().any(|row| row.over);
    require(over, "nothing has outlived its TTL")
}

fn on_saves(state: &State) -> Possible {
    list_in_front(state)?;
    require(
        state.lists.expiring.shows_saves,
        "w shows what was saved: it is restored from there",
    )?;
    match state.lists.expiring.saves.table.selected_row() {
        _ if state.lists.expiring.saves.table.is_marked() => Ok(()),
        Some(row) => restorable(row),
        None => Err("nothing is selected".into()),
    }
}

/// Its time can begin anew.
fn extendable(row: &ExpiringQueue) -> Possible {
    match &row.extends {
        Extends::Redeclare | Extends::Policy => Ok(()),
        Extends::No(why) => Err(why.clone().into()),
    }
}

/// Nobody uses it, and it is none of ours.
fn unused(row: &ExpiringQueue) -> Possible {
    let consumed = row.consumers.is_some_and(|consumers| consumers > 0);
    require(!consumed, "somebody consumes it")?;
    let lives_on = matches!(
        row.kind,
        QueueKind::Delivery | QueueKind::DeadLetter | QueueKind::Intake | QueueKind::Wake
    );
    require(!lives_on, "it is one of redrive's own queues, which do not expire")
}

fn savable(row: &ExpiringQueue) -> Possible {
    unused(row)?;
    require(row.messages != Some(0), "nothing is in it")
}

fn restorable(row: &SaveRecord) -> Possible {
    match row.state {
        SaveState::Kept if row.left > 0 => Ok(()),
        SaveState::Kept => Err("nothing of it is left".into()),
        SaveState::Taking => Err("it is still being saved".into()),
        SaveState::Restored => Err("it was restored already".into()),
    }
}

/// Freezes the queues that are pointed at and that this applies to.
fn freeze_queues(
    state: &State,
    applies: fn(&ExpiringQueue) -> Possible,
    order: fn(Which) -> ExpiringOrder,
) -> Result<Asked, Reason> {
    on_queues(state, applies)?;
    let (scope, rows) = pointed(&state.lists.expiring.queues.table, applies);
    let names = rows.into_iter().map(|row| row.name.clone()).collect();
    asked(scope, order(Which::Queues(names)))
}

fn freeze_saves(state: &State) -> Result<Asked, Reason> {
    on_saves(state)?;
    let (scope, saves) = pointed(&state.lists.expiring.saves.table, restorable);
    let saves: Vec<String> = saves.into_iter().map(|row| row.id.clone()).collect();
    asked(scope, ExpiringOrder::Restore { saves, to: None })
}

fn freeze_expired(state: &State) -> Result<Asked, Reason> {
    expired(state)?;
    let note = "every queue that is unused for longer than it should live; what is in it is saved first";
    let mut asked = Asked::one(Command::Expiring(purge(Which::Expired)));
    asked.scope.kind = ScopeKind::Filtered;
    asked.scope.shown = state
        .lists
        .expiring
        .queues
        .table
        .rows
        .iter()
        .filter(|row| row.over)
        .count();
    asked.scope.note = Some(note);
    Ok(asked)
}

const fn purge(which: Which) -> ExpiringOrder {
    ExpiringOrder::Purge {
        which,
        keep: Keep::Saved,
    }
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
fn pointed<R: Row>(table: &Table<R>, applies: impl Fn(&R) -> Possible) -> (Scope, Vec<Arc<R>>) {
    let marks = table.marked();
    let is_marked = !table.marks.ids.is_empty();
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
