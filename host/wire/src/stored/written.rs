//! Checks that a type still reads records written by earlier releases. The tests of every crate
//! with stored records use these checks.

use super::{Stored, split_version};
use serde_json::Value;

const HELP: &str = "see docs/how-to-add-a-field.md";

/// Checks that `T` reads every record in `written`, one per line, and writes each field again with
/// the same value. Records of earlier versions are only read; their upgraded meaning needs a
/// separate test.
///
/// # Errors
/// The number of the line that was not read or not kept, and the reason; also if no line has the
/// present version.
pub fn check_read<T: Stored>(written: &str) -> Result<(), String> {
    let mut has_current = false;
    for (number, line) in (1..).zip(written.lines()) {
        let refusal = |why: String| format!("{}, line {number}: {why}; {HELP}", T::KIND);
        let record = T::from_bytes(line.as_bytes()).map_err(|error| refusal(error.to_string()))?;
        let again = record.to_bytes().map_err(|failure| refusal(failure.message))?;
        T::from_bytes(&again).map_err(|error| refusal(format!("written again, it {error}")))?;
        if version(line) == Some(T::VERSION) {
            has_current = true;
            let (before, after) = (value(line.as_bytes()), value(&again));
            if let Some(place) = before.zip(after).and_then(|(one, two)| difference(&one, &two)) {
                return Err(refusal(format!("{place} is lost or another value")));
            }
        }
    }
    match has_current {
        true => Ok(()),
        false => Err(format!("{}: no record of version {}; {HELP}", T::KIND, T::VERSION)),
    }
}

/// Checks that `T` reads the records in `written` even with an additional field of a later release.
///
/// # Errors
/// The number of the refused line.
pub fn check_foreign<T: Stored>(written: &str) -> Result<(), String> {
    for (number, line) in (1..).zip(written.lines()) {
        let Some(members) = line.strip_suffix('}') else {
            return Err(format!("{}, line {number}: is not an object; {HELP}", T::KIND));
        };
        let comma = if members.ends_with('{') { "" } else { "," };
        let later = format!("{members}{comma}\"field of a later release\":[{{}}]}}");
        if T::from_bytes(later.as_bytes()).is_err() {
            return Err(format!("{}, line {number}: refuses unknown fields; {HELP}", T::KIND));
        }
    }
    Ok(())
}

fn version(line: &str) -> Option<u32> {
    split_version(line.as_bytes()).map(|(version, _)| version)
}

fn value(record: &[u8]) -> Option<Value> {
    serde_json::from_slice(split_version(record)?.1).ok()
}

/// Returns the first place where `after` lacks a value of `before`; additions in `after` are
/// ignored.
fn difference(before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => before.iter().find_map(|(key, one)| {
            let Some(two) = after.get(key) else { return Some(format!("/{key}")) };
            difference(one, two).map(|place| format!("/{key}{place}"))
        }),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let mut pairs = before.iter().zip(after).enumerate();
            pairs.find_map(|(index, (one, two))| {
                difference(one, two).map(|place| format!("/{index}{place}"))
            })
        }
        (one, two) => (one != two).then(String::new),
    }
}
