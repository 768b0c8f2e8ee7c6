//! What came of a confirmed action: counted as it goes, said once at the end.

use super::say::{self, counted};
use super::{State, courses, details, edit, feeds, undo};
use crate::console::journal::Tone;
use crate::console::state::action::named;
use crate::console::state::dialog::{Report, Task};
use crate::console::state::effect::Effect;
use crate::console::state::pointed::endpoint_row;
use crate::domain::endpoint::EndpointState;
use crate::domain::outcome::OutcomeClass;
use crate::engine::events::EventsDone;
use crate::engine::expiring::{ExpiringOutcome, ExpiringResult};
use crate::engine::query::PolicyScope;
use crate::engine::{Command, Done, Subject, Tested};

/// What a refusal of the engine begins with; the sentence says it already.
const REFUSED: &str = "refused: ";
/// Failures of one task that are named in the log; the rest is counted.
const NAMED_MAX: usize = 20;

/// One plan of a task was carried out, or refused.
pub(super) fn executed(state: &mut State, request: u64, item: usize, result: Result<Box<Done>, String>) -> Vec<Effect> {
    let Some(place) = state.commands.tasks.iter().position(|task| task.request == request) else {
        return Vec::new();
    };
    let task = &mut state.commands.tasks[place];
    let Some((well, badly)) = task.ended.as_mut().filter(|_| task.unanswered.remove(&item)) else {
        return Vec::new();
    };
    let mut edited = None;
    match result {
        Ok(done) => {
            *well += 1;
            task.report.done.push(item);
            if let Done::Edited(letter) = &*done {
                edited = Some(letter.id.clone());
            }
            if let Done::Run(run) = &*done {
                courses::begun(&mut state.commands.begun, run);
                if let Some([letter]) = task.commands.get(item).map(letters_of) {
                    state.lists.dead.taken = Some((run.record.id.clone(), letter.clone()));
                }
            }
            note(&mut task.report, *done);
        }
        Err(why) => {
            let why = why.strip_prefix(REFUSED).unwrap_or(&why).to_owned();
            *badly += 1;
            let named = *badly <= NAMED_MAX;
            let target = task.commands.get(item).map(target_of).unwrap_or_default();
            let text = format!("{} {target} refused: {why}", task.action.title);
            task.report.refused_because.get_or_insert(say::name(&why));
            if named {
                say::did(state, Tone::Bad, &text);
            }
        }
    }
    let mut effects = finish(state, place);
    if let Some(letter) = edited {
        edit::done(state, &letter);
        effects.extend(details::look_again(state, &letter));
    }
    effects
}

fn finish(state: &mut State, place: usize) -> Vec<Effect> {
    if !state.commands.tasks[place].unanswered.is_empty() {
        return Vec::new();
    }
    let task = state.commands.tasks.remove(place);
    feeds::hurry(state);
    undo::note(state, &task);
    let (tone, text) = sentence(&task);
    let text = match suggestion(state, &task) {
        Some(next) => format!("{text}; {next}"),
        None => text,
    };
    say::toast(state, tone, &text);
    say::did(state, tone, &text);
    vec![Effect::Refresh]
}

/// What is probably wanted next: an endpoint that answers again and is not available, while messages wait for it.
fn suggestion(state: &State, task: &Task) -> Option<String> {
    let [Command::TestEndpoint { url, .. }] = task.commands.as_slice() else {
        return None;
    };
    let answered = task.ended == Some((1, 0)) && task.report.tests_failed == 0;
    let row = endpoint_row(state, url).filter(|_| answered)?;
    let key = state.input.keymap.label(named::REDELIVER)?;
    let waiting = row.waiting.filter(|waiting| *waiting > 0);
    let down = row.endpoint.state != EndpointState::Available;
    down.then(|| match waiting {
        Some(waiting) => format!(
            "it is {} still: {key} redelivers its {}",
            row.endpoint.state.as_str(),
            counted(waiting, "message")
        ),
        None => format!("it is {} still: {key} redelivers", row.endpoint.state.as_str()),
    })
}

/// The dead letters that a command names.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other command is about something else"
)]
fn letters_of(command: &Command) -> &[String] {
    match command {
        Command::Run(order) => order.letters(),
        _ => &[],
    }
}

