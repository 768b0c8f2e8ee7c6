//! A management API that takes requests and never answers: found out within seconds, told apart from one that is
//! busy with a long listing, and remembered, so that nobody waits for it a second time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::Management;
use crate::ambient::{self, Clock};
use crate::broker::BrokerError;

/// How long an answer may take before something small is asked beside it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long that may take: it needs neither statistics nor queues.
const SMALL: Duration = Duration::from_secs(3);
/// Between two questions whether it answers again.
const AGAIN: Duration = Duration::from_secs(2);

/// Whether the API is silent at present.
#[derive(Debug, Default)]
pub(super) struct Silence {
    clock: Clock,
    state: Mutex<Option<Silent>>,
}

/// Times are uptimes.
#[derive(Clone, Copy, Debug)]
struct Silent {
    since: Duration,
    /// When it was asked again last.
    asked_at: Duration,
}

impl Silence {
    fn begins(&self) {
        let now = self.clock.uptime();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let since = state.map_or(now, |silent| silent.since);
        *state = Some(Silent { since, asked_at: now });
    }

    fn ends(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How long it has been silent, and whether this caller is the one that asks again.
    fn known(&self) -> Option<(Duration, bool)> {
        let now = self.clock.uptime();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = state.as_mut()?;
        let is_due = now.saturating_sub(silent.asked_at) >= AGAIN;
        if is_due {
            silent.asked_at = now;
        }
        Some((now.saturating_sub(silent.since), is_due))
    }
}

impl Management {
    /// [`Management::send`] with the answer's body as it came, and another bound. Gives up where nothing at all is
    /// answered any more; while that is known, nobody waits.
    pub(super) async fn fetch(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
        within: Duration,
    ) -> Result<(StatusCode, Vec<u8>), BrokerError> {
        if let Some((since, is_due)) = self.silence.known() {
            if is_due {
                self.ask_again();
            }
            return Err(silent(since));
        }
        let mut asking = std::pin::pin!(self.ask(method, path, query, body, within));
        loop {
            tokio::select! {
                answer = &mut asking => return answer,
                () = ambient::sleep(PATIENCE) => {}
            }
            tokio::select! {
                answer = &mut asking => return answer,
                answers = answers(self.small()) => if !answers {
                    self.silence.begins();
                    return Err(silent(PATIENCE + SMALL));
                }
            }
        }
    }

    /// The smallest question that there is.
    fn small(&self) -> reqwest::RequestBuilder {
        self.request(Method::GET, &["whoami"], &[]).timeout(SMALL)
    }

    fn ask_again(&self) {
        let (question, silence) = (self.small(), Arc::clone(&self.silence));
        ambient::spawn("management again", async move {
            if answers(question).await {
                silence.ends();
            }
        });
    }
}

/// Whether anything is answered, whatever it is. An answer that begins and does not end is none.
async fn answers(question: reqwest::RequestBuilder) -> bool {
    let read = async {
        let mut answer = question.send().await?;
        while answer.chunk().await?.is_some() {}
        Ok::<(), reqwest::Error>(())
    };
    // Refused at once is an answer too: it is told as what it is by the call itself.
    read.await.err().is_none_or(|error| !error.is_timeout())
}

fn silent(since: Duration) -> BrokerError {
    BrokerError::Management {
        detail: format!("it says nothing since {} s", since.as_secs()),
        mend: "what only it tells is unknown meanwhile; look at the broker's management listener, or a proxy before it"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each request with this, and then says nothing more.
    async fn says(answer: &'static [u8]) -> Management {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        ambient::spawn("a management API", async move {
            let mut open = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                let _ = connection.read(&mut [0; 4096]).await;
                let _ = connection.write_all(answer).await;
                open.push(connection);
            }
        });
        Management::new(&url, ("a", "b"), "v", None).unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_does_not_end_is_none() {
        let whole = says(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}").await;
        assert!(answers(whole.small()).await);
        let begun = says(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
        assert!(!answers(begun.small()).await);
        let fetched = begun.fetch(Method::GET, &["overview"], &[], None, SMALL * 10).await;
        assert!(fetched.unwrap_err().to_string().contains("it says nothing since"));
    }
}
