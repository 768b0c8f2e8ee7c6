//! The table itself: the order is that of help, documentation and hint bar.

use super::enabled as may;
use super::{ActionId, ActionSpec, Changes, Context, Reason};
use crate::console::state::{State, View};

const LISTS: Context = Context::Views(&[
    View::Queues,
    View::Endpoints,
    View::Retries,
    View::Dead,
    View::Policies,
    View::Runs,
    View::Audit,
    View::Events,
    View::Expiring,
]);
const OVERVIEW: Context = Context::Views(&[View::Overview]);
const DEAD: Context = Context::Views(&[View::Dead]);
const RUNS: Context = Context::Views(&[View::Runs]);
const DELIVERY: Context = Context::Views(&[View::Queues, View::Endpoints, View::Retries]);
const OPENED: Context = Context::Views(&[
    View::Overview,
    View::Audit,
    View::Queues,
    View::Endpoints,
    View::Retries,
    View::Dead,
    View::Policies,
    View::Runs,
    View::Events,
    View::Expiring,
]);
const EXPIRING: Context = Context::Views(&[View::Expiring]);
const EVENTS: Context = Context::Views(&[View::Events]);
const POLICIES: Context = Context::Views(&[View::Policies]);
const POLICY_OF: Context = Context::Views(&[View::Policies, View::Endpoints]);
const QUEUES: Context = Context::Views(&[View::Queues, View::Retries]);
const PAYLOADS: Context = Context::Views(&[View::Queues, View::Endpoints, View::Dead, View::Events]);
const ENDPOINTS: Context = Context::Views(&[View::Endpoints]);

