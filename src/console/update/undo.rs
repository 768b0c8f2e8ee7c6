//! What was done last, and whether it can be taken back: said in a plain word where it cannot.

use super::State;
use crate::console::state::action::{Possible, Reason};
use crate::console::state::dialog::{Asked, Last, Scope, ScopeKind, Task};
use crate::domain::run::RunWish;
use crate::engine::policies::{PolicyAct, PolicyEdit};
use crate::engine::query::PolicyScope;
use crate::engine::runs::OrderKind;
use crate::engine::{Command, RedeliverTarget};

/// Whether the last action can be undone.
pub(in crate::console) fn possible(state: &State) -> Possible {
    match &state.commands.last {
        None => Err("nothing was done here yet".into()),
        Some(Last { back: Err(why) }) => Err((*why).into()),
        Some(Last { back: Ok(_) }) => Ok(()),
    }
}

/// The commands that take it back.
pub(in crate::console) fn freeze(state: &State) -> Result<Asked, Reason> {
    let Some(Last { back: Ok(commands) }) = &state.commands.last else {
        return Err("nothing can be undone".into());
    };
    Ok(Asked {
        scope: Scope::of(ScopeKind::One, commands.len(), Some("undoes what was done here last")),
        commands: commands.clone(),
    })
}

/// Notes what a task did; what failed needs no undoing.
pub(super) fn note(state: &mut State, task: &Task) {
    let done = task.report.done.iter().filter_map(|item| task.commands.get(*item));
    let done: Vec<&Command> = done.collect();
    if done.is_empty() {
        return;
    }
    let back: Result<Vec<Command>, &'static str> = done.into_iter().map(inverse).collect();
    state.commands.last = Some(Last { back });
}

fn inverse(command: &Command) -> Result<Command, &'static str> {
    match command {
        Command::PauseQueue(queue) => Ok(Command::ResumeQueue(queue.clone())),
        Command::ResumeQueue(queue) => Ok(Command::PauseQueue(queue.clone())),
        Command::DisableEndpoint(url) => Ok(Command::Redeliver(RedeliverTarget::Urls(vec![url.clone()]))),
        Command::ChangeRun { id, wish } => {
            let wish = match wish {
                RunWish::Pause => RunWish::Resume,
                RunWish::Resume => RunWish::Pause,
                RunWish::Cancel => return Err("a run that was cancelled stays so: plan it anew"),
            };
            Ok(Command::ChangeRun { id: id.clone(), wish })
        }
        Command::Redeliver(_) => {
            Err("what was sent is sent: P pauses a queue, D disables the endpoint for what still waits")
        }
        Command::TestEndpoint { .. } => Err("a test request changed nothing"),
        Command::PurgeQueue(_) | Command::DeleteQueue(_) => Err("messages that were removed are lost"),
        Command::RescueQueue(_) => Err("the message that was taken out stays in the store"),
        Command::MakeVhost => Err("the vhost stays: `rabbitmqctl delete_vhost` removes it with all that is in it"),
        Command::AdoptBroker => Err("the other store takes it back with `redrive store adopt`"),
        // What was newest when it was planned; before the first one there was the default.
        Command::Policy(edit) => match edit.expected {
            Some(0) => Ok(policy(&edit.scope, PolicyAct::Unset)),
            Some(version) => Ok(policy(&edit.scope, PolicyAct::Restore(version))),
            None => Err("H opens the versions of the policy, R there restores one"),
        },
        Command::Run(order) if order.kind == OrderKind::Skip => {
            Err("the message is a dead letter now: R sends it back from there")
        }
        Command::Run(_) => Err("open its run in Runs: R restores what was discarded, X stops what is not sent yet"),
        Command::EditDead { .. } => Err("E writes the payload again; the run's journal has the one from before"),
        Command::Expiring(_) => Err("saved messages are in the store: `redrive expiring restore` puts them back"),
        Command::Events(_) => Err("what was done with events is not taken back from here"),
    }
}

fn policy(scope: &PolicyScope, act: PolicyAct) -> Command {
    Command::Policy(PolicyEdit {
        scope: scope.clone(),
        act,
        expected: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::url::EndpointUrl;

    #[test]
    fn a_policy_goes_back_to_the_version_before_and_the_first_one_to_the_default() {
        let url = EndpointUrl::parse("https://stock.example/changed").unwrap();
        let scope = PolicyScope {
            url: Some(url),
            event_type: None,
        };
        let undone = |expected| {
            let set = PolicyEdit {
                scope: scope.clone(),
                act: PolicyAct::Set("{}".to_owned()),
                expected,
            };
            inverse(&Command::Policy(set))
        };
        assert_eq!(undone(Some(0)), Ok(policy(&scope, PolicyAct::Unset)));
        assert_eq!(undone(Some(3)), Ok(policy(&scope, PolicyAct::Restore(3))));
    }
}
