//! A console whose painter fails, in a process of its own: this test binary, started again.

use std::env;
use std::future::pending;
use std::process::Command;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use redrive::internals::console::runtime::run_with_view;
use redrive::internals::console::state::Place;
use redrive::internals::console::{Connect, ConsoleSettings, Deliver, State, Theme, view};
use redrive::internals::engine::Access;
use tokio_util::sync::CancellationToken;

const VARIABLE: &str = "REDRIVE_TEST_CHILD";
const NAME: &str = "console::child::a_painter_that_fails_at_a_key_does_so_only_in_a_child";

/// This binary, set to run the console of this file.
pub(super) fn command() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, "1").env("RUST_BACKTRACE", "0");
    command
}

/// As the console's own, until the help is opened.
fn failing(state: &State, theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    assert!(
        !matches!(state.input.mode, redrive::internals::console::state::Mode::Help(_)),
        "the painter failed"
    );
    view(state, theme, buffer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_painter_that_fails_at_a_key_does_so_only_in_a_child() {
    if env::var_os(VARIABLE).is_none() {
        return;
    }
    let settings = ConsoleSettings {
        place: Place::default(),
        theme: None,
        keys: std::collections::BTreeMap::new(),
        mask: std::sync::Arc::new(redrive::internals::domain::mask::MaskRules::usual()),
        refresh: Duration::from_secs(1),
        access: Access::Operator,
        actor: "test".to_owned(),
        reason: None,
        deliver: Deliver::Never,
        profiles: redrive::internals::console::state::settings::Profiles::default(),
        mouse: false,
        views: redrive::internals::console::state::saved::NamedViews::default(),
        preview: true,
        notify: redrive::internals::console::state::call::Notify::Off,
        titles: true,
        at: None,
        reload: None,
        survey: None,
    };
    let never = Connect::new(pending);
    Box::pin(run_with_view(failing, never, settings, CancellationToken::new()))
        .await
        .unwrap();
}
