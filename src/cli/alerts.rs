//! A test of who is told of bad turns.

use serde_json::json;

use super::Session;
use super::exit::{Exit, Failure};
use super::output::say;
use super::who::actor;

pub(super) async fn test(session: &Session<'_>, name: &str) -> Result<Exit, Failure> {
    if session.cli.global.dry_run {
        say("nobody was told: this is what would be tested");
        session.output.facts(
            &json!({"alert": name, "taken": false}),
            &[("alert", Some(name.to_owned()))],
        )?;
        return Ok(Exit::Done);
    }
    let reason = session.cli.global.reason.clone();
    let grant = session.access.grant(&actor("cli"), reason);
    let grant = grant.ok_or_else(|| Failure::refused("this is read-only: nobody was told"))?;
    session
        .engine
        .here("the test of an alert")?
        .alert_test(name, &grant)
        .await?;
    let facts = [("alert", Some(name.to_owned())), ("test", Some("was taken".to_owned()))];
    session.output.facts(&json!({"alert": name, "taken": true}), &facts)?;
    Ok(Exit::Done)
}
