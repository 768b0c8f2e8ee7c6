//! What a person does before a plan is carried out, the same at every front.
//!
//! It grows with what is lost, then with how much is touched: a yes; the number, where it is large; the name of the queue
//! whose messages are lost. In a protected profile a number is typed from two on. A run that asks after its first messages
//! touches no more than those until somebody has looked at them.

use super::command::{Command, Danger, Plan};
use super::operation::Friction;
use super::runs::Selection;

/// The least number that is typed.
const TYPED_FROM: u64 = 11;
/// The same in a protected profile.
const TYPED_FROM_PROTECTED: u64 = 2;

/// How careful the profile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caution {
    /// A number is typed where it is large.
    Usual,
    /// The profile is protected: a number is typed from two on.
    Protected,
}

/// What has to be done to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Say yes.
    Yes,
    /// Type this.
    Word {
        /// `number of endpoints`, `name of the queue`.
        what: &'static str,
        /// The whole of it.
        word: String,
    },
}

/// What these plans, which are carried out together, need.
#[must_use]
pub fn confirmation(plans: &[Plan], caution: Caution) -> Confirmation {
    let Some(first) = plans.first() else {
        return Confirmation::Yes;
    };
    let friction = first.command.about().friction;
    // Whether anything is in it by now is not known.
    if let (Friction::Name(queue), [_]) = (&friction, plans) {
        return by_name(queue.as_str());
    }
    let lines: Vec<_> = plans.iter().flat_map(|plan| &plan.lines).collect();
    let messages = plans.iter().map(messages).sum::<u64>();
    let destroys = plans.iter().any(|plan| plan.danger == Danger::Destroys);
    if destroys
        && friction != Friction::Events
        && let [line] = lines.as_slice()
    {
        return by_name(&line.target);
    }
    let lines = lines.len() as u64;
    let (number, what) = match friction {
        Friction::Yes => return Confirmation::Yes,
        Friction::Word(word) => {
            return Confirmation::Word {
                what: "word",
                word: word.to_owned(),
            };
        }
        Friction::Name(_) => (lines, "number of queues"),
        Friction::LinesOrMessages(_) if messages > lines => (messages, "number of messages"),
        Friction::Lines(what) | Friction::LinesOrMessages(what) => (lines, what),
        Friction::Messages(what) => match asks_after(plans) {
            Some(canary) if canary < messages && !destroys => (canary, "number of the first messages"),
            Some(_) | None => (messages, what),
        },
        Friction::Events => (events(plans), "number of events"),
    };
    let from = match caution {
        Caution::Usual | Caution::Protected if destroys => 1,
        Caution::Protected => TYPED_FROM_PROTECTED,
        Caution::Usual => TYPED_FROM,
    };
    if number < from {
        return Confirmation::Yes;
    }
    Confirmation::Word {
        what,
        word: number.to_string(),
    }
}

impl Command {
    /// Whether the queue that it is about has to be named whole where nobody sees the plan: its messages are lost, or leave
    /// their order.
    #[must_use]
    pub fn needs_whole_name(&self) -> bool {
        if let Self::Run(order) = self {
            return matches!(order.selection, Selection::Queue(_) | Selection::Head(_));
        }
        matches!(self.about().friction, Friction::Name(_))
    }
}

/// After how many messages these runs ask; `None`: one of them does not.
fn asks_after(plans: &[Plan]) -> Option<u64> {
    let canary = |plan: &Plan| {
        let Command::Run(order) = &plan.command else {
            return None;
        };
        order.canary.filter(|_| order.canary_watch.is_none())
    };
    plans.iter().map(canary).sum()
}

fn by_name(queue: &str) -> Confirmation {
    Confirmation::Word {
        what: "name of the queue",
        word: queue.to_owned(),
    }
}

