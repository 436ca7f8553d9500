//! Dry run of a configuration: checks that the directory accepts the login, is of the kind that
//! `schema` names, and has the entry `userdn`. Warns if `binddn` may not read ids of entries.

use crate::directory::{DirectoryClient, NO_IDS};
use crate::settings::Config;
use bulkhead_sdk::{Answer, Failure, Host};
use serde_json::json;

/// Checks the configuration against the directory. Stores nothing.
///
/// # Errors
/// The directory's refusal, in a message that names the setting.
pub(super) fn try_out(host: &dyn Host, config: &Config) -> Result<Answer, Failure> {
    let directory = DirectoryClient::new(host, config);
    directory.check_login()?;
    directory.check_schema()?;
    directory.check_base()?;
    let no_ids = (config.has_login() && !directory.reads_ids()?).then(|| NO_IDS.to_owned());
    Ok(Answer::data(&json!({ "verified": true, "stored": false }))?.warn(no_ids))
}
