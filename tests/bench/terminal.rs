//! The built program on a pseudo-terminal, as a person has it.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc as channel;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// The size of the terminal.
pub const SIZE: (u16, u16) = (120, 40);
/// The end mark of a synchronized update.
pub const FRAME_END: &[u8] = b"\x1b[?2026l";

/// The program on a terminal of 120×40, its output by pieces with the time of each.
pub struct Program {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    pub input: Box<dyn Write + Send>,
    output: channel::Receiver<(Instant, Vec<u8>)>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
}

/// The file with this configuration.
fn configured(directory: &Path, configuration: &str) -> PathBuf {
    let file = directory.join("config.toml");
    std::fs::write(&file, configuration).unwrap();
    file
}

impl Program {
    /// Makes the store that this configuration names.
    pub fn migrate(directory: &Path, configuration: &str) {
        let migrated = std::process::Command::new(env!("CARGO_BIN_EXE_redrive"))
            .args(["store", "migrate", "--config"])
            .arg(configured(directory, configuration))
            .output()
            .unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
    }

    pub fn start(directory: &Path, configuration: &str, arguments: &[&str]) -> Self {
        let file = configured(directory, configuration);
        let (cols, rows) = SIZE;
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_redrive"));
        command.env("TERM", "xterm-256color");
        // As the program sets it for itself by starting again: that start is measured too.
        for variable in ["RUST_MIN_STACK", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX"] {
            command.env_remove(variable);
        }
        for home in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"] {
            command.env(home, directory);
        }
        command.args(arguments);
        command.arg("--config");
        command.arg(&file);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let input = pair.master.take_writer().unwrap();
        let (pieces, output) = channel::channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let _ = pieces.send((Instant::now(), buffer[..count].to_vec()));
            }
        });
        Self {
            child: pair.slave.spawn_command(command).unwrap(),
            input,
            output,
            _master: pair.master,
        }
    }

    /// Bytes up to these; a question for the terminal's kind is answered on the way.
    pub fn until(&mut self, wanted: &[u8]) -> Instant {
        let mut seen = Vec::new();
        loop {
            let (at, piece) = self
                .output
                .recv_timeout(Duration::from_secs(60))
                .expect("bytes of the console");
            seen.extend_from_slice(&piece);
            if holds(&piece, b"\x1b[c") {
                self.input.write_all(b"\x1b[?62;22c").unwrap();
            }
            if holds(&seen, wanted) {
                return at;
            }
        }
    }

    /// Bytes written within this time.
    pub fn bytes_within(&self, time: Duration) -> usize {
        let end = Instant::now() + time;
        let mut count = 0;
        while let Ok((_, piece)) = self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
            count += piece.len();
        }
        count
    }

    /// Processor time since the start: of all threads, and of those that keep the screen.
    pub fn processor(&self) -> [Duration; 2] {
        let tasks = format!("/proc/{}/task", self.child.process_id().unwrap());
        let mut used = [Duration::ZERO; 2];
        for thread in std::fs::read_dir(tasks).unwrap().filter_map(Result::ok) {
            let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let nanoseconds = read("schedstat").split(' ').next().and_then(|text| text.parse().ok());
            let time = Duration::from_nanos(nanoseconds.unwrap_or(0));
            used[0] += time;
            if read("comm").starts_with("console") {
                used[1] += time;
            }
        }
        used
    }

    pub fn quit(mut self) {
        self.input.write_all(b"q").unwrap();
        self.child.wait().unwrap();
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
