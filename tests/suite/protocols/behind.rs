//! A daemon behind a broker that closes its channels, or loses its acks.

use std::sync::Arc;

use redrive::internals::ambient::Clock;
use redrive::internals::engine::{Engine, EngineError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::engine::stage::{Stage, sender};
use crate::support::closing_broker::ClosingBroker;

/// The daemon; each of its channels is closed at once until the broker is healed.
pub(super) struct Behind {
    pub(super) broker: Arc<ClosingBroker>,
    engine: Engine,
    stop: CancellationToken,
    running: JoinHandle<Result<(), EngineError>>,
}

impl Behind {
    /// Starts to deliver on the stage's ground, with the stage's settings.
    pub(super) async fn start(stage: &Stage) -> Self {
        let settings = stage.settings.clone();
        let (store, broker) = stage.ground.place().open(&settings.naming).await;
        let broker = Arc::new(ClosingBroker::over(broker));
        let engine = Engine::new(store, broker.clone(), sender(&settings), settings, Clock::system());
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (engine, stop) = (engine.clone(), stop.clone());
            async move { engine.run(stop).await }
        });
        Self {
            broker,
            engine,
            stop,
            running,
        }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.engine.close().await;
    }
}
