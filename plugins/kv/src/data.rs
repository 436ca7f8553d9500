//! `data/{path}`: the versions of a secret's data.

use crate::config::Config;
use crate::given;
use crate::merge_patch;
use crate::metadata_record::Metadata;
use crate::secret_path::SecretPath;
use crate::version_record::VersionRecord;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};

/// The fields of a write.
pub(crate) const FIELDS: &[Field] = &[
    Field::any("data", "the secret: an object").secret(),
    Field::any("options", "an object: cas, the required number of the latest version"),
];

/// Shows a version. Data that were deleted or destroyed are 404, with the facts about the version:
/// clients read these.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let requested = given::version(call)?;
    let metadata = Metadata::read(host, &path)?.ok_or_else(Failure::absent)?;
    let (number, version) = metadata.version(requested).ok_or_else(Failure::absent)?;
    let facts = metadata.show_version(number, version);
    if !version.is_present(host.clock().now()) {
        return Answer::absent(&json!({"data": null, "metadata": facts}));
    }
    let data = VersionRecord::read(host, &path, number)?;
    Answer::data(&json!({"data": data, "metadata": facts}))
}

/// Stores a new version.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let data = given_data(call)?.clone();
    let config = Config::read(host)?;
    let now = host.clock().now();
    let metadata = Metadata::read(host, &path)?;
    check_cas(call, &config, metadata.as_ref())?;
    let metadata = metadata.unwrap_or_else(|| Metadata::new(now));
    add_version(host, &path, &config, metadata, data)
}

/// Stores the latest version with changes as a new version.
pub(crate) fn patch(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let changes = given_data(call)?;
    let config = Config::read(host)?;
    let metadata = Metadata::read(host, &path)?.ok_or_else(Failure::absent)?;
    let (number, version) = metadata.version(None).ok_or_else(Failure::absent)?;
    if !version.is_present(host.clock().now()) {
        let facts = metadata.show_version(number, version);
        return Answer::absent(&json!({"data": null, "metadata": facts}));
    }
    check_cas(call, &config, Some(&metadata))?;
    let mut data = VersionRecord::read(host, &path, number)?;
    merge_patch::apply(&mut data, changes);
    add_version(host, &path, &config, metadata, data)
}

/// Deletes the latest version.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let Some(mut metadata) = Metadata::read(host, &path)? else { return Ok(Answer::nothing()) };
    let now = host.clock().now();
    let latest = metadata.current;
    if let Some(version) = metadata.versions.get_mut(&latest) {
        version.delete(now);
        metadata.put(host, &path, now)?;
    }
    Ok(Answer::nothing())
}

fn add_version(
    host: &dyn Host,
    path: &SecretPath<'_>,
    config: &Config,
    mut metadata: Metadata,
    data: Map<String, Value>,
) -> Result<Answer, Failure> {
    let now = host.clock().now();
    for gone in metadata.add_version(config, now) {
        host.storage().delete(&path.version(gone))?;
    }
    host.storage().put(&path.version(metadata.current), &VersionRecord { data })?;
    metadata.put(host, path, now)?;
    let (number, version) = metadata.version(None).ok_or_else(Failure::absent)?;
    Answer::data(&metadata.show_version(number, version))
}

/// Returns the field `data`.
///
/// # Errors
/// Invalid request if the field is missing, or is not an object. The value is not repeated.
fn given_data(call: &Call) -> Result<&Map<String, Value>, Failure> {
    match call.fields.get("data") {
        Some(Value::Object(data)) => Ok(data),
        None | Some(Value::Null) => Err(Failure::invalid(
            "no data were given: version 2 of this API takes the secret in the field data, as in \
             {\"data\": {\"name\": \"value\"}}",
        )),
        Some(_) => Err(Failure::invalid(
            "data must be an object, such as {\"name\": \"value\"}; to keep a text, give the text \
             a name",
        )),
    }
}

/// Compares `options.cas` with the latest version; 0 stands for a secret without a version.
///
/// # Errors
/// Invalid request for another version, and for no `cas` where the secret or the mount asks for it.
fn check_cas(call: &Call, config: &Config, metadata: Option<&Metadata>) -> Result<(), Failure> {
    let current = metadata.map_or(0, |metadata| metadata.current);
    match given_cas(call)? {
        Some(cas) if cas == current => Ok(()),
        Some(cas) => Err(Failure::invalid(format!(
            "check-and-set parameter did not match the current version: options.cas is {cas}, and \
             the current version is {current}; read the secret, and write with the current version"
        ))),
        None if config.cas_required || metadata.is_some_and(|metadata| metadata.cas_required) => {
            Err(Failure::invalid(
                "check-and-set parameter required for this call: set options.cas to the current \
                 version, or to 0 for a new secret",
            ))
        }
        None => Ok(()),
    }
}

fn given_cas(call: &Call) -> Result<Option<u64>, Failure> {
    let options = match call.fields.get("options") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(options)) => options,
        Some(_) => {
            return Err(Failure::invalid("options must be an object, such as {\"cas\": 0}"));
        }
    };
    let number = match options.get("cas") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => value.as_u64(),
    };
    number.map(Some).ok_or_else(|| {
        let given = options.get("cas").map(Value::to_string).unwrap_or_default();
        Failure::invalid(format!(
            "check-and-set parameter did not match the current version: options.cas {} is not the \
             number of a version; give a whole number from 0",
            quoted(&given)
        ))
    })
}

#[cfg(test)]
mod tests;
