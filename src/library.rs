//! For those who embed it: settings, a publisher, and an engine that delivers. The program composes the same parts.
//!
//! Promises: what stands here is all that another program needs, and changes with a line in the changelog only.

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ambient;
use crate::app;
use crate::cli::{Exit, Failure};
use crate::config::{Config, ConfigChoice, Environment};
use crate::engine::{self, Ended, EngineError, NewNotification};
use crate::jobs::Jobs;
use crate::wire::input;
use crate::wire::problem::Problem;

/// Which store, which broker, and how it is delivered: a configuration as the program reads it (docs/contract.md).
#[derive(Clone, Debug)]
pub struct Settings(Config);

impl Settings {
    /// Those of the program itself: the file that `REDRIVE_CONFIG` names or the usual one, and the variables.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field and the mend.
    pub fn load() -> Result<Self, OpenError> {
        let config = Config::load(&ConfigChoice::default(), &Environment::of_process());
        config.map(Self).map_err(|error| unusable(&error))
    }

    /// Those of a text in TOML; the variables of the program's environment hold against it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field and the mend.
    pub fn from_toml(text: &str) -> Result<Self, OpenError> {
        let config = Config::resolve(text, None, &Environment::of_process());
        config.map(Self).map_err(|error| unusable(&error))
    }
}

/// Why settings, store or broker cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct OpenError {
    message: String,
    is_unreachable: bool,
}

impl OpenError {
    /// Whether to try again may help: store or broker is away. Else the settings are to be mended.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        Self {
            message: failure.causes().join(": "),
            is_unreachable: failure.exit() == Exit::Unreachable,
        }
    }
}

/// Store and broker, opened and made where they are missing.
pub(crate) async fn open(settings: &Settings) -> Result<engine::Engine, OpenError> {
    Ok(app::open(&settings.0).await?)
}

/// One HTTP request that is to be made, in order with the others of its execution and URL.
#[derive(Clone, Debug)]
pub struct Notification(NewNotification);

impl Notification {
    /// A POST to `url`, behind all others that were published for this execution and URL.
    ///
    /// # Errors
    /// The execution's id or the URL is none.
    pub fn new(execution: &str, url: &str, body: impl Into<Bytes>) -> Result<Self, EngineError> {
        Ok(Self(NewNotification {
            id: None,
            execution: input::execution(execution).map_err(invalid)?,
            url: input::url(url).map_err(invalid)?,
            headers: Vec::new(),
            content_type: None,
            body: body.into(),
            polling_time_s: None,
            restart_count: None,
        }))
    }

    /// With an id of one's own, 1 to 255 visible ASCII characters: one that is published again with the same id is
    /// known to its receiver. Without it one is made.
    ///
    /// # Errors
    /// It is none.
    pub fn id(mut self, id: &str) -> Result<Self, EngineError> {
        self.0.id = Some(input::id(id).map_err(invalid)?);
        Ok(self)
    }

    /// With one more header of the request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.headers.push((name.into(), value.into()));
        self
    }

    /// With the content type of its body, which is `application/octet-stream` without one.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.0.content_type = Some(content_type.into());
        self
    }

    /// With a schedule of its own: so many retries, so many seconds apart.
    #[must_use]
    pub const fn retries(mut self, retries: u32, seconds_apart: u32) -> Self {
        self.0.restart_count = Some(retries);
        self.0.polling_time_s = Some(seconds_apart);
        self
    }
}

/// What the broker has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The notification's id.
    pub id: String,
    /// The delivery queue that has it.
    pub queue: String,
    /// What its publisher should know all the same.
    pub warning: Option<String>,
}

impl From<engine::Receipt> for Receipt {
    fn from(receipt: engine::Receipt) -> Self {
        Self {
            id: receipt.id.as_str().to_owned(),
            queue: receipt.queue.as_str().to_owned(),
            warning: receipt.warning,
        }
    }
}

/// Publishes notifications; a daemon, or an [`Engine`] in some process, delivers them.
#[derive(Clone, Debug)]
pub struct Publisher(engine::Engine);

impl Publisher {
    /// Opens store and broker, and makes what is missing of them.
    ///
    /// # Errors
    /// Store or broker cannot be reached, or are not what the settings say.
    pub async fn connect(settings: &Settings) -> Result<Self, OpenError> {
        open(settings).await.map(Self)
    }

