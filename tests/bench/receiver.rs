//! The receiver of both sides: keep-alive HTTP/1.1 on one thread, an empty 200 for every request.
//!
//! It notes when the first and the last request came, and for a body that begins with `t=MICROSECONDS `
//! (the time of day when it was published) how long that took. `/never/…` is never answered, `/until/…` until it is
//! told to hang; of `/until/…` and `/outage/…` it notes when the last of them had its first request.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::process::Side;
use crate::support::http::Request;

/// The receiver as the measurement sees it.
pub struct Receiver {
    side: Side,
    pub port: u16,
}

/// What came since the last reset.
#[derive(Debug, Default)]
pub struct Seen {
    pub count: usize,
    pub first_us: u64,
    pub last_us: u64,
    /// The longest time without a request in between.
    pub gap_us: u64,
    /// Microseconds from publish to request.
    pub latencies_us: Vec<u64>,
    /// Whether `/until/…` hangs by now.
    hangs: bool,
    /// Paths of an outage that had a request, answered or not.
    begun: HashSet<Vec<u8>>,
    /// When the last of them had its first.
    begun_last_us: u64,
}

impl Receiver {
    pub async fn start() -> Self {
        let mut side = Side::start("receiver", &[]);
        let port = side.line().await.parse().unwrap();
        Self { side, port }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub async fn count(&self) -> usize {
        self.ask("count").await.parse().unwrap()
    }

    pub async fn reset(&self) {
        self.ask("reset").await;
    }

    pub async fn seen(&self) -> Seen {
        let report = self.ask("report").await;
        let mut numbers = report.split_whitespace().map(|number| number.parse::<u64>().unwrap());
        let mut next = || numbers.next().unwrap();
        let (count, first_us, last_us, gap_us) = (usize::try_from(next()).unwrap(), next(), next(), next());
        Seen {
            count,
            first_us,
            last_us,
            gap_us,
            latencies_us: numbers.collect(),
            ..Seen::default()
        }
    }

    /// From now on `/until/…` is not answered.
    pub async fn hang(&self) {
        self.ask("hang").await;
    }

    /// How many URLs of an outage had a request, and when the last of them had its first (time of day).
    pub async fn begun(&self) -> (usize, u64) {
        let report = self.ask("begun").await;
        let (count, last) = report.split_once(' ').unwrap();
        (count.parse().unwrap(), last.parse().unwrap())
    }

    /// Waits until `count` requests came.
    pub async fn wait_for(&self, count: usize, bound: Duration) {
        crate::support::wait::wait_until(&format!("{count} requests"), bound, async || {
            (self.count().await >= count).then_some(())
        })
        .await;
    }

    async fn ask(&self, what: &str) -> String {
        Request::new("GET", &self.url(&format!("control/{what}")))
            .send()
            .await
            .text()
    }

    pub async fn finish(self) {
        self.side.finish().await;
    }
}

/// The time of day in microseconds.
pub fn time_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

type Noted = Rc<RefCell<Seen>>;

/// The process.
pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        let noted = Noted::default();
        let mut input = crate::process::input();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::task::spawn_local(serve(stream, Rc::clone(&noted)));
            }
        };
        tokio::select! {
            () = accept => {}
            _ = input.recv() => {}
        }
    });
}

async fn serve(mut stream: TcpStream, noted: Noted) {
    let mut buffer = Vec::with_capacity(8192);
    loop {
        while let Some((head, length)) = request_in(&buffer) {
            let path = buffer[..head]
                .split(|byte| *byte == b' ')
                .nth(1)
                .unwrap_or_default()
                .to_vec();
            if path.starts_with(b"/until/") || path.starts_with(b"/outage/") {
                note_begun(&path, &noted);
            }
            if path.starts_with(b"/never/") || (path.starts_with(b"/until/") && noted.borrow().hangs) {
                // Reading goes on, so that the end of the connection is seen.
                while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
                    buffer.clear();
                }
                return;
            }
            if let Some(what) = path.strip_prefix(b"/control/") {
                // The questioner reads to the end of the connection.
                let _ = stream.write_all(&control(what, &noted)).await;
                return;
            }
            note(&buffer[head..head + length], &noted);
            if stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
                .is_err()
            {
                return;
            }
            buffer.drain(..head + length);
        }
        if !stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
            return;
        }
    }
}

/// Length of the head and of the body, when both are there.
fn request_in(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let length = buffer[..head]
        .split(|byte| *byte == b'\n')
        .find_map(|line| {
            let (name, value) = line.split_at_checked(15)?;
            name.eq_ignore_ascii_case(b"content-length:")
                .then(|| std::str::from_utf8(value).ok()?.trim().parse().ok())?
        })
        .unwrap_or(0);
    (buffer.len() >= head + length).then_some((head, length))
}

fn note(body: &[u8], noted: &Noted) {
    let now = time_us();
    let mut seen = noted.borrow_mut();
    seen.count += 1;
    if seen.count == 1 {
        seen.first_us = now;
    } else {
        seen.gap_us = seen.gap_us.max(now.saturating_sub(seen.last_us));
    }
    seen.last_us = now;
    let published = body.strip_prefix(b"t=").and_then(|rest| {
        std::str::from_utf8(rest.split(|byte| *byte == b' ').next()?)
            .ok()?
            .parse::<u64>()
            .ok()
    });
    if let Some(published) = published {
        seen.latencies_us.push(now.saturating_sub(published));
    }
}

fn note_begun(path: &[u8], noted: &Noted) {
    let mut seen = noted.borrow_mut();
    if !seen.begun.contains(path) {
        seen.begun.insert(path.to_vec());
        seen.begun_last_us = time_us();
    }
}

fn control(what: &[u8], noted: &Noted) -> Vec<u8> {
    let mut seen = noted.borrow_mut();
    let body = match what {
        b"count" => seen.count.to_string(),
        b"reset" => {
            let hangs = seen.hangs;
            *seen = Seen {
                hangs,
                ..Seen::default()
            };
            String::new()
        }
        b"hang" => {
            seen.hangs = true;
            String::new()
        }
        b"begun" => format!("{} {}", seen.begun.len(), seen.begun_last_us),
        _ => {
            let latencies: Vec<String> = seen.latencies_us.iter().map(u64::to_string).collect();
            format!(
                "{} {} {} {} {}",
                seen.count,
                seen.first_us,
                seen.last_us,
                seen.gap_us,
                latencies.join(" ")
            )
        }
    };
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
