//! `config`: rules for all secrets of the mount.

use crate::lifetime::{self, DeleteAfter};
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host, stored};
use serde::{Deserialize, Serialize};
use serde_json::json;

const KEY: &str = "config";

/// Maximum number of versions that a secret may keep: their list is a single record.
pub(crate) const MOST_VERSIONS: u32 = 5_000;

/// Number of versions that a secret keeps if nothing else was said.
const USUAL_VERSIONS: u32 = 10;

/// The fields of the configuration.
pub(crate) const FIELDS: &[Field] = &[
    Field::whole("max_versions", "number of versions kept of each secret; 0 means 10"),
    Field::flag("cas_required", "whether every write must give options.cas"),
    Field::any(lifetime::FIELD, "duration after which new versions are deleted; negative: never"),
];

/// The rules for all secrets.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Config {
    /// 0: nothing was said.
    pub(crate) max_versions: u32,
    pub(crate) cas_required: bool,
    pub(crate) delete_version_after: DeleteAfter,
}

stored!(Config, "config", reads_stored_configurations);

impl Config {
    /// Returns the stored configuration, or the default.
    pub(crate) fn read(host: &dyn Host) -> Result<Self, Failure> {
        Ok(host.storage().get(KEY)?.unwrap_or_default())
    }

    /// Returns the number of versions that a secret with the limit `of_secret` keeps.
    pub(crate) fn versions_kept(&self, of_secret: u32) -> u64 {
        let said = [of_secret, self.max_versions].into_iter().find(|number| *number > 0);
        u64::from(said.unwrap_or(USUAL_VERSIONS))
    }
}

/// Refuses a number of versions that cannot be kept.
pub(crate) fn check_max_versions(number: u32) -> Result<(), Failure> {
    if number > MOST_VERSIONS {
        return Err(Failure::invalid(format!(
            "max_versions {number} is more than a secret can keep; give {MOST_VERSIONS} or less"
        )));
    }
    Ok(())
}

/// Shows the configuration, also if none was written.
pub(crate) fn read(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let config = Config::read(host)?;
    Answer::data(&json!({
        "max_versions": config.max_versions,
        "cas_required": config.cas_required,
        "delete_version_after": config.delete_version_after.show(),
    }))
}

/// Changes the given fields of the configuration.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let mut config = Config::read(host)?;
    call.merge("max_versions", &mut config.max_versions)?;
    check_max_versions(config.max_versions)?;
    call.merge("cas_required", &mut config.cas_required)?;
    if let Some(given) = DeleteAfter::given(call)? {
        config.delete_version_after = given;
    }
    host.storage().put(KEY, &config)?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests {
    use crate::fixture::{message, v2};
    use serde_json::{Value, json};

    #[test]
    fn without_a_configuration_the_defaults_are_shown() {
        let shown = Value::Object(v2().read("config").unwrap().data);
        let expected =
            json!({"max_versions": 0, "cas_required": false, "delete_version_after": "0s"});
        assert_eq!(shown, expected);
    }

    #[test]
    fn config_write_changes_named_fields_only() {
        let bed = v2();
        let all = json!({"max_versions": 3, "cas_required": true, "delete_version_after": "1h30m"});
        bed.write("config", &all).unwrap();
        bed.write("config", &json!({"max_versions": "4"})).unwrap();
        let shown = Value::Object(bed.read("config").unwrap().data);
        let expected =
            json!({"max_versions": 4, "cas_required": true, "delete_version_after": "1h30m0s"});
        assert_eq!(shown, expected);
    }

    #[test]
    fn settings_that_cannot_be_honoured_are_refused() {
        let bed = v2();
        for (field, value, told) in [
            ("max_versions", json!(-1), "whole number from 0"),
            ("max_versions", json!(5_001), "5000 or less"),
            ("delete_version_after", json!("soon"), "duration"),
        ] {
            let mut body = json!({});
            body[field] = value;
            let why = message(bed.write("config", &body));
            assert!(why.starts_with(field) && why.contains(told), "{why}");
        }
    }
}
