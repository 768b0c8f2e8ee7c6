//! A program on a pseudo-terminal, and what a terminal makes of the bytes that it writes.
//!
//! Like a real terminal it answers when it is asked what it is; keys are written one by one, and
//! everything that is waited for is a state of the screen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};

use crate::support::wait::{persons_pace, wait_until};

/// Generous: a debug build on a machine that runs all tests at once.
pub(crate) const BOUND: Duration = Duration::from_secs(90);

/// The question for the colour of the ground.
pub(super) const GROUND: &[u8] = b"\x1b]11;?\x1b\\";

/// What the terminal can do beside the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// It knows no keyboard protocol.
    #[default]
    Plain,
    /// It knows the kitty keyboard protocol.
    Kitty,
    /// It says that its ground is light.
    Light,
    /// It says that its ground is dark.
    Dark,
    /// It answers with what nobody can understand.
    Garbage,
}

/// A program on a pseudo-terminal; killed with this value.
pub(crate) struct Pty {
    master: Box<dyn MasterPty + Send>,
    input: Arc<Mutex<Box<dyn Write + Send>>>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    /// When the last key was pressed.
    pressed: Mutex<Option<Instant>>,
}

/// What came from the program.
struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    ended: bool,
}

impl Pty {
    /// Starts a program on a plain terminal of this size.
    pub(crate) fn start(command: &Command, size: (u16, u16)) -> Self {
        Self::start_on(Kind::Plain, command, size)
    }

    pub(super) fn start_on(kind: Kind, command: &Command, (columns, rows): (u16, u16)) -> Self {
        let pair = native_pty_system().openpty(pty_size(columns, rows)).unwrap();
        let child = pair.slave.spawn_command(builder(command)).unwrap();
        let seen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(cells(rows), cells(columns), 0),
            bytes: Vec::new(),
            ended: false,
        }));
        let input = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let output = pair.master.try_clone_reader().unwrap();
        let (into, answers) = (Arc::clone(&seen), Arc::clone(&input));
        thread::spawn(move || read(output, kind, &into, &answers));
        Self {
            master: pair.master,
            input,
            child,
            seen,
            pressed: Mutex::default(),
        }
    }

    /// Types these bytes at once.
    pub(crate) fn send(&self, bytes: &[u8]) {
        let mut input = self.input.lock().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Presses one key, no faster after the last than a person does: a console that answers within milliseconds
    /// would take a test that only waits for the screen for pasted text.
    pub(crate) fn key(&self, key: &str) {
        let mut last = self.pressed.lock().unwrap();
        persons_pace(*last);
        self.send(key.as_bytes());
        *last = Some(Instant::now());
    }

    /// Pastes as a terminal does that was asked to mark pastes.
    pub(super) fn paste(&self, text: &str) {
        self.send(format!("\x1b[200~{text}\x1b[201~").as_bytes());
    }

    /// Types a line behind `:` and has it done. What was seen may be a part of a frame: an Enter that came too early
    /// is pressed again.
    pub(super) async fn command(&self, line: &str) {
        self.key(":");
        for character in line.chars() {
            self.key(&character.to_string());
        }
        let typed = format!(":{line}");
        self.until(&typed, |screen| is_typed(screen, line)).await;
        wait_until("the line to be done", BOUND, async || {
            if is_typed(&self.screen(), line) {
                self.key("\r");
                return None;
            }
            Some(())
        })
        .await;
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        self.seen().parser.screen_mut().set_size(cells(rows), cells(columns));
        self.master.resize(pty_size(columns, rows)).unwrap();
    }

    pub(super) fn signal(&self, signal: Signal) {
        let id = self.child.process_id().and_then(|id| i32::try_from(id).ok());
        kill_process(id.and_then(Pid::from_raw).unwrap(), signal).unwrap();
    }

    /// The text on the screen, line by line.
    pub(crate) fn screen(&self) -> String {
        self.seen().parser.screen().contents()
    }

    /// What a look at the terminal's state says.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen().parser.screen())
    }

    /// Everything that was written up to now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.seen().bytes.clone()
    }

    pub(crate) fn written(&self) -> usize {
        self.seen().bytes.len()
    }

    /// Until the screen is as wanted; panics with the screen.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        let look = async || {
            let screen = self.screen();
            wanted(&screen).then_some(())
        };
        let told = Told(Arc::clone(&self.seen));
        wait_until(what, BOUND, look).await;
        std::mem::forget(told);
    }

    /// The same, of a whole frame: nothing on it is from the one before.
    pub(crate) async fn until_frame(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        self.until_frame_after(0, what, wanted).await;
    }

    /// The same, of one that begins once `written` bytes had come: what the terminal made of an older one when it
    /// changed its size is no frame.
    async fn until_frame_after(&self, written: usize, what: &str, wanted: impl Fn(&str) -> bool) {
        self.until(what, |_| self.frame(written).is_some_and(|frame| wanted(&frame)))
            .await;
    }

    /// The text of a whole frame that begins behind `written` bytes; `None` while one is being written.
    fn frame(&self, written: usize) -> Option<String> {
        let seen = self.seen();
        let last = |mark: &[u8]| seen.bytes.windows(mark.len()).rposition(|part| part == mark);
        let (begun, over) = (last(b"\x1b[?2026h"), last(b"\x1b[?2026l"));
        (begun <= over && begun >= Some(written)).then(|| seen.parser.screen().contents())
    }

    /// Until this text is on the screen.
    pub(crate) async fn shows(&self, text: &str) {
        self.until(text, |screen| screen.contains(text)).await;
    }

    /// Until this text is not on the screen, a whole one: each frame at a new size begins with an empty one.
    pub(crate) async fn hides(&self, text: &str) {
        self.until_frame(&format!("no {text}"), |frame| !frame.contains(text))
            .await;
    }

    /// Until this text is not on a whole frame that was begun after `written` bytes.
    pub(crate) async fn hides_after(&self, written: usize, text: &str) {
        self.until_frame_after(written, &format!("no {text}"), |frame| !frame.contains(text))
            .await;
    }

    /// Until the program has ended and everything it wrote was read; its exit code.
    pub(crate) async fn ended(&mut self) -> u32 {
        let told = Told(Arc::clone(&self.seen));
        let child = &mut self.child;
        let status = wait_until("the program to end", BOUND, async || child.try_wait().unwrap()).await;
        let seen = &self.seen;
        wait_until("its last words", BOUND, async || lock(seen).ended.then_some(())).await;
        std::mem::forget(told);
        status.exit_code()
    }

    /// Whether the kernel's side of the terminal is as a shell wants it: lines and echo.
    pub(super) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(self.slave()).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Everything that was switched on is off again, in the terminal and in the kernel.
    #[track_caller]
    pub(crate) fn assert_restored(&self) {
        let bytes = self.bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for (on, off) in [
            ("\x1b[?1049h", "\x1b[?1049l"),
            ("\x1b[?2004h", "\x1b[?2004l"),
            ("\x1b[?1004h", "\x1b[?1004l"),
            ("\x1b[?25l", "\x1b[?25h"),
            ("\x1b[?2026h", "\x1b[?2026l"),
            ("\x1b[22;0t", "\x1b[23;0t"),
        ] {
            let last_on = text.rfind(on).unwrap_or_else(|| panic!("{on:?} was never written"));
            assert!(
                text.rfind(off).is_some_and(|last_off| last_off > last_on),
                "{off:?} does not follow"
            );
        }
        for (on, off) in [("\x1b[?1000h", "\x1b[?1000l"), ("\x1b[?1006h", "\x1b[?1006l")] {
            assert!(text.rfind(on) <= text.rfind(off), "the mouse is given back");
        }
        let pushed = text.matches("\x1b[>3u").count();
        assert_eq!(pushed, text.matches("\x1b[<1u").count(), "key codes");
        assert!(
            !self.look(vt100::Screen::alternate_screen),
            "the alternate screen is left"
        );
        assert!(!self.look(vt100::Screen::hide_cursor), "the cursor is shown");
        assert!(self.is_cooked(), "the kernel's modes are back");
    }

    /// The terminal as programs in it call it: `pts/3`.
    pub fn name(&self) -> String {
        let path = self.master.tty_name().unwrap();
        path.to_string_lossy().trim_start_matches("/dev/").to_owned()
    }

    fn slave(&self) -> File {
        let name = self.master.tty_name().unwrap();
        let no_controlling_terminal = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(no_controlling_terminal);
        options.open(name).unwrap()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Shows the screen when a wait for it panics.
struct Told(Arc<Mutex<Seen>>);

impl Drop for Told {
    #[expect(clippy::print_stderr, reason = "a failed test shows the screen")]
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- the screen\n{}\n---", lock(&self.0).parser.screen().contents());
        }
    }
}

