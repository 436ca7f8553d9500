//! The imports between the modules of a crate, read from `use` trees and from paths in the code.
//!
//! A file is a module; a module inside a file counts as the file. Code that is built only for tests
//! is excluded. The compiler is not asked, so names that macros create are not seen.

use crate::rust_text::{code, without_tests};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the crate's root, which is the empty path.
pub type Module = Vec<String>;

/// Every module with its imports.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Maximum number of re-exports that are followed for a name.
const PASSED_ON: usize = 8;

/// A file: the path below the crate's `src`, and the text.
pub struct File<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

/// A path as written, and the modules inside the file around the path.
#[derive(Clone)]
struct Written {
    inside: Vec<String>,
    segments: Vec<String>,
}

/// Declarations and paths of a file.
#[derive(Default)]
struct Said {
    /// `use` declarations by the name that they declare; glob declarations have no name.
    named: BTreeMap<String, Written>,
    globs: Vec<Written>,
    paths: Vec<Written>,
    /// Modules that are built only for tests.
    test_modules: Vec<String>,
}

/// The modules of a crate.
pub struct Crate {
    files: BTreeMap<Module, Said>,
}

impl Crate {
    /// Reads a crate. Programs beside the library (`bin/`, and `main.rs` beside `lib.rs`) are
    /// separate crates and excluded.
    pub fn read(files: &[File<'_>]) -> Self {
        let has_library = files.iter().any(|file| file.path == "lib.rs");
        let is_program =
            |path: &str| path.starts_with("bin/") || (has_library && path == "main.rs");
        let mut read: BTreeMap<Module, Said> = files
            .iter()
            .filter(|file| !is_program(file.path))
            .map(|file| (module_of(file.path), said(file.text)))
            .collect();
        let of_tests: Vec<Module> = read
            .iter()
            .flat_map(|(module, said)| said.test_modules.iter().map(|name| child(module, name)))
            .collect();
        read.retain(|module, _| !of_tests.iter().any(|test| module.starts_with(test)));
        Self { files: read }
    }

    /// Returns the imports of each module. With `through`, a re-exported name counts as an import
    /// from the defining module; otherwise, from the re-exporting module.
    pub fn imports(&self, through: bool) -> Graph {
        let mut graph = Graph::new();
        for (module, said) in &self.files {
            let declared = said.named.values().chain(&said.globs).chain(&said.paths);
            let targets = declared.filter_map(|path| self.target(module, path, through, 0));
            graph.insert(module.clone(), targets.filter(|target| target != module).collect());
        }
        graph
    }

    /// Returns the module of this crate at the end of a path.
    fn target(&self, from: &Module, path: &Written, through: bool, depth: usize) -> Option<Module> {
        let (mut at, mut rest) = self.start(from, path, depth)?;
        while let Some((next, behind)) = rest.split_first() {
            let below = child(&at, next);
            if self.files.contains_key(&below) {
                (at, rest) = (below, behind.to_vec());
                continue;
            }
            let passed_on = self.files.get(&at).and_then(|said| said.named.get(next));
            let Some(passed_on) = passed_on.filter(|_| through && depth < PASSED_ON) else { break };
            let on = Written {
                inside: passed_on.inside.clone(),
                segments: passed_on.segments.iter().chain(behind).cloned().collect(),
            };
            return self.target(&at, &on, through, depth + 1).or(Some(at));
        }
        Some(at)
    }

    /// Returns the module of a path's first segments, and the remaining segments; `None` if the
    /// path leads out of the crate or to an item of the same file.
    fn start(&self, from: &Module, path: &Written, depth: usize) -> Option<(Module, Vec<String>)> {
        let (first, behind) = path.segments.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), behind.to_vec())),
            "self" => Some((from.clone(), behind.to_vec())),
            "super" => {
                let supers = path.segments.iter().take_while(|name| *name == "super").count();
                let full: Vec<String> = from.iter().chain(&path.inside).cloned().collect();
                let left = full.len().checked_sub(supers)?;
                // A module inside a file counts as the file.
                let file = full[..left.min(from.len())].to_vec();
                Some((file, path.segments[supers..].to_vec()))
            }
            name if self.files.contains_key(&child(from, name)) => {
                Some((child(from, name), behind.to_vec()))
            }
            // A module that the file imported: `leases::end` after `use crate::leases`.
            name => {
                let imported = self.files.get(from)?.named.get(name)?;
                if depth >= PASSED_ON || imported.segments.first() == Some(first) {
                    return None;
                }
                let at = self.target(from, imported, false, depth + 1)?;
                Some((at, behind.to_vec()))
            }
        }
    }
}

