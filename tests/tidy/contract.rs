//! The contract in `wit/` and the host's implementation. Each importable interface has one file of
//! the same name in the sandbox, and each file has an interface.

use crate::sources::{Source, all, assert_none};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_import_and_host_file_has_counterpart() {
    let files = all();
    let mut imports = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    for file in &files {
        if file.path.starts_with("wit/") && file.path.ends_with(".wit") {
            imports.extend(file.text.lines().filter_map(imported));
        }
        let host = file
            .path
            .strip_prefix("host/sandbox/src/imports/")
            .and_then(|name| name.strip_suffix(".rs"))
            // A file in a folder is a part of its interface's file.
            .filter(|name| !name.contains('/'));
        hosts.extend(host.map(str::to_owned));
    }
    assert!(!imports.is_empty(), "no world imports anything");
    assert_eq!(
        imports, hosts,
        "left: imported by a world of wit/; right: files of host/sandbox/src/imports"
    );
}

/// Returns `sql` for the line `    import sql;`.
fn imported(line: &str) -> Option<String> {
    let name = line.trim().strip_prefix("import ")?.strip_suffix(';')?;
    Some(name.to_owned())
}

#[test]
fn every_interface_has_a_file_of_its_name() {
    let is_contract = |file: &&Source| file.path.starts_with("wit/") && file.path.ends_with(".wit");
    for file in all().iter().filter(is_contract) {
        assert!(
            file.text.starts_with("package bulkhead:plugin@"),
            "{} does not name the package first",
            file.path
        );
        let stem = file.path.trim_start_matches("wit/").trim_end_matches(".wit");
        if stem != "world" {
            assert!(
                file.text.contains(&format!("interface {stem} {{")),
                "{} has no interface {stem}",
                file.path
            );
        }
    }
}

#[test]
fn every_import_checks_its_grant_first() {
    let asks = [
        "check_grant(",
        "require_grant(",
        "granted!(",
        "check_request(",
        "check_servers(",
        "check_change(",
        "check_endpoints(",
    ];
    let (mut found, mut functions) = (Vec::new(), 0);
    for file in all().iter().filter(|file| file.path.starts_with("host/sandbox/src/imports/")) {
        let (mut inside, mut signature) = (false, None);
        let mut lines = file.code();
        while let Some((number, line)) = lines.next() {
            inside = (inside || line == "impl Host for CallState {") && line != "}";
            let begins = line.starts_with("    fn ") || line.starts_with("    async fn ");
            if inside && begins {
                signature = Some(number);
            }
            // A signature may take several lines; the body begins after the brace.
            let Some(at) = signature.filter(|_| line.ends_with('{')) else { continue };
            signature = None;
            functions += 1;
            let first = lines.next().map(|(_, first)| first).unwrap_or_default();
            if !asks.iter().any(|ask| first.contains(ask)) {
                found.push(format!("{}:{at}: {}", file.path, first.trim()));
            }
        }
    }
    assert!(functions > 20, "only {functions} imports were found; the rule would hold of nothing");
    assert_none(found, "check the grant first, with granted!(self, …) or self.require_grant(…)");
}

/// The interfaces that a world imports and exports.
#[derive(Debug, Default, PartialEq, Eq)]
struct World {
    imports: BTreeSet<String>,
    exports: BTreeSet<String>,
}

/// Returns the worlds of `wit/`. A component also imports the interfaces with types that its
/// imports and exports use, transitively.
fn worlds(contract: &str) -> BTreeMap<String, World> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut found: BTreeMap<String, World> = BTreeMap::new();
    let (mut interface, mut world) = ("", String::new());
    let mut extending: BTreeSet<String> = BTreeSet::new();
    for line in contract.lines() {
        let words: Vec<&str> = line.split([' ', ';', '.', '{']).filter(|w| !w.is_empty()).collect();
        match words[..] {
            ["interface", name] => interface = name,
            ["world", name] => name.clone_into(&mut world),
            ["include", _] => _ = extending.insert(world.clone()),
            ["use", other, ..] => _ = uses.entry(interface).or_default().insert(other),
            ["import", name] => {
                found.entry(world.clone()).or_default().imports.insert(name.to_owned());
            }
            ["export", name] => {
                found.entry(world.clone()).or_default().exports.insert(name.to_owned());
            }
            _ => {}
        }
    }
    // A world that includes another world only adds optional exports, and is checked as the other
    // world.
    found.retain(|name, _| !extending.contains(name));
    for world in found.values_mut() {
        let mut waiting: Vec<String> = world.imports.union(&world.exports).cloned().collect();
        while let Some(next) = waiting.pop() {
            for used in uses.get(next.as_str()).into_iter().flatten() {
                if world.imports.insert((*used).to_owned()) {
                    waiting.push((*used).to_owned());
                }
            }
        }
    }
    found
}

