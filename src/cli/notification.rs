//! One notification: what became of it.

use crate::engine::query;
use crate::wire::input;
use crate::wire::notification::Notification as Shape;

use super::Session;
use super::delivery_args::Notification;
use super::exit::{Exit, Failure};
use super::when::told;

pub(super) async fn one(session: &Session<'_>, which: &Notification) -> Result<Exit, Failure> {
    let Notification::Show { id, queue } = which;
    let query = query::Notification {
        id: input::id(id)?,
        queue: queue.as_deref().map(input::queue).transpose()?,
    };
    let view = session.engine.query(query).await?;
    session.output.problems(&view.problems);
    let shape = Shape::from(&view);
    session.output.facts(&shape, &facts(&shape))?;
    Ok(Exit::Done)
}

fn facts(shape: &Shape) -> Vec<(&'static str, Option<String>)> {
    let last = shape.last_attempt.as_ref();
    let mut facts = vec![
        ("notification", Some(shape.id.clone())),
        ("state", Some(shape.state.to_owned())),
        ("what", Some(shape.text.clone())),
        ("queue", shape.queue.clone()),
        ("endpoint", shape.url.clone()),
        ("delivered", shape.delivered_at.as_deref().map(told)),
        ("attempts", shape.attempts.map(|number| number.to_string())),
        (
            "last attempt",
            last.and_then(|last| last.started_at.as_deref().map(told)),
        ),
        (
            "last status",
            last.and_then(|last| last.status.map(|status| status.to_string())),
        ),
        ("last error", last.and_then(|last| last.error.clone())),
        ("next attempt", shape.next_attempt_at.as_deref().map(told)),
    ];
    for letter in &shape.dead {
        let expires = letter.expires_at.as_deref().map(told);
        let expires = expires.map_or_else(String::new, |at| format!(", expires {at}"));
        facts.push((
            "dead letter",
            Some(format!("{} in {}{expires}", letter.id, letter.queue)),
        ));
    }
    facts
}
