//! Incarnations, heartbeats, the fence, the death of others, and leases (docs/protocols.md 1 to 5, 29 and 34).

use crate::protocol::{Flaw, Protocol};
use crate::rules::Rule;
use crate::world::{Beat, Channel, Condemned, Daemon, FORMER, Lease, Process, Row, SPAN, TAKE_OVER, Work, World};

impl World {
    /// A start, or a new incarnation of a process that ended its former one.
    pub fn begin(&mut self, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        if daemon.process == Process::Frozen || daemon.has_begun {
            return None;
        }
        daemon.process = Process::Running;
        daemon.has_begun = true;
        daemon.is_ending = false;
        daemon.fence = SPAN;
        let owns = self.store.owner == Some(at);
        if owns {
            self.store.owner = Some(FORMER);
            self.store.rows[FORMER] = self.store.rows[at];
        }
        for condemned in self.daemons.iter_mut().map(|other| &mut other.condemns) {
            *condemned = condemned.filter(|one| owns || one.row != at);
            if let Some(one) = condemned.as_mut().filter(|one| one.row == at) {
                one.row = FORMER;
            }
        }
        self.store.rows[at] = Row {
            is_alive: true,
            silence: 0,
        };
        Some(())
    }

    pub fn send_beat(&mut self, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let beats = daemon.is_running() && daemon.has_begun && !daemon.is_ending;
        if !beats || daemon.beat != Beat::None || daemon.fence == SPAN {
            return None;
        }
        daemon.beat = Beat::Sent(SPAN);
        Some(())
    }

    /// The store takes it, sooner or later.
    pub fn count_beat(&mut self, at: usize) -> Option<()> {
        let Beat::Sent(left) = self.daemons[at].beat else {
            return None;
        };
        let row = &mut self.store.rows[at];
        if !row.is_alive {
            self.daemons[at].beat = Beat::Refused;
            return Some(());
        }
        row.silence = 0;
        self.daemons[at].beat = Beat::Counted(left);
        for condemned in self.daemons.iter_mut().filter_map(|other| other.condemns.as_mut()) {
            condemned.has_beaten |= condemned.row == at;
        }
        Some(())
    }

    /// The answer comes, sooner or later.
    pub fn hear_beat(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        if !daemon.is_running() {
            return None;
        }
        match daemon.beat {
            Beat::None | Beat::Sent(_) => return None,
            Beat::Counted(_) if protocol.has(Flaw::BeatCountsFromItsAnswer) => daemon.fence = SPAN,
            Beat::Counted(left) => daemon.fence = left,
            Beat::Refused => daemon.disown(),
        }
        daemon.beat = Beat::None;
        Some(())
    }

    /// A worker finds the fence closed: what is not in flight goes back, and the incarnation ends.
    pub fn stop_fenced(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let holds = daemon.epoch().is_some() || daemon.channel != Channel::None;
        let is_closed = daemon.is_running() && daemon.fence == 0;
        if !is_closed || !daemon.has_begun || !holds || daemon.has_to_finish() {
            return None;
        }
        self.close_channel(at);
        let daemon = &mut self.daemons[at];
        daemon.work = Work::Idle;
        daemon.lease = Lease::None;
        daemon.is_ending = true;
        Some(())
    }

    pub fn end_incarnation(&mut self, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        if !daemon.is_running() || !daemon.is_ending || daemon.lease != Lease::None {
            return None;
        }
        *daemon = Daemon {
            process: Process::Running,
            remembered: daemon.remembered,
            acked: daemon.acked,
            ..Daemon::DOWN
        };
        self.store.rows[at].is_alive = false;
        self.store.owner = self.store.owner.filter(|owner| *owner != at);
        Some(())
    }

    /// An observer finds one dead: its process is gone for certain, or its counter stood still for the take-over
    /// time. Observers are assumed to see each heartbeat at once; one that sees it later waits longer.
    pub fn condemn(&mut self, protocol: &Protocol, by: usize, row: usize) -> Option<()> {
        let observer = &self.daemons[by];
        let observes = observer.is_running() && observer.has_begun && observer.condemns.is_none();
        let owns = self.store.owner == Some(row) && self.store.rows[row].is_alive;
        let enough = if protocol.has(Flaw::TakeOverWithoutMargin) {
            SPAN
        } else {
            TAKE_OVER
        };
        let is_dead = self.is_gone(row) || self.store.rows[row].silence >= enough;
        if !observes || by == row || !owns || !is_dead {
            return None;
        }
        self.daemons[by].condemns = Some(Condemned { row, has_beaten: false });
        Some(())
    }

