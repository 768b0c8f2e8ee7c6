//! Plans that were shown over HTTP and wait for their execution: each belongs to the token that asked for it, is carried
//! out at most once, and is forgotten after ten minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ambient;
use crate::domain::time::Timestamp;
use crate::engine::{Command, Plan};
use crate::wire::problem::Problem;

/// How long a plan waits.
const LIFE: Duration = Duration::from_mins(10);
/// Plans of one token that wait; its oldest goes first, and that of no other token does.
const PLANS_MAX: usize = 64;
/// Lines of all of them together, beside those of the newest: a plan may have as many as there are rows.
const LINES_MAX: usize = 50_000;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<VecDeque<Waiting>>);

#[derive(Debug)]
struct Waiting {
    id: String,
    actor: String,
    expires_at: Timestamp,
    made_at: Timestamp,
    asked: Command,
    plan: Plan,
}

/// A plan that is to be carried out.
pub(super) struct Taken {
    /// What was asked for. The plan's own command may name the rows that were found for it.
    pub(super) asked: Command,
    pub(super) plan: Plan,
    pub(super) made_at: Timestamp,
}

/// Under which id a plan waits, and until when.
pub(super) struct Ticket {
    pub(super) id: String,
    pub(super) expires_at: Timestamp,
}

impl Plans {
    /// Keeps the plan of what `actor` asked for.
    pub(super) fn keep(&self, actor: &str, asked: Command, plan: Plan, now: Timestamp) -> Ticket {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| now < one.expires_at);
        let is_his = |one: &Waiting| one.actor == actor;
        let sizes = waiting.iter().filter(|one| is_his(one)).map(|one| one.plan.lines.len());
        let mut sizes: VecDeque<usize> = sizes.collect();
        while sizes.len() >= PLANS_MAX || sizes.iter().sum::<usize>() + plan.lines.len() > LINES_MAX {
            let (Some(_), Some(oldest)) = (sizes.pop_front(), waiting.iter().position(is_his)) else {
                break;
            };
            waiting.remove(oldest);
        }
        let id = ambient::new_id();
        let expires_at = now.plus(LIFE);
        waiting.push_back(Waiting {
            id: id.clone(),
            actor: actor.to_owned(),
            expires_at,
            made_at: now,
            asked,
            plan,
        });
        Ticket { id, expires_at }
    }

    /// Takes a plan of `actor` out, to be carried out: whoever asks again with its id does nothing twice.
    /// With `command` it has to be what was asked for.
    pub(super) fn take(
        &self,
        id: &str,
        actor: &str,
        command: Option<&Command>,
        now: Timestamp,
    ) -> Result<Taken, Problem> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| now < one.expires_at);
        let place = waiting.iter().position(|one| one.id == id && one.actor == actor);
        if let (Some(place), Some(command)) = (place, command)
            && waiting[place].asked != *command
        {
            let title = &waiting[place].plan.title;
            return Err(Problem::new(
                409,
                format!(
                    "plan {id} is to {title}, and this call asks for something else: repeat the call that it was made by"
                ),
            ));
        }
        let taken = place.and_then(|place| waiting.remove(place));
        let taken = taken.map(|one| Taken {
            asked: one.asked,
            plan: one.plan,
            made_at: one.made_at,
        });
        taken.ok_or_else(|| {
            Problem::new(
                409,
                format!(
                    "this plan does not wait here: it was carried out, is older than ten minutes, belongs to another token, \
                     was followed by {PLANS_MAX} newer ones or by larger ones of this token, or the daemon was started \
                     again. Look at `redrive audit`, and plan again"
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::PlanLine;
    use crate::engine::command::Danger;

    fn plan(lines: usize) -> Plan {
        let line = PlanLine {
            target: String::new(),
            now: String::new(),
            effect: String::new(),
        };
        Plan {
            command: Command::AdoptBroker,
            title: String::new(),
            lines: vec![line; lines],
            warnings: Vec::new(),
            messages: None,
            danger: Danger::Reversible,
            hash: String::new(),
            run: None,
            ends_reason: None,
            names: Vec::new(),
        }
    }

    #[test]
    fn the_plans_of_a_token_push_out_its_own_and_none_of_another() {
        let (plans, now) = (Plans::default(), Timestamp::from_seconds(1));
        let keep = |actor: &str, lines: usize| plans.keep(actor, Command::AdoptBroker, plan(lines), now).id;
        let is_kept = |actor: &str, id: &str| plans.take(id, actor, None, now).is_ok();
        let of_operator = keep("operator", 3);
        let of_reader: Vec<String> = (0..=PLANS_MAX).map(|_| keep("reader", 1)).collect();
        assert!(!is_kept("reader", &of_reader[0]) && is_kept("reader", &of_reader[1]));
        let large = keep("reader", LINES_MAX + 1);
        assert!(!is_kept("reader", &of_reader[PLANS_MAX]), "it goes for the large one");
        assert!(!is_kept("operator", &large) && is_kept("reader", &large));
        assert!(is_kept("operator", &of_operator));
        assert!(!is_kept("operator", &of_operator), "a plan is carried out once");
    }
}
