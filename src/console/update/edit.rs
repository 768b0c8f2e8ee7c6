//! The payload of a dead letter: handed to an editor, and what came back handed to the confirmation.
//!
//! What is masked is masked in the editor's file, too, unless it was revealed; what comes back as the mask keeps its
//! value.

use std::borrow::Cow;

use bytes::Bytes;
use crossterm::event::KeyCode;

use super::{State, confirm, say};
use crate::console::journal::Tone;
use crate::console::state::Mode;
use crate::console::state::action::named;
use crate::console::state::dialog::Asked;
use crate::console::state::effect::{EditJob, Effect};
use crate::engine::Command;
use crate::engine::dead::DeadDetail;
use crate::engine::runs::Edit;

/// The open letter, and its payload as it may be shown.
fn open(state: &State) -> Option<(&DeadDetail, Bytes)> {
    let detail = state.nav.details.last()?;
    let letter = detail.letter()?;
    let whole = &letter.message.body;
    let shown = if detail.reveals_letter() {
        whole.clone()
    } else {
        match state.session.mask.body(whole).value {
            Cow::Borrowed(_) => whole.clone(),
            Cow::Owned(masked) => masked.into(),
        }
    };
    Some((letter, shown))
}

/// Gives the payload of the open letter to an editor.
pub(in crate::console) fn begin(state: &State) -> Vec<Effect> {
    let Some((letter, body)) = open(state) else {
        return Vec::new();
    };
    let json = letter
        .message
        .content_type
        .as_deref()
        .is_some_and(|kind| kind.contains("json"));
    vec![Effect::Edit(EditJob {
        id: letter.letter.id.as_str().to_owned(),
        body,
        suffix: if json { ".json" } else { ".txt" },
    })]
}

/// The editor was left. What is as before changes nothing.
pub(super) fn edited(state: &mut State, id: String, result: Result<Bytes, String>) -> Vec<Effect> {
    let body = match result {
        Ok(body) => body,
        Err(why) => {
            say::toast(state, Tone::Bad, &format!("not edited: {why}"));
            return Vec::new();
        }
    };
    let before = open(state).filter(|(letter, _)| letter.letter.id.as_str() == id);
    if before.is_none_or(|(_, before)| before == body) || !matches!(state.input.mode, Mode::Browse) {
        say::toast(state, Tone::Note, "the payload is as it was: nothing is changed");
        return Vec::new();
    }
    let edit = Edit {
        body: Some(body),
        ..Edit::default()
    };
    let command = Command::EditDead { id, edit };
    let action = state.input.keymap.action(named::EDIT_LETTER);
    confirm::begin(state, action, KeyCode::Char('E'), Asked::one(command))
}
