//! Which versions of the server this program was tested with.

use sqlx::{PgConnection, Row};

use crate::store::StoreVersion;

/// The oldest and the newest major version that the tests ran on; docs/operations.md names them.
const CHECKED: (i32, i32) = (15, 18);

const VERSION: &str = "SELECT current_setting('server_version') AS text, \
    current_setting('server_version_num')::integer AS number, current_setting('server_encoding') AS encoding";

pub(super) async fn version(connection: &mut PgConnection) -> Result<StoreVersion, sqlx::Error> {
    let row = sqlx::query(VERSION).fetch_one(connection).await?;
    let text: String = row.try_get("text")?;
    let encoding: String = row.try_get("encoding")?;
    Ok(StoreVersion {
        warning: unchecked(row.try_get("number")?, &text).or_else(|| cannot_hold(&encoding)),
        text,
    })
}

/// Whether a database of this encoding takes every text: `SQL_ASCII` takes all bytes as they are.
pub(super) fn holds_all(encoding: &str) -> bool {
    matches!(encoding, "UTF8" | "SQL_ASCII")
}

fn cannot_hold(encoding: &str) -> Option<String> {
    (!holds_all(encoding)).then(|| {
        format!(
            "the database has the encoding {encoding}, which cannot hold every letter: an id or a name with another one \
             stops deliveries. Move to a database with the encoding UTF8"
        )
    })
}

/// `number` is 150004 for 15.4.
fn unchecked(number: i32, text: &str) -> Option<String> {
    let (oldest, newest) = CHECKED;
    let is_checked = (oldest..=newest).contains(&(number / 10_000));
    (!is_checked)
        .then(|| format!("PostgreSQL {text} is not one of the versions that were checked ({oldest} to {newest})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unchecked_versions_are_warned_of() {
        for (number, text, warned) in [
            (150_000, "15.0", false),
            (180_003, "18.3", false),
            (140_019, "14.19", true),
            (190_000, "19beta1", true),
        ] {
            assert_eq!(unchecked(number, text).is_some(), warned, "{text}");
        }
        assert_eq!(
            unchecked(190_000, "19beta1").unwrap(),
            "PostgreSQL 19beta1 is not one of the versions that were checked (15 to 18)"
        );
    }

    #[test]
    fn the_page_of_operations_names_the_oldest_and_the_newest() {
        let mut lines = include_str!("../../../docs/operations.md").lines();
        let tested = lines.find(|line| line.starts_with("- **Versions**")).unwrap();
        let versions = tested.split_once("PostgreSQL ").unwrap().1.split(';').next().unwrap();
        for version in [CHECKED.0, CHECKED.1] {
            assert!(
                versions.split([' ', ',']).any(|word| word == version.to_string()),
                "{version}: {tested}"
            );
        }
    }
}