    /// One guarded statement: only if the counter is still the one that was seen.
    pub fn mark_dead(&mut self, protocol: &Protocol, by: usize) -> Option<()> {
        if !self.daemons[by].is_running() {
            return None;
        }
        let Condemned { row, has_beaten } = self.daemons[by].condemns.take()?;
        if has_beaten && !protocol.has(Flaw::CounterNotCompared) {
            return Some(());
        }
        if !self.is_gone(row) && self.daemons[row].fence > 0 {
            self.breaks(Rule::OnlyTheDeadAreBuried);
        }
        self.store.rows[row].is_alive = false;
        Some(())
    }

    /// The lease, with its epoch, in one transaction.
    pub fn take_lease(&mut self, protocol: &Protocol, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let wants = daemon.is_running() && daemon.has_begun && !daemon.is_ending;
        let is_free = daemon.lease == Lease::None && daemon.channel == Channel::None;
        if !wants || !is_free || self.queue.head == protocol.messages {
            return None;
        }
        if !self.store.rows[at].is_alive {
            self.daemons[at].disown();
            return Some(());
        }
        let living = self.store.owner.filter(|owner| self.store.rows[*owner].is_alive);
        if living.is_some() && !(protocol.has(Flaw::LeaseOfTheLiving) && living != Some(at)) {
            return None;
        }
        if living.is_some() {
            self.breaks(Rule::LeasesAreTakenFromTheDead);
        }
        let mut epoch = self.store.epoch + 1;
        if !protocol.has(Flaw::EpochWithoutClock) {
            // The clock has moved since any epoch was drawn.
            epoch = epoch.max(self.history.epoch_max + 1);
        }
        if epoch <= self.history.epoch_max {
            self.breaks(Rule::EpochsGrow);
        }
        self.history.epoch_max = self.history.epoch_max.max(epoch);
        self.store.epoch = epoch;
        self.store.owner = Some(at);
        let daemon = &mut self.daemons[at];
        daemon.lease = Lease::Given(epoch);
        daemon.record = self.store.decision;
        Some(())
    }

    pub fn hear_lease(&mut self, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let Lease::Given(epoch) = daemon.lease else {
            return None;
        };
        if !daemon.is_running() {
            return None;
        }
        daemon.lease = Lease::Held(epoch);
        Some(())
    }

    /// Freeing is guarded by the epoch.
    pub fn free_lease(&mut self, at: usize) -> Option<()> {
        let daemon = &mut self.daemons[at];
        let Lease::Leaving(epoch) = daemon.lease else {
            return None;
        };
        if !daemon.is_running() {
            return None;
        }
        daemon.lease = Lease::None;
        daemon.record = None;
        if self.store.epoch == epoch {
            self.store.owner = None;
        }
        Some(())
    }

    /// A lease that nothing here knows of: the daemon compares once in a while.
    pub fn free_stray_lease(&mut self, at: usize) -> Option<()> {
        let daemon = &self.daemons[at];
        let compares = daemon.is_running() && daemon.has_begun && !daemon.is_ending;
        if !compares || daemon.lease != Lease::None || self.store.owner != Some(at) {
            return None;
        }
        self.store.owner = None;
        Some(())
    }

    pub fn back_up(&mut self) -> Option<()> {
        if self.left.restores == 0 || self.backup.is_some() {
            return None;
        }
        self.backup = Some(self.store);
        Some(())
    }

    /// The store is as it was: it has forgotten leases, decisions and deaths.
    pub fn restore(&mut self) -> Option<()> {
        self.left.restores = self.left.restores.checked_sub(1)?;
        self.store = self.backup.take()?;
        // What observers counted does not fit any more.
        for row in &mut self.store.rows {
            row.silence = 0;
        }
        for daemon in &mut self.daemons {
            daemon.condemns = None;
        }
        Some(())
    }

    /// Whether what this daemon writes about the queue counts.
    pub fn is_guarded(&self, epoch: u8) -> bool {
        self.store.epoch == epoch && self.store.owner.is_some()
    }

    /// A guarded change did not happen: the lease is not its own any more.
    pub fn lose_lease(&mut self, at: usize, epoch: u8) {
        self.close_channel(at);
        self.daemons[at].work = Work::Idle;
        self.daemons[at].lease = Lease::Leaving(epoch);
    }
}

impl Daemon {
    fn disown(&mut self) {
        self.fence = 0;
        self.is_ending = true;
    }

    /// What is in flight is waited for, and acked if it was delivered.
    const fn has_to_finish(&self) -> bool {
        self.has_open_request()
            || matches!(
                self.work,
                Work::Attempt {
                    answer: crate::world::Answer::Accepted,
                    ..
                }
            )
    }
}
