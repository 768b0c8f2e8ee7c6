//! Dead letters: editing one, and which commands about them change something.

use std::process::Stdio;

use bytes::Bytes;

use crate::engine::Command;
use crate::engine::query;
use crate::engine::runs::{Edit, JsonPatch, Patch, Selection};
use crate::files;

use super::dead_args::{Dead, DeadEdit, DeadPatch};
use super::done::How;
use super::exit::{Exit, Failure};
use super::{Session, given};

/// Changes what is sent, by options or else in an editor.
pub(super) async fn edit(session: &Session<'_>, edit: &DeadEdit) -> Result<Exit, Failure> {
    let typed = Edit {
        body: edit.body_file.as_deref().map(given::body).transpose()?,
        content_type: edit.properties.content_type.clone(),
        headers: headers(&edit.properties.headers)?,
    };
    let changes = if typed == Edit::default() {
        Edit {
            body: Some(in_editor(session, &edit.id).await?),
            ..typed
        }
    } else {
        typed
    };
    let command = Command::EditDead {
        id: edit.id.clone(),
        edit: changes,
    };
    session.act(command, How::ONE).await
}

/// Changes many in the same way.
pub(super) async fn patch(session: &Session<'_>, patch: &DeadPatch) -> Result<Exit, Failure> {
    let document = patch.patch_file.as_deref().map(given::body).transpose()?;
    let operations = document.map(|document| JsonPatch::parse(&String::from_utf8_lossy(&document)));
    let operations = operations
        .transpose()
        .map_err(|why| Failure::new(Exit::Usage, format!("--patch-file: {why}")))?;
    let selection = match (&patch.group, &patch.filter) {
        (Some(group), _) => Selection::Group(group.clone()),
        (None, Some(filter)) => Selection::Filter(filter.clone()),
        (None, None) => Selection::Ids(patch.ids.clone()),
    };
    let patch = Patch {
        operations,
        content_type: patch.properties.content_type.clone(),
        headers: headers(&patch.properties.headers)?,
    };
    session.act(Command::PatchDead { selection, patch }, How::ONE).await
}

fn headers(given: &[String]) -> Result<Vec<(String, Option<String>)>, Failure> {
    let lines = given::header_lines(given)?;
    Ok(lines.iter().map(|line| header_of(line)).collect())
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
        Dead::Redrive { .. } | Dead::Discard(_) | Dead::Restore(_) | Dead::Edit(_) | Dead::Patch(_) => true,
        Dead::List { .. }
        | Dead::Groups { .. }
        | Dead::Queues { .. }
        | Dead::Show { .. }
        | Dead::Compare(_)
        | Dead::Export(_) => false,
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
