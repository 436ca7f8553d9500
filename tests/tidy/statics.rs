//! No state between calls: a value that a component keeps in memory could reach another caller if
//! instances are reused.

use crate::sources::{Source, assert_none, rust_below};

/// Folders with code that becomes part of components.
const IN_COMPONENTS: [&str; 3] = ["plugins", "host/schedule", "host/wire"];

/// Ways to keep a value as long as the instance lives.
const KEEPERS: [&str; 8] = [
    "thread_local!",
    "OnceLock",
    "OnceCell",
    "LazyLock",
    "LazyCell",
    "lazy_static!",
    ".leak()",
    "Box::leak",
];

/// The only allowed static. A call cannot read its state, which is free memory.
const ALLOCATOR: &str = "static ALLOCATOR: std::alloc::System = std::alloc::System;";

/// Returns the lines that keep a value. A `const` is a value without a place, and is enough for
/// tables.
fn keeping(file: &Source) -> Vec<String> {
    let keeps = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let is_static = words.next() == Some("static") && line.trim() != ALLOCATOR;
        is_static || KEEPERS.iter().any(|keeper| line.contains(keeper))
    };
    let found = file.code().filter(|(_, line)| keeps(line));
    found.map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim())).collect()
}

#[test]
fn components_keep_nothing_between_calls() {
    let found = rust_below(&IN_COMPONENTS).iter().flat_map(keeping).collect();
    assert_none(
        found,
        "pass the value as an argument, make it a const, or store it through the host",
    );
}

#[test]
fn statics_are_recognised() {
    let found =
        |text: &str| keeping(&Source { path: "x.rs".to_owned(), text: text.to_owned() }).len();
    for declaration in [
        "static COUNT: AtomicU64 = AtomicU64::new(0);",
        "    pub(crate) static mut LAST: u8 = 0;",
        "pub static X: u8 = 1;",
        "thread_local! { }",
        "let cell = std::cell::OnceCell::new();",
    ] {
        assert_eq!(found(declaration), 1, "{declaration}");
    }
    for free in [
        "const NAME: &'static str = \"a\";",
        "// static X: u8",
        "call(\"static roles\")",
        "let statics = 1;",
    ] {
        assert_eq!(found(free), 0, "{free}");
    }
}
