//! Login metadata that is shown with the token and stored with the alias: all fields by default, or
//! the fields listed in the configuration.

use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure};
use std::collections::BTreeSet;

/// Metadata fields of an account.
pub(crate) const OF_ACCOUNTS: &[&str] =
    &["project_id", "role", "service_account_email", "service_account_id"];
/// Metadata fields of an instance.
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
/// Keyword for all fields.
const ALL: &str = "default";

/// Returns the listed names, or all names.
pub(crate) fn chosen(listed: Option<&[String]>, all: &[&str]) -> Vec<String> {
    let everything = || all.iter().map(|name| (*name).to_owned()).collect();
    listed.map_or_else(everything, <[String]>::to_vec)
}

/// Replaces `into` by the call's list, if given; `None` means all fields.
///
/// # Errors
/// Invalid request for an unknown name, or for the keyword together with names.
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
