//! The model: which steps there are, and what a run of it may contain.
//!
//! A step that is not possible in a state answers `None`; the checker tries every step in every state.

use stateright::{Model, Property};

use crate::settling::Settling;
use crate::world::{DAEMONS, FORMER, Faults, MESSAGES, STRAYS, World};

/// A run of the protocol, as it is or with one flaw.
pub struct Protocol {
    pub messages: u8,
    pub faults: Faults,
    flaw: Option<Flaw>,
    /// What is looked for: the checker stops where it has found all of it.
    properties: Vec<Property<Self>>,
    /// Every step there is, possible or not; time passes last.
    pub steps: Vec<Step>,
    pub settling: Settling,
}

/// A way to build the protocol wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A message is acked when its attempt begins.
    AckBeforeEffect,
    /// An attempt starts whether or not the fence is open.
    NoFence,
    /// The fence is asked, then the store, and then the attempt starts.
    FenceAskedBeforeTheStore,
    /// A heartbeat keeps the fence open from when its answer came.
    BeatCountsFromItsAnswer,
    /// Others take over as soon as the fence is closed, and not two deadlines later.
    TakeOverWithoutMargin,
    /// Whoever was silent is marked dead, though it sent a heartbeat since.
    CounterNotCompared,
    /// A lease is taken from the living.
    LeaseOfTheLiving,
    /// An epoch is the next number, whatever the clock says.
    EpochWithoutClock,
    /// A decision is committed without a look at the epoch.
    DecisionUnguarded,
    /// A dead letter is published, and then its decision committed.
    LetterBeforeDecision,
    /// What was acked is forgotten with the connection.
    AcksForgotten,
    /// A receiver that takes what comes.
    ReceiverIgnoresEpochs,
}

/// One step of somebody; the number is that of a daemon where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time passes for everybody.
    Tick,
    // A process and its incarnation.
    Begin(usize),
    SendBeat(usize),
    CountBeat(usize),
    HearBeat(usize),
    StopFenced(usize),
    EndIncarnation(usize),
    // Others, and their leases.
    Condemn(usize, usize),
    MarkDead(usize),
    TakeLease(usize),
    HearLease(usize),
    FreeLease(usize),
    FreeStrayLease(usize),
    // The broker.
    Attach(usize),
    Receive(usize),
    NoticeLoss(usize),
    CountAck,
    DropSilentConnection,
    // A message.
    AskFence(usize),
    StartAttempt(usize),
    Accept(usize),
    Reject(usize),
    PutOff(usize),
    GiveUp(usize),
    AckDelivered(usize),
    AckAgain(usize),
    RecordFailure(usize),
    Decide(usize),
    Bury(usize),
    AckBuried(usize),
    CloseDecision(usize),
    LeaveToOthers(usize),
    /// The request of one that is gone, by its place.
    ArriveLate(usize),
    ArriveNever(usize),
    // What goes wrong.
    Crash(usize),
    Freeze(usize),
    Thaw(usize),
    Cut(usize),
    LoseAnswer(usize),
    /// And the last acks are forgotten, so many.
    KillBroker(u8),
    BackUp,
    Restore,
}

impl Protocol {
    /// The protocol as it is.
    pub fn right(daemons: usize, messages: u8, faults: Faults, properties: Vec<Property<Self>>) -> Self {
        assert!(daemons <= DAEMONS && usize::from(messages) <= MESSAGES);
        Self {
            messages,
            faults,
            flaw: None,
            properties,
            steps: steps(daemons, messages),
            settling: Settling::default(),
        }
    }

    pub fn flawed(flaw: Flaw, messages: u8, faults: Faults, properties: Vec<Property<Self>>) -> Self {
        Self {
            flaw: Some(flaw),
            ..Self::right(2, messages, faults, properties)
        }
    }

