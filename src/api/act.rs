//! Mutations: over HTTP the call is the confirmation, `?dry_run=true` answers with the plan.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use crate::engine::{Command, Done, Plan};
use crate::wire::plan::{self, Asked, PlanShape};
use crate::wire::problem::Problem;

use super::Shared;
use super::guard::Caller;
use super::problem::answer;

/// How a mutation is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    #[serde(default)]
    pub(super) dry_run: bool,
    #[serde(default)]
    pub(super) reason: Option<String>,
    /// For the routes about one endpoint.
    #[serde(default)]
    pub(super) url: Option<String>,
    /// For a test.
    #[serde(default)]
    pub(super) method: Option<String>,
}

/// A body that can only say why.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Because {
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// Plans and does `command`, or answers its plan.
pub(super) async fn act(
    shared: &Shared,
    caller: &Caller,
    options: Options,
    command: Command,
    asked: Asked,
) -> Result<Response, Problem> {
    match carry_out(shared, caller, options, command).await? {
        Acted::Planned(plan) => Ok(answer(StatusCode::OK, &PlanShape::from(&*plan))),
        Acted::Done(done) => Ok(answer(StatusCode::OK, &plan::done(&done, asked))),
    }
}

/// What came of it.
pub(super) enum Acted {
    Planned(Box<Plan>),
    Done(Box<Done>),
}

pub(super) async fn carry_out(
    shared: &Shared,
    caller: &Caller,
    options: Options,
    command: Command,
) -> Result<Acted, Problem> {
    // A plan changes nothing; everything else needs the grant before anything is looked at.
    let grant = if options.dry_run {
        None
    } else {
        Some(caller.grant(options.reason)?)
    };
    let engine = shared.engine()?;
    let plan = engine.plan(command).await?;
    match grant {
        None => Ok(Acted::Planned(Box::new(plan))),
        Some(grant) => Ok(Acted::Done(Box::new(engine.execute(&plan, &grant).await?))),
    }
}
