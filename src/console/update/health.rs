//! What doctor finds, on one page.

use std::time::Duration;

use super::{State, page, say};
use crate::console::state::effect::Effect;
use crate::console::state::health::Checked;
use crate::console::state::page::PageKind;
use crate::engine::view::{Check, CheckResult};

/// While the page is open it is asked again so long after the last answer.
pub(super) const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Opens the page and asks.
pub(in crate::console) fn open(state: &mut State) -> Vec<Effect> {
    page::open(state, PageKind::Health)
}

/// The place of the last check.
pub(super) fn last(state: &State) -> usize {
    state.data.checked.as_ref().map_or(0, Checked::last)
}

/// It was looked at.
pub(super) fn answered(state: &mut State, result: Result<Vec<Check>, String>) {
    let result = result.map_err(|why| say::name(&why)).map(|mut checks| {
        checks.sort_by_key(|check| match check.result {
            CheckResult::Broken => 0,
            CheckResult::Warning => 1,
            CheckResult::Fine => 2,
        });
        checks
    });
    state.data.checked = Some(Checked { at: state.now, result });
    page::answered(state, PageKind::Health);
}
