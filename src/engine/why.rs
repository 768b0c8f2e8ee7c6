//! Why a queue moves or does not: one pure answer from what is known.

use super::view::QueueView;
use crate::domain::egress::is_mended_by_rules;
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::pace::{ENDPOINT_RESUME, Stage, is_closed_again};
use crate::domain::queue::{Closing, Head, QueueRecord, QueueState, Why, takes_none};
use crate::domain::text;
use crate::domain::time::Timestamp;
use crate::domain::words::attempt_of;

/// A refusal with its mend is at most this wide.
const REFUSAL_WIDTH_MAX: usize = 300;

/// What the answer is made from.
pub(super) struct Facts<'a> {
    pub(super) record: &'a QueueRecord,
    pub(super) endpoint: Option<&'a Endpoint>,
    /// Messages ready and in hand, as the broker last said.
    pub(super) depth: Option<u64>,
    /// Why that is not known, where it is not.
    pub(super) uncounted: Uncounted<'a>,
    /// The incarnation that holds it, when it is alive.
    pub(super) owner: Option<&'a str>,
    /// Who wants it next and lives: its name and host.
    pub(super) wanted_by: Option<&'a str>,
    /// Living incarnations that deliver.
    pub(super) daemons: usize,
    /// The alarm that blocks the broker.
    pub(super) blocked: Option<&'a str>,
    /// The foreign session of the database that has locked its row.
    pub(super) locked_by: Option<&'a str>,
    /// Why dead letters wait in their queues.
    pub(super) letters_wait: Option<&'a str>,
    /// What the broker kept this process from doing with it lately.
    pub(super) unattached: Option<&'a str>,
    /// Requests a second to its URL, at most, over all daemons.
    pub(super) rate: Option<u32>,
    pub(super) now: Timestamp,
}

/// Why it is not known how much waits in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncounted<'a> {
    /// It could not be asked for.
    Unread(&'a str),
    /// The broker lists the queue without its number.
    Unsaid,
    /// The broker does not list the queue.
    NotListed,
    /// A look found no such queue.
    Missing,
}

/// The answer.
///
/// 0. The broker has no such queue, and nothing of ours deletes it.
/// 1. What needs a person first: quarantined, refused, paused, disabled, parked.
/// 2. Ending.
/// 3. What waits for a time: the endpoint, the head.
/// 4. What waits for a command or a run that wants it next.
/// 5. The pace of its URL, and its rate, where more waits than what is in hand.
/// 6. Somebody has it; nothing is in it; nobody is there to take it.
pub(super) fn why(known: &Facts<'_>) -> Why {
    missing(known)
        .or_else(|| needs_a_person(known))
        .or_else(|| ending(known))
        .or_else(|| waits(known))
        .or_else(|| wanted(known))
        .or_else(|| paced(known))
        .or_else(|| rate_limited(known))
        .unwrap_or_else(|| moves(known))
}

fn says(state: QueueState, text: String, until: Option<Timestamp>) -> Why {
    Why {
        state: Some(state),
        text,
        until,
    }
}

fn missing(known: &Facts<'_>) -> Option<Why> {
    let is_lost = known.uncounted == Uncounted::Missing && known.record.closing == Closing::Open;
    (is_lost && known.depth.is_none()).then(|| Why {
        state: None,
        text: "the broker does not have it any more: somebody deleted it there, with what was in it; the next publish \
               makes it again, and `redrive doctor` tells of the loss"
            .to_owned(),
        until: None,
    })
}

/// Without the number nobody knows whether anything waits: no state is told, and what is known beside.
fn uncounted(known: &Facts<'_>) -> Why {
    let why = match known.uncounted {
        Uncounted::Unread(why) => text::show(why, REFUSAL_WIDTH_MAX),
        Uncounted::Unsaid => "the broker does not say how many messages are in it".to_owned(),
        Uncounted::NotListed | Uncounted::Missing => "the broker does not list it".to_owned(),
    };
    let nobody = match known.daemons {
        0 => ". No daemon is alive: start `redrive --daemon`",
        _ => "",
    };
    Why {
        state: None,
        text: format!("it is not known whether anything waits: {why}{nobody}"),
        until: None,
    }
}

fn needs_a_person(known: &Facts<'_>) -> Option<Why> {
    let record = known.record;
    if let Some(reason) = &record.quarantined {
        return Some(says(
            QueueState::Quarantined,
            format!("{reason}; take its head out with `redrive queue rescue`"),
            None,
        ));
    }
    if let Some(reason) = &record.refused {
        return Some(says(
            QueueState::Refused,
            format!("not delivered, its order cannot be kept: {reason}"),
            None,
        ));
    }
    if let Some(why) = known.letters_wait.filter(|_| record.decision.is_some()) {
        return Some(says(
            QueueState::Refused,
            format!("its dead letter waits, because it would not last: {why}"),
            None,
        ));
    }
    if let Some(pause) = &record.pause {
        let paused = pause.in_words();
        let also = known
            .endpoint
            .and_then(Endpoint::paused)
            .map_or_else(String::new, |of_endpoint| {
                format!(
                    "; its endpoint is paused too ({}): {ENDPOINT_RESUME}",
                    of_endpoint.in_words()
                )
            });
        return Some(match known.owner {
            None => says(
                QueueState::Paused,
                format!("{paused}; continue with `redrive queue resume`{also}"),
                None,
            ),
            Some(owner) => says(
                QueueState::Delivering,
                format!("{owner} releases the queue after the attempt in flight ({paused})"),
                None,
            ),
        });
    }
    None
}

