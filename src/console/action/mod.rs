//! The one table of actions: keys, hint bar, help, key documentation and the tests that enumerate
//! mutations are made from it.
//!
//! A key that changes something is a capital letter, never Ctrl with R, D, K or W, and never a key
//! that scrolls somewhere else. An action that is not possible at present stays visible with the reason.

mod documentation;
mod enabled;
mod specs;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use self::documentation::{HelpSection, help_sections, key_documentation};
pub(super) use self::enabled::no_list;
pub use self::specs::ACTIONS;
use super::state::{State, View};

/// Why something is not possible, in an operator's words.
pub type Reason = Cow<'static, str>;

/// What an operator can do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionId {
    /// Go to the overview.
    Overview,
    /// Go to the queues.
    Queues,
    /// Go to the endpoints.
    Endpoints,
    /// Go to what is tried when.
    Retries,
    /// Go to the dead letters.
    DeadLetters,
    /// Go to the retry policies.
    Policies,
    /// Go to the runs.
    Runs,
    /// Go to the audit.
    Audit,
    /// Go to the action log.
    Log,
    /// Go to the event table.
    Events,
    /// Go to the queues that go by themselves.
    Expiring,
    /// Go to the next view.
    NextView,
    /// Go to the view before.
    PreviousView,
    /// Move the selection up.
    Up,
    /// Move the selection down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Columns to the left.
    Left,
    /// Columns to the right.
    Right,
    /// Open the detail of the selected row.
    Open,
    /// Close what is in front; else clear filter, else marks.
    Back,
    /// Type a filter.
    Filter,
    /// Sort by the next column.
    SortNext,
    /// Turn the order round.
    SortReverse,
    /// Mark or unmark the selected row.
    Mark,
    /// Mark from the last mark to here.
    MarkRange,
    /// Mark every row that is shown.
    MarkShown,
    /// Remove all marks.
    Unmark,
    /// Look now.
    Refresh,
    /// Keep what is shown until pressed again.
    Freeze,
    /// Look at the first messages of a queue.
    Browse,
    /// Copy the name or URL of the selected row.
    Copy,
    /// Every key and action.
    Help,
    /// Give the terminal back for a while.
    Suspend,
    /// Leave.
    Quit,
    /// Make endpoints available and go on: the selected or the marked.
    Redeliver,
    /// The same for every row that the filter shows.
    RedeliverShown,
    /// Stop delivering from a queue.
    Pause,
    /// Go on.
    Resume,
    /// Send a test request to an endpoint.
    Test,
    /// Send nothing to an endpoint until somebody redelivers.
    Disable,
    /// Write a retry policy.
    EditPolicy,
    /// Take a retry policy away.
    UnsetPolicy,
    /// Set a policy to what an earlier version said.
    RestorePolicy,
    /// Send dead letters back where they came from.
    Redrive,
    /// The same for everything that the filter matches.
    RedriveShown,
    /// Take dead letters out; they can be restored for a while.
    Discard,
    /// Send something else instead of a dead letter.
    EditLetter,
    /// Stop a run after what is in hand.
    PauseRun,
    /// Let a run go on.
    ResumeRun,
    /// End a run; what is done stays done.
    CancelRun,
    /// Put back what a run discarded.
    RestoreLetters,
    /// The line that finds and does anything by its name.
    Palette,
    /// Where the operator was before.
    GoBack,
    /// Forward again.
    GoForward,
    /// The queues of what is in front.
    RelatedQueues,
    /// Its endpoint.
    RelatedEndpoint,
    /// Its attempts.
    RelatedAttempts,
    /// Its dead letters.
    RelatedDead,
    /// Its retry policy.
    RelatedPolicy,
    /// Its run.
    RelatedRun,
    /// What the audit says of it.
    RelatedAudit,
    /// The command that prints the same.
    CopyCommand,
    /// Choose, order and sort columns.
    Columns,
    /// How payloads are shown.
    PayloadForm,
    /// Whether long lines of a payload go on under themselves.
    Wrap,
    /// Show what is masked.
    Reveal,
    /// The next place of what is looked for.
    NextMatch,
    /// The place before.
    PreviousMatch,
    /// Remove every message of a queue.
    Purge,
    /// Undo what was done last.
    Undo,
    /// Make events due now; dead ones get their whole budget back.
    RetryEvents,
    /// The same for everything that the filter matches.
    RetryEventsShown,
    /// Make events due at a time.
    RescheduleEvents,
    /// Remove events.
    CancelEvents,
    /// Write the metadata of a type, or the options of a subscription.
    EditType,
    /// Write the retry policy of a type or a subscription.
    EventPolicy,
    /// Send the events of a type to a URL.
    Subscribe,
    /// End a subscription.
    Unsubscribe,
    /// Move the messages of queues into the store before they go.
    SaveExpiring,
    /// Begin the time of queues anew.
    ExtendExpiring,
    /// Delete queues; what is in them is saved.
    PurgeExpiring,
    /// Delete every queue that is older than it should be.
    PurgeExpired,
    /// Put saved messages back.
    RestoreSaved,
    /// What was saved, or the queues again.
    SavedMessages,
    /// The metadata, subscriptions and history of a type.
    OpenType,
    /// Take the first message out of its queue.
    SkipHead,
    /// The versions of a policy.
    PolicyHistory,
    /// Make the vhost of the configuration.
    MakeVhost,
}

