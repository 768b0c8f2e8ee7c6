//! `redrive listen`: the receiver of development on standard output, until a signal or until enough came.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};
use crate::cli::{self, AnswersAsked, Exit, Failure, ListenAsked};
use crate::listen::{self, Answer, Answers, ListenSettings};

use super::daemon;

/// A script is at most this large.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024;

pub(super) async fn run(asked: ListenAsked) -> Result<Exit, Failure> {
    let settings = ListenSettings {
        answers: answers(&asked.answers)?,
        secrets: asked.secrets,
        count: asked.count,
        is_json: asked.is_json,
    };
    let address = asked.address;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let why = format!("{address} cannot be listened on: {error}; take another port, or 0 for a free one");
        Failure::new(Exit::Failed, why)
    })?;
    let stop = CancellationToken::new();
    ambient::spawn("signals", daemon::signals(stop.clone(), daemon::CLOSING)?);
    cli::notice(&format!(
        "listening on http://{}; Ctrl-C ends it",
        listener.local_addr()?
    ));
    let out = Box::new(io::stdout());
    let summary = listen::run(listener, settings, out, Clock::system(), stop).await?;
    cli::notice(&summary.to_string());
    Ok(Exit::Done)
}

fn answers(asked: &AnswersAsked) -> Result<Answers, Failure> {
    let answer = |status: u16, delay: Duration| Answer { status, delay };
    match asked {
        AnswersAsked::Always { status, delay } => Ok(Answers::always(answer(*status, *delay))),
        AnswersAsked::FailingFirst {
            attempts,
            status,
            delay,
        } => {
            let failing = answer(*status, *delay);
            Ok(Answers::failing_first(*attempts, failing, answer(200, *delay)))
        }
        AnswersAsked::Script(file) => {
            let wrong = |why: String| Failure::new(Exit::Usage, format!("--script {}: {why}", file.display()));
            let text = read(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
            Answers::script(&text).map_err(|error| wrong(error.to_string()))
        }
    }
}

fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(file)?.take(SCRIPT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > SCRIPT_BYTES_MAX {
        let why = format!("it is larger than {SCRIPT_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}
