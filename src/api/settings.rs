//! Where the API listens and who may use it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::budget::Budget;
use crate::domain::mask::MaskRules;
use crate::domain::scope::{Prefix, Quota, Scopes};

use super::quota::Account;

/// The settings of the API.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names by which it may be called, beside its address and the loopback names.
    pub hosts: Vec<String>,
    /// Who may use it, beside this user by a socket; one at least.
    pub tokens: Vec<ApiToken>,
    /// Connections at once from one address.
    pub connections_per_address: usize,
    /// Who may name the address that it asks for.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether the numbers are served to everybody at the probe's address.
    pub probe_metrics: bool,
    /// What bodies may take of the memory.
    pub memory: Budget,
    /// What those who may only look do not see.
    pub masks: MaskRules,
}

impl ApiSettings {
    /// Refuses an API that nobody could use.
    pub fn check(&self) -> Result<(), String> {
        if self.tokens.is_empty() {
            return Err("api.tokens is empty: nobody could use the API".to_owned());
        }
        Ok(())
    }

    /// Whose token this is. Every token is compared, each in constant time.
    pub(super) fn find(&self, secret: &str) -> Option<&ApiToken> {
        let digest = digest(secret);
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.digest.ct_eq(&digest)) {
                found = Some(token);
            }
        }
        found
    }

    /// Whether a request may call this server by that host name or address.
    pub(super) fn answers_to(&self, host: &str, connected_to: IpAddr) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        let is_called = |name: &String| name.strip_suffix('.').unwrap_or(name).eq_ignore_ascii_case(bare);
        if self.hosts.iter().any(is_called) {
            return true;
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            let address = address.to_canonical();
            return address.is_loopback()
                || address == self.listen.ip().to_canonical()
                || address == connected_to.to_canonical();
        }
        host.eq_ignore_ascii_case("localhost")
    }
}

/// A bearer token; only its hash is kept.
#[derive(Clone)]
pub struct ApiToken {
    name: String,
    digest: [u8; 32],
    scopes: Scopes,
    prefix: Option<Prefix>,
    account: Option<Arc<Account>>,
}

impl std::fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiToken")
            .field("name", &self.name)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl ApiToken {
    /// The token `secret`, audited as `name`, that publishes below `prefix` only.
    #[must_use]
    pub fn new(name: &str, secret: &str, scopes: Scopes, prefix: Option<Prefix>) -> Self {
        Self {
            name: name.to_owned(),
            digest: digest(secret),
            scopes,
            prefix,
            account: None,
        }
    }

    /// The same token, with this quota.
    #[must_use]
    pub fn with(mut self, quota: Quota) -> Self {
        self.account = Account::of(&self.name, quota, self.prefix.clone()).map(Arc::new);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    pub(super) const fn prefix(&self) -> Option<&Prefix> {
        self.prefix.as_ref()
    }

    pub(super) const fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }
}

pub(super) fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(listen: &str, tokens: Vec<ApiToken>) -> ApiSettings {
        ApiSettings {
            listen: listen.parse().unwrap(),
            hosts: vec!["redrive.example.".to_owned()],
            tokens,
            connections_per_address: 256,
            trusted_proxies: Vec::new(),
            probe_metrics: false,
            memory: Budget::default(),
            masks: MaskRules::usual(),
        }
    }

    fn token(name: &str, secret: &str) -> ApiToken {
        ApiToken::new(name, secret, Scopes::default(), None)
    }

    #[test]
    fn without_tokens_nothing_is_served() {
        for listen in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:8470"] {
            let refused = settings(listen, Vec::new()).check().unwrap_err();
            assert!(refused.contains("api.tokens"), "{refused}");
            assert!(settings(listen, vec![token("ops", "opens-doors")]).check().is_ok());
        }
        assert!(settings("127.0.0.1:0", Vec::new()).find("").is_none());
    }

    #[test]
    fn a_token_is_found_by_its_secret_and_shown_without_it() {
        let tokens = vec![token("ops", "opens-doors"), token("look", "other")];
        let settings = settings("127.0.0.1:0", tokens);
        assert_eq!(settings.find("other").map(ApiToken::name), Some("look"));
        assert!(settings.find("opens-door").is_none());
        assert!(!format!("{settings:?}").contains("opens-doors"));
    }

    #[test]
    fn only_its_own_names_and_addresses_are_answered_to() {
        let settings = settings("127.0.0.1:0", Vec::new());
        let connected_to = "10.0.0.7".parse().unwrap();
        for host in [
            "localhost",
            "LOCALHOST.",
            "127.0.0.1",
            "[::1]",
            "10.0.0.7",
            "Redrive.Example",
        ] {
            assert!(settings.answers_to(host, connected_to), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.8",
            "",
            "localhost.evil.example",
        ] {
            assert!(!settings.answers_to(host, connected_to), "{host}");
        }
    }
}
