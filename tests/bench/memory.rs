//! Whether a daemon that may use 1 GiB survives 512 messages of 15 MiB to receivers that hang, and whether small ones
//! are delivered beside them as fast as alone.
//!
//! The program runs in a control group of that size, with nothing configured: its budget is a quarter of it. Small
//! ones are measured before the large ones come, and while as many of these as may be are in hand. The same with a
//! budget far above the group, as if there were none, has to be killed, or the measurement proves nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::net::TcpListener;

use crate::numbers::row;
use crate::program::{Group, Program};
use crate::receiver::Receiver;

const LIMIT_MIB: u64 = 1024;
const LARGE: usize = 512;
const LARGE_BYTES: usize = 15 * 1024 * 1024;
/// Publishes of large ones at once.
const AT_ONCE: usize = 4;
const SMALL: usize = 1_000;

pub async fn run() {
    let Some(group) = Group::create(LIMIT_MIB * 1024 * 1024) else {
        row(
            "512 × 15 MiB to receivers that hang, in 1 GiB",
            "no control group can be made here",
            "no kill",
        );
        return;
    };
    let (receiver, silent) = (Receiver::start().await, silent().await);
    let mut program = Program::start("", Some(&group)).await;
    let alone = program.small_p99_ms(&receiver, SMALL).await;
    publish_large(&program, &silent).await;
    let beside = program.small_p99_ms(&receiver, SMALL).await;
    let most = program.resident_most_mib();
    let lives = program.is_alive();
    row(
        &format!("{LARGE} × 15 MiB to receivers that hang, in {LIMIT_MIB} MiB: most resident"),
        &format!(
            "{} MiB, {}",
            most.unwrap_or(0),
            if lives { "not killed" } else { "**killed**" }
        ),
        "no kill",
    );
    row(
        "p99 of small ones beside them, of that alone",
        &format!("{:.2} ({beside:.1} ms of {alone:.1} ms)", beside / alone),
        "1.5",
    );
    drop(program);
    let mut unbounded = Program::start("memory_mib = 1048576", Some(&group)).await;
    let published = publish_large(&unbounded, &silent).await;
    // What is in hand grows for a while after the last publish.
    for _ in 0..30 {
        if !unbounded.is_alive() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let end = if unbounded.is_alive() {
        "**not killed**"
    } else {
        "killed"
    };
    row(
        "the same without a budget (`memory_mib` far above the limit)",
        &format!("{end} after {published} publishes"),
        "killed",
    );
    drop(unbounded);
    receiver.finish().await;
}

/// How many were taken; ends early when nobody answers any more.
async fn publish_large(program: &Program, silent: &str) -> usize {
    let (body, taken, gone) = ("x".repeat(LARGE_BYTES), AtomicUsize::new(0), AtomicUsize::new(0));
    stream::iter(0..LARGE)
        .for_each_concurrent(AT_ONCE, |number| {
            let (body, taken, gone) = (&body, &taken, &gone);
            async move {
                let (execution, url) = (format!("large-{number}"), format!("{silent}/{number}"));
                while gone.load(Ordering::Relaxed) < 10 {
                    match program.publish(&execution, &url, body).await {
                        Some(202) => {
                            taken.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                        // No memory for the body at present.
                        Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                        None => drop(gone.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            }
        })
        .await;
    taken.into_inner()
}

/// Takes connections, reads nothing, and answers nothing.
async fn silent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            taken.push(stream);
            if taken.len() > 2 * LARGE {
                taken.drain(..LARGE);
            }
        }
    });
    base
}
