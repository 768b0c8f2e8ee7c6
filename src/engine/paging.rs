//! How much one answer has, and where the next one goes on.

use super::error::EngineError;

/// Items of one answer, at most.
pub(in crate::engine) const LIMIT_MAX: u32 = 1_000;

/// Of an id that is made here: a UUID.
const ID_LENGTH: usize = 36;

pub(super) fn bounded(limit: u32) -> u32 {
    limit.clamp(1, LIMIT_MAX)
}

pub(super) fn offset_of(cursor: Option<&str>) -> Result<usize, EngineError> {
    cursor.map_or(Ok(0), |text| text.parse().map_err(|_| EngineError::unknown_cursor()))
}

/// Where a list of what has an id made here goes on: behind that one.
pub(super) fn id_of(cursor: Option<&str>) -> Result<(), EngineError> {
    let is_id =
        |text: &str| text.len() == ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match cursor {
        Some(text) if !is_id(text) => Err(EngineError::unknown_cursor()),
        Some(_) | None => Ok(()),
    }
}

/// A page of `limit` out of rows of which one more was asked for, and the last of it where there is another page.
pub(super) fn cut<T>(mut rows: Vec<T>, limit: u32, id: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(id);
    (rows, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_page_that_is_full_says_that_nothing_comes_behind_it() {
        let page = |rows: &[u32]| cut(rows.to_vec(), 2, u32::to_string);
        assert_eq!(page(&[3, 2, 1]), (vec![3, 2], Some("2".to_owned())));
        assert_eq!(page(&[3, 2]), (vec![3, 2], None));
        assert_eq!(page(&[]), (vec![], None));
    }

    #[test]
    fn a_cursor_that_is_no_id_is_refused() {
        assert!(id_of(None).is_ok() && id_of(Some("018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a")).is_ok());
        for wrong in [
            "",
            "zzz",
            "018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5",
            "018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5z",
        ] {
            assert!(id_of(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
