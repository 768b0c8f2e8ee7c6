//! Reads of rows that carry bodies end where they have as many bytes as one read may bring into memory, however many
//! rows were asked for. The row that reaches the bound is still in: each read gets on by one row at least.

use futures_util::TryStreamExt as _;
use futures_util::stream::Stream;

/// A read of rows with bodies brings no more bytes of them, but for the last body.
pub(super) const READ_BYTES: usize = 8 * 1024 * 1024;

/// As bound to a statement that ends a read by itself.
#[must_use]
pub(super) fn read_bytes() -> i64 {
    i64::try_from(READ_BYTES).unwrap_or(i64::MAX)
}

/// The first rows that have [`READ_BYTES`]; those behind them are not read.
pub(super) async fn within<R, T>(
    rows: impl Stream<Item = Result<R, sqlx::Error>>,
    row: impl Fn(&R) -> Result<T, sqlx::Error>,
    bytes: impl Fn(&T) -> usize,
) -> Result<Vec<T>, sqlx::Error> {
    let mut rows = std::pin::pin!(rows);
    let (mut read, mut sum) = (Vec::new(), 0);
    while sum < READ_BYTES {
        let Some(next) = rows.try_next().await? else {
            break;
        };
        let one = row(&next)?;
        sum += bytes(&one);
        read.push(one);
    }
    Ok(read)
}
