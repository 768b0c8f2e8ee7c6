//! Time, and what goes wrong: crashes, suspended processes, lost connections, a broker that is killed.

use crate::world::{Answer, Beat, Channel, DEADLINE, Daemon, Process, TAKE_OVER, Work, World, bit};

impl World {
    /// A deadline passes. It does not while a running process would have to close a request first; and a store that
    /// has not answered a heartbeat by the time that a fence closes is a fault.
    pub fn tick(&mut self) -> Option<()> {
        let running = || self.daemons.iter().filter(|daemon| daemon.is_running());
        let is_over = |daemon: &Daemon| {
            matches!(
                daemon.work,
                Work::Attempt {
                    age: DEADLINE..,
                    answer: Answer::None,
                    ..
                }
            )
        };
        if running().any(is_over) {
            return None;
        }
        if running().any(|daemon| daemon.fence == 1) {
            self.left.silences = self.left.silences.checked_sub(1)?;
        }
        for daemon in &mut self.daemons {
            daemon.fence = daemon.fence.saturating_sub(1);
            match &mut daemon.beat {
                Beat::Sent(left) | Beat::Counted(left) => *left = left.saturating_sub(1),
                Beat::None | Beat::Refused => {}
            }
            if let Work::Attempt { age, .. } = &mut daemon.work {
                *age = (*age + 1).min(DEADLINE + 1);
            }
        }
        for row in self.store.rows.iter_mut().filter(|row| row.is_alive) {
            row.silence = (row.silence + 1).min(TAKE_OVER);
        }
        Some(())
    }

    /// Of a process or its host: an ack on its way may be lost, and a request may still arrive.
    pub fn crash(&mut self, at: usize) -> Option<()> {
        if self.daemons[at].process == Process::Down {
            return None;
        }
        self.left.crashes = self.left.crashes.checked_sub(1)?;
        if let Some(request) = self.daemons[at].request() {
            *self.strays.iter_mut().find(|place| place.is_none())? = Some(request);
        }
        self.forsake_connection(at);
        self.daemons[at] = Daemon::DOWN;
        Some(())
    }

    pub fn freeze(&mut self, at: usize) -> Option<()> {
        if !self.daemons[at].is_running() {
            return None;
        }
        self.left.freezes = self.left.freezes.checked_sub(1)?;
        self.daemons[at].process = Process::Frozen;
        Some(())
    }

    pub fn thaw(&mut self, at: usize) -> Option<()> {
        if self.daemons[at].process != Process::Frozen {
            return None;
        }
        self.daemons[at].process = Process::Running;
        Some(())
    }

    /// A connection to the broker is lost: each side notices in its time.
    pub fn cut(&mut self, at: usize) -> Option<()> {
        if self.daemons[at].channel != Channel::Open {
            return None;
        }
        self.left.cuts = self.left.cuts.checked_sub(1)?;
        self.forsake_connection(at);
        self.daemons[at].channel = Channel::Lost;
        Some(())
    }

    /// All connections are lost, and of the acks that it took it has forgotten the last ones.
    pub fn kill_broker(&mut self, forgotten: u8) -> Option<()> {
        self.left.kills = self.left.kills.checked_sub(1)?;
        for daemon in self.daemons.iter_mut().filter(|daemon| daemon.channel == Channel::Open) {
            daemon.channel = Channel::Lost;
        }
        self.queue.waiting = Default::default();
        self.drop_active();
        for _ in 0..forgotten {
            self.queue.head = self.queue.head.checked_sub(1)?;
            self.history.acks_lost |= bit(self.queue.head);
        }
        Some(())
    }
}
