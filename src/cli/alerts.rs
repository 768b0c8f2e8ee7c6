//! A test of who is told of bad turns.

use serde_json::json;

use crate::engine::{calls, query};

use super::Session;
use super::exit::{Exit, Failure};
use super::output::say;

pub(super) async fn test(session: &Session<'_>, name: &str) -> Result<Exit, Failure> {
    if session.cli.global.dry_run {
        session.engine.query(query::Alert(name.to_owned())).await?;
        say("nobody was told: this is what would be tested");
        session.output.facts(
            &json!({"alert": name, "taken": false}),
            &[("alert", Some(name.to_owned()))],
        )?;
        return Ok(Exit::Done);
    }
    let test = calls::TestAlert { name: name.to_owned() };
    session.engine.call(test, &session.grant()?).await?;
    let facts = [("alert", Some(name.to_owned())), ("test", Some("was taken".to_owned()))];
    session.output.facts(&json!({"alert": name, "taken": true}), &facts)?;
    Ok(Exit::Done)
}
