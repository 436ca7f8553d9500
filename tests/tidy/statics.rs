//! No state between calls: what a component keeps in memory may meet another caller where instances
//! are reused.

use crate::sources::{Source, assert_none, rust_below};

/// What becomes part of every official component, and of those that others build with the SDK.
const IN_COMPONENTS: [&str; 2] = ["plugins", "host/wire"];

/// Ways to keep a value for as long as the instance lives.
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

/// Keeps nothing that a call could read: free memory, and that it does unsaid.
const ALLOCATOR: &str = "static ALLOCATOR: std::alloc::System = std::alloc::System;";

/// Lines that keep something. A `const` is a value and no place, and does all that a table needs.
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
    assert_none(found, "pass it along, make it a const, or store it through the host");
}

#[test]
fn a_static_is_told_from_a_lifetime_and_a_word() {
    let found =
        |text: &str| keeping(&Source { path: "x.rs".to_owned(), text: text.to_owned() }).len();
    for kept in [
        "static COUNT: AtomicU64 = AtomicU64::new(0);",
        "    pub(crate) static mut LAST: u8 = 0;",
        "pub static X: u8 = 1;",
        "thread_local! { }",
        "let known = std::cell::OnceCell::new();",
    ] {
        assert_eq!(found(kept), 1, "{kept}");
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
