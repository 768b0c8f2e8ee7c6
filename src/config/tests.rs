//! The configuration as users meet it: what they get, and what they are told.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use secrecy::ExposeSecret;

use super::*;
use crate::domain::naming::QueueType;
use crate::domain::policy::{BackoffFunction, RetryPolicy};
use crate::domain::scope::Scope;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The contract's example, with values that differ from the defaults.
const EXAMPLE: &str = r#"
        [store]
        url = "postgres://redrive:hunter2@db/redrive"
        [broker]
        url = "amqps://user:hunter2@rabbit"
        url_hash_key = "hunter2-key"
        vhost = "other"
        queue_type = "quorum"
        tls = { certificate = "/etc/redrive/broker.pem", key = "/etc/redrive/broker.key", authority = "/etc/ca.pem" }
        [delivery]
        timeout_s = 30
        allow_networks = ["10.1.2.3/8", "::1"]
        retry_policy = { minimum_delay = 1, maximum_delay = 60, retry_backoff_function = "geometric" }
        [[endpoint]]
        url = "HTTP://Example.com:80/hook#there"
        secret = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
        headers = { "X-Team" = "hunter2" }
        max_receives_per_second = 10
        [api]
        listen = "[::]:8470"
        tls = { certificate = "/etc/redrive/api.pem", key = "/etc/redrive/api.key" }
        tokens = ["hunter2-hunter2-hunter2-hunter2", { value = "hunter2r-hunter2r-hunter2r", scopes = ["read"], name = "billing" }]
        [[consumer]]
        name = "hr"
        queue = "q_hr"
        exchange = "people"
        bindings = ["a"]
        type = "hr-import"
        reference = "/employee_number"
        [[handler]]
        type = "hr-import"
        command = ["true"]
        [[alert]]
        name = "ops"
        url = "https://ops.example/hook?key=hunter2"
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        on = ["endpoint_parked"]
        [[alert]]
        name = "chat"
        slack = "https://hooks.slack.example/services/hunter2"
        [metrics]
        statsd = "[::1]:8125"
        [console]
        keys = { quit = "q" }
        "#;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables: HashMap<_, _> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Environment {
        variables,
        config_home: None,
        data_home: Some(PathBuf::from("/data")),
        state_home: None,
    }
}

#[track_caller]
fn config(text: &str) -> Config {
    Config::resolve(text, None, &environment(&[])).unwrap()
}

/// The error contains every part.
#[track_caller]
fn check(text: &str, parts: &[&str]) {
    check_with(text, None, &[], parts);
}

#[track_caller]
fn check_with(text: &str, profile: Option<&str>, variables: &[(&str, &str)], parts: &[&str]) {
    let error = Config::resolve(text, profile, &environment(variables))
        .unwrap_err()
        .to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn without_a_file_everything_is_embedded_and_has_the_documented_default() {
    let config = config("");
    assert!(matches!(&config.store, StoreConfig::Sqlite { path, .. } if path == Path::new("/data/redrive/redrive.db")));
    assert!(matches!(config.broker.kind, BrokerKind::Embedded));
    assert_eq!(
        (
            config.broker.naming.prefix.as_str(),
            config.broker.naming.vhost.as_str()
        ),
        ("redrive.", "redrive")
    );
    assert_eq!((config.delivery.workers, config.delivery.prefetch), (512, 1));
    assert_eq!(config.delivery.timeout.as_secs(), 15);
    assert_eq!(config.delivery.take_over.as_secs(), 60);
    assert_eq!(config.delivery.retry_policy, RetryPolicy::built_in());
    assert_eq!(config.api.listen.to_string(), "127.0.0.1:8470");
    assert_eq!((config.events.cutoff, config.events.backoff_base.as_secs()), (20, 225));
    assert_eq!(config.janitor.leftover_pattern.as_str(), r"^jobs\.");
    assert!(config.warnings().is_empty() && config.profile.name.is_none() && config.profile.daemon.is_none());
}

#[test]
fn the_example_of_the_contract_is_understood() {
    let config = config(EXAMPLE);
    let BrokerKind::RabbitMq {
        amqp_url,
        management_url,
    } = &config.broker.kind
    else {
        panic!("{:?}", config.broker)
    };
    assert_eq!(amqp_url.expose(), "amqps://user:hunter2@rabbit");
    assert_eq!(management_url.expose(), "https://user:hunter2@rabbit:15671/");
    assert_eq!(config.broker.naming.queue_type, QueueType::Quorum);
    assert_eq!(config.delivery.take_over.as_secs(), 120);
    let networks: Vec<String> = config.delivery.allow_networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "::1/128"]);
    assert_eq!(config.delivery.retry_policy.function, BackoffFunction::Geometric);
    let endpoint = &config.endpoints[0];
    assert_eq!(
        (endpoint.url.as_str(), endpoint.secrets.len()),
        ("http://example.com/hook", 2)
    );
    assert_eq!(endpoint.max_receives_per_second, Some(10));
    assert_eq!(
        config
            .api
            .tokens
            .iter()
            .map(|token| token.scopes.allow(Scope::Operate))
            .collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!(config.consumers[0].vhost, "other", "the broker's");
    let action = HandlerAction::Command {
        command: vec!["true".into()],
        directory: None,
    };
    assert_eq!(config.handlers[0].action, action);
    assert_eq!(config.metrics.statsd, Some(("::1".to_owned(), 8125)));
    assert_eq!(config.broker.naming.url_hash_key, "hunter2-key");
    assert_eq!(config.warnings(), Vec::<String>::new());
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    let printed = config.print();
    assert!(!printed.contains("hunter2") && !printed.contains(SECRET), "{printed}");
}

#[test]
fn an_unknown_key_is_named_with_its_path_its_line_and_the_nearest() {
    check(
        "[broker]\nulr = \"embedded:\"",
        &["broker.ulr (line 2)", "did you mean broker.url?"],
    );
    check("[brokr]", &["brokr (line 1)", "did you mean broker?"]);
    check(
        "[[endpoint]]\nurl = \"http://a/\"\nsecrt = \"hunter2\"",
        &["endpoint[0].secrt (line 3)", "endpoint[0].secret?"],
    );
    check(
        "\n[delivery]\nretry_policy = { minimum_dealy = 3 }",
        &["delivery.retry_policy.minimum_dealy (line 3)", "minimum_delay"],
    );
    check(
        "[delivery]\nzzzzzzzzz = 1",
        &["delivery.zzzzzzzzz", "possible are workers, slow_requests, prefetch"],
    );
    check("label = \"x\"", &["label (line 1)", "possible are store"]);
    check(
        "[profile.a.delivery]\nworkrs = 3",
        &[
            "profile.a.delivery.workrs (line 2)",
            "did you mean profile.a.delivery.workers?",
        ],
    );
    check(
        "[profile.a]\nprotectd = true",
        &["profile.a.protectd", "profile.a.protected?"],
    );
    check("profile = 3", &["profile (line 1) is an integer, and must be a table"]);
}

