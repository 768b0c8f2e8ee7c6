//! How many items a page has, as a client asks for it: bounds and default stand in the type, and so in the OpenAPI document.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::wire::input::LIMIT_MAX;
use crate::wire::problem::Problem;

/// 1 to `MAX`; `DEFAULT` where nobody says.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Limit<const DEFAULT: u32 = 100, const MAX: u32 = LIMIT_MAX>(Option<u32>);

/// Which page of a list.
#[derive(JsonSchema, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paged<const DEFAULT: u32 = 100, const MAX: u32 = LIMIT_MAX> {
    /// How many are answered, at most.
    #[serde(default)]
    pub(super) limit: Limit<DEFAULT, MAX>,
    /// Where the page begins: `next_cursor` of the page before.
    pub(super) cursor: Option<String>,
}

impl<const DEFAULT: u32, const MAX: u32> Limit<DEFAULT, MAX> {
    pub(super) const fn is_given(self) -> bool {
        self.0.is_some()
    }

    /// So many.
    pub(super) fn items(self) -> Result<u32, Problem> {
        match self.0.unwrap_or(DEFAULT) {
            number if (1..=MAX).contains(&number) => Ok(number),
            number => Err(Problem::field(
                "limit",
                format!("limit is {number}; possible are 1 to {MAX}"),
            )),
        }
    }
}

impl<const DEFAULT: u32, const MAX: u32> JsonSchema for Limit<DEFAULT, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": MAX, "default": DEFAULT})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_within_its_bounds_or_names_them() {
        assert_eq!(Limit::<100, 500>::default().items(), Ok(100));
        assert_eq!(Limit::<100, 500>(Some(500)).items(), Ok(500));
        for wrong in [0, 501] {
            let problem = Limit::<100, 500>(Some(wrong)).items().unwrap_err();
            assert_eq!(problem.field.as_deref(), Some("limit"));
            assert!(problem.detail.contains("1 to 500"));
        }
    }
}
