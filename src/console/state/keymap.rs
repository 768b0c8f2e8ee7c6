//! Which key means which action: the table's defaults with the configuration's changes.
//!
//! An action has the keys of the table, or those that the configuration gives it: several are
//! separated by a comma and a space (`x, F5`), the keys of a sequence by a space (`g r`), and an empty
//! text takes every key away. Two actions that are offered in the same place share no key, and no
//! sequence begins with another one. What changes something is never on a key that scrolls somewhere
//! else or that answers a confirmation.

use std::collections::BTreeMap;

use keybinds::{Key, KeyInput, KeySeq, Match, Mods};

use crate::console::state::View;
use crate::console::state::action::{Action, NONE, Section, named};
use crate::domain::nearest::nearest;
use crate::domain::text::show;

/// Text of the configuration is shown in an error at most this wide.
const SHOWN_MAX: usize = 60;

/// The keys in use; no two actions of one context share a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    /// Keys with their action, in the order of the table.
    pub bindings: Vec<(KeySeq, &'static Action)>,
    /// Every action.
    pub sections: &'static [Section],
}

/// What is wrong with the configured keys. Safe to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeymapError {
    /// No action has this name.
    #[error("console.keys.{name}: there is no such action{}", meant(.nearest.as_deref()))]
    UnknownAction {
        /// As written.
        name: String,
        /// The one that was probably meant.
        nearest: Option<String>,
    },
    /// It is no key.
    #[error("console.keys.{action}: {key:?} is no key: write it as R, Ctrl+z, PageUp, F5, Space, or g r for two keys")]
    NoKey {
        /// Of which action.
        action: &'static str,
        /// As written.
        key: String,
    },
    /// Two actions that are offered in the same place have it.
    #[error("console.keys: {key:?} is both {first} and {second}: give one of them another key")]
    Shared {
        /// The key.
        key: String,
        /// One action.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// The keys of one action begin those of another one that is offered in the same place.
    #[error("console.keys: {key:?} of {first} begins {longer:?} of {second}, which could never be reached")]
    Covers {
        /// The shorter.
        key: String,
        /// The longer.
        longer: String,
        /// Whose the shorter is.
        first: &'static str,
        /// Whose the longer is.
        second: &'static str,
    },
    /// What changes something cannot be on it.
    #[error("console.keys.{action}: {key:?} {why}: use another key, such as a capital letter")]
    Forbidden {
        /// Of which action.
        action: &'static str,
        /// The key.
        key: String,
        /// Why.
        why: &'static str,
    },
    /// There would be no way out.
    #[error("console.keys.quit: must have a key")]
    NoWayOut,
}

