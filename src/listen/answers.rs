//! What is answered: the same to all, failures first for each message, or a script.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::domain::text::show;
use crate::domain::time::span;

/// The lowest status that can be answered: those before it are no end of a request.
pub const STATUS_MIN: u16 = 200;
/// The highest status that can be answered.
pub const STATUS_MAX: u16 = 599;
/// A script has at most this many lines.
const LINES_MAX: usize = 1_000;
/// What a message about a word shows of it.
const WORD_WIDTH: usize = 40;

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// How long the sender waits for it.
    pub delay: Duration,
}

impl Answer {
    /// Whether the message is delivered with it.
    #[must_use]
    pub const fn accepts(self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// What is answered to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The first attempts of each message, and what they get.
    failing: Option<(u32, Answer)>,
    /// One after the other; the last for all that follow.
    steps: Vec<(Answer, u32)>,
    last: Answer,
}

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// There is nothing to answer.
    #[error("has no answer; write lines such as \"503 2s x3\": a status, how long it takes, how often")]
    Empty,
    /// There is too much.
    #[error("has more than {LINES_MAX} lines; the last line holds for all that follows, so fewer are enough")]
    TooLong,
    /// A line begins otherwise.
    #[error("line {line}: {word:?} is no status; begin the line with a number from {STATUS_MIN} to {STATUS_MAX}")]
    Status {
        /// Which line, from 1.
        line: usize,
        /// What stands there.
        word: String,
    },
    /// A line goes on otherwise.
    #[error("line {line}: {word:?} is neither a delay such as 500ms or 2s nor a number of times such as x3")]
    Word {
        /// Which line, from 1.
        line: usize,
        /// What stands there.
        word: String,
    },
}

impl Answers {
    /// The same to all.
    #[must_use]
    pub const fn always(answer: Answer) -> Self {
        Self {
            failing: None,
            steps: Vec::new(),
            last: answer,
        }
    }

    /// The first attempts of each message get `failing`; what has no id gets `then` at once.
    #[must_use]
    pub const fn failing_first(attempts: u32, failing: Answer, then: Answer) -> Self {
        Self {
            failing: Some((attempts, failing)),
            steps: Vec::new(),
            last: then,
        }
    }

    /// Reads a script: on each line a status, a delay if there is to be one, and how often (`x3`; once without it).
    /// The last line holds for all that follow. What stands behind `#` is a remark.
    ///
    /// # Errors
    /// The line, and what to write there.
    pub fn script(text: &str) -> Result<Self, ScriptError> {
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if index >= LINES_MAX {
                return Err(ScriptError::TooLong);
            }
            let line = line.split('#').next().unwrap_or_default();
            steps.extend(step(index + 1, line)?);
        }
        let (last, _) = *steps.last().ok_or(ScriptError::Empty)?;
        Ok(Self {
            failing: None,
            steps,
            last,
        })
    }

    /// To the `nth` request (from 0) that is `attempt` (from 1) of its message.
    #[must_use]
    pub fn of(&self, nth: u64, attempt: Option<u32>) -> Answer {
        if let (Some((attempts, failing)), Some(attempt)) = (self.failing, attempt)
            && attempt <= attempts
        {
            return failing;
        }
        let mut before = 0;
        for (answer, times) in &self.steps {
            before += u64::from(*times);
            if nth < before {
                return *answer;
            }
        }
        self.last
    }
}

fn step(line: usize, text: &str) -> Result<Option<(Answer, u32)>, ScriptError> {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else {
        return Ok(None);
    };
    let shown = |word: &str| show(word, WORD_WIDTH);
    let status = first
        .parse()
        .ok()
        .filter(|status| (STATUS_MIN..=STATUS_MAX).contains(status));
    let status = status.ok_or_else(|| ScriptError::Status {
        line,
        word: shown(first),
    })?;
    let (mut delay, mut times) = (None, None);
    for word in words {
        let is_new = match word.strip_prefix('x') {
            Some(count) if times.is_none() => {
                times = count.parse().ok().map(NonZeroU32::get);
                times.is_some()
            }
            None if delay.is_none() => {
                delay = span(word);
                delay.is_some()
            }
            Some(_) | None => false,
        };
        if !is_new {
            return Err(ScriptError::Word {
                line,
                word: shown(word),
            });
        }
    }
    let answer = Answer {
        status,
        delay: delay.unwrap_or_default(),
    };
    Ok(Some((answer, times.unwrap_or(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, delay_ms: u64) -> Answer {
        Answer {
            status,
            delay: Duration::from_millis(delay_ms),
        }
    }

    #[test]
    fn a_script_is_answered_line_by_line_and_its_last_line_for_ever() {
        let script = Answers::script("# an outage\n503 x2\n\n429 500ms   # slow\n 200 2s x3").unwrap();
        let answers: Vec<Answer> = (0..8).map(|nth| script.of(nth, Some(1))).collect();
        let (down, slow, well) = (answer(503, 0), answer(429, 500), answer(200, 2_000));
        assert_eq!(answers, [down, down, slow, well, well, well, well, well]);
        assert_eq!(script.of(u64::MAX, None), well);
    }

    #[test]
    fn the_first_attempts_of_a_message_fail_and_what_is_no_message_does_not() {
        let answers = Answers::failing_first(2, answer(503, 0), answer(200, 0));
        let statuses = [Some(1), Some(2), Some(3), None].map(|attempt| answers.of(7, attempt).status);
        assert_eq!(statuses, [503, 503, 200, 200]);
        assert_eq!(Answers::always(answer(410, 0)).of(0, Some(1)), answer(410, 0));
    }

    #[test]
    fn what_is_wrong_with_a_script_names_the_line_and_what_to_write() {
        let said = |text: &str| Answers::script(text).unwrap_err().to_string();
        assert!(said("\n# nothing\n").contains("503 2s x3"));
        for text in ["200\nsoon", "200\n99", "200\n600 x2", "200\n\u{1b}[2J"] {
            let said = said(text);
            assert!(said.starts_with("line 2: ") && said.contains("200 to 599"), "{said}");
            assert!(!said.contains('\u{1b}'), "{said:?}");
        }
        for text in ["503 2", "503 x0", "503 2s 3s", "503 x2 x3", "503 x", "503 -1s"] {
            let said = said(text);
            assert!(
                said.starts_with("line 1: ") && said.contains("such as x3"),
                "{text}: {said}"
            );
        }
        assert_eq!(Answers::script(&"200\n".repeat(1_001)), Err(ScriptError::TooLong));
    }
}
