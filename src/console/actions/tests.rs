//! The table against itself, its documentation and the rules for what changes something.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use keybinds::KeySeq;

use super::*;
use crate::console::state::keymap;

/// Set to `write`, the key documentation is written instead of compared.
const WRITE_VARIABLE: &str = "REDRIVE_ASSETS";

#[test]
fn every_action_has_a_name_of_its_own() {
    let names: HashSet<&str> = all().map(|action| action.name).collect();
    assert_eq!(names.len(), all().count());
    assert!(names.iter().all(|name| !name.is_empty()));
}

#[test]
fn every_action_has_a_key_a_title_and_a_sentence() {
    for action in all() {
        assert!(!action.title.is_empty() && action.help.ends_with('.'), "{action:?}");
        assert!(!action.keys.is_empty(), "{action:?}");
        for key in action.keys {
            let parsed: KeySeq = key.parse().unwrap();
            assert_eq!(parsed.to_string(), *key, "written otherwise than it is shown");
        }
    }
}

#[test]
fn what_changes_something_is_on_a_capital_letter_that_means_nothing_elsewhere() {
    let mutating: Vec<&str> = all()
        .filter(|action| action.mutates())
        .map(|action| action.name)
        .collect();
    let expected = [
        "redeliver",
        "redeliver_shown",
        "pause",
        "pause_endpoint",
        "resume_endpoint",
        "pace_endpoint",
        "resume",
        "test",
        "disable",
        "purge",
        "skip_head",
        "make_vhost",
        "undo",
        "edit_policy",
        "unset_policy",
        "restore_policy",
        "redrive",
        "redrive_shown",
        "discard",
        "edit_letter",
        "pause_run",
        "resume_run",
        "cancel_run",
        "restore_letters",
        "retry_events",
        "retry_events_shown",
        "reschedule_events",
        "cancel_events",
        "edit_type",
        "event_policy",
        "subscribe",
        "unsubscribe",
        "save_expiring",
        "extend_expiring",
        "purge_expiring",
        "purge_expired",
        "restore_saved",
    ];
    assert_eq!(mutating, expected);
    for action in all().filter(|action| action.mutates()) {
        for key in action.keys {
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