/// Every action, once.
pub const ACTIONS: &[ActionSpec] = &[
    // What an operator comes for stands first: the hint bar is cut from behind.
    ActionSpec::new(ActionId::Redeliver, "redeliver", "redeliver", &["R"])
        .help("Make the endpoint of the selected row, or of the marked rows, available at once; all its queues go on.")
        .mutates_in(DELIVERY, may::redeliver)
        .hinted(),
    ActionSpec::new(ActionId::RedeliverShown, "redeliver_shown", "redeliver all shown", &["A"])
        .help("The same for every row that the filter shows and that does not move.")
        .mutates_in(DELIVERY, may::redeliver_shown)
        .hinted(),
    ActionSpec::new(ActionId::Pause, "pause", "pause", &["P"])
        .help("Stop delivering from the selected or marked queues after the attempt in hand.")
        .mutates_in(QUEUES, may::pause)
        .hinted(),
    ActionSpec::new(ActionId::Resume, "resume", "resume", &["U"])
        .help("Deliver again from the selected or marked queues that are paused.")
        .mutates_in(QUEUES, may::resume)
        .hinted(),
    ActionSpec::new(ActionId::Test, "test", "test", &["T"])
        .help("Send one HEAD request to the endpoint of the selected or marked rows; no queued message.")
        .mutates_in(DELIVERY, may::test)
        .hinted(),
    ActionSpec::new(ActionId::Disable, "disable", "disable", &["D"])
        .help("Send nothing to the selected or marked endpoints until somebody redelivers.")
        .mutates_in(ENDPOINTS, may::disable)
        .hinted(),
    ActionSpec::new(ActionId::Purge, "purge", "purge", &["X"])
        .help("Remove every message of the selected queue; they are lost. Its name is typed to confirm, and old numbers are not enough.")
        .destroys_in(QUEUES, may::purge),
    ActionSpec::new(ActionId::SkipHead, "skip_head", "take the head out", &["V"])
        .help("Take the first message of a queue that it holds up out of it: to the dead letters or, where no client can read it, into the store. What stands behind it goes on.")
        .mutates_in(QUEUES, may::skip_head),
    ActionSpec::new(ActionId::MakeVhost, "make_vhost", "make the vhost", &["V"])
        .help("Make the vhost of this configuration, where it does not exist and this user may.")
        .mutates_in(OVERVIEW, may::make_vhost),
    ActionSpec::new(ActionId::Undo, "undo", "undo", &["Z"])
        .help("Undo what was done last here, where that is possible; else say why it is not.")
        .mutates_in(Context::Everywhere, may::undo),
    ActionSpec::new(ActionId::EditPolicy, "edit_policy", "edit policy", &["E"])
        .help("Write the retry policy of the selected row or endpoint: checked and drawn as it is typed, and what it does to what waits is shown before it is saved.")
        .mutates_in(POLICY_OF, may::edit_policy)
        .hinted(),
    ActionSpec::new(ActionId::UnsetPolicy, "unset_policy", "unset", &["X"])
        .help("Take the policy of the selected or marked rows away: the next one in precedence applies. The versions stay.")
        .mutates_in(POLICIES, may::unset_policy)
        .hinted(),
    ActionSpec::new(ActionId::RestorePolicy, "restore_policy", "restore", &["R"])
        .help("Set the policy to what the selected version of its history says.")
        .mutates_in(POLICIES, may::restore_policy)
        .hinted(),
    ActionSpec::new(ActionId::Redrive, "redrive", "redrive", &["R"])
        .help("Send the selected or marked dead letters, or whole groups, back where they came from. The plan says where that is; t there changes the rate, c stops after the first few.")
        .mutates_in(DEAD, may::redrive)
        .hinted(),
    ActionSpec::new(ActionId::RedriveShown, "redrive_shown", "redrive all shown", &["A"])
        .help("The same for everything that the filter matches; what died again after a redrive is left out.")
        .mutates_in(DEAD, may::redrive_shown)
        .hinted(),
    ActionSpec::new(ActionId::Discard, "discard", "discard", &["X"])
        .help("Take the selected or marked dead letters out; they are kept for a while and can be restored until then.")
        .mutates_in(DEAD, may::discard)
        .hinted(),
    ActionSpec::new(ActionId::EditLetter, "edit_letter", "edit", &["E"])
        .help("Write the payload of the open dead letter in $EDITOR; what is sent instead of it is shown before it is kept.")
        .mutates_in(DEAD, may::edit_letter)
        .hinted(),
    ActionSpec::new(ActionId::PauseRun, "pause_run", "pause", &["P"])
        .help("Stop the selected or marked runs after what they have in hand.")
        .mutates_in(RUNS, may::pause_run)
        .hinted(),
    ActionSpec::new(ActionId::ResumeRun, "resume_run", "resume", &["U"])
        .help("Let the selected or marked runs go on: paused ones, those that ask after their first messages, those that failed.")
        .mutates_in(RUNS, may::resume_run)
        .hinted(),
    ActionSpec::new(ActionId::CancelRun, "cancel_run", "cancel", &["X"])
        .help("End the selected or marked runs; what is done stays done.")
        .mutates_in(RUNS, may::cancel_run)
        .hinted(),
    ActionSpec::new(ActionId::RestoreLetters, "restore_letters", "restore", &["R"])
        .help("Put back what the open run discarded, as long as it is kept.")
        .mutates_in(RUNS, may::restore_letters)
        .hinted(),
    ActionSpec::new(ActionId::RetryEvents, "retry_events", "retry now", &["R"])
        .help("Make the selected or marked events due now, or all of a group; dead ones get their whole budget back. On a type: only what is dead of it.")
        .mutates_in(EVENTS, may::retry_events)
        .hinted(),
    ActionSpec::new(ActionId::RetryEventsShown, "retry_events_shown", "retry all shown", &["A"])
        .help("The same for everything that the filter matches.")
        .mutates_in(EVENTS, may::retry_events_shown)
        .hinted(),
    ActionSpec::new(ActionId::RescheduleEvents, "reschedule_events", "reschedule", &["T"])
        .help("Make the selected or marked events, or all of a group, due at a time that is asked for: 10m, 03:30, 2026-11-22T03:30:00Z.")
        .mutates_in(EVENTS, may::reschedule_events)
        .hinted(),
    ActionSpec::new(ActionId::CancelEvents, "cancel_events", "cancel", &["X"])
        .help("Remove the selected or marked events, or all of a group. They are gone.")
        .destroys_in(EVENTS, may::cancel_events)
        .hinted(),
    ActionSpec::new(ActionId::EditType, "edit_type", "edit", &["E"])
        .help("Write the metadata of the open type, or the options of its selected subscription; what stands there now is shown before it is saved.")
        .mutates_in(EVENTS, may::edit_type)
        .hinted(),
    ActionSpec::new(ActionId::EventPolicy, "event_policy", "policy", &["P"])
        .help("Write the retry policy of the open type, or of its selected subscription.")
        .mutates_in(EVENTS, may::edit_type)
        .hinted(),
    ActionSpec::new(ActionId::Subscribe, "subscribe", "subscribe", &["N"])
        .help("Send the events of the open type to one more URL.")
        .mutates_in(EVENTS, may::edit_type)
        .hinted(),
    ActionSpec::new(ActionId::Unsubscribe, "unsubscribe", "unsubscribe", &["D"])
        .help("End the selected subscription of the open type.")
        .mutates_in(EVENTS, may::unsubscribe)
        .hinted(),
    ActionSpec::new(ActionId::SaveExpiring, "save_expiring", "save now", &["V"])
        .help("Move the messages of the selected or marked queues into the store before they are lost; they can be restored from there.")
        .mutates_in(EXPIRING, may::save_expiring)
        .hinted(),
    ActionSpec::new(ActionId::ExtendExpiring, "extend_expiring", "extend", &["E"])
        .help("Begin the time of the selected or marked queues anew, where that can be done; where it cannot, it is said why.")
        .mutates_in(EXPIRING, may::extend_expiring)
        .hinted(),
    ActionSpec::new(ActionId::PurgeExpiring, "purge_expiring", "purge", &["X"])
        .help("Delete the selected or marked queues that nobody uses; what is in them is saved and can be restored for a while.")
        .mutates_in(EXPIRING, may::purge_expiring)
        .hinted(),
    ActionSpec::new(ActionId::PurgeExpired, "purge_expired", "purge all expired", &["A"])
        .help("The same for every queue that is unused for longer than it should live.")
        .mutates_in(EXPIRING, may::purge_expired)
        .hinted(),
    ActionSpec::new(ActionId::RestoreSaved, "restore_saved", "restore", &["R"])
        .help("Put the selected or marked saves back into their queues.")
        .mutates_in(EXPIRING, may::restore_saved)
        .hinted(),
    ActionSpec::new(ActionId::SavedMessages, "saved_messages", "what was saved", &["w"])
        .help("What was saved from queues that go by themselves; again: the queues.")
        .offered(EXPIRING, may::list)
        .hinted(),
    ActionSpec::new(ActionId::OpenType, "open_type", "its type", &["i"])
        .help("Open the type of the selected row: metadata, subscriptions, what was handled.")
        .offered(EVENTS, may::open_type)
        .hinted(),
    ActionSpec::new(ActionId::PolicyHistory, "policy_history", "history", &["H"])
        .help("Open the versions of the selected policy.")
        .offered(POLICIES, may::policy_history)
        .hinted(),
    ActionSpec::new(ActionId::Open, "open", "open", &["Enter"])
        .help("Open the selected row: why it moves or does not, its attempts. Again: the endpoint of a queue, the queues of an endpoint.")
        .offered(OPENED, may::open)
        .hinted(),
    ActionSpec::new(ActionId::Back, "back", "back", &["Esc"])
        .help("Close what is in front; else clear the filter, else the marks.")
        .when(may::back)
        .hinted(),
    ActionSpec::new(ActionId::Browse, "browse", "messages", &["b"])
        .help("Look at the first messages of the open queue. They are given back in place, and the broker notes that they were looked at.")
        .offered(QUEUES, may::browse)
        .hinted(),
    ActionSpec::new(ActionId::PayloadForm, "payload_form", "as text, bytes", &["x"])
        .help("Show payloads set out, as they came, or as bytes.")
        .offered(PAYLOADS, may::payload_form)
        .hinted(),
    ActionSpec::new(ActionId::Wrap, "wrap", "wrap", &["w"])
        .help("Let long lines of a payload go on under themselves, or cut them; then Left and Right move them.")
        .offered(PAYLOADS, may::payload_form),
    ActionSpec::new(ActionId::Reveal, "reveal", "reveal", &["M"])
        .help("Show what is masked in the message in front; the audit says who looked. Again, or when it is left: it is masked.")
        .offered(PAYLOADS, may::reveal)
        .hinted(),
    ActionSpec::new(ActionId::NextMatch, "next_match", "next", &["n"])
        .help("Go to the next place of what is looked for in a payload; / begins to look.")
        .offered(PAYLOADS, may::step_match)
        .hinted(),
    ActionSpec::new(ActionId::PreviousMatch, "previous_match", "previous", &["p"])
        .help("Go to the place before.")
        .offered(PAYLOADS, may::step_match),
    ActionSpec::new(ActionId::RelatedQueues, "related_queues", "its queues", &["o q"])
        .help("Go to the queues of the endpoint of what is in front.")
        .when(may::related_queues),
    ActionSpec::new(ActionId::RelatedEndpoint, "related_endpoint", "its endpoint", &["o e"])
        .help("Open the endpoint of what is in front.")
        .when(may::related_endpoint),
    ActionSpec::new(ActionId::RelatedAttempts, "related_attempts", "its attempts", &["o a"])
        .help("Open the attempts of what is in front.")
        .when(may::related_attempts),
    ActionSpec::new(ActionId::RelatedDead, "related_dead", "its dead letters", &["o d"])
        .help("Go to the dead letters of what is in front.")
        .when(may::related_dead),
    ActionSpec::new(ActionId::RelatedPolicy, "related_policy", "its policy", &["o p"])
        .help("Open the retry policy of what is in front.")
        .when(may::related_policy),
    ActionSpec::new(ActionId::RelatedRun, "related_run", "its run", &["o r"])
        .help("Open the run that the line of the audit is about.")
        .when(may::related_run),
    ActionSpec::new(ActionId::RelatedAudit, "related_audit", "its audit", &["o h"])
        .help("Go to what was done with what is in front, by whom and why.")
        .when(may::related_audit),
    ActionSpec::new(ActionId::Filter, "filter", "filter", &["/"])
        .help("Type a filter, such as: depth > 100 and state = parked. A single word is looked for in the names. In a payload: find a text.")
        .offered(LISTS, may::filter)
        .hinted(),
    ActionSpec::new(ActionId::Mark, "mark", "mark", &["Space"])
        .help("Mark the selected row, or take its mark away.")
        .offered(LISTS, may::selected)
        .hinted(),
    ActionSpec::new(ActionId::MarkRange, "mark_range", "mark range", &["v"])
        .help("Mark every row from the last mark to here.")
        .offered(LISTS, may::mark_range),
    ActionSpec::new(ActionId::MarkShown, "mark_shown", "mark all shown", &["*"])
        .help("Mark every row that the filter shows.")
        .offered(LISTS, may::selected),
    ActionSpec::new(ActionId::Unmark, "unmark", "unmark", &["u"])
        .help("Take all marks away, also those that the filter hides.")
        .offered(LISTS, may::unmark)
        .hinted(),
    ActionSpec::new(ActionId::SortNext, "sort_next", "sort", &["s"])
        .help("Sort by the next column.")
        .offered(LISTS, may::list)
        .hinted(),
    ActionSpec::new(ActionId::SortReverse, "sort_reverse", "reverse", &["S"])
        .help("Turn the order round.")
        .offered(LISTS, may::list),
    ActionSpec::new(ActionId::Columns, "columns", "columns", &["t"])
        .help("Choose which columns are shown, in which order, and by which of them the list is sorted.")
        .offered(LISTS, may::list),
    ActionSpec::new(ActionId::CopyCommand, "copy_command", "copy command", &["C"])
        .help("Copy the command that prints what is in front, for a shell, a ticket or a runbook.")
        .when(may::copy_command),
    ActionSpec::new(ActionId::Copy, "copy", "copy", &["c"])
        .help("Copy what the selected row is about to the clipboard: the name of the queue, the URL of the endpoint.")
        .offered(LISTS, may::copy)
        .hinted(),
    ActionSpec::new(ActionId::Freeze, "freeze", "freeze", &["z"])
        .help("Keep what is shown until pressed again.")
        .when(may::freeze)
        .hinted(),
    ActionSpec::new(ActionId::Refresh, "refresh", "refresh", &["r"])
        .help("Look now.")
        .when(may::refresh),
    ActionSpec::new(ActionId::Overview, "overview", "overview", &["1"])
        .help("Go to the overview: is anything stuck, since when, how much."),
    ActionSpec::new(ActionId::Queues, "queues", "queues", &["2"]).help("Go to the queues."),
    ActionSpec::new(ActionId::Endpoints, "endpoints", "endpoints", &["3"])
        .help("Go to the endpoints, those that are not available first."),
    ActionSpec::new(ActionId::Retries, "retries", "retries", &["4"]).help("Go to what is tried when."),
    ActionSpec::new(ActionId::DeadLetters, "dead_letters", "dead letters", &["5"])
        .help("Go to the dead letters, in groups of those that failed alike."),
    ActionSpec::new(ActionId::Policies, "policies", "policies", &["6"])
        .help("Go to the retry policies, each with its schedule and its history."),
    ActionSpec::new(ActionId::Runs, "runs", "runs", &["7"])
        .help("Go to the runs: how far each is, and what came of it."),
    ActionSpec::new(ActionId::Audit, "audit", "audit", &["8"])
        .help("Go to the audit: who did what, why, and with what result."),
    ActionSpec::new(ActionId::Log, "log", "log", &["9"]).help("Go to what was done here and what happened."),
    ActionSpec::new(ActionId::Palette, "palette", "go to, do", &[":"])
        .help("Find and do anything by its name: actions, views, queues, endpoints, runs; and commands such as write, profile, theme, export.")
        .hinted(),
    ActionSpec::new(ActionId::GoBack, "go_back", "back there", &["[", "Alt+Left"])
        .help("Go back to where you were.")
        .when(may::go_back),
    ActionSpec::new(ActionId::GoForward, "go_forward", "forward", &["]", "Alt+Right"])
        .help("Go forward again.")
        .when(may::go_forward),
    ActionSpec::new(ActionId::Events, "events", "events", &["0"])
        .help("Go to the event table: types with what is dead and due, why events are there, events."),
    ActionSpec::new(ActionId::Expiring, "expiring", "expiring", &["-"])
        .help("Go to the queues that go by themselves: what is lost first stands first."),
    ActionSpec::new(ActionId::NextView, "next_view", "next view", &["Tab"])
        .help("Go to the next view; in a detail, to its next part."),
    ActionSpec::new(ActionId::PreviousView, "previous_view", "previous view", &["Shift+Tab"])
        .help("Go to the view before; in a detail, to the part before."),
    ActionSpec::new(ActionId::Up, "up", "up", &["Up", "k"]).help("Move up."),
    ActionSpec::new(ActionId::Down, "down", "down", &["Down", "j"]).help("Move down."),
    ActionSpec::new(ActionId::PageUp, "page_up", "page up", &["PageUp"]).help("Move up by a page."),
    ActionSpec::new(ActionId::PageDown, "page_down", "page down", &["PageDown"]).help("Move down by a page."),
    ActionSpec::new(ActionId::First, "first", "first", &["Home", "g"]).help("Move to the first row."),
    ActionSpec::new(ActionId::Last, "last", "last", &["End", "G"]).help("Move to the last row."),
    ActionSpec::new(ActionId::Left, "left", "left", &["Left"])
        .help("Show columns further to the left; in a detail, the part before."),
    ActionSpec::new(ActionId::Right, "right", "right", &["Right"])
        .help("Show columns further to the right; in a detail, the next part."),
    ActionSpec::new(ActionId::Help, "help", "help", &["?"])
        .help("Every key and what it does.")
        .hinted(),
    ActionSpec::new(ActionId::Suspend, "suspend", "suspend", &["Ctrl+z"])
        .help("Give the terminal back to the shell; `fg` comes back here."),
    ActionSpec::new(ActionId::Quit, "quit", "quit", &["q", "Ctrl+c"])
        .help("Leave.")
        .hinted(),
];

