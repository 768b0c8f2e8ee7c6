//! Runs: what a person wants done with many dead letters, frozen as a plan, journalled, paced, and carried on by
//! whoever is alive (docs/architecture.md, *Life of a dead letter*; docs/protocols.md 12 and 22).
//!
//! A plan freezes its items in the store. A run takes them window by window: journal, publish with confirm, look at
//! the targets once, record, settle the sources. Each step is recorded before the next one, so that a process that
//! dies at any point leaves nothing lost, and at most one window twice.

mod aftermath;
mod belonging;
mod canary;
mod change;
mod dead_events;
mod difference;
mod discard;
mod drive;
mod edit;
mod flight;
mod head;
mod hold;
mod journal;
pub(in crate::engine) mod json_patch;
mod kept;
mod letters;
mod limited;
pub(in crate::engine) mod order;
mod others;
mod outgoing;
mod patch;
mod plan;
mod reader;
mod receivers;
mod restore;
mod source;
mod taken;
mod tend;
mod uncertain;
pub(in crate::engine) mod view;
mod window;

pub use kept::with_values_of;
pub use order::{Order, OrderKind, Selection, Via};
pub(super) use others::busy;
pub use outgoing::{REDRIVEN, RUN};
pub use view::{Edit, EditedLetter, Patch, RunDetail, RunView};

use std::sync::Arc;

pub(super) use self::change::ChangeRun;
pub(super) use self::edit::EditDead;
pub use self::json_patch::JsonPatch;
pub(super) use self::patch::PatchDead;
pub(super) use self::reader::RunReader;
use self::tend::Tending;
use super::core::{Core, over_core};
use super::dead::{DeadIndex, DeadLetters, DeadTargets};
use super::events::EventOperations;
use super::looks::LookCosts;
use super::publisher::Publisher;
use super::rules::PolicyGuard;
pub use crate::store::ItemRecord;

/// Freezes what an order selects.
#[derive(Debug)]
pub(super) struct RunPlanner {
    core: Arc<Core>,
    run_reader: Arc<RunReader>,
    looks: Arc<LookCosts>,
    dead_targets: Arc<DeadTargets>,
    dead_index: Arc<DeadIndex>,
}

/// Works on runs, and does what a person wants done with one.
#[derive(Debug)]
pub(super) struct Runs {
    core: Arc<Core>,
    pub(super) run_reader: Arc<RunReader>,
    pub(super) planner: Arc<RunPlanner>,
    looks: Arc<LookCosts>,
    dead_letters: Arc<DeadLetters>,
    dead_index: Arc<DeadIndex>,
    publisher: Arc<Publisher>,
    policy_guard: Arc<PolicyGuard>,
    events: Arc<EventOperations>,
    /// Those that this process works on.
    tending: Tending,
}

over_core!(RunPlanner, Runs);

impl RunPlanner {
    pub(super) fn new(
        core: &Arc<Core>,
        run_reader: &Arc<RunReader>,
        dead_targets: &Arc<DeadTargets>,
        dead_index: &Arc<DeadIndex>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            run_reader: Arc::clone(run_reader),
            looks: Arc::clone(&dead_targets.looks),
            dead_targets: Arc::clone(dead_targets),
            dead_index: Arc::clone(dead_index),
        }
    }
}

impl Runs {
    pub(super) fn new(
        core: &Arc<Core>,
        planner: &Arc<RunPlanner>,
        dead_letters: &Arc<DeadLetters>,
        publisher: &Arc<Publisher>,
        policy_guard: &Arc<PolicyGuard>,
        events: &Arc<EventOperations>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            run_reader: Arc::clone(&planner.run_reader),
            planner: Arc::clone(planner),
            looks: Arc::clone(&planner.looks),
            dead_letters: Arc::clone(dead_letters),
            dead_index: Arc::clone(&planner.dead_index),
            publisher: Arc::clone(publisher),
            policy_guard: Arc::clone(policy_guard),
            events: Arc::clone(events),
            tending: Tending::default(),
        }
    }
}
