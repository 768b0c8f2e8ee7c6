//! Stack traces of Java, .NET and Ruby: which exception is at the root, and the first frame that is not a library's.

/// What the frames of libraries begin with: they say that something failed, and not where.
const LIBRARIES: [&str; 24] = [
    "java.",
    "javax.",
    "jakarta.",
    "jdk.",
    "sun.",
    "com.sun.",
    "kotlin.",
    "scala.",
    "org.springframework.",
    "org.apache.",
    "org.hibernate.",
    "com.fasterxml.",
    "com.rabbitmq.",
    "com.zaxxer.",
    "io.netty.",
    "reactor.",
    "System.",
    "Microsoft.",
    "MassTransit.",
    "GreenPipes.",
    "NServiceBus.",
    "EasyNetQ.",
    "RabbitMQ.",
    "Newtonsoft.",
];
/// Where Ruby keeps what is not one's own.
const GEMS: [&str; 2] = ["/gems/", "/lib/ruby/"];
/// Bytes of a frame.
const FRAME_MAX: usize = 120;

/// An exception as a trace names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root<'t> {
    /// Its type.
    pub kind: &'t str,
    /// Its message.
    pub message: &'t str,
}

/// The exception at the root: the last one that another was caused by, else the first line.
#[must_use]
pub fn root_of_trace(trace: &str) -> Option<Root<'_>> {
    let mut caused = trace
        .lines()
        .rev()
        .filter_map(|line| line.trim_start().strip_prefix("Caused by: "));
    let line = caused.next().or_else(|| trace.lines().next())?;
    let (kind, message) = line.split_once(": ").unwrap_or((line, ""));
    let is_type = !kind.is_empty()
        && kind
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | ':' | '`'));
    is_type.then_some(Root { kind, message })
}

/// The first frame, of the root's, that is not a library's; where all are, the first one.
#[must_use]
pub fn first_own_frame(trace: &str) -> Option<String> {
    let root = trace.rfind("Caused by: ").map_or(trace, |at| &trace[at..]);
    let mut first = None;
    for frame in root.lines().filter_map(frame) {
        if is_own(frame) {
            return Some(cut(frame));
        }
        first = first.or(Some(frame));
    }
    first.map(cut)
}

/// The first frame of a Ruby backtrace that is not a gem's.
#[must_use]
pub(super) fn first_own_line(backtrace: &str) -> Option<String> {
    let mut lines = backtrace.split(", ").map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next()?;
    let is_own = |line: &&str| !GEMS.iter().any(|gem| line.contains(gem));
    Some(cut(lines.find(is_own).unwrap_or(first)))
}

/// `at com.shop.Orders.handle(Orders.java:12)`, `at Shop.Orders.Handle(Order o) in /src/Orders.cs:line 12`: the method.
fn frame(line: &str) -> Option<&str> {
    let frame = line.trim_start().strip_prefix("at ")?;
    let method = frame.split(['(', ' ']).next()?;
    // A module before it: java.base/java.lang.Thread.run.
    let method = method.rsplit_once('/').map_or(method, |(_, method)| method);
    (!method.is_empty()).then_some(method)
}

fn is_own(frame: &str) -> bool {
    !LIBRARIES.iter().any(|library| frame.starts_with(library))
}

fn cut(frame: &str) -> String {
    frame[..frame.floor_char_boundary(FRAME_MAX)].to_owned()
}