    pub fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// The state after a step, where it is possible.
    pub fn after(&self, before: &World, step: Step) -> Option<World> {
        let mut world = *before;
        match step {
            Step::Tick => world.tick(),
            Step::Begin(daemon) => world.begin(daemon),
            Step::SendBeat(daemon) => world.send_beat(daemon),
            Step::CountBeat(daemon) => world.count_beat(daemon),
            Step::HearBeat(daemon) => world.hear_beat(self, daemon),
            Step::StopFenced(daemon) => world.stop_fenced(daemon),
            Step::EndIncarnation(daemon) => world.end_incarnation(daemon),
            Step::Condemn(daemon, row) => world.condemn(self, daemon, row),
            Step::MarkDead(daemon) => world.mark_dead(self, daemon),
            Step::TakeLease(daemon) => world.take_lease(self, daemon),
            Step::HearLease(daemon) => world.hear_lease(daemon),
            Step::FreeLease(daemon) => world.free_lease(daemon),
            Step::FreeStrayLease(daemon) => world.free_stray_lease(daemon),
            Step::Attach(daemon) => world.attach(self, daemon),
            Step::Receive(daemon) => world.receive(self, daemon),
            Step::NoticeLoss(daemon) => world.notice_loss(daemon),
            Step::CountAck => world.count_ack(),
            Step::DropSilentConnection => world.drop_silent_connection(),
            Step::AskFence(daemon) => world.ask_fence(self, daemon),
            Step::StartAttempt(daemon) => world.start_attempt(self, daemon),
            Step::Accept(daemon) => world.accept(self, daemon),
            Step::Reject(daemon) => world.reject(self, daemon),
            Step::PutOff(daemon) => world.put_off(self, daemon),
            Step::GiveUp(daemon) => world.give_up(daemon),
            Step::AckDelivered(daemon) => world.ack_delivered(self, daemon),
            Step::AckAgain(daemon) => world.ack_again(daemon),
            Step::RecordFailure(daemon) => world.record_failure(daemon),
            Step::Decide(daemon) => world.decide(self, daemon),
            Step::Bury(daemon) => world.bury(self, daemon),
            Step::AckBuried(daemon) => world.ack_buried(daemon),
            Step::CloseDecision(daemon) => world.close_decision(daemon),
            Step::LeaveToOthers(daemon) => world.leave_to_others(daemon),
            Step::ArriveLate(place) => world.arrive_late(self, place),
            Step::ArriveNever(place) => world.arrive_never(place),
            Step::Crash(daemon) => world.crash(daemon),
            Step::Freeze(daemon) => world.freeze(daemon),
            Step::Thaw(daemon) => world.thaw(daemon),
            Step::Cut(daemon) => world.cut(daemon),
            Step::LoseAnswer(daemon) => world.lose_answer(daemon),
            Step::KillBroker(forgotten) => world.kill_broker(forgotten),
            Step::BackUp => world.back_up(),
            Step::Restore => world.restore(),
        }?;
        (world != *before).then_some(world)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.faults)]
    }

    fn actions(&self, _: &World, steps: &mut Vec<Step>) {
        steps.extend(&self.steps);
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        self.after(before, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.properties.clone()
    }
}

fn steps(daemons: usize, messages: u8) -> Vec<Step> {
    const OF_A_DAEMON: &[fn(usize) -> Step] = &[
        Step::Begin,
        Step::SendBeat,
        Step::CountBeat,
        Step::HearBeat,
        Step::StopFenced,
        Step::EndIncarnation,
        Step::MarkDead,
        Step::TakeLease,
        Step::HearLease,
        Step::FreeLease,
        Step::FreeStrayLease,
        Step::Attach,
        Step::Receive,
        Step::NoticeLoss,
        Step::AskFence,
        Step::StartAttempt,
        Step::Accept,
        Step::Reject,
        Step::PutOff,
        Step::GiveUp,
        Step::AckDelivered,
        Step::AckAgain,
        Step::RecordFailure,
        Step::Decide,
        Step::Bury,
        Step::AckBuried,
        Step::CloseDecision,
        Step::LeaveToOthers,
        Step::Crash,
        Step::Freeze,
        Step::Thaw,
        Step::Cut,
    ];
    let mut steps = vec![Step::CountAck, Step::DropSilentConnection];
    steps.extend((0..STRAYS).flat_map(|place| [Step::ArriveNever(place), Step::ArriveLate(place)]));
    for daemon in 0..daemons {
        steps.extend(OF_A_DAEMON.iter().map(|step| step(daemon)));
        steps.push(Step::LoseAnswer(daemon));
        let rows = (0..daemons).chain([FORMER]);
        steps.extend(rows.map(|row| Step::Condemn(daemon, row)));
    }
    steps.extend((0..=messages).map(Step::KillBroker));
    steps.extend([Step::BackUp, Step::Restore, Step::Tick]);
    steps
}