    /// Publishes it; answers only after the broker's confirm.
    ///
    /// # Errors
    /// After [`EngineError::Unconfirmed`] it may or may not be there: publish it again with the id that is in the error.
    pub async fn publish(&self, notification: Notification) -> Result<Receipt, EngineError> {
        self.0.publish(notification.0).await.map(Receipt::from)
    }

    /// Says that nothing more comes for this execution and URL: when all before it is delivered, its queue goes. `None`
    /// where there is no such queue.
    ///
    /// # Errors
    /// As with [`Self::publish`].
    pub async fn end(&self, execution: &str, url: &str) -> Result<Option<Receipt>, EngineError> {
        let (execution, url) = (input::execution(execution), input::url(url));
        match self.0.end(execution.map_err(invalid)?, url.map_err(invalid)?).await? {
            Ended::Marked(receipt) => Ok(Some(receipt.into())),
            Ended::NoQueue(_) => Ok(None),
        }
    }

    /// Closes the connections in order.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// Delivers, as the daemon does, inside another program and without the HTTP API.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::io::{Read, Write};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("redrive.db");
/// # let receiver = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let port = receiver.local_addr()?.port();
/// # let received = std::thread::spawn(move || {
/// #     let (mut request, _) = receiver.accept()?;
/// #     let (mut text, mut part) = (String::new(), [0; 1024]);
/// #     while !text.ends_with("hello") {
/// #         let length = request.read(&mut part)?;
/// #         text += &String::from_utf8_lossy(&part[..length]);
/// #     }
/// #     request.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
/// #     std::io::Result::Ok(text)
/// # });
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use redrive::{Engine, Notification, Settings};
///
/// let settings = Settings::from_toml(&format!(
///     r#"
///     [store]
///     url = "sqlite:{}"
///     [delivery]
///     allow_networks = ["127.0.0.0/8"]
///     "#,
///     path.display()
/// ))?;
/// let engine = Engine::start(&settings).await?;
/// let notification = Notification::new("order-18", &format!("http://127.0.0.1:{port}/hook"), "hello")?;
/// let receipt = engine.publisher().publish(notification.id("first")?).await?;
/// assert_eq!(receipt.id, "first");
/// # assert!(received.join().expect("a receiver")?.contains("webhook-id: first"));
/// engine.stop().await?;
/// # Ok(()) })
/// # }
/// ```
#[derive(Debug)]
pub struct Engine {
    inner: engine::Engine,
    stop: CancellationToken,
    delivers: JoinHandle<Result<(), EngineError>>,
}

impl Engine {
    /// Opens store and broker, makes what is missing of them, and begins to deliver. A store or broker that goes away
    /// later is waited for.
    ///
    /// # Errors
    /// Store or broker cannot be reached, or are not what the settings say.
    pub async fn start(settings: &Settings) -> Result<Self, OpenError> {
        let engine = open(settings).await?;
        let stop = CancellationToken::new();
        let delivering = (engine.clone(), stop.clone());
        Ok(Self {
            inner: engine,
            stop,
            delivers: ambient::spawn("engine", async move { delivering.0.run(delivering.1).await }),
        })
    }

    /// Publishes over the same connections.
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        Publisher(self.inner.clone())
    }

    /// Jobs over the same connections.
    #[must_use]
    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.inner.clone())
    }

    /// Whether it delivers at present.
    #[must_use]
    pub fn is_delivering(&self) -> bool {
        *self.inner.delivering().borrow()
    }

    /// Lets what is in flight finish (`delivery.drain_s`), and closes the connections in order. What is not delivered
    /// stays in its queue.
    ///
    /// # Errors
    /// It could not begin to deliver, or ended with this error.
    pub async fn stop(self) -> Result<(), EngineError> {
        self.stop.cancel();
        let delivered = self.delivers.await;
        self.inner.close().await;
        delivered.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

fn unusable(error: &dyn std::error::Error) -> OpenError {
    Failure::of(Exit::Configuration, error).into()
}

fn invalid(problem: Problem) -> EngineError {
    EngineError::Invalid {
        field: problem.field.unwrap_or_default().into(),
        message: problem.detail,
    }
}