fn ending(known: &Facts<'_>) -> Option<Why> {
    match known.record.closing {
        Closing::Open => None,
        Closing::Ended | Closing::Closing => Some(says(
            QueueState::Ended,
            "its end mark was taken; it is deleted when nothing comes any more".to_owned(),
            None,
        )),
    }
}

fn waits(known: &Facts<'_>) -> Option<Why> {
    if known.depth == Some(0) && known.owner.is_none() && known.record.head.is_none() {
        return None;
    }
    let head = known.record.head.as_ref();
    let waits = known
        .endpoint
        .and_then(|endpoint| head_parked_while_down(endpoint, head).or_else(|| endpoint_waits(endpoint, head)));
    if waits.is_some() {
        return waits;
    }
    let head = head?;
    if head.parked {
        return Some(head_parked(head, ""));
    }
    let until = head.next_attempt_at?;
    let text = format!(
        "attempt {} is due ({})",
        attempt_of(head.failures + 1, head.attempts_allowed),
        last_of(head.last_status, head.last_error.as_deref())
    );
    Some(says(QueueState::WaitingRetry, text, Some(until)))
}

/// A head with attempts of its own gives no probe, whatever time its URL is probed at.
fn head_parked_while_down(endpoint: &Endpoint, head: Option<&Head>) -> Option<Why> {
    let head = head.filter(|head| head.parked && endpoint.state == EndpointState::Unavailable)?;
    Some(head_parked(head, ", or until its URL is available again"))
}

fn head_parked(head: &Head, or_until: &str) -> Why {
    let text = format!(
        "its head failed {} of {} attempts: it waits for `redrive redeliver`{or_until}",
        head.failures, head.attempts_allowed
    );
    says(QueueState::Parked, text, None)
}

fn wanted(known: &Facts<'_>) -> Option<Why> {
    let wisher = known.wanted_by?;
    match (known.owner, known.depth) {
        (Some(owner), _) => Some(says(
            QueueState::Delivering,
            format!("{owner} releases the queue after the attempt in flight: {wisher} wants it next"),
            None,
        )),
        (None, Some(0)) => None,
        (None, Some(_) | None) => Some(says(
            QueueState::Unowned,
            format!("kept for {wisher}, which wants it next; it continues when that has ended"),
            None,
        )),
    }
}

fn paced(known: &Facts<'_>) -> Option<Why> {
    let pace = known.endpoint?.pace.as_ref()?;
    let (now, depth) = (known.now, known.depth?);
    if depth == 0 || known.daemons == 0 || (depth == 1 && known.owner.is_some() && !pace.is_held(now)) {
        return None;
    }
    let until = match pace.stage(now) {
        // What mends it in front: a reason may be long.
        Stage::Braked | Stage::Asks => {
            let text = format!(
                "nothing is sent to its URL: continue with {ENDPOINT_RESUME} ({})",
                pace.in_words(now)
            );
            return Some(says(QueueState::Paused, text, None));
        }
        Stage::Watched(until) => Some(until),
        Stage::Steady if pace.rate_at(now).is_none() => return None,
        Stage::Canary(_) | Stage::Ramp | Stage::Steady => None,
    };
    let text = format!("waits for its turn ({})", pace.in_words(now));
    Some(says(QueueState::RateLimited, text, until))
}

fn rate_limited(known: &Facts<'_>) -> Option<Why> {
    let rate = known.rate?;
    let limit = format!("at most {rate} requests a second go to its URL (max_receives_per_second)");
    match (known.owner, known.depth?) {
        (Some(owner), depth @ 2..) => Some(says(
            QueueState::RateLimited,
            format!("{owner} delivers it; {limit}, {} wait", depth - 1),
            None,
        )),
        (None, 1..) if known.daemons > 0 => Some(says(
            QueueState::RateLimited,
            format!("waits for its turn: {limit}"),
            None,
        )),
        _ => None,
    }
}

