//! What services do: publish, end. Nobody is asked.

use crate::engine::{EngineError, EngineHandle, NewNotification, calls, query};
use crate::wire::input;
use crate::wire::publish::{EndedShape, Published};

use super::args::{Publish, Target};
use super::exit::{Exit, Failure};
use super::{Session, given, say};

pub(super) async fn publish(session: &Session<'_>, publish: &Publish) -> Result<Exit, Failure> {
    let mut headers = given::headers(&publish.headers)?;
    let content_type = input::take_content_type(&mut headers);
    let id = match publish.id.as_deref() {
        Some(id) => input::id(id)?,
        None => input::id(&crate::ambient::new_id())?,
    };
    let new = NewNotification {
        id: Some(id.clone()),
        execution: input::execution(&publish.target.execution)?,
        url: input::url(&publish.target.url)?,
        headers,
        content_type,
        body: publish
            .body_file
            .as_deref()
            .map(given::body)
            .transpose()?
            .unwrap_or_default(),
        polling_time_s: publish.polling_time,
        restart_count: publish.restart_count,
    };
    // The daemons of this configuration would deliver nothing to it; one that this is attached to says so itself.
    if let EngineHandle::Local(engine) = session.engine {
        engine.check_url(&new.url)?;
    }
    if session.cli.global.dry_run {
        let queue = session.engine.delivery_queue(&new.execution, &new.url).await?;
        say("not published: this is what would be");
        let shape = Published {
            id: id.as_str().to_owned(),
            queue: queue.as_str().to_owned(),
            warning: None,
        };
        return print_published(session, &shape);
    }
    match session.engine.call(calls::Publish { new }, &session.grant()?).await {
        Ok(receipt) => {
            warn_of_nobody(session).await;
            print_published(session, &Published::from(&receipt))
        }
        Err(error) => {
            // The caller repeats with the same id, also where it was made up here; what is wrong is not worth it.
            if error.is_unreachable() || matches!(error, EngineError::Unconfirmed { .. }) {
                say(&format!("id {} is not confirmed", id.as_str()));
            }
            Err(error.into())
        }
    }
}

/// The store may be another one than that of the daemons: of another user, or of another configuration.
async fn warn_of_nobody(session: &Session<'_>) {
    let EngineHandle::Local(_) = session.engine else {
        return;
    };
    let Ok(all) = session.engine.query(query::Incarnations()).await else {
        return;
    };
    if !all.iter().any(|one| one.alive && one.delivers) {
        say(
            "no daemon works with this store: the notification waits until `redrive --daemon` is started as this user, with this configuration",
        );
    }
}

fn print_published(session: &Session<'_>, shape: &Published) -> Result<Exit, Failure> {
    if let Some(warning) = &shape.warning {
        say(warning);
    }
    let facts = [("id", Some(shape.id.clone())), ("queue", Some(shape.queue.clone()))];
    session.output.facts(shape, &facts)?;
    Ok(Exit::Done)
}

pub(super) async fn end(session: &Session<'_>, target: &Target) -> Result<Exit, Failure> {
    let (execution, url) = (input::execution(&target.execution)?, input::url(&target.url)?);
    if session.cli.global.dry_run {
        let queue = session.engine.delivery_queue(&execution, &url).await?;
        say("not ended: this is the queue that would be");
        session.output.facts(
            &serde_json::json!({"queue": queue.as_str()}),
            &[("queue", Some(queue.as_str().to_owned()))],
        )?;
        return Ok(Exit::Done);
    }
    let end = calls::End { execution, url };
    let shape = EndedShape::from(&session.engine.call(end, &session.grant()?).await?);
    if !shape.marked {
        say("there is no such queue: nothing to end");
    }
    if let Some(warning) = &shape.warning {
        say(warning);
    }
    let facts = [("id", shape.id.clone()), ("queue", Some(shape.queue.clone()))];
    session.output.facts(&shape, &facts)?;
    Ok(Exit::Done)
}