/// Returns the lists of the function `name`, by world: the arm `Self::SecretsEngine => …` is the
/// world `secrets-engine`.
fn arms(text: &str, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let body = text.split_once(&format!("fn {name}(self)")).map_or("", |(_, body)| body);
    let body = body.split("\n    }\n").next().unwrap_or_default();
    let arms = body.split("Self::").skip(1);
    arms.map(|arm| {
        let variant = arm.split(' ').next().unwrap_or_default();
        let values = arm.split('"').skip(1).step_by(2).map(str::to_owned);
        (kebab(variant), values.collect())
    })
    .collect()
}

/// Returns `secrets-engine` for `SecretsEngine`.
fn kebab(name: &str) -> String {
    let mut written = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !written.is_empty() {
            written.push('-');
        }
        written.extend(c.to_lowercase());
    }
    written
}

#[test]
fn structure_check_has_contract_lists() {
    let files = all();
    let below = |start: &str, end: &str| -> String {
        let wanted = files.iter().filter(|f| f.path.starts_with(start) && f.path.ends_with(end));
        wanted.map(|file| file.text.as_str()).collect()
    };
    let worlds = worlds(&below("wit/", ".wit"));
    let check = below("host/sandbox/src/structure", ".rs");
    let imports = arms(&check, "imports");
    let exports = arms(&check, "export");
    assert!(!worlds.is_empty(), "wit/world.wit has no world");
    // The structure of uploads is checked, and a seal plugin is never uploaded.
    let uploaded = worlds.iter().filter(|(name, _)| *name != "seal-plugin");
    let expected: BTreeMap<_, _> =
        uploaded.map(|(name, world)| (name.clone(), world.imports.clone())).collect();
    assert_eq!(
        imports, expected,
        "left: what `World::imports` of host/sandbox/src/structure.rs lets in; right: what the \
         worlds of wit/world.wit import, with the interfaces whose types they use"
    );
    for (world, export) in exports {
        let is_exported =
            worlds.get(&world).is_some_and(|declared| export.is_subset(&declared.exports));
        assert!(is_exported, "structure.rs knows {world} by {export:?}, which it does not export");
    }
}

#[test]
fn structure_check_has_contract_version() {
    let files = all();
    let world = files.iter().find(|file| file.path == "wit/world.wit").expect("wit/world.wit");
    let package = world.text.lines().next().unwrap_or_default();
    let version = package.trim_end_matches(';').split('@').nth(1).expect("a package has a version");
    let checked = format!("const VERSION: &str = \"{version}\";");
    let speaks = files.iter().any(|file| {
        file.path.starts_with("host/sandbox/src/structure") && file.text.contains(&checked)
    });
    assert!(speaks, "wit/world.wit is at {version}; host/sandbox/src/structure.rs is not");
}

#[test]
fn lists_are_read_from_contract_and_check() {
    let contract = "interface types {\n}\ninterface sql {\n    use types.{ext};\n}\n\
                    interface engine {\n    use words.{x};\n}\n\
                    world secrets-engine {\n    import sql;\n\n    export engine;\n}\n";
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let world = World { imports: set(&["sql", "types", "words"]), exports: set(&["engine"]) };
    assert_eq!(worlds(contract), BTreeMap::from([("secrets-engine".to_owned(), world)]));
    let check = "    fn imports(self) -> X {\n        match self {\n            \
                 Self::SecretsEngine => &[\"sql\", \"types\"],\n            \
                 Self::Other => &[],\n        }\n    }\n    fn f() { Self::X(\"y\") }\n";
    let lists = BTreeMap::from([
        ("secrets-engine".to_owned(), set(&["sql", "types"])),
        ("other".to_owned(), set(&[])),
    ]);
    assert_eq!(arms(check, "imports"), lists);
}
