//! Values of a payload that are masked: shown once the audit says who looks, and masked again when they are left.

use super::{State, say};
use crate::console::journal::Tone;
use crate::console::state::effect::{Effect, RevealJob};
use crate::console::state::payload::MessageKey;
use crate::engine::reveal::Reveal;

/// Asks for what is masked in the payload in front; what was revealed is masked again.
pub(in crate::console) fn toggle(state: &mut State) -> Vec<Effect> {
    let Some(detail) = state.nav.details.last_mut() else {
        return Vec::new();
    };
    let Some(page) = &detail.reading.page else {
        return Vec::new();
    };
    if detail.revealed.take().is_some() {
        detail.reading.turn_over();
        return Vec::new();
    }
    let (key, hidden) = (page.key.clone(), page.hidden);
    detail.revealing = Some(key.clone());
    let reveal = Reveal {
        target: key.what.clone(),
        hidden,
    };
    vec![Effect::Reveal(RevealJob { key, reveal })]
}

/// The audit has it, or why not. What is not in front any more stays masked.
pub(super) fn answered(state: &mut State, key: &MessageKey, result: Result<(), String>) {
    let name = say::name(&key.what);
    let detail = state.nav.details.last_mut();
    let detail = detail.filter(|detail| detail.revealing.as_ref() == Some(key));
    match (result, detail) {
        (Ok(()), Some(detail)) => {
            detail.revealing = None;
            detail.revealed = Some(key.clone());
            detail.reading.turn_over();
            let text = format!("revealed {name}: the audit has it");
            say::toast(state, Tone::Note, &text);
            say::did(state, Tone::Note, &text);
        }
        (Ok(()), None) => say::did(
            state,
            Tone::Note,
            &format!("{name} was left before it could be revealed"),
        ),
        (Err(why), detail) => {
            if let Some(detail) = detail {
                detail.revealing = None;
            }
            let text = format!("{name} stays masked, it cannot be audited: {why}");
            say::toast(state, Tone::Bad, &text);
            say::did(state, Tone::Bad, &text);
        }
    }
}