#[test]
fn a_store_broker_or_delivery_that_is_not_possible_is_told_what_is() {
    for (text, parts) in [
        ("[store", &["line 1 is not TOML"][..]),
        ("store = 3", &["store (line 1) is an integer, and must be a table"]),
        ("[store]\nurl = 3", &["store.url (line 2)", "must be a string, { env"]),
        (
            "[store]\nurl = \"mysql://hunter2@db\"",
            &["store.url", "postgres:// or sqlite:"],
        ),
        ("[store]\nurl = \"sqlite::memory:\"", &["store.url", "must name a file"]),
        ("[broker]\nurl = \"http://hunter2@a\"", &["broker.url", "amqp://"]),
        ("[broker]\nurl = \"amqp://\"", &["broker.url"]),
        (
            "[broker]\nurl = \"amqp://a/one\"\nvhost = \"two\"",
            &["broker.vhost (line 3)", "\"two\"", "\"one\""],
        ),
        (
            "[broker]\nurl = \"amqp://a\"\nmanagement_url = \"a:15672\"",
            &["broker.management_url (line 3)", "http://"],
        ),
        (
            "[broker]\nqueue_type = \"stream\"",
            &["broker.queue_type", "\"classic\" or \"quorum\""],
        ),
        ("[broker]\nqueue_prefix = \"a/b\"", &["broker.queue_prefix", "letters"]),
        ("[broker]\nurl_hash_key = \"\"", &["broker.url_hash_key", "empty"]),
        ("[store]\nurl = \"postgres://db\"", &["broker.url", "SQLite store"]),
        (
            "[delivery]\nworkers = 0",
            &["delivery.workers (line 2) is 0", "between 1 and 10000"],
        ),
        (
            "[delivery]\nworkers = \"many\"",
            &["delivery.workers", "is a string, and must be an integer"],
        ),
        (
            "[delivery]\nprefetch = 99999999999999999999",
            &["delivery.prefetch", "between 1 and 1000"],
        ),
        (
            "[broker]\nqueue_type = \"quorum\"\n[delivery]\nprefetch = 2",
            &["delivery.prefetch (line 4)", "must be 1", "quorum"],
        ),
        (
            "[delivery]\ntimeout_s = -1",
            &["delivery.timeout_s", "between 0.05 and 600"],
        ),
        ("[delivery]\ntimeout_s = nan", &["delivery.timeout_s", "between"]),
        (
            "[delivery]\ntimeout_s = 20\ntake_over_s = 60",
            &[
                "delivery.take_over_s (line 3)",
                "at least 80 seconds, 4 times delivery.timeout_s",
            ],
        ),
        (
            "[delivery]\nallow_networks = [\"10.0.0.0/8\", \"lan\"]",
            &["delivery.allow_networks[1] (line 2)", "\"lan\"", "10.0.0.0/8"],
        ),
        (
            "[delivery]\nallow_networks = \"10.0.0.0/8\"",
            &["delivery.allow_networks", "must be a list of strings"],
        ),
        (
            "[delivery.retry_policy]\njitter = 2",
            &["delivery.retry_policy.jitter (line 2)"],
        ),
        ("[delivery]\nretry_policy = 3", &["delivery.retry_policy (line 2)"]),
    ] {
        check(text, parts);
    }
}

#[test]
fn a_certificate_or_a_name_that_is_not_possible_is_told_what_is() {
    for (text, parts) in [
        (
            "[broker]\nurl = \"amqp://a\"\ntls = { certificate = \"a.pem\", key = \"a.key\" }",
            &["broker.tls (line 3)", "amqps://"][..],
        ),
        (
            "[broker]\nurl = \"amqps://a\"\ntls = { certificate = \"a.pem\", key = \"\" }",
            &["broker.tls.key", "is empty"],
        ),
        (
            "[api]\ntokens = [{ value = \"a-token-of-24-characters\", scopes = [\"read\"], name = \"token-2\" }]",
            &["api.tokens[0].name", "token-2", "another one"],
        ),
        (
            "[api]\ntokens = [{ value = \"a-token-of-24-characters\", scopes = [\"read\"], name = \"a b\" }]",
            &["api.tokens[0].name", "1 to 64"],
        ),
        (
            "[api]\ntokens = [{ value = \"a-token-of-24-characters\", scopes = [\"read\"], name = \"a\" }, \
             { value = \"b-token-of-24-characters\", scopes = [\"read\"], name = \"a\" }]",
            &["api.tokens", "two of the name \"a\""],
        ),
        (
            "[api]\ntls = { certificate = \"a.pem\" }",
            &["api.tls.key", "is missing"],
        ),
        (
            "[api]\nhosts = [\"b.example\", \"a.example:8470\"]",
            &[
                "api.hosts[1] (line 2)",
                "a.example:8470",
                "without scheme, port and path",
            ],
        ),
        ("[api]\nhosts = [\"a b\"]", &["api.hosts[0]", "the name of a host"]),
        (
            "[api]\ntokens = [\"a-token-of-24-characters\", { value = \"a-token-of-24-characters\", scopes = [\"read\"] }]",
            &["api.tokens", "the same token as [0] and as [1]", "openssl rand"],
        ),
        (
            "[api]\nprobe = \"127.0.0.1:8470\"",
            &[
                "api.probe (line 2)",
                "where api.listen (127.0.0.1:8470) is already",
                "another port",
            ],
        ),
        (
            "[api]\nlisten = \"127.0.0.1:9000\"\nprobe = \"0.0.0.0:9000\"",
            &["api.probe (line 3)", "another port"],
        ),
    ] {
        check(text, parts);
    }
}

