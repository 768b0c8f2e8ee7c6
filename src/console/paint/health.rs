//! What doctor finds: what is broken first, and below it what to do.
//!
//! ```text
//! ┌ Health ──────────────────────────────────────────────────────────────────────┐
//! │ ▼ node            rabbit@db-7: memory 1.9 of 2.0 GB (95 %), disk 40 GB free     │
//! │                   → free memory on the node, or raise its limit                 │
//! │ ● broker          RabbitMQ 4.0.5                                                │
//! │ read 2 s ago                                                                    │
//! └───────────────────────────────────────────────────────────────────────────────┘
//! ```

use ratatui::layout::Rect;

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::words::ago;
use crate::engine::view::{Check, CheckResult};

/// Cells of a sign and a name.
const NAME: u16 = 18;
const SIGN: u16 = 2;

/// Paints it over the body.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, first: usize) {
    let inner = boxed(canvas, area, "Health", false);
    let body = Rect {
        height: inner.height.saturating_sub(1),
        ..inner
    };
    let foot = row(inner, body.height);
    let Some(checked) = &state.data.checked else {
        canvas.text(row(body, 0), "looking …", Role::TextMuted);
        return;
    };
    let age = format!("read {}", ago(canvas.now, checked.at));
    let checks = match &checked.result {
        Ok(checks) => checks,
        Err(why) => {
            canvas.wrapped(body, &format!("? {why}"), Role::Error);
            canvas.text(foot, &age, Role::TextMuted);
            return;
        }
    };
    let mut rest = body;
    let mut shown = 0;
    for check in checks.iter().skip(first) {
        if rest.height == 0 {
            break;
        }
        rest = one(canvas, rest, check);
        shown += 1;
    }
    let others = |count: usize, sign: &str, key: &str| match count {
        0 => String::new(),
        count => format!(" · {sign} {count} more, {key} shows them"),
    };
    let above = others(first.min(checks.len()), "▲", "Up");
    let below = others(checks.len().saturating_sub(first + shown), "▼", "Down");
    canvas.text(foot, &format!("{age}{above}{below}"), Role::TextMuted);
}

/// Answers what is left of the area.
fn one(canvas: &mut Canvas<'_>, area: Rect, check: &Check) -> Rect {
    let (sign, role) = match check.result {
        CheckResult::Fine => ("●", Role::Good),
        CheckResult::Warning => ("!", Role::Warning),
        CheckResult::Broken => ("▼", Role::Bad),
    };
    let name = Rect {
        width: NAME.min(area.width),
        ..row(area, 0)
    };
    canvas.text(name, sign, role);
    canvas.text(behind(name, SIGN), &check.name, Role::Text);
    let place = behind(area, SIGN + NAME);
    let taken = canvas.wrapped(place, &check.found, Role::Text).max(1);
    let rest = below(area, taken);
    let Some(mend) = &check.mend else { return rest };
    let place = behind(rest, SIGN + NAME);
    below(rest, canvas.wrapped(place, &format!("→ {mend}"), Role::Info))
}
