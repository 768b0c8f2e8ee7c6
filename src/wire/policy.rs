//! What a retry policy does: its schedule, phase by phase.

use serde::Serialize;

use crate::domain::policy::{Phase, PolicyError, PolicyOwner, RetryPolicy};

use super::input;

/// The schedule of a policy.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the keys are CONTRACT.md's")]
pub struct Preview {
    pub delays_s: Vec<u32>,
    pub retries: u32,
    pub attempts: u32,
    pub total_s: u64,
    pub phases: Vec<PhasePreview>,
}

/// One phase of it.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the keys are CONTRACT.md's")]
pub struct PhasePreview {
    pub phase: &'static str,
    pub retries: u32,
    pub delays_s: Vec<u32>,
}

/// Why a policy is invalid.
#[derive(Clone, Debug, Serialize)]
pub struct Invalid {
    /// The error.
    pub error: InvalidPolicy,
}

/// The error in a policy.
#[derive(Clone, Debug, Serialize)]
pub struct InvalidPolicy {
    /// The key that is wrong.
    pub field: Option<String>,
    /// The key that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What is wrong and what is possible.
    pub message: String,
}

impl From<PolicyError> for Invalid {
    fn from(error: PolicyError) -> Self {
        Self {
            error: InvalidPolicy {
                field: error.field,
                nearest: error.nearest,
                message: error.message,
            },
        }
    }
}

/// The schedule of the policy written as `json`; of the default for `null`.
pub fn preview(json: &str) -> Result<Preview, Invalid> {
    let parsed: serde_json::Value = serde_json::from_str(json).map_err(|error| Invalid {
        error: InvalidPolicy {
            field: None,
            nearest: None,
            message: format!("not JSON: {error}"),
        },
    })?;
    let policy = RetryPolicy::from_value(&input::value(&parsed), PolicyOwner::Queue)?.unwrap_or_default();
    let schedule = policy.schedule();
    let phase = |phase: Phase| PhasePreview {
        phase: phase.as_str(),
        retries: schedule.phase_retries(phase),
        delays_s: schedule.phase_delays_s(phase).collect(),
    };
    Ok(Preview {
        delays_s: schedule.delays_s().collect(),
        retries: schedule.retries(),
        attempts: schedule.attempts(),
        total_s: schedule.total_s(),
        phases: Phase::ALL.into_iter().map(phase).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_has_the_whole_schedule_and_an_error_its_field() {
        let seed = serde_json::to_value(preview("{}").unwrap()).unwrap();
        assert_eq!(
            (seed["retries"].as_u64(), seed["total_s"].as_u64()),
            (Some(15), Some(210))
        );
        assert_eq!(seed["phases"][0]["phase"], "immediate");
        let wrong = serde_json::to_value(preview(r#"{"minimum_dealy": 3}"#).unwrap_err()).unwrap();
        assert_eq!(wrong["error"]["field"], "minimum_dealy");
        assert_eq!(wrong["error"]["nearest"], "minimum_delay");
        assert!(preview("{").unwrap_err().error.message.contains("JSON"));
    }
}