#[test]
fn an_endpoint_a_token_or_an_event_setting_that_is_not_possible_is_told_what_is() {
    for (text, parts) in [
        ("[[endpoint]]", &["endpoint[0].url (line 1) is missing"][..]),
        (
            "[[endpoint]]\nurl = \"http://user:hunter2@a/\"",
            &["endpoint[0].url (line 2) has user information"],
        ),
        (
            "[[endpoint]]\nurl = \"http://a\"\n[[endpoint]]\nurl = \"http://a/\"",
            &["endpoint[1].url (line 4)", "twice"],
        ),
        (
            "[[endpoint]]\nurl = \"http://a\"\nsecret = \"hunter2\"",
            &["endpoint[0].secret (line 3)", "whsec_"],
        ),
        (
            "[[endpoint]]\nurl = \"http://a\"\nheaders = { Host = \"b\" }",
            &["endpoint[0].headers.Host", "leave it out"],
        ),
        (
            "[[endpoint]]\nurl = \"http://a\"\nheaders = { X-A = \"hunter2\\r\\n\" }",
            &["endpoint[0].headers.X-A", "line breaks"],
        ),
        (
            "[[endpoint]]\nurl = \"http://a\"\nmax_receives_per_second = 0",
            &["endpoint[0].max_receives_per_second"],
        ),
        (
            "endpoint = { url = \"http://a\" }",
            &["endpoint (line 1)", "must be a list of tables"],
        ),
        ("[api]\nlisten = \"localhost:1\"", &["api.listen", "127.0.0.1:8470"]),
        (
            "[api]\nlisten = \"0.0.0.0:8470\"",
            &["api.listen (line 2)", "set api.tokens"],
        ),
        (
            "[api]\ntokens = [\"short-of-24-characters\"]",
            &["api.tokens[0]", "has 22 characters", "at least 24"],
        ),
        (
            "[api]\ntokens = [\"a token with spaces, and long\"]",
            &["api.tokens[0]", "without spaces"],
        ),
        (
            "[api]\ntokens = [{ scopes = [\"read\"] }]",
            &["api.tokens[0].value", "is missing", "value, env and file"],
        ),
        (
            "[api]\ntokens = [{ value = \"a-token-of-24-characters\" }]",
            &["api.tokens[0].scopes", "is missing", "read, publish, operate, admin"],
        ),
        (
            "[api]\ntokens = [{ value = \"a-token-of-24-characters\", scopes = [\"write\"] }]",
            &["api.tokens[0].scopes[0]", "\"write\"", "read, publish"],
        ),
        (
            "[api]\ntokens = [{ value = \"a-token-of-24-characters\", scopes = [\"read\"], prefix = \"a\" }]",
            &["api.tokens[0].prefix", "the scope \"publish\" alone"],
        ),
        (
            "[events]\nbackoff_cap_s = 1",
            &["events.backoff_cap_s", "events.backoff_base_s", "225"],
        ),
    ] {
        check(text, parts);
    }
}

#[test]
fn a_store_without_its_folder_is_warned_of() {
    let warnings = |url: &str| config(&format!("[store]\nurl = \"sqlite:{url}\"")).warnings();
    assert!(warnings("redrive.db")[0].contains("store.url names redrive.db without its folder"));
    assert_eq!(warnings("/data/redrive.db"), Vec::<String>::new());
}

#[test]
fn an_empty_list_of_secrets_is_no_way_to_leave_signing_out() {
    for of in [
        "[[endpoint]]\nurl = \"http://a/\"",
        "[[alert]]\nname = \"a\"\nurl = \"http://a/\"",
    ] {
        check(&format!("{of}\nsecret = []"), &["secret", "names no secret"]);
    }
}

#[test]
fn an_intake_a_handler_or_a_number_of_operation_that_is_not_possible_is_told_what_is() {
    for (text, parts) in [
        ("[[consumer]]\nname = \"a\"", &["consumer[0].queue", "is missing"][..]),
        (
            "[[consumer]]\nname = \"a\"\nqueue = \"q\"\ntype = \"t\"\nreference = \"/a\"\npayload = \"/~2\"",
            &["consumer[0].payload", "JSON pointer"],
        ),
        (
            "[[consumer]]\nname = \"a\"\nqueue = \"q\"\ntype = \"t\"\nreference = \"/a\"\ntypes = [{ key = \"a\" }]",
            &["consumer[0].types[0].type", "is missing"],
        ),
        (
            "[[handler]]\ntype = \"t\"\ncommand = [\"true\"]\ndirectory = \"work\"",
            &["handler[0].directory", "absolute"],
        ),
        (
            "[[handler]]\ntype = \"\\u0007\"\nwebhook = true",
            &["handler[0].type", "control"],
        ),
        ("[[handler]]\ntype = \"a\"", &["handler[0].command", "webhook = true"]),
        (
            "[[handler]]\ntype = \"a\"\nwebhook = true\ncommand = [\"x\"]",
            &["handler[0].webhook", "exclude"],
        ),
        (
            "[janitor]\nleftover_pattern = \"(\"",
            &["janitor.leftover_pattern", "regular expression"],
        ),
        ("[metrics]\nstatsd = \"host\"", &["metrics.statsd", "127.0.0.1:8125"]),
        ("[console]\nrefresh_s = 0", &["console.refresh_s", "between 0.1"]),
        (
            "[console]\nmask = [\"a\", \"$.card\"]",
            &["console.mask[1]", "/card/number"],
        ),
        ("[console]\nmask = \"password\"", &["console.mask", "a list of strings"]),
        (
            "[console]\nunmask = [\"/card/number\"]",
            &["console.unmask[0]", "only names"],
        ),
    ] {
        check(text, parts);
    }
}

#[test]
fn a_secret_may_be_in_the_environment_or_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "from-a-file-of-this-user\r\n").unwrap();
    let text = format!(
        "[api]\ntokens = [{{ env = \"TOKEN\" }}, {{ file = {file:?} }}, {{ env = \"OTHER\", scopes = [\"read\"] }}]"
    );
    let variables = [
        ("TOKEN", "from-a-variable-that-is-long"),
        ("OTHER", "from-another-one-that-is-long"),
    ];
    let config = Config::resolve(&text, None, &environment(&variables)).unwrap();
    let tokens: Vec<&str> = config
        .api
        .tokens
        .iter()
        .map(|token| token.value.expose_secret())
        .collect();
    let expected = [variables[0].1, "from-a-file-of-this-user", variables[1].1];
    assert_eq!(tokens, expected);
    check(
        &text,
        &[
            "api.tokens[0] (line 2)",
            "environment variable \"TOKEN\", which is not set",
        ],
    );
    check(
        "[store]\nurl = { file = \"/nowhere/at/all\" }",
        &["store.url", "/nowhere/at/all"],
    );
    check(
        "[store]\nurl = { vault = \"a\" }",
        &["store.url", "{ env = \"NAME\" } or { file"],
    );
    check(
        "[store]\nurl = { env = \"A\", file = \"b\" }",
        &["store.url", "{ env = \"NAME\" } or { file"],
    );
}

