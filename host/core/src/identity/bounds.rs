//! How much there may be of what callers and auth methods say of entities and groups.
//!
//! The attack this file stops: a record that grows with every request that writes it, until each
//! request of its entity takes its time to read it, or until no commit can remove it any more. What
//! one entity or group is found by, all of it, fits into one commit.

use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

/// Aliases of an entity.
pub(super) const MOST_ALIASES: usize = 128;
/// Groups that an entity is in by itself, not through another group.
pub(super) const MOST_GROUPS: usize = 512;
/// Entities that were merged into one.
pub(super) const MOST_MERGED: usize = 512;
/// Policies of an entity or a group.
const MOST_POLICIES: usize = 256;
/// Bytes of a name.
const LONGEST_NAME: usize = 512;
/// Members of a map of metadata, and the bytes of a key and of a value.
const MOST_METADATA: usize = 64;
const LONGEST_KEY: usize = 128;
const LONGEST_VALUE: usize = 1_024;

/// Refuses more than `most` of what `of` has.
///
/// # Errors
/// 400.
pub(super) fn at_most(found: usize, most: usize, of: &str) -> Result<(), Failure> {
    if found <= most {
        return Ok(());
    }
    Err(Failure::invalid(format!("{of} would be {found}; at most {most} are possible")))
}

/// Refuses a name that is empty, too long, or holds a control character.
///
/// # Errors
/// 400; `what` is the field.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Failure> {
    if name.trim().is_empty() {
        return Err(Failure::invalid(format!("{what} is empty; give a name")));
    }
    if name.len() > LONGEST_NAME {
        let length = name.len();
        return Err(Failure::invalid(format!(
            "{what} has {length} bytes; use at most {LONGEST_NAME}"
        )));
    }
    if name.contains(char::is_control) {
        return Err(Failure::invalid(format!("{what} holds a control character; leave it out")));
    }
    Ok(())
}

/// Refuses metadata of too many or too long members.
///
/// # Errors
/// 400 that names neither key nor value; `what` is the field.
pub(crate) fn check_metadata(
    what: &str,
    metadata: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    at_most(metadata.len(), MOST_METADATA, &format!("the keys of {what}"))?;
    for (key, value) in metadata {
        if key.is_empty() || key.len() > LONGEST_KEY {
            let length = key.len();
            return Err(Failure::invalid(format!(
                "a key of {what} has {length} bytes; use between 1 and {LONGEST_KEY}"
            )));
        }
        if value.len() > LONGEST_VALUE {
            let length = value.len();
            return Err(Failure::invalid(format!(
                "a value of {what} has {length} bytes; use at most {LONGEST_VALUE}"
            )));
        }
    }
    Ok(())
}

/// Refuses more policies than an entity or a group can have.
///
/// # Errors
/// 400.
pub(crate) fn check_policies(policies: &[String]) -> Result<(), Failure> {
    at_most(policies.len(), MOST_POLICIES, "the policies")
}
