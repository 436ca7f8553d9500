//! `subkeys/{path}`: the keys of a secret without its values.

use crate::given;
use crate::metadata_record::Metadata;
use crate::secret_path::SecretPath;
use crate::version_record::VersionRecord;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value, json};

/// The fields of the read besides the version.
pub(crate) const FIELDS: &[Field] =
    &[Field::whole("depth", "levels of objects to show; 0 shows all")];

/// Shows the keys of a version.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let requested = given::version(call)?;
    let mut depth = 0_u32;
    call.merge("depth", &mut depth)?;
    let metadata = Metadata::read(host, &path)?.ok_or_else(Failure::absent)?;
    let (number, version) = metadata.version(requested).ok_or_else(Failure::absent)?;
    let facts = metadata.show_version(number, version);
    if !version.is_present(host.clock().now()) {
        return Answer::absent(&json!({"subkeys": null, "metadata": facts}));
    }
    let data = VersionRecord::read(host, &path, number)?;
    let levels = if depth == 0 { u32::MAX } else { depth };
    Answer::data(&json!({"subkeys": keys(data, levels), "metadata": facts}))
}

/// Replaces all values by `null`, apart from objects with members, down to `levels`.
fn keys(data: Map<String, Value>, levels: u32) -> Map<String, Value> {
    let shown = |value| match value {
        Value::Object(inside) if levels > 1 && !inside.is_empty() => {
            Value::Object(keys(inside, levels - 1))
        }
        _ => Value::Null,
    };
    data.into_iter().map(|(name, value)| (name, shown(value))).collect()
}

#[cfg(test)]
mod tests {
    use crate::fixture::v2;
    use serde_json::json;

    #[test]
    fn subkeys_show_keys_to_depth_without_values() {
        let bed = v2();
        let data = json!({"a": "secret", "b": {"c": {"d": 1}, "e": [{"f": 1}]}, "g": {}});
        bed.write("data/x", &json!({"data": data})).unwrap();
        let all = bed.read("subkeys/x").unwrap().data;
        let expected = json!({"a": null, "b": {"c": {"d": null}, "e": null}, "g": null});
        assert_eq!(all["subkeys"], expected);
        assert_eq!(all["metadata"]["version"], json!(1));
    }

    #[test]
    fn keys_of_a_deleted_version_are_absent() {
        let bed = v2();
        bed.write("data/x", &json!({"data": {"a": 1}})).unwrap();
        bed.delete("data/x").unwrap();
        let reply = bed.read("subkeys/x").unwrap();
        assert!(reply.is_absent && reply.data["subkeys"].is_null());
        assert_ne!(reply.data["metadata"]["deletion_time"], json!(""));
    }
}