fn endpoint_waits(endpoint: &Endpoint, head: Option<&Head>) -> Option<Why> {
    let last = last_of(endpoint.last_status, endpoint.last_error.as_deref());
    match endpoint.state {
        EndpointState::Available => None,
        EndpointState::Unavailable => Some(unavailable(endpoint, head, &last)),
        EndpointState::Parked => Some(says(QueueState::Parked, parked(endpoint, &last), None)),
        EndpointState::Disabled => Some(says(
            QueueState::EndpointDisabled,
            format!("its URL is disabled ({last}): it waits for `redrive redeliver`"),
            None,
        )),
    }
}

/// A head that waits by itself gives no probe before its own time.
fn unavailable(endpoint: &Endpoint, head: Option<&Head>, last: &str) -> Why {
    let after = match endpoint.attempts {
        0 => String::new(),
        1 => " after 1 failed attempt".to_owned(),
        many => format!(" after {many} failed attempts"),
    };
    let next = endpoint.paused().map_or_else(
        || "next probe".to_owned(),
        |brake| {
            let paused = brake.in_words();
            format!("{paused}; nothing is sent, no probe either, until {ENDPOINT_RESUME}")
        },
    );
    says(
        QueueState::EndpointUnavailable,
        format!("its URL is unavailable{after} ({last}); {next}"),
        endpoint
            .next_attempt()
            .map(|at| at.max(head.and_then(|head| head.next_attempt_at).unwrap_or(at))),
    )
}

fn parked(endpoint: &Endpoint, last: &str) -> String {
    match endpoint.last_error.as_deref() {
        // The answer beside it is only the last of those that closed it.
        Some(error) if is_closed_again(error) => {
            let why = text::show(error, REFUSAL_WIDTH_MAX);
            format!("its URL was {why}: it waits for `redrive redeliver`")
        }
        Some(error) if endpoint.last_status.is_none() && is_mended_by_rules(error) => format!(
            "its URL is refused by the address rules of this installation: {}; it is tried again when a daemon starts \
             with rules that allow it, or by `redrive redeliver`",
            text::show(error, REFUSAL_WIDTH_MAX)
        ),
        Some(_) | None => format!("all retries of its URL failed ({last}): it waits for `redrive redeliver`"),
    }
}

fn last_of(status: Option<u16>, error: Option<&str>) -> String {
    match (status, error) {
        (Some(status), _) => format!("last answer {status}"),
        (None, Some(error)) => text::show(error, 120),
        (None, None) => "no answer yet".to_owned(),
    }
}

fn moves(known: &Facts<'_>) -> Why {
    if let Some(owner) = known.owner {
        return says(QueueState::Delivering, format!("{owner} delivers it"), None);
    }
    if let Some(reason) = &known.record.refusing
        && known.depth == Some(0)
    {
        return says(
            QueueState::Empty,
            format!("empty, and takes no publishes: {reason}"),
            None,
        );
    }
    match (known.depth, known.blocked, known.daemons) {
        (Some(0), Some(alarm), _) => says(
            QueueState::BrokerBlocked,
            format!("empty, and the broker takes no publishes: {}", text::show(alarm, 120)),
            None,
        ),
        (Some(0), None, _) => says(QueueState::Empty, "nothing waits".to_owned(), None),
        (None, _, _) => uncounted(known),
        (Some(_), _, 0) => says(
            QueueState::Unowned,
            "no daemon is alive: start `redrive --daemon`".to_owned(),
            None,
        ),
        (Some(_), _, _) => says(QueueState::Unowned, untaken(known), None),
    }
}

/// A row that is locked cannot be taken by anybody.
fn untaken(known: &Facts<'_>) -> String {
    match (known.locked_by, known.unattached) {
        (Some(session), _) => format!(
            "no daemon can take it: {session} has locked its row in the store; it continues when that transaction ends, \
             and `redrive doctor` names the command"
        ),
        (None, Some(why)) => format!("this daemon {why}"),
        (None, None) => "waits for a free worker or slot".to_owned(),
    }
}

/// The wish of one who is dead counts no more; nobody has to take it back.
pub(super) fn ended_wish(wisher: &str) -> String {
    format!("{wisher} wanted it next and has ended: its wish is ignored")
}

/// Warnings that belong to a queue whatever its state.
pub(super) fn warnings(record: &QueueRecord) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(record.refusing.as_deref().map(takes_none));
    warnings.extend(
        record
            .decision
            .as_ref()
            .map(|decision| format!("its head is being dead-lettered ({})", decision.reason)),
    );
    warnings
}

impl QueueView {
    /// A companion moves as its queue does.
    pub(super) fn is_before(&mut self, queue: &Self) {
        let Some(why) = queue.why.clone() else { return };
        let text = format!(
            "its messages were put back before the first one of queue {}: they are delivered before those of that queue \
             and are counted with them. Of that queue: {}",
            queue.name.as_str(),
            why.text
        );
        self.explain(Why { text, ..why });
    }

    /// Sets state and reason together, so that they cannot differ.
    pub(super) fn explain(&mut self, why: Why) {
        self.state = why.state;
        self.next_attempt_at = why.until;
        self.why = Some(why);
    }
}
