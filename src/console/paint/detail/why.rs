//! Why it moves or does not: one sentence, then every number with its age.
//!
//! ```text
//!  ▼ endpoint down
//!  its URL is unavailable after 4 failed attempts (last answer 503); next probe: in 8 s
//!
//!  waiting            12 ready, 1 in hand           Endpoint
//!  oldest message     12m04s old                    state       ▼ unavailable for 4m12s
//!  next attempt       in 8 s (03:12:52 UTC)         last error  …
//! ```

use ratatui::layout::Rect;

use super::super::payload;
use super::{Fact, facts, hour, lasting, next_steps, when};
use crate::console::state::State;
use crate::console::state::detail::{Detail, DetailAnswer};
use crate::console::state::pointed::{endpoint_row, queue_row};
use crate::console::theme::Role;
use crate::console::views::endpoints::state_in_words;
use crate::console::views::keys::by_keys;
use crate::console::views::moving;
use crate::console::widgets::canvas::{Canvas, below, cells, row};
use crate::console::widgets::words::{self, ago, clock, count, known, plural, span, until};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::pace::ENDPOINT_RESUME;
use crate::domain::queue::{Head, QueueKind, QueueState};
use crate::domain::time::Timestamp;
use crate::engine::view::{EndpointView, QueueView};

/// From this width on queue and endpoint stand side by side.
const WIDE: u16 = 110;
const GAP: u16 = 3;
/// What only a queue has that redrive delivers from.
const OF_DELIVERY: [&str; 4] = ["delivered", "next attempt", "worker", "execution"];

/// From this height on there is room for more than the facts.
const ROOMY: u16 = 18;
/// Lines of the last answer's body: its beginning.
const ANSWER_LINES: u16 = 5;
/// Lines of the facts that are never given up for what stands under them.
const FACTS_MIN: u16 = 8;

/// Paints the sentence, what can be done and the facts; where there is room, what the last attempt got back and the
/// last hour as well.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) {
    let used = sentence(canvas, area, state, answer);
    if area.height < ROOMY {
        numbers(canvas, below(area, used + 1), state, detail, answer);
        return;
    }
    let mut rest = below(area, used + 1);
    let steps = next_steps(canvas, rest, state);
    rest = below(rest, steps + u16::from(steps > 0));
    let answered = last_answer(canvas, rest, state, detail, answer);
    rest = below(rest, answered + u16::from(answered > 0));
    let chart = chart_lines(rest.height);
    let facts = Rect {
        height: rest.height - chart,
        ..rest
    };
    let taken = numbers(canvas, facts, state, detail, answer);
    let rest = below(rest, taken + 1);
    hour::below_facts(canvas, rest, state, detail);
}

/// Lines that are kept for the chart.
const fn chart_lines(height: u16) -> u16 {
    let spare = height.saturating_sub(FACTS_MIN);
    if spare >= hour::SMALL { hour::SMALL } else { 0 }
}

/// What the newest attempt got back, and the beginning of its body; answers how many lines that took.
fn last_answer(canvas: &mut Canvas<'_>, area: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) -> u16 {
    let newest = answer.attempts.as_ref().ok().and_then(|attempts| attempts.first());
    let Some(attempt) = newest else { return 0 };
    let (symbol, role) = words::outcome(attempt.class);
    let status = attempt.status.map_or_else(String::new, |status| format!(" {status}"));
    let title = format!(
        "{symbol} attempt {}, {}: {}{status}",
        attempt.number,
        ago(canvas.now, attempt.started_at),
        attempt.class.as_str()
    );
    canvas.text(row(area, 0), &title, role);
    let mut used = 1;
    if let Some(error) = &attempt.error {
        let error = state.session.mask.text(error).value;
        let place = Rect {
            height: area.height.saturating_sub(used).min(2),
            ..below(area, used)
        };
        used += canvas.wrapped(place, &error, Role::TextMuted);
    }
    let lines = detail.reading.page.as_ref().map_or(0, |page| page.lines.len());
    if lines == 0 {
        return used;
    }
    let lines = cells(lines).min(ANSWER_LINES);
    let place = Rect {
        height: area.height.saturating_sub(used).min(lines),
        ..below(area, used)
    };
    payload::paint(canvas, place, detail, 0);
    used + place.height
}

