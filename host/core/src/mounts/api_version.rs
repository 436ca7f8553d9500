//! The mount option `version`, which chooses between the versions of a plugin's API: `kv` serves
//! version 1 or version 2.
//!
//! This file prevents a mount from reading the records of one version by the rules of another: a
//! mount with records changes to a later version only by a migration of the records (decision K6),
//! and to an earlier version never.

use super::record::MountRecord;
use bulkhead_store::{Space, Unit};
pub use bulkhead_wire::api_version::OPTION;
use bulkhead_wire::description::ComponentDescription;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::name::MountPath;
use std::collections::BTreeMap;

/// Returns the version that the options choose; `None` if the plugin has no such version.
fn chosen_version(
    options: &BTreeMap<String, String>,
    plugin: &ComponentDescription,
) -> Option<u64> {
    plugin.api_version(options.get(OPTION).map(String::as_str))
}

/// Refuses a version that the plugin does not have. The option has no meaning for a plugin with a
/// single version.
///
/// # Errors
/// 400 that names the versions.
pub(crate) fn check(
    options: &BTreeMap<String, String>,
    plugin: &ComponentDescription,
) -> Result<(), Failure> {
    let versions = plugin.api_versions();
    let option = options.get(OPTION).map(String::as_str).unwrap_or_default();
    if versions.is_empty() || chosen_version(options, plugin).is_some() {
        return Ok(());
    }
    let served_versions: Vec<String> = versions.iter().map(u64::to_string).collect();
    let (option, served_versions) = (quoted(option), served_versions.join(" or "));
    Err(Failure::invalid(format!(
        "options.{OPTION} {option} is not a version of the API of {}; give {served_versions}",
        plugin.name
    )))
}

/// Sets the option to `version`.
pub(crate) fn choose(options: &mut BTreeMap<String, String>, version: u64) {
    options.insert(OPTION.to_owned(), version.to_string());
}

/// Returns the version to which the records of the mount have to be brought, if `record` asks for a
/// later version than the options `before` the change; `None` if no record has to change. The unit
/// of work remembers that a mount is empty.
///
/// # Errors
/// 400 with the remedy for an earlier version of a mount with records; the store's failure.
pub async fn check_change(
    unit: &mut Unit,
    record: &MountRecord,
    before: &BTreeMap<String, String>,
    plugin: &ComponentDescription,
) -> Result<Option<u64>, Failure> {
    let options = &record.settings.options;
    check(options, plugin)?;
    let (old, new) = (chosen_version(before, plugin), chosen_version(options, plugin));
    let records = format!("{}/", record.uuid);
    if old == new || unit.keys(Space::Data, &records, "", 1).await?.is_empty() {
        return Ok(None);
    }
    let [old, new] = [old, new].map(Option::unwrap_or_default);
    if new > old && plugin.upgrades_api {
        return Ok(Some(new));
    }
    Err(Failure::invalid(format!(
        "{} holds records of version {old} of the API and cannot change to version {new}; enable \
         a mount with version {new} at another path, and copy the secrets",
        record.path
    )))
}

/// Returns the failure for a mount whose records cannot be judged or converted now.
pub fn not_served_failure(path: &MountPath) -> Failure {
    Failure::invalid(format!(
        "options.{OPTION} of {path} cannot change while the mount is unavailable or during a \
         migration of the mount's data; try again when the mount serves again"
    ))
}

/// Returns the plugin and the version that a type such as `kv-v2` names.
pub fn split(kind: &str) -> Option<(&str, u64)> {
    let (name, version) = kind.rsplit_once("-v")?;
    Some((name, version.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::description::{Route, Verb};

    fn plugin(versions: &[u64]) -> ComponentDescription {
        let route = |version: &u64| Route {
            api_version: *version,
            ..Route::new(Verb::Read, format!("a{version}"), "")
        };
        let json = serde_json::json!({
            "kind": "secrets-engine", "name": "kv", "version": "1.0.0", "schema": 1, "about": "",
            "routes": versions.iter().map(route).collect::<Vec<_>>(),
        });
        serde_json::from_value(json).unwrap()
    }

    fn options(version: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(OPTION.to_owned(), version.to_owned())])
    }

    #[test]
    fn the_lowest_version_serves_unless_another_is_chosen() {
        let two = plugin(&[2, 0, 1]);
        assert_eq!(chosen_version(&BTreeMap::new(), &two), Some(1));
        assert_eq!(chosen_version(&options("2"), &two), Some(2));
        assert_eq!(chosen_version(&options("3"), &two), None);
        assert_eq!(chosen_version(&BTreeMap::new(), &plugin(&[0])), None);
    }

    #[test]
    fn unknown_api_version_error_lists_known_versions() {
        let two = plugin(&[1, 2]);
        for version in ["1", "2"] {
            assert_eq!(check(&options(version), &two), Ok(()), "{version}");
        }
        for unknown in ["3", "v2", "-1", " 2"] {
            let why = check(&options(unknown), &two).unwrap_err().message;
            assert!(why.contains("options.version") && why.ends_with("give 1 or 2"), "{why}");
        }
        assert_eq!(check(&options("9"), &plugin(&[0])), Ok(()));
    }

    #[test]
    fn a_type_may_name_the_version() {
        assert_eq!(split("kv-v2"), Some(("kv", 2)));
        assert_eq!(split("my-vault-v1"), Some(("my-vault", 1)));
        for other in ["kv", "kv-v", "kv-vx", "kv-2"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
