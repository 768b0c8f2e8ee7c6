//! The key documentation, made from the table.

use std::fmt::Write;

use super::sections;
use crate::console::state::keymap::Keymap;
use crate::console::state::verb::VERBS;

/// The default keys as a page of Markdown.
#[must_use]
pub fn key_documentation() -> String {
    let keymap = Keymap::default();
    let mut page = String::from(INTRODUCTION);
    for section in sections() {
        let _ = write!(
            page,
            "\n## {}\n\n| key | action | where | what it does |\n|---|---|---|---|\n",
            section.title
        );
        for action in &section.actions {
            let keys: Vec<String> = keymap.labels(action.name).map(|key| format!("`{key}`")).collect();
            let _ = writeln!(
                page,
                "| {} | `{}` | {} | {} |",
                keys.join(" "),
                action.name,
                action.context.named(),
                action.help
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
| `Tab` | Write a reason, which the audit keeps; a protected profile wants one. |
";
