//! `metadata/{path}`: the versions of a secret, its rules and its custom metadata.

use crate::config::check_max_versions;
use crate::lifetime::{self, DeleteAfter};
use crate::metadata_record::Metadata;
use crate::secret_path::SecretPath;
use crate::timestamp::timestamp;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of custom pairs.
const MOST_CUSTOM: usize = 64;
/// Maximum length of the key of a custom pair, in bytes.
const LONGEST_CUSTOM_KEY: usize = 128;
/// Maximum length of the value of a custom pair, in bytes.
const LONGEST_CUSTOM_VALUE: usize = 512;

/// The fields of a write.
pub(crate) const FIELDS: &[Field] = &[
    Field::whole("max_versions", "number of versions kept of the secret; 0: the config's value"),
    Field::flag("cas_required", "whether every write must give options.cas"),
    Field::any(lifetime::FIELD, "duration after which new versions are deleted; negative: never"),
    Field::any("custom_metadata", "texts for people, by name; never secret"),
];

/// Shows the metadata.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let metadata = Metadata::read(host, &path)?.ok_or_else(Failure::absent)?;
    let versions = metadata.versions.iter();
    let versions: Map<String, Value> =
        versions.map(|(number, version)| (number.to_string(), version.show())).collect();
    Answer::data(&json!({
        "created_time": timestamp(metadata.created),
        "updated_time": timestamp(metadata.updated),
        "current_version": metadata.current,
        "oldest_version": metadata.oldest,
        "max_versions": metadata.max_versions,
        "cas_required": metadata.cas_required,
        "delete_version_after": metadata.delete_version_after.show(),
        "custom_metadata": metadata.custom,
        "versions": versions,
    }))
}

/// Creates the metadata, or changes the given fields. Custom metadata are replaced as a whole.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let now = host.clock().now();
    let mut metadata = Metadata::read(host, &path)?.unwrap_or_else(|| Metadata::new(now));
    merge_rules(&mut metadata, call)?;
    if let Some(given) = call.fields.get("custom_metadata") {
        metadata.custom = Some(custom_pairs(given)?);
    }
    check_custom(&metadata)?;
    metadata.put(host, &path, now)?;
    Ok(Answer::nothing())
}

/// Changes the given fields of existing metadata; `null` unsets a field or a custom pair.
pub(crate) fn patch(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let mut metadata = Metadata::read(host, &path)?.ok_or_else(Failure::absent)?;
    merge_rules(&mut metadata, call)?;
    match call.fields.get("custom_metadata") {
        None => {}
        Some(Value::Null) => metadata.custom = None,
        Some(Value::Object(changes)) => {
            let mut custom = metadata.custom.take().unwrap_or_default();
            for (name, value) in changes {
                match value {
                    Value::Null => custom.remove(name),
                    value => custom.insert(name.clone(), custom_text(name, value)?),
                };
            }
            metadata.custom = Some(custom);
        }
        Some(other) => metadata.custom = Some(custom_pairs(other)?),
    }
    check_custom(&metadata)?;
    metadata.put(host, &path, host.clock().now())?;
    Ok(Answer::nothing())
}

/// Removes a secret with all of its versions. A commit removes a bounded number of versions, the
/// oldest first, so that an interrupted removal leaves a secret with its later versions.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    while let Some(mut metadata) = Metadata::read(host, &path)? {
        for number in metadata.take_before(u64::MAX) {
            host.storage().delete(&path.version(number))?;
        }
        if metadata.versions.is_empty() {
            host.storage().delete(&path.metadata())?;
            break;
        }
        metadata.put(host, &path, host.clock().now())?;
        host.storage().checkpoint()?;
    }
    Ok(Answer::nothing())
}

fn merge_rules(metadata: &mut Metadata, call: &Call) -> Result<(), Failure> {
    match call.fields.get("max_versions") {
        Some(Value::Null) => metadata.max_versions = 0,
        _ => call.merge("max_versions", &mut metadata.max_versions)?,
    }
    check_max_versions(metadata.max_versions)?;
    match call.fields.get("cas_required") {
        Some(Value::Null) => metadata.cas_required = false,
        _ => call.merge("cas_required", &mut metadata.cas_required)?,
    }
    if let Some(given) = DeleteAfter::given(call)? {
        metadata.delete_version_after = given;
    }
    Ok(())
}

fn custom_pairs(given: &Value) -> Result<BTreeMap<String, String>, Failure> {
    let Value::Object(pairs) = given else {
        return Err(Failure::invalid(
            "custom_metadata must be an object of texts, such as {\"owner\": \"team-blue\"}",
        ));
    };
    let text = |(name, value): (&String, &Value)| Ok((name.clone(), custom_text(name, value)?));
    pairs.iter().map(text).collect()
}

fn custom_text(name: &str, value: &Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(Failure::invalid(format!(
            "custom_metadata: the value of {} is not a text",
            quoted(name)
        ))),
    }
}

fn check_custom(metadata: &Metadata) -> Result<(), Failure> {
    let custom = metadata.custom.iter().flatten();
    if custom.clone().count() > MOST_CUSTOM {
        return Err(Failure::invalid(format!(
            "custom_metadata has more than {MOST_CUSTOM} pairs; give fewer"
        )));
    }
    let is_too_long = |key: &str, value: &str| {
        key.is_empty() || key.len() > LONGEST_CUSTOM_KEY || value.len() > LONGEST_CUSTOM_VALUE
    };
    match custom.into_iter().find(|(key, value)| is_too_long(key, value)) {
        Some((key, _)) => Err(Failure::invalid(format!(
            "custom_metadata: {} must have a key of 1 to {LONGEST_CUSTOM_KEY} bytes, and a value \
             of at most {LONGEST_CUSTOM_VALUE} bytes",
            quoted(key)
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
