//! A management API that lies on demand: a way to the real one that passes what is asked, or answers as a proxy, a
//! login page or a broken machine would.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

/// What comes in the place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// This status with the error document of the management API.
    Status(u16),
    /// Nothing, ever.
    Hang,
    /// 200 with the page of somebody else.
    Html,
    /// 200 with the beginning of a list.
    Half,
}

impl Lie {
    pub const ALL: [Self; 5] = [Self::Status(500), Self::Status(401), Self::Html, Self::Half, Self::Hang];
}

/// The way.
pub struct Gate {
    address: String,
    lie: Arc<Mutex<Option<Lie>>>,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Gate {
    /// To the host and port of `url`; tells the truth at first.
    pub async fn to(url: &str) -> Self {
        let url = Url::parse(url).expect("a URL");
        let server = format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener").port().to_string();
        let lie: Arc<Mutex<Option<Lie>>> = Arc::default();
        let told = Arc::clone(&lie);
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let lie = *told.lock().unwrap();
                let (server, heard) = (server.clone(), Arc::clone(&heard));
                tokio::spawn(async move {
                    // Whoever hangs up needs no answer.
                    let _ = answer(stream, &server, lie, &heard).await;
                });
            }
        });
        Self {
            address,
            lie,
            asked,
            task,
        }
    }

    /// `url` with this way instead of its host and port.
    pub fn through(&self, url: &str) -> String {
        let mut url = Url::parse(url).expect("a URL");
        url.set_host(Some("127.0.0.1")).expect("a URL with a host");
        url.set_port(self.address.parse().ok()).expect("a URL with a host");
        url.to_string()
    }

    /// What was asked so far: methods and paths.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// From the next connection on; `None`: the truth.
    pub fn tells(&self, lie: Option<Lie>) {
        *self.lie.lock().unwrap() = lie;
    }
}

/// One request a connection: what it is told is decided for each anew.
async fn answer(
    mut stream: TcpStream,
    server: &str,
    lie: Option<Lie>,
    heard: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let request = read_request(&mut stream).await?;
    let line = String::from_utf8_lossy(&request)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    heard
        .lock()
        .unwrap()
        .push(line.trim_end_matches(" HTTP/1.1").to_owned());
    let say = |status: u16, kind: &str, length: usize, body: &str| {
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
    };
    let said = match lie {
        None => {
            let mut upstream = TcpStream::connect(server).await?;
            upstream.write_all(&request).await?;
            let mut said = Vec::new();
            upstream.read_to_end(&mut said).await?;
            return stream.write_all(&said).await;
        }
        Some(Lie::Hang) => {
            std::future::pending::<()>().await;
            return Ok(());
        }
        Some(Lie::Status(status)) => {
            let body = r#"{"error":"not_authorised","reason":"Login failed"}"#;
            say(status, "application/json", body.len(), body)
        }
        Some(Lie::Html) => {
            let body = "<html><title>Please log in</title></html>";
            say(200, "text/html", body.len(), body)
        }
        Some(Lie::Half) => say(200, "application/json", 5_000, "[{\"name\":\"a\""),
    };
    stream.write_all(said.as_bytes()).await
}

/// Head and body, with the wish that the connection ends after the answer.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut request, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = request.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse().ok())?
            });
            if request.len() >= end + 4 + length.unwrap_or(0) {
                let body = request[end + 4..].to_vec();
                let kept = head
                    .lines()
                    .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
                let head: Vec<&str> = kept.chain(["connection: close"]).collect();
                return Ok([head.join("\r\n").as_bytes(), b"\r\n\r\n", &body].concat());
            }
        }
        match stream.read(&mut bytes).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => request.extend(&bytes[..read]),
        }
    }
}
