//! No circular imports. A reader can read the imports of a module first, and a change affects only
//! the modules above.

use crate::modules::{Crate, File, Graph, Module};
use crate::sources::{Source, assert_none, rust_below};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of modules in a circle: a parent and a few children.
const LARGEST_CIRCLE: usize = 4;

/// Returns the offences of a crate's imports, as texts that begin with the crate's name.
fn offences(name: &str, files: &[File<'_>]) -> Vec<String> {
    let read = Crate::read(files);
    let mut found = BTreeSet::new();
    for through in [false, true] {
        let graph = read.imports(through);
        found.extend(
            pairs(&graph)
                .into_iter()
                .map(|(a, b)| format!("{name}: {} and {} import each other", shown(a), shown(b))),
        );
        for circle in circles(&graph).into_iter().filter(|circle| circle.len() > LARGEST_CIRCLE) {
            let members: Vec<String> = circle.iter().map(shown).collect();
            let count = members.len();
            found.insert(format!("{name}: {count} files in a circle: {}", members.join(", ")));
        }
    }
    found.into_iter().collect()
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "the crate's root".to_owned() } else { module.join("::") }
}

/// Returns the pairs of modules that import each other and are not parent and child.
fn pairs(graph: &Graph) -> Vec<(&Module, &Module)> {
    let is_parent = |a: &Module, b: &Module| b.len() == a.len() + 1 && b.starts_with(a);
    let mut found = Vec::new();
    for (a, targets) in graph {
        for b in targets.iter().filter(|b| a < b) {
            let mutual = graph.get(b).is_some_and(|back| back.contains(a));
            if mutual && !is_parent(a, b) && !is_parent(b, a) {
                found.push((a, b));
            }
        }
    }
    found
}

