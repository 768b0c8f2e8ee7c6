//! What the next shift has to know, as it is printed and answered.

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{Handover, HandoverPart};

use super::dead::{Group, Total};
use super::endpoint::Endpoint;
use super::queue::Queue;
use super::record::Audit;
use super::run::Run;
use super::{Time, Unread, time, unread};

/// Everything that is told.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Handover")]
pub struct Shift {
    /// What was done since then is told.
    pub since: Option<Time>,
    /// When it was read.
    pub taken_at: Option<Time>,
    /// Endpoints that are not available, are paused, or wait for a person after their canary.
    pub endpoints: Part<Endpoint>,
    /// Queues that do not move.
    pub queues: Part<Queue>,
    /// How many dead letters there are in all; `null`: not read.
    pub dead: Option<Total>,
    /// The largest groups of dead letters.
    pub dead_groups: Part<Group>,
    /// Runs that have not ended.
    pub runs: Part<Run>,
    /// What was done.
    pub audit: Part<Audit>,
    /// What could not be read of all that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

/// What one heading tells, `null` where it could not be read.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Part<T> {
    /// Its rows.
    pub items: Option<Vec<T>>,
    /// What it lacks.
    #[serde(skip)]
    pub unread: Vec<Unread>,
}

impl<T, V> From<&HandoverPart<V>> for Part<T>
where
    T: for<'a> From<&'a V>,
{
    fn from(part: &HandoverPart<V>) -> Self {
        Self {
            items: part.items.as_ref().map(|items| items.iter().map(T::from).collect()),
            unread: unread(&part.unread),
        }
    }
}

impl From<&Handover> for Shift {
    fn from(handover: &Handover) -> Self {
        Self {
            since: time(handover.since),
            taken_at: time(handover.taken_at),
            endpoints: Part::from(&handover.endpoints),
            queues: Part::from(&handover.queues),
            dead: handover.dead.map(Total::from),
            dead_groups: Part::from(&handover.dead_groups),
            runs: Part::from(&handover.runs),
            audit: Part::from(&handover.audit),
            problems: unread(&handover.problems()),
        }
    }
}
