//! Discarded messages are put back where they were.

use super::drive::Driver;
use super::taken::{Halt, Open, OpenItems, PAGE};
use super::window::mark;
use crate::ambient::HashMap;
use crate::broker::DeliveryTag;
use crate::domain::id::QueueName;
use crate::domain::message::decode;
use crate::domain::run::ItemState;
use crate::store::{KeptKind, KeptQuery};

/// Messages that are read and put back at once.
const CHUNK: usize = 500;

impl Driver<'_> {
    /// Puts discarded messages back where they were.
    pub(super) async fn restore(&mut self, source: &QueueName, open: OpenItems) -> Result<(), Halt> {
        let mut items: Vec<Open> = open.into_values().flatten().collect();
        items.sort_unstable_by_key(|item| item.ordinal);
        let mut left = items.as_slice();
        while !left.is_empty() {
            if self.run.stop.is_cancelled() {
                return Err(Halt::Stopped);
            }
            let size = if self.care.careful > 0 {
                1
            } else {
                self.run.window().min(CHUNK)
            };
            let (chunk, behind) = left.split_at(size.min(left.len()));
            left = behind;
            self.care.careful = self.care.careful.saturating_sub(chunk.len());
            self.keep_pace(chunk.len()).await?;
            let query = KeptQuery {
                kind: KeptKind::Discarded,
                run: None,
                letters: chunk.iter().map(|item| item.letter.clone()).collect(),
                after: None,
                limit: PAGE,
            };
            let kept = self.run.engine.store.kept_list(&query).await?;
            let kept: HashMap<String, Vec<u8>> = kept.into_iter().map(|kept| (kept.letter, kept.message)).collect();
            self.put_back(source, chunk, &kept).await?;
        }
        self.journal.flush(&self.run).await
    }

    async fn put_back(
        &mut self,
        source: &QueueName,
        chunk: &[Open],
        kept: &HashMap<String, Vec<u8>>,
    ) -> Result<(), Halt> {
        let mut window = Vec::new();
        let mut absent = Vec::new();
        for item in chunk {
            if let Some(message) = kept.get(&item.letter).and_then(|bytes| decode(bytes)) {
                window.push(item.clone().with(source, message, DeliveryTag(0)));
            } else {
                let state = if item.state == ItemState::Published {
                    ItemState::Settled
                } else {
                    ItemState::Skipped
                };
                self.journal.counts.count(state);
                absent.push(mark(item.ordinal, state, Some("it is not kept any more".to_owned())));
            }
        }
        self.journal.record(&self.run, absent).await?;
        if window.is_empty() {
            return Ok(());
        }
        let window = self.acceptable(window).await?;
        let journalled = self.journalled(window).await?;
        let (sent, halt) = self.send(journalled).await?;
        let forget = sent
            .iter()
            .map(|hand| (hand.letter.clone(), KeptKind::Discarded))
            .collect();
        let marks = sent
            .iter()
            .map(|hand| mark(hand.ordinal, ItemState::Settled, None))
            .collect();
        for _ in &sent {
            self.journal.counts.count(ItemState::Settled);
        }
        self.journal.advance(&self.run, marks, Vec::new(), forget).await?;
        halt.map_or(Ok(()), Err)
    }
}