/// Returns the sets of modules with imports in a circle.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reached(graph, module))).collect();
    let circle = |module: &Module| -> BTreeSet<Module> {
        let others = reach.get(module).into_iter().flatten();
        let back = others.filter(|other| reach.get(**other).is_some_and(|r| r.contains(module)));
        back.map(|other| (*other).clone()).collect()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// Returns the modules that a module imports, directly or indirectly.
fn reached<'a>(graph: &'a Graph, from: &Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&Module> = graph.get(from).into_iter().flatten().collect();
    while let Some(next) = waiting.pop() {
        if found.insert(next) {
            waiting.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}

#[test]
fn modules_import_in_one_direction() {
    let sources = rust_below(&["host", "plugins"]);
    let crates = files_of_crates(&sources);
    assert!(crates.len() >= 9, "only {:?} were found; the rule would hold of less", crates.keys());
    let found = crates.iter().flat_map(|(name, files)| offences(name, files)).collect();
    assert_none(
        found,
        "remove an import: pass a value in, or move the shared code below both modules",
    );
}

/// Returns the top-level modules of a crate in the order of its first page: the line of arrows in
/// the last `text` block of the crate's documentation.
fn rooms(page: &str) -> Vec<&str> {
    let head: Vec<&str> =
        page.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let Some(begin) = head.iter().rposition(|line| *line == "```text") else { return Vec::new() };
    let block = head.iter().skip(begin + 1).take_while(|line| **line != "```");
    let names = block.flat_map(|line| line.split('→')).map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns the imports against the order, and the modules that the page omits.
fn against_the_order(order: &[&str], files: &[File<'_>]) -> Vec<String> {
    let place = |module: &Module| {
        let room = module.first()?;
        order.iter().position(|other| other == room)
    };
    let mut found = BTreeSet::new();
    for (module, targets) in &Crate::read(files).imports(true) {
        let Some(room) = module.first() else { continue };
        let Some(own) = place(module) else {
            found.insert(format!("{room} is in no place of the line"));
            continue;
        };
        for target in targets.iter().filter(|target| place(target).is_some_and(|at| at > own)) {
            found.insert(format!("{} imports {}", shown(module), shown(target)));
        }
    }
    found.into_iter().collect()
}

/// Crates with fewer top-level modules need no line of their order.
const FEW_MODULES: usize = 8;

/// Returns the files of each crate, with paths below `src`.
fn files_of_crates(sources: &[Source]) -> BTreeMap<&str, Vec<File<'_>>> {
    let mut crates: BTreeMap<&str, Vec<File<'_>>> = BTreeMap::new();
    for source in sources {
        if let Some((folder, path)) = source.path.split_once("/src/") {
            crates.entry(folder).or_default().push(File { path, text: &source.text });
        }
    }
    crates
}

#[test]
fn modules_import_in_crate_page_order() {
    let sources = rust_below(&["host", "plugins"]);
    let (mut found, mut checked) = (Vec::new(), 0);
    for (name, files) in &files_of_crates(&sources) {
        let Some(page) = files.iter().find(|file| file.path == "lib.rs") else { continue };
        let order = rooms(page.text);
        let modules = files.iter().filter(|file| !file.path.contains('/')).count();
        if order.is_empty() && modules <= FEW_MODULES {
            continue;
        }
        checked += 1;
        let offences = against_the_order(&order, files);
        found.extend(offences.into_iter().map(|offence| format!("{name}: {offence}")));
    }
    assert!(checked >= 15, "only {checked} crates have an order; the rule would hold of less");
    assert_none(
        found,
        "import only modules on the left, or change the line in the crate's first page",
    );
}

#[cfg(test)]
mod of_the_rule_itself {
    use super::{against_the_order, offences, rooms};
    use crate::modules::File;

    #[test]
    fn an_import_against_the_documented_order_is_found() {
        let page = "//! Rooms.\n//!\n//! ```text\n//! a → b\n//! → c\n//! ```\nmod a;";
        let order = rooms(page);
        assert_eq!(order, ["a", "b", "c"]);
        let of = |a, b| {
            let files = [File { path: "lib.rs", text: page }, File { path: "a.rs", text: a }];
            let more = [File { path: "b.rs", text: b }, File { path: "e.rs", text: "" }];
            against_the_order(&order, &files.into_iter().chain(more).collect::<Vec<_>>())
        };
        assert_eq!(of("", "use crate::a::A;"), ["e is in no place of the line"]);
        let found = of("use crate::b::B;", "");
        assert_eq!(found, ["a imports b", "e is in no place of the line"]);
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File<'_>> = files.iter().map(|(path, text)| File { path, text }).collect();
        offences("x", &files)
    }

    #[test]
    fn two_modules_that_import_each_other_are_found() {
        let mutual = ["x: a and b import each other"];
        let pairs = [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use super::b;", "fn f() { crate::a::g(); }"),
            ("pub use crate::{b::{B, C as D}, z};", "use super::{a, z};"),
            ("fn f() -> super::b::B {}", "pub(crate) use super::a::*;"),
            ("mod inside { use super::super::b::B; }", "use crate::a as other;"),
            ("macro_rules! m { () => { $crate::b::f() } }", "use\n crate\n ::a;"),
        ];
        for (a, b) in pairs {
            assert_eq!(found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]), mutual);
        }
    }

    #[test]
    fn code_that_is_not_an_import_is_ignored() {
        for harmless in [
            "#[cfg(test)]\nuse crate::b::B;",
            "#[cfg(test)]\nmod tests { use crate::b::B; }",
            "// use crate::b::B;",
            "/// See [`crate::b::B`].\nfn f() {}",
            "const TEXT: &str = \"use crate::b::B;\";",
            "use std::b::B;",
            "mod inside { use super::b::B; }",
            "fn f() -> impl Iterator<Item = u8> + use<'_> { b }",
        ] {
            let files = [("lib.rs", ""), ("a.rs", harmless), ("b.rs", "use crate::a::A;")];
            assert_eq!(found(&files), Vec::<String>::new(), "{harmless}");
        }
    }

    #[test]
    fn imports_of_test_modules_are_ignored() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", "#[cfg(test)]\nmod tests;"),
            ("a/tests.rs", "use crate::b::B;"),
            ("a/tests/more.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::tests::T; use crate::a::A;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn re_exported_name_counts_for_defining_module() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", "pub use maker::Thing; mod maker;"),
            ("a/maker.rs", "use crate::b::B; pub struct Thing;"),
            ("b.rs", "use crate::a::Thing;"),
        ];
        assert_eq!(found(&files), ["x: a::maker and b import each other"]);
    }

    #[test]
    fn paths_through_an_imported_module_are_followed() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", ""),
            ("a/end.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a; fn f() { a::end::now(); }"),
        ];
        assert_eq!(found(&files), ["x: a::end and b import each other"]);
    }

    #[test]
    fn parent_child_circle_is_allowed_up_to_limit() {
        let parent = |children: &str| format!("pub use {children};");
        let with = |count: usize| {
            let names = ["b", "c", "d", "e"];
            let mut files = vec![("lib.rs".to_owned(), String::new())];
            let used: Vec<String> =
                names[..count].iter().map(|name| format!("{name}::X")).collect();
            files.push(("a.rs".to_owned(), parent(&format!("self::{{{}}}", used.join(", ")))));
            for name in &names[..count] {
                files.push((format!("a/{name}.rs"), "use super::A;".to_owned()));
            }
            let files: Vec<(&str, &str)> =
                files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            found(&files)
        };
        assert_eq!(with(3), Vec::<String>::new());
        assert_eq!(with(4), ["x: 5 files in a circle: a, a::b, a::c, a::d, a::e"]);
    }

    #[test]
    fn a_circle_without_mutual_imports_is_found() {
        let files = [
            ("lib.rs", ""),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::d;"),
            ("d.rs", "use crate::e;"),
            ("e.rs", "use crate::a;"),
        ];
        assert_eq!(found(&files), ["x: 5 files in a circle: a, b, c, d, e"]);
    }

    #[test]
    fn a_program_beside_the_library_is_another_crate() {
        let files =
            [("lib.rs", "use crate::a;"), ("main.rs", "use crate::a;"), ("a.rs", "use crate::X;")];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
