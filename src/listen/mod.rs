//! A receiver for development: it takes what redrive sends, shows it, judges it, and answers as it was told to.
//!
//! Promises: every request is shown once, in the order in which it came in whole; nothing from outside acts on the
//! terminal; connections, heads, bodies and what is remembered are bounded; a slow reader of the output holds the
//! senders up, and nothing piles up for it. Left out on purpose: TLS, a store (it forgets at its end), and any
//! refusal by itself: a wrong signature is shown, not punished.

mod answers;
mod ledger;
mod received;
mod server;
mod shown;

use std::io::Write;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::ambient::Clock;
use crate::domain::signature::SigningSecret;

pub use answers::{Answer, Answers, STATUS_MAX, STATUS_MIN, ScriptError};
pub use ledger::Summary;

/// How to receive.
#[derive(Debug)]
pub struct ListenSettings {
    /// What is answered.
    pub answers: Answers,
    /// Any of these may have signed; without one no signature is judged.
    pub secrets: Vec<SigningSecret>,
    /// Ends after so many requests.
    pub count: Option<u64>,
    /// One JSON object for each request instead of a text for people.
    pub is_json: bool,
}

/// Receives until `stop`, or until enough came; says what came altogether.
///
/// # Errors
/// `out` takes no more.
pub async fn run(
    listener: TcpListener,
    settings: ListenSettings,
    out: Box<dyn Write + Send>,
    clock: Clock,
    stop: CancellationToken,
) -> std::io::Result<Summary> {
    server::run(listener, settings, out, clock, stop).await
}
