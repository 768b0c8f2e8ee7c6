//! One HTTP request on a connection of its own, blocking, so that a `Drop` can send it too.
//!
//! HTTP/1.0: the answer ends with the connection, which spares a reader of chunks.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;
use url::Url;

use super::wait::patient;

const TIMEOUT: Duration = Duration::from_secs(30);

/// An answer as it came.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}) in {}: {}", self.status, self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Looks at what was sent and answered: method, path, body, answer.
pub type Looks = fn(&str, &str, &[u8], &Answer);

/// A request under construction: `Request::new("GET", url).send().await`.
pub struct Request {
    method: String,
    url: Url,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    looks: Option<Looks>,
}

impl Request {
    /// User information in the URL becomes basic authentication.
    pub fn new(method: &str, url: &str) -> Self {
        let url = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let host = url.host_str().unwrap_or("localhost");
        let authority = url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
        let mut headers = vec![
            ("host".to_owned(), authority),
            ("connection".to_owned(), "close".to_owned()),
        ];
        if !url.username().is_empty() {
            let credentials = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
            headers.push(("authorization".to_owned(), format!("Basic {encoded}")));
        }
        Self {
            method: method.to_owned(),
            url,
            headers,
            body: Vec::new(),
            looks: None,
        }
    }

    /// What looks at the exchange.
    pub fn looked_at_by(mut self, looks: Looks) -> Self {
        self.looks = Some(looks);
        self
    }

    /// Replaces a header of that name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = name.to_ascii_lowercase();
        self.headers.retain(|(found, _)| *found != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub async fn try_send(self) -> io::Result<Answer> {
        tokio::task::spawn_blocking(move || self.send_blocking())
            .await
            .expect("the request panicked")
    }

    pub async fn send(self) -> Answer {
        let shown = format!("{} {}", self.method, self.url);
        self.try_send().await.unwrap_or_else(|error| panic!("{shown}: {error}"))
    }

    pub fn send_blocking(&self) -> io::Result<Answer> {
        let address = self.url.socket_addrs(|| None)?;
        let first = address.first().ok_or_else(|| io::Error::other("no address"))?;
        let bound = patient(TIMEOUT);
        let mut stream = TcpStream::connect_timeout(first, bound)?;
        stream.set_read_timeout(Some(bound))?;
        stream.set_write_timeout(Some(bound))?;
        stream.write_all(&self.bytes())?;
        let (mut answer, mut part) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let read = stream.read(&mut part)?;
            answer.extend_from_slice(&part[..read]);
            if read == 0 || has_begun_to_stream(&answer) {
                break;
            }
        }
        let answer = parse(&answer).ok_or_else(|| io::Error::other("no HTTP answer"))?;
        if let Some(look) = self.looks {
            look(&self.method, self.url.path(), &self.body, &answer);
        }
        Ok(answer)
    }

    fn bytes(&self) -> Vec<u8> {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let mut head = format!("{} {}{query} HTTP/1.0\r\n", self.method, self.url.path());
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "content-length: {}\r\n\r\n", self.body.len());
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// A stream of events has no end: its first part is its answer here.
fn has_begun_to_stream(answer: &[u8]) -> bool {
    parse(answer)
        .is_some_and(|answer| answer.header("content-type") == Some("text/event-stream") && !answer.body.is_empty())
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let pairs = lines.filter_map(|line| line.split_once(':'));
    let headers = pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some(Answer {
        status,
        headers,
        body: answer[end + 4..].to_vec(),
    })
}
