//! A side of a measurement as a process of its own: lines in, lines out, and its end with the end of its input.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The first argument of a side.
pub const SIDE: &str = "side";

/// What Linux shows to programs, whatever the kernel's own rate is.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running side.
pub struct Side {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Side {
    pub fn start(side: &str, arguments: &[String]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(SIDE)
            .arg(side)
            .args(arguments)
            // As the program sets them for itself.
            .env("MALLOC_MMAP_THRESHOLD_", "1048576")
            .env(
                "MALLOC_ARENA_MAX",
                std::env::var("MALLOC_ARENA_MAX").unwrap_or_else(|_| "2".to_owned()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    /// The next line that it says.
    pub async fn line(&mut self) -> String {
        self.output.next_line().await.unwrap().expect("a side ended early")
    }

    pub async fn tell(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Ends its input and waits until it has ended.
    pub async fn finish(mut self) {
        drop(self.input);
        let ended = self.child.wait().await.unwrap();
        assert!(ended.success(), "a side failed: {ended}");
    }

    /// Ends it at once.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Memory in use, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.status_kib("VmRSS:") * 1024
    }

    /// The most memory that was in use, in MiB.
    pub fn resident_most_mib(&self) -> u64 {
        self.status_kib("VmHWM:") / 1024
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Seconds of processor time since its start.
    pub fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        ticks as f64 / TICKS_PER_SECOND
    }

    fn id(&self) -> u32 {
        self.child.id().expect("still running")
    }
}

/// The lines of this process's input, until its end.
pub fn input() -> UnboundedReceiver<String> {
    let (lines, input) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    input
}
