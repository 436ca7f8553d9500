//! Input that several endpoints share: numbers of versions.

use bulkhead_sdk::table::Field;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::{Call, Failure};
use std::collections::BTreeSet;

/// The version that a read asks for.
pub(crate) const VERSION: &[Field] =
    &[Field::whole("version", "number of the version; 0 is the latest")];

/// The versions that a change is about.
pub(crate) const VERSIONS: &[Field] = &[Field::words("versions", "numbers of the versions")];

/// Returns the version that a read asks for; `None` for the latest.
///
/// # Errors
/// Invalid request for a negative number.
pub(crate) fn version(call: &Call) -> Result<Option<u64>, Failure> {
    let mut number = 0;
    call.merge("version", &mut number)?;
    Ok(Some(number).filter(|number| *number > 0))
}

/// Returns the versions that a change is about.
///
/// # Errors
/// Invalid request for no version, and for a text that is not the number of a version.
pub(crate) fn versions(call: &Call) -> Result<BTreeSet<u64>, Failure> {
    let given = call.list("versions");
    if given.is_empty() {
        return Err(Failure::invalid(
            "no version number was given: set versions to a list of numbers, such as [1, 2]",
        ));
    }
    given.iter().map(|text| number(text)).collect()
}

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
        let text = quoted(text);
        Failure::invalid(format!(
            "versions: {text} is not a version; versions are numbers from 1 on"
        ))
    })
}
