//! What a person does before a plan is carried out, the same at every front.
//!
//! It grows with what is lost, then with how much is touched: a yes; the number, where it is large; the name of the queue
//! whose messages are lost. In a protected profile a number is typed from two on.

use super::command::{Command, Danger, Plan};
use super::operation::Friction;
use super::runs::Selection;

/// The least number that is typed.
const TYPED_FROM: u64 = 11;
/// The same in a protected profile.
const TYPED_FROM_PROTECTED: u64 = 2;

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
pub fn confirmation(plans: &[Plan], is_protected: bool) -> Confirmation {
    let Some(first) = plans.first() else {
        return Confirmation::Yes;
    };
    let friction = first.command.about().friction;
    // Whether anything is in it by now is not known.
    if let (Friction::Name(queue), [_]) = (&friction, plans) {
        return by_name(queue.as_str());
    }
    let lines: Vec<_> = plans.iter().flat_map(|plan| &plan.lines).collect();
    let messages = plans.iter().filter_map(|plan| plan.messages).sum::<u64>();
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
        Friction::Messages(what) => (messages, what),
        Friction::Events => (events(plans), "number of events"),
    };
    let from = match (destroys, is_protected) {
        (true, _) => 1,
        (false, true) => TYPED_FROM_PROTECTED,
        (false, false) => TYPED_FROM,
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

fn by_name(queue: &str) -> Confirmation {
    Confirmation::Word {
        what: "name of the queue",
        word: queue.to_owned(),
    }
}

/// Events over all plans: a run names only some of its own.
fn events(plans: &[Plan]) -> u64 {
    let of = |plan: &Plan| plan.run.as_ref().map_or(plan.lines.len() as u64, |run| run.total);
    plans.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::QueueName;
    use crate::engine::RedeliverTarget;
    use crate::engine::runs::{Order, OrderKind};

    fn word(plan: Plan, is_protected: bool) -> Option<String> {
        match confirmation(&[plan], is_protected) {
            Confirmation::Yes => None,
            Confirmation::Word { word, .. } => Some(word),
        }
    }

    #[test]
    fn what_is_to_be_typed_grows_with_what_is_lost_and_with_how_much_is_touched() {
        let queue = QueueName::parse("redrive.a.b").unwrap();
        let purge = Plan::of(Command::PurgeQueue(queue.clone()), 1, Danger::Destroys);
        assert_eq!(word(purge, false).as_deref(), Some("redrive.a.b"));
        let pause = Plan::of(Command::PauseQueue(queue.clone()), 1, Danger::Reversible);
        assert_eq!(word(pause, true), None);
        let move_away = Order::new(OrderKind::Move, Selection::Queue(queue.clone()));
        assert!(Command::PurgeQueue(queue.clone()).needs_whole_name() && Command::Run(move_away).needs_whole_name());
        assert!(!Command::RescueQueue(queue).needs_whole_name());
        let many = |lines| Plan::of(Command::Redeliver(RedeliverTarget::All), lines, Danger::Reversible);
        assert_eq!(
            (word(many(10), false), word(many(11), false).as_deref()),
            (None, Some("11"))
        );
        assert_eq!((word(many(1), true), word(many(2), true).as_deref()), (None, Some("2")));
    }
}
