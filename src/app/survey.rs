//! Another profile, looked at once: opened as a command would open it, read, and closed; nothing is made or changed there.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{attach, compose};
use crate::config::{Config, ConfigChoice, Environment};
use crate::console::state::settings::Survey;
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

async fn look(choice: ConfigChoice, environment: Environment) -> Result<Arc<Snapshot>, String> {
    let safe = |text: String| show(&text, PROBLEM_MAX);
    let config = Config::load(&choice, &environment).map_err(|error| safe(error.to_string()))?;
    let engine = open(&config, &environment).await.map_err(safe)?;
    let stop = CancellationToken::new();
    let snapshot = newest(&engine, stop.clone()).await;
    stop.cancel();
    engine.close().await;
    snapshot.ok_or_else(|| "it was closed before it was read".to_owned())
}

async fn open(config: &Config, environment: &Environment) -> Result<EngineHandle, String> {
    if let Some(target) = attach::of_profile(config, environment).map_err(|failure| failure.causes().join(": "))? {
        return attach::engine(&target).await;
    }
    let engine = compose::engine(config, SchemaMode::Expect, None, compose::memory(config)).await;
    let engine = engine.map_err(|error| error.failure.causes().join(": "))?;
    Ok(EngineHandle::from(engine))
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
