//! Help and key documentation, made from the table.

use std::fmt::Write;

use super::{ACTIONS, ActionId, ActionSpec, Context};
use crate::console::keymap::Keymap;
use crate::console::verb::VERBS;

/// Actions that belong together.
#[derive(Clone, Copy, Debug)]
pub struct HelpSection {
    /// What they have in common.
    pub title: &'static str,
    /// Its first and its last action in the table.
    first: ActionId,
    last: ActionId,
}

const SECTIONS: &[HelpSection] = &[
    HelpSection::new(
        "Act (planned, then confirmed)",
        ActionId::Redeliver,
        ActionId::RestoreSaved,
    ),
    HelpSection::new("Look", ActionId::SavedMessages, ActionId::PreviousMatch),
    HelpSection::new(
        "Go to what belongs to it",
        ActionId::RelatedQueues,
        ActionId::RelatedAudit,
    ),
    HelpSection::new("Lists", ActionId::Filter, ActionId::Copy),
    HelpSection::new("Data", ActionId::Freeze, ActionId::Refresh),
    HelpSection::new("Go", ActionId::Overview, ActionId::PreviousView),
    HelpSection::new("Move", ActionId::Up, ActionId::Right),
    HelpSection::new("Console", ActionId::Help, ActionId::Quit),
];

/// The sections of the help; every action is in one of them.
#[must_use]
pub const fn help_sections() -> &'static [HelpSection] {
    SECTIONS
}

impl HelpSection {
    const fn new(title: &'static str, first: ActionId, last: ActionId) -> Self {
        Self { title, first, last }
    }

    /// Its actions.
    #[must_use]
    pub fn actions(&self) -> &'static [ActionSpec] {
        let place = |id| ACTIONS.iter().position(|spec| spec.id == id);
        match (place(self.first), place(self.last)) {
            (Some(first), Some(last)) => ACTIONS.get(first..=last).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// The default keys as a page of Markdown.
#[must_use]
pub fn key_documentation() -> String {
    let keymap = Keymap::default();
    let mut page = String::from(INTRODUCTION);
    for section in help_sections() {
        let _ = write!(
            page,
            "\n## {}\n\n| key | action | where | what it does |\n|---|---|---|---|\n",
            section.title
        );
        for spec in section.actions() {
            let keys: Vec<String> = keymap.labels(spec.id).map(|key| format!("`{key}`")).collect();
            let _ = writeln!(
                page,
                "| {} | `{}` | {} | {} |",
                keys.join(" "),
                spec.name,
                spec.context.named(),
                spec.help
            );
        }
    }
    page.push_str(COMMANDS);
    for verb in VERBS {
        let line = format!("{} {}", verb.name, verb.takes.replace('|', "\\|"));
        let _ = writeln!(page, "| `:{}` | {} |", line.trim_end(), verb.help);
    }
    page.push_str(IN_A_DIALOG);
    page
}

impl Context {
    /// For a person: where it is offered.
    #[must_use]
    pub fn named(self) -> String {
        match self {
            Self::Everywhere => "everywhere".to_owned(),
            Self::Views(views) => views
                .iter()
                .map(|view| view.title().to_lowercase())
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

const INTRODUCTION: &str = "\
# Keys of the console

Made from the table of actions. The names in the second column are those of `[console.keys]` in the
configuration: `redeliver = \"X\"`, several keys as `\"x, F5\"`, a sequence as `\"g r\"`, none as `\"\"`.
";

const COMMANDS: &str = "
## Commands

Typed behind `:`, where every action, queue, endpoint and run is found by its name as well.

| command | what it does |
|---|---|
";

const IN_A_DIALOG: &str = "
## In a confirmation

| key | what it does |
|---|---|
| `Enter` `Esc` `n` | Nothing is done. |
| `y` | Do it; takes effect 0.4 s after the plan is shown. |
| the number or the name that is asked for, then `Enter` | Do it, where many or lost messages ask for more than a key. |
| `Up` `Down` `PageUp` `PageDown` | Look through what would be changed. |
";
