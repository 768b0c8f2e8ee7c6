//! Exit codes, and failures with one line for each cause.

use crate::engine::EngineError;
use crate::wire::problem::{Problem, causes};

/// How the program ends (docs/contract.md, *Exit codes*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// Wrong usage.
    Usage = 2,
    /// Partly done.
    Partly = 3,
    /// Not found, or expired.
    NotFound = 4,
    /// Refused: read-only, stale plan, not confirmed.
    Refused = 5,
    /// Broker or store cannot be reached.
    Unreachable = 69,
    /// The configuration is invalid.
    Configuration = 78,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command did not do it.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    causes: Vec<String>,
}

impl Failure {
    /// A failure with one cause.
    pub fn new(exit: Exit, cause: impl Into<String>) -> Self {
        Self {
            exit,
            causes: vec![cause.into()],
        }
    }

    /// A failure with the causes of an error.
    #[must_use]
    pub fn of(exit: Exit, error: &dyn std::error::Error) -> Self {
        Self {
            exit,
            causes: causes(error),
        }
    }

    /// Its exit code.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }

    /// What went wrong, outermost first.
    #[must_use]
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::new(Exit::Refused, why)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Invalid { .. } | EngineError::RefusedUrl { .. } => Exit::Usage,
            EngineError::NotFound { .. } | EngineError::Expired { .. } => Exit::NotFound,
            EngineError::Refused { .. } => Exit::Refused,
            EngineError::Unread(_) => Exit::Unreachable,
            // It answers: to try again helps only after somebody mended it.
            EngineError::Store(_) if error.takes_no_writes() => Exit::Failed,
            EngineError::Broker(_) | EngineError::Store(_) if error.is_unreachable() => Exit::Unreachable,
            EngineError::Broker(_) | EngineError::Store(_) if error.is_misconfigured() => Exit::Configuration,
            EngineError::OtherOwner { .. } => Exit::Configuration,
            EngineError::InvalidPolicy(_)
            | EngineError::Unconfirmed { .. }
            | EngineError::TooLarge { .. }
            | EngineError::Busy { .. }
            | EngineError::Broker(_)
            | EngineError::Store(_) => Exit::Failed,
        };
        Self::of(exit, &error)
    }
}

/// Input that both fronts read alike: what was typed is wrong.
impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::new(Exit::Usage, problem.detail)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever read our output has seen enough: that is no failure of the command.
        let exit = if error.kind() == std::io::ErrorKind::BrokenPipe {
            Exit::Done
        } else {
            Exit::Failed
        };
        Self::of(exit, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_error_has_the_exit_code_of_the_contract() {
        let text = String::new;
        let cases = [
            (
                EngineError::Invalid {
                    field: text(),
                    message: text(),
                },
                2,
            ),
            (EngineError::RefusedUrl { why: text() }, 2),
            (EngineError::NotFound { what: text() }, 4),
            (EngineError::Expired { queue: text() }, 4),
            (EngineError::Refused { why: text() }, 5),
            (EngineError::TooLarge { why: text() }, 1),
            (EngineError::Busy { why: text() }, 1),
            (
                EngineError::Unconfirmed {
                    id: text(),
                    why: text(),
                },
                1,
            ),
        ];
        for (error, code) in cases {
            assert_eq!(Failure::from(error).exit().code(), code);
        }
        assert_eq!((Exit::Unreachable.code(), Exit::Configuration.code()), (69, 78));
    }
}
