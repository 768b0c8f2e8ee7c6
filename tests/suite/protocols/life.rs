//! A daemon with a runtime of its own, so that it can die in the middle: its tasks stop where they are,
//! its sockets and its locks go with them, and nothing is told to anybody.

use std::sync::Arc;
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::engine::{Engine, EngineError};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::engine::stage::{Stage, sender};
use crate::support::wait::within;

/// The daemon.
pub(super) struct Life {
    runtime: Option<Runtime>,
    stop: CancellationToken,
    ended: Option<tokio::sync::oneshot::Receiver<Result<(), EngineError>>>,
}

impl Life {
    /// Starts to deliver on the stage's ground, with the stage's settings.
    pub(super) fn start(stage: &Stage) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (stop, place, settings) = (CancellationToken::new(), stage.ground.place(), stage.settings.clone());
        let (tell, ended) = tokio::sync::oneshot::channel();
        let token = stop.clone();
        runtime.spawn(async move {
            let (store, broker) = place.open(&settings.naming).await;
            let engine = Engine::new(
                Arc::clone(&store),
                Arc::clone(&broker),
                sender(&settings),
                settings,
                Clock::system(),
            );
            let result = engine.run(token).await;
            engine.close().await;
            let _ = tell.send(result);
        });
        Self {
            runtime: Some(runtime),
            stop,
            ended: Some(ended),
        }
    }

    /// Dies: nothing it holds is given back in order.
    pub(super) fn crash(mut self) {
        self.end();
    }

    /// Stops in order, or says why it could not work at all.
    pub(super) async fn stop(mut self) -> Result<(), EngineError> {
        self.stop.cancel();
        self.result().await
    }

    /// How it ended, by itself.
    pub(super) async fn result(&mut self) -> Result<(), EngineError> {
        let ended = self.ended.take().expect("asked once");
        let result = within(Duration::from_secs(30), ended).await;
        result.expect("it ends").expect("it does not panic")
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end();
    }
}