/// What stands for an action that is not in the table; a test says that there is none.
pub(super) const NONE: ActionSpec = ActionSpec::new(ActionId::Help, "", "", &[]);

impl ActionSpec {
    const fn new(id: ActionId, name: &'static str, title: &'static str, keys: &'static [&'static str]) -> Self {
        Self {
            id,
            name,
            title,
            help: "",
            keys,
            context: Context::Everywhere,
            changes: Changes::Nothing,
            hinted: false,
            enabled: may::always,
        }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn when(self, enabled: fn(&State) -> Result<(), Reason>) -> Self {
        Self { enabled, ..self }
    }

    const fn offered(self, context: Context, enabled: fn(&State) -> Result<(), Reason>) -> Self {
        Self {
            context,
            enabled,
            ..self
        }
    }

    const fn mutates_in(self, context: Context, enabled: fn(&State) -> Result<(), Reason>) -> Self {
        Self {
            changes: Changes::Reversible,
            ..self.offered(context, enabled)
        }
    }

    const fn destroys_in(self, context: Context, enabled: fn(&State) -> Result<(), Reason>) -> Self {
        Self {
            changes: Changes::Destroys,
            ..self.offered(context, enabled)
        }
    }

    const fn hinted(self) -> Self {
        Self { hinted: true, ..self }
    }
}
