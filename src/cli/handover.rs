//! `redrive handover`: what the next shift has to know, as Markdown: what is still wrong, which runs are open,
//! what was done and by whom. Text from outside stands in code spans, which end only where this writes it.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::domain::queue::QueueState;
use crate::domain::time::Timestamp;
use crate::domain::url::redact_urls;
use crate::engine::dead::{DeadListQuery, DeadSelection};
use crate::engine::query::QueuesQuery;
use crate::engine::view::Unread;
use crate::engine::{Answer, Query};
use crate::wire;
use crate::wire::dead::{Group, Total};
use crate::wire::endpoint::Endpoint;
use crate::wire::json;
use crate::wire::queue::Queue;
use crate::wire::record::Audit;
use crate::wire::run::Run;

use super::Session;
use super::console_args::Handover;
use super::exit::{Exit, Failure};
use super::output::{print, shown};
use super::queues::mismatch;
use super::when;

/// Lines of each part; the rest is counted.
const LINES_MAX: usize = 20;
const PAGE: u32 = 500;
/// Lines of the audit that are read, at most.
const AUDIT_MAX: usize = 5_000;
const PATIENCE: Duration = Duration::from_secs(5);
/// States of a queue that do not go away by themselves.
const STUCK: &[QueueState] = &[
    QueueState::Parked,
    QueueState::EndpointDisabled,
    QueueState::Quarantined,
    QueueState::Refused,
    QueueState::Paused,
    QueueState::Unowned,
    QueueState::BrokerBlocked,
];

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Shift {
    since: Option<String>,
    taken_at: Option<String>,
    endpoints: Part<Endpoint>,
    queues: Part<Queue>,
    /// How many dead letters there are in all; `null`: not read.
    dead: Option<Total>,
    dead_groups: Part<Group>,
    runs: Part<Run>,
    audit: Part<Audit>,
    /// What could not be read of all that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<wire::Unread>,
}

/// What one heading tells, `null` where it could not be read.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Part<T> {
    items: Option<Vec<T>>,
    /// What it lacks.
    #[serde(skip)]
    unread: Vec<Unread>,
}

impl Shift {
    /// Nothing could be read.
    const fn is_empty(&self) -> bool {
        self.endpoints.items.is_none()
            && self.queues.items.is_none()
            && self.dead_groups.items.is_none()
            && self.runs.items.is_none()
            && self.audit.items.is_none()
    }
}

impl<T> Part<T> {
    const fn read(items: Vec<T>, unread: Vec<Unread>) -> Self {
        Self {
            items: Some(items),
            unread,
        }
    }

    fn not_read(unread: Unread) -> Self {
        Self {
            items: None,
            unread: vec![unread],
        }
    }
}

pub(super) async fn run(session: &Session<'_>, handover: &Handover) -> Result<Exit, Failure> {
    let span = span(&handover.since).ok_or_else(|| {
        let why = format!(
            "--since is {:?}, and must be a span such as 30m, 8h or 2d",
            shown(&handover.since)
        );
        Failure::new(Exit::Usage, why)
    })?;
    let (shift, problems) = look(session, span).await?;
    if shift.is_empty() {
        let why = problems
            .iter()
            .map(|unread| format!("{} could not be read: {}", unread.source.name(), shown(&unread.reason)));
        return Err(Failure::new(Exit::Unreachable, why.collect::<Vec<_>>().join("; ")));
    }
    session.output.problems(&problems);
    let text = if session.output.is_json() {
        String::from_utf8_lossy(&json::pretty(&shift)).into_owned() + "\n"
    } else {
        page(&shift, span)
    };
    // It is made to be passed on.
    print(redact_urls(&text).as_bytes())?;
    Ok(Exit::Done)
}

fn span(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(split);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

async fn look(session: &Session<'_>, span: Duration) -> Result<(Shift, Vec<Unread>), Failure> {
    let now = crate::ambient::Clock::system().now();
    let since = now.minus(span);
    let endpoints = endpoints(session).await?;
    let queues = queues(session).await?;
    let (dead_groups, dead) = dead_groups(session).await?;
    let runs = runs(session, since).await?;
    let audit = audit(session, since).await?;
    let mut problems: Vec<Unread> = Vec::new();
    for part in [
        &endpoints.unread,
        &queues.unread,
        &dead_groups.unread,
        &runs.unread,
        &audit.unread,
    ] {
        for unread in part {
            if !problems.iter().any(|known| known.source == unread.source) {
                problems.push(unread.clone());
            }
        }
    }
    let shift = Shift {
        since: wire::time(since),
        taken_at: wire::time(now),
        endpoints,
        queues,
        dead,
        dead_groups,
        runs,
        audit,
        problems: wire::unread(&problems),
    };
    Ok((shift, problems))
}

/// The answer, or what could not be read for it.
async fn ask(session: &Session<'_>, query: Query) -> Result<Result<Answer, Unread>, Failure> {
    match session.engine.query(query).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => Ok(Err(session.engine.unread(error)?)),
    }
}

