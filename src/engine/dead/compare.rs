//! Dead letters side by side: two of them, or the first of a group, and what is alike in them.
//!
//! What the masks name is hidden here for everybody: whoever may see it opens the letter.

use std::sync::Arc;
use std::time::Duration;

use super::comparison::{Comparing, Comparison};
use super::{DeadDetail, DeadLetters, DeadSelection};
use crate::ambient;
use crate::domain::dead_letter::{self, HEADER_DEAD};
use crate::domain::death::COUNTING_HEADERS;
use crate::domain::text::show_bytes;
use crate::domain::words::{plural, plural_of};
use crate::engine::EngineError;
use crate::engine::view::{Source, Unread};

/// Letters that are compared by their ids, at most.
pub const NAMED_MAX: usize = 20;
/// Letters of a group or a filter that are compared, at most.
pub const SAMPLE_MAX: u32 = 200;
/// Characters of an answer.
const ANSWER_MAX: usize = 2_000;
/// What the broker notes of deaths is known of the letter already.
const OF_DEATHS: [&str; 3] = ["x-death", "x-first-death-", "x-last-death-"];

/// Which dead letters are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeadCompareQuery {
    /// These, by their ids: two to [`NAMED_MAX`]. None: as many as there are of a selection.
    pub ids: Vec<String>,
    /// Without ids: of these, in the order of their queues.
    pub selection: DeadSelection,
    /// So many of a selection (2 to [`SAMPLE_MAX`]).
    pub limit: u32,
    /// How long to wait for looks; what was not read by then is not compared.
    pub patience: Duration,
}

/// What is alike in dead letters.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DeadComparison {
    /// The ids of those that were compared.
    pub letters: Vec<String>,
    /// There are more of the selection.
    pub more: bool,
    /// What is alike, and what is not.
    pub comparison: Comparison,
    /// What could not be read, so that more may be missing.
    pub problems: Vec<Unread>,
}

impl DeadComparison {
    /// How many were compared and how alike they are, in one sentence.
    #[must_use]
    pub fn told(&self) -> String {
        let comparison = &self.comparison;
        let different = comparison.different().count();
        let hidden = comparison
            .places
            .iter()
            .filter(|place| place.different.is_none())
            .count();
        let alike = comparison.places.len() - different - hidden;
        let letters = plural_of(self.letters.len(), "dead letter", "dead letters");
        let first = if self.more { "The first " } else { "" };
        let hidden = match hidden {
            0 => String::new(),
            hidden => format!(", {hidden} hidden by the masks and not compared"),
        };
        let left_out = match comparison.left_out {
            0 => String::new(),
            more => format!("; {} not compared", plural(more, "more place", "more places")),
        };
        format!(
            "{first}{letters}: {} different, {alike} the same{hidden}{left_out}",
            plural_of(different, "place", "places")
        )
    }
}

impl DeadLetters {
    pub(in crate::engine) async fn dead_compare(
        self: &Arc<Self>,
        query: &DeadCompareQuery,
    ) -> Result<DeadComparison, EngineError> {
        let mut making = Making {
            letters: Vec::new(),
            more: false,
            comparing: Comparing::without_what(Arc::clone(&self.settings.masks)),
            problems: Vec::new(),
        };
        if query.ids.is_empty() {
            self.compare_some(query, &mut making).await?;
        } else {
            self.compare_named(query, &mut making).await?;
        }
        Ok(DeadComparison {
            letters: making.letters,
            more: making.more,
            comparison: making.comparing.ended(),
            problems: making.problems,
        })
    }

    async fn compare_named(self: &Arc<Self>, query: &DeadCompareQuery, making: &mut Making) -> Result<(), EngineError> {
        let count = query.ids.len();
        if !(2..=NAMED_MAX).contains(&count) {
            return Err(EngineError::Invalid {
                field: "ids".to_owned(),
                message: format!("a comparison takes 2 to {NAMED_MAX} ids, and these are {count}"),
            });
        }
        for (at, id) in query.ids.iter().enumerate() {
            if query.ids[..at].contains(id) {
                return Err(EngineError::Invalid {
                    field: "ids".to_owned(),
                    message: format!("{id:?} is named twice"),
                });
            }
            let detail = self.dead_detail(id, query.patience).await?;
            ambient::beside(|| making.add(&detail));
        }
        Ok(())
    }

    /// Reads no more than it compares: the queues that were not reached are left alone.
    async fn compare_some(self: &Arc<Self>, query: &DeadCompareQuery, making: &mut Making) -> Result<(), EngineError> {
        let limit = query.limit.clamp(2, SAMPLE_MAX) as usize;
        let mut letters = self.read(query.selection.clone())?;
        let until = self.clock.uptime() + query.patience;
        loop {
            let left = until.saturating_sub(self.clock.uptime());
            match ambient::timeout(left, letters.recv()).await {
                Ok(Some(Ok(_))) | Err(_) if making.letters.len() == limit => making.more = true,
                Ok(Some(Ok((detail, _memory)))) => {
                    ambient::beside(|| making.add(&detail));
                    continue;
                }
                Ok(Some(Err(EngineError::Unread(unread)))) => {
                    making.problems.push(*unread);
                    continue;
                }
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => {}
                // Store or broker answer nothing at present, or their answer takes too long: that is no empty selection.
                Err(_) if making.letters.is_empty() && making.problems.is_empty() => return Err(unread_in_time(self)),
                Err(_) => making.more = true,
            }
            return Ok(());
        }
    }
}

fn unread_in_time(letters: &DeadLetters) -> EngineError {
    EngineError::Unread(Box::new(Unread {
        source: Source::Store,
        reason: "no dead letter came in time; ask again".to_owned(),
        since: letters.clock.now(),
    }))
}

struct Making {
    letters: Vec<String>,
    more: bool,
    comparing: Comparing,
    problems: Vec<Unread>,
}

impl Making {
    fn add(&mut self, detail: &DeadDetail) {
        let response = dead_letter::response(&detail.message);
        let letter = &detail.letter;
        let known = vec![
            ("queue", Some(letter.queue.as_str().to_owned())),
            ("origin", letter.origin.clone()),
            ("endpoint", letter.url.clone()),
            ("reason", Some(letter.reason.clone())),
            ("class", letter.class.clone()),
            ("status", letter.status.map(|status| status.to_string())),
            ("last error", letter.error.clone()),
            ("last answer", response.map(|response| show_bytes(response, ANSWER_MAX))),
            ("policy", dead_letter::policy(&detail.message).map(str::to_owned)),
            ("goes back to", detail.target.as_ref().ok().map(ToString::to_string)),
        ];
        self.comparing.add(known, &detail.message, is_compared);
        self.letters.push(detail.letter.id.as_str().to_owned());
    }
}

/// Whether a header says something that is not known of the letter already, or different in each.
fn is_compared(name: &str) -> bool {
    let of_deaths = OF_DEATHS.iter().any(|death| name.starts_with(death));
    !of_deaths && !name.starts_with(HEADER_DEAD) && !COUNTING_HEADERS.contains(&name)
}