/// The facts; answers how many lines they took.
fn numbers(canvas: &mut Canvas<'_>, rest: Rect, state: &State, detail: &Detail, answer: &DetailAnswer) -> u16 {
    let queue = answer.queue.as_ref().map(|queue| match queue {
        Ok(queue) => {
            let row = queue_row(state, &queue.name);
            let moves = row.map_or_else(Vec::new, |row| moving::facts(row.moving(), row.time_to_empty()));
            queue_facts(canvas, queue, moves)
        }
        Err(problem) => vec![Fact::new("queue", format!("cannot be read: {problem}")).with(Role::Error)],
    });
    let endpoint = answer.endpoint.as_ref().map(|endpoint| match endpoint {
        Ok(endpoint) => {
            let row = endpoint_row(state, &endpoint.endpoint.url);
            let moves = row.map_or_else(Vec::new, |row| moving::facts(row.moving.as_ref(), row.time_to_empty()));
            endpoint_facts(canvas, endpoint, moves)
        }
        Err(problem) => vec![Fact::new("endpoint", format!("cannot be read: {problem}")).with(Role::Error)],
    });
    match (queue, endpoint) {
        (Some(queue), Some(endpoint)) if rest.width >= WIDE => side_by_side(canvas, rest, &queue, &endpoint),
        (Some(queue), Some(endpoint)) => {
            let both: Vec<Fact> = queue.into_iter().chain([Fact::new("", "")]).chain(endpoint).collect();
            facts(
                canvas,
                rest,
                both.get(detail.reading.scroll.min(both.len())..).unwrap_or_default(),
            )
        }
        (Some(one), None) | (None, Some(one)) => facts(
            canvas,
            rest,
            one.get(detail.reading.scroll.min(one.len())..).unwrap_or_default(),
        ),
        (None, None) => 0,
    }
}

/// How it moves, label by label.
type Moves = Vec<(&'static str, String)>;

fn side_by_side(canvas: &mut Canvas<'_>, area: Rect, queue: &[Fact], endpoint: &[Fact]) -> u16 {
    let half = (area.width - GAP) / 2;
    let left = facts(canvas, Rect { width: half, ..area }, queue);
    let right = facts(
        canvas,
        Rect {
            x: area.x + half + GAP,
            width: half,
            ..area
        },
        endpoint,
    );
    left.max(right)
}

/// The state in its word and the reason in a sentence.
fn sentence(canvas: &mut Canvas<'_>, area: Rect, state: &State, answer: &DetailAnswer) -> u16 {
    let (title, text, role) = match (&answer.queue, &answer.endpoint) {
        (Some(Ok(queue)), _) => queue_sentence(canvas, queue),
        (None, Some(Ok(endpoint))) => endpoint_sentence(canvas, endpoint),
        (Some(Err(problem)), _) | (None, Some(Err(problem))) => (
            "? not known".to_owned(),
            format!("it cannot be read: {problem}"),
            Role::Error,
        ),
        (None, None) => (
            "? not known".to_owned(),
            "it is neither on the broker nor in the store".to_owned(),
            Role::Error,
        ),
    };
    canvas.text(row(area, 0), &title, role);
    let room = Rect {
        height: area.height.saturating_sub(1).min(4),
        ..below(area, 1)
    };
    1 + canvas.wrapped(room, &by_keys(&text, state), Role::Title)
}

fn queue_sentence(canvas: &Canvas<'_>, queue: &QueueView) -> (String, String, Role) {
    let Some(state) = queue.state else {
        let text = queue.why.as_ref().map(|why| why.text.clone());
        if let Some(text) = text.filter(|_| queue.kind == QueueKind::Delivery) {
            return ("? state not known".to_owned(), text, Role::TextMuted);
        }
        let text = queue.not_delivered().unwrap_or_default();
        return (format!("· {}", queue.kind.as_str()), text, Role::TextMuted);
    };
    let (symbol, role) = words::queue_state(state);
    let why = queue.why.as_ref();
    let text = why.map_or_else(|| "why is not known".to_owned(), |why| why.text.clone());
    let next = why
        .and_then(|why| why.until)
        .map(|at| format!(": {}", until(canvas.now, at)))
        .unwrap_or_default();
    let way = way_out(queue);
    (
        format!("{symbol} {}", state.plain()),
        format!("{text}{next}{way}"),
        role,
    )
}

/// What an operator can do about a message that holds its queue up.
fn way_out(queue: &QueueView) -> &'static str {
    let parked = queue.head.as_ref().is_some_and(|head| head.parked);
    if queue.state == Some(QueueState::Quarantined) {
        ". V moves it, byte for byte, into the store; the messages behind it continue"
    } else if queue.state == Some(QueueState::WaitingRetry) || (queue.state == Some(QueueState::Parked) && parked) {
        ". R tries it now, V takes it out to the dead letters"
    } else {
        ""
    }
}

