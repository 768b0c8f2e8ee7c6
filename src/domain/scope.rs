//! What a token of the API may do: scopes, and for what is published a prefix.

use percent_encoding::percent_decode_str;

use super::id::ExecutionId;
use super::url::EndpointUrl;

/// One kind of what can be done over the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Look; what the masks name is hidden.
    Read,
    /// Publish and end notifications, and push events.
    Publish,
    /// Look at everything, and act on queues, endpoints, runs, dead letters and events.
    Operate,
    /// Everything: policies, types and subscriptions too.
    Admin,
}

impl Scope {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Publish, Self::Operate, Self::Admin];

    /// As written in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The scope of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// The scopes of one token. `admin` is all of them, and who operates may look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Those that were given.
    #[must_use]
    pub const fn new(scopes: Vec<Scope>) -> Self {
        Self(scopes)
    }

    /// Whether what needs `scope` is allowed.
    #[must_use]
    pub fn allow(&self, scope: Scope) -> bool {
        self.0.iter().any(|own| match own {
            Scope::Admin => true,
            Scope::Operate => matches!(scope, Scope::Operate | Scope::Read),
            Scope::Read | Scope::Publish => *own == scope,
        })
    }

    /// As they were given.
    #[must_use]
    pub fn given(&self) -> &[Scope] {
        &self.0
    }
}

/// How much a token may publish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Notifications and events a second.
    pub publishes_per_second: Option<u32>,
    /// Delivery queues at once where it may publish to.
    pub queues: Option<u32>,
    /// Bytes of bodies that wait there.
    pub bytes_waiting: Option<u64>,
}

/// Where a token that publishes may publish to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// Executions whose id begins so.
    Execution(String),
    /// This URL and those below it.
    Url(EndpointUrl),
}

impl Prefix {
    /// A URL where it is written as one, else the beginning of an execution's id.
    ///
    /// # Errors
    /// It is empty, or no URL that could be delivered to.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty; leave it out to allow every execution and URL".to_owned());
        }
        if !text.contains("://") {
            return Ok(Self::Execution(text.to_owned()));
        }
        let url = EndpointUrl::parse(text).map_err(|error| format!("is no URL: {error}"))?;
        if url.as_str().contains('?') {
            return Err("is a URL with a query; give the URL without it".to_owned());
        }
        Ok(Self::Url(url))
    }

    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Execution(prefix) => prefix,
            Self::Url(url) => url.as_str(),
        }
    }

    /// Whether a notification of this execution to this URL may be published.
    #[must_use]
    pub fn covers(&self, execution: &ExecutionId, url: &EndpointUrl) -> bool {
        match self {
            Self::Execution(prefix) => execution.as_str().starts_with(prefix.as_str()),
            // `https://a.example/hooks` is not the beginning of `https://a.example/hooks-of-others`.
            Self::Url(prefix) => url
                .as_str()
                .strip_prefix(prefix.as_str())
                .filter(|rest| rest.is_empty() || prefix.as_str().ends_with('/') || rest.starts_with(['/', '?']))
                .is_some_and(|rest| !climbs(rest)),
        }
    }
}

/// Whether the path leads out of what is before it at a receiver that decodes it before it looks for `..`: many gateways
/// do, and take away what follows a `;`.
fn climbs(rest: &str) -> bool {
    let path = rest.split('?').next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded
        .split(['/', '\\'])
        .any(|segment| segment.split(';').next() == Some(".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_may_everything_and_who_operates_may_look() {
        let of = |scope| Scopes::new(vec![scope]);
        assert!(Scope::ALL.into_iter().all(|scope| of(Scope::Admin).allow(scope)));
        assert!(of(Scope::Operate).allow(Scope::Read) && !of(Scope::Operate).allow(Scope::Publish));
        assert!(!of(Scope::Publish).allow(Scope::Read) && !of(Scope::Read).allow(Scope::Operate));
        assert!(!Scopes::default().allow(Scope::Read));
    }

    #[test]
    fn a_prefix_ends_where_a_part_of_the_url_does() {
        let url = |text: &str| EndpointUrl::parse(text).unwrap();
        let run = ExecutionId::parse("tenant-1:run").unwrap();
        let covers = |prefix: &str, text: &str| Prefix::parse(prefix).unwrap().covers(&run, &url(text));
        assert!(covers("https://a.example", "https://a.example/hook"));
        assert!(covers("https://a.example/hooks", "https://a.example/hooks/1?x=y"));
        assert!(covers("https://a.example/hooks", "https://a.example/hooks?x=y"));
        assert!(!covers("https://a.example", "https://a.example.evil/hook"));
        assert!(!covers("https://a.example", "http://a.example/hook"));
        assert!(!covers("https://a.example/hooks", "https://a.example/hooks-of-others"));
        for inside in ["/a%2Fb", "/a..b", "/1?x=/../y"] {
            assert!(covers(
                "https://a.example/hooks",
                &format!("https://a.example/hooks{inside}")
            ));
        }
        for out in ["/%2e%2e%2fz", "/..%2Fz", "/a/..%5c..%5Cz", "/..;/z", "/a%2f..%2f..%2fz"] {
            assert!(
                !covers("https://a.example/hooks", &format!("https://a.example/hooks{out}")),
                "{out}"
            );
        }
        assert!(covers("tenant-1:", "https://a.example/") && !covers("tenant-2:", "https://a.example/"));
        for wrong in ["", "https://", "https://a.example/?x=y"] {
            Prefix::parse(wrong).unwrap_err();
        }
    }
}
