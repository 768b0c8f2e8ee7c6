//! Dead letters with their messages, one after the other, as lines of JSON: however many there are, a few are in
//! memory at once.
//!
//! What the masks name is hidden line by line from those who may only look; who is answered whole is in the audit
//! before the first such line leaves. What could not be read is the last line; an answer that ends without its last
//! chunk was broken off.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc::Receiver;

use crate::budget::Share;
use crate::engine::dead::{DeadDetail, Exported};
use crate::engine::reveal::Reveal;
use crate::engine::{Engine, EngineError, WriteGrant};
use crate::wire::dead::{Detail, ExportEnd};
use crate::wire::problem::Problem;
use crate::wire::{json as written, unread};

use super::Shared;
use super::dead::selection;
use super::extract::Params;
use super::guard::Caller;
use super::masked::{MasksItself, hidden_in, without};
use super::problem::{Lines, with_type};

/// What is told of in the audit.
const TARGET: &str = "GET /v1/dead/export";

#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Of this queue.
    queue: Option<String>,
    /// A group, by its fingerprint.
    group: Option<String>,
    /// A filter, in the filter language.
    filter: Option<String>,
}

/// `GET /v1/dead/export`.
pub(super) async fn dead(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Params(which): Params<Which>,
) -> Result<MasksItself<Lines>, Problem> {
    let selection = selection(which.queue.as_deref(), which.group, which.filter)?;
    let letters = shared.engine()?.export_dead(selection)?;
    Ok(lines(shared, sees_whole(&caller)?, letters, CONTRACT).await?)
}

/// Who is answered whole, for the audit.
pub(super) fn sees_whole(caller: &Caller) -> Result<Option<WriteGrant>, Problem> {
    caller.sees_all().then(|| caller.grant(None)).transpose()
}

/// How a letter and an end before the end are written.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) letter: fn(&DeadDetail) -> Vec<u8>,
    pub(super) end: fn(&Engine, EngineError) -> Vec<u8>,
}

const CONTRACT: Form = Form {
    letter: |detail| written::compact(&Detail::from(detail)),
    end: |_, error| last(&error),
};

/// Letters as whoever asks may see them, line by line.
pub(super) async fn lines(
    shared: Arc<Shared>,
    whole: Option<WriteGrant>,
    mut letters: Receiver<Exported>,
    form: Form,
) -> Result<MasksItself<Lines>, EngineError> {
    // What cannot be begun has a status of its own.
    let first = letters.recv().await.transpose()?;
    let export = Export {
        letters,
        first,
        form,
        shared,
        whole,
        is_told: false,
        is_over: false,
        held: None,
    };
    let lines = stream::unfold(export, |mut export| async {
        let line = export.line().await?;
        Some((Ok::<_, Infallible>(Bytes::from(line)), export))
    });
    let answer = with_type(
        axum::http::StatusCode::OK,
        Body::from_stream(lines),
        "application/x-ndjson",
    );
    Ok(MasksItself(Lines(answer)))
}

struct Export {
    letters: Receiver<Exported>,
    first: Option<(DeadDetail, Option<Share>)>,
    form: Form,
    shared: Arc<Shared>,
    /// Who sees all of it.
    whole: Option<WriteGrant>,
    /// It is in the audit.
    is_told: bool,
    is_over: bool,
    /// The memory of the line that is being sent.
    held: Option<Share>,
}

impl Export {
    /// The next line; `None` behind the last.
    async fn line(&mut self) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        drop(self.held.take());
        let next = match self.first.take() {
            Some(first) => Ok(first),
            None => self.letters.recv().await?,
        };
        let line = match next {
            Ok((detail, share)) => {
                self.held = share;
                self.shown((self.form.letter)(&detail)).await
            }
            Err(error) => Err(error),
        };
        let mut line = line.unwrap_or_else(|error| {
            self.is_over = true;
            match self.shared.engine() {
                Ok(engine) => (self.form.end)(engine, error),
                Err(_) => last(&error),
            }
        });
        line.push(b'\n');
        Some(line)
    }

    /// As whoever asks may see it.
    async fn shown(&mut self, line: Vec<u8>) -> Result<Vec<u8>, EngineError> {
        let masks = &self.shared.settings.masks;
        let Some(grant) = &self.whole else {
            return Ok(without(masks, &line).into());
        };
        let hidden = if self.is_told { 0 } else { hidden_in(masks, &line) };
        if hidden > 0
            && let Ok(engine) = self.shared.engine()
        {
            let target = TARGET.to_owned();
            engine.reveal(&Reveal { target, hidden }, grant).await?;
            self.is_told = true;
        }
        Ok(line)
    }
}

/// What is said of what is missing.
fn last(error: &EngineError) -> Vec<u8> {
    if let EngineError::Unread(lacks) = error {
        return written::compact(&ExportEnd::Lacks {
            problems: unread(&[(**lacks).clone()]),
        });
    }
    written::compact(&ExportEnd::Broken {
        problem: Problem::from(error),
    })
}
