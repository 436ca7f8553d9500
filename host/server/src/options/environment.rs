//! Settings of the environment, for a server without a configuration file.

use bulkhead_store::DatabaseChoice;
use std::ffi::OsString;

/// Environment variable with the connection URL of PostgreSQL, for a server without a configuration
/// file. There is no option, because every user of the machine can read the options of a process.
pub(super) const DATABASE_VARIABLE: &str = "BULKHEAD_PG_CONNECTION_URL";

/// A lookup of an environment variable.
pub(super) type EnvironmentLookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the database of the environment.
pub(super) fn database(env: EnvironmentLookup<'_>) -> Result<DatabaseChoice, String> {
    let url = typed_or_set(None, env, &[DATABASE_VARIABLE.to_owned()])?;
    DatabaseChoice::of_url(url.as_deref()).map_err(|fault| format!("{DATABASE_VARIABLE}: {fault}"))
}

/// Returns the typed value, otherwise the first variable that is set and not empty. A value that is
/// not UTF-8 is refused: if skipped, the setting would appear to have worked.
pub(super) fn typed_or_set(
    typed: Option<String>,
    env: EnvironmentLookup<'_>,
    names: &[String],
) -> Result<Option<String>, String> {
    if typed.is_some() {
        return Ok(typed);
    }
    let set =
        names.iter().find_map(|name| Some((name, env(name).filter(|value| !value.is_empty())?)));
    let Some((name, value)) = set else { return Ok(None) };
    value.into_string().map(Some).map_err(|_| format!("the value of {name} is not UTF-8"))
}
