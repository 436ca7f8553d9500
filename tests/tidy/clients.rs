//! The README's table of areas: the clients of each row are the clients that `tests/clients` runs
//! for this area.
//!
//! A test of `tests/clients` runs a part of a program by name. The list of areas below gives each
//! part one area, so that a new part needs a decision, and the README changes with the tests.

use crate::sources::{Source, assert_none, rust_below, text_of};
use crate::tables::{quoted, rows_below};
use std::collections::BTreeSet;

const PAGE: &str = "README.md";
const HEAD: &str = "| mount | serves | page | clients run by the tests |";
const FOLDER: &str = "tests/clients";

/// Cell of a row without clients.
const NONE: &str = "none";

const VAULT: &str = "Vault's Go module";
const OPENBAO: &str = "OpenBao's Go module";
const NOMAD: &str = "Nomad's Go module";

/// Clients in the words of the README, each with the list that pins the client, and the client's
/// name there.
const CLIENTS: [(&str, &str, &str); 7] = [
    ("hvac", "requirements.txt", "hvac=="),
    ("python-nomad", "requirements.txt", "python-nomad=="),
    ("Ansible", "collection.txt", "ansible=="),
    ("node-vault", "node/package.json", "\"node-vault\""),
    (NOMAD, "go/go.mod", "github.com/hashicorp/nomad/api "),
    (VAULT, "go/go.mod", "github.com/hashicorp/vault/api "),
    (OPENBAO, "go/go.mod", "github.com/openbao/openbao/api/"),
];

/// Names of Go programs. Such a name stands before the name of a part.
const PROGRAMS: [&str; 2] = ["vault", "bao"];