#[test]
fn a_variable_holds_against_the_file_and_is_named_when_it_is_wrong() {
    let variables = [
        ("REDRIVE_STORE_URL", "sqlite:/tmp/a.db"),
        ("REDRIVE_BROKER_URL", "amqp://a/%2f"),
        ("REDRIVE_MANAGEMENT_URL", "http://b:1"),
        ("REDRIVE_API_TOKEN", "the-token-of-the-variable"),
    ];
    let text = "[store]\nurl = \"postgres://db\"\n[api]\ntokens = [\"x\", \"y\"]\nlisten = \"0.0.0.0:1\"";
    let config = Config::resolve(text, None, &environment(&variables)).unwrap();
    assert!(matches!(&config.store, StoreConfig::Sqlite { path, .. } if path == Path::new("/tmp/a.db")));
    assert_eq!((config.broker.naming.vhost.as_str(), config.api.tokens.len()), ("/", 1));
    assert!(
        config.print().contains("management_url = \"http://b:1/\""),
        "{}",
        config.print()
    );
    check_with(
        "",
        None,
        &[("REDRIVE_STORE_URL", "mysql:hunter2")],
        &["REDRIVE_STORE_URL must begin with"],
    );
    check_with(
        "",
        None,
        &[("REDRIVE_API_TOKEN", "a b")],
        &["REDRIVE_API_TOKEN must be visible"],
    );
}

#[test]
fn a_profile_overrides_keys_and_has_its_own() {
    let text = r##"
        [delivery]
        workers = 3
        linger_s = 1
        [api]
        tokens = [{ env = "NOT_SET" }]
        [profile.production]
        label = "PRODUCTION"
        colour = "#ff0000"
        protected = true
        delivery = { workers = 4 }
        api = { tokens = ["the-token-of-the-profile"] }
    "##;
    let config = Config::resolve(text, Some("production"), &environment(&[])).unwrap();
    assert_eq!((config.delivery.workers, config.delivery.linger.as_secs()), (4, 1));
    assert_eq!(config.profile.label.as_deref(), Some("PRODUCTION"));
    assert!(config.profile.protected && !config.profile.read_only);
    assert!(config.print().starts_with("# profile = \"production\"\n"));
    check_with(
        text,
        Some("prodction"),
        &[],
        &["\"prodction\" does not exist", "production"],
    );
    check_with("", Some("a"), &[], &["[profile.NAME]"]);
    check_with(
        "[profile.a]\ncolour = \"rot\"",
        Some("a"),
        &[],
        &["profile.a.colour (line 2)", "magenta"],
    );
    check_with(
        "[profile.a.delivery]\nworkers = 0",
        Some("a"),
        &[],
        &["profile.a.delivery.workers (line 2)"],
    );
}

#[test]
fn a_file_that_was_named_has_to_exist_and_the_usual_one_need_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut surroundings = environment(&[]);
    surroundings.config_home = Some(directory.path().to_owned());
    let load = |choice: &ConfigChoice, surroundings: &Environment| Config::load(choice, surroundings);
    assert_eq!(load(&ConfigChoice::default(), &surroundings).unwrap().file, None);

    let usual = directory.path().join("redrive").join("config.toml");
    std::fs::create_dir(usual.parent().unwrap()).unwrap();
    std::fs::write(&usual, "[delivery]\nworkers = 7").unwrap();
    let found = load(&ConfigChoice::default(), &surroundings).unwrap();
    assert_eq!((found.delivery.workers, found.file), (7, Some(usual)));

    let other = directory.path().join("other.toml");
    surroundings
        .variables
        .insert("REDRIVE_CONFIG".into(), other.to_str().unwrap().into());
    let error = load(&ConfigChoice::default(), &surroundings).unwrap_err().to_string();
    assert!(error.contains("other.toml") && error.contains("--config"), "{error}");
    std::fs::write(&other, "[delivery]\nworkers = -1").unwrap();
    let error = load(&ConfigChoice::default(), &surroundings).unwrap_err().to_string();
    assert!(
        error.contains("other.toml") && error.contains("delivery.workers (line 2)"),
        "{error}"
    );

    let chosen = directory.path().join("chosen.toml");
    std::fs::write(&chosen, "[delivery]\nworkers = 9").unwrap();
    let choice = ConfigChoice {
        file: Some(chosen),
        ..ConfigChoice::default()
    };
    assert_eq!(load(&choice, &surroundings).unwrap().delivery.workers, 9);
}

#[test]
fn a_broker_that_is_typed_stands_in_the_place_of_the_configured_one_and_is_never_told_with_its_password() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let broker = "url = \"amqp://a:b@one/shop\"\nmanagement_url = \"http://one:1\"\nvhost = \"shop\"";
    std::fs::write(&file, format!("[broker]\n{broker}\nprovision = false")).unwrap();
    let load = |typed: &str, variables: &[(&str, &str)]| {
        let choice = ConfigChoice {
            file: Some(file.clone()),
            broker: Some(BrokerUrl(typed.to_owned())),
            ..ConfigChoice::default()
        };
        assert!(!format!("{choice:?}").contains("secret"));
        Config::load(&choice, &environment(variables))
    };
    let urls = |config: &Config| match &config.broker.kind {
        BrokerKind::RabbitMq {
            amqp_url,
            management_url,
        } => (amqp_url.expose().to_owned(), management_url.expose().to_owned()),
        BrokerKind::Embedded => panic!("it is a RabbitMQ"),
    };
    let variables = [("REDRIVE_BROKER_URL", "amqp://c:d@two/other")];
    let config = load("amqp://ops:secret@three/%2F", &variables).unwrap();
    let management = "http://ops:secret@three:15672/".to_owned();
    assert_eq!(urls(&config), ("amqp://ops:secret@three".to_owned(), management));
    assert_eq!(
        (config.broker.naming.vhost.as_str(), config.broker.provision),
        ("/", false)
    );
    let variables = [("REDRIVE_MANAGEMENT_URL", "http://four:2")];
    let config = load("amqp://ops:secret@three", &variables).unwrap();
    assert_eq!(urls(&config).1, "http://ops:secret@four:2/");
    assert_eq!(config.broker.naming.vhost, "redrive");
    let error = load("http://ops:secret@three", &[]).unwrap_err().to_string();
    assert!(
        error.contains("--broker must begin with amqp://") && !error.contains("secret"),
        "{error}"
    );
}