fn note(report: &mut Report, done: Done) {
    match done {
        Done::Redelivered(redelivered) => {
            report.endpoints += redelivered.len();
            report.paused += redelivered.iter().filter(|one| one.paused).count();
            report.queues += redelivered.iter().map(|one| one.queues).sum::<u64>();
        }
        Done::Tested(tested) => {
            report.tests_failed += usize::from(tested.class != OutcomeClass::Delivered);
            report.last = Some(tested_sentence(&tested));
        }
        Done::Queue(queue) => report.last = Some(say::name(queue.name.as_str())),
        Done::Events(done) => of_events(report, done),
        Done::Expiring(outcomes) => of_expiring(report, outcomes),
        Done::Patched { letters, left, why } => {
            report.last = Some(say::counted(letters, "dead letter"));
            report.left += usize::try_from(left).unwrap_or(usize::MAX);
            if let Some(why) = why.first() {
                report.left_because.get_or_insert_with(|| say::name(why));
            }
        }
        Done::Edited(letter) => report.last = Some(say::name(&letter.id)),
        Done::Run(run) => report.last = Some(say::name(&run.record.id)),
        Done::Endpoint(view) => report.last = Some(say::url(&view.endpoint.url)),
        Done::Policy(view) => report.last = Some(policy_of(&view.scope)),
        Done::Purged { queue, messages } => {
            report.last = Some(say::name(queue.as_str()));
            report.purged = Some((say::name(queue.as_str()), messages));
        }
        Done::Adopted { store: name } | Done::VhostMade { vhost: name } => report.last = Some(say::name(&name)),
        Done::Deleted { queue, .. } | Done::Rescued { queue, .. } => {
            report.last = Some(say::name(queue.as_str()));
        }
    }
}

fn of_events(report: &mut Report, done: EventsDone) {
    match done {
        EventsDone::Changed { events, skipped } => {
            report.events += events.len();
            report.left += skipped.len();
            if let Some((_, why)) = skipped.into_iter().next() {
                report.left_because.get_or_insert(why);
            }
        }
        EventsDone::Type(record) => report.last = Some(say::name(record.name.as_str())),
        EventsDone::Subscribed(one) | EventsDone::Unsubscribed(one) => report.last = Some(say::url(&one.url)),
    }
}

fn of_expiring(report: &mut Report, outcomes: Vec<ExpiringOutcome>) {
    for outcome in outcomes {
        report.messages += outcome.messages;
        match outcome.result {
            ExpiringResult::Left(why) => {
                report.left += 1;
                report.left_because.get_or_insert_with(|| say::name(&why));
            }
            ExpiringResult::Saved | ExpiringResult::Purged | ExpiringResult::Restored | ExpiringResult::Extended => {
                report.queues += 1;
            }
        }
    }
}

fn tested_sentence(tested: &Tested) -> String {
    let answer = match (tested.status, &tested.error) {
        (Some(status), _) => format!("answered {status} in {} ms", tested.duration_ms),
        (None, Some(error)) => format!("did not answer: {}", say::name(error)),
        (None, None) => "did not answer".to_owned(),
    };
    format!("{} {answer}", say::url(&tested.url))
}

/// What happened, in one sentence.
fn sentence(task: &Task) -> (Tone, String) {
    let (well, badly) = task.ended.unwrap_or_default();
    let report = &task.report;
    if badly > 0 {
        let why = report.refused_because.as_deref().unwrap_or("no reason was given");
        let text = match (well, badly) {
            (0, 1) => format!("{} refused: {why}", task.action.title),
            _ => format!(
                "{}: {well} of {} done, {badly} refused: {why}",
                task.action.title,
                well + badly
            ),
        };
        return (if well == 0 { Tone::Bad } else { Tone::Warning }, text);
    }
    let warns = report.left > 0 || report.tests_failed > 0;
    let tone = if warns { Tone::Warning } else { Tone::Good };
    (tone, (task.action.confirm.report)(task))
}

/// What a command is about, in a word.
pub(in crate::console) fn target_of(command: &Command) -> String {
    match command.subject() {
        Subject::Url(url) => say::url(&url),
        Subject::Name(name) => say::name(&name),
        Subject::Policy(scope) => policy_of(&scope),
        Subject::Several(many, what) => counted(u64::try_from(many).unwrap_or(u64::MAX), what),
        Subject::Words(words) => words.to_owned(),
    }
}

fn policy_of(scope: &PolicyScope) -> String {
    match (&scope.event_type, &scope.url) {
        (_, Some(url)) => format!("the policy of {}", say::url(url)),
        (Some(name), None) => format!("the policy of {}", say::name(name)),
        (None, None) => "the default policy".to_owned(),
    }
}