/// Messages that the plan does something with: what a run leaves where it is does not count.
fn messages(plan: &Plan) -> u64 {
    let refused = plan.run.as_ref().map_or(0, |run| run.refused);
    plan.messages.unwrap_or(0).saturating_sub(refused)
}

/// Events over all plans: a run names only some of its own.
fn events(plans: &[Plan]) -> u64 {
    let of = |plan: &Plan| plan.run.as_ref().map_or(plan.lines.len() as u64, |run| run.total);
    plans.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::id::QueueName;
    use crate::engine::RedeliverTarget;
    use crate::engine::command::RunPlan;
    use crate::engine::runs::{Order, OrderKind};

    fn word(plan: Plan, caution: Caution) -> Option<String> {
        match confirmation(&[plan], caution) {
            Confirmation::Yes => None,
            Confirmation::Word { word, .. } => Some(word),
        }
    }

    #[test]
    fn what_is_to_be_typed_grows_with_what_is_lost_and_with_how_much_is_touched() {
        let queue = QueueName::parse("redrive.a.b").unwrap();
        let purge = Plan::of(Command::PurgeQueue(queue.clone()), 1, Danger::Destroys);
        assert_eq!(word(purge, Caution::Usual).as_deref(), Some("redrive.a.b"));
        let pause = Plan::of(Command::PauseQueue(queue.clone()), 1, Danger::Reversible);
        assert_eq!(word(pause, Caution::Protected), None);
        let move_away = Order::new(OrderKind::Move, Selection::Queue(queue.clone()));
        assert!(Command::PurgeQueue(queue.clone()).needs_whole_name() && Command::Run(move_away).needs_whole_name());
        assert!(!Command::RescueQueue(queue).needs_whole_name());
        let many = |lines| Plan::of(Command::Redeliver(RedeliverTarget::All), lines, Danger::Reversible);
        let typed = |lines, caution| word(many(lines), caution);
        assert_eq!(typed(10, Caution::Usual), None);
        assert_eq!(typed(11, Caution::Usual).as_deref(), Some("11"));
        assert_eq!(typed(1, Caution::Protected), None);
        assert_eq!(typed(2, Caution::Protected).as_deref(), Some("2"));
    }

    #[test]
    fn messages_that_a_run_leaves_where_they_are_are_not_counted() {
        let redrive = |refused| {
            let order = Order::new(OrderKind::Redrive, Selection::All);
            let mut plan = Plan::of(Command::Run(order), 0, Danger::Reversible);
            plan.messages = Some(40);
            plan.run = Some(RunPlan {
                total: 40,
                refused,
                ..RunPlan::default()
            });
            word(plan, Caution::Usual)
        };
        assert_eq!(redrive(0).as_deref(), Some("40"));
        assert_eq!(redrive(15).as_deref(), Some("25"));
        assert_eq!(redrive(40), None, "nothing is done");
    }

    #[test]
    fn of_a_run_that_asks_after_its_first_messages_only_these_are_counted() {
        let redrive = |canary, watch: Option<u64>, danger| {
            let mut order = Order::new(OrderKind::Redrive, Selection::All);
            (order.canary, order.canary_watch) = (canary, watch.map(Duration::from_secs));
            let mut plan = Plan::of(Command::Run(order), 0, danger);
            plan.messages = Some(3_000);
            word(plan, Caution::Usual)
        };
        let all = Some("3000".to_owned());
        assert_eq!(redrive(None, None, Danger::Reversible), all);
        assert_eq!(redrive(Some(10), None, Danger::Reversible), None);
        assert_eq!(redrive(Some(20), None, Danger::Reversible), Some("20".to_owned()));
        assert_eq!(
            redrive(Some(10), Some(60), Danger::Reversible),
            all,
            "it goes on by itself"
        );
        assert_eq!(redrive(Some(9_000), None, Danger::Reversible), all, "it never asks");
        assert_eq!(redrive(Some(10), None, Danger::Destroys), all, "what is lost is lost");
    }
}
