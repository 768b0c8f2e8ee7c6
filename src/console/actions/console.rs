//! Actions on the console itself.

use crate::console::state::action::{Action, Also, named};
use crate::console::state::effect::Effect;
use crate::console::update::{act, help};

pub(super) const CONSOLE: &[Action] = &[
    Action::new("help", "help", &["?"])
        .help("Every key and what it does; type to look for something.")
        .turns(help::open)
        .also(&[Also::Corner]),
    Action::new("suspend", "suspend", &["Ctrl+z"])
        .help("Give the terminal back to the shell; `fg` comes back here.")
        .does(|_| vec![Effect::Suspend])
        .also(&[Also::Blind]),
    Action::new(named::QUIT, "quit", &["q", "Ctrl+c"])
        .help("Leave.")
        .does(act::quit)
        .also(&[Also::Corner, Also::Blind]),
];