fn endpoint_sentence(canvas: &Canvas<'_>, view: &EndpointView) -> (String, String, Role) {
    let endpoint = &view.endpoint;
    let waits = view.waiting.map_or_else(
        || "an unknown number of messages".to_owned(),
        |n| plural(n, "message", "messages"),
    );
    let since = span(canvas.now.since(endpoint.shown_since()));
    let next = match endpoint.next_attempt_at {
        Some(at) => format!("; next probe {}", until(canvas.now, at)),
        None => match endpoint.state {
            EndpointState::Available => String::new(),
            EndpointState::Unavailable if endpoint.paused().is_some() => String::new(),
            EndpointState::Unavailable => "; it is tried with the next notification".to_owned(),
            EndpointState::Parked | EndpointState::Disabled => "; nothing is sent until a person redelivers".to_owned(),
        },
    };
    let until_resumed = until_resumed(endpoint);
    let how = match endpoint.paused() {
        // A reason in the middle would run into what follows.
        Some(brake) if endpoint.state == EndpointState::Available => format!("for {since} {}", brake.in_words()),
        Some(_) | None => format!("{} for {since}", endpoint.state.as_str()),
    };
    let text = format!(
        "{how}; {waits} in {}{next}{until_resumed}",
        plural(view.queues, "queue", "queues")
    );
    let (state, role) = headed(endpoint, canvas.now);
    (state, text, role)
}

/// The state of an endpoint, and that somebody paused it.
fn headed(endpoint: &Endpoint, now: Timestamp) -> (String, Role) {
    if endpoint.state == EndpointState::Available && endpoint.paused().is_some() {
        return state_in_words(endpoint, now);
    }
    let (symbol, role) = words::endpoint_state(endpoint.state);
    (
        format!("{symbol} {}{}", endpoint.state.as_str(), paused(endpoint)),
        role,
    )
}

/// The word for one that is paused, whatever its state.
fn paused(endpoint: &Endpoint) -> &'static str {
    if endpoint.paused().is_some() { ", paused" } else { "" }
}

/// What it means that one is paused, whatever its state.
fn until_resumed(endpoint: &Endpoint) -> String {
    let Some(pause) = endpoint.paused() else {
        return String::new();
    };
    let paused = pause.in_words();
    match endpoint.state {
        EndpointState::Available => format!("; nothing is sent until {ENDPOINT_RESUME}"),
        EndpointState::Unavailable => {
            format!("; {paused}; nothing is sent, no probe either, until {ENDPOINT_RESUME}")
        }
        EndpointState::Parked | EndpointState::Disabled => {
            format!("; {paused}; nothing is sent then until {ENDPOINT_RESUME}")
        }
    }
}

fn queue_facts(canvas: &Canvas<'_>, queue: &QueueView, moves: Moves) -> Vec<Fact> {
    let waiting = format!("{} ready, {} unacknowledged", known(queue.ready), known(queue.unacked));
    let mut facts = vec![Fact::new("waiting", waiting)];
    // What holds it up comes before what can wait: a small screen has no room for all.
    if let Some(head) = &queue.head {
        facts.extend(head_facts(canvas, head));
    }
    facts.extend(moves.into_iter().map(|(label, text)| Fact::new(label, text)));
    facts.extend([
        Fact::new(
            "oldest message",
            queue
                .oldest_age
                .map_or_else(|| words::UNKNOWN.to_owned(), |age| format!("{} old", span(age))),
        ),
        Fact::new("delivered", known(queue.delivered)),
        Fact::new("next attempt", next_attempt(canvas, queue.next_attempt_at)),
        Fact::new("worker", queue.owner.clone().unwrap_or_else(|| "no worker".to_owned())),
        Fact::new(
            "execution",
            queue
                .execution
                .as_ref()
                .map_or_else(|| words::UNKNOWN.to_owned(), |id| id.as_str().to_owned()),
        ),
        Fact::new("numbers read", read(canvas, queue)),
    ]);
    if let Some(on_broker) = &queue.on_broker {
        // Nobody here delivers from it.
        facts.retain(|fact| !OF_DELIVERY.contains(&fact.label));
        facts.extend(
            on_broker
                .facts()
                .into_iter()
                .map(|(label, text)| Fact::new(label, text)),
        );
    }
    if let Some(pause) = &queue.paused {
        let reason = pause
            .reason
            .as_ref()
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        facts.push(
            Fact::new("paused by", format!("{}, {}{reason}", pause.by, when(canvas, pause.at))).with(Role::Warning),
        );
    }
    facts.extend(
        queue
            .warnings
            .iter()
            .map(|warning| Fact::new("! warning", warning.clone()).with(Role::Warning)),
    );
    facts.extend(queue.findings.iter().map(|finding| {
        let text = format!("{}; {}", finding.effect, finding.mend);
        Fact::new("! surprise", text).with(Role::Warning)
    }));
    facts
}

