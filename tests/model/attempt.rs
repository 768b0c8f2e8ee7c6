//! A worker with a message in hand, and the receiver: attempts, answers, acks and dead letters
//! (docs/protocols.md 4 to 6, 17, 18 and 30).

use crate::protocol::{Flaw, Protocol};
use crate::rules::Rule;
use crate::world::{Answer, Channel, DEADLINE, Daemon, Decision, Lease, Request, Work, World, bit};

impl World {
    /// Only a flawed worker does something between asking the fence and the attempt.
    pub fn ask_fence(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let Work::Received(message) = daemon.work else {
            return None;
        };
        let asks = protocol.has(Flaw::FenceAskedBeforeTheStore);
        if !asks || !daemon.is_running() || daemon.fence == 0 {
            return None;
        }
        daemon.work = Work::Cleared(message);
        Some(())
    }

    /// The fence is asked, and the request is sent.
    pub fn start_attempt(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let (message, is_permitted) = match daemon.work {
            Work::Received(message) if !protocol.has(Flaw::FenceAskedBeforeTheStore) => {
                (message, daemon.fence > 0 || protocol.has(Flaw::NoFence))
            }
            Work::Cleared(message) => (message, true),
            Work::Idle
            | Work::Received(_)
            | Work::Attempt { .. }
            | Work::Decided(_)
            | Work::Buried(_)
            | Work::Closing(_) => return None,
        };
        let epoch = daemon.epoch()?;
        let is_known = daemon.remembered & bit(message) != 0 || daemon.record.is_some();
        if !daemon.is_running() || !is_permitted || is_known {
            return None;
        }
        self.judge_start(protocol, at, Request { message, epoch });
        if protocol.has(Flaw::AckBeforeEffect) {
            self.ack(at, message);
        }
        self.daemons[at].work = Work::Attempt {
            message,
            age: 0,
            answer: Answer::None,
        };
        Some(())
    }

    fn judge_start(&mut self, protocol: &Protocol, at: usize, request: Request) {
        let Request { message, epoch } = request;
        if (0..message).any(|before| !self.is_settled(before)) {
            self.breaks(Rule::SentInOrder);
        }
        if self.daemons[at].acked & bit(message) != 0 {
            self.breaks(Rule::AckedIsNotSentAgain);
        }
        // A store that went back knows nothing of what it gave and was told since: the receiver alone is the fence then.
        if self.is_restored(protocol) {
            return;
        }
        if self.letters[usize::from(message)] != 0 && self.history.acks_lost & bit(message) == 0 {
            self.breaks(Rule::DecidedIsNotSent);
        }
        if epoch < self.store.epoch {
            self.breaks(Rule::NewestEpochAttempts);
        }
        let others = self.daemons.iter().enumerate().filter(|(other, _)| *other != at);
        if others.into_iter().any(|(_, other)| other.has_young_request()) {
            self.breaks(Rule::OneRequestAtATime);
        }
    }

    pub fn accept(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let request = self.daemons[at].request()?;
        let is_accepted = self.take_in(protocol, request);
        self.answer(
            at,
            if is_accepted {
                Answer::Accepted
            } else {
                Answer::OldEpoch
            },
        );
        Some(())
    }

    pub fn reject(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let request = self.daemons[at].request()?;
        self.left.rejections = self.left.rejections.checked_sub(1)?;
        self.answer(at, Answer::Rejected);
        self.admits(protocol, request).then_some(())
    }

    pub fn put_off(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let request = self.daemons[at].request()?;
        self.left.failures = self.left.failures.checked_sub(1)?;
        self.answer(at, Answer::Failed);
        self.admits(protocol, request).then_some(())
    }

    /// The answer is lost on its way, whatever it was.
    pub fn lose_answer(&mut self, at: usize) -> Option<()> {
        let Work::Attempt { answer, .. } = self.daemons[at].work else {
            return None;
        };
        if matches!(answer, Answer::None | Answer::Failed) {
            return None;
        }
        self.left.answers = self.left.answers.checked_sub(1)?;
        self.answer(at, Answer::Failed);
        Some(())
    }

    /// The deadline is over: the connection is closed, and what did not arrive does not.
    pub fn give_up(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let Work::Attempt {
            age,
            answer: Answer::None,
            ..
        } = daemon.work
        else {
            return None;
        };
        if !daemon.is_running() || age < DEADLINE {
            return None;
        }
        self.answer(at, Answer::Failed);
        Some(())
    }

    /// The request of one that crashed arrives, and nobody waits for the answer.
    pub fn arrive_late(&mut self, protocol: &Protocol, place: usize) -> Option<()> {
        let request = self.strays[place].take()?;
        self.take_in(protocol, request);
        Some(())
    }

    /// Or it was lost with its sender.
    pub fn arrive_never(&mut self, place: usize) -> Option<()> {
        self.strays[place].take().map(drop)
    }

    /// A 2xx is acked, whatever the fence says meanwhile.
    pub fn ack_delivered(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let message = self.daemons[at].answered(Answer::Accepted)?;
        if !protocol.has(Flaw::AckBeforeEffect) {
            self.ack(at, message);
        }
        self.daemons[at].work = Work::Idle;
        Some(())
    }

    /// It was acked before, by this process, and came again.
    pub fn ack_again(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let Work::Received(message) = daemon.work else {
            return None;
        };
        if !daemon.is_running() || daemon.remembered & bit(message) == 0 {
            return None;
        }
        self.ack(at, message);
        let daemon = &mut self.daemons[at];
        daemon.work = match daemon.decision_about(message) {
            Some(_) => Work::Closing(message),
            None => Work::Idle,
        };
        Some(())
    }

