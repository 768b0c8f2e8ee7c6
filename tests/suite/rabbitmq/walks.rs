//! What a walk asks for before anybody wants it.

use redrive::internals::broker::WalkOptions;

use super::bench::classic;

const MESSAGES: u32 = 90;
/// Messages of the first window, and of the next.
const FIRST: u32 = 8;
const WINDOW: u32 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_window_of_a_whole_walk_comes_while_its_caller_works() {
    let bench = classic().await;
    let queue = bench.filled("q", MESSAGES).await;
    let options = WalkOptions {
        window_messages: WINDOW,
        whole: true,
        ..WalkOptions::default()
    };
    let mut walk = bench.broker.walk(&queue, options).await.unwrap().unwrap();
    for _ in 0..FIRST {
        assert_eq!(walk.next(1).await.unwrap().len(), 1);
    }
    bench.wait_ready(&queue, (MESSAGES - FIRST - WINDOW).into()).await;
    walk.close().await.unwrap();
    bench.wait_ready(&queue, MESSAGES.into()).await;
    bench.finish().await;
}
