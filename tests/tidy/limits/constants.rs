//! Numeric constants of a source file, and the convention that makes a constant a limit.

use super::internal::INTERNAL;
use super::quantity::Quantity;
use crate::rust_text::{code, without_tests};
use crate::sources::Source;

/// Types of limits.
const TYPES: [&str; 9] = ["u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "Duration"];

/// Words in the name of a constant that make the constant a limit.
const WORDS: [&str; 7] = ["MAX", "MOST", "LONGEST", "LARGEST", "LIMIT", "TIMEOUT", "CEILING"];

/// Files in which every numeric constant is a limit.
const FILES: [&str; 3] = ["limits.rs", "fixed.rs", "bounds.rs"];

/// Folders of the server's code that belong to tests.
const OF_TESTS: [&str; 2] = ["host/fuzz/", "host/benches/"];

/// A constant of a numeric type.
pub struct Constant {
    pub path: String,
    pub name: String,
    /// Value as written.
    pub text: String,
    /// `None` for an expression that refers to another constant.
    pub value: Option<Quantity>,
}

impl Constant {
    fn parse(path: &str, item: &str) -> Option<Self> {
        let (declared, text) = item.split_once('=')?;
        let (name, kind) = declared.split_once(':')?;
        let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let is_numeric = TYPES.contains(&kind.trim()) && name.chars().all(is_word);
        is_numeric.then(|| Self {
            path: path.to_owned(),
            name: name.to_owned(),
            text: text.trim().to_owned(),
            value: Quantity::of_expression(text),
        })
    }

    fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns `true` if the constant is a limit of the server by its name or its file. A constant
    /// computed from other constants is not a limit: the other constants are the limits.
    pub fn is_limit(&self) -> bool {
        let is_of_server = self.path.starts_with("host/")
            && !self.path.contains("/benches/")
            && !OF_TESTS.iter().any(|folder| self.path.starts_with(folder));
        let is_named = self.name.split('_').any(|word| WORDS.contains(&word));
        is_of_server && self.value.is_some() && (is_named || FILES.contains(&self.file_name()))
    }

    /// Returns `true` if `listed` is the name of the constant, or the names of its file and of the
    /// constant, such as `cache.rs: MOST_BYTES`.
    pub fn is_called(&self, listed: &str) -> bool {
        match listed.split_once(": ") {
            Some((file, name)) => file == self.file_name() && name == self.name,
            None => listed == self.name,
        }
    }

    /// Returns `true` if the constant needs no row.
    pub fn is_internal(&self) -> bool {
        INTERNAL.iter().any(|(_, names)| names.iter().any(|name| self.is_called(name)))
    }
}

/// Returns the numeric constants of a file, except those of tests.
pub fn constants(file: &Source) -> Vec<Constant> {
    let code = code(&file.text);
    let product = without_tests(&code, &code);
    let items = product.split("const ").skip(1);
    items
        .filter_map(|item| Constant::parse(&file.path, item.split(';').next().unwrap_or_default()))
        .collect()
}
