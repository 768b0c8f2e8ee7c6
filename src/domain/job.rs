//! Job queues: the three queues of a submitted job, their names and how long they live.
//!
//! A queue's lifetime is a rule of the broker: unused (no consumer) for that long, it is deleted with
//! everything in it.

use std::time::Duration;

use super::id::QueueName;

/// How long the queues of a job live unused, when nothing else is said.
pub const JOB_QUEUE_TTL: Duration = Duration::from_hours(48);
/// The longest lifetime that a broker keeps: it counts milliseconds in 32 bits (49.7 days).
pub const TTL_MAX: Duration = Duration::from_millis(u32::MAX as u64);
/// The shortest lifetime; anything below would be none.
pub const TTL_MIN: Duration = Duration::from_millis(1);

/// What the names of job queues begin with.
pub const PREFIX: &str = "jobs.";
/// A pattern of names that should not live for ever, when nothing else is configured: those of jobs.
pub const LEFTOVER_PATTERN: &str = r"^jobs\.";

/// Why a job's id or lifetime was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct JobError {
    /// The field.
    pub field: &'static str,
    /// What is wrong and what is possible.
    pub problem: String,
}

/// The id of a job: a UUID in lower case with hyphens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct JobId(String);

impl JobId {
    /// Checks `text`; upper case is taken as lower.
    pub fn parse(text: &str) -> Result<Self, JobError> {
        let id = text.to_ascii_lowercase();
        let is_uuid = id.len() == 36
            && id.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        if is_uuid {
            Ok(Self(id))
        } else {
            Err(JobError {
                field: "id",
                problem: "must be a UUID such as 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a".to_owned(),
            })
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The queue of one part.
    #[must_use]
    pub fn queue(&self, part: JobPart) -> QueueName {
        QueueName::of_job(&format!("{PREFIX}{}.{}", self.0, part.as_str()))
    }
}

/// What one queue of a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum JobPart {
    /// How far the worker is.
    Progress,
    /// What state the job is in.
    Status,
    /// What came of it; consuming it ends the job.
    Result,
}

impl JobPart {
    /// The result last: a job whose result queue exists has all three.
    pub const ALL: [Self; 3] = [Self::Progress, Self::Status, Self::Result];

    /// As in the queue's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Progress => "progress",
            Self::Status => "status",
            Self::Result => "result",
        }
    }

    /// The part of that name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.as_str() == text)
    }
}

/// Which job's queue has that name.
#[must_use]
pub fn of_queue(name: &str) -> Option<(JobId, JobPart)> {
    let (id, part) = name.strip_prefix(PREFIX)?.rsplit_once('.')?;
    Some((
        JobId::parse(id).ok().filter(|parsed| parsed.as_str() == id)?,
        JobPart::parse(part)?,
    ))
}

/// How long queues live unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Lifetime {
    /// Until somebody deletes them.
    Never,
    /// This long without a consumer.
    Unused(Duration),
}

impl Lifetime {
    /// The default of jobs.
    pub const DEFAULT: Self = Self::Unused(JOB_QUEUE_TTL);

    /// Checks a lifetime of so many seconds.
    pub fn from_seconds(seconds: f64) -> Result<Self, JobError> {
        let problem = || JobError {
            field: "ttl",
            problem: format!(
                "must be at least 0.001 and at most {} seconds, or never",
                TTL_MAX.as_secs()
            ),
        };
        let duration = Duration::try_from_secs_f64(seconds).map_err(|_| problem())?;
        Self::of(duration).map_err(|_| problem())
    }

    /// Checks a lifetime.
    pub fn of(duration: Duration) -> Result<Self, JobError> {
        if (TTL_MIN..=TTL_MAX).contains(&duration) {
            Ok(Self::Unused(duration))
        } else {
            Err(JobError {
                field: "ttl",
                problem: format!("must be at least 1 ms and at most {} ms, or never", TTL_MAX.as_millis()),
            })
        }
    }

    /// In whole milliseconds, as the broker counts; `None`: never.
    #[must_use]
    pub fn millis(self) -> Option<u32> {
        match self {
            Self::Never => None,
            Self::Unused(duration) => Some(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX).max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_what_a_broker_can_count() {
        let millis = |seconds| Lifetime::from_seconds(seconds).map(|lifetime| lifetime.millis().unwrap());
        assert_eq!(millis(60.0), Ok(60_000));
        assert_eq!(millis(172_800.0), Ok(172_800_000));
        assert_eq!(millis(0.001), Ok(1));
        for wrong in [0.0, -1.0, 0.0004, 4_294_968.0, f64::NAN, f64::INFINITY] {
            let error = Lifetime::from_seconds(wrong).unwrap_err();
            assert_eq!(error.field, "ttl", "{wrong}");
        }
        assert_eq!(Lifetime::DEFAULT.millis(), Some(172_800_000));
        assert_eq!(Lifetime::Never.millis(), None);
    }

    #[test]
    fn queues_are_named_by_job_and_part_and_found_again() {
        let id = JobId::parse("018F2C4E-7a31-7c52-9d3b-0f1e2d3c4b5a").unwrap();
        for part in JobPart::ALL {
            let queue = id.queue(part);
            assert_eq!(
                queue.as_str(),
                format!("jobs.018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a.{}", part.as_str())
            );
            assert_eq!(of_queue(queue.as_str()), Some((id.clone(), part)));
        }
        for other in [
            "jobs.x.result",
            "jobs.018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a.else",
            "result",
        ] {
            assert_eq!(of_queue(other), None, "{other}");
        }
        for wrong in [
            "",
            "018f2c4e7a317c529d3b0f1e2d3c4b5a",
            "018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5g",
        ] {
            assert_eq!(JobId::parse(wrong).unwrap_err().field, "id", "{wrong:?}");
        }
    }
}
