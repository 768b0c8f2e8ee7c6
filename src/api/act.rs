//! Mutations: over HTTP the call is the confirmation; `?dry_run=true` answers with the plan, and the same call with
//! `?plan=ID` carries out that plan and nothing else.

use std::collections::HashMap;
use std::marker::PhantomData;

use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::engine::{Caution, Command, Done, Engine, EngineError, query};
use crate::wire::plan::{self, Asked, PlanShape, Waiting};
use crate::wire::problem::Problem;
use crate::wire::time;

use super::Shared;
use super::guard::Caller;
use super::plans::{Taken, Ticket};
use super::problem::{Json, Or};

/// Changes, and what others did, that a refusal names.
const TOLD_MAX: usize = 3;
/// Lines of the audit that are looked through for it.
const AUDIT_LOOKED: u32 = 50;

/// How a mutation is asked for.
#[derive(Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Answer the plan, and change nothing.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// Why; for the audit.
    #[serde(default)]
    pub(super) reason: Option<String>,
    /// Carry out the plan that waits under this id.
    #[serde(default)]
    pub(super) plan: Option<String>,
}

/// A body that can only say why.
#[derive(Debug, Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Because {
    /// Why; for the audit.
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// What came of a command, described by `T`; with `dry_run` its plan.
pub(super) struct Acted<T>(Or<Json<Waiting>, Json<Value>>, PhantomData<fn() -> T>);

impl<T> IntoResponse for Acted<T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

/// Plans and does `command`, or answers its plan.
pub(super) async fn act<T>(
    shared: &Shared,
    caller: &Caller,
    options: Options,
    command: Command,
    asked: Asked,
) -> Result<Acted<T>, Problem> {
    let answer = match carry_out(shared, caller, options, command).await? {
        CameOf::Planned(plan) => Or::One(Json(*plan)),
        CameOf::Done(done) => Or::Other(Json(plan::done(&done, asked))),
    };
    Ok(Acted(answer, PhantomData))
}

/// What came of it.
pub(super) enum CameOf {
    Planned(Box<Waiting>),
    Done(Box<Done>),
}

pub(super) async fn carry_out(
    shared: &Shared,
    caller: &Caller,
    options: Options,
    command: Command,
) -> Result<CameOf, Problem> {
    // A plan changes nothing; everything else needs the grant before anything is looked at.
    let grant = if options.dry_run {
        None
    } else {
        Some(caller.grant(options.reason)?)
    };
    let engine = shared.engine()?;
    let now = shared.clock.now();
    let Some(grant) = grant else {
        let plan = engine.plan(command.clone()).await?;
        let shape = PlanShape::of(&plan, Caution::Usual);
        let ticket = shared.plans.keep(caller.actor(), command, plan, now);
        return Ok(CameOf::Planned(Box::new(waiting(shape, &ticket))));
    };
    let Some(id) = options.plan else {
        let plan = engine.plan(command).await?;
        return Ok(CameOf::Done(Box::new(engine.execute(&plan, &grant).await?)));
    };
    let taken = shared.plans.take(&id, caller.actor(), Some(&command), now)?;
    match engine.execute(&taken.plan, &grant).await {
        Ok(done) => Ok(CameOf::Done(Box::new(done))),
        Err(error @ EngineError::Refused { .. }) => Err(stale(engine, &taken, &error).await),
        Err(error) => Err(error.into()),
    }
}

fn waiting(plan: PlanShape, ticket: &Ticket) -> Waiting {
    Waiting {
        plan,
        plan_id: ticket.id.clone(),
        expires_at: time(ticket.expires_at),
    }
}

/// The refusal of a plan, with what is different now and who was at work meanwhile.
async fn stale(engine: &Engine, taken: &Taken, error: &EngineError) -> Problem {
    let mut told = vec![error.to_string()];
    if let Ok(present) = engine.plan(taken.asked.clone()).await {
        let before: HashMap<&str, &str> = taken
            .plan
            .lines
            .iter()
            .map(|line| (&*line.target, &*line.now))
            .collect();
        let changed = present
            .lines
            .iter()
            .filter(|line| before.get(&*line.target) != Some(&&*line.now));
        told.extend(changed.take(TOLD_MAX).map(|line| match before.get(&*line.target) {
            Some(was) => format!("{} was {was:?} and is {:?}", line.target, line.now),
            None => format!("{} was not there and is {:?}", line.target, line.now),
        }));
    }
    let newest = query::Audit {
        before: None,
        limit: AUDIT_LOOKED,
    };
    if let Ok(page) = engine.query(newest).await {
        let meanwhile = page
            .items
            .iter()
            .filter(|entry| entry.at >= taken.made_at && entry.entry.result == "done");
        told.extend(meanwhile.take(TOLD_MAX).map(|entry| {
            format!(
                "{} did {} on {}",
                entry.entry.actor, entry.entry.command, entry.entry.target
            )
        }));
    }
    Problem::new(409, told.join("; "))
}
