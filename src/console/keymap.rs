//! Which key means which action: the table's defaults with the configuration's changes.

use keybinds::KeySeq;

use super::action::ActionId;

/// The keys in use; no two actions of one context share a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    /// Keys with their action, in the order of the table.
    pub bindings: Vec<(KeySeq, ActionId)>,
}
