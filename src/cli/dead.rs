//! Dead letters.

use crate::engine::runs::OrderKind;

use super::Session;
use super::args::Dead;
use super::exit::{Exit, Failure};
use super::runs;

pub(super) async fn one(session: &Session<'_>, dead: &Dead) -> Result<Exit, Failure> {
    let (kind, selected) = match dead {
        Dead::Redrive(selected) => (OrderKind::Redrive, selected),
        Dead::Discard(selected) => (OrderKind::Discard, selected),
        Dead::Restore(selected) => (OrderKind::Restore, selected),
    };
    runs::order(session, kind, selected).await
}

pub(super) const fn changes_something(dead: &Dead) -> bool {
    match dead {
        Dead::Redrive(_) | Dead::Discard(_) | Dead::Restore(_) => true,
    }
}
