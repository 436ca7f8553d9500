//! The key-value secrets engine: keeps secrets, in version 1 of the API a single value for each
//! path, in version 2 the last versions of each value.
//!
//! The mount option `version` chooses the version of the API, and the host serves only the rows of
//! this version. `v1` is version 1, and `upgrade` brings its secrets to version 2. Version 2 has a
//! file for each noun of the URL, the records `metadata_record` and `version_record`, and
//! `secret_path`, `lifetime`, `timestamp`, `merge_patch` and `given` for input and output.
//!
//! The modules in order: a module imports only from modules to its left or in lines above.
//! `tests/tidy` reads the order from this page.
//!
//! ```text
//! given → lifetime → merge_patch → secret_path → timestamp → config → version_record
//! → metadata_record → v1 → upgrade → data → metadata → subkeys → versions
//! ```

mod config;
mod data;
#[cfg(test)]
mod fixture;
mod given;
mod lifetime;
mod merge_patch;
mod metadata;
mod metadata_record;
mod secret_path;
mod subkeys;
mod timestamp;
mod upgrade;
mod v1;
mod version_record;
mod versions;

use bulkhead_sdk::table::{Field, Row, delete, list, patch, read, write};
use bulkhead_sdk::{Context, Failure, Host, MountedPlugin, SecretsEngine};

/// The engine.
pub struct KeyValue;

const PATH: &[Field] = &[Field::text("path", "path of the secret")];

impl MountedPlugin for KeyValue {
    const NAME: &'static str = "kv";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Keeps secrets, and in version 2 their earlier versions.";
    const TABLE: &'static [Row] = &[
        read("{path+}", v1::read)
            .api_version(1)
            .successor("data/{path}")
            .about("Shows a secret.")
            .fields(&[PATH]),
        write("{path+}", v1::write)
            .api_version(1)
            .successor("data/{path}")
            .about("Stores all fields of the body as a secret.")
            .fields(&[PATH])
            .existence("entry/{path}")
            .verbatim(),
        delete("{path+}", v1::delete)
            .api_version(1)
            .successor("data/{path}")
            .about("Removes a secret.")
            .fields(&[PATH]),
        list("", "entry/").api_version(1).successor("metadata").about("Lists secrets and folders."),
        list("{path+}", "entry/{path}/")
            .api_version(1)
            .successor("metadata/{path}")
            .about("Lists the secrets and folders of a folder.")
            .fields(&[PATH]),
        read("config", config::read).api_version(2).about("Shows the rules for all secrets."),
        write("config", config::write)
            .api_version(2)
            .about("Sets the rules for all secrets.")
            .fields(&[config::FIELDS]),
        read("data/{path+}", data::read)
            .api_version(2)
            .about("Shows a version of a secret, the latest unless another is asked for.")
            .fields(&[PATH, given::VERSION]),
        write("data/{path+}", data::write)
            .api_version(2)
            .about("Stores a new version of a secret.")
            .fields(&[PATH, data::FIELDS])
            .existence("meta/{path}"),
        patch("data/{path+}", data::patch)
            .api_version(2)
            .about("Stores a new version of a secret: the latest with changes (RFC 7396).")
            .fields(&[PATH, data::FIELDS]),
        delete("data/{path+}", data::delete)
            .api_version(2)
            .about("Deletes the latest version of a secret, which can be undone.")
            .fields(&[PATH]),
        write("delete/{path+}", versions::delete)
            .api_version(2)
            .about("Deletes versions of a secret, which can be undone.")
            .fields(&[PATH, given::VERSIONS]),
        write("undelete/{path+}", versions::undelete)
            .api_version(2)
            .about("Brings back deleted versions of a secret.")
            .fields(&[PATH, given::VERSIONS]),
        write("destroy/{path+}", versions::destroy)
            .api_version(2)
            .about("Removes the data of versions of a secret for good.")
            .fields(&[PATH, given::VERSIONS]),
        read("subkeys/{path+}", subkeys::read)
            .api_version(2)
            .about("Shows the keys of a secret without values.")
            .fields(&[PATH, given::VERSION, subkeys::FIELDS]),
        list("metadata", "meta/").api_version(2).about("Lists secrets and folders."),
        list("metadata/{path+}", "meta/{path}/")
            .api_version(2)
            .about("Lists the secrets and folders of a folder.")
            .fields(&[PATH]),
        read("metadata/{path+}", metadata::read)
            .api_version(2)
            .about("Shows the versions and rules of a secret.")
            .fields(&[PATH]),
        write("metadata/{path+}", metadata::write)
            .api_version(2)
            .about("Sets the rules and custom metadata of a secret.")
            .fields(&[PATH, metadata::FIELDS])
            .existence("meta/{path}"),
        patch("metadata/{path+}", metadata::patch)
            .api_version(2)
            .about("Changes the rules and custom metadata of a secret (RFC 7396).")
            .fields(&[PATH, metadata::FIELDS]),
        delete("metadata/{path+}", metadata::delete)
            .api_version(2)
            .about("Removes a secret with all versions for good.")
            .fields(&[PATH]),
    ];

    fn migrate(host: &dyn Host, context: &Context, from: u32) -> Result<(), Failure> {
        upgrade::migrate(host, context, from)
    }
}

impl SecretsEngine for KeyValue {
    const UPGRADES_API: bool = true;
}

bulkhead_sdk::export_secrets_engine!(KeyValue);