/// What the keys pressed so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This action.
    Action(&'static Action),
    /// The beginning of a sequence.
    Begun,
    /// An action that is not offered here.
    Elsewhere(&'static Action),
    /// Nothing.
    Nothing,
}

impl Keymap {
    /// The keys that these actions have by themselves; what could not be read is left out.
    pub(in crate::console) fn of_table(sections: &'static [Section]) -> Self {
        let bindings = actions(sections)
            .flat_map(|action| action.keys.iter().map(move |key| (*key, action)))
            .filter_map(|(key, action)| Some((key.parse().ok()?, action)))
            .collect();
        Self { bindings, sections }
    }

    /// The same with those that the configuration gives to actions by their names.
    pub(in crate::console) fn configured(
        sections: &'static [Section],
        keys: &BTreeMap<String, String>,
    ) -> Result<Self, KeymapError> {
        let names = || actions(sections).map(|action| action.name);
        if let Some(name) = keys.keys().find(|name| names().all(|known| known != **name)) {
            return Err(KeymapError::UnknownAction {
                name: show(name, SHOWN_MAX),
                nearest: nearest(name, names()).map(str::to_owned),
            });
        }
        let mut bindings = Vec::new();
        for action in actions(sections) {
            let written: Vec<&str> = match keys.get(action.name) {
                Some(text) => text.split(", ").filter(|key| !key.trim().is_empty()).collect(),
                None => action.keys.to_vec(),
            };
            for key in written {
                bindings.push((read(action, key)?, action));
            }
        }
        check_apart(&bindings)?;
        if !bindings.iter().any(|(_, action)| action.name == named::QUIT) {
            return Err(KeymapError::NoWayOut);
        }
        Ok(Self { bindings, sections })
    }

    /// Every action, in the order of the table.
    pub fn actions(&self) -> impl Iterator<Item = &'static Action> + use<> {
        actions(self.sections)
    }

    /// The action of that name.
    #[must_use]
    pub fn action(&self, name: &str) -> &'static Action {
        debug_assert!(self.has(name), "no action is called {name}");
        self.actions().find(|action| action.name == name).unwrap_or(&NONE)
    }

    fn has(&self, name: &str) -> bool {
        self.actions().any(|action| action.name == name)
    }

    /// What the keys pressed so far mean where this view is in front.
    #[must_use]
    pub fn find(&self, pressed: &[KeyInput], view: View) -> Found {
        let mut found = Found::Nothing;
        for (keys, action) in &self.bindings {
            match (keys.match_to(pressed), action.context.has(view)) {
                (Match::Matched, true) => return Found::Action(action),
                (Match::Prefix, true) => found = Found::Begun,
                (Match::Matched, false) if found == Found::Nothing => found = Found::Elsewhere(action),
                _ => {}
            }
        }
        found
    }

    /// The keys of an action as they are shown.
    pub fn labels<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let own = self.bindings.iter().filter(move |(_, action)| action.name == name);
        own.map(|(keys, _)| keys.to_string())
    }

    /// The first key of an action as it is shown; `None`: it has none.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<String> {
        debug_assert!(self.has(name), "no action is called {name}");
        self.labels(name).next()
    }
}

/// The actions of these sections.
fn actions(sections: &'static [Section]) -> impl Iterator<Item = &'static Action> {
    sections.iter().flat_map(|section| section.actions.iter().copied())
}

fn read(action: &'static Action, text: &str) -> Result<KeySeq, KeymapError> {
    let keys: KeySeq = text.parse().map_err(|_| KeymapError::NoKey {
        action: action.name,
        key: show(text, SHOWN_MAX),
    })?;
    match keys.as_slice().iter().find_map(|key| forbidden(*key)) {
        Some(why) if action.mutates() => Err(KeymapError::Forbidden {
            action: action.name,
            key: show(text, SHOWN_MAX),
            why,
        }),
        _ => Ok(keys),
    }
}

/// Why a key cannot be that of an action that changes something.
pub(in crate::console) fn forbidden(input: KeyInput) -> Option<&'static str> {
    let control = input.mods().contains(Mods::CTRL);
    match (input.key(), control) {
        (Key::Char('r' | 'd' | 'k' | 'w'), true) => Some("deletes, searches or closes in other programs"),
        (Key::Char('f' | 'b' | 'u' | 'e' | 'y' | 'n' | 'p' | 'j'), true)
        | (Key::Char('j' | 'k' | 'h' | 'l' | 'g' | 'G' | ' ' | '/'), false)
        | (Key::Up | Key::Down | Key::Left | Key::Right | Key::PageUp | Key::PageDown | Key::Home | Key::End, _) => {
            Some("scrolls or searches in other programs")
        }
        (Key::Char('y' | 'n' | 'q'), false) | (Key::Enter | Key::Esc | Key::Tab | Key::Backspace, _) => {
            Some("answers confirmations")
        }
        _ => None,
    }
}

