//! The import directions of crates: the picture of `docs/architecture.md` §1, checked in the
//! manifests.

use crate::sources::{all, assert_none, rust_below};
use bulkhead_tests::paths::repository;

/// A crate and the crates of this workspace that the crate may import: the crates on the right in
/// the picture.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    // For tests only.
    ("host/fuzz", &[]),
    ("host/test-database", &[]),
    ("host/wire", &["fuzz"]),
    ("host/schedule", &[]),
    ("host/crypto", &["wire", "fuzz"]),
    ("host/tls", &["crypto", "wire"]),
    ("host/record", &["wire"]),
    ("host/place", &["record", "wire"]),
    ("host/store", &["place", "record", "tls", "wire", "test-database"]),
    ("host/trace", &["wire"]),
    ("host/outbound", &["tls", "wire"]),
    ("host/sandbox", &["outbound", "store", "crypto", "trace", "wire", "fuzz"]),
    ("host/access", &["store", "crypto", "wire", "fuzz", "test-database"]),
    ("host/audit", &["access", "store", "wire"]),
    (
        "host/core",
        &[
            "audit",
            "access",
            "sandbox",
            "outbound",
            "store",
            "crypto",
            "schedule",
            "trace",
            "wire",
            "fuzz",
            "test-database",
        ],
    ),
    (
        "host/api",
        &[
            "core",
            "audit",
            "access",
            "sandbox",
            "outbound",
            "store",
            "trace",
            "wire",
            "fuzz",
            "test-database",
        ],
    ),
    ("host/cli", &["crypto", "tls", "wire"]),
    (
        "host/server",
        &[
            "api", "core", "audit", "access", "sandbox", "outbound", "store", "cli", "tls",
            "trace", "wire", "fuzz",
        ],
    ),
    // The SDK needs cryptography only for its test bed; a component asks the host.
    ("plugins/sdk", &["crypto", "schedule", "wire", "fuzz"]),
    ("plugins/examples/notes", &["sdk"]),
    ("plugins/examples/passphrase", &["sdk"]),
    ("plugins/template", &["sdk"]),
    ("tests", &["test-database"]),
    ("tests/guests/built-for-1-0", &[]),
    ("tests/guests/built-for-1-1", &[]),
    ("tests/guests/doorman", &[]),
    ("tests/guests/hostile", &[]),
    ("tests/guests/keyring", &["sdk"]),
    ("tests/guests/probe", &["sdk"]),
];

/// Dependencies that only the listed crates may have. Other crates use the functions of these
/// crates.
const BELONGS_TO: [(&str, &[&str]); 16] = [
    ("wasmtime", &["host/sandbox"]),
    ("wasmtime-wasi", &["host/sandbox"]),
    ("wasmparser", &["host/sandbox"]),
    // The SDK cannot express the acts of these guests.
    (
        "wit-bindgen",
        &[
            "plugins/sdk",
            "tests/guests/built-for-1-0",
            "tests/guests/built-for-1-1",
            "tests/guests/doorman",
            "tests/guests/hostile",
        ],
    ),
    ("sqlx", &["host/store", "host/outbound", "tests"]),
    ("hyper", &["host/server", "host/cli", "host/outbound", "tests"]),
    // Tests of host/outbound start servers with certificates that no listener of ours would serve.
    ("rustls", &["host/tls", "host/outbound", "tests"]),
    ("ldap3", &["host/outbound", "tests"]),
    ("tokio-rustls", &["host/tls", "host/outbound", "tests"]),
    ("webpki-roots", &["host/tls"]),
    ("url", &["host/outbound"]),
    ("ureq", &["tests"]),
    ("prost", &["host/trace"]),
    ("chacha20poly1305", &["host/record"]),
    // One reader of DER.
    ("der", &["host/crypto"]),
    ("x509-cert", &["host/crypto"]),
];

/// Returns the names of a manifest's dependencies, including dev- and build-dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if inside && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.extend((!name.is_empty()).then(|| name.to_owned()));
        }
    }
    found
}

/// Returns the folders of the official components, which import only the SDK.
fn official() -> Vec<String> {
    let list = std::fs::read_to_string(repository().join("plugins/official.txt"));
    let list = list.expect("plugins/official.txt is there");
    let names = list.lines().filter_map(|line| line.split(' ').nth(1));
    names.map(|name| format!("plugins/{name}")).collect()
}

fn manifests() -> Vec<(String, String)> {
    let manifests = all().into_iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?.to_owned();
        Some((folder, file.text))
    });
    manifests.collect()
}

