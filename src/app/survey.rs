//! Another profile, looked at once: opened as a command would open it, read, and closed; nothing is made or changed there.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{attach, console};
use crate::cli::Exit;
use crate::config::{BrokerKind, Config, ConfigChoice, Environment};
use crate::console::state::settings::{LookProblem, Survey};
use crate::domain::schema::SchemaMode;
use crate::domain::text::show;
use crate::engine::EngineHandle;
use crate::engine::snapshot::Snapshot;

/// Between two looks; only the first one counts, unless something of it could not be read.
const REFRESH: Duration = Duration::from_secs(2);
/// Looks that are waited for where something is not read yet.
const LOOKS_MAX: usize = 3;
/// Columns of what is wrong.
const PROBLEM_MAX: usize = 400;

/// Looks at the profiles of the file that was read at the start.
pub(super) fn survey(choice: ConfigChoice, environment: Environment) -> Survey {
    Survey::new(move |profile| {
        let choice = ConfigChoice {
            profile: Some(profile),
            broker: None,
            ..choice.clone()
        };
        look(choice, environment.clone())
    })
}

async fn look(choice: ConfigChoice, environment: Environment) -> Result<Arc<Snapshot>, LookProblem> {
    let config = Config::load(&choice, &environment).map_err(|error| closed(&error.to_string()))?;
    let engine = open(&config, &environment).await?;
    let stop = CancellationToken::new();
    let snapshot = newest(&engine, stop.clone()).await;
    stop.cancel();
    engine.close().await;
    snapshot.ok_or_else(|| unread("it was closed before it was read"))
}

async fn open(config: &Config, environment: &Environment) -> Result<EngineHandle, LookProblem> {
    let target = attach::of_profile(config, environment).map_err(|failure| closed(&failure.causes().join(": ")))?;
    if let Some(target) = target {
        return attach::engine(&target).await.map_err(|error| {
            // Without a token, a console there asks for one.
            if error.waiting_helps || !target.has_token() {
                unread(&error.why)
            } else {
                closed(&error.why)
            }
        });
    }
    let engine = console::owned(config, SchemaMode::Expect).await.map_err(|error| {
        let why = error.failure.causes().join(": ");
        let is_made = makes_its_store(config) && error.failure.exit() == Exit::Configuration;
        if error.waiting_helps || is_made {
            unread(&why)
        } else {
            closed(&why)
        }
    })?;
    Ok(EngineHandle::from(engine))
}

/// Whether a console makes what is missing in its store, which a look does not.
fn makes_its_store(config: &Config) -> bool {
    config.store.is_default() || matches!(config.broker.kind, BrokerKind::Embedded)
}

fn closed(text: &str) -> LookProblem {
    LookProblem {
        is_closed: true,
        ..unread(text)
    }
}

fn unread(text: &str) -> LookProblem {
    LookProblem {
        text: show(text, PROBLEM_MAX),
        is_closed: false,
    }
}

/// What was read, once both broker and store were, or could not be for a while.
async fn newest(engine: &EngineHandle, stop: CancellationToken) -> Option<Arc<Snapshot>> {
    let mut snapshots = engine.observe(REFRESH, stop).snapshots();
    let mut newest = None;
    for _ in 0..LOOKS_MAX {
        snapshots.changed().await.ok()?;
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let is_whole = snapshot.broker.taken_at.is_some() && snapshot.store.taken_at.is_some();
        newest = Some(snapshot);
        if is_whole {
            break;
        }
    }
    newest
}
