//! The terminal: taken for the screen, and given back whatever happens.
//!
//! Given back on every way out: the guard's drop, an error, a panic of the screen's thread (before the
//! message is printed), and by whoever calls [`give_back`]. Taking again after a suspension is the
//! same step as taking first. What was typed before the screen was there is thrown away.
//!
//! Of the kitty protocol, escape codes are made unambiguous and repeats are told apart where the
//! terminal can do it. Plain letters stay plain text: reporting them as codes would lose characters
//! that only a compose key or `AltGr` makes.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{queue, style};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpgrp, getpid, getppid, getsid, kill_current_process_group};
use rustix::stdio;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp, tcgetwinsize};

/// The name of the thread whose panic gives the terminal back.
pub const SCREEN_THREAD: &str = "console";
/// What is assumed where the terminal does not say.
const SIZE_DEFAULT: (u16, u16) = (80, 24);
/// How long giving back waits for a terminal that takes nothing.
const STALL_MAX: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};
/// The title is kept by the terminal meanwhile (XTWINOPS).
const PUSH_TITLE: &str = "\x1b[22;0t";
const POP_TITLE: &str = "\x1b[23;0t";
/// Presses and the wheel, with cells beyond the 223rd; moves are not told.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

static HELD: AtomicBool = AtomicBool::new(false);
static KEY_CODES: AtomicBool = AtomicBool::new(false);
static MOUSE: AtomicBool = AtomicBool::new(false);

/// The terminal, held for the screen; dropping it gives it back.
#[derive(Debug)]
pub struct Terminal {
    title: String,
    knows_key_codes: bool,
    wants_mouse: bool,
}

impl Terminal {
    /// Takes the terminal of standard input and output. `title` is safe to show.
    pub fn take(title: &str) -> io::Result<Self> {
        // Its own handling of NO_COLOR would take the inverse of the selected row as well.
        style::force_color_output(true);
        give_back_before_a_panic_is_told();
        let terminal = Self {
            title: title.to_owned(),
            knows_key_codes: false,
            wants_mouse: false,
        };
        terminal.take_again()?;
        Ok(terminal)
    }

    /// Takes it once more, after it was given back or after somebody else used it.
    pub fn take_again(&self) -> io::Result<()> {
        // What the shell set meanwhile is what it gets back.
        disable_raw_mode()?;
        enable_raw_mode()?;
        let first = !HELD.swap(true, Ordering::SeqCst);
        let mut bytes = Vec::new();
        if first {
            bytes.extend_from_slice(PUSH_TITLE.as_bytes());
        }
        queue!(
            bytes,
            EnterAlternateScreen,
            EnableBracketedPaste,
            EnableFocusChange,
            Hide,
            SetTitle(&self.title)
        )?;
        stdout()?.write_all(&bytes)?;
        self.tell_mouse()?;
        if self.knows_key_codes {
            push_key_codes()?;
        }
        let _ = tcflush(stdio::stdin(), QueueSelector::IFlush);
        Ok(())
    }

    /// The terminal said that it knows the kitty protocol.
    pub fn use_key_codes(&mut self) -> io::Result<()> {
        self.knows_key_codes = true;
        if HELD.load(Ordering::SeqCst) {
            push_key_codes()
        } else {
            Ok(())
        }
    }

    /// Whether presses and the wheel are wanted from now on.
    pub fn use_mouse(&mut self, wanted: bool) -> io::Result<()> {
        self.wants_mouse = wanted;
        self.tell_mouse()
    }

    fn tell_mouse(&self) -> io::Result<()> {
        if !HELD.load(Ordering::SeqCst) || MOUSE.swap(self.wants_mouse, Ordering::SeqCst) == self.wants_mouse {
            return Ok(());
        }
        let bytes = if self.wants_mouse { MOUSE_ON } else { MOUSE_OFF };
        stdout()?.write_all(bytes.as_bytes())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// A handle for writing frames: without the line buffer of the standard library's.
pub fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Width and height in cells.
#[must_use]
pub fn size() -> (u16, u16) {
    match tcgetwinsize(stdio::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        Ok(_) | Err(_) => SIZE_DEFAULT,
    }
}

/// Gives the terminal back if it is held; from any thread, any number of times.
pub fn give_back() {
    if !HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes = Vec::new();
    let _ = queue!(bytes, EndSynchronizedUpdate);
    if MOUSE.swap(false, Ordering::SeqCst) {
        bytes.extend_from_slice(MOUSE_OFF.as_bytes());
    }
    if KEY_CODES.swap(false, Ordering::SeqCst) {
        let _ = queue!(bytes, PopKeyboardEnhancementFlags);
    }
    let _ = queue!(
        bytes,
        DisableFocusChange,
        DisableBracketedPaste,
        style::ResetColor,
        Show,
        LeaveAlternateScreen
    );
    bytes.extend_from_slice(POP_TITLE.as_bytes());
    if takes_bytes()
        && let Ok(mut out) = stdout()
    {
        let _ = out.write_all(&bytes);
    }
    let _ = disable_raw_mode();
}

/// A terminal that is stopped or gone must not hold up our end.
fn takes_bytes() -> bool {
    let stdout = stdio::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::OUT)];
    let mut ready = poll(&mut polled, Some(&STALL_MAX));
    while ready == Err(Errno::INTR) {
        ready = poll(&mut polled, Some(&STALL_MAX));
    }
    ready.is_ok_and(|ready| ready > 0) && polled[0].revents().contains(PollFlags::OUT)
}

fn push_key_codes() -> io::Result<()> {
    let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES | KeyboardEnhancementFlags::REPORT_EVENT_TYPES;
    let mut bytes = Vec::new();
    queue!(bytes, PushKeyboardEnhancementFlags(flags))?;
    if KEY_CODES.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    stdout()?.write_all(&bytes)
}

/// Whether the terminal is ours at present: a job in the background must leave it alone.
#[must_use]
pub fn in_foreground() -> bool {
    tcgetpgrp(stdio::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Whether somebody is there who would continue us: a shell with job control.
#[must_use]
pub fn can_suspend() -> bool {
    let session = getsid(None).ok();
    let leads = session == Some(getpid());
    let parent_session = getppid().and_then(|parent| getsid(Some(parent)).ok());
    !leads && session.is_some() && parent_session == session
}

/// Stops this process, with whatever was started along with it, until it is continued. The terminal
/// must have been given back.
pub fn suspend() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::STOP)?)
}

/// A panic on the screen's thread ends the console: the terminal first, so that the message can be
/// read. One elsewhere goes into the log while there is a screen, since the console goes on.
fn give_back_before_a_panic_is_told() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |information| {
            let ours = std::thread::current().name() == Some(SCREEN_THREAD);
            if HELD.load(Ordering::SeqCst) && !ours {
                let message = information.payload_as_str().unwrap_or("a panic without a message");
                let place = information.location().map(ToString::to_string);
                tracing::error!(?message, ?place, "panic beside the screen");
                return;
            }
            give_back();
            before(information);
        }));
    });
}
