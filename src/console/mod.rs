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
//! Left out on purpose: no knowledge of store, broker or sender, no log on the screen's terminal, no
//! colour outside the theme, no file written that was not asked for.

pub mod action;
pub mod clipboard;
pub mod detail;
pub mod dialog;
pub mod document_form;
mod editor;
pub mod effect;
pub mod effects;
pub mod event;
pub mod event_rates;
pub mod events;
pub mod export;
pub mod feed;
pub mod first_run;
pub mod fuzzy;
pub mod history;
pub mod journal;
pub mod keymap;
pub mod link;
pub mod painter;
pub mod palette;
pub mod payload;
pub mod picture;
pub mod policy_form;
pub mod runtime;
pub mod settings;
pub mod state;
pub mod table;
pub mod terminal;
pub mod theme;
pub mod tracks;
pub mod trail;
mod update;
pub mod verb;
mod view;
pub mod when_form;

pub use effect::Effect;
pub use event::Event;
pub use runtime::{ConsoleError, Next, ask_first, check, run};
pub use settings::{Connect, ConnectProblem, ConsoleSettings, Deliver};
pub use state::State;
pub use theme::Theme;
pub use update::update;
pub use view::{first_run as view_first_run, view};
