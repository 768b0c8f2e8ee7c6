//! stub
/// c
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeClass {
    /// d
    Delivered,
    /// r
    Refused,
    /// g
    Gone,
    /// f
    Failed,
    /// i
    Interrupted,
}
/// o
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// s
    Status(u16),
    /// f
    Failure(FailureKind),
}
/// k
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// s
    Stopped,
}
/// f
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// u
    Url,
    /// m
    Message,
}