impl ActionId {
    /// Whether it is about events.
    #[must_use]
    pub const fn is_about_events(self) -> bool {
        matches!(
            self,
            Self::RetryEvents | Self::RetryEventsShown | Self::RescheduleEvents | Self::CancelEvents
        )
    }
}

/// How much an action can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing.
    Nothing,
    /// Something that can be undone: planned, confirmed, executed.
    Reversible,
    /// Messages are lost.
    Destroys,
}

/// Where an action is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Everywhere.
    Everywhere,
    /// In these views and in the details of their rows.
    Views(&'static [View]),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ActionSpec {
    /// Which action.
    pub id: ActionId,
    /// Its name in the configuration (`console.keys`) and in the documentation.
    pub name: &'static str,
    /// Two or three words for the hint bar.
    pub title: &'static str,
    /// One sentence for the help.
    pub help: &'static str,
    /// Keys as the configuration writes them (`R`, `Ctrl+z`, `PageUp`); the first is the one shown.
    pub keys: &'static [&'static str],
    /// Where it is offered.
    pub context: Context,
    /// What it changes.
    pub changes: Changes,
    /// Whether the hint bar has it.
    pub hinted: bool,
    /// Whether it is possible now, or why not.
    pub enabled: fn(&State) -> Result<(), Reason>,
}

/// What the hint bar shows of an action.
#[derive(Clone, Debug)]
pub struct Hint {
    /// Which action.
    pub spec: &'static ActionSpec,
    /// Two or three words for it, here.
    pub title: &'static str,
    /// Its first key, as it is shown.
    pub key: String,
    /// Whether it is possible now, or why not.
    pub enabled: Result<(), Reason>,
}

/// The row of an action.
#[must_use]
pub fn spec(id: ActionId) -> &'static ActionSpec {
    static NONE: ActionSpec = specs::NONE;
    ACTIONS.iter().find(|spec| spec.id == id).unwrap_or(&NONE)
}

/// What the hint bar has now, the most useful first: what is possible, in the order of the table;
/// then what changes something and is not possible, with its reason.
#[must_use]
pub fn hints(state: &State) -> Vec<Hint> {
    let offered = ACTIONS.iter().filter(|spec| spec.hinted && spec.is_offered(state));
    let hints = offered.filter_map(|spec| {
        let enabled = (spec.enabled)(state);
        let worth_it = enabled.is_ok() || spec.mutates();
        let key = state.keymap.label(spec.id)?;
        let title = spec.title_in(state);
        worth_it.then_some(Hint {
            spec,
            title,
            key,
            enabled,
        })
    });
    let (mut possible, refused): (Vec<Hint>, Vec<Hint>) = hints.partition(|hint| hint.enabled.is_ok());
    possible.extend(refused);
    possible
}

impl ActionSpec {
    /// Whether it changes something.
    #[must_use]
    pub fn mutates(&self) -> bool {
        self.changes != Changes::Nothing
    }

    /// Its title where the operator is: the same key may find in one place what it filters in another.
    #[must_use]
    pub fn title_in(&self, state: &State) -> &'static str {
        let detail = state.details.last();
        match (self.id, detail) {
            (ActionId::Filter, Some(_)) => "find",
            (ActionId::Reveal, Some(detail)) if detail.revealed.is_some() => "mask again",
            _ => self.title,
        }
    }

    /// Whether it is offered where the operator is.
    #[must_use]
    pub fn is_offered(&self, state: &State) -> bool {
        self.context.has(state.focus())
    }
}

impl Context {
    /// Whether a view is in it.
    #[must_use]
    pub fn has(self, view: View) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Views(views) => views.contains(&view),
        }
    }

    /// Whether there is a view in both.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        View::ALL.into_iter().any(|view| self.has(view) && other.has(view))
    }
}
