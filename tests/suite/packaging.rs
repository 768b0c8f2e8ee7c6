//! What goes with the program: the list of what it is made of, the unit of systemd, packages and manifests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::source;
use crate::support::daemon::Installation;
use crate::support::servers::{Database, Vhost};
use crate::support::wait::patient;

const BOUND: std::time::Duration = std::time::Duration::from_mins(1);

fn sbom() -> Output {
    let script = source::root().join(".ci/sbom");
    let made = Command::new(script).arg("--offline").output().unwrap();
    assert!(made.status.success(), "{made:?}");
    made
}

#[test]
fn the_bill_of_materials_names_every_locked_package_with_its_version_and_checksum() {
    let made = sbom();
    assert_eq!(made.stdout, sbom().stdout, "made twice, it is another one");
    let bom: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(
        (bom["bomFormat"].as_str(), bom["specVersion"].as_str()),
        (Some("CycloneDX"), Some("1.5"))
    );
    let components = bom["components"].as_array().unwrap();
    let named: BTreeSet<String> = components
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap();
            let hash = one["hashes"][0]["content"].as_str().unwrap();
            assert_eq!(one["purl"], format!("pkg:cargo/{}@{}", text("name"), text("version")));
            format!("{} {} {hash}", text("name"), text("version"))
        })
        .collect();
    let lock: toml::Table = fs::read_to_string(source::root().join("Cargo.lock"))
        .unwrap()
        .parse()
        .unwrap();
    let packages = lock["package"].as_array().unwrap();
    let text = |package: &toml::Value, key: &str| package.get(key).and_then(|value| value.as_str().map(str::to_owned));
    let locked: BTreeSet<String> = packages
        .iter()
        .filter_map(|package| {
            let checksum = text(package, "checksum")?;
            Some(format!(
                "{} {} {checksum}",
                text(package, "name")?,
                text(package, "version")?
            ))
        })
        .collect();
    assert!(
        locked.len() > 300 && locked.len() == packages.len() - 1,
        "{}",
        locked.len()
    );
    assert_eq!(named, locked);
    assert_eq!(bom["metadata"]["component"]["name"], "redrive");
    let refs: BTreeSet<&str> = components.iter().filter_map(|one| one["bom-ref"].as_str()).collect();
    let own = bom["metadata"]["component"]["bom-ref"].as_str().unwrap();
    let edges = bom["dependencies"].as_array().unwrap();
    assert_eq!(edges.len(), packages.len());
    for target in edges.iter().flat_map(|edge| edge["dependsOn"].as_array().unwrap()) {
        let target = target.as_str().unwrap();
        assert!(refs.contains(target) || target == own, "{target} is no component");
    }
    // Those that this build was made of are here, with their licences.
    let licensed = components
        .iter()
        .filter(|one| one["licenses"][0]["expression"].is_string());
    assert!(licensed.count() > 300);
}

fn table(path: &str) -> toml::Table {
    fs::read_to_string(source::root().join(path)).unwrap().parse().unwrap()
}

/// The values of `origin.toml`, and the names of hosts in them.
fn origin() -> Vec<String> {
    let origin = table("assets/packaging/origin.toml");
    let texts = ["repository", "image", "contact"].map(|key| origin[key].as_str().unwrap().to_owned());
    let split = |c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c));
    let hosts = texts.iter().flat_map(|text| text.split(split));
    let hosts: Vec<String> = hosts.filter(|word| word.contains('.')).map(str::to_owned).collect();
    assert_eq!(hosts.len(), 3, "{texts:?}");
    [&texts[..], &hosts].concat()
}

#[test]
fn where_the_project_is_stands_in_one_file() {
    let origin = origin();
    for file in source::repository_files() {
        let copy = origin.iter().find(|value| file.text.contains(value.as_str()));
        let is_home = file.path == "assets/packaging/origin.toml";
        assert_eq!(copy.is_some(), is_home, "{} has {copy:?}", file.path);
    }
}

