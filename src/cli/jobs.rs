//! Jobs: submit one, follow one to its result, list them, and a worker's messages.

use std::collections::VecDeque;
use std::io::IsTerminal as _;

use crate::domain::job::{JobId, JobPart, Lifetime};
use crate::engine::jobs::{ConnectOptions, JobMessage};
use crate::engine::{calls, query};
use crate::wire::input;
use crate::wire::job::{Content, JobListedShape, JobOutcome, JobShape, part};
use crate::wire::problem::Problem;

use super::Session;
use super::args::{JobCommand, JobConnect, JobPublish, JobSubmit};
use super::exit::{Exit, Failure};
use super::given::body;
use super::output::{Column, note, number, print, say, shown};
use crate::domain::words::{about as span, lasts};

/// Messages about progress and state that are kept for `--json`.
const KEPT_MAX: usize = 1_000;

pub(super) async fn run(session: &Session<'_>, job: &JobCommand) -> Result<Exit, Failure> {
    match job {
        JobCommand::Submit(submit) => self::submit(session, submit).await,
        JobCommand::Connect(connect) => self::connect(session, connect).await,
        JobCommand::List => list(session).await,
        JobCommand::Publish(publish) => self::publish(session, publish).await,
    }
}

async fn submit(session: &Session<'_>, submit: &JobSubmit) -> Result<Exit, Failure> {
    let id = match &submit.id {
        Some(id) => input::job(id)?,
        None => input::job(&crate::ambient::new_id())?,
    };
    let lifetime = match submit.ttl.as_deref() {
        Some(text) => self::lifetime(text)?,
        None => session.engine.query(query::JobLifetime()).await?,
    };
    if session.cli.global.dry_run {
        say("not submitted: this is what would be");
    } else {
        let submit = calls::SubmitJob {
            id: id.clone(),
            lifetime,
        };
        session.engine.call(submit, &session.grant()?).await?;
    }
    print_job(session, &JobShape::new(&id, Some(lifetime)))
}

async fn connect(session: &Session<'_>, connect: &JobConnect) -> Result<Exit, Failure> {
    let id = input::job(&connect.id)?;
    let lifetime = connect.ttl.as_deref().map(self::lifetime).transpose()?;
    // To follow it would take its messages.
    if connect.check || session.cli.global.dry_run {
        let job = session.engine.query(query::OneJob(id, lifetime)).await?;
        return print_job(session, &JobShape::from(&job));
    }
    let options = ConnectOptions {
        reconnect: true,
        auto_cleanup_after_ttl: lifetime,
        auto_disconnect_on_result: true,
    };
    let mut connection = session
        .engine
        .here("following a job")?
        .connect_to_submitted_job(id.clone(), options)
        .await?;
    let mut followed = Followed::default();
    while let Some(message) = connection.next().await? {
        followed.take(session, &message)?;
    }
    if session.output.is_json() {
        super::output::document(&followed.outcome(&id))?;
    }
    Ok(Exit::Done)
}

async fn list(session: &Session<'_>) -> Result<Exit, Failure> {
    let jobs = session.engine.query(query::Jobs()).await?;
    let now = crate::ambient::Clock::system().now();
    let shapes: Vec<JobListedShape> = jobs.iter().map(|job| JobListedShape::new(job, now)).collect();
    let columns = [
        Column::Text("job"),
        Column::Number("messages"),
        Column::Number("consumers"),
        Column::Text("unused for"),
        Column::Text("lifetime"),
    ];
    session.output.list(&shapes, &columns, |job| {
        let seconds = |seconds: f64| span(std::time::Duration::from_secs_f64(seconds.max(0.0)));
        vec![
            job.job.id.clone(),
            number(job.messages),
            job.consumers.to_string(),
            job.idle_s.map_or_else(|| "-".to_owned(), seconds),
            job.job.ttl_s.map_or_else(|| "never".to_owned(), seconds),
        ]
    })?;
    Ok(Exit::Done)
}

async fn publish(session: &Session<'_>, publish: &JobPublish) -> Result<Exit, Failure> {
    let (id, part) = (input::job(&publish.id)?, part(&publish.part)?);
    let body = publish.body_file.as_deref().map(body).transpose()?.unwrap_or_default();
    if session.cli.global.dry_run {
        session.engine.query(query::OneJob(id.clone(), None)).await?;
        say("not published: this is where it would be");
    } else {
        let publish = calls::PublishToJob {
            id: id.clone(),
            part,
            content_type: publish.content_type.clone(),
            body,
        };
        session.engine.call(publish, &session.grant()?).await?;
    }
    let queue = id.queue(part).as_str().to_owned();
    session.output.facts(
        &serde_json::json!({"id": id.as_str(), "queue": queue}),
        &[("id", Some(id.as_str().to_owned())), ("queue", Some(queue.clone()))],
    )?;
    Ok(Exit::Done)
}

fn print_job(session: &Session<'_>, shape: &JobShape) -> Result<Exit, Failure> {
    let facts = [
        ("id", Some(shape.id.clone())),
        ("result", Some(shape.queues.result.clone())),
        ("progress", Some(shape.queues.progress.clone())),
        ("status", Some(shape.queues.status.clone())),
        (
            "lifetime",
            Some(shape.ttl_s.map_or_else(
                || "never".to_owned(),
                |seconds| format!("{} unused", lasts(std::time::Duration::from_secs_f64(seconds))),
            )),
        ),
    ];
    session.output.facts(shape, &facts)?;
    Ok(Exit::Done)
}

fn lifetime(text: &str) -> Result<Lifetime, Failure> {
    if text.eq_ignore_ascii_case("never") {
        return Ok(Lifetime::Never);
    }
    let wrong = || {
        Problem::field(
            "ttl",
            format!("ttl is {text:?}; possible are seconds, such as 3600, or never"),
        )
    };
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Ok(Lifetime::from_seconds(seconds).map_err(|error| Problem::field(error.field, error.to_string()))?)
}

/// What came so far.
#[derive(Default)]
struct Followed {
    progress: VecDeque<Content>,
    status: VecDeque<Content>,
    result: Option<Content>,
}

impl Followed {
    /// Tells a message: what is on the way on standard error, the result on standard output.
    fn take(&mut self, session: &Session<'_>, message: &JobMessage) -> Result<(), Failure> {
        let content = Content::from(&message.message);
        match message.part {
            JobPart::Result => {
                if !session.output.is_json() {
                    print_result(&message.message.body)?;
                }
                self.result = Some(content);
            }
            JobPart::Progress => tell(&mut self.progress, "progress", content),
            JobPart::Status => tell(&mut self.status, "status", content),
        }
        Ok(())
    }

    fn outcome(self, id: &JobId) -> JobOutcome {
        JobOutcome {
            id: id.as_str().to_owned(),
            result: self.result,
            progress: self.progress.into(),
            status: self.status.into(),
        }
    }
}

fn tell(kept: &mut VecDeque<Content>, what: &str, content: Content) {
    let text = content
        .body
        .as_deref()
        .or(content.body_base64.as_deref())
        .unwrap_or_default();
    note(&format!("{what}: {}", shown(text)));
    if kept.len() == KEPT_MAX {
        kept.pop_front();
    }
    kept.push_back(content);
}

/// Byte for byte for a program, made safe for a terminal.
fn print_result(body: &[u8]) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() {
        let text = String::from_utf8_lossy(body);
        return print(format!("{}\n", shown(&text)).as_bytes());
    }
    print(body)
}