async fn endpoints(session: &Session<'_>) -> Result<Part<Endpoint>, Failure> {
    let query = Query::Endpoints {
        not_available: true,
        limit: PAGE,
        cursor: None,
    };
    match ask(session, query).await? {
        Ok(Answer::Endpoints(page)) => Ok(Part::read(
            page.items.iter().map(Endpoint::from).collect(),
            page.problems,
        )),
        Ok(_) => Err(mismatch()),
        Err(unread) => Ok(Part::not_read(unread)),
    }
}

async fn queues(session: &Session<'_>) -> Result<Part<Queue>, Failure> {
    let states: Vec<String> = STUCK
        .iter()
        .map(|state| format!("state = {}", state.as_str()))
        .collect();
    let query = Query::Queues(QueuesQuery {
        filter: Some(states.join(" or ")),
        limit: PAGE,
        ..QueuesQuery::default()
    });
    match ask(session, query).await? {
        Ok(Answer::Queues(page)) => Ok(Part::read(page.items.iter().map(Queue::from).collect(), page.problems)),
        Ok(_) => Err(mismatch()),
        Err(unread) => Ok(Part::not_read(unread)),
    }
}

async fn dead_groups(session: &Session<'_>) -> Result<(Part<Group>, Option<Total>), Failure> {
    let query = Query::DeadGroups(DeadListQuery {
        selection: DeadSelection::default(),
        sort: None,
        limit: PAGE,
        cursor: None,
        patience: PATIENCE,
    });
    match ask(session, query).await? {
        Ok(Answer::DeadGroups(found)) => {
            let total = Total::from(found.sum());
            let groups = found.page.items.iter().map(Group::from).collect();
            Ok((Part::read(groups, found.problems), Some(total)))
        }
        Ok(_) => Err(mismatch()),
        Err(unread) => Ok((Part::not_read(unread), None)),
    }
}

/// Those that are not over, and those that changed since then.
async fn runs(session: &Session<'_>, since: Timestamp) -> Result<Part<Run>, Failure> {
    let query = Query::Runs {
        before: None,
        limit: PAGE,
    };
    match ask(session, query).await? {
        Ok(Answer::Runs(page)) => {
            let told = page
                .items
                .iter()
                .filter(|run| !run.record.state.is_over() || run.record.updated_at >= since);
            Ok(Part::read(told.map(Run::from).collect(), page.problems))
        }
        Ok(_) => Err(mismatch()),
        Err(unread) => Ok(Part::not_read(unread)),
    }
}

/// What came of what was done since then, oldest first; what was only begun is told by its end.
async fn audit(session: &Session<'_>, since: Timestamp) -> Result<Part<Audit>, Failure> {
    let mut lines: Vec<Audit> = Vec::new();
    let mut before = None;
    loop {
        let page = match ask(session, Query::Audit { before, limit: PAGE }).await? {
            Ok(Answer::Audit(page)) => page,
            Ok(_) => return Err(mismatch()),
            Err(unread) => return Ok(Part::not_read(unread)),
        };
        before = page.items.last().map(|line| line.id);
        let old = page.items.last().is_none_or(|line| line.at < since);
        let new = page
            .items
            .iter()
            .filter(|line| line.at >= since && line.entry.result != "planned");
        lines.extend(new.map(Audit::from));
        if old || page.next_cursor.is_none() || lines.len() >= AUDIT_MAX {
            break;
        }
    }
    lines.reverse();
    Ok(Part::read(lines, Vec::new()))
}

fn page(shift: &Shift, span: Duration) -> String {
    let time = |at: Option<&String>| at.cloned().unwrap_or_else(|| "?".to_owned());
    let mut page = format!(
        "# Handover\n\n{}, the last {} (times are UTC).\n",
        time(shift.taken_at.as_ref()),
        when::span(span)
    );
    still_wrong(&mut page, shift);
    part(
        &mut page,
        "Runs",
        "No run is open, and none ended.",
        &shift.runs,
        |run| {
            let note = run.note.as_deref().map(|note| format!(": {}", code(note)));
            let failed = match run.failed {
                0 => String::new(),
                failed => format!(", **{failed} failed**"),
            };
            format!(
                "**{}** {} `{}`: {} of {}{failed}, by {}{}",
                run.state,
                run.command,
                run.id,
                run.done,
                run.total,
                code(&run.actor),
                note.unwrap_or_default()
            )
        },
    );
    part(&mut page, "Done", "Nobody changed anything.", &shift.audit, |line| {
        let reason = line
            .reason
            .as_deref()
            .map(|reason| format!(" because {}", code(reason)));
        let result = if line.result == "done" {
            String::new()
        } else {
            format!(" → **{}**", code(&line.result))
        };
        let failed = if line.result == "failed" {
            format!(": {}", code(&line.detail))
        } else {
            String::new()
        };
        format!(
            "{} {}: {} {}{}{result}{failed}",
            time(line.at.as_ref()),
            code(&line.actor),
            line.command,
            code(&line.target),
            reason.unwrap_or_default()
        )
    });
    page
}