#[test]
fn a_crate_imports_only_crates_on_its_right() {
    let mut found = Vec::new();
    for (folder, manifest) in manifests() {
        let row = MAY_IMPORT.iter().find(|(importer, _)| *importer == folder);
        let allowed = match row {
            Some((_, allowed)) => *allowed,
            None if official().contains(&folder) => &["sdk"],
            None => {
                found.push(format!("{folder} is not in the picture; say here what it may import"));
                continue;
            }
        };
        for dependency in dependencies(&manifest) {
            if let Some(ours) =
                dependency.strip_prefix("bulkhead-").filter(|ours| !allowed.contains(ours))
            {
                found.push(format!("{folder} imports {ours}"));
            }
        }
    }
    assert_none(
        found,
        "pass the value in from a crate above; see the picture in docs/architecture.md",
    );
}

#[test]
fn restricted_dependencies_stay_in_their_crates() {
    let mut found = Vec::new();
    for (folder, manifest) in manifests() {
        for dependency in dependencies(&manifest) {
            let owners =
                BELONGS_TO.iter().find(|(name, _)| *name == dependency).map(|(_, owners)| *owners);
            if owners.is_some_and(|owners| !owners.contains(&folder.as_str())) {
                found
                    .push(format!("{folder} depends on {dependency}, which belongs to {owners:?}"));
            }
        }
    }
    assert_none(found, "use a function of the crate that owns the dependency");
}

#[test]
fn every_dependency_and_its_features_are_declared_once() {
    let mut found = Vec::new();
    // The template is not a workspace member and declares everything itself.
    for (folder, manifest) in manifests().iter().filter(|(folder, _)| folder != "plugins/template")
    {
        for line in manifest
            .lines()
            .filter(|line| line.contains("version = \"") || line.contains("path = \".."))
        {
            found.push(format!("{folder}: {line}"));
        }
    }
    assert_none(found, "declare it in [workspace.dependencies]; otherwise `-p` builds it again");
}

#[test]
fn every_workspace_member_has_an_import_rule() {
    let workspace = std::fs::read_to_string(repository().join("Cargo.toml"))
        .expect("the workspace has a manifest");
    let official = official();
    let folders = MAY_IMPORT.iter().map(|(folder, _)| *folder);
    for folder in folders.chain(official.iter().map(String::as_str)) {
        assert!(
            workspace.contains(&format!("\"{folder}\"")),
            "{folder} is in the picture and not in the workspace"
        );
    }
    assert_eq!(manifests().len(), MAY_IMPORT.len() + official.len());
}

#[test]
fn unsafe_code_is_in_one_place() {
    // The first loads compiled code, the second takes over the descriptors that a service manager
    // hands over by number, the third allows the generator's output, and the fourth exports two
    // functions under the names that the linker expects.
    let homes = [
        "host/sandbox/src/component.rs",
        "host/server/src/handed_sockets/descriptors.rs",
        "plugins/sdk/src/bindings.rs",
        "plugins/sdk/src/system.rs",
    ];
    let mut found = Vec::new();
    for file in
        rust_below(&["host", "plugins"]).iter().filter(|file| !homes.contains(&file.path.as_str()))
    {
        let uses = file.code().filter(|(_, line)| {
            let mut words = line.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            words.any(|word| word == "unsafe" || word == "unsafe_code")
        });
        found.extend(uses.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())));
    }
    assert_none(found, "only the files of this rule have unsafe code, and explain why they may");
}

#[test]
fn plugins_keep_nothing_between_calls() {
    let keeps = ["mut ", "Cell", "Mutex", "RwLock", "Atomic", "OnceLock", "LazyLock"];
    let mut found = Vec::new();
    for file in rust_below(&["plugins"]) {
        for (number, line) in file.code() {
            let item =
                line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let is_kept =
                item.starts_with("static ") && keeps.iter().any(|word| item.contains(word));
            if is_kept || item.contains("thread_local!") {
                found.push(format!("{}:{number}: {item}", file.path));
            }
        }
    }
    assert_none(
        found,
        "an instance may serve one call or many: keep state in storage, never in a static",
    );
}

#[test]
fn bindings_are_generated_in_one_place() {
    let makers = [
        ("wit_bindgen", "plugins/sdk/src/bindings.rs"),
        ("wasmtime::component::bindgen", "host/sandbox/src/bindings.rs"),
    ];
    let mut found = Vec::new();
    for file in rust_below(&["host", "plugins"]) {
        for (maker, home) in makers.iter().filter(|(_, home)| *home != file.path) {
            let uses = file.code().filter(|(_, line)| {
                line.contains(&format!("{maker}::generate!")) || line.contains(&format!("{maker}!"))
            });
            found.extend(
                uses.map(|(number, _)| {
                    format!("{}:{number}: {maker} belongs to {home}", file.path)
                }),
            );
        }
    }
    assert_none(found, "use the existing bindings");
}
