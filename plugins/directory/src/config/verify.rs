//! The dry run of a configuration: whether the directory takes the login, is what `schema` says,
//! and has `userdn`.

use crate::directory::Directory;
use crate::settings::Config;
use bulkhead_sdk::{Answer, Failure, Host};
use serde_json::json;

/// Tries the configuration, and stores nothing.
///
/// # Errors
/// What the directory refused, in words that name the setting.
pub(super) fn try_out(host: &dyn Host, config: &Config) -> Result<Answer, Failure> {
    let directory = Directory::new(host, config);
    directory.check_login()?;
    directory.check_schema()?;
    directory.check_base()?;
    Answer::data(&json!({ "verified": true, "stored": false }))
}
