//! Sentences of the engine name commands; on this screen a key does the same.

use std::borrow::Cow;

use crate::console::state::State;
use crate::console::state::keymap::Keymap;
use crate::domain::pace::ENDPOINT_RESUME;

/// Commands that sentences of the engine name, with the actions that do the same here.
const COMMANDS: [(&str, &str); 5] = [
    ("`redrive redeliver`", "redeliver"),
    ("`redrive queue resume`", "resume"),
    // Of queues this is said as well, and the key does it there too.
    (ENDPOINT_RESUME, "resume_endpoint"),
    ("`run resume`", "resume_run"),
    ("`run cancel`", "cancel_run"),
];

/// A sentence with the keys of this console instead of the commands; where it can never do more than look, no key does
/// what they do.
pub(in crate::console) fn by_keys<'a>(text: &'a str, state: &State) -> Cow<'a, str> {
    if state.session.read_only().is_some() && !state.session.can_be_allowed() {
        return Cow::Borrowed(text);
    }
    with_keys(text, &state.input.keymap)
}

fn with_keys<'a>(text: &'a str, keymap: &Keymap) -> Cow<'a, str> {
    if !text.contains('`') {
        return Cow::Borrowed(text);
    }
    let mut said = text.to_owned();
    for (command, action) in COMMANDS {
        if let Some(key) = keymap.label(action) {
            let waits = format!("it waits for {command}");
            said = said.replace(&waits, &format!("waiting for you: {key} redelivers"));
            if command == ENDPOINT_RESUME {
                said = said.replace(&format!("until {command}"), &format!("until {key} resumes it"));
            }
            said = said.replace(command, &key);
        }
    }
    Cow::Owned(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_keys_of_this_console_instead_of_commands() {
        let keymap = Keymap::default();
        let say = |text| with_keys(text, &keymap).into_owned();
        assert_eq!(
            say("all retries of its URL failed (last answer 503): it waits for `redrive redeliver`"),
            "all retries of its URL failed (last answer 503): waiting for you: R redelivers"
        );
        assert_eq!(say("continue with `redrive queue resume`"), "continue with U");
        assert_eq!(say("continue with `redrive endpoint resume`"), "continue with U");
        assert_eq!(
            say("no probe either, until `redrive endpoint resume`"),
            "no probe either, until U resumes it"
        );
        assert_eq!(
            say("look at them, then `run resume` sends the rest unwatched, or `run cancel`"),
            "look at them, then U sends the rest unwatched, or X"
        );
        assert_eq!(say("see `redrive doctor`"), "see `redrive doctor`");
    }
}
