//! Brings the secrets of version 1 of the API to version 2: each becomes version 1 of a secret with
//! the same path and the same data.
//!
//! This file prevents a lost secret and a secret that is converted twice: the data, the metadata
//! and the removal of the record of version 1 are one commit, together with the cursor behind the
//! record.

use crate::config::Config;
use crate::metadata_record::Metadata;
use crate::secret_path::SecretPath;
use bulkhead_sdk::migration::MigrationSteps;
use bulkhead_sdk::wire::api_version;
use bulkhead_sdk::{Context, Failure, Host};

/// Converts the secrets if the mount's option asks for version 2. A secret has the same stored form
/// in both versions of the API.
///
/// # Errors
/// Invalid request for another version of the API; the failures of the storage.
pub(crate) fn migrate(host: &dyn Host, context: &Context, _from: u32) -> Result<(), Failure> {
    let option = context.mount.options.iter().find(|(name, _)| name == api_version::OPTION);
    let version = option.map_or("", |(_, version)| version.as_str());
    if version != "2" {
        return Err(Failure::invalid(format!(
            "secrets can be brought to version 2 of the API, not to version {version:?}"
        )));
    }
    let now = host.clock().now();
    let mut steps = MigrationSteps::begin(host)?;
    steps.table_bytes("entry/", |name, data| {
        let path = SecretPath::stored(name);
        let mut metadata = Metadata::new(now);
        // A new secret has no version that has to go.
        drop(metadata.add_version(&Config::default(), now));
        host.storage().put_bytes(&path.version(metadata.current), data)?;
        metadata.put(host, &path, now)?;
        Ok(None)
    })?;
    steps.end()
}

#[cfg(test)]
mod tests {
    use crate::fixture::v1;
    use bulkhead_sdk::testbed::TestBed;
    use serde_json::{Value, json};

    fn upgraded(mut bed: TestBed<crate::KeyValue>) -> TestBed<crate::KeyValue> {
        bed.mount.options = vec![("version".to_owned(), "2".to_owned())];
        bed
    }

    #[test]
    fn secrets_of_version_1_become_first_versions() {
        let (bed, long) = (v1(), "ö".repeat(240));
        let secrets = [
            ("app", json!({"user": "a", "port": 5432, "none": null})),
            ("app/db", json!({"ttl": "1h", "data": {"deep": [1]}})),
            ("data/app", json!({"is": "a path of version 1"})),
            ("config", json!({"max_versions": 3})),
            (long.as_str(), json!({"is": "long"})),
        ];
        for (path, data) in &secrets {
            bed.write(path, data).unwrap();
        }
        let bed = upgraded(bed);
        assert_eq!(bed.migrate(1), Ok(1));
        for (path, data) in &secrets {
            let read = bed.read(&format!("data/{path}")).unwrap().data;
            assert_eq!((&read["data"], &read["metadata"]["version"]), (data, &json!(1)), "{path}");
        }
        let listed = bed.list("metadata").unwrap().data["keys"].clone();
        assert_eq!(listed.as_array().map(Vec::len), Some(5), "{listed}");
        let config = Value::Object(bed.read("config").unwrap().data);
        assert_eq!(config["max_versions"], json!(0), "no secret became the configuration");
        bed.write("data/app", &json!({"data": {"user": "b"}, "options": {"cas": 1}})).unwrap();
        let first = bed.read("data/app").unwrap().data;
        assert_eq!(first["metadata"]["version"], json!(2));
    }

    #[test]
    fn many_secrets_are_converted_in_steps_and_once() {
        let bed = v1();
        for number in 0..1_200 {
            bed.write(&format!("s/{number}"), &json!({"n": number})).unwrap();
        }
        let bed = upgraded(bed);
        assert_eq!(bed.migrate(1), Ok(3));
        assert_eq!(bed.migrate(1), Ok(1), "nothing is left");
        for number in [0, 499, 500, 1_199] {
            let read = bed.read(&format!("data/s/{number}")).unwrap().data;
            assert_eq!(read["data"]["n"], json!(number));
            assert_eq!(read["metadata"]["version"], json!(1));
        }
    }

    #[test]
    fn an_upgrade_to_another_version_is_refused() {
        let bed = v1();
        bed.write("app", &json!({"a": 1})).unwrap();
        assert!(bed.migrate(1).unwrap_err().message.contains("version 2"));
        assert_eq!(bed.read("app").unwrap().data["a"], json!(1));
    }
}
