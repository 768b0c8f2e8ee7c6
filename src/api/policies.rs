//! Retry policies by `?type=`, `?url=`: show, set, unset, history, restore, preview.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::Command;
use crate::engine::policies::{PolicyAct, PolicyEdit};
use crate::engine::query;
use crate::engine::query::PolicyScope;
use crate::wire::List;
use crate::wire::plan::Asked;
use crate::wire::policy::{self, Policy, PolicyKeys, Preview, Version};
use crate::wire::problem::Problem;

use super::Shared;
use super::act::{Acted, Because, Options, act};
use super::extract::{Input, Params, RawBody};
use super::guard::Caller;
use super::problem::{Json, Or};

/// Whose policy.
#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    /// The event type.
    r#type: Option<String>,
    /// The URL that it is for.
    url: Option<String>,
}

impl Whose {
    fn scope(&self) -> Result<PolicyScope, Problem> {
        policy::scope(self.r#type.as_deref(), self.url.as_deref())
    }

    const fn is_nothing(&self) -> bool {
        self.r#type.is_none() && self.url.is_none()
    }
}

/// Whose policy, and how the change is asked for.
#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    /// The event type.
    r#type: Option<String>,
    /// The URL that it is for.
    url: Option<String>,
    /// Answer the plan, and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why; for the audit.
    reason: Option<String>,
    /// Carry out the plan of this id, and refuse where it does not fit any more.
    plan: Option<String>,
    /// Only in the place of this version. Of a restore: the version that is saved again; without it the one before the
    /// newest.
    version: Option<i64>,
}

impl Of {
    fn scope(&self) -> Result<PolicyScope, Problem> {
        policy::scope(self.r#type.as_deref(), self.url.as_deref())
    }

    fn options(&self) -> Options {
        Options {
            dry_run: self.dry_run,
            reason: self.reason.clone(),
            plan: self.plan.clone(),
        }
    }
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Params(of): Params<Whose>,
) -> Result<Or<Json<List<Policy>>, Json<Policy>>, Problem> {
    if of.is_nothing() {
        let page = shared.engine()?.query(query::Policies()).await?;
        return Ok(Or::One(Json(List::<Policy>::of(&page))));
    }
    let view = shared.engine()?.query(query::Policy(of.scope()?)).await?;
    Ok(Or::Other(Json(Policy::from(&view))))
}

pub(super) async fn history(
    State(shared): State<Arc<Shared>>,
    Params(of): Params<Whose>,
) -> Result<Json<List<Version>>, Problem> {
    let query = query::PolicyHistory(of.scope()?);
    let page = shared.engine()?.query(query).await?;
    Ok(Json(List::<Version>::of(&page)))
}

pub(super) async fn set(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(of): Params<Of>,
    body: RawBody<Option<PolicyKeys>>,
) -> Result<Acted<Policy>, Problem> {
    // With a version the change is only for what was saved as that one.
    let expected = of.version;
    change(&shared, &caller, &of, PolicyAct::Set(text(&body)?.to_owned()), expected).await
}

pub(super) async fn unset(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut of): Params<Of>,
    Input(because): Input<Because>,
) -> Result<Acted<Policy>, Problem> {
    of.reason = because.reason.or(of.reason);
    let expected = of.version;
    change(&shared, &caller, &of, PolicyAct::Unset, expected).await
}

#[derive(Default, JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RestorePolicy")]
pub(super) struct Restored {
    /// The version that is saved again; without it the one before the newest.
    version: Option<i64>,
    /// Why; for the audit.
    reason: Option<String>,
}

pub(super) async fn restore(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(mut of): Params<Of>,
    Input(asked): Input<Restored>,
) -> Result<Acted<Policy>, Problem> {
    let version = asked.version.or(of.version);
    of.reason = asked.reason.or(of.reason);
    change(&shared, &caller, &of, PolicyAct::Restore(version), None).await
}

async fn change(
    shared: &Shared,
    caller: &Caller,
    of: &Of,
    to: PolicyAct,
    expected: Option<i64>,
) -> Result<Acted<Policy>, Problem> {
    let edit = PolicyEdit {
        scope: of.scope()?,
        act: to,
        expected,
    };
    act(shared, caller, of.options(), Command::Policy(edit), Asked::One).await
}

pub(super) async fn preview(
    State(shared): State<Arc<Shared>>,
    Params(of): Params<Whose>,
    body: RawBody<Option<PolicyKeys>>,
) -> Result<Json<Preview>, Problem> {
    let query = query::PreviewPolicy {
        document: text(&body)?.to_owned(),
        scope: if of.is_nothing() { None } else { Some(of.scope()?) },
    };
    let preview = shared.engine()?.query(query).await?;
    Ok(Json(Preview::from(&preview)))
}

fn text(body: &RawBody<Option<PolicyKeys>>) -> Result<&str, Problem> {
    std::str::from_utf8(&body.bytes).map_err(|_| Problem::new(400, "the body is not UTF-8: send JSON in UTF-8"))
}
