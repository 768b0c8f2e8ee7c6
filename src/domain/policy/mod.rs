//! stub
/// p
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// i
    Immediate,
    /// p
    PreBackoff,
    /// b
    Backoff,
    /// p
    PostBackoff,
}
/// r
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RetryPolicy {}
