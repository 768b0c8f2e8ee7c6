//! Dead letters: sending them back, discarding, restoring, editing.

use std::process::Stdio;

use bytes::Bytes;

use crate::engine::query;
use crate::engine::runs::{Edit, OrderKind};
use crate::engine::{Command, Done};
use crate::files;
use crate::wire::plan::{self, Asked};

use super::args::{Dead, Way};
use super::exit::{Exit, Failure};
use super::queues::mismatch;
use super::runs;
use super::{Session, given};

pub(super) async fn act(session: &Session<'_>, dead: &Dead) -> Result<Exit, Failure> {
    match dead {
        Dead::Redrive { selected, way } => runs::order(session, OrderKind::Redrive, selected, way).await,
        Dead::Discard(selected) => runs::order(session, OrderKind::Discard, selected, &Way::default()).await,
        Dead::Restore(selected) => runs::order(session, OrderKind::Restore, selected, &Way::default()).await,
        Dead::Edit {
            id,
            body_file,
            content_type,
            headers,
        } => {
            let changes = Edit {
                body: body_file.as_deref().map(given::body).transpose()?,
                content_type: content_type.clone(),
                headers: given::header_lines(headers)?
                    .iter()
                    .map(|line| header_of(line))
                    .collect(),
            };
            edit(session, id, changes).await
        }
        Dead::List { .. } | Dead::Groups { .. } | Dead::Show { .. } | Dead::Export(_) => Err(mismatch()),
    }
}

async fn edit(session: &Session<'_>, id: &str, changes: Edit) -> Result<Exit, Failure> {
    let changes = if changes == Edit::default() {
        Edit {
            body: Some(in_editor(session, id).await?),
            ..changes
        }
    } else {
        changes
    };
    let command = Command::EditDead {
        id: id.to_owned(),
        edit: changes,
    };
    match session.act(command).await? {
        Some(done @ Done::Edited(_)) => {
            let facts = [("edited", Some(id.to_owned()))];
            session.output.facts(&plan::done(&done, Asked::One), &facts)?;
            Ok(Exit::Done)
        }
        Some(_) => Err(mismatch()),
        None => Ok(Exit::Done),
    }
}

/// The body as a person leaves it in their editor.
async fn in_editor(session: &Session<'_>, id: &str) -> Result<Bytes, Failure> {
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR"));
    let editor = editor.map_err(|_| Failure::new(Exit::Usage, "give --body-file or --header, or set EDITOR"))?;
    if !super::on_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "an editor needs a terminal: give --body-file or --header",
        ));
    }
    let letter = session.engine.query(query::DeadLetterAsSent(id.to_owned())).await?;
    let path = std::env::temp_dir().join(format!("redrive-edit-{}", crate::ambient::new_id()));
    files::write_new(&path, &letter.edited.body)?;
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(&path)
        .stdin(Stdio::inherit())
        .status();
    let body = std::fs::read(&path);
    std::fs::remove_file(&path)?;
    if !status?.success() {
        return Err(Failure::refused("the editor did not end well; nothing was changed"));
    }
    Ok(body?.into())
}

/// `NAME: VALUE` sets a header, `NAME` alone removes it.
fn header_of(text: &str) -> (String, Option<String>) {
    match text.split_once(':') {
        Some((name, value)) => (name.trim().to_owned(), Some(value.trim_start().to_owned())),
        None => (text.trim().to_owned(), None),
    }
}

pub(super) const fn changes_something(dead: &Dead) -> bool {
    match dead {
        Dead::Redrive { .. } | Dead::Discard(_) | Dead::Restore(_) | Dead::Edit { .. } => true,
        Dead::List { .. } | Dead::Groups { .. } | Dead::Show { .. } | Dead::Export(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::header_of;

    #[test]
    fn a_header_is_set_with_a_value_and_removed_without() {
        assert_eq!(header_of("A: b:c"), ("A".to_owned(), Some("b:c".to_owned())));
        assert_eq!(header_of("A"), ("A".to_owned(), None));
    }
}
