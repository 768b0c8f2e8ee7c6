//! Discarding: what is taken out of its queue for good is kept in the store for a while.

use super::drive::Driver;
use super::letters::{identity, name_in_run};
use super::taken::{Halt, InHand, TakenRun};
use super::window::mark;
use crate::domain::message::encode;
use crate::domain::run::{ItemState, RunState};
use crate::store::{KeptKind, KeptMessage, KeptQuery};

impl Driver<'_> {
    /// The copies are committed before anything is settled.
    pub(super) async fn keep(&mut self, window: Vec<InHand>) -> Result<Vec<InHand>, Halt> {
        if window.is_empty() {
            return Ok(window);
        }
        let names = self.run.kept_names(&window).await?;
        let mut marks = Vec::with_capacity(window.len());
        let mut keep = Vec::with_capacity(window.len());
        for (hand, name) in window.iter().zip(&names) {
            let Some(message) = encode(&hand.message) else {
                return Err(Halt::Broken("a message is too large to be kept".to_owned()));
            };
            keep.push(KeptMessage {
                letter: name.clone(),
                kind: KeptKind::Discarded,
                queue: hand.source.clone(),
                message,
                run: Some(self.run.record.id.clone()),
                ordinal: hand.ordinal,
                actor: self.run.record.actor.clone(),
                keep_for: Some(self.run.engine.settings.discard_keep),
                at: self.run.record.created_at,
                until: None,
            });
            marks.push(mark(hand.ordinal, ItemState::Published, None));
        }
        let state = self.journal.advance(&self.run, marks, keep, Vec::new()).await?;
        if state == RunState::Running {
            return Ok(window);
        }
        let forget = names.into_iter().map(|name| (name, KeptKind::Discarded)).collect();
        let undone = window.iter().map(|hand| mark(hand.ordinal, ItemState::Planned, None));
        self.journal
            .advance(&self.run, undone.collect(), Vec::new(), forget)
            .await?;
        Err(Halt::Asked(state))
    }
}

impl TakenRun<'_> {
    /// The names under which discarded messages are kept: their ids, but for a message whose id another run keeps an
    /// equal one under already. The same run gives the same names again.
    async fn kept_names(&self, window: &[InHand]) -> Result<Vec<String>, Halt> {
        let run = &self.record.id;
        let letters: Vec<String> = window
            .iter()
            .flat_map(|hand| [hand.letter.clone(), name_in_run(&hand.letter, run)])
            .collect();
        let query = KeptQuery {
            kind: KeptKind::Discarded,
            run: None,
            limit: u32::try_from(letters.len()).unwrap_or(u32::MAX),
            letters,
            after: None,
        };
        let kept = self.engine.store.kept_list(&query).await?;
        let is_kept = |name: &str, by_us: bool| {
            kept.iter()
                .any(|kept| kept.letter == name && (kept.run.as_ref() == Some(run)) == by_us)
        };
        let names = window.iter().map(|hand| {
            let (_, collapses) = identity(&hand.source, &hand.message);
            let other = name_in_run(&hand.letter, run);
            let is_taken = is_kept(&hand.letter, false) || is_kept(&other, true);
            if is_taken && !collapses {
                other
            } else {
                hand.letter.clone()
            }
        });
        Ok(names.collect())
    }
}
