//! Actions on the console itself.

use crate::console::state::Mode;
use crate::console::state::action::{Action, Also, named};
use crate::console::state::effect::Effect;
use crate::console::update::act;

pub(super) const CONSOLE: &[Action] = &[
    Action::new("help", "help", &["?"])
        .help("Every key and what it does.")
        .turns(|state| state.input.mode = Mode::Help { scroll: 0 })
        .also(&[Also::Corner, Also::ClosesHelp]),
    Action::new("suspend", "suspend", &["Ctrl+z"])
        .help("Give the terminal back to the shell; `fg` comes back here.")
        .does(|_| vec![Effect::Suspend])
        .also(&[Also::Blind]),
    Action::new(named::QUIT, "quit", &["q", "Ctrl+c"])
        .help("Leave.")
        .does(act::quit)
        .also(&[Also::Corner, Also::ClosesHelp, Also::Blind]),
];
