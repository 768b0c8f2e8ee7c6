//! What a store is told by from every other one.

use super::{Calls, Driver, Statement, values};
use crate::domain::id::StoreId;
use crate::store::columns::{Columns, text};
use crate::store::{StoreError, rules};

pub(in crate::store) static IDENTITY: Statement = Statement::new("SELECT identity FROM redrive.settings");
static MAKE: Statement =
    Statement::new("UPDATE redrive.settings SET identity = COALESCE(identity, $1) RETURNING identity");

/// Made at the first question. Who comes second waits for the row, and finds what the first one made.
pub(in crate::store) async fn identity(driver: &impl Driver) -> Result<StoreId, StoreError> {
    let found = driver.one("reading the identity", &IDENTITY, values![], |row| row.text("identity"));
    let identity = if let Some(found) = found.await? {
        found
    } else {
        let new = values![rules::new_store_id()];
        driver
            .added("making the identity", &MAKE, new, |row| text(row, "identity"))
            .await?
    };
    rules::store_id(&identity)
}
