//! The confirmation of a mutation: what it touches, how much, and what has to be done to go on.
//!
//! Cancel is in front, and Enter does what is in front. The accepting key is never the one that
//! opened the dialog; repeats and pasted text are ignored; it is armed only after [`ARMED_AFTER`],
//! so that keys typed ahead do nothing. Friction grows with what can be lost.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use crossterm::event::KeyCode;

use crate::console::state::action::Action;
use crate::domain::pace::{PaceOrder, STEP_S, STOP_AFTER};
use crate::domain::time::Timestamp;
use crate::engine::runs::{Selection, Via};
use crate::engine::{Command, Danger, Plan};

/// Commands of one request, at most: more marks are refused with the number.
pub const COMMANDS_MAX: usize = 1_000;
/// A dialog takes no answer before.
pub const ARMED_AFTER: Duration = Duration::from_millis(400);

/// What the operator pointed at when he pressed the key, frozen into ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// One row, the marked ones, or all that the filter shows.
    pub kind: ScopeKind,
    /// How many of the targets are on the list as it is filtered.
    pub shown: usize,
    /// How many marked ones the filter hides.
    pub hidden: usize,
    /// How many marked ones are gone since they were marked.
    pub gone: usize,
    /// How many were left out because the action does not apply to them, with the reason of the first.
    pub skipped: usize,
    /// The reason.
    pub skipped_because: Option<String>,
    /// What the targets do not say by themselves, such as that a queue's endpoint is what is acted on.
    pub note: Option<&'static str>,
}

impl Scope {
    /// So many, all of them on the list.
    #[must_use]
    pub const fn of(kind: ScopeKind, shown: usize, note: Option<&'static str>) -> Self {
        Self {
            kind,
            shown,
            hidden: 0,
            gone: 0,
            skipped: 0,
            skipped_because: None,
            note,
        }
    }

    /// What is said where only a part of a group is meant.
    #[must_use]
    pub fn note_on(selection: &Selection) -> Option<&'static str> {
        let is_part = selection.expression().is_some();
        is_part.then_some("of a group only the letters that the filter matches")
    }
}

/// Where the targets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// The selected row.
    One,
    /// The marked rows.
    Marked,
    /// Every row that the filter shows.
    Filtered,
}

/// A scope with the commands for it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What the operator pointed at.
    pub scope: Scope,
    /// What is to be planned.
    pub commands: Vec<Command>,
}

impl Asked {
    /// One command about what is in front.
    #[must_use]
    pub fn one(command: Command) -> Self {
        Self {
            scope: Scope::of(ScopeKind::One, 1, None),
            commands: vec![command],
        }
    }
}

/// What has to be done to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Friction {
    /// Press this key (never the one that opened the dialog).
    Key(char),
    /// Type this, and press Enter.
    Type {
        /// `number of endpoints`, `name of the queue`.
        what: &'static str,
        /// What to type.
        word: String,
    },
}

/// A confirmation that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Dialog {
    /// Which action asked.
    pub action: &'static Action,
    /// The key that opened it.
    pub trigger: KeyCode,
    /// What it is about.
    pub scope: Scope,
    /// What would be done.
    pub planning: Planning,
    /// What has to be done.
    pub friction: Friction,
    /// What was typed so far.
    pub typed: String,
    /// Why the last key or the pasted text was not taken: said at the input until the next key.
    pub refused: Option<String>,
    /// First line of the targets that is shown.
    pub scroll: usize,
    /// How fast a run goes, and where it stops to ask; `None` where there is no run.
    pub pace: Option<RunPace>,
    /// Why, for the audit.
    pub reason: ReasonLine,
}

/// What a confirmation would do, as the engine plans it.
#[derive(Clone, Debug, PartialEq)]
pub struct Planning {
    /// The request under which it is planned.
    pub request: u64,
    /// What would be done; `None` while it is being planned.
    pub plans: Option<Vec<Plan>>,
    /// When the plans came: it is armed [`ARMED_AFTER`] later.
    pub ready_at: Option<Timestamp>,
}

/// Why something is done, for the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonLine {
    /// What was written; at first what holds for the whole console.
    pub text: String,
    /// The keys go into it.
    pub is_open: bool,
    /// Nothing is done without one.
    pub is_required: bool,
}

impl ReasonLine {
    /// In a protected profile there has to be one.
    #[must_use]
    pub fn with(known: Option<&str>, is_required: bool) -> Self {
        Self {
            text: known.unwrap_or_default().to_owned(),
            is_open: is_required && known.is_none(),
            is_required,
        }
    }