fn still_wrong(page: &mut String, shift: &Shift) {
    part(
        page,
        "Endpoints that are not available",
        "Every endpoint is available.",
        &shift.endpoints,
        |one| {
            let waiting = one
                .waiting
                .map_or_else(|| ", ? waiting".to_owned(), |waiting| format!(", {waiting} waiting"));
            let next = match &one.next_attempt_at {
                Some(at) => format!(", next attempt {at}"),
                None => ", **waits for a person**".to_owned(),
            };
            let status = one.last_status.map(|status| format!(", last answer {status}"));
            let error = one.last_error.as_deref().map(|error| format!(", {}", code(error)));
            format!(
                "**{}** {} since {}{waiting}{next}{}",
                one.state,
                code(&one.url),
                one.since.as_deref().unwrap_or("?"),
                status.or(error).unwrap_or_default()
            )
        },
    );
    part(
        page,
        "Queues that wait for a person",
        "No queue does.",
        &shift.queues,
        |one| {
            let waiting = one
                .ready
                .map_or_else(|| ", ? waiting".to_owned(), |ready| format!(", {ready} waiting"));
            let why = one.why.as_ref().map(|why| format!(": {}", code(&why.text)));
            format!(
                "**{}** {}{waiting}{}",
                one.state.unwrap_or("?"),
                code(&one.name),
                why.unwrap_or_default()
            )
        },
    );
    let title = dead_title(shift.dead);
    part(page, &title, "There are none.", &shift.dead_groups, |one| {
        format!(
            "**{}** × {} at {}, {}, the last {} (`{}`)",
            one.count,
            code(&one.what),
            code(&one.r#where),
            one.trend,
            one.last_failed_at.as_deref().unwrap_or("?"),
            one.fingerprint
        )
    });
}

/// With their number, where that is known.
fn dead_title(total: Option<Total>) -> String {
    let of = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let letters = total.and_then(|total| Some((total.letters.filter(|letters| *letters > 0)?, total.queues)));
    let letters = letters.map(|(letters, queues)| match queues {
        0 | 1 => of(letters, "dead letter"),
        many => format!("{} in {many} queues", of(letters, "dead letter")),
    });
    let events = total.and_then(|total| total.events).filter(|events| *events > 0);
    let events = events.map(|events| of(events, "dead event"));
    let known: Vec<String> = letters.into_iter().chain(events).collect();
    if known.is_empty() {
        "Dead letters".to_owned()
    } else {
        format!("Dead letters: {}", known.join(" and "))
    }
}

fn part<T>(page: &mut String, title: &str, none: &str, part: &Part<T>, line: impl Fn(&T) -> String) {
    let _ = write!(page, "\n## {title}\n\n");
    let items = part.items.as_deref().unwrap_or_default();
    for unread in &part.unread {
        let what = if items.is_empty() { "" } else { " whether this is all" };
        let _ = writeln!(
            page,
            "Not known{what}: {} could not be read, because {}",
            code(&unread.source.name()),
            code(&unread.reason)
        );
    }
    if items.is_empty() && part.unread.is_empty() {
        let _ = writeln!(page, "{none}");
    }
    if !items.is_empty() && !part.unread.is_empty() {
        page.push('\n');
    }
    for item in items.iter().take(LINES_MAX) {
        let _ = writeln!(page, "- {}", line(item));
    }
    if items.len() > LINES_MAX {
        let _ = writeln!(page, "- and {} more", items.len() - LINES_MAX);
    }
}

/// Text from outside, where Markdown reads nothing in it.
fn code(text: &str) -> String {
    format!("`{}`", shown(text).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        assert_eq!(span("8h"), Some(Duration::from_secs(28_800)));
        assert_eq!(span("2d"), Some(Duration::from_secs(172_800)));
        for wrong in ["", "8", "h", "8 h", "-1h", "99999999999999999999d", "1w"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn text_from_outside_cannot_leave_its_span() {
        assert_eq!(code("a`b\n# c\u{1b}[2J"), "`a'b\\n# c\\x1b[2J`");
    }

    #[test]
    fn a_shift_without_trouble_says_so() {
        let shift = Shift {
            since: None,
            taken_at: Some("2026-11-21T03:12:44Z".to_owned()),
            endpoints: Part::read(Vec::new(), Vec::new()),
            queues: Part::read(Vec::new(), Vec::new()),
            dead: None,
            dead_groups: Part::read(Vec::new(), Vec::new()),
            runs: Part::read(Vec::new(), Vec::new()),
            audit: Part::read(Vec::new(), Vec::new()),
            problems: Vec::new(),
        };
        let page = page(&shift, Duration::from_secs(28_800));
        assert!(
            page.starts_with("# Handover\n\n2026-11-21T03:12:44Z, the last 8 h 0 min"),
            "{page}"
        );
        for sentence in [
            "Every endpoint is available.",
            "No run is open",
            "Nobody changed anything.",
        ] {
            assert!(page.contains(sentence), "{page}");
        }
    }
}
