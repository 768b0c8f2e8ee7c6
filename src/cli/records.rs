//! Retries, the audit, and the doctor.

use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use super::when::{told, told_or_dash};
use crate::engine::{query, view};

use crate::domain::text::show_bytes;
use crate::domain::words::counted_retry;
use crate::wire::input;
use crate::wire::record::{Audit, AuditVerified, Check, RescuedListed, RescuedWhole, Retry};

use super::Session;
use super::args;
use super::delivery_args::{Listed, Retries};
use super::exit::{Exit, Failure};
use super::output::{Column, Output, or_dash};
use super::paged::{paged, tell_full};

/// Characters of a body that are shown.
const BODY_SHOWN: usize = 1000;

const RETRIES: &[Column] = &[
    Column::Text("at"),
    Column::Text("phase"),
    Column::Number("attempt"),
    Column::Text("endpoint"),
    Column::Text("queue"),
    Column::Text("message"),
];

pub(super) async fn retries(session: &Session<'_>, which: &Retries) -> Result<Exit, Failure> {
    let query = query::Retries {
        within: which.within.map(Duration::from_secs),
        limit: which.limit,
    };
    let page = session.engine.query(query).await?;
    tell_full(
        session.output,
        (page.items.len(), which.limit),
        "retries",
        "raise --limit, or use --within",
    );
    let items: Vec<Retry> = page.items.iter().map(Retry::from).collect();
    session.output.list(&items, RETRIES, |retry| {
        vec![
            told(retry.at.as_deref().unwrap_or("waits for a person")),
            or_dash(retry.phase),
            counted_retry(retry.at.as_ref(), retry.attempt, retry.of),
            or_dash(retry.url.as_deref()),
            or_dash(retry.queue.as_deref()),
            or_dash(retry.message_id.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

const AUDIT: &[Column] = &[
    Column::Number("id"),
    Column::Text("at"),
    Column::Text("who"),
    Column::Text("what"),
    Column::Text("on"),
    Column::Text("result"),
    Column::Text("broker"),
    Column::Text("reason"),
    Column::Text("detail"),
];

pub(super) async fn audit(session: &Session<'_>, audit: &args::Audit) -> Result<Exit, Failure> {
    match audit.command {
        Some(args::AuditCommand::Verify) => audit_verify(session).await,
        None => audit_list(session, &audit.listed).await,
    }
}

async fn audit_verify(session: &Session<'_>) -> Result<Exit, Failure> {
    let found = session.engine.query(query::AuditVerify()).await?;
    let shape = AuditVerified::from(&found);
    let facts = [
        ("intact", Some(if shape.intact { "yes" } else { "no" }.to_owned())),
        ("lines checked", Some(shape.lines.to_string())),
        ("newest line", Some(shape.newest.to_string())),
        ("removed by retention", Some(shape.removed.to_string())),
        ("removed up to line", shape.removed_to.map(|line| line.to_string())),
        ("removed at", shape.removed_at.as_deref().map(told)),
        ("breaks at line", shape.broken_at.map(|line| line.to_string())),
        ("problem", shape.problem.clone()),
    ];
    session.output.facts(&shape, &facts)?;
    Ok(if shape.intact { Exit::Done } else { Exit::Failed })
}

async fn audit_list(session: &Session<'_>, listed: &Listed) -> Result<Exit, Failure> {
    let page = |limit, cursor: Option<String>| query::Audit {
        before: cursor.and_then(|line| line.parse().ok()),
        limit,
    };
    let list = paged(session, listed.limit, "lines", "raise --limit", page).await?;
    let items: Vec<Audit> = list.items.iter().map(Audit::from).collect();
    session.output.list(&items, AUDIT, |line| {
        vec![
            line.id.to_string(),
            told_or_dash(line.at.as_deref()),
            line.actor.clone(),
            line.command.clone(),
            line.target.clone(),
            line.result.clone(),
            or_dash(line.broker.as_deref()),
            or_dash(line.reason.as_deref()),
            line.detail.clone(),
        ]
    })?;
    Ok(Exit::Done)
}

const RESCUED: &[Column] = &[
    Column::Number("id"),
    Column::Text("at"),
    Column::Text("queue"),
    Column::Number("bytes"),
    Column::Text("reason"),
];

pub(super) async fn rescued(session: &Session<'_>, rescued: &args::Rescued) -> Result<Exit, Failure> {
    match rescued {
        args::Rescued::List { queue, listed } => rescued_list(session, queue.as_deref(), listed).await,
        args::Rescued::Show { id, body } => {
            let message = session.engine.query(query::OneRescued(*id)).await?;
            if *body {
                std::io::stdout().write_all(&message.body)?;
                return Ok(Exit::Done);
            }
            let shape = RescuedWhole::from(&message);
            let facts = [
                ("id", Some(shape.listed.id.to_string())),
                ("queue", Some(shape.listed.queue.clone())),
                ("taken out", Some(told_or_dash(shape.listed.at.as_deref()))),
                ("reason", Some(shape.listed.reason.clone())),
                ("bytes", Some(shape.listed.bytes.to_string())),
                ("header frame", Some(shape.header_frame_base64.clone())),
                ("body", Some(show_bytes(&message.body, BODY_SHOWN))),
            ];
            session.output.facts(&shape, &facts)?;
            Ok(Exit::Done)
        }
    }
}

async fn rescued_list(session: &Session<'_>, queue: Option<&str>, listed: &Listed) -> Result<Exit, Failure> {
    let queue = queue.map(input::queue).transpose()?;
    let page = |limit, cursor: Option<String>| query::Rescued {
        queue: queue.clone(),
        before: cursor.and_then(|id| id.parse().ok()),
        limit,
    };
    let list = paged(session, listed.limit, "messages", "raise --limit", page).await?;
    let items: Vec<RescuedListed> = list.items.iter().map(RescuedListed::from).collect();
    session.output.list(&items, RESCUED, |message| {
        vec![
            message.id.to_string(),
            told_or_dash(message.at.as_deref()),
            message.queue.clone(),
            message.bytes.to_string(),
            message.reason.clone(),
        ]
    })?;
    Ok(Exit::Done)
}

pub(super) async fn doctor(session: &Session<'_>) -> Result<Exit, Failure> {
    let checks = session.engine.query(query::Doctor()).await?;
    let mut items: Vec<Check> = checks.iter().map(Check::from).collect();
    items.extend(session.warnings.iter().map(|warning| configuration(warning)));
    items.push(terminal());
    print_checks(session.output, &items)?;
    let broken = items.iter().any(|check| check.result == "broken");
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

/// What can be said when the store, or anything else, could not be opened: that, and what was found without it.
pub(super) fn doctor_broken(
    output: Output,
    failure: &Failure,
    checks: &[view::Check],
    warnings: &[String],
) -> Result<(), Failure> {
    let found = failure.causes().join(": ");
    let (name, mend) = if failure.exit() == Exit::Unreachable {
        ("store", "check store.url, and that the database runs")
    } else {
        ("start", "fix this first; then run doctor again")
    };
    let opening = view::Check::broken(name, found, mend);
    let checks = checks.iter().chain([&opening]).map(Check::from);
    let warnings = warnings.iter().map(|warning| configuration(warning));
    let items: Vec<Check> = checks.chain(warnings).chain([terminal()]).collect();
    print_checks(output, &items)
}

/// What the configuration allows and nobody advises; how to mend it is a part of the text.
fn configuration(warning: &str) -> Check {
    Check {
        name: "configuration".to_owned(),
        result: "warning",
        found: warning.to_owned(),
        mend: None,
    }
}

const CHECKS: &[Column] = &[
    Column::Text("check"),
    Column::Text("result"),
    Column::Text("found"),
    Column::Text("mend"),
];

fn print_checks(output: Output, checks: &[Check]) -> Result<(), Failure> {
    output.list(checks, CHECKS, |check| {
        vec![
            check.name.clone(),
            check.result.to_owned(),
            check.found.clone(),
            or_dash(check.mend.as_deref()),
        ]
    })
}

fn terminal() -> Check {
    let term = std::env::var("TERM").unwrap_or_default();
    let on = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let (result, mend) = match (on, term.as_str()) {
        (true, "" | "dumb") => ("warning", Some("set TERM, for example to xterm-256color".to_owned())),
        (true | false, _) => ("fine", None),
    };
    let found = if on {
        format!("a terminal, TERM={term:?}")
    } else {
        "not a terminal".to_owned()
    };
    Check {
        name: "terminal".to_owned(),
        result,
        found,
        mend,
    }
}
