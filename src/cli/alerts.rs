//! A test of who is told of bad turns.

use serde_json::json;

use super::Session;
use super::exit::{Exit, Failure};

pub(super) async fn test(session: &Session<'_>, name: &str) -> Result<Exit, Failure> {
    session.engine.alert_test(name).await?;
    let facts = [("alert", Some(name.to_owned())), ("test", Some("was taken".to_owned()))];
    session.output.facts(&json!({"alert": name, "taken": true}), &facts)?;
    Ok(Exit::Done)
}
