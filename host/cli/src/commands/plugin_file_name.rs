//! Names of component files: `shelf.wasm`, or with a version, `shelf_1.2.3.wasm`.

use std::path::Path;

/// The parts of a component file's name.
#[derive(Debug, PartialEq)]
pub(super) struct PluginFileName {
    /// Name of the plugin.
    pub(super) plugin: String,
    /// Version without a leading `v`, if the name has one.
    pub(super) version: Option<String>,
}

impl PluginFileName {
    /// Reads the name of the file at a path.
    pub(super) fn read(file: &str) -> Self {
        let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let stem = name.strip_suffix(".wasm").unwrap_or(&name);
        let separators = stem.match_indices(['_', '-']).map(|(at, _)| stem.split_at(at));
        for (plugin, rest) in separators {
            let version = rest.get(1..).unwrap_or_default();
            let version = version.strip_prefix('v').unwrap_or(version);
            if !plugin.is_empty() && is_version(version) {
                return Self { plugin: plugin.to_owned(), version: Some(version.to_owned()) };
            }
        }
        let stem = Path::new(&name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Self { plugin: stem.unwrap_or_default(), version: None }
    }
}

/// Returns true for three numbers with dots, and what semantic versioning allows behind them.
fn is_version(text: &str) -> bool {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && text.bytes().all(is_allowed)
        && !text.ends_with(['-', '+'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_gives_plugin_and_version() {
        for (file, plugin, version) in [
            ("shelf.wasm", "shelf", None),
            ("/a_1.0.0/shelf.wasm", "shelf", None),
            ("shelf_1.2.3.wasm", "shelf", Some("1.2.3")),
            ("target/shelf-v1.2.3.wasm", "shelf", Some("1.2.3")),
            ("my-shelf_10.0.1-rc.1+b2.wasm", "my-shelf", Some("10.0.1-rc.1+b2")),
            ("shelf-1.2.3-rc1.wasm", "shelf", Some("1.2.3-rc1")),
            ("shelf_1.2.3", "shelf", Some("1.2.3")),
            ("shelf_1.2.wasm", "shelf_1.2", None),
            ("shelf_1..3.wasm", "shelf_1..3", None),
            ("shelf_1.2.3-.wasm", "shelf_1.2.3-", None),
            ("_1.2.3.wasm", "_1.2.3", None),
            ("v2-engine.wasm", "v2-engine", None),
            ("engine.bin", "engine", None),
            ("", "", None),
        ] {
            let expected =
                PluginFileName { plugin: plugin.to_owned(), version: version.map(str::to_owned) };
            assert_eq!(PluginFileName::read(file), expected, "{file:?}");
        }
    }
}