/// Whether the open line says that.
fn is_typed(screen: &str, line: &str) -> bool {
    screen
        .lines()
        .any(|shown| shown.contains(&format!(":{line}")) || shown.contains(&format!(": {line}")))
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(mut output: Box<dyn Read + Send>, kind: Kind, seen: &Mutex<Seen>, input: &Mutex<Box<dyn Write + Send>>) {
    let mut buffer = vec![0; 64 * 1024];
    // An error is how the end of a pseudo-terminal looks.
    while let Ok(count) = output.read(&mut buffer)
        && count > 0
    {
        let bytes = &buffer[..count];
        let mut seen = lock(seen);
        seen.parser.process(bytes);
        seen.bytes.extend_from_slice(bytes);
        drop(seen);
        if bytes.windows(3).any(|three| three == b"\x1b[c") {
            let answer: &[u8] = match kind {
                Kind::Kitty => b"\x1b[?0u\x1b[?62;22c",
                Kind::Plain | Kind::Light | Kind::Dark | Kind::Garbage => b"\x1b[?62;22c",
            };
            let _ = input.lock().unwrap().write_all(answer);
        }
        if bytes.windows(GROUND.len()).any(|part| part == GROUND) {
            let answer: &[u8] = match kind {
                Kind::Plain | Kind::Kitty => b"",
                Kind::Light => b"\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\",
                Kind::Dark => b"\x1b]11;rgb:0000/2b2b/3636\x07",
                Kind::Garbage => b"\x1b]11;RXDqq3;2/9?\x1b\\",
            };
            let _ = input.lock().unwrap().write_all(answer);
        }
    }
    lock(seen).ended = true;
}

fn builder(command: &Command) -> CommandBuilder {
    let mut builder = CommandBuilder::new(command.get_program());
    builder.args(command.get_args());
    // What a terminal can do is read from more variables than one can name: no one of the caller's own.
    builder.env_clear();
    for (name, value) in std::env::vars_os() {
        let kept = ["PATH", "HOME", "TMPDIR", "LANG"].iter().any(|one| name == *one);
        if kept || name.to_string_lossy().starts_with("REDRIVE_TEST_") {
            builder.env(name, value);
        }
    }
    builder.env("TERM", "xterm-256color");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => builder.env(name, value),
            None => builder.env_remove(name),
        }
    }
    if let Some(directory) = command.get_current_dir() {
        builder.cwd(directory);
    }
    builder
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a terminal has cells")
}

const fn pty_size(cols: u16, rows: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}
