//! What came of a command: each kind of answer is printed in one way, whichever command it came of.

use crate::domain::run::RunWish;
use crate::engine::events::EventsDone;
use crate::engine::expiring::ExpiringOutcome;
use crate::engine::{Done, Redelivered as RedeliveredView, Tested};
use crate::wire::event::Event as EventShape;
use crate::wire::expiring::ExpiringOutcomeShape;
use crate::wire::plan::{self, Asked, Redelivered};

use super::exit::{Exit, Failure};
use super::output::{Column, document, note, or_dash, say};
use super::{Session, endpoints, events, policies, queues, runs};

/// How a command was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// How many things it names.
    pub(super) asked: Asked,
    /// What is done about a run that came of it.
    pub(super) run: OfRun,
}

/// What is done about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfRun {
    /// It is printed as it is now.
    Shown,
    /// It is followed to its end.
    Followed,
    /// It is left to a daemon, where one is alive.
    Detached,
}

impl How {
    /// It names one thing.
    pub(super) const ONE: Self = Self {
        asked: Asked::One,
        run: OfRun::Shown,
    };

    pub(super) const fn of(asked: Asked) -> Self {
        Self { asked, ..Self::ONE }
    }

    pub(super) const fn run(self, run: OfRun) -> Self {
        Self { run, ..self }
    }
}

impl OfRun {
    /// What is done about a run that was started (`--detach`).
    pub(super) const fn started(detach: bool) -> Self {
        if detach { Self::Detached } else { Self::Followed }
    }

    pub(super) const fn wished(wish: RunWish) -> Self {
        match wish {
            RunWish::Resume => Self::Followed,
            RunWish::Pause | RunWish::Cancel => Self::Shown,
        }
    }
}

type Facts = Vec<(&'static str, Option<String>)>;

/// Prints what came of a command, and says how that ends.
pub(super) async fn tell(session: &Session<'_>, done: &Done, how: How) -> Result<Exit, Failure> {
    let facts: Facts = match done {
        Done::Run(run) => {
            return match how.run {
                OfRun::Shown => {
                    runs::print(session, run)?;
                    Ok(Exit::Done)
                }
                OfRun::Followed => runs::follow(session, run, false).await,
                OfRun::Detached => runs::follow(session, run, true).await,
            };
        }
        Done::Events(done) => return of_events(session, done, how.asked),
        Done::Expiring(outcomes) => return of_expiring(session, outcomes),
        Done::Policy(view) => {
            policies::shown(session.output, view)?;
            return Ok(Exit::Done);
        }
        Done::Redelivered(list) if !session.output.is_json() => return redelivered(session, list),
        // As a document.
        Done::Redelivered(_) => Vec::new(),
        Done::Queue(view) => queues::facts(view),
        Done::Endpoint(view) => endpoints::facts(view),
        Done::Tested(tested) => of_test(tested),
        Done::Purged { queue, messages } => vec![
            ("purged", Some(queue.as_str().to_owned())),
            ("messages", Some(messages.to_string())),
        ],
        Done::Deleted { queue, messages } => vec![
            ("deleted", Some(queue.as_str().to_owned())),
            ("messages", Some(messages.to_string())),
        ],
        Done::Rescued { queue, id } => vec![
            ("rescued from", Some(queue.as_str().to_owned())),
            ("id", Some(id.to_string())),
        ],
        Done::Patched { letters, .. } => vec![("patched", Some(letters.to_string()))],
        Done::Edited(letter) => vec![("edited", Some(letter.id.clone()))],
        Done::Adopted { store } => vec![("the broker is delivered by the store", Some(store.clone()))],
        Done::VhostMade { vhost } => vec![("made vhost", Some(vhost.clone()))],
    };
    session.output.facts(&plan::done(done, how.asked), &facts)?;
    let Done::Patched { left: 1.., why, .. } = done else {
        return Ok(Exit::Done);
    };
    for why in why {
        say(why);
    }
    Ok(Exit::Partly)
}

const REDELIVERED: &[Column] = &[Column::Text("endpoint"), Column::Text("was"), Column::Number("queues")];

fn redelivered(session: &Session<'_>, list: &[RedeliveredView]) -> Result<Exit, Failure> {
    let rows: Vec<Redelivered> = list.iter().map(Redelivered::from).collect();
    session.output.list(&rows, REDELIVERED, |row| {
        vec![row.url.clone(), row.before.to_owned(), row.queues.to_string()]
    })?;
    for row in rows.iter().filter(|row| row.paused) {
        say(&format!(
            "nothing is sent to {} until `redrive endpoint resume`: it is paused, or its canary is over",
            row.url
        ));
    }
    Ok(Exit::Done)
}

fn of_test(tested: &Tested) -> Facts {
    vec![
        ("endpoint", Some(tested.url.as_str().to_owned())),
        ("method", Some(tested.method.clone())),
        ("outcome", Some(tested.class.as_str().to_owned())),
        ("status", tested.status.map(|status| status.to_string())),
        ("error", tested.error.clone()),
        ("took", Some(format!("{} ms", tested.duration_ms))),
    ]
}

fn of_events(session: &Session<'_>, done: &EventsDone, asked: Asked) -> Result<Exit, Failure> {
    let is_json = session.output.is_json();
    if is_json {
        document(&crate::wire::event::done(done, asked))?;
    }
    let (changed, skipped) = match done {
        EventsDone::Changed { events, skipped } => (events, skipped),
        EventsDone::Type(_) | EventsDone::Subscribed(_) | EventsDone::Unsubscribed(_) => {
            if !is_json {
                note("done");
            }
            return Ok(Exit::Done);
        }
    };
    if !is_json {
        events::print(session, &changed.iter().map(EventShape::from).collect::<Vec<_>>())?;
    }
    for (id, why) in skipped {
        say(&format!("event {id} was left alone: {why}"));
    }
    Ok(if skipped.is_empty() { Exit::Done } else { Exit::Partly })
}

const OUTCOMES: &[Column] = &[
    Column::Text("queue"),
    Column::Text("result"),
    Column::Number("messages"),
    Column::Number("bytes"),
    Column::Text("save"),
    Column::Text("why"),
];

fn of_expiring(session: &Session<'_>, outcomes: &[ExpiringOutcome]) -> Result<Exit, Failure> {
    let shapes: Vec<ExpiringOutcomeShape> = outcomes.iter().map(ExpiringOutcomeShape::from).collect();
    session.output.list(&shapes, OUTCOMES, |outcome| {
        vec![
            outcome.name.clone(),
            outcome.result.to_owned(),
            outcome.messages.to_string(),
            outcome.bytes.to_string(),
            or_dash(outcome.save.as_deref()),
            or_dash(outcome.why.as_deref()),
        ]
    })?;
    let left = shapes.iter().filter(|outcome| outcome.why.is_some()).count();
    let moved = shapes.iter().any(|outcome| outcome.messages > 0);
    Ok(if left == 0 {
        Exit::Done
    } else if left < shapes.len() || moved {
        Exit::Partly
    } else {
        Exit::Refused
    })
}