#[test]
fn the_management_api_of_another_broker_does_not_hold_for_that_of_a_profile_or_a_variable() {
    let text = "[broker]\nurl = \"amqp://a:b@one\"\nmanagement_url = \"http://one:1\"\nvhost = \"shop\"\n\
                [profile.other.broker]\nurl = \"amqp://a:b@two\"\n\
                [profile.both.broker]\nurl = \"amqp://a:b@two\"\nmanagement_url = \"http://two:2\"\n\
                [profile.user.broker]\nurl = \"amqp://c:d@one\"";
    let asked = |profile: Option<&str>, variables: &[(&str, &str)]| {
        let config = Config::resolve(text, profile, &environment(variables)).unwrap();
        assert_eq!(config.broker.naming.vhost, "shop");
        match config.broker.kind {
            BrokerKind::RabbitMq { management_url, .. } => management_url.expose().to_owned(),
            BrokerKind::Embedded => panic!("it is a RabbitMQ"),
        }
    };
    assert_eq!(asked(None, &[]), "http://a:b@one:1/");
    assert_eq!(asked(Some("other"), &[]), "http://a:b@two:15672/");
    assert_eq!(asked(Some("both"), &[]), "http://a:b@two:2/");
    assert_eq!(asked(Some("user"), &[]), "http://c:d@one:1/");
    let three = ("REDRIVE_BROKER_URL", "amqp://a:b@three");
    assert_eq!(asked(None, &[three]), "http://a:b@three:15672/");
    let management = ("REDRIVE_MANAGEMENT_URL", "http://four:4");
    assert_eq!(asked(None, &[three, management]), "http://a:b@four:4/");
    let same = ("REDRIVE_BROKER_URL", "amqp://e:f@One");
    assert_eq!(asked(None, &[same]), "http://e:f@one:1/");
}

#[test]
fn the_management_api_holds_for_its_broker_also_where_the_url_of_that_is_in_a_file_or_a_variable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("url");
    std::fs::write(&file, "amqp://a:b@one\n").unwrap();
    for place in [format!("{{ file = {file:?} }}"), "{ env = \"URL\" }".to_owned()] {
        let text = format!("[broker]\nurl = {place}\nmanagement_url = \"http://one:1\"");
        let asked = |given: &str| {
            let variables = [("REDRIVE_BROKER_URL", given), ("URL", "amqp://a:b@one")];
            let config = Config::resolve(&text, None, &environment(&variables)).unwrap();
            match config.broker.kind {
                BrokerKind::RabbitMq { management_url, .. } => management_url.expose().to_owned(),
                BrokerKind::Embedded => panic!("it is a RabbitMQ"),
            }
        };
        assert_eq!(asked("amqp://c:d@one"), "http://c:d@one:1/", "{place}");
        assert_eq!(asked("amqp://c:d@two"), "http://c:d@two:15672/", "{place}");
    }
}

#[test]
fn without_a_home_a_store_has_to_be_named() {
    let nowhere = Environment::default();
    let error = Config::resolve("", None, &nowhere).unwrap_err().to_string();
    assert!(error.contains("REDRIVE_STORE_URL"), "{error}");
    assert!(Config::resolve("[store]\nurl = \"sqlite:a.db\"", None, &nowhere).is_ok());
}

#[test]
fn what_is_printed_is_the_same_configuration() {
    let text = "[delivery]\nlinger_s = 0.5\nretry_policy = { jitter = 1 }\n[janitor]\nleftover_pattern = 'a\"\\d'\n[console]\nkeys = { \"a b\" = \"c\" }";
    for text in ["", text] {
        let printed = config(text).print();
        assert_eq!(config(&printed).print(), printed);
    }
}

fn parsed_schema() -> serde_json::Value {
    serde_json::from_str(&schema()).unwrap()
}

/// The keys of a table of the schema, with what it says of each.
fn properties(table: &serde_json::Value) -> impl Iterator<Item = (&String, &serde_json::Value)> {
    table["properties"].as_object().into_iter().flatten()
}

/// What the packages ship is what the program says.
#[test]
fn the_files_for_people_and_for_editors_are_made_from_the_keys() {
    for (name, made) in [("redrive.toml", template()), ("redrive.schema.json", schema())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name);
        if std::env::var("REDRIVE_ASSETS").as_deref() == Ok("write") {
            std::fs::write(&path, &made).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == made,
            "assets/{name} is not what the keys say; run REDRIVE_ASSETS=write cargo test --lib config::"
        );
    }
}

#[test]
fn the_schema_has_every_key_of_a_policy_that_the_domain_reads() {
    let schema = parsed_schema();
    let policy = &schema["definitions"]["retry_policy"];
    let printed: toml::Table = config("").print().parse().unwrap();
    let read: BTreeSet<&String> = printed["delivery"]["retry_policy"].as_table().unwrap().keys().collect();
    let told: BTreeSet<&String> = properties(policy).map(|(key, _)| key).collect();
    assert!(told.is_superset(&read), "{read:?}");
    for (key, property) in properties(policy) {
        let value = match property["enum"][0].as_str() {
            Some(first) => format!("{first:?}"),
            None if property["type"] == "boolean" => "true".to_owned(),
            None => "1".to_owned(),
        };
        let text = format!("[delivery]\nretry_policy = {{ {key} = {value} }}\n");
        let refused = Config::resolve(&text, None, &environment(&[])).err();
        assert!(
            refused
                .as_ref()
                .is_none_or(|error| !error.to_string().contains("unknown")),
            "{key}: {refused:?}"
        );
    }
}

/// Keys that lack a description, or a bound where they are numbers, below a table of the schema.
fn incomplete(path: &str, value: &serde_json::Value, found: &mut Vec<String>) {
    for (key, property) in properties(value) {
        let path = format!("{path}.{key}");
        let described = property["description"].as_str().is_some_and(|text| !text.is_empty());
        if !described && property["$ref"].is_null() && !property["items"]["$ref"].is_string() {
            found.push(format!("{path} has no description"));
        }
        // How often and how long a policy retries is bounded by the domain, each bound by the others.
        let bounds: &[&str] = if path.starts_with("retry_policy.") {
            &["minimum"]
        } else {
            &["minimum", "maximum"]
        };
        if matches!(property["type"].as_str(), Some("integer" | "number")) {
            let missing = bounds.iter().filter(|bound| !property[**bound].is_number());
            found.extend(missing.map(|bound| format!("{path} has no {bound}")));
        }
        for inside in [property, &property["items"]] {
            incomplete(&path, inside, found);
            let ways = inside["anyOf"].as_array().into_iter().flatten();
            ways.for_each(|way| incomplete(&path, way, found));
        }
    }
}

