//! Alive, ready, metrics, and the description of all routes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde_json::Value;

use crate::engine::query;
use crate::wire::problem::Problem;
use crate::wire::record::{Alive, Part, Readiness, Ready};

use super::guard::Caller;
use super::masked::MasksItself;
use super::openapi;
use super::problem::{Json, Or, Text, text};
use super::{Opening, Shared};

/// The process answers: nothing more is said.
pub(super) async fn alive() -> Json<Alive> {
    Json(Alive { status: "alive" })
}

/// Ready, or not.
type Answered = Or<Json<Ready>, Json<Ready, 503>>;

/// 200 when the broker lets us work, the store takes writes and this process delivers, else 503; with the reason for
/// those who may look. Reads what was found last: it waits for nothing.
pub(super) async fn ready(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Result<Answered, Problem> {
    let found = readiness(&shared).await?;
    Ok(if caller.may_look() {
        answered(found.ready, Ready::Whole(Box::new(found)))
    } else {
        without_reasons(&found)
    })
}

/// The same without a reason.
pub(super) async fn ready_or_not(State(shared): State<Arc<Shared>>) -> Result<Answered, Problem> {
    Ok(without_reasons(&readiness(&shared).await?))
}

const fn without_reasons(found: &Readiness) -> Answered {
    answered(found.ready, Ready::Bare { ready: found.ready })
}

const fn answered(is_ready: bool, shape: Ready) -> Answered {
    if is_ready {
        Or::One(Json(shape))
    } else {
        Or::Other(Json(shape))
    }
}

async fn readiness(shared: &Shared) -> Result<Readiness, Problem> {
    let Ok(engine) = shared.engine() else {
        let (opening, why) = shared.backend.waiting();
        return Ok(starting(opening, &why));
    };
    let mut found = Readiness::from(&engine.query(query::IsReady()).await?);
    if shared.stop.is_cancelled() {
        found.ready = false;
        found.delivering = Part::broken("this process stops, and finishes what is in flight");
    }
    Ok(found)
}

/// Store and broker are opened one after the other.
fn starting(opening: Opening, why: &str) -> Readiness {
    let (store, broker) = match opening {
        Opening::Store => (
            Part::broken(why),
            Part::broken("the broker was not asked yet: the store is opened first"),
        ),
        Opening::Broker => (Part::fine(), Part::broken(why)),
    };
    Readiness {
        ready: false,
        broker,
        store,
        delivering: Part::broken(&format!("this process does not deliver at present: {why}")),
        management: None,
        degraded: Vec::new(),
    }
}

/// Numbers, with labels of our own.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> MasksItself<Text> {
    let numbers = text((shared.metrics)(), "text/plain; version=0.0.4; charset=utf-8");
    MasksItself(Text(numbers))
}

pub(super) async fn describe() -> Json<Value> {
    Json(openapi::document())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_is_told_as_the_part_that_it_is() {
        let found = starting(Opening::Store, "connection refused");
        assert!(!found.ready && !found.store.ok && !found.broker.ok && !found.delivering.ok);
        assert_eq!(found.store.problem.as_deref(), Some("connection refused"));
        let broker = found.broker.problem.unwrap();
        assert!(!broker.contains("refused"), "{broker}");
        let found = starting(Opening::Broker, "no such host");
        assert!(found.store.ok && !found.ready);
        assert_eq!(found.broker.problem.as_deref(), Some("no such host"));
        assert!(found.delivering.problem.unwrap().contains("no such host"));
    }
}