    /// Whether one is missing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_required && self.text.trim().is_empty()
    }

    /// As the audit gets it; `None`: as the console was told at its start.
    #[must_use]
    pub fn written(&self) -> Option<String> {
        let text = self.text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// How fast a run goes, and where it stops to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPace {
    /// Messages a second, at most; as fast as it can without.
    pub rate: Option<u32>,
    /// Stop and ask after so many.
    pub canary: Option<u64>,
    /// Watch them for so many seconds, and continue when all is well, instead of asking.
    pub watch_s: Option<u64>,
    /// Then to so many times what is done, watched again, and so on; of an endpoint, so many times as fast at each step.
    pub ramp: Option<u32>,
    /// It is of an endpoint, and closes it again after so many failures.
    pub stop_after: Option<u32>,
    /// It is of an endpoint, with what no knob turns of its pace.
    pub of_endpoint: Option<Steps>,
    /// The endpoint has a pace that stays while no knob is turned.
    pub stays: bool,
    /// By which way back, where they go back; without it as the plan finds best.
    pub via: Option<WayBack>,
    /// Which of them is being typed, and the digits so far.
    pub typing: Option<(Knob, String)>,
}

/// What no knob turns of the pace of an endpoint: it stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Messages a second at the beginning of a ramp.
    pub from: u32,
    /// Seconds of a step.
    pub every_s: u32,
    /// Whether the pace is over once the ramp has reached the rate.
    pub ends_at_rate: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            from: 1,
            every_s: STEP_S,
            ends_at_rate: false,
        }
    }
}

impl Steps {
    /// Those of a pace.
    #[must_use]
    pub fn of(order: &PaceOrder) -> Self {
        order.ramp.map_or_else(Self::default, |ramp| Self {
            from: ramp.from,
            every_s: ramp.every_s,
            ends_at_rate: order.ends_at_rate,
        })
    }
}

/// By which way what is redriven goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WayBack {
    /// As the plan finds best.
    #[default]
    Best,
    /// As the operator chose.
    By(Via),
}

impl WayBack {
    /// What an order says.
    #[must_use]
    pub const fn via(self) -> Option<Via> {
        match self {
            Self::Best => None,
            Self::By(via) => Some(via),
        }
    }

    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Best => Self::By(Via::Exchange),
            Self::By(Via::Exchange) => Self::By(Via::Queue),
            Self::By(Via::Queue) => Self::Best,
        }
    }
}

/// What of a run's pace can be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// Messages a second.
    Rate,
    /// The first few.
    Canary,
    /// Seconds for which they are watched.
    Watch,
    /// How many times what is done each part goes to; of an endpoint, how fast it grows.
    Ramp,
    /// Failures that close an endpoint again.
    Stop,
    /// By which way back: pressed, not typed.
    Via,
}

impl RunPace {
    /// Whether there is anything to turn: what is not sent first is not watched.
    #[must_use]
    pub const fn has(&self, knob: Knob) -> bool {
        match knob {
            Knob::Rate | Knob::Canary => true,
            Knob::Watch => self.canary.is_some(),
            Knob::Ramp => self.of_endpoint.is_some() || self.watch_s.is_some(),
            Knob::Stop => self.of_endpoint.is_some(),
            Knob::Via => self.via.is_some(),
        }
    }

    /// Whether what this knob says stays as it is at the endpoint: a person set it there, and no knob says another pace.
    #[must_use]
    pub fn is_as_it_is(&self, knob: Knob) -> bool {
        self.stays && !self.holds_back() && (knob != Knob::Stop || self.stop_after.is_none())
    }

    /// Whether what is sent waits because of it.
    const fn holds_back(&self) -> bool {
        self.rate.is_some() || self.canary.is_some() || self.ramp.is_some()
    }

    /// Turns a knob to a number, or off; what hangs on it goes with it.
    pub fn turn(&mut self, knob: Knob, number: Option<u32>) {
        let held_back = self.holds_back();
        match knob {
            Knob::Rate => self.rate = number,
            Knob::Canary => self.canary = number.map(u64::from),
            Knob::Watch => self.watch_s = number.map(u64::from),
            Knob::Ramp => self.ramp = number,
            Knob::Stop => self.stop_after = number,
            Knob::Via => self.via = self.via.map(WayBack::next),
        }
        // A limit that a person sets does not end by reaching it.
        if knob == Knob::Rate
            && let Some(steps) = &mut self.of_endpoint
        {
            steps.ends_at_rate = false;
        }
        if !self.has(Knob::Watch) {
            self.watch_s = None;
        }
        if !self.has(Knob::Ramp) {
            self.ramp = None;
        }
        // Without a word about it, a pace stops after a few failures.
        if self.has(Knob::Stop) && knob != Knob::Stop {
            match (held_back, self.holds_back()) {
                (false, true) => self.stop_after = self.stop_after.or(Some(STOP_AFTER)),
                (true, false) => self.stop_after = None,
                (true, true) | (false, false) => {}
            }
        }
    }
}