/// Parts of one module of `tests/clients`.
type Parts = (&'static str, &'static [&'static str]);

/// Areas by the first mount of their row, each with the parts that use the area.
const AREAS: [(&str, &[Parts]); 11] = [
    ("database/", &[("hvac", &["database"]), ("vault_go", &["leases"])]),
    ("directory/", &[("hvac", &["active_directory"])]),
    ("cluster/", &[]),
    ("acl/", &[("scheduler", &["roles", "waiting", "tokens", "bootstrap", "ansible"])]),
    (
        "secret/",
        &[
            ("hvac", &["kv_version_1", "kv_version_2"]),
            ("node_vault", &["kv"]),
            ("vault_go", &["kv1", "kv2", "metadata", "logical"]),
        ],
    ),
    (
        "auth/cloud-a/",
        &[
            ("hvac", &["azure", "azure_logins", "gcp", "gcp_logins"]),
            ("node_vault", &["azure", "gcp"]),
        ],
    ),
    ("auth/userpass/", &[("hvac", &["userpass"]), ("vault_go", &["userpass"])]),
    ("auth/approle/", &[("hvac", &["approle"]), ("vault_go", &["approle"])]),
    ("auth/kubernetes/", &[("hvac", &["kubernetes"]), ("vault_go", &["kubernetes"])]),
    ("auth/jwt/", &[("hvac", &["jwt"])]),
    (
        "sys/",
        &[
            (
                "hvac",
                &[
                    "auth_methods",
                    "entities",
                    "groups",
                    "identity_tokens",
                    "logins",
                    "mounts",
                    "password_policies",
                    "policies",
                    "quotas",
                    "refusals",
                    "server",
                    "token_roles",
                    "tokens",
                ],
            ),
            ("openapi", &["every_plugin", "many_mounts"]),
            (
                "vault_go",
                &[
                    "monitor", "mounts", "nodes", "operator", "plugins", "policies", "reads",
                    "roles", "state", "tokens", "watcher", "wrapping",
                ],
            ),
        ],
    ),
];

/// A part that a test runs.
#[derive(Debug, PartialEq, Eq)]
struct PartRun {
    module: String,
    /// Function that runs the part, such as `call_go`.
    function: String,
    /// Go program, if the test names one of several.
    program: Option<String>,
    part: String,
}

impl PartRun {
    /// Returns the clients that the part uses. `None` for an unknown module. The validator of
    /// `openapi` is not a client.
    fn clients(&self) -> Option<&'static [&'static str]> {
        let program = self.program.as_deref();
        match (self.module.as_str(), self.function.as_str(), program, self.part.as_str()) {
            ("hvac", ..) => Some(&["hvac"]),
            ("node_vault", ..) => Some(&["node-vault"]),
            ("scheduler", "call_go", ..) => Some(&[NOMAD]),
            ("scheduler", _, _, "ansible") => Some(&["Ansible"]),
            ("scheduler", ..) => Some(&["python-nomad"]),
            ("vault_go", _, Some("vault"), _) => Some(&[VAULT]),
            ("vault_go", ..) => Some(&[VAULT, OPENBAO]),
            ("openapi", ..) => Some(&[]),
            _ => None,
        }
    }

    fn is_of(&self, parts: &[Parts]) -> bool {
        let has =
            |(module, parts): &Parts| *module == self.module && parts.contains(&self.part.as_str());
        parts.iter().any(has)
    }
}

/// Returns the parts that a file runs: calls of functions `call…` with the name of a part.
fn runs(file: &Source) -> Vec<PartRun> {
    let module = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let text: String = file.code().map(|(_, line)| format!("{line}\n")).collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let calls = text.match_indices("call").filter(|(at, _)| {
        let before = &text[..*at];
        !before.ends_with(is_word) && !before.ends_with("fn ")
    });
    calls.filter_map(|(at, _)| run(module, &text[at..])).collect()
}

/// Reads a call at the beginning of the text.
fn run(module: &str, text: &str) -> Option<PartRun> {
    let (function, rest) = text.split_once('(')?;
    let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let arguments = rest.split(';').next().unwrap_or_default();
    let literals = arguments.split('"').skip(1).step_by(2);
    let mut names = literals.filter(|name| name.chars().all(is_lower)).peekable();
    let program = names.next_if(|name| PROGRAMS.contains(name));
    let part = names.next()?;
    function.chars().all(is_lower).then(|| PartRun {
        module: module.to_owned(),
        function: function.to_owned(),
        program: program.map(str::to_owned),
        part: part.to_owned(),
    })
}

/// Returns the parts without one area, the areas with other parts, and the unknown modules.
fn part_problems(runs: &[PartRun]) -> Vec<String> {
    let mut found = Vec::new();
    for run in runs {
        let areas = AREAS.iter().filter(|(_, parts)| run.is_of(parts)).count();
        if areas != 1 || run.clients().is_none() {
            found.push(format!("{}: {} has {areas} areas", run.module, run.part));
        }
    }
    let listed = AREAS.iter().flat_map(|(_, parts)| parts.iter());
    for (module, parts) in listed {
        let is_run =
            |part: &&&str| runs.iter().any(|run| run.module == *module && run.part == **part);
        let stale = parts.iter().filter(|part| !is_run(part));
        found.extend(stale.map(|part| format!("{module}: no test runs {part}")));
    }
    found
}

/// Returns the differences between the rows of the README and the runs.
fn row_problems(readme: &str, runs: &[PartRun]) -> Vec<String> {
    let rows = rows_below(readme, HEAD);
    let row_of = |mount: &str| rows.iter().find(|row| quoted(row[0]).first() == Some(&mount));
    let mut found = Vec::new();
    for (mount, parts) in AREAS {
        let of_area = runs.iter().filter(|run| run.is_of(parts));
        let clients: BTreeSet<&str> =
            of_area.filter_map(PartRun::clients).flatten().copied().collect();
        let Some(cell) = row_of(mount).and_then(|row| row.get(3)) else {
            found.push(format!("no row for {mount}"));
            continue;
        };
        let shown: BTreeSet<&str> = cell.split(", ").filter(|name| *name != NONE).collect();
        if shown != clients {
            found.push(format!("{mount} has {clients:?}, the README has {shown:?}"));
        }
    }
    let is_unknown =
        |row: &&Vec<&str>| !AREAS.iter().any(|(mount, _)| quoted(row[0]).first() == Some(mount));
    found.extend(rows.iter().filter(is_unknown).map(|row| format!("unknown area: {}", row[0])));
    found
}

#[test]
fn readme_clients_are_the_clients_with_tests() {
    let runs: Vec<PartRun> = rust_below(&[FOLDER]).iter().flat_map(runs).collect();
    assert!(runs.len() > 40, "only {} parts were found", runs.len());
    assert_none(part_problems(&runs), "give each part of tests/clients one area in AREAS");
    assert_none(
        row_problems(&text_of(PAGE), &runs),
        "agree the README's table of areas with the clients in tests/clients",
    );
}

#[test]
fn readme_clients_are_pinned() {
    let is_missing = |(_, list, package): &&(&str, &str, &str)| {
        !text_of(&format!("{FOLDER}/{list}")).contains(package)
    };
    let missing = CLIENTS.iter().filter(is_missing);
    assert_none(
        missing.map(|(client, list, _)| format!("{client} is not in {list}")).collect(),
        "pin the client in its list, or remove the client from tests/tidy/clients.rs",
    );
}

#[cfg(test)]
mod of_the_rules_themselves {
    use super::*;

    fn runs_of(path: &str, text: &str) -> Vec<PartRun> {
        runs(&Source { path: path.to_owned(), text: text.to_owned() })
    }

    fn database_runs() -> Vec<PartRun> {
        let hvac = "fn call(part: &str) { call_at(a, part, \"X\"); }\n\
            // call(\"tokens\");\n#[test]\nfn a() { call_with(&start(), \"database\", &[]); }\n";
        let go = "fn b() { call_with(program, &c,\n\"leases\", &[(\"ABOUT\", &x)]); }\n\
            fn c() { call_with(\"vault\", &c, \"approle\", &[]); }\n";
        let mut runs = runs_of("tests/clients/hvac.rs", hvac);
        runs.extend(runs_of("tests/clients/vault_go.rs", go));
        runs
    }

    #[test]
    fn calls_named_like_a_part_are_runs() {
        let found: Vec<_> =
            database_runs().into_iter().map(|run| (run.part.clone(), run.clients())).collect();
        assert_eq!(
            found,
            [
                ("database".to_owned(), Some(&["hvac"] as &[_])),
                ("leases".to_owned(), Some(&[VAULT, OPENBAO] as &[_])),
                ("approle".to_owned(), Some(&[VAULT] as &[_])),
            ]
        );
    }

    #[test]
    fn parts_without_an_area_or_test_are_found() {
        let problems = |path: &str, part: &str| {
            let runs = runs_of(path, &format!("fn a() {{ call(\"{part}\"); }}"));
            part_problems(&runs)
        };
        let first = |path: &str, part: &str| problems(path, part).swap_remove(0);
        assert_eq!(first("tests/clients/hvac.rs", "new"), "hvac: new has 0 areas");
        assert_eq!(first("tests/clients/ruby.rs", "tokens"), "ruby: tokens has 0 areas");
        assert_eq!(first("tests/clients/hvac.rs", "jwt"), "hvac: no test runs database");
    }

    #[test]
    fn missing_and_surplus_clients_are_found() {
        let problem = |clients: &str| {
            let page = format!("{HEAD}\n|---|\n| `database/` | a | b | {clients} |\n");
            row_problems(&page, &database_runs()).into_iter().find(|one| one.contains("database/"))
        };
        assert_eq!(problem(&format!("{OPENBAO}, hvac, {VAULT}")), None);
        assert!(problem("hvac, for mount settings only").is_some());
        assert!(problem(NONE).is_some());
        assert!(problem(&format!("hvac, node-vault, {VAULT}, {OPENBAO}")).is_some());
        let row = format!("{HEAD}\n|---|\n| `other/` | a | b | hvac |\n");
        assert!(row_problems(&row, &[]).contains(&"unknown area: `other/`".to_owned()));
    }
}
