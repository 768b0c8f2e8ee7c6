//! What goes with the program: the list of what it is made of, and the unit of systemd.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::source;
use crate::support::daemon::Installation;

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
