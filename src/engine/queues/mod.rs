//! Queues: what they are and why they stand, looks into them, and what a person does to one.
//!
//! The management API away is not an error here: what it would tell is unknown, and said so.

mod act;
mod browse;
mod intakes;
mod list;
pub(super) mod listing;
mod preflight;
pub(super) mod rescued;
pub(in crate::engine) mod seen;
pub(super) mod world;

use std::sync::Arc;

pub(super) use self::act::Act;
use self::list::Taken;
use self::preflight::Preflight;
use super::core::{Core, over_core};
use super::dead::DeadTargets;
use super::delivery::Delivery;
use super::expiring::{Expiring, Saves};
use super::kept::Kept;
use super::looks::LookCosts;
use super::rules::PolicyGuard;

#[derive(Debug)]
pub(super) struct Queues {
    core: Arc<Core>,
    pub(super) expiring: Arc<Expiring>,
    saves: Arc<Saves>,
    looks: Arc<LookCosts>,
    policy_guard: Arc<PolicyGuard>,
    delivery: Arc<Delivery>,
    dead_targets: Arc<DeadTargets>,
    /// What queues were judged by last.
    last_preflight: Kept<Preflight>,
    /// Of which a page was answered, and not the last one.
    taken: Kept<Taken>,
}

over_core!(Queues);

impl Queues {
    pub(super) fn new(
        core: &Arc<Core>,
        expiring: &Arc<Expiring>,
        delivery: &Arc<Delivery>,
        dead_targets: &Arc<DeadTargets>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            expiring: Arc::clone(expiring),
            saves: Arc::clone(&expiring.saves),
            looks: Arc::clone(&dead_targets.looks),
            policy_guard: Arc::clone(&delivery.policy_guard),
            delivery: Arc::clone(delivery),
            dead_targets: Arc::clone(dead_targets),
            last_preflight: Kept::default(),
            taken: Kept::default(),
        }
    }
}
