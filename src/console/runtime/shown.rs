//! The loop on a thread of its own, and what it pauses for: suspension, and the terminal's return.

use std::time::Duration;
use std::{io, thread};

use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::screen::{Next, Pause, Screen};
use super::{ConsoleError, input, say, signals};
use crate::ambient;
use crate::console::effects::Executor;
use crate::console::runtime::editor;
use crate::console::runtime::terminal::{self, Terminal};
use crate::console::state::effect::Effect;
use crate::console::state::event::Event;

/// Between two looks whether a job in the background was brought to the front.
const FOREGROUND_LOOK: Duration = Duration::from_millis(500);
/// Told where a suspended console would stay suspended.
const NO_SHELL: &str = "not suspended: no shell with job control started this, so nobody would continue it";

/// The loop on its thread.
pub(super) struct Shown {
    result: oneshot::Receiver<Result<Option<Next>, ConsoleError>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Shown {
    pub(super) fn on_thread(
        screen: Screen<std::fs::File>,
        terminal: Terminal,
        executor: Executor,
        end: CancellationToken,
    ) -> Result<Self, ConsoleError> {
        let (sender, result) = oneshot::channel();
        let runtime = Handle::current();
        let thread = thread::Builder::new()
            .name(terminal::SCREEN_THREAD.to_owned())
            .spawn(move || {
                let result = runtime.block_on(drive(screen, terminal, executor, end));
                let _ = sender.send(result);
            })
            .map_err(ConsoleError::Terminal)?;
        Ok(Self {
            result,
            thread: Some(thread),
        })
    }

    /// How it ended; `Err`: with this panic.
    pub(super) async fn ended(&mut self) -> thread::Result<Result<Option<Next>, ConsoleError>> {
        if let Ok(result) = (&mut self.result).await {
            return Ok(result);
        }
        match self.thread.take().map(thread::JoinHandle::join) {
            Some(Err(panic)) => Err(panic),
            Some(Ok(())) | None => Ok(Ok(None)),
        }
    }
}

/// Runs the loop, and between its pauses does what concerns the terminal.
async fn drive(
    mut screen: Screen<std::fs::File>,
    mut terminal: Terminal,
    mut executor: Executor,
    end: CancellationToken,
) -> Result<Option<Next>, ConsoleError> {
    let mut carry_out = |effect| executor.carry_out(effect);
    loop {
        let paused = screen.run(&end, &mut carry_out).await;
        let done = match paused {
            Ok(Pause::Quit | Pause::Stopped) => return Ok(screen.next.take()),
            Ok(Pause::KeyCodes) => terminal.use_key_codes(),
            Ok(Pause::Mouse) => terminal.use_mouse(screen.state.terminal.mouse),
            Ok(Pause::Suspend) if terminal::can_suspend() => {
                terminal::give_back();
                match terminal::suspend() {
                    Ok(()) => come_back(&mut screen, &terminal, &end, &mut carry_out).await,
                    Err(error) => Err(error),
                }
            }
            Ok(Pause::Edit) => edit(&mut screen, &terminal, &mut carry_out).await,
            Ok(Pause::Suspend) => {
                say::notice(&mut screen.state, NO_SHELL);
                screen.repaint(terminal::size());
                Ok(())
            }
            Ok(Pause::Continued) => regain(&mut screen, &terminal, &end).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(ConsoleError::Terminal(error)),
        }
    }
}

/// Gives the terminal to an editor, and takes it again with what was written.
async fn edit(
    screen: &mut Screen<std::fs::File>,
    terminal: &Terminal,
    carry_out: &mut (dyn FnMut(Effect) + Send),
) -> io::Result<()> {
    let Some(job) = screen.editing.take() else {
        return Ok(());
    };
    terminal::give_back();
    let of = job.of.clone();
    let written = {
        let _held = input::hold();
        let _deaf = signals::ignore_interrupts();
        let writing = tokio::task::spawn_blocking(move || editor::write(&job));
        screen.while_away(writing, terminal::suspend, carry_out).await?
    };
    terminal.take_again()?;
    screen.repaint(terminal::size());
    let result = written.unwrap_or_else(|_| Err("the editor could not be waited for".to_owned()));
    screen.tell(Event::Edited { of, result }, carry_out)
}

/// After a stop: waits until the process is continued, and takes the terminal again.
async fn come_back(
    screen: &mut Screen<std::fs::File>,
    terminal: &Terminal,
    end: &CancellationToken,
    carry_out: &mut (dyn FnMut(Effect) + Send),
) -> io::Result<()> {
    screen.until_continued(end, carry_out).await?;
    regain(screen, terminal, end).await
}

/// Takes the terminal again, once it is ours: a job that was continued in the background waits.
async fn regain(screen: &mut Screen<std::fs::File>, terminal: &Terminal, end: &CancellationToken) -> io::Result<()> {
    while !terminal::in_foreground() {
        tokio::select! {
            () = ambient::sleep(FOREGROUND_LOOK) => {}
            () = end.cancelled() => return Ok(()),
        }
    }
    terminal.take_again()?;
    screen.repaint(terminal::size());
    Ok(())
}

/// Whether the terminal went away: the end of the console, and no failure of it.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let number = Errno::from_io_error(error);
    matches!(number, Some(Errno::IO | Errno::PIPE | Errno::NXIO | Errno::NODEV))
}
