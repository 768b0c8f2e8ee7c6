//! A policy: the schedule that applies, and its versions.
//!
//! ```text
//!      Version  Saved                By    Says
//!  ▌         3  2026-11-21 03:12:44  ana   {"maximum_delay":14400}
//!            2  2026-11-20 11:00:02  ben   (unset)
//!
//!  (the schedule of the selected version)
//! ```

use ratatui::layout::Rect;

use super::attempts::listed;
use super::{Fact, facts};
use crate::console::state::detail::{About, Detail, DetailAnswer, DetailTab};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, below, row};
use crate::console::widgets::schedule;
use crate::console::widgets::words::date;
use crate::domain::policy::{PolicyOwner, RetryPolicy};
use crate::domain::value::Value;
use crate::engine::policies::{self, PolicyView};
use crate::engine::query::{PolicyScope, PolicyVersion};

const SAVED: u16 = 12;
const BY: u16 = 33;
const SAYS: u16 = 48;

/// Paints the part in front.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, answer: &DetailAnswer) {
    match &answer.about {
        Some(Ok(About::Policy { history, .. })) if detail.tab == DetailTab::History => {
            versions(canvas, area, detail, history);
        }
        Some(Ok(About::Policy { view, .. })) => applies(canvas, area, view),
        Some(Err(problem)) => {
            canvas.wrapped(area, &format!("The policy cannot be read: {problem}"), Role::Error);
        }
        Some(Ok(_)) | None => {}
    }
}

fn applies(canvas: &mut Canvas<'_>, area: Rect, view: &PolicyView) {
    let saved = match (&view.newest, view.document()) {
        (Some(newest), Some(_)) => format!(
            "version {} by {} at {} UTC",
            newest.version,
            newest.author,
            date(newest.at)
        ),
        (Some(newest), None) => format!("unset by {} at {} UTC", newest.author, date(newest.at)),
        (None, _) => "never".to_owned(),
    };
    let written = match view.document() {
        Some(document) => document.to_owned(),
        None if view.scope == PolicyScope::default() => in_configuration(&view.effective),
        None => "nothing: every key has its default".to_owned(),
    };
    let known = [
        Fact::new("saved", saved),
        Fact::new("what applies", view.whose()),
        Fact::new("as written", written),
    ];
    let used = facts(canvas, area, &known);
    schedule::paint(canvas, below(area, used + 1), &view.effective);
}

/// What `delivery.retry_policy` says besides the defaults of its keys.
fn in_configuration(policy: &RetryPolicy) -> String {
    if *policy == RetryPolicy::built_in() {
        return "nothing in the configuration: the built-in policy applies".to_owned();
    }
    let entries = |policy: &RetryPolicy| {
        if let Value::Table(entries) = policy.to_value(PolicyOwner::Default) {
            entries
        } else {
            Vec::new()
        }
    };
    let defaults = entries(&RetryPolicy::default());
    let of_its_own = entries(policy).into_iter().filter(|entry| !defaults.contains(entry));
    let keys: Vec<String> = of_its_own
        .map(|(key, value)| format!("{key} = {}", shown(&value)))
        .collect();
    format!("delivery.retry_policy = {{{}}}", keys.join(", "))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => format!("{text:?}"),
        // No key of a policy has one.
        Value::Null | Value::List(_) | Value::Table(_) => String::new(),
    }
}

fn versions(canvas: &mut Canvas<'_>, area: Rect, detail: &Detail, history: &[PolicyVersion]) {
    if history.is_empty() {
        canvas.wrapped(area, "No version was ever saved.", Role::Title);
        return;
    }
    let head = row(area, 0);
    canvas.lay_over(head, Role::Column);
    for (x, title) in [(2, "Version"), (SAVED, "Saved (UTC)"), (BY, "By"), (SAYS, "Says")] {
        canvas.text(behind(head, x), title, Role::Column);
    }
    let listed = listed(area.height, history.len());
    let first = detail.selected.saturating_sub(usize::from(listed).saturating_sub(1));
    for (line, (position, version)) in (1..=listed).zip(history.iter().enumerate().skip(first)) {
        one(canvas, row(area, line), version, position == detail.selected);
    }
    let Some(version) = history.get(detail.selected) else {
        return;
    };
    let room = below(area, listed + 2);
    let document = version.document.as_deref();
    let policy = document.and_then(|document| policies::read(document, PolicyOwner::Queue).ok().flatten());
    match (document, policy) {
        (None, _) => {
            canvas.text(row(room, 0), "Unset: the next one in precedence applied.", Role::Title);
        }
        (Some(_), None) => {
            canvas.text(row(room, 0), "This version cannot be read any more.", Role::Error);
        }
        (Some(_), Some(policy)) => {
            schedule::paint(canvas, room, &policy);
        }
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, version: &PolicyVersion, selected: bool) {
    canvas.text(area, if selected { "▌" } else { " " }, Role::Mark);
    let place = |from: u16, to: u16| Rect {
        width: area.width.saturating_sub(from).min(to - from - 1),
        ..behind(area, from)
    };
    canvas.right(place(2, SAVED - 2), &version.version.to_string(), Role::Text);
    canvas.text(place(SAVED, BY), &date(version.at), Role::TextMuted);
    canvas.text(place(BY, SAYS), &version.author, Role::Text);
    let says = version.document.as_deref().unwrap_or("(unset)");
    canvas.text(behind(area, SAYS), says, Role::Text);
    if selected {
        canvas.lay_over(area, Role::Selection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_says_is_what_is_no_default() {
        let policy = RetryPolicy {
            maximum_delay_s: 8,
            jitter: 0.5,
            ..RetryPolicy::default()
        };
        assert_eq!(
            in_configuration(&policy),
            "delivery.retry_policy = {maximum_delay = 8, jitter = 0.5}"
        );
        assert!(in_configuration(&RetryPolicy::built_in()).contains("the built-in policy"));
    }
}
