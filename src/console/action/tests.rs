//! The table against itself, its documentation and the rules for what changes something.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use keybinds::KeySeq;

use super::*;
use crate::console::keymap::{self, Keymap};

/// Set to `write`, the key documentation is written instead of compared.
const WRITE_VARIABLE: &str = "REDRIVE_ASSETS";

#[test]
fn every_action_is_in_the_table_and_in_the_help_once() {
    let ids: HashSet<ActionId> = ACTIONS.iter().map(|spec| spec.id).collect();
    let names: HashSet<&str> = ACTIONS.iter().map(|spec| spec.name).collect();
    let last = ActionId::MakeVhost as usize + 1;
    assert_eq!((ids.len(), names.len(), ACTIONS.len()), (last, last, last));
    let in_help: Vec<ActionId> = help_sections()
        .iter()
        .flat_map(|section| section.actions().iter().map(|spec| spec.id))
        .collect();
    let in_table: Vec<ActionId> = ACTIONS.iter().map(|spec| spec.id).collect();
    assert_eq!(in_help, in_table);
}

#[test]
fn every_action_has_a_key_a_title_and_a_sentence() {
    for spec in ACTIONS {
        assert!(!spec.title.is_empty() && spec.help.ends_with('.'), "{spec:?}");
        assert!(!spec.keys.is_empty(), "{spec:?}");
        for key in spec.keys {
            let parsed: KeySeq = key.parse().unwrap();
            assert_eq!(parsed.to_string(), *key, "written otherwise than it is shown");
        }
    }
}

#[test]
fn what_changes_something_is_on_a_capital_letter_that_means_nothing_elsewhere() {
    let mutating: Vec<ActionId> = ACTIONS
        .iter()
        .filter(|spec| spec.mutates())
        .map(|spec| spec.id)
        .collect();
    let expected = [
        ActionId::Redeliver,
        ActionId::RedeliverShown,
        ActionId::Pause,
        ActionId::Resume,
        ActionId::Test,
        ActionId::Disable,
        ActionId::Purge,
        ActionId::SkipHead,
        ActionId::MakeVhost,
        ActionId::Undo,
        ActionId::EditPolicy,
        ActionId::UnsetPolicy,
        ActionId::RestorePolicy,
        ActionId::Redrive,
        ActionId::RedriveShown,
        ActionId::Discard,
        ActionId::EditLetter,
        ActionId::PauseRun,
        ActionId::ResumeRun,
        ActionId::CancelRun,
        ActionId::RestoreLetters,
        ActionId::RetryEvents,
        ActionId::RetryEventsShown,
        ActionId::RescheduleEvents,
        ActionId::CancelEvents,
        ActionId::EditType,
        ActionId::EventPolicy,
        ActionId::Subscribe,
        ActionId::Unsubscribe,
        ActionId::SaveExpiring,
        ActionId::ExtendExpiring,
        ActionId::PurgeExpiring,
        ActionId::PurgeExpired,
        ActionId::RestoreSaved,
    ];
    assert_eq!(mutating, expected);
    for spec in ACTIONS.iter().filter(|spec| spec.mutates()) {
        for key in spec.keys {
            let parsed: KeySeq = key.parse().unwrap();
            assert!(key.len() == 1 && key.chars().all(|c| c.is_ascii_uppercase()), "{key}");
            assert_eq!(keymap::forbidden(parsed.as_slice()[0]), None, "{key}");
        }
    }
}

#[test]
fn the_table_is_a_valid_configuration() {
    assert_eq!(
        Keymap::from_config(&std::collections::BTreeMap::new()),
        Ok(Keymap::default())
    );
}

#[test]
fn the_key_documentation_is_in_step_with_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/keys.md");
    let page = key_documentation();
    if std::env::var(WRITE_VARIABLE).is_ok_and(|value| value == "write") {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written, page,
        "assets/keys.md is not what the table says: run this test with {WRITE_VARIABLE}=write"
    );
}