#[test]
fn every_key_has_a_description_and_every_number_its_bounds() {
    let schema = parsed_schema();
    let mut found = Vec::new();
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        assert!(
            definition["description"].as_str().is_some_and(|text| !text.is_empty()),
            "{name}"
        );
        incomplete(name, definition, &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
    let bad =
        r#"{"properties": {"a": {"type": "integer", "description": "A.", "minimum": 1}, "b": {"type": "string"}}}"#;
    incomplete("bad", &serde_json::from_str(bad).unwrap(), &mut found);
    assert_eq!(found, ["bad.a has no maximum", "bad.b has no description"]);
}

#[test]
fn the_schema_has_the_bounds_and_the_defaults_of_every_number() {
    let schema = parsed_schema();
    let printed: toml::Table = config("").print().parse().unwrap();
    let mut checked = 0;
    for (section, value) in schema["properties"].as_object().unwrap() {
        if value["$ref"].is_null() {
            continue;
        }
        for (key, property) in properties(&schema["definitions"][section]) {
            let (Some(least), Some(most)) = (property["minimum"].as_f64(), property["maximum"].as_f64()) else {
                continue;
            };
            checked += 1;
            let told = |number: f64| {
                let text = format!("[{section}]\n{key} = {number}\n");
                let refused = Config::resolve(&text, None, &environment(&[])).err();
                refused.is_some_and(|error| error.to_string().contains("must be between"))
            };
            assert!(!told(least) && !told(most), "{section}.{key}");
            assert!(told(least - 1.0) && told(most + 1.0), "{section}.{key}");
            if let Some(default) = property["default"].as_f64() {
                let printed = &printed[section][key];
                let printed = printed
                    .as_float()
                    .or(printed.as_integer().and_then(|number| number.to_string().parse().ok()));
                assert_eq!(printed, Some(default), "{section}.{key}");
            }
        }
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn an_alert_has_one_way_and_kinds_that_exist() {
    for (alert, field, mend) in [
        ("command = [\"a\"]", "name", "\"ops\""),
        ("name = \"a\"", "command", "one of command, url, slack"),
        (
            "name = \"a\"\nslack = \"https://a.example\"\nurl = \"https://a.example\"",
            "slack",
            "url, slack",
        ),
        ("name = \"a\"\ncommand = []", "command", "empty"),
        ("name = \"a\"\nteams = \"nowhere\"", "teams", "http"),
        ("name = \"a\"\ncommand = [\"a\"]\nsecret = \"s\"", "secret", "url"),
        (
            "name = \"a\"\ncommand = [\"a\"]\non = [\"endpoint_parkd\"]",
            "on",
            "\"endpoint_parked\"",
        ),
        (
            "name = \"a\"\ncommand = [\"a\"]\non = [\"endpoint_available\"]",
            "on",
            "one of",
        ),
        ("name = \"a\"\ncommand = [\"a\"]\nevery_s = 0", "every_s", "between 1"),
    ] {
        let text = format!("[[alert]]\n{alert}\n");
        let refused = Config::resolve(&text, None, &environment(&[])).unwrap_err().to_string();
        assert!(refused.contains(field) && refused.contains(mend), "{alert}: {refused}");
    }
    let twice = "[[alert]]\nname = \"a\"\ncommand = [\"a\"]\n".repeat(2);
    assert!(Config::resolve(&twice, None, &environment(&[])).is_err());
}

#[test]
fn the_template_is_the_default() {
    assert_eq!(config(&template()).print(), config("").print());
}

#[test]
fn every_example_of_the_template_is_possible() {
    let assignment = |line: &str| {
        line.split_once(" = ")
            .is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    let template = template();
    let examples: Vec<&str> = template
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(example) if assignment(example) || example.starts_with('[') => example,
            _ => line,
        })
        // Only one of the ways is possible.
        .filter(|line| *line != "webhook = true" && !line.contains("ops.example") && !line.contains("ALERT_SECRET"))
        .filter(|line| !line.contains("_WEBHOOK"))
        .filter(|line| cfg!(feature = "otlp") || !line.starts_with("otlp = "))
        .filter(|line| cfg!(feature = "otlp") || !line.contains("collector_token"))
        .collect();
    let missing = [
        "/etc/redrive/url_hash_key",
        "/etc/redrive/example_token",
        "/etc/redrive/collector_token",
        "/etc/redrive/api-token",
    ];
    let text = missing.iter().fold(examples.join("\n"), |text, path| {
        text.replace(&format!("{{ file = \"{path}\" }}"), "\"t\"")
    });
    // The management API goes with a broker that has one.
    let variables = [("EXAMPLE_SECRET", SECRET), ("PRODUCTION_STORE_URL", "sqlite:a.db")];
    let config = Config::resolve(&text, Some("production"), &environment(&variables)).unwrap();
    assert_eq!(
        (config.endpoints.len(), config.consumers.len(), config.handlers.len()),
        (1, 1, 1)
    );
    assert!(config.profile.protected && config.delivery.drain.as_secs() == 20);
    assert_eq!(config.profile.daemon.unwrap().url, "https://redrive.example:8470");
}

#[test]
fn an_intake_of_a_queue_of_our_own_is_warned_of() {
    let warned = |queue: &str, vhost: &str| {
        let text = format!(
            "[[consumer]]\nname = \"a\"\nqueue = \"{queue}\"\ntype = \"t\"\nreference = \"/a\"\nvhost = \"{vhost}\"\n\
             [[handler]]\ntype = \"t\"\nwebhook = true"
        );
        let warnings = config(&text).warnings();
        warnings.iter().any(|warning| warning.contains("broker.queue_prefix"))
    };
    assert!(warned("redrive.dead", "redrive") && !warned("hr", "redrive") && !warned("redrive.dead", "other"));
}

#[test]
fn a_password_that_ends_the_host_of_its_url_is_refused_and_not_shown() {
    for password in [
        "77#geheim",
        "#geheim",
        "77?geheim",
        "77/geheim",
        "a/77#geheim",
        "p@77/geheim",
        "p@77?geheim",
        "77?geheim=1",
    ] {
        for text in [
            format!("[broker]\nurl = \"amqp://redrive:{password}@broker.example/v\""),
            format!("[store]\nurl = \"postgres://redrive:{password}@db.example/v\""),
            format!(
                "[broker]\nurl = \"amqp://h\"\nmanagement_url = \"http://redrive:{password}@broker.example:15672\""
            ),
        ] {
            let error = Config::resolve(&text, None, &environment(&[])).unwrap_err().to_string();
            assert!(
                error.contains("%23") && !error.contains("geheim"),
                "{password}: {error}"
            );
        }
    }
    for password in ["77/geheim", "77?geheim", "77\\\\geheim"] {
        for (text, profile) in [
            (
                format!("[broker]\nurl = \"amqp://h\"\nmanagement_url = \"http://u:{password}@h\""),
                None,
            ),
            (
                format!("[profile.far]\ndaemon = \"https://u:{password}@h:8470\""),
                Some("far"),
            ),
            (
                format!("[[alert]]\nname = \"a\"\nurl = \"http://u:{password}@h/x\""),
                None,
            ),
        ] {
            let error = Config::resolve(&text, profile, &environment(&[]))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("password") && !error.contains("geheim"),
                "{text}: {error}"
            );
        }
    }
    for url in ["https://ops.example/@team", "https://ops.example:8443/x?to=me@place"] {
        let alert = format!("[[alert]]\nname = \"a\"\nurl = \"{url}\"");
        assert!(Config::resolve(&alert, None, &environment(&[])).is_ok(), "{url}");
    }
    for url in ["amqp://u:77%23x@h/a%2Fb", "amqp://u:p@h/name%40place", "amqp://h/v"] {
        let text = format!("[broker]\nurl = \"{url}\"");
        assert!(Config::resolve(&text, None, &environment(&[])).is_ok(), "{url}");
    }
    let user = "[store]\nurl = \"postgres://db.example/v?user=me@place\"\n[broker]\nurl = \"amqp://h\"";
    assert!(Config::resolve(user, None, &environment(&[])).is_ok());
}

#[test]
fn what_cannot_work_is_refused_or_warned_of_before_it_is_used() {
    let far = "[profile.far]\ndaemon = \"https://u:hunter2@redrive.example\"";
    check_with(far, Some("far"), &[], &["profile.far.daemon", "a user or a password"]);
    let store = "[store]\nurl = \"postgres://db.example/v?sslmode=requrie\"\n[broker]\nurl = \"amqps://h\"";
    check(store, &["store.url", "none of disable, allow"]);
    let soon = config("[delivery]\ntimeout_s = 0.5\ntake_over_s = 2").warnings();
    assert!(soon.join(" ").contains("delivery.take_over_s is 2,"), "{soon:?}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    std::fs::write(&file, "none").unwrap();
    let trusts = [("SSL_CERT_FILE", file.to_str().unwrap())];
    let nobody = super::untrusted(&environment(&trusts)).unwrap();
    assert!(nobody.contains("has no certificate in it"), "{nobody}");
    let own = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let own = own.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let folder = directory.path().join("authorities");
    std::fs::create_dir(&folder).unwrap();
    let folder_alone = [("SSL_CERT_DIR", folder.to_str().unwrap())];
    let both = [trusts[0], folder_alone[0]];
    assert!(super::untrusted(&environment(&folder_alone)).is_some(), "it is empty");
    std::fs::write(folder.join("own.pem"), own.pem()).unwrap();
    for named in [&folder_alone[..], &both] {
        assert_eq!(super::untrusted(&environment(named)), None);
    }
}

#[test]
fn what_goes_over_the_network_in_the_clear_is_warned_of() {
    let warned = |text: &str, part: &str| {
        let warnings = config(text).warnings();
        warnings.iter().any(|warning| warning.contains(part))
    };
    let broker = |url: &str| format!("[broker]\nurl = \"{url}\"\nurl_hash_key = \"a key\"");
    assert!(warned(&broker("amqp://rabbit.example"), "broker.url sends"));
    assert!(warned(&broker("amqp://rabbit.example"), "broker.management_url sends"));
    for quiet in [
        "amqps://rabbit.example",
        "amqp://localhost",
        "amqp://127.0.0.1",
        "amqp://[::1]",
    ] {
        assert_eq!(config(&broker(quiet)).warnings(), Vec::<String>::new(), "{quiet}");
    }
    let store = |url: &str| format!("[store]\nurl = \"{url}\"\n[broker]\nurl = \"amqps://localhost\"");
    for mode in ["disable", "allow", "prefer"] {
        let url = format!("postgres://u:p@db.example/redrive?sslmode={mode}");
        assert!(warned(&store(&url), "store.url sends"), "{mode}");
    }
    for loud in [
        "postgres://u:p@db.example/redrive?sslmode=DISABLE",
        "postgres:///redrive?host=db.example&sslmode=disable",
    ] {
        assert!(warned(&store(loud), "store.url sends"), "{loud}");
    }
    for quiet in [
        "postgres://db.example/redrive",
        "postgres://db.example/redrive?sslmode=verify-full",
        "postgres://localhost/redrive?sslmode=disable",
        "postgres://db.example/redrive?host=/run/postgresql&sslmode=disable",
        "postgres://%2Frun%2Fpostgresql/redrive?sslmode=disable",
    ] {
        assert!(!warned(&store(quiet), "store.url sends"), "{quiet}");
    }
    let api = |rest: &str| format!("[api]\ntokens = [\"a-token-of-24-characters\"]\nlisten = \"0.0.0.0:8470\"\n{rest}");
    assert!(warned(&api(""), "api.tls"));
    assert!(!warned(&api("tls = { certificate = \"a\", key = \"b\" }"), "api.tls"));
    let probe = |address: &str, metrics| format!("[api]\nprobe = \"{address}\"\nprobe_metrics = {metrics}");
    assert!(warned(&probe("0.0.0.0:8471", true), "api.probe is 0.0.0.0:8471"));
    for quiet in [probe("0.0.0.0:8471", false), probe("127.0.0.1:8471", true)] {
        assert!(!warned(&quiet, "api.probe"), "{quiet}");
    }
}

#[test]
fn a_folder_in_which_everybody_can_put_another_configuration_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "[api]\ntls = { certificate = \"a\", key = \"api.key\" }").unwrap();
    for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o775, false), (0o700, false)] {
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let choice = ConfigChoice {
            file: Some(file.clone()),
            ..ConfigChoice::default()
        };
        let loaded = Config::load(&choice, &environment(&[]));
        let refused = loaded.map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(refused.contains("chmod o-w"), is_refused, "{mode:o}: {refused}");
    }
}

