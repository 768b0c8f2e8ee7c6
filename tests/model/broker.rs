//! The delivery queue on the broker: who consumes, what is handed out, what is acked and what comes again
//! (docs/protocols.md 3, 6 and 24).

use crate::protocol::{Flaw, Protocol};
use crate::world::{Channel, Consumer, Process, Queue, Work, World, bit};

impl World {
    /// The holder of the lease consumes, behind whoever does so already.
    pub fn attach(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let may_go_on = daemon.is_running() && daemon.epoch().is_some() && daemon.fence > 0;
        if !may_go_on || daemon.channel != Channel::None {
            return None;
        }
        daemon.channel = Channel::Open;
        if protocol.has(Flaw::AcksForgotten) {
            daemon.remembered = 0;
        }
        let free = self.queue.waiting.iter_mut().find(|place| place.is_none())?;
        *free = Some(at);
        self.queue.activate();
        Some(())
    }

    /// The broker hands its head to the active consumer.
    pub fn receive(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let takes = daemon.is_running() && daemon.channel == Channel::Open && daemon.work == Work::Idle;
        let active = self.queue.active.as_mut().filter(|active| active.of == Some(at))?;
        if !takes || active.holds || self.queue.head == protocol.messages {
            return None;
        }
        active.holds = true;
        daemon.work = Work::Received(self.queue.head);
        Some(())
    }

    /// The worker finds its connection gone, and attaches again; what it had in hand comes again.
    pub fn notice_loss(&mut self, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let notices = matches!(daemon.work, Work::Idle | Work::Received(_) | Work::Cleared(_));
        if !daemon.is_running() || daemon.channel != Channel::Lost || !notices {
            return None;
        }
        daemon.channel = Channel::None;
        daemon.work = Work::Idle;
        Some(())
    }

    /// The broker takes an ack, also one that was under way when its connection went.
    pub fn count_ack(&mut self) -> Option<()> {
        self.queue.active.filter(|active| active.acks)?;
        self.queue.count_ack();
        Some(())
    }

    /// The broker gives up a consumer that it hears nothing of.
    pub fn drop_silent_connection(&mut self) -> Option<()> {
        let active = self.queue.active?;
        if let Some(of) = active.of {
            if self.daemons[of].process != Process::Frozen {
                return None;
            }
            self.daemons[of].channel = Channel::Lost;
        }
        self.drop_active();
        Some(())
    }

    /// What is handed out is ready again, in its place; an ack that is under way is lost.
    pub fn drop_active(&mut self) {
        if let Some(active) = self.queue.active.take() {
            self.history.acks_lost |= if active.acks { bit(self.queue.head) } else { 0 };
        }
        self.queue.activate();
    }

    /// A worker closes its channel: its acks are taken, and what it holds goes back.
    pub fn close_channel(&mut self, at: usize) {
        if self.daemons[at].channel == Channel::Open {
            if self.queue.active.is_some_and(|active| active.of == Some(at)) {
                self.queue.count_ack();
            }
            self.leave_queue(at);
        }
        self.daemons[at].channel = Channel::None;
    }

    /// The broker does not count it among its consumers any more.
    pub fn leave_queue(&mut self, at: usize) {
        if self.queue.active.is_some_and(|active| active.of == Some(at)) {
            self.queue.active = None;
        }
        self.queue.stop_waiting(at);
        self.queue.activate();
    }

    /// The connection of a daemon is gone, and the broker does not know: what it holds stays with it.
    pub fn forsake_connection(&mut self, at: usize) {
        if let Some(active) = self
            .queue
            .active
            .as_mut()
            .filter(|active| active.of == Some(at) && active.holds)
        {
            active.of = None;
        }
        self.leave_queue(at);
    }

    /// An ack is sent; on a connection that is gone it gets nowhere.
    pub fn ack(&mut self, at: usize, message: u8) {
        let daemon = &mut self.daemons[at];
        daemon.remembered |= bit(message);
        daemon.acked |= bit(message);
        match self.queue.active.as_mut().filter(|active| active.of == Some(at)) {
            Some(active) if daemon.channel == Channel::Open => active.acks = true,
            Some(_) | None => self.history.acks_lost |= bit(message),
        }
    }
}

impl Queue {
    /// Who waits longest becomes the consumer when there is none.
    fn activate(&mut self) {
        if self.active.is_none()
            && let Some(of) = self.waiting[0]
        {
            self.active = Some(Consumer {
                of: Some(of),
                holds: false,
                acks: false,
            });
            self.stop_waiting(of);
        }
    }

    /// The others move up.
    fn stop_waiting(&mut self, at: usize) {
        let mut others = self.waiting.into_iter().flatten().filter(|other| *other != at);
        self.waiting = std::array::from_fn(|_| others.next());
    }

    fn count_ack(&mut self) {
        let Some(active) = self.active.as_mut().filter(|active| active.acks) else {
            return;
        };
        self.head += 1;
        active.holds = false;
        active.acks = false;
        if active.of.is_none() {
            self.active = None;
            self.activate();
        }
    }
}
