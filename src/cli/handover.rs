//! `redrive handover`: what the next shift has to know, as Markdown: what is still wrong, which runs are open,
//! what was done and by whom. Text from outside stands in code spans, which end only where this writes it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::domain::endpoint::EndpointState;
use crate::domain::url::redact_urls;
use crate::domain::words;
use crate::engine::query;

use crate::wire::dead::Total;
use crate::wire::endpoint::Endpoint;
use crate::wire::handover::{Part, Shift};
use crate::wire::{Time, input, json};

use super::Session;
use super::console_args::Handover;
use super::exit::{Exit, Failure};
use super::output::{print, shown};

/// Lines of each part; the rest is counted.
const LINES_MAX: usize = 20;

pub(super) async fn run(session: &Session<'_>, handover: &Handover) -> Result<Exit, Failure> {
    let span = input::span("--since", &handover.since)?;
    let found = session.engine.query(query::Handover(span)).await?;
    let problems = found.problems();
    if found.is_empty() {
        let why = problems
            .iter()
            .map(|unread| format!("{} could not be read: {}", unread.source.name(), shown(&unread.reason)));
        return Err(Failure::new(Exit::Unreachable, why.collect::<Vec<_>>().join("; ")));
    }
    session.output.problems(&problems);
    let shift = Shift::from(&found);
    let text = if session.output.is_json() {
        String::from_utf8_lossy(&json::pretty(&shift)).into_owned() + "\n"
    } else {
        page(&shift, span)
    };
    // It is made to be passed on.
    print(redact_urls(&text).as_bytes())?;
    Ok(Exit::Done)
}

fn page(shift: &Shift, span: Duration) -> String {
    let time = |at: Option<&Time>| at.map_or_else(|| "?".to_owned(), ToString::to_string);
    let mut page = format!(
        "# Handover\n\n{}, the last {} (times are UTC).\n",
        time(shift.taken_at.as_ref()),
        words::about(span)
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
        "Endpoints that are not available, or wait for a person",
        "Every endpoint is available, and none waits for a person.",
        &shift.endpoints,
        endpoint,
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
    if shift.dead.is_some_and(|dead| dead.letters != Some(0)) {
        page.push_str("\nWhat is in queues that somebody consumes is being worked on, and is not counted.\n");
    }
}

fn endpoint(one: &Endpoint) -> String {
    let waiting = one
        .waiting
        .map_or_else(|| ", ? waiting".to_owned(), |waiting| format!(", {waiting} waiting"));
    let by = one.pace.as_ref().and_then(|pace| pace.paused_by.as_deref());
    let reason = one.pace.as_ref().and_then(|pace| pace.paused_reason.as_deref());
    let reason = reason.map(|reason| format!(": {}", code(reason))).unwrap_or_default();
    let next = match &one.next_attempt_at {
        Some(at) => format!(", next attempt {at}"),
        None if one.state == EndpointState::Unavailable.as_str() && by.is_none() => {
            ", tried with the next notification".to_owned()
        }
        None => ", **waits for a person**".to_owned(),
    };
    let status = one.last_status.map(|status| format!(", last answer {status}"));
    let error = one.last_error.as_deref().map(|error| format!(", {}", code(error)));
    // One that is available is here for its pace alone.
    let held = one
        .pace
        .as_ref()
        .filter(|_| one.state == EndpointState::Available.as_str());
    if let Some(pace) = held {
        return format!(
            "**{}** {}: {}{waiting}{next}",
            pace.stage,
            code(&one.url),
            code(&pace.text)
        );
    }
    format!(
        "**{}** {} since {}{waiting}{next}{}{}",
        one.state,
        code(&one.url),
        one.since.as_deref().unwrap_or("?"),
        by.map(|by| format!(", paused by {}{reason}", code(by)))
            .unwrap_or_default(),
        status.or(error).unwrap_or_default()
    )
}

/// With their number, where that is known.
fn dead_title(total: Option<Total>) -> String {
    let of = |number: u64, one: &str| words::plural(number, one, &format!("{one}s"));
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
            code(&unread.source),
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
    use crate::domain::time::Timestamp;
    use crate::wire::time;

    #[test]
    fn text_from_outside_cannot_leave_its_span() {
        assert_eq!(code("a`b\n# c\u{1b}[2J"), "`a'b\\n# c\\x1b[2J`");
    }

    fn nothing<T>() -> Part<T> {
        Part {
            items: Some(Vec::new()),
            unread: Vec::new(),
        }
    }

    #[test]
    fn a_shift_without_trouble_says_so() {
        let shift = Shift {
            since: None,
            taken_at: time(Timestamp::from_seconds(1_795_230_764)),
            endpoints: nothing(),
            queues: nothing(),
            dead: None,
            dead_groups: nothing(),
            runs: nothing(),
            audit: nothing(),
            problems: Vec::new(),
        };
        let page = page(&shift, Duration::from_secs(28_800));
        assert!(
            page.starts_with("# Handover\n\n2026-11-21T03:12:44Z, the last 8 h (times"),
            "{page}"
        );
        for sentence in [
            "Every endpoint is available, and none waits for a person.",
            "No run is open",
            "Nobody changed anything.",
        ] {
            assert!(page.contains(sentence), "{page}");
        }
    }
}
