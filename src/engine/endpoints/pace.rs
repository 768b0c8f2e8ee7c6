//! What a person changes of the pace of an endpoint while it goes: the rate, the brake, the end of its canary.

use std::sync::Arc;

use super::Endpoints;
use super::act::checked;
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::pace::{self, PaceChange, PaceOrder};
use crate::domain::queue::Pause;
use crate::domain::url::EndpointUrl;
use crate::engine::EngineError;
use crate::engine::command::{Command, Done, PaceWish, Plan, PlanLine, WriteGrant, simple};
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::store::PaceChanged;

/// How fast an endpoint goes is changed.
pub(in crate::engine) struct ChangePace<'a> {
    pub(in crate::engine) url: &'a EndpointUrl,
    pub(in crate::engine) wish: &'a PaceWish,
}

impl Operation<Endpoints> for ChangePace<'_> {
    fn about(&self) -> About {
        let wish = |wish| Command::PaceEndpoint {
            url: self.url.clone(),
            wish,
        };
        let (name, undo) = match self.wish {
            PaceWish::Go(_) => ("endpoint pace", Ok(wish(PaceWish::Release))),
            PaceWish::Pause => ("endpoint pause", Ok(wish(PaceWish::Resume))),
            PaceWish::Resume => ("endpoint resume", Ok(wish(PaceWish::Pause))),
            PaceWish::Release => (
                "endpoint pace",
                Err("what was sent is sent: `endpoint pace` limits what still waits"),
            ),
        };
        About {
            name,
            subject: Subject::Url(self.url.clone()),
            friction: Friction::Yes,
            undo,
        }
    }

    fn undo(&self, plan: &Plan) -> Result<Command, &'static str> {
        let was_free = |line: &PlanLine| line.now == in_words(None);
        match self.wish {
            PaceWish::Go(_) if !plan.lines.iter().all(was_free) => {
                Err("the endpoint had another pace before, which is not known any more: F sets one")
            }
            PaceWish::Go(_) | PaceWish::Pause | PaceWish::Resume | PaceWish::Release => self.about().undo,
        }
    }

    async fn count(&self, endpoints: &Arc<Endpoints>) -> Result<Option<u64>, EngineError> {
        endpoints.waiting_for(&[self.url]).await
    }

    async fn plan(&self, endpoints: &Arc<Endpoints>) -> Result<Plan, EngineError> {
        let view = endpoints.endpoint_view(self.url).await?;
        let endpoint = view.endpoint;
        // Who would do it is not known yet, and does not matter.
        let change = self.change(&endpoint, "", None)?;
        let after = pace::after(endpoint.pace.as_ref(), &change, endpoints.clock.now()).map_err(refused)?;
        let (title, effect) = match self.wish {
            PaceWish::Pause => ("pause", "nothing is sent to it until somebody resumes it".to_owned()),
            PaceWish::Resume => ("resume", in_words(after.as_ref())),
            PaceWish::Go(_) | PaceWish::Release => ("change the pace of", in_words(after.as_ref())),
        };
        let url = self.url.redacted();
        let mut plan = simple(format!("{title} {url}"), url, effect);
        plan.lines[0].now = in_words(endpoint.pace.as_ref());
        if matches!(self.wish, PaceWish::Resume) {
            plan.ends_reason = endpoint.paused().and_then(|brake| brake.reason.clone());
        }
        if endpoint.state == EndpointState::Unavailable {
            let why = match self.wish {
                PaceWish::Pause => "it is unavailable, and stays so until somebody resumes it: no probe is sent either",
                PaceWish::Resume if endpoint.paused().is_some() => "it is unavailable: it is probed again from now on",
                PaceWish::Resume | PaceWish::Go(_) | PaceWish::Release => {
                    "it is unavailable: this holds once it is available again"
                }
            };
            plan.warnings.push(why.to_owned());
        }
        if matches!(self.wish, PaceWish::Go(_)) && after.is_some() {
            plan.warnings.push(ends_when_empty(view.waiting));
        }
        Ok(plan)
    }

    async fn perform(&self, endpoints: &Arc<Endpoints>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let endpoint = endpoints.endpoint_view(self.url).await?.endpoint;
        let change = self.change(&endpoint, grant.actor(), grant.reason())?;
        match endpoints.store.endpoint_pace(self.url, None, &change).await? {
            PaceChanged::Done(now) => endpoints.endpoint_moved(&now),
            PaceChanged::Refused(why, _) => return Err(refused(why)),
            PaceChanged::Unknown => {
                return Err(EngineError::NotFound {
                    what: format!("endpoint {}", self.url.redacted()),
                });
            }
        }
        Ok(Done::Endpoint(Box::new(endpoints.endpoint_view(self.url).await?)))
    }
}

