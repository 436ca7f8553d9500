//! `role/{name}/labels`: adds and removes labels required of a role's instances.

use crate::role::{GCE, Role, name_in_path};
use crate::service_accounts::expect_type;
use crate::settings::Config;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Answer, Call, Failure, Host};
use std::collections::BTreeMap;

/// Fields of the request.
pub(crate) const FIELDS: &[Field] = &[
    Field::words("add", "labels to add, as key:value"),
    Field::words("remove", "keys of labels to remove"),
];

/// Parses labels from texts `key:value`.
///
/// # Errors
/// Invalid request that lists the malformed labels after `about`.
pub(crate) fn read(texts: Vec<String>, about: &str) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = BTreeMap::new();
    let mut unfit = Vec::new();
    for text in texts {
        match label(&text) {
            Some((key, value)) => drop(labels.insert(key.to_owned(), value.to_owned())),
            None => unfit.push(quoted(&text).to_string()),
        }
    }
    match unfit.is_empty() {
        true => Ok(labels),
        false => Err(Failure::invalid(format!(
            "{about}: [{}]; a label is key:value, and the key begins with a small letter",
            unfit.join(" ")
        ))),
    }
}

/// Parses a label `[a-z][\w-]*:[\w-]*` of ASCII characters.
fn label(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.trim().split_once(':')?;
    let is_part =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let is_key = key.starts_with(|first: char| first.is_ascii_lowercase()) && is_part(key);
    (is_key && is_part(value)).then_some((key, value))
}

/// Changes the labels of a role for instances.
pub(crate) fn write(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = name_in_path(call)?;
    let mut role = Role::named(host, name)?;
    let (add, remove) = (call.list("add"), call.list("remove"));
    if add.is_empty() && remove.is_empty() {
        return Err(Failure::invalid("must provide at least one value to add or remove"));
    }
    expect_type(&role, GCE, "labels")?;
    role.bound_labels.extend(read(add, "given invalid labels to add")?);
    role.bound_labels.retain(|key, _| !remove.contains(key));
    role.store(host, name)?;
    Ok(Answer::nothing().warn(role.warnings(&Config::find(host)?)))
}
