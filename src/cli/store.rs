//! The store as a whole.

use crate::engine::{Command, Done};
use crate::wire::plan::{self, Asked};

use super::Session;
use super::args::StoreCommand;
use super::exit::{Exit, Failure};

pub(super) async fn run(session: &Session<'_>, command: &StoreCommand) -> Result<Exit, Failure> {
    let StoreCommand::Adopt = command;
    let Some(done) = session.act(Command::AdoptBroker).await? else {
        return Ok(Exit::Done);
    };
    let store = if let Done::Adopted { store } = &done {
        Some(store.clone())
    } else {
        None
    };
    let facts = [("the broker is delivered by the store", store)];
    session.output.facts(&plan::done(&done, Asked::One), &facts)?;
    Ok(Exit::Done)
}