fn child(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

fn module_of(path: &str) -> Module {
    let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut names: Module = names.collect();
    if names.last().is_some_and(|last| last == "mod") || ["lib.rs", "main.rs"].contains(&path) {
        names.pop();
    }
    names
}

/// Splits code into names, `::`, and single characters.
fn tokens(code: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut was_word = false;
    let mut was_colon = false;
    for c in code.chars() {
        let is_word = c.is_alphanumeric() || c == '_';
        match found.last_mut() {
            Some(last) if is_word && was_word => last.push(c),
            Some(last) if c == ':' && was_colon => *last = "::".to_owned(),
            _ if c.is_whitespace() => {}
            _ => found.push(c.to_string()),
        }
        was_colon = c == ':' && !(was_colon && found.last().is_some_and(|last| last == "::"));
        was_word = is_word;
    }
    found
}

fn said(text: &str) -> Said {
    let all = code(text);
    let product = without_tests(&all, &all);
    let mut said = Said { test_modules: test_modules(&all, &product), ..Said::default() };
    let tokens = tokens(&product);
    let text_at = |at: usize| tokens.get(at).map_or("", String::as_str);
    // The modules inside this file, each with the bracket depth of its body.
    let mut inside: Vec<(String, usize)> = Vec::new();
    let (mut at, mut depth) = (0, 0_usize);
    while at < tokens.len() {
        let names = || inside.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match text_at(at) {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                inside.retain(|(_, needed)| depth >= *needed);
            }
            "mod" if text_at(at + 2) == "{" => {
                inside.push((text_at(at + 1).to_owned(), depth + 1));
            }
            // `impl Trait + use<'a>` declares nothing.
            "use" if text_at(at + 1) != "<" => {
                let end = at + tokens[at..].iter().position(|token| token == ";").unwrap_or(0);
                declared(&tokens[at + 1..end], &names(), &mut said);
                at = end.max(at);
            }
            word if is_name(word) && text_at(at + 1) == "::" => {
                let segments = path(&tokens[at..]);
                at += segments.len() * 2 - 2;
                said.paths.push(Written { inside: names(), segments });
            }
            _ => {}
        }
        at += 1;
    }
    said
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns `a::b::c` at the front of the tokens.
fn path(tokens: &[String]) -> Vec<String> {
    let mut found = vec![tokens[0].clone()];
    let mut rest = &tokens[1..];
    while let [colons, name, behind @ ..] = rest {
        if colons != "::" || !is_name(name) {
            break;
        }
        found.push(name.clone());
        rest = behind;
    }
    found
}

/// Adds the declarations of a `use` tree, without `use` and `;`.
fn declared(tree: &[String], inside: &[String], said: &mut Said) {
    for leaf in leaves(tree) {
        let mut segments: Vec<String> =
            leaf.iter().filter(|token| *token != "::").cloned().collect();
        let renamed = segments.iter().position(|token| token == "as");
        let alias = renamed.and_then(|at| segments.drain(at..).nth(1));
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        let glob = segments.pop_if(|last| last == "*").is_some();
        let Some(last) = segments.last().cloned() else { continue };
        let written = Written { inside: inside.to_vec(), segments };
        if glob {
            said.globs.push(written);
        } else {
            // A name that another module inside the file also declares is ambiguous.
            let name = alias.filter(|alias| alias != "_").unwrap_or(last);
            match said.named.entry(name) {
                Entry::Vacant(free) => _ = free.insert(written),
                Entry::Occupied(_) => said.globs.push(written),
            }
        }
    }
}

/// Returns the paths of a tree: `a::{b, c::d}` has two.
fn leaves(tree: &[String]) -> Vec<Vec<String>> {
    let Some(open) = tree.iter().position(|token| token == "{") else {
        return if tree.is_empty() { Vec::new() } else { vec![tree.to_vec()] };
    };
    let (prefix, group) = tree.split_at(open);
    let close = group.iter().rposition(|token| token == "}").unwrap_or(group.len());
    let mut found = Vec::new();
    let (mut depth, mut branch) = (0, Vec::new());
    for token in &group[1..close] {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 && token == "," {
            found.extend(leaves(&branch));
            branch.clear();
        } else {
            branch.push(token.clone());
        }
    }
    found.extend(leaves(&branch));
    found.into_iter().map(|leaf| prefix.iter().cloned().chain(leaf).collect()).collect()
}

/// Returns the names of the modules that are in the code and not in the product.
fn test_modules(all: &str, product: &str) -> Vec<String> {
    let modules = |code: &str| {
        let tokens = tokens(code);
        let declared = tokens.windows(3).filter(|three| three[0] == "mod" && three[2] == ";");
        declared.map(|three| three[1].clone()).collect::<BTreeSet<_>>()
    };
    modules(all).difference(&modules(product)).cloned().collect()
}
