//! Who does what, in the comments of product code: the caller, the operator, the component, the
//! server. A pronoun for all of them leaves the reader to guess which one is meant.

use crate::rust_text::{comments, without_tests};
use crate::sources::{Source, all, assert_none};

const PRONOUNS: [&str; 6] = ["nobody", "whoever", "somebody", "whatever", "anybody", "everybody"];

/// Comments that say one of them, as `path:line: word`.
fn pronouns(file: &Source) -> Vec<String> {
    let shown = without_tests(&comments(&file.text), &crate::rust_text::code(&file.text));
    let mut found = Vec::new();
    for (index, line) in shown.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '`').map(str::to_lowercase);
        let said = words.filter(|word| PRONOUNS.contains(&word.as_str()));
        found.extend(said.map(|word| format!("{}:{}: {word}", file.path, index + 1)));
    }
    found
}

#[test]
fn comments_of_product_code_name_who_is_meant() {
    let is_product = |file: &Source| {
        let folder = file.path.split('/').next().unwrap_or_default();
        let extension = file.path.rsplit('.').next().unwrap_or_default();
        ["host", "plugins", "wit"].contains(&folder)
            && ["rs", "wit"].contains(&extension)
            && !file.is_of_tests()
    };
    let found = all().iter().filter(|file| is_product(file)).flat_map(pronouns).collect();
    assert_none(found, "name the one who is meant: the caller, the operator, the component, …");
}

#[test]
fn only_comments_of_the_product_are_looked_at() {
    let found = |text: &str| pronouns(&Source { path: "x.rs".to_owned(), text: text.to_owned() });
    assert_eq!(found("x();\n/// Nobody's token."), ["x.rs:2: nobody"]);
    assert_eq!(found("x(); // told to whoever asks"), ["x.rs:1: whoever"]);
    for free in [
        "let nobody = 1;",
        "refuse(\"whatever\");",
        "// The name `nobody` is that of a user of the system.",
        "#[cfg(test)]\nmod tests {\n    // nobody\n}",
    ] {
        assert_eq!(found(free), Vec::<String>::new(), "{free}");
    }
}
