//! Changes of many events: by ids, or of everything that a filter finds. More than one plan can name become a run.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::Command;
use crate::engine::events::{EventCommand, EventSelection};
use crate::wire::event::{self as wire, EventsChanged};
use crate::wire::plan::{Asked, OneOf};
use crate::wire::problem::Problem;
use crate::wire::run::Run;

use super::Shared;
use super::act::{Acted, Options, act};
use super::extract::{Input, Params};
use super::guard::Caller;

/// Which, when, and why.
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EventsOrder")]
pub(super) struct Many {
    /// These, by their ids.
    #[serde(default)]
    ids: Vec<i64>,
    /// All that match.
    filter: Option<String>,
    /// Messages a second, at most.
    rate: Option<u32>,
    /// For rescheduling: when they are due, as RFC 3339 or seconds since 1970.
    at: Option<serde_json::Value>,
    /// Why; for the audit.
    reason: Option<String>,
}

impl Many {
    fn selection(&mut self) -> Result<EventSelection, Problem> {
        let ids = std::mem::take(&mut self.ids);
        match (self.filter.take(), self.rate) {
            (Some(filter), None) if ids.is_empty() => Ok(EventSelection::Filter(filter)),
            (Some(filter), Some(rate)) if ids.is_empty() => Ok(EventSelection::Paced(filter, rate)),
            (None, None) if !ids.is_empty() => Ok(EventSelection::Ids(ids)),
            (None, Some(_)) => Err(Problem::field(
                "rate",
                "rate is given without filter: give filter too, or leave rate out",
            )),
            _ => Err(Problem::field(
                "ids",
                "it is not said which events are meant: give exactly one of ids and filter",
            )),
        }
    }

    fn has_no_time(&self) -> Result<(), Problem> {
        let why = "at is only for rescheduling: leave it out, or use /v1/events/reschedule. Nothing was done";
        self.at.as_ref().map_or(Ok(()), |_| Err(Problem::field("at", why)))
    }
}

macro_rules! many {
    ($name:ident, $command:expr) => {
        pub(super) async fn $name(
            State(shared): State<Arc<Shared>>,
            Extension(caller): Extension<Caller>,
            Params(mut options): Params<Options>,
            Input(mut many): Input<Many>,
        ) -> Result<Acted<OneOf<EventsChanged, Run>>, Problem> {
            options.reason = many.reason.take().or(options.reason);
            let selection = many.selection()?;
            let command: fn(EventSelection, &Many) -> Result<EventCommand, Problem> = $command;
            let command = command(selection, &many)?;
            act(
                &shared,
                &caller,
                options,
                Command::Events(command),
                Asked::Several,
            )
            .await
        }
    };
}

many!(retry, |selection, many| {
    many.has_no_time()?;
    Ok(EventCommand::Retry(selection))
});
many!(cancel, |selection, many| {
    many.has_no_time()?;
    Ok(EventCommand::Cancel(selection))
});
many!(reschedule, |selection, many| {
    let at = wire::due_json("at", many.at.as_ref())?;
    Ok(EventCommand::Reschedule(selection, at))
});
