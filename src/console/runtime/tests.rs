//! The loop with events from a test and bytes into a test.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::style::Style;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::shown::is_gone;
use super::*;
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;
use crate::console::theme::Theme;

/// Each write for itself.
#[derive(Clone, Debug, Default)]
struct Out(Arc<Mutex<Vec<Vec<u8>>>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Paints the size and the number of log entries.
fn plain_view(state: &State, _theme: &Theme, buffer: &mut Buffer) -> Option<Position> {
    let (columns, rows) = state.terminal.size;
    buffer.set_string(0, 0, format!("{columns}x{rows}"), Style::new());
    None
}

struct Rig {
    out: Out,
    inputs: mpsc::Sender<Input>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<(io::Result<Pause>, Vec<String>)>,
}

impl Rig {
    fn start() -> Self {
        let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
        let (out, stop) = (Out::default(), CancellationToken::new());
        let settings = crate::console::state::settings::ConsoleSettings {
            place: crate::console::state::Place::default(),
            theme: None,
            keys: std::collections::BTreeMap::new(),
            mask: std::sync::Arc::new(crate::domain::mask::MaskRules::usual()),
            refresh: Duration::from_secs(2),
            access: crate::engine::Access::Operator,
            actor: "test".to_owned(),
            reason: None,
            deliver: Deliver::Never,
            profiles: crate::console::state::settings::Profiles::default(),
            mouse: false,
            views: crate::console::state::saved::NamedViews::default(),
            preview: true,
            notify: crate::console::state::call::Notify::Off,
            titles: false,
            at: None,
            reload: None,
            survey: None,
        };
        let clock = Clock::system();
        let state = first_state(&settings, (80, 24), &clock).unwrap();
        let mut screen = Screen::new(state, Theme::default(), plain_view, out.clone(), receiver, clock);
        let told = stop.clone();
        let running = ambient::spawn("screen", async move {
            let mut effects = Vec::new();
            let mut keep = |effect: Effect| effects.push(format!("{effect:?}"));
            let pause = screen.run(&told, &mut keep).await;
            (pause, effects)
        });
        Self {
            out,
            inputs,
            stop,
            running,
        }
    }

    async fn send(&self, event: Event) {
        self.inputs.send(event.into()).await.unwrap();
    }

    fn writes(&self) -> Vec<String> {
        let writes = self.out.0.lock().unwrap();
        writes
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }

    /// Everything that was sent is taken, and the loop has ended.
    async fn end(self) -> (Pause, Vec<String>, Vec<String>) {
        while self.inputs.capacity() < self.inputs.max_capacity() {
            tokio::task::yield_now().await;
        }
        self.stop.cancel();
        let writes = Arc::clone(&self.out.0);
        let (pause, effects) = self.running.await.unwrap();
        let writes = writes
            .lock()
            .unwrap()
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect();
        (pause.unwrap(), effects, writes)
    }
}

#[tokio::test]
async fn of_a_burst_of_sizes_only_the_last_is_painted_and_an_equal_frame_writes_nothing() {
    let rig = Rig::start();
    while rig.writes().is_empty() {
        tokio::task::yield_now().await;
    }
    for columns in 20..60 {
        rig.send(Event::Resize { columns, rows: 10 }).await;
    }
    while rig.writes().len() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..200 {
        rig.send(Event::Tick).await;
        rig.send(Event::Focus(true)).await;
    }
    let (pause, _, writes) = rig.end().await;
    assert_eq!(pause, Pause::Stopped);
    assert!(writes[0].contains("80x24") && writes[1].contains("59x10"), "{writes:?}");
    assert_eq!(writes.len(), 2, "{writes:?}");
}

#[tokio::test]
async fn the_end_of_the_terminal_ends_the_loop() {
    let rig = Rig::start();
    rig.inputs.send(Input::Gone).await.unwrap();
    assert_eq!(rig.running.await.unwrap().0.unwrap(), Pause::Quit);
}

#[test]
fn a_terminal_that_went_away_is_told_from_one_that_fails() {
    for number in [5, 32] {
        assert!(is_gone(&io::Error::from_raw_os_error(number)));
    }
    assert!(!is_gone(&io::Error::from_raw_os_error(28)));
}
