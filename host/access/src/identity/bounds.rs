//! Bounds of the fields that callers and auth methods set for entities and groups.
//!
//! This file prevents a record that grows with every request, until every request of its entity
//! becomes slow, or until no commit can delete the record. All records that lead to an entity or a
//! group fit into a single commit.

use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

/// Maximum number of aliases of an entity.
pub(super) const MOST_ALIASES: usize = 128;
/// Maximum number of groups with an entity as a direct member.
pub(super) const MOST_GROUPS: usize = 512;
/// Maximum number of entities merged into an entity.
pub(super) const MOST_MERGED: usize = 512;
/// Maximum number of policies of an entity or a group.
const MOST_POLICIES: usize = 256;
/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 512;
/// Maximum number of metadata members, followed by the maximum lengths of a key and a value, in
/// bytes.
const MOST_METADATA: usize = 64;
const LONGEST_KEY: usize = 128;
const LONGEST_VALUE: usize = 1_024;

/// Refuses a count of more than `most`; `of` names the counted things.
///
/// # Errors
/// 400.
pub(super) fn at_most(found: usize, most: usize, of: &str) -> Result<(), Failure> {
    if found <= most {
        return Ok(());
    }
    Err(Failure::invalid(format!("{of} would be {found}; at most {most} are possible")))
}

/// Refuses a name that is empty, too long, or contains a control character.
///
/// # Errors
/// 400; `field` names the field.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Failure> {
    if name.trim().is_empty() {
        return Err(Failure::invalid(format!("{field} is empty; give a name")));
    }
    if name.len() > LONGEST_NAME {
        let length = name.len();
        return Err(Failure::invalid(format!(
            "{field} has {length} bytes; use at most {LONGEST_NAME}"
        )));
    }
    if name.contains(char::is_control) {
        return Err(Failure::invalid(format!(
            "{field} holds a control character; remove the character"
        )));
    }
    Ok(())
}

/// Refuses metadata with too many members, or with keys or values of a wrong length.
///
/// # Errors
/// 400 without the key and the value; `field` names the field.
pub(crate) fn check_metadata(
    field: &str,
    metadata: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    at_most(metadata.len(), MOST_METADATA, &format!("the keys of {field}"))?;
    for (key, value) in metadata {
        if key.is_empty() || key.len() > LONGEST_KEY {
            let length = key.len();
            return Err(Failure::invalid(format!(
                "a key of {field} has {length} bytes; use between 1 and {LONGEST_KEY}"
            )));
        }
        if value.len() > LONGEST_VALUE {
            let length = value.len();
            return Err(Failure::invalid(format!(
                "a value of {field} has {length} bytes; use at most {LONGEST_VALUE}"
            )));
        }
    }
    Ok(())
}

/// Refuses more policies than an entity or a group may have.
///
/// # Errors
/// 400.
pub(crate) fn check_policies(policies: &[String]) -> Result<(), Failure> {
    at_most(policies.len(), MOST_POLICIES, "the policies")
}