impl ChangePace<'_> {
    /// What the store is asked for.
    fn change(&self, endpoint: &Endpoint, by: &str, reason: Option<&str>) -> Result<PaceChange, EngineError> {
        if matches!(endpoint.state, EndpointState::Parked | EndpointState::Disabled) {
            return Err(EngineError::Refused {
                why: format!(
                    "this endpoint is {}: nothing is sent to it until somebody redelivers",
                    endpoint.state.as_str()
                ),
            });
        }
        let by = by.to_owned();
        Ok(match self.wish {
            PaceWish::Pause => PaceChange::Brake {
                by,
                reason: reason.map(ToOwned::to_owned),
            },
            PaceWish::Resume => PaceChange::Resume,
            PaceWish::Release => PaceChange::Release,
            PaceWish::Go(order) => {
                checked(order)?;
                PaceChange::Order { order: *order, by }
            }
        })
    }
}

/// Somebody who slows a receiver down takes the pace for a limit that stays.
fn ends_when_empty(waiting: Option<u64>) -> String {
    let now = match waiting {
        Some(waiting) => format!(" (now: {waiting})"),
        None => String::new(),
    };
    format!("it is over once nothing waits for it{now}; a limit that stays is max_receives_per_second in [[endpoint]]")
}

fn refused(why: &'static str) -> EngineError {
    EngineError::Refused { why: why.to_owned() }
}

/// Only what stays while nobody changes it: a plan that says how far a ramp is would be stale at once.
pub(super) fn in_words(pace: Option<&pace::Pace>) -> String {
    let Some(pace) = pace else {
        return "as fast as it goes".to_owned();
    };
    match pace.brake.as_ref().map(Pause::in_words) {
        Some(paused) if pace.order.is_none() => paused,
        Some(paused) => format!("{}; {paused}", order_in_words(pace)),
        None => order_in_words(pace),
    }
}

/// What is asked for, without a canary that is over; one that is sent says so.
fn order_in_words(pace: &pace::Pace) -> String {
    let Some(canary) = pace.order.canary else {
        return pace.order.in_words();
    };
    let rest = PaceOrder {
        canary: None,
        watch_s: None,
        ..pace.order
    };
    if pace.passed {
        return rest.in_words();
    }
    if pace.taken < canary {
        return pace.order.in_words();
    }
    let waits = match pace.order.watch_s {
        Some(watch) => format!("watched for {watch} s"),
        None => "waits for a person".to_owned(),
    };
    format!("canary of {canary} is sent: {waits}; then {}", rest.in_words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    #[test]
    fn a_canary_that_is_sent_says_what_comes_then_and_one_that_is_over_nothing() {
        let at = Timestamp::from_seconds;
        let order = PaceOrder {
            rate: Some(9),
            canary: Some(1),
            ..PaceOrder::default()
        };
        let ordered = pace::Pace::new(order, Some("ana".to_owned()), at(0));
        let after = |pace: &pace::Pace, change| pace::after(Some(pace), &change, at(1)).unwrap().unwrap();
        assert_eq!(
            in_words(Some(&ordered)),
            "the first 1, then it asks, at most 9 a second"
        );
        let sent = after(&ordered, PaceChange::Take);
        let waits = "canary of 1 is sent: waits for a person; then at most 9 a second";
        assert_eq!(in_words(Some(&sent)), waits);
        let resumed = after(&sent, PaceChange::Resume);
        assert_eq!(in_words(Some(&resumed)), "at most 9 a second");
    }
}
