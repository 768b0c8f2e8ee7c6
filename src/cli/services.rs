//! What services do: publish, end. Nobody is asked.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;

use crate::domain::notification::BODY_BYTES_MAX;
use crate::engine::NewNotification;
use crate::wire::input;
use crate::wire::publish::{EndedShape, Published};

use super::args::{Publish, Target};
use super::exit::{Exit, Failure};
use super::{Session, say};

pub(super) async fn publish(session: &Session<'_>, publish: &Publish) -> Result<Exit, Failure> {
    let mut headers = publish
        .headers
        .iter()
        .map(|text| header(text))
        .collect::<Result<Vec<_>, _>>()?;
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
        body: publish.body_file.as_deref().map(body).transpose()?.unwrap_or_default(),
        polling_time_s: publish.polling_time,
        restart_count: publish.restart_count,
    };
    if session.cli.global.dry_run {
        let queue = session.engine.naming().delivery_queue(&new.execution, &new.url);
        say("not published: this is what would be");
        return print_published(session, id.as_str(), queue.as_str());
    }
    match session.engine.publish(new).await {
        Ok(receipt) => print_published(session, receipt.id.as_str(), receipt.queue.as_str()),
        Err(error) => {
            // The caller repeats with the same id, also where it was made up here.
            say(&format!("id {} is not confirmed", id.as_str()));
            Err(error.into())
        }
    }
}

fn print_published(session: &Session<'_>, id: &str, queue: &str) -> Result<Exit, Failure> {
    let shape = Published {
        id: id.to_owned(),
        queue: queue.to_owned(),
    };
    let facts = [("id", Some(shape.id.clone())), ("queue", Some(shape.queue.clone()))];
    session.output.facts(&shape, &facts)?;
    Ok(Exit::Done)
}

pub(super) async fn end(session: &Session<'_>, target: &Target) -> Result<Exit, Failure> {
    let (execution, url) = (input::execution(&target.execution)?, input::url(&target.url)?);
    if session.cli.global.dry_run {
        let queue = session.engine.naming().delivery_queue(&execution, &url);
        say("not ended: this is the queue that would be");
        session.output.facts(
            &serde_json::json!({"queue": queue.as_str()}),
            &[("queue", Some(queue.as_str().to_owned()))],
        )?;
        return Ok(Exit::Done);
    }
    let shape = EndedShape::from(&session.engine.end(execution, url).await?);
    if !shape.marked {
        say("there is no such queue: nothing to end");
    }
    let facts = [("id", shape.id.clone()), ("queue", Some(shape.queue.clone()))];
    session.output.facts(&shape, &facts)?;
    Ok(Exit::Done)
}

fn header(text: &str) -> Result<(String, String), Failure> {
    let wrong = || {
        Failure::new(
            Exit::Usage,
            format!("--header {text:?} is not of the form 'NAME: VALUE'"),
        )
    };
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

pub(super) fn body(file: &Path) -> Result<Bytes, Failure> {
    file_bytes("--body-file", file, BODY_BYTES_MAX)
}

/// Reads one byte more than is possible, so that what is too large is told from what fits.
pub(super) fn file_bytes(flag: &str, file: &Path, bytes_max: usize) -> Result<Bytes, Failure> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        Failure::new(
            Exit::Usage,
            format!("{flag} {} cannot be read: {error}", file.display()),
        )
    })?;
    if bytes.len() > bytes_max {
        let why = format!("{flag} {} has more than {bytes_max} bytes", file.display());
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let read = |text| header(text).map_err(|failure| failure.exit());
        assert_eq!(read("A: b: c"), Ok(("A".to_owned(), "b: c".to_owned())));
        assert_eq!(read("A:"), Ok(("A".to_owned(), String::new())));
        for wrong in ["A", ": b", "a b: c"] {
            assert_eq!(read(wrong), Err(Exit::Usage), "{wrong}");
        }
    }

    #[test]
    fn a_body_comes_from_a_file_or_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("body");
        std::fs::write(&file, [0xff, 0]).unwrap();
        assert_eq!(body(&file).unwrap()[..], [0xff, 0]);
        let missing = body(&directory.path().join("none")).unwrap_err();
        assert!(missing.causes()[0].contains("--body-file"));
    }
}