fn head_facts(canvas: &Canvas<'_>, head: &Head) -> Vec<Fact> {
    let tried = format!(
        "{} of {} attempts failed",
        count(head.failures.into()),
        count(head.attempts_allowed.into())
    );
    let phase = head
        .phase
        .map(|phase| format!(", next phase {}", phase.as_str()))
        .unwrap_or_default();
    vec![
        Fact::new("head", head.message.as_str()),
        Fact::new("head tried", format!("{tried}{phase}")),
        Fact::new("first failure", when(canvas, head.first_failed_at)),
        Fact::new("last failure", when(canvas, head.last_failed_at)),
        Fact::new("last answer", answer(head.last_status, head.last_error.as_deref())).with(Role::Bad),
    ]
}

fn endpoint_facts(canvas: &Canvas<'_>, view: &EndpointView, moves: Moves) -> Vec<Fact> {
    let endpoint = &view.endpoint;
    let (symbol, role) = words::endpoint_state(endpoint.state);
    let mut facts = vec![
        Fact::new("endpoint", endpoint.url.redacted()),
        Fact::new(
            "state",
            format!(
                "{symbol} {} for {}{}",
                endpoint.state.as_str(),
                lasting(canvas, endpoint.since),
                paused(endpoint)
            ),
        )
        .with(role),
        Fact::new("failures", endpoint.attempts.to_string()),
        Fact::new("next attempt", next_attempt(canvas, endpoint.next_attempt_at)),
        Fact::new(
            "waiting for it",
            format!("{} in {}", known(view.waiting), plural(view.queues, "queue", "queues")),
        ),
    ];
    facts.extend(moves.into_iter().map(|(label, text)| Fact::new(label, text)));
    facts.extend([
        Fact::new(
            "last answer",
            answer(endpoint.last_status, endpoint.last_error.as_deref()),
        ),
        Fact::new(
            "last success",
            endpoint
                .last_success_at
                .map_or_else(|| "never, or not recorded".to_owned(), |at| when(canvas, at)),
        ),
    ]);
    if let Some(pace) = &endpoint.pace {
        let (says, order) = (
            pace.says(endpoint.going(view.waiting), canvas.now),
            pace.order.in_words(),
        );
        facts.push(Fact::new("pace", says).with(Role::Warning));
        let by = pace.by.as_deref().unwrap_or("its retry policy");
        facts.push(Fact::new(
            "paced by",
            format!("{by}, {}: {order}", when(canvas, pace.began_at)),
        ));
        if pace.failed > 0 {
            facts.push(Fact::new("failed since", pace.failed.to_string()).with(Role::Bad));
        }
    }
    if let Some(queue) = &endpoint.probe_queue {
        facts.push(Fact::new("probed by", queue.as_str()));
    }
    if let Some(message) = &endpoint.probe_message {
        facts.push(Fact::new("with message", message.as_str()));
    }
    if let Some(probe) = &endpoint.probe {
        facts.push(Fact::new(
            "probing",
            format!("at present, at most until {} UTC", clock(probe.until)),
        ));
    }
    facts
}

/// When the numbers were read, or why they were not.
fn read(canvas: &Canvas<'_>, queue: &QueueView) -> String {
    match queue.problems.first() {
        Some(unread) if queue.ready.is_none() => {
            format!("not read: {}: {}", unread.source.name(), unread.reason)
        }
        None if queue.ready.is_none() => "not read".to_owned(),
        Some(_) | None => when(canvas, queue.taken_at),
    }
}

fn next_attempt(canvas: &Canvas<'_>, at: Option<crate::domain::time::Timestamp>) -> String {
    at.map_or_else(
        || "none is planned".to_owned(),
        |at| format!("{} ({} UTC)", until(canvas.now, at), clock(at)),
    )
}

fn answer(status: Option<u16>, error: Option<&str>) -> String {
    match (status, error) {
        (Some(status), Some(error)) => format!("{status}: {error}"),
        (Some(status), None) => status.to_string(),
        (None, Some(error)) => format!("none: {error}"),
        (None, None) => words::NONE.to_owned(),
    }
}