/// Only root can give a file away.
#[test]
fn a_configuration_or_secret_of_another_user_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (file, secret) = (directory.path().join("config.toml"), directory.path().join("token"));
    std::fs::write(&secret, "a-token-of-24-characters").unwrap();
    std::fs::write(&file, format!("[api]\ntokens = [{{ file = {secret:?} }}]")).unwrap();
    let load = || {
        let choice = ConfigChoice {
            file: Some(file.clone()),
            ..ConfigChoice::default()
        };
        Config::load(&choice, &environment(&[]))
    };
    load().unwrap();
    for given in [&file, &secret] {
        if std::os::unix::fs::chown(given, Some(65_534), None).is_err() {
            return;
        }
        let refused = load().unwrap_err().to_string();
        assert!(refused.contains("belongs to another user (number 65534)"), "{refused}");
        std::os::unix::fs::chown(given, Some(0), None).unwrap();
    }
    load().unwrap();
}

#[test]
fn files_that_others_read_are_warned_of_and_files_that_others_write_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let (file, secret) = (directory.path().join("config.toml"), directory.path().join("token"));
    let allow = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::write(&secret, "a-token-of-24-characters").unwrap();
    let load = |text: String| {
        std::fs::write(&file, text).unwrap();
        let choice = ConfigChoice {
            file: Some(file.clone()),
            ..ConfigChoice::default()
        };
        Config::load(&choice, &environment(&[]))
    };
    let in_place = || "[api]\ntokens = [\"a-token-of-24-characters\"]".to_owned();
    let elsewhere = || format!("[api]\ntokens = [{{ file = {secret:?} }}]");
    let key = || format!("[broker]\nurl = \"amqps://a\"\ntls = {{ certificate = \"a.pem\", key = {secret:?} }}");
    allow(&secret, 0o600);
    std::fs::write(&file, "").unwrap();
    for (mode, text, warnings) in [(0o600, in_place(), 0), (0o644, in_place(), 1), (0o644, elsewhere(), 0)] {
        allow(&file, mode);
        assert_eq!(load(text).unwrap().warnings().len(), warnings, "{mode:o}");
    }
    allow(&secret, 0o644);
    let warnings = load(elsewhere()).unwrap().warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("api.tokens[0].file")),
        "{warnings:?}"
    );
    let warnings = load(key()).unwrap().warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("broker.tls.key")),
        "{warnings:?}"
    );
    allow(&secret, 0o666);
    let refused = load(elsewhere()).unwrap_err().to_string();
    assert!(
        refused.contains("api.tokens[0].file") && refused.contains("chmod go-w"),
        "{refused}"
    );
    let refused = load(key()).unwrap_err().to_string();
    assert!(refused.contains("broker.tls.key"), "{refused}");
    allow(&file, 0o666);
    let refused = load(in_place()).unwrap_err();
    assert!(refused.problem.to_string().contains("chmod go-w"), "{refused:?}");
    allow(&file, 0o600);
    let large = format!("# {}", "x".repeat(1024 * 1024));
    let refused = load(large).unwrap_err();
    assert!(matches!(refused.problem, Problem::Read(_)), "{refused:?}");
}