    /// A failure is on record before anything follows from it; then the same message is tried again.
    pub fn record_failure(&mut self, at: usize) -> Option<()> {
        let message = self.daemons[at].answered(Answer::Failed)?;
        let epoch = self.daemons[at].epoch()?;
        if self.is_guarded(epoch) {
            self.daemons[at].work = Work::Received(message);
        } else {
            self.lose_lease(at, epoch);
        }
        Some(())
    }

    /// That a message is dead is committed before its dead letter is published.
    pub fn decide(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let is_of_epoch = daemon.answered(Answer::OldEpoch).is_some();
        let message = daemon
            .answered(Answer::OldEpoch)
            .or(daemon.answered(Answer::Rejected))?;
        let epoch = daemon.epoch()?;
        let decision = Decision {
            message,
            number: self.history.decisions[usize::from(message)],
        };
        if protocol.has(Flaw::LetterBeforeDecision) {
            self.publish_letter(decision);
        } else if self.is_guarded(epoch) || protocol.has(Flaw::DecisionUnguarded) {
            self.store.decision = Some(decision);
            if is_of_epoch || epoch != self.store.epoch {
                self.breaks(Rule::OldEpochsDecideNothing);
            }
        } else {
            self.lose_lease(at, epoch);
            return Some(());
        }
        self.history.decisions[usize::from(message)] += 1;
        self.daemons[at].record = Some(decision);
        self.daemons[at].work = Work::Decided(message);
        Some(())
    }

    /// The dead letter of a decision, one's own or one that was found open.
    pub fn bury(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let (Work::Decided(message) | Work::Received(message)) = daemon.work else {
            return None;
        };
        let decision = daemon.decision_about(message)?;
        let epoch = daemon.epoch()?;
        if !daemon.is_running() || daemon.remembered & bit(message) != 0 {
            return None;
        }
        if protocol.has(Flaw::LetterBeforeDecision) && self.is_guarded(epoch) {
            self.store.decision = Some(decision);
        }
        self.publish_letter(decision);
        self.daemons[at].work = Work::Buried(message);
        Some(())
    }

    fn publish_letter(&mut self, decision: Decision) {
        self.letters[usize::from(decision.message)] |= bit(decision.number);
    }

    /// The dead letter is confirmed. Where the connection is gone its decision stays open until it comes again.
    pub fn ack_buried(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let Work::Buried(message) = daemon.work else {
            return None;
        };
        if !daemon.is_running() {
            return None;
        }
        let is_lost = daemon.channel != Channel::Open;
        self.ack(at, message);
        self.daemons[at].work = if is_lost { Work::Idle } else { Work::Closing(message) };
        Some(())
    }

    /// Its message is settled; or another message is at the head, so that its own must have been.
    pub fn close_decision(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let next = match daemon.work {
            Work::Closing(_) => Work::Idle,
            Work::Received(message) if daemon.decision_about(message).is_none() => Work::Received(message),
            Work::Idle
            | Work::Received(_)
            | Work::Cleared(_)
            | Work::Attempt { .. }
            | Work::Decided(_)
            | Work::Buried(_) => return None,
        };
        let epoch = daemon.epoch()?;
        if !daemon.is_running() || daemon.record.is_none() {
            return None;
        }
        if self.is_guarded(epoch) {
            self.store.decision = None;
            self.daemons[at].record = None;
            self.daemons[at].work = next;
        } else {
            self.lose_lease(at, epoch);
        }
        Some(())
    }

    /// The channel is closed, and then the lease is freed.
    pub fn leave_to_others(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let epoch = daemon.epoch()?;
        if !daemon.is_running() || !matches!(daemon.work, Work::Idle | Work::Received(_)) {
            return None;
        }
        self.left.turns = self.left.turns.checked_sub(1)?;
        self.close_channel(at);
        self.daemons[at].work = Work::Idle;
        self.daemons[at].lease = Lease::Leaving(epoch);
        Some(())
    }

    /// Whether the receiver reads on: a lower epoch than one that it saw is refused.
    fn admits(&mut self, protocol: &Protocol, request: Request) -> bool {
        let is_old = request.epoch < self.receiver.epoch && !protocol.has(Flaw::ReceiverIgnoresEpochs);
        self.receiver.epoch = self.receiver.epoch.max(request.epoch);
        !is_old
    }

    /// The receiver accepts it, unless its epoch is old.
    fn take_in(&mut self, protocol: &Protocol, request: Request) -> bool {
        if !self.admits(protocol, request) {
            return false;
        }
        let at = usize::from(request.message);
        let is_behind = self.receiver.accepted[at + 1..].iter().any(|times| *times > 0);
        if is_behind && self.left.kills == protocol.faults.kills {
            self.breaks(Rule::ReceivedInOrder);
        }
        self.receiver.accepted[at] += 1;
        true
    }

    fn answer(&mut self, at: usize, given: Answer) {
        if let Work::Attempt { answer, .. } = &mut self.daemons[at].work {
            *answer = given;
        }
    }
}

impl Daemon {
    /// The message whose attempt was answered so, if it can act on that.
    fn answered(&self, expected: Answer) -> Option<u8> {
        match self.work {
            Work::Attempt { message, answer, .. } if self.is_running() && answer == expected => Some(message),
            Work::Attempt { .. }
            | Work::Idle
            | Work::Received(_)
            | Work::Cleared(_)
            | Work::Decided(_)
            | Work::Buried(_)
            | Work::Closing(_) => None,
        }
    }

    /// What is on its way to the receiver.
    pub fn request(&self) -> Option<Request> {
        let Work::Attempt {
            message,
            answer: Answer::None,
            ..
        } = self.work
        else {
            return None;
        };
        self.epoch().map(|epoch| Request { message, epoch })
    }
}
