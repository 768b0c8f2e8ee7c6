//! Which database URLs name something that no store can be kept in.

use url::Url;

const SEVERAL: &str = "names several hosts, and this program goes to one: give the name or the address that follows the \
    primary (a virtual address, a proxy, a name that is moved)";

/// How TLS is used, by what `libpq` calls it.
const MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Why a `postgres://` URL is refused before anybody connects; `None`: it is not. Never with a password.
#[must_use]
pub fn refusal(url: &str) -> Option<String> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    if hosts.contains(',') {
        return Some(SEVERAL.to_owned());
    }
    let url = Url::parse(url).ok()?;
    url.query_pairs().find_map(|(key, value)| match &*key {
        "host" | "hostaddr" | "port" => value.contains(',').then(|| SEVERAL.to_owned()),
        // What takes writes is asked for anyway: `read-write`, `primary` and `any` say nothing more.
        "target_session_attrs" => (value.contains("read-only") || value.contains("standby"))
            .then(|| format!("asks for a server that takes no writes (target_session_attrs={value})")),
        "sslmode" | "ssl-mode" => (!MODES.contains(&value.to_ascii_lowercase().as_str()))
            .then(|| format!("has sslmode={value}, which is none of {}", MODES.join(", "))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_hosts_and_servers_that_only_read_are_refused_with_what_helps() {
        for url in [
            "postgres://u:p@a,b/redrive",
            "postgres://u:p@a:5432,b:5433/redrive",
            "postgres:///redrive?host=a,b",
            "postgres://a/redrive?port=5432,5433",
        ] {
            let why = refusal(url).unwrap();
            assert!(
                why.contains("several hosts") && why.contains("follows the primary"),
                "{url}: {why}"
            );
        }
        for attributes in ["read-only", "standby", "prefer-standby"] {
            let url = format!("postgres://a/redrive?target_session_attrs={attributes}");
            assert!(refusal(&url).unwrap().contains("takes no writes"), "{url}");
        }
        let mode = refusal("postgres://a/redrive?sslmode=requrie").unwrap();
        assert!(mode.contains("none of disable, allow"), "{mode}");
        for url in [
            "postgres://a/redrive?sslmode=verify-full",
            "postgres://a/redrive?target_session_attrs=read-write",
            "postgres://a/redrive?target_session_attrs=primary",
            "postgres://u,1:p,2@a/redrive",
            "postgres:///redrive?host=/var/run/postgresql",
            "postgres://a:odd/redrive",
        ] {
            assert_eq!(refusal(url), None, "{url}");
        }
    }
}