#[test]
#[cfg(not(feature = "otlp"))]
fn a_collector_that_this_build_cannot_tell_is_refused_and_the_feature_is_named() {
    let key = "[telemetry]\notlp = \"http://127.0.0.1:4318\"";
    let problem = Config::resolve(key, None, &environment(&[])).unwrap_err().to_string();
    assert!(
        problem.contains("telemetry.otlp") && problem.contains("--features otlp"),
        "{problem}"
    );
    let variable = [(telemetry::ENDPOINT_VARIABLE, "http://127.0.0.1:4318")];
    let warnings = Config::resolve("", None, &environment(&variable)).unwrap().warnings();
    let is_its = |warning: &String| warning.contains("feature \"otlp\"");
    assert!(warnings.iter().any(is_its), "{warnings:?}");
}

#[test]
#[cfg(feature = "otlp")]
fn a_collector_is_named_by_the_key_or_by_the_variable_of_the_field() {
    let resolved = |text: &str, variable: Option<&str>| {
        let variable = variable.map(|value| (telemetry::ENDPOINT_VARIABLE, value));
        Config::resolve(text, None, &environment(variable.as_slice()))
    };
    let key = "[telemetry]\notlp = \"http://a.example:4318/\"";
    let otlp = |text, variable| resolved(text, variable).unwrap().telemetry.otlp;
    assert_eq!(
        otlp(key, Some("http://b.example")).as_deref(),
        Some("http://a.example:4318")
    );
    assert_eq!(
        otlp("", Some("http://b.example/otlp/")).as_deref(),
        Some("http://b.example/otlp")
    );
    assert_eq!(otlp("", Some("nonsense")), None);
    assert!(!resolved("", Some("nonsense")).unwrap().warnings().is_empty());
    let problem = resolved("[telemetry]\notlp = \"http://u:p@a.example\"", None);
    let problem = problem.unwrap_err().to_string();
    assert!(
        problem.contains("telemetry.otlp") && problem.contains("127.0.0.1:4318"),
        "{problem}"
    );
}

#[test]
#[cfg(feature = "otlp")]
fn the_headers_of_a_collector_are_secrets_of_the_key_or_of_the_variable_of_the_field() {
    const COLLECTOR: &str = "[telemetry]\notlp = \"http://127.0.0.1:4318\"\n";
    let resolved =
        |text: &str, list: &str| Config::resolve(text, None, &environment(&[(telemetry::HEADERS_VARIABLE, list)]));
    let headers = |config: &Config| {
        let shown = config.telemetry.headers.iter();
        shown
            .map(|(name, value)| format!("{name}: {}", value.expose_secret()))
            .collect::<Vec<_>>()
    };
    let config = resolved(COLLECTOR, "x-team = ops , authorization=Basic%20dTpw").unwrap();
    assert_eq!(headers(&config), ["x-team: ops", "authorization: Basic dTpw"]);
    assert!(!config.print().contains("dTpw") && !format!("{config:?}").contains("dTpw"));
    assert!(config.print().contains("authorization"), "{}", config.print());
    let written = format!("{COLLECTOR}headers = {{ Authorization = \"Bearer t\" }}");
    assert_eq!(
        headers(&resolved(&written, "x-team=ops").unwrap()),
        ["Authorization: Bearer t"]
    );
    // What is wrong is said without the value.
    for list in [
        "authorization",
        "host=a.example",
        "bad name=hidden",
        "a=hidden%0ax",
        "a=1,b",
    ] {
        let config = resolved(COLLECTOR, list).unwrap();
        let warnings = config.warnings().join(" ");
        assert!(
            headers(&config).is_empty() && warnings.contains("OTLP_HEADERS has a header, number"),
            "{warnings}"
        );
        assert!(!warnings.contains("hidden"), "{warnings}");
    }
    let alone = resolved("[telemetry]\nheaders = { a = \"1\" }", "").unwrap();
    assert!(alone.warnings().join(" ").contains("set telemetry.otlp"));
}

/// What an editor that knows the schema takes is what the program takes.
#[test]
fn a_key_of_a_policy_takes_a_fraction_where_the_schema_says_number_and_nowhere_else() {
    let schema = parsed_schema();
    let mut asked = 0;
    for (key, property) in properties(&schema["definitions"]["retry_policy"]) {
        let takes_a_fraction = match property["type"].as_str() {
            Some("number") => true,
            Some("integer") => false,
            Some(_) | None => continue,
        };
        let text = format!("[delivery]\nretry_policy = {{ {key} = 0.5 }}");
        let read = Config::resolve(&text, None, &environment(&[]));
        let is_refused = read.is_err_and(|problem| problem.to_string().contains("integer"));
        assert_eq!(takes_a_fraction, !is_refused, "{key}");
        asked += 1;
    }
    assert_eq!(asked, 10, "each key that is a number");
}
