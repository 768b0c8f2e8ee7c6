//! Every profile of the configuration, a line each: its worst state, what waits, what died, who delivers, how old that is.
//!
//! ```text
//! ┌ Profiles ────────────────────────────────────────────────────────────────────┐
//! │   Profile      Worst                  Waiting     Dead  Daemons      Read     │
//! │ ▌ production   ! 2 endpoints parked     1,204       31        2    3 s ago    │
//! │   staging      ● everything moves           0        0        1    3 s ago    │
//! └───────────────────────────────────────────────────────────────────────────────┘
//! ```

use ratatui::layout::Rect;

use super::dialog::boxed;
use crate::console::state::State;
use crate::console::state::profiles::{Answer, Condition, Gravity, ProfileName};
use crate::console::theme::Role;
use crate::console::widgets::canvas::{Canvas, behind, cells, row};
use crate::console::widgets::words::{UNKNOWN, ago, known};
use crate::domain::text::{show, width};

/// Cells of a name, at most and at least.
const NAME: u16 = 24;
const NAME_MIN: u16 = 10;
/// Cells of what waits, of what died, of daemons, of an age; and where there is little room.
const NUMBERS: [u16; 4] = [9, 9, 9, 11];
const NARROW: [u16; 4] = [8, 6, 8, 9];
const NARROW_BELOW: u16 = 90;
/// Before the name: the sign of the selected line.
const SIGN: u16 = 2;
/// Columns of a name, a label or a reason that are looked at.
const SHOWN_MAX: usize = 400;

/// Paints it over the body.
pub(super) fn paint(canvas: &mut Canvas<'_>, area: Rect, state: &State, selected: usize) {
    let inner = boxed(canvas, area, "Profiles", false);
    let profiles = state.profile_names();
    let names: Vec<String> = profiles.iter().map(named).collect();
    let places = Places::of(inner, &names);
    let head = row(inner, 0);
    canvas.lay_over(head, Role::Column);
    places.line(
        canvas,
        head,
        ("Profile", "Worst"),
        ["Waiting", "Dead", "Daemons", "Read"],
        Role::Column,
    );
    let room = inner.height.saturating_sub(1);
    let first = (selected + 1).saturating_sub(room.into());
    for (at, (place, profile)) in (1..inner.height).zip(profiles.iter().enumerate().skip(first)) {
        let line = row(inner, at);
        one(canvas, line, &places, state, (profile, &names[place]));
        if place == selected {
            canvas.lay_over(line, Role::Selection);
            canvas.text(line, "▌", Role::Mark);
        }
    }
}

/// Where the parts of a line stand.
struct Places {
    name: u16,
    worst: u16,
    numbers: [u16; 4],
}

impl Places {
    /// The longest name has what it needs, as far as there is room; the rest is what the worst is told in.
    fn of(area: Rect, names: &[String]) -> Self {
        let longest = names.iter().map(|name| cells(width(name))).max().unwrap_or(0);
        let name = (longest + SIGN).max(NAME_MIN).min(NAME.min(area.width / 3));
        let numbers = if area.width < NARROW_BELOW { NARROW } else { NUMBERS };
        Self {
            name,
            worst: area.width.saturating_sub(SIGN + name + numbers.iter().sum::<u16>()),
            numbers,
        }
    }

    fn line(&self, canvas: &mut Canvas<'_>, area: Rect, texts: (&str, &str), numbers: [&str; 4], role: Role) {
        let part = |x: u16, width: u16| {
            let rest = behind(area, x);
            Rect {
                width: width.min(rest.width),
                ..rest
            }
        };
        canvas.text(part(SIGN, self.name.saturating_sub(1)), texts.0, role);
        canvas.text(part(SIGN + self.name, self.worst.saturating_sub(1)), texts.1, role);
        let mut x = SIGN + self.name + self.worst;
        for (number, wide) in numbers.into_iter().zip(self.numbers) {
            canvas.right(part(x, wide), number, role);
            x += wide;
        }
    }
}

/// The name, with its label where that says something else.
fn named(profile: &ProfileName) -> String {
    let name = if profile.name.is_empty() {
        "(no profile)".to_owned()
    } else {
        show(&profile.name, SHOWN_MAX)
    };
    let says = show(&profile.says, SHOWN_MAX);
    let says = Some(says).filter(|says| !says.is_empty() && !says.eq_ignore_ascii_case(&name));
    match says.or_else(|| profile.is_current.then(|| "this one".to_owned())) {
        Some(says) => format!("{name} ({says})"),
        None => name,
    }
}

fn one(canvas: &mut Canvas<'_>, area: Rect, places: &Places, state: &State, (profile, name): (&ProfileName, &str)) {
    match state.condition_of(profile) {
        Some(Answer {
            result: Ok(condition), ..
        }) => known_one(canvas, area, places, name, &condition),
        Some(Answer { result: Err(why), at }) => {
            let age = ago(canvas.now, at);
            let text = format!("? {why}");
            places.line(canvas, area, (name, ""), ["", "", "", &age], Role::Text);
            let room = behind(area, SIGN + places.name);
            let wide = cells(width(&text)).min(room.width.saturating_sub(places.numbers[3]));
            canvas.text(Rect { width: wide, ..room }, &text, Role::Error);
        }
        None => places.line(canvas, area, (name, "looking …"), ["", "", "", ""], Role::TextMuted),
    }
}

fn known_one(canvas: &mut Canvas<'_>, area: Rect, places: &Places, name: &str, condition: &Condition) {
    let (sign, role) = match condition.gravity {
        Gravity::Fine => ('●', Role::Good),
        Gravity::Waits => ('…', Role::Warning),
        Gravity::Fails => ('▼', Role::Bad),
        Gravity::Stands => ('!', Role::Critical),
    };
    let daemons = condition
        .daemons
        .map_or_else(|| UNKNOWN.to_owned(), |daemons| daemons.to_string());
    let age = condition
        .read_at
        .map_or_else(|| "never".to_owned(), |at| ago(canvas.now, at));
    let (waiting, dead) = (known(condition.waiting), known(condition.dead));
    places.line(canvas, area, (name, ""), [&waiting, &dead, &daemons, &age], Role::Text);
    let room = behind(area, SIGN + places.name);
    let room = Rect {
        width: places.worst.saturating_sub(1).min(room.width),
        ..room
    };
    canvas.text(room, &format!("{sign} {}", condition.worst), role);
}
