//! The payload of a dead letter, or a patch for many: handed to an editor, and what came back handed to the confirmation.
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
use crate::console::state::detail::Detail;
use crate::console::state::dialog::{Asked, Scope, ScopeKind};
use crate::console::state::effect::{EditJob, EditOf, Effect};
use crate::domain::message::Message;
use crate::engine::Command;
use crate::engine::dead::DeadDetail;
use crate::engine::runs::{Edit, JsonPatch, Patch, Selection, with_values_of};

/// What is sent when it is redriven.
fn in_force(letter: &DeadDetail) -> &Message {
    letter.edited.as_ref().map_or(&letter.message, |edited| &edited.message)
}

/// The open letter, and the payload that is sent, as it may be shown.
fn open(state: &State) -> Option<(&DeadDetail, Bytes)> {
    let detail = state.nav.details.last()?;
    let letter = detail.letter()?;
    Some((letter, shown(state, &in_force(letter).body)))
}

/// A payload as it may be shown while the open letter is as it is.
fn shown(state: &State, whole: &Bytes) -> Bytes {
    if state.nav.details.last().is_some_and(Detail::reveals_sent) {
        return whole.clone();
    }
    match state.session.mask.body(whole).value {
        Cow::Borrowed(_) => whole.clone(),
        Cow::Owned(masked) => masked.into(),
    }
}

/// A patch to begin with.
const EXAMPLE: &[u8] = b"[\n  {\"op\": \"replace\", \"path\": \"/currency\", \"value\": \"EUR\"}\n]\n";

/// Gives the payload of the open letter to an editor; without an open one, a patch for those that are selected.
pub(in crate::console) fn begin(state: &State, many: Option<(ScopeKind, Selection)>) -> Vec<Effect> {
    let Some((letter, body)) = open(state) else {
        return many
            .map(|(kind, selection)| patch(state, kind, selection))
            .unwrap_or_default();
    };
    let json = in_force(letter)
        .content_type
        .as_deref()
        .is_some_and(|kind| kind.contains("json"));
    let id = letter.letter.id.as_str();
    vec![Effect::Edit(EditJob {
        of: EditOf::Letter(id.to_owned()),
        body: draft(state, id).unwrap_or(body),
        suffix: if json { ".json" } else { ".txt" },
    })]
}

fn patch(state: &State, kind: ScopeKind, selection: Selection) -> Vec<Effect> {
    let written = state.lists.dead.patch.clone();
    vec![Effect::Edit(EditJob {
        of: EditOf::Patch(kind, selection),
        body: written.unwrap_or(Bytes::from_static(EXAMPLE)),
        suffix: ".json",
    })]
}

/// What was written for the letter and is not sent instead so far. It may have been written while the letter was revealed.
fn draft(state: &State, id: &str) -> Option<Bytes> {
    let (of, body) = state.lists.dead.draft.as_ref()?;
    (of == id).then(|| shown(state, body))
}

/// What came back, with the values that stand in the draft and were masked when it was given to the editor.
fn with_drafted_values(state: &State, id: &str, written: Bytes) -> Bytes {
    let is_revealed = state.nav.details.last().is_some_and(Detail::reveals_sent);
    let draft = state
        .lists
        .dead
        .draft
        .as_ref()
        .filter(|(of, _)| of == id && !is_revealed);
    let kept = draft.and_then(|(_, draft)| with_values_of(&state.session.mask, draft, &written));
    kept.unwrap_or(written)
}

/// What was written for this letter is sent instead from now on.
pub(super) fn done(state: &mut State, id: &str) {
    state.lists.dead.draft.take_if(|(of, _)| of == id);
}

/// The editor was left.
pub(super) fn edited(state: &mut State, of: EditOf, result: Result<Bytes, String>) -> Vec<Effect> {
    let written = match result {
        Ok(written) => written,
        Err(why) => {
            say::toast(state, Tone::Bad, &format!("not edited: {why}"));
            return Vec::new();
        }
    };
    let asked = match of {
        EditOf::Letter(id) => of_letter(state, id, written),
        EditOf::Patch(kind, selection) => of_patch(state, kind, selection, written),
    };
    match asked {
        Ok(asked) => {
            let action = state.input.keymap.action(named::EDIT_LETTER);
            confirm::begin(state, action, KeyCode::Char('E'), asked)
        }
        Err((tone, why)) => {
            say::toast(state, tone, &why);
            Vec::new()
        }
    }
}

/// What is as before changes nothing.
fn of_letter(state: &mut State, id: String, body: Bytes) -> Result<Asked, (Tone, String)> {
    let body = with_drafted_values(state, &id, body);
    let before = open(state).filter(|(letter, _)| letter.letter.id.as_str() == id);
    let is_as_before = before
        .as_ref()
        .is_some_and(|(letter, shown)| [shown, &in_force(letter).body].contains(&&body));
    let is_here = before.is_some() && matches!(state.input.mode, Mode::Browse);
    let had_draft = draft(state, &id).is_some();
    if !is_as_before && !is_here {
        state.lists.dead.draft = Some((id, body));
        let text =
            "not edited: the letter is not open any more, or is gone. What you wrote is kept until you edit another";
        return Err((Tone::Bad, text.to_owned()));
    }
    done(state, &id);
    if is_as_before {
        return Err((Tone::Note, "the payload is as it was: nothing is changed".to_owned()));
    }
    if had_draft && body.trim_ascii().is_empty() {
        let key = state.input.keymap.label(named::EDIT_LETTER).unwrap_or_default();
        let text = format!("what you wrote before is forgotten: {key} begins with the payload again");
        return Err((Tone::Note, text));
    }
    // It is there again when the confirmation is left without an answer.
    state.lists.dead.draft = Some((id.clone(), body.clone()));
    let edit = Edit {
        body: Some(body),
        ..Edit::default()
    };
    Ok(Asked::one(Command::EditDead { id, edit }))
}

fn of_patch(state: &mut State, kind: ScopeKind, selection: Selection, text: Bytes) -> Result<Asked, (Tone, String)> {
    if text == EXAMPLE || text.trim_ascii().is_empty() || !matches!(state.input.mode, Mode::Browse) {
        return Err((Tone::Note, "no patch was written: nothing is changed".to_owned()));
    }
    let patch = JsonPatch::parse(&String::from_utf8_lossy(&text));
    // What was written is there again, whatever becomes of it.
    state.lists.dead.patch = Some(text);
    let operations = patch.map_err(|why| (Tone::Bad, format!("not patched: {}", say::name(&why))))?;
    let patch = Patch {
        operations: Some(operations),
        ..Patch::default()
    };
    Ok(Asked {
        scope: Scope::of_list(state, kind, Scope::note_on(&selection)),
        commands: vec![Command::PatchDead { selection, patch }],
    })
}