impl Knob {
    /// In the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Rate, Self::Canary, Self::Watch, Self::Ramp, Self::Stop, Self::Via];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Canary => "canary",
            Self::Watch => "watch",
            Self::Ramp => "ramp",
            Self::Stop => "stop",
            Self::Via => "way",
        }
    }

    /// The key that turns it.
    #[must_use]
    pub const fn key(self) -> char {
        match self {
            Self::Rate => 't',
            Self::Canary => 'c',
            Self::Watch => 'w',
            Self::Ramp => 'm',
            Self::Stop => 's',
            Self::Via => 'v',
        }
    }

    /// What is asked for.
    #[must_use]
    pub fn asks(self, of_endpoint: Option<Steps>) -> Cow<'static, str> {
        let text = match (self, of_endpoint) {
            (Self::Ramp, Some(Steps { from, every_s, .. })) => {
                return format!(
                    "Ramp: begin with {from} a second, times this every {every_s} s, 2 to 100 (empty = none)"
                )
                .into();
            }
            (Self::Stop, _) => "Close it again after so many failures (empty = never)",
            (Self::Rate, _) => "Messages a second (empty = unlimited)",
            (Self::Canary, _) => "Canary size (empty = none)",
            (Self::Watch, _) => "Seconds to watch the canary, then continue (empty = ask me)",
            (Self::Ramp, None) => "Ramp: so many times what is done, watched again, 2 to 100 (empty = all the rest)",
            (Self::Via, _) => "way back",
        };
        text.into()
    }
}

impl Planning {
    /// Nothing of this request is planned yet.
    #[must_use]
    pub const fn of(request: u64) -> Self {
        Self {
            request,
            plans: None,
            ready_at: None,
        }
    }

    /// The plans came.
    pub(in crate::console) fn answered(&mut self, plans: Vec<Plan>, now: Timestamp) {
        (self.plans, self.ready_at) = (Some(plans), Some(now));
    }

    /// Whether there is no answer yet.
    #[must_use]
    pub const fn is_awaited(&self) -> bool {
        self.plans.is_none()
    }

    /// What would be done; nothing while it is being planned.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        self.plans.as_deref().unwrap_or_default()
    }

    /// Whether the confirmation takes an answer.
    #[must_use]
    pub fn is_armed(&self, now: Timestamp) -> bool {
        self.ready_at.is_some_and(|at| now.since(at) >= ARMED_AFTER)
    }

    /// Targets over all plans.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.plans().iter().map(|plan| plan.lines.len()).sum()
    }

    /// Events over all plans: a run names only some of its own.
    #[must_use]
    pub fn events(&self) -> usize {
        let of = |plan: &Plan| match &plan.run {
            Some(run) => usize::try_from(run.total).unwrap_or(usize::MAX),
            None => plan.lines.len(),
        };
        self.plans().iter().map(of).sum()
    }

    /// Whether any plan loses messages.
    #[must_use]
    pub fn destroys(&self) -> bool {
        self.plans().iter().any(|plan| plan.danger == Danger::Destroys)
    }
}

/// Something that was asked of the engine and has not ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its request.
    pub request: u64,
    /// Which action.
    pub action: &'static Action,
    /// The commands, as they were planned or are being planned.
    pub commands: Vec<Command>,
    /// What takes each of them back as it was planned, or why nothing does.
    pub back: Vec<Result<Command, &'static str>>,
    /// The reason that was given for what each of them ends.
    pub reasons: Vec<Option<String>>,
    /// Since when.
    pub since: Timestamp,
    /// It is done as soon as it is planned.
    pub at_once: bool,
    /// Plans that ended well, and badly, so far; `None` while it is being planned.
    pub ended: Option<(usize, usize)>,
    /// Which commands have not been answered since they are carried out.
    pub unanswered: BTreeSet<usize>,
    /// What came of it so far.
    pub report: Report,
}

/// What was done last, with what would undo it.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// The commands that take it back, or why there are none.
    pub back: Result<Vec<Command>, &'static str>,
    /// The reason that was given for what it ended, which is given again where it is taken back.
    pub reason: Option<String>,
}

/// What came of the commands of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Endpoints that are available again.
    pub endpoints: usize,
    /// Of those, the ones that stay paused.
    pub paused: usize,
    /// Queues that go on.
    pub queues: u64,
    /// Test requests that were not answered with a 2xx.
    pub tests_failed: usize,
    /// Messages that were moved.
    pub messages: u64,
    /// Events that were changed.
    pub events: usize,
    /// Events that were not, and why the first was not.
    pub left: usize,
    /// The reason.
    pub left_because: Option<String>,
    /// What the last command answered, where that is worth saying (safe to show).
    pub last: Option<String>,
    /// The queue that was emptied (safe to show), and how many messages were in it.
    pub purged: Option<(String, u64)>,
    /// Which commands ended well.
    pub done: Vec<usize>,
    /// Why the first that was refused was (safe to show).
    pub refused_because: Option<String>,
}

impl Task {
    /// Whether it is being carried out: leaving would break it off.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.ended.is_some()
    }
}