fn check_apart(bindings: &[(KeySeq, &'static Action)]) -> Result<(), KeymapError> {
    for (at, (keys, action)) in bindings.iter().enumerate() {
        for (other_keys, other) in &bindings[..at] {
            if !action.context.meets(other.context) || action == other {
                continue;
            }
            if keys == other_keys {
                return Err(KeymapError::Shared {
                    key: keys.to_string(),
                    first: other.name,
                    second: action.name,
                });
            }
            let covers = [(keys, action, other_keys, other), (other_keys, other, keys, action)];
            for (short, first, long, second) in covers {
                if long.match_to(short.as_slice()) == Match::Prefix {
                    return Err(KeymapError::Covers {
                        key: short.to_string(),
                        longer: long.to_string(),
                        first: first.name,
                        second: second.name,
                    });
                }
            }
        }
    }
    Ok(())
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; perhaps {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::actions::{action, all};

    fn configured(entries: &[(&str, &str)]) -> Result<Keymap, KeymapError> {
        let keys = entries
            .iter()
            .map(|(name, key)| ((*name).to_owned(), (*key).to_owned()));
        Keymap::from_config(&keys.collect())
    }

    fn check_refused(entries: &[(&str, &str)], expected: &str) {
        assert_eq!(configured(entries).unwrap_err().to_string(), expected, "{entries:?}");
    }

    fn press(keymap: &Keymap, text: &str, view: View) -> Found {
        let keys: KeySeq = text.parse().unwrap();
        keymap.find(keys.as_slice(), view)
    }

    #[test]
    fn without_configuration_the_keys_are_those_of_the_table() {
        let written: usize = all().map(|action| action.keys.len()).sum();
        assert_eq!(Keymap::default().bindings.len(), written);
        assert_eq!(configured(&[]), Ok(Keymap::default()));
    }

    #[test]
    fn an_action_has_the_keys_that_it_is_given_and_no_others() {
        let keymap = configured(&[
            ("redeliver", "Q, F5"),
            ("unmark", ""),
            ("refresh", "g r"),
            ("first", "Home"),
        ])
        .unwrap();
        assert_eq!(keymap.labels("redeliver").collect::<Vec<_>>(), ["Q", "F5"]);
        assert_eq!(keymap.label("unmark"), None);
        assert_eq!(
            press(&keymap, "R", View::Queues),
            Found::Elsewhere(action("restore_policy"))
        );
        assert_eq!(press(&keymap, "F5", View::Queues), Found::Action(action("redeliver")));
        assert_eq!(press(&keymap, "g", View::Queues), Found::Begun);
        assert_eq!(press(&keymap, "g r", View::Queues), Found::Action(action("refresh")));
        assert_eq!(press(&keymap, "g x", View::Queues), Found::Nothing);
    }

    #[test]
    fn a_key_of_another_place_is_known_as_such() {
        let keymap = Keymap::default();
        assert_eq!(press(&keymap, "D", View::Endpoints), Found::Action(action("disable")));
        assert_eq!(press(&keymap, "D", View::Queues), Found::Elsewhere(action("disable")));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_mend() {
        check_refused(
            &[("redelivr", "X")],
            "console.keys.redelivr: there is no such action; perhaps redeliver",
        );
        check_refused(
            &[("refresh", "Strg+r")],
            "console.keys.refresh: \"Strg+r\" is no key: write it as R, Ctrl+z, PageUp, F5, Space, or g r for two keys",
        );
        check_refused(
            &[("refresh", "q")],
            "console.keys: \"q\" is both refresh and quit: give one of them another key",
        );
        check_refused(
            &[("refresh", "q r")],
            "console.keys: \"q\" of quit begins \"q r\" of refresh, which could never be reached",
        );
        check_refused(&[("quit", " ")], "console.keys.quit: must have a key");
    }

    #[test]
    fn what_changes_something_is_refused_on_keys_that_mean_something_else_elsewhere() {
        for key in [
            "Ctrl+r", "Ctrl+d", "Ctrl+k", "Ctrl+w", "j", "PageDown", "Space", "Enter", "y", "g R",
        ] {
            let error = configured(&[("redeliver", key), ("down", "Down"), ("first", "Home")]).unwrap_err();
            assert!(matches!(error, KeymapError::Forbidden { .. }), "{key}: {error}");
        }
    }

    #[test]
    fn two_actions_that_never_meet_may_share_a_key() {
        assert!(configured(&[("disable", "Q"), ("pause", "Q")]).is_ok());
    }
}
