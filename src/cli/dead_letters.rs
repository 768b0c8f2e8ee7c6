//! Dead letters: list, groups, one, and what is taken along as files.

use std::collections::BTreeSet;
use std::io::{BufWriter, IsTerminal as _, Stdout, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::ambient;
use crate::domain::dead_letter::{DeadLetterId, DeadQueueKind};
use crate::domain::text::{csv_field, shell_argument};
use crate::domain::url::redact_urls;
use crate::domain::words::{from_now, plural_of};
use crate::engine::dead::{
    DeadDetail, DeadListQuery, DeadPage, DeadQueueView, DeadQueuesQuery, DeadSelection, searched,
};
use crate::engine::runs::OrderKind;
use crate::engine::view::Source;
use crate::engine::{EngineError, Query, query};
use crate::files;
use crate::wire::dead::{DeadLetter, Detail, Group, Queue, QueueRow, SentInstead};
use crate::wire::{self, Time, input, json};

use super::dead_args::{Dead, DeadExport, DeadForm, DeadSelected, Way};
use super::exit::{Exit, Failure};
use super::output::{Column, note, number, or_dash};
use super::when::{told, told_or_dash};
use super::{Session, compare, dead, runs, say, shown};

/// How long one question waits for looks under way.
const STEP: Duration = Duration::from_secs(1);
/// Between two questions, at least.
const PACE: Duration = Duration::from_millis(250);
/// How long it waits for the next look at a queue that changed since the last one.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a command waits for looks, all in all.
pub(super) const PATIENCE: Duration = Duration::from_mins(10);

const COLUMNS: &[Column] = &[
    Column::Text("id"),
    Column::Text("last failed"),
    Column::Text("reason"),
    Column::Number("status"),
    Column::Number("attempts"),
    Column::Number("redriven"),
    Column::Text("where"),
    Column::Text("message"),
    Column::Text("queue"),
    Column::Text("error"),
];

const GROUPS: &[Column] = &[
    Column::Number("count"),
    Column::Text("trend"),
    Column::Text("last failed"),
    Column::Text("what"),
    Column::Text("where"),
    Column::Text("group"),
];

const QUEUES: &[Column] = &[
    Column::Text("queue"),
    Column::Text("kind"),
    Column::Number("letters"),
    Column::Text("first failed"),
    Column::Text("last failed"),
    Column::Text("looked at"),
    Column::Text("fed by"),
    Column::Text("problem"),
];
/// Queues that one cell names.
const FEEDERS_SHOWN: usize = 5;

pub(super) async fn one(session: &Session<'_>, dead: &Dead) -> Result<Exit, Failure> {
    match dead {
        Dead::List {
            selected,
            sort,
            limit,
            cursor,
        } => list(session, selected, sort.as_deref(), *limit, cursor.as_deref()).await,
        Dead::Groups {
            selected,
            limit,
            cursor,
        } => groups(session, selected, *limit, cursor.as_deref()).await,
        Dead::Queues { filter, sort, limit } => queues(session, filter.as_ref(), sort.as_ref(), *limit).await,
        Dead::Show { id } => show(session, id).await,
        Dead::Compare(compared) => compare::compare(session, compared).await,
        Dead::Export(export) => export_to(session, export).await,
        Dead::Redrive { selected, way } => runs::order(session, OrderKind::Redrive, selected, way).await,
        Dead::Discard(selected) => runs::order(session, OrderKind::Discard, selected, &Way::default()).await,
        Dead::Restore(discarded) => runs::restore(session, discarded).await,
        Dead::Edit(edit) => dead::edit(session, edit).await,
        Dead::Patch(patch) => dead::patch(session, patch).await,
    }
}

async fn list(
    session: &Session<'_>,
    selected: &DeadSelected,
    sort: Option<&str>,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Exit, Failure> {
    let mut items: Vec<DeadLetter> = Vec::new();
    let mut cursor = cursor.map(str::to_owned);
    let (mut warned, mut is_whole) = (false, true);
    loop {
        let missing = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        let query = DeadListQuery {
            selection: selection(selected)?,
            sort: sort.map(str::to_owned),
            limit: missing.min(input::LIMIT_MAX),
            cursor,
            patience: STEP,
        };
        let page = looked(session, selected.queue.as_deref(), || query::Dead(query.clone())).await?;
        if !warned {
            session.output.problems(&page.problems);
            warn(session, &page);
            (warned, is_whole) = (true, page.problems.is_empty());
        }
        items.extend(page.page.items.iter().map(DeadLetter::from));
        cursor = page.page.next_cursor;
        if cursor.is_none() || items.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            break;
        }
    }
    if let Some(cursor) = cursor {
        session.output.tell(&format!("there are more: --cursor {cursor}"));
    }
    if items.is_empty() && is_whole {
        session.output.note(&nothing(session, selected));
    }
    session.output.list(&items, COLUMNS, |letter| {
        vec![
            letter.id.clone(),
            told_or_dash(letter.last_failed_at.as_deref()),
            letter.reason.clone(),
            letter
                .status
                .map_or_else(|| "-".to_owned(), |status| status.to_string()),
            letter
                .attempts
                .map_or_else(|| "-".to_owned(), |attempts| attempts.to_string()),
            letter.redriven.to_string(),
            letter.r#where.clone(),
            or_dash(letter.message_id.as_deref()),
            letter.queue.clone(),
            or_dash(letter.error.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

async fn groups(
    session: &Session<'_>,
    selected: &DeadSelected,
    limit: u32,
    cursor: Option<&str>,
) -> Result<Exit, Failure> {
    let query = DeadListQuery {
        selection: selection(selected)?,
        sort: None,
        limit,
        cursor: cursor.map(str::to_owned),
        patience: STEP,
    };
    let page = looked(session, selected.queue.as_deref(), || query::DeadGroups(query.clone())).await?;
    session.output.problems(&page.problems);
    warn(session, &page);
    if let Some(cursor) = &page.page.next_cursor {
        session.output.tell(&format!("there are more: --cursor {cursor}"));
    }
    let items: Vec<Group> = page.page.items.iter().map(Group::from).collect();
    if items.is_empty() && page.problems.is_empty() {
        session.output.note(&nothing(session, selected));
    }
    session.output.list(&items, GROUPS, |group| {
        vec![
            group.count.to_string(),
            group.trend.to_owned(),
            told_or_dash(group.last_failed_at.as_deref()),
            group.what.clone(),
            group.r#where.clone(),
            group.fingerprint.clone(),
        ]
    })?;
    Ok(Exit::Done)
}

async fn queues(
    session: &Session<'_>,
    filter: Option<&String>,
    sort: Option<&String>,
    limit: u32,
) -> Result<Exit, Failure> {
    let query = DeadQueuesQuery {
        filter: filter.cloned(),
        sort: sort.cloned(),
        limit,
        cursor: None,
        patience: STEP,
    };
    let page = looked(session, None, || query::DeadQueues(query.clone())).await?;
    session.output.problems(&page.problems);
    warn(session, &page);
    if page.page.next_cursor.is_some() {
        session.output.tell(&format!(
            "there are more than {limit} queues: raise --limit, or use --filter"
        ));
    }
    let items: Vec<QueueRow> = page.page.items.iter().map(QueueRow::from).collect();
    session.output.list(&items, QUEUES, |row| {
        vec![
            row.queue.name.clone(),
            kind(&row.queue),
            number(row.letters),
            told_or_dash(row.first_failed_at.as_deref()),
            told_or_dash(row.last_failed_at.as_deref()),
            told_or_dash(row.queue.looked_at.as_deref()),
            fed_by(row),
            or_dash(row.queue.problem.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

fn kind(queue: &Queue) -> String {
    let kind = queue.kind.unwrap_or("?");
    if queue.may_be_work {
        format!("{kind}, may be work")
    } else {
        kind.to_owned()
    }
}

/// The queues that letters come from, as far as there is room.
fn fed_by(row: &QueueRow) -> String {
    let names: Vec<String> = row
        .fed_by
        .iter()
        .take(FEEDERS_SHOWN)
        .map(|feeder| match feeder.exchange.as_deref() {
            None | Some("") => feeder.queue.clone(),
            Some(exchange) => format!("{} via {exchange}", feeder.queue),
        })
        .collect();
    let more = row.fed_by.len().saturating_sub(FEEDERS_SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "-".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

async fn show(session: &Session<'_>, id: &str) -> Result<Exit, Failure> {
    let query = query::OneDeadLetter {
        id: id.to_owned(),
        patience: PATIENCE,
    };
    let detail = session.engine.query(query).await?;
    let shape = Detail::from(&detail);
    let letter = &shape.letter;
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let headers: Vec<String> = detail
        .message
        .headers
        .iter()
        .map(|(name, value)| format!("{name}={}", value.shown(200)))
        .collect();
    let sent = shape.edited.as_ref();
    let target = match &detail.target {
        Ok(target) => target.to_string(),
        Err(problem) => format!("unknown: {problem}"),
    };
    session.output.facts(
        &shape,
        &[
            ("id", Some(letter.id.clone())),
            ("queue", Some(format!("{}, place {}", letter.queue, letter.position))),
            ("origin", letter.origin.clone()),
            ("target", Some(target)),
            ("message", letter.message_id.clone()),
            ("url", letter.url.clone()),
            ("execution", letter.execution_id.clone()),
            ("reason", Some(letter.reason.clone())),
            ("class", letter.class.clone()),
            ("status", number(letter.status.map(u64::from))),
            ("error", letter.error.clone()),
            ("attempts", number(letter.attempts)),
            ("first failed", letter.first_failed_at.as_deref().map(told)),
            ("last failed", letter.last_failed_at.as_deref().map(told)),
            ("expires", letter.expires_at.as_deref().map(told)),
            ("redriven", number(Some(letter.redriven.into()))),
            ("group", Some(letter.fingerprint.clone())),
            ("response", shape.response.clone()),
            ("headers", Some(headers.join("  "))),
            ("bytes", number(Some(letter.size_bytes))),
            ("body", shape.body.clone().or_else(|| shape.body_base64.clone())),
            ("edited", sent.map(edited)),
            (
                "sent body",
                sent.and_then(|sent| sent.body.clone().or_else(|| sent.body_base64.clone())),
            ),
        ],
    )?;
    Ok(Exit::Done)
}

fn edited(sent: &SentInstead) -> String {
    let at = told_or_dash(sent.at.as_deref());
    let kind = sent.content_type.as_deref().unwrap_or("no content type");
    let headers = plural_of(sent.headers.len(), "header", "headers");
    format!(
        "by {} {at}: a redrive sends what follows ({kind}, {headers}), not the message above",
        sent.actor
    )
}

pub(super) fn selection(selected: &DeadSelected) -> Result<DeadSelection, Failure> {
    Ok(DeadSelection {
        queue: selected.queue.as_deref().map(input::queue).transpose()?,
        group: selected.group.clone(),
        filter: selected.filter.clone(),
    })
}

/// Asks again until every look has ended, or that at one `queue`, with the progress on standard error. Where nobody's dead
/// letters go to that one, each question is a look at it, and one is enough.
async fn looked<T, Q: Query<Answer = DeadPage<T>>>(
    session: &Session<'_>,
    queue: Option<&str>,
    query: impl Fn() -> Q,
) -> Result<DeadPage<T>, Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a command's own patience, not the product's time"
    )]
    let started = Instant::now();
    let mut said: Vec<String> = Vec::new();
    let mut asked_at = None;
    loop {
        let page = session.engine.query(query()).await?;
        let asked = || {
            let views = page.queues.iter();
            views.filter(|view| queue.is_none_or(|queue| queue == view.name.as_str()))
        };
        let lines: Vec<String> = asked().filter_map(progress).collect();
        for line in lines.iter().filter(|line| !said.contains(line)) {
            session.output.note(line);
        }
        // Who asks once, right after a change, wants to see it: another process may have looked just before.
        let asked_at = *asked_at.get_or_insert(page.page.taken_at);
        let waits = started.elapsed() < AGAIN && asked().any(|view| view.changed_since_looked(asked_at));
        if (lines.is_empty() && !waits) || started.elapsed() > PATIENCE {
            return Ok(page);
        }
        said = lines;
        // A look of another process is waited for as well, and there the question comes back at once.
        ambient::sleep(PACE).await;
    }
}

/// Why there is nothing; said only where everything could be read.
fn nothing(session: &Session<'_>, selected: &DeadSelected) -> String {
    match (&selected.queue, &selected.filter, &selected.group) {
        (Some(queue), _, _) if session.engine.naming().is_delivery_queue(queue) => format!(
            "{} is a delivery queue: what is in it waits to be delivered and is no dead letter; see it with `redrive \
             queue browse {}`",
            shown(queue),
            shell_argument(&shown(queue))
        ),
        (Some(queue), None, None) => {
            format!("queue {} has no messages, or does not exist", shown(queue))
        }
        (None, None, None) => "no queue that an argument, a policy, a known framework or dead.queues names has dead \
                               letters; --queue NAME looks at any other"
            .to_owned(),
        _ => "no dead letter matches".to_owned(),
    }
}

/// How far the look at a queue is, while one is under way.
fn progress(queue: &DeadQueueView) -> Option<String> {
    let (seen, expected) = queue.looking?;
    let of = expected.map_or_else(String::new, |expected| format!(" of {expected}"));
    let name = shown(queue.name.as_str());
    Some(format!("looking at {name}: {seen}{of} messages seen"))
}

/// What the list leaves out, and what looking did.
fn warn<T>(session: &Session<'_>, page: &DeadPage<T>) {
    if session.output.is_json() {
        // The list itself is a bare array.
        let age =
            serde_json::json!({"as_of": page.as_of.and_then(wire::time), "taken_at": wire::time(page.page.taken_at)});
        note(&String::from_utf8_lossy(&json::compact(&age)));
    } else {
        note(&match page.as_of {
            Some(at) => format!("as of {}", from_now(at, page.page.taken_at)),
            None => "as of before the last change: a queue could not be looked at since".to_owned(),
        });
    }
    let is_told = |queue: &DeadQueueView| {
        let mut told = page.problems.iter();
        told.any(|unread| matches!(&unread.source, Source::Queue(name) if *name == queue.name))
    };
    for queue in page.queues.iter().filter(|queue| !is_told(queue)) {
        if let Some(problem) = &queue.problem {
            let line = format!("{}: {}", shown(queue.name.as_str()), shown(problem));
            session.output.tell(&line);
        }
    }
    for queue in page
        .queues
        .iter()
        .filter(|queue| queue.may_be_work && queue.messages != Some(0))
    {
        let name = shown(queue.name.as_str());
        let line = format!("{name} may be a queue of work: what is listed of it is in no sum");
        session.output.note(&line);
    }
    if page
        .queues
        .iter()
        .any(|queue| queue.messages.is_some_and(|messages| messages > 0))
    {
        session
            .output
            .note("the broker marks messages that were looked at as redelivered");
    }
    let is_ours = |queue: &DeadQueueView| queue.kind == Some(DeadQueueKind::Own);
    if page.problems.is_empty() && !page.queues.iter().any(is_ours) {
        session
            .output
            .note("looked without declaring anything: nothing on this vhost is redrive's");
    }
}

async fn export_to(session: &Session<'_>, export: &DeadExport) -> Result<Exit, Failure> {
    let mut letters = session.engine.export_dead(selection(&export.selected)?).await?;
    let mut sink = Sink::open(export)?;
    let mut missing: BTreeSet<&str> = export.ids.iter().map(String::as_str).collect();
    let mut count = 0_u64;
    let mut lacks = None;
    while let Some(exported) = letters.recv().await {
        let (detail, _memory) = match exported {
            Err(error @ EngineError::Unread(_)) => {
                lacks = Some(error);
                break;
            }
            exported => exported?,
        };
        let id = detail.letter.id.as_str();
        if !export.ids.is_empty() && !export.ids.iter().any(|named| named == id) {
            continue;
        }
        missing.remove(id);
        sink.put(&detail)?;
        count += 1;
    }
    sink.end()?;
    say(&format!(
        "{count} dead letters exported; they are still in their queues"
    ));
    if let Some(lacks) = lacks {
        return Err(lacks.into());
    }
    if missing.is_empty() {
        return Ok(Exit::Done);
    }
    let missing: Vec<&str> = missing.into_iter().collect();
    let partial = missing.iter().find(|id| DeadLetterId::parse(id).is_none());
    let whole = partial.map_or_else(String::new, |id| format!(" ({})", searched(id)));
    let missing = missing.join(" or ");
    let DeadSelected { queue, group, filter } = &export.selected;
    let said = if queue.is_some() || group.is_some() || filter.is_some() {
        format!("none of the dead letters that --queue, --group or --filter selects has the id {missing}{whole}")
    } else {
        format!("no dead letter has the id {missing}{whole}")
    };
    Err(Failure::new(Exit::NotFound, said))
}

/// Where an export goes.
struct Sink {
    form: DeadForm,
    out: Out,
}

enum Out {
    Standard(BufWriter<Stdout>),
    File(BufWriter<files::NewFile>),
    /// A file for each letter.
    Directory(PathBuf),
}

impl Sink {
    fn open(export: &DeadExport) -> Result<Self, Failure> {
        let path = export.output.as_deref().filter(|path| *path != Path::new("-"));
        let out = match (path, export.format) {
            (Some(path), DeadForm::Raw) => {
                files::make_directory(path)?;
                Out::Directory(path.to_owned())
            }
            (Some(path), _) => Out::File(BufWriter::new(files::NewFile::create(path)?)),
            (None, form) => {
                let stdout = std::io::stdout();
                refuse_raw(form, stdout.is_terminal())?;
                Out::Standard(BufWriter::new(stdout))
            }
        };
        let mut sink = Self {
            form: export.format,
            out,
        };
        if export.format == DeadForm::Csv {
            sink.write(format!("{}\n", CSV.join(",")).as_bytes())?;
        }
        Ok(sink)
    }

    fn put(&mut self, detail: &DeadDetail) -> std::io::Result<()> {
        match self.form {
            DeadForm::Jsonl => {
                self.write(&json::compact(&Detail::from(detail)))?;
                self.write(b"\n")
            }
            DeadForm::Csv => self.write(format!("{}\n", csv_line(&DeadLetter::from(&detail.letter))).as_bytes()),
            DeadForm::Raw => match &self.out {
                // An id is hex digits and dots.
                Out::Directory(directory) => {
                    files::write_new(&directory.join(detail.letter.id.as_str()), &detail.message.body)
                }
                Out::Standard(_) | Out::File(_) => self.write(&detail.message.body),
            },
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.out {
            Out::Standard(out) => out.write_all(bytes),
            Out::File(file) => file.write_all(bytes),
            Out::Directory(_) => Ok(()),
        }
    }

    fn end(self) -> std::io::Result<()> {
        match self.out {
            Out::Standard(mut out) => out.flush(),
            Out::File(file) => file.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish(),
            Out::Directory(_) => Ok(()),
        }
    }
}

/// A publisher chooses these bytes, and a terminal acts on some of them.
fn refuse_raw(form: DeadForm, terminal: bool) -> Result<(), Failure> {
    if form == DeadForm::Raw && terminal {
        return Err(Failure::new(
            Exit::Usage,
            "raw bodies are not written to a terminal: give --output DIRECTORY, or redirect the output",
        ));
    }
    Ok(())
}

const CSV: [&str; 16] = [
    "id",
    "queue",
    "origin",
    "message_id",
    "url",
    "reason",
    "class",
    "status",
    "error",
    "attempts",
    "first_failed_at",
    "last_failed_at",
    "expires_at",
    "redriven",
    "fingerprint",
    "size_bytes",
];

fn csv_line(letter: &DeadLetter) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let time = |time: &Option<Time>| time.clone().map(String::from).unwrap_or_default();
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let fields = [
        letter.id.clone(),
        letter.queue.clone(),
        text(&letter.origin),
        text(&letter.message_id),
        text(&letter.url),
        letter.reason.clone(),
        text(&letter.class),
        number(letter.status.map(u64::from)),
        text(&letter.error),
        number(letter.attempts),
        time(&letter.first_failed_at),
        time(&letter.last_failed_at),
        time(&letter.expires_at),
        letter.redriven.to_string(),
        letter.fingerprint.clone(),
        letter.size_bytes.to_string(),
    ];
    fields
        .iter()
        // A table of people is passed on: it has no value of a URL's query, as any table.
        .map(|field| csv_field(&shown(&redact_urls(field))))
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bodies_are_never_written_to_a_terminal() {
        assert!(refuse_raw(DeadForm::Raw, true).is_err());
        assert!(refuse_raw(DeadForm::Raw, false).is_ok());
        assert!(refuse_raw(DeadForm::Jsonl, true).is_ok());
    }
}
