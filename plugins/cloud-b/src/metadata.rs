//! What of a login is shown with its token and kept with its alias: all that there is by default,
//! or a part that the configuration lists.

use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure};
use std::collections::BTreeSet;

/// What there is of an account.
pub(crate) const OF_ACCOUNTS: &[&str] =
    &["project_id", "role", "service_account_email", "service_account_id"];
/// What there is of an instance.
pub(crate) const OF_INSTANCES: &[&str] = &[
    "instance_creation_timestamp",
    "instance_id",
    "instance_name",
    "project_id",
    "project_number",
    "role",
    "service_account_email",
    "service_account_id",
    "zone",
];
/// The word for all that there is.
const ALL: &str = "default";

/// The names that are listed, or all.
pub(crate) fn chosen(listed: Option<&[String]>, all: &[&str]) -> Vec<String> {
    let everything = || all.iter().map(|name| (*name).to_owned()).collect();
    listed.map_or_else(everything, <[String]>::to_vec)
}

/// Puts the call's list into `into`, if there is one; `None` is all that there is.
///
/// # Errors
/// Invalid request for a name that there is not, and for all beside others.
pub(crate) fn merge(
    call: &Call,
    field: &str,
    all: &[&str],
    into: &mut Option<Vec<String>>,
) -> Result<(), Failure> {
    if !call.is_given(field) {
        return Ok(());
    }
    let words = call.list(field);
    let named: BTreeSet<String> = words.iter().map(|word| word.trim().to_lowercase()).collect();
    let listed: Vec<String> = named.into_iter().collect();
    *into = match listed.iter().any(|name| name == ALL) {
        true if listed.len() == 1 => None,
        true => {
            let shown: Vec<_> = listed.iter().map(|name| quoted(name).to_string()).collect();
            return Err(refused(
                field,
                format!(
                    "[{}] contains default - default can't be used in combination with other \
                     fields",
                    shown.join(" ")
                ),
            ));
        }
        false => Some(listed),
    };
    let is_unknown = |name: &String| !all.contains(&name.as_str());
    match into.iter().flatten().find(|name| is_unknown(name)) {
        Some(name) => Err(refused(
            field,
            format!(
                "{} contains an unavailable field, please select from \"{}\"",
                quoted(name),
                all.join(", ")
            ),
        )),
        None => Ok(()),
    }
}

fn refused(field: &str, why: String) -> Failure {
    Failure::invalid(format!("failed to parse {}: {why}", field.replace('_', " ")))
}