#[test]
fn what_is_made_to_be_published_has_its_origin_in_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    let make = |more: &[&str]| {
        let mut command = Command::new(source::root().join("assets/packaging/make"));
        command.args(more).arg(&tree).output().unwrap()
    };
    let refused = make(&["--publish"]);
    assert!(!refused.status.success() && !tree.exists(), "{refused:?}");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("placeholder"),
        "{refused:?}"
    );
    let made = make(&["--redrive", env!("CARGO_BIN_EXE_redrive")]);
    assert!(made.status.success(), "{made:?}");
    let read = |path: &str| fs::read_to_string(tree.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let origin = table("assets/packaging/origin.toml");
    let [repository, image, contact] = ["repository", "image", "contact"].map(|key| origin[key].as_str().unwrap());
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let package = manifest["package"].as_table().unwrap();
    assert_eq!(package["repository"].as_str(), Some(repository));
    assert_eq!(package["authors"][0].as_str(), Some(contact));
    assert!(!package.contains_key("publish"));
    let version = package["version"].as_str().unwrap();
    for manifests in ["redrive", "redrive-sqlite"] {
        let text = read(&format!("assets/packaging/kubernetes/{manifests}.yaml"));
        assert!(text.contains(&format!("image: \"{image}:{version}\"")), "{text}");
    }
    assert!(read("assets/packaging/redrive.rb").contains(&format!("{repository}/archive/refs/tags/v{version}.tar.gz")));
    assert!(read("Dockerfile").contains(repository) && read("dist-workspace.toml").contains("installers"));
    assert!(read("assets/packaging/made/redrive.service").contains("ExecStart=/usr/bin/redrive"));
    for (page, holds) in [
        ("man/redrive.1", ".TH redrive 1"),
        ("man/redrive-queue-why.1", ".TH redrive-queue-why 1"),
        ("redrive.bash", "-F _clap_complete_redrive redrive"),
        ("_redrive", "#compdef redrive"),
        ("redrive.fish", "complete --keep-order --exclusive --command redrive"),
    ] {
        let text = read(&format!("assets/packaging/made/{page}"));
        assert!(
            text.contains(holds),
            "{page} lacks {holds}: {}",
            text.get(..300).unwrap_or(&text)
        );
    }
    // What the packages of Debian and RPM are made of is there, but for the program.
    let metadata = package["metadata"].as_table().unwrap();
    let deb = metadata["deb"]["assets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| &asset[0]);
    let rpm = metadata["generate-rpm"]["assets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asset| &asset["source"]);
    for asset in deb.chain(rpm).map(|asset| asset.as_str().unwrap()) {
        let (folder, name) = asset.rsplit_once('/').unwrap_or((".", asset));
        let begin = name.split('*').next().unwrap();
        let names = fs::read_dir(tree.join(folder)).into_iter().flatten().flatten();
        let mut names = names.map(|entry| entry.file_name().into_string().unwrap());
        let is_there = if name.contains('*') {
            names.any(|found| found.starts_with(begin))
        } else {
            names.any(|found| found == name)
        };
        assert!(
            is_there || asset.starts_with("target/"),
            "{asset} is packaged, and is not there"
        );
    }
}

/// What stands under a key of YAML that holds a text of many lines.
fn block(text: &str, key: &str) -> String {
    let mut lines = text.lines().skip_while(|line| line.trim() != key);
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outer = indent(lines.next().unwrap_or_else(|| panic!("no {key}")));
    let inner = lines.take_while(|line| line.trim().is_empty() || indent(line) > outer);
    inner.fold(String::new(), |text, line| text + line.trim_start() + "\n")
}

#[test]
fn the_configurations_of_compose_and_kubernetes_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    for name in ["store_url", "broker_url", "api_token"] {
        let secret = match name {
            "store_url" => "postgres://redrive:secret@postgres/redrive",
            "broker_url" => "amqp://redrive:secret@rabbitmq",
            _ => "0123456789abcdef0123456789abcdef",
        };
        write_private(&folder.join(name), secret);
    }
    for (path, key) in [
        ("compose.yaml", "content: |"),
        ("kubernetes/redrive.yaml", "config.toml: |"),
        ("kubernetes/redrive-sqlite.yaml", "config.toml: |"),
    ] {
        let text = fs::read_to_string(source::root().join("assets/packaging").join(path)).unwrap();
        let config = block(&text, key).replace("/etc/redrive/secrets/", &format!("{}/", folder.display()));
        let file = folder.join("config.toml");
        write_private(&file, &config);
        let mut program = Command::new(env!("CARGO_BIN_EXE_redrive"));
        program.env_clear().env("HOME", folder).arg("--config").arg(&file);
        if path == "compose.yaml" {
            program.env("REDRIVE_STORE_URL", compose_variable("REDRIVE_STORE_URL"));
            program.env("REDRIVE_BROKER_URL", "amqp://redrive:redrive@rabbitmq");
        }
        let checked = program.args(["config", "check"]).output().unwrap();
        assert!(checked.status.success(), "{path}: {checked:?}\n{config}");
    }
}

/// What compose.yaml gives to redrive in its environment.
fn compose_variable(name: &str) -> String {
    let text = fs::read_to_string(source::root().join("assets/packaging/compose.yaml")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("compose.yaml has no {name}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_of_compose_is_reached_though_its_postgresql_has_no_certificate() {
    let (vhost, database) = (Vhost::create().await, Database::create().await);
    let mut url = url::Url::parse(&database.url()).unwrap();
    // 127.0.0.1 under a name that says nothing of this machine.
    url.set_host(Some("127.1")).unwrap();
    let mut installation = Installation::on_servers(&vhost, url.as_str());
    let refused = installation.run(&["queues"]).await.expect_code(69);
    for word in ["does not support TLS", "sslmode=disable"] {
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
    let compose = url::Url::parse(&compose_variable("REDRIVE_STORE_URL")).unwrap();
    url.set_query(compose.query());
    installation.set("store", "url", url.as_str());
    let mut daemon = installation.daemon().await;
    installation.run(&["queues"]).await.expect_code(0);
    assert_eq!(daemon.stop().await, Some(0), "{}", daemon.log());
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// The lines `KEY=VALUE` of the unit.
fn unit() -> Vec<(String, String)> {
    let text = fs::read_to_string(source::root().join("assets/redrive.service")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_unit_hands_the_configuration_over_as_a_credential_and_gives_nothing_else() {
    let unit = unit();
    for (key, value) in [
        ("LoadCredential", "config.toml:/etc/redrive/config.toml"),
        ("Environment", "REDRIVE_CONFIG=%d/config.toml"),
        ("Environment", "XDG_DATA_HOME=%S"),
        ("StateDirectory", "redrive"),
        ("StateDirectoryMode", "0700"),
        ("UMask", "0077"),
        ("Restart", "always"),
        ("RestartPreventExitStatus", "2 5 78"),
        ("StartLimitIntervalSec", "0"),
        ("Type", "notify"),
        ("WatchdogSec", "30"),
        ("DynamicUser", "yes"),
        ("AmbientCapabilities", ""),
        ("CapabilityBoundingSet", ""),
        ("DevicePolicy", "closed"),
        ("LockPersonality", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
        ("NoNewPrivileges", "yes"),
        ("PrivateDevices", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateUsers", "yes"),
        ("ProtectControlGroups", "yes"),
        ("ProtectHome", "yes"),
        ("ProtectKernelLogs", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectProc", "invisible"),
        ("ProtectSystem", "strict"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("RestrictNamespaces", "yes"),
        ("RestrictSUIDSGID", "yes"),
        ("SystemCallArchitectures", "native"),
        ("SystemCallFilter", "~@privileged @resources"),
    ] {
        let is_there = unit
            .iter()
            .any(|pair| (pair.0.as_str(), pair.1.as_str()) == (key, value));
        assert!(is_there, "{key}={value} is missing");
    }
    let has = |key: &str| unit.iter().any(|pair| pair.0 == key);
    assert!(has("MemoryMax") && has("TasksMax"), "nothing bounds it");
    assert!(!has("ProcSubset"), "it cannot tell that the process before it is gone");
}

/// As systemd does it: a socket whose path is in the environment, and a time within which it wants to hear something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_manager_hears_that_it_listens_delivers_turns_and_stops() {
    let installation = Installation::embedded();
    let path = installation.path("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(patient(BOUND))).unwrap();
    let hears = |part: &str| {
        let mut bytes = [0; 4096];
        loop {
            let length = manager
                .recv(&mut bytes)
                .unwrap_or_else(|error| panic!("{part}: {error}"));
            let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if said.contains(part) {
                return said;
            }
        }
    };
    let variables = format!("export NOTIFY_SOCKET='{}' WATCHDOG_USEC=400000", path.display());
    let mut daemon = installation.spawn_daemon_after(&variables);
    assert!(hears("READY=1").contains("STATUS="));
    hears("STATUS=delivering");
    for _ in 0..3 {
        hears("WATCHDOG=1");
    }
    assert_eq!(daemon.stop().await, Some(0));
    let stopping = hears("STOPPING=1");
    // What is in flight may take longer than the unit gives to a stop.
    assert!(stopping.contains("EXTEND_TIMEOUT_USEC="), "{stopping}");
}

/// With the program of this build in the place where the unit expects it; where there is no systemd, its lines were
/// looked at above.
#[test]
fn systemd_understands_every_line_of_the_unit() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        return;
    };
    assert!(version.status.success(), "{version:?}");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("redrive.service");
    let text = fs::read_to_string(source::root().join("assets/redrive.service")).unwrap();
    let installed = "/usr/local/bin/redrive";
    assert!(text.contains(installed));
    let verify = |text: &str| {
        fs::write(&copy, text.replace(installed, env!("CARGO_BIN_EXE_redrive"))).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(&copy);
        let verified = command.output().unwrap();
        // It speaks of other units, too.
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        let ours: Vec<String> = said
            .lines()
            .filter(|line| line.contains("redrive.service"))
            .map(str::to_owned)
            .collect();
        ours
    };
    assert_eq!(verify(&text), Vec::<String>::new());
    let misspelt = verify(&text.replace("NoNewPrivileges=", "NoNewPrivilege="));
    assert!(
        !misspelt.is_empty(),
        "it finds nothing wrong with a word that there is not"
    );
}

#[tokio::test]
async fn doctor_says_what_the_configuration_warns_of() {
    let mut installation = Installation::embedded();
    let checks = async |installation: &Installation| {
        let doctor = installation.run(&["doctor", "--json"]).await.json();
        let checks = doctor
            .as_array()
            .or_else(|| doctor["items"].as_array())
            .unwrap()
            .clone();
        let is_ours = |check: &&Value| check["name"] == "configuration";
        checks.iter().filter(is_ours).cloned().collect::<Vec<_>>()
    };
    assert_eq!(checks(&installation).await, Vec::<Value>::new());
    installation.set("api", "probe", "0.0.0.0:0");
    installation.set("api", "probe_metrics", true);
    let told = checks(&installation).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["result"], "warning");
    assert!(told[0]["found"].as_str().unwrap().contains("api.probe"), "{told:?}");
}
