//! Version 1 of the API: one value for each path, without earlier versions.

use crate::secret_path::SecretPath;
use crate::version_record::VersionRecord;
use bulkhead_sdk::wire::duration;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use serde_json::{Map, Value};

/// Members of a secret that say how long readers may use it, the more important first.
const LIFETIMES: [&str; 2] = ["ttl", "lease"];

/// Shows a secret. The envelope's `lease_duration` says how long it may be used.
pub(crate) fn read(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let record: Option<VersionRecord> = host.storage().get(&path.entry())?;
    let data = record.ok_or_else(Failure::absent)?.data;
    let seconds = lifetime(&data).unwrap_or(call.mount.default_ttl);
    Ok(Answer::data(&data)?.usable_for(seconds))
}

/// Stores all members of the body, in place of the secret before.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let data = call.fields.clone();
    if data.is_empty() {
        return Err(Failure::invalid(
            "missing data fields: the body is the secret, such as {\"name\": \"value\"}",
        ));
    }
    host.storage().put(&path.entry(), &VersionRecord { data })?;
    Ok(Answer::nothing())
}

/// Removes a secret.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&SecretPath::of(call)?.entry())?;
    Ok(Answer::nothing())
}

/// Returns the seconds in `ttl` or else `lease`; `None` if the member is missing or no duration.
fn lifetime(data: &Map<String, Value>) -> Option<u64> {
    let value = LIFETIMES.iter().find_map(|name| data.get(*name))?;
    duration::seconds(value).ok()
}

#[cfg(test)]
mod tests {
    use crate::fixture::{message, v1};
    use bulkhead_sdk::wire::failure::FailureKind;
    use serde_json::{Value, json};

    #[test]
    fn any_members_come_back_as_they_were_sent() {
        let bed = v1();
        let data = json!({
            "path": "not the capture", "data": {"a": [1, null]}, "none": null, "on": true,
            "options": "", "version": 7,
        });
        bed.write("a/b", &data).unwrap();
        let reply = bed.read("a/b").unwrap();
        assert_eq!(Value::Object(reply.data), data);
        bed.write("a/b", &json!({"only": 1})).unwrap();
        assert_eq!(Value::Object(bed.read("a/b").unwrap().data), json!({"only": 1}));
    }

    #[test]
    fn secret_states_its_lease_duration() {
        let mut bed = v1();
        bed.mount.default_ttl = 2_764_800;
        for (data, seconds) in [
            (json!({"a": 1}), 2_764_800),
            (json!({"ttl": "1h"}), 3_600),
            (json!({"lease": 30}), 30),
            (json!({"ttl": "5s", "lease": "9s"}), 5),
            (json!({"ttl": "soon"}), 2_764_800),
        ] {
            bed.write("x", &data).unwrap();
            assert_eq!(bed.read("x").unwrap().lease_duration, Some(seconds), "{data}");
        }
    }

    #[test]
    fn empty_secret_is_refused_and_absent_not_found() {
        let bed = v1();
        assert!(message(bed.write("x", &json!({}))).starts_with("missing data fields"));
        assert_eq!(bed.read("x").err().unwrap().kind, FailureKind::NotFound);
        assert_eq!(bed.list("").err().unwrap().kind, FailureKind::NotFound);
        bed.delete("x").unwrap();
    }

    #[test]
    fn a_secret_may_be_a_folder_too() {
        let bed = v1();
        for path in ["a", "a/b", "a/c/d", "b"] {
            bed.write(path, &json!({"is": path})).unwrap();
        }
        assert_eq!(bed.list("").unwrap().data["keys"], json!(["a", "a/", "b"]));
        assert_eq!(bed.list("a").unwrap().data["keys"], json!(["b", "c/"]));
        bed.delete("a").unwrap();
        assert!(bed.read("a").is_err());
        assert_eq!(bed.read("a/b").unwrap().data["is"], json!("a/b"));
    }
}
