//! The console: what the operator on call opens at three in the morning.
//!
//! Events in, effects out. [`State`] is everything the screen shows; [`update`] is the only thing
//! that changes it, and is pure: it is told the time and answers with [`Effect`]s, which only the
//! runtime carries out. `view` paints a `State` into a buffer and changes nothing. So a session is a
//! list of events that can be written down and played again.
//!
//! What it shows are [`Snapshot`](crate::engine::snapshot::Snapshot)s of the engine: immutable,
//! shared, with a generation and an age. What it changes goes through the engine's `plan` →
//! confirmation → `execute`, and needs a grant that read-only access cannot make.
//!
//! From the lowest floor on; none names one above it, which a test proves:
//!
//! | part | what it is |
//! |---|---|
//! | `journal`, `fuzzy`, `theme`, `typing` | sentences, search, colours, how a line is typed |
//! | `table` | the one list: sorted, filtered, windowed |
//! | `widgets` | what is painted with; its canvas is the gate for text from outside |
//! | `state` | everything the screen shows, and what an action and a view are |
//! | `views` | the views, a file each |
//! | `first_run` | the questions of the first run |
//! | `paint` | the screen: frame, details, forms, dialogs |
//! | `update` | what an event makes of the state |
//! | `actions` | the table of actions |
//! | `effects`, `runtime` | what carries effects out, and the terminal |
//!
//! Left out on purpose: no knowledge of store, broker or sender, no log on the screen's terminal, no
//! colour outside the theme, no file written that was not asked for.

pub mod actions;
pub mod effects;
pub mod first_run;
pub mod fuzzy;
pub mod journal;
mod paint;
pub mod runtime;
pub mod state;
pub mod table;
pub mod theme;
mod typing;
mod update;
mod views;
mod widgets;

pub use paint::{first_run as view_first_run, view};
pub use runtime::{ConsoleError, Next, ask_first, check, run};
pub use state::State;
pub use state::effect::Effect;
pub use state::event::Event;
pub use state::settings::{Connect, ConnectProblem, ConsoleSettings, Deliver};
pub use theme::Theme;
pub use update::update;
