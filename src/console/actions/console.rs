//! Actions on the console itself.

use crate::console::state::action::{Action, Also, named};
use crate::console::state::effect::Effect;
use crate::console::update::{act, help, window};

pub(super) const CONSOLE: &[Action] = &[
    Action::new("help", "help", &["?"])
        .help("Every key and what it does; type to look for something.")
        .turns(help::open)
        .also(&[Also::Corner]),
    Action::new(named::ALLOW_CHANGES, "allow changes", &["W"])
        .help("In a protected profile: type why, and changes are allowed for 15 minutes; the reason goes into the audit. Pressed again, it is read-only again.")
        .when(window::possible)
        .does(window::turn)
        .also(&[Also::Hinted, Also::Likely(window::is_closed), Also::Called(window::title)]),
    Action::new("suspend", "suspend", &["Ctrl+z"])
        .help("Give the terminal back to the shell; `fg` comes back here.")
        .does(|_| vec![Effect::Suspend])
        .also(&[Also::Blind]),
    Action::new(named::QUIT, "quit", &["q", "Ctrl+c"])
        .help("Leave.")
        .does(act::quit)
        .also(&[Also::Corner, Also::Blind]),
];
