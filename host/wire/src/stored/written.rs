//! Checks that a type still reads records as earlier releases wrote them, for the tests of every
//! crate that stores records.

use super::{Stored, parts};
use serde_json::Value;

const HELP: &str = "see docs/how-to-add-a-field.md";

/// Whether `T` reads every record in `written`, one a line, and keeps what it says: each of its
/// fields is written again with the same value. What is carried over from an earlier version is
/// only read; what it then means is for a test of its own.
///
/// # Errors
/// The number of the line that is not read or not kept, and what became of it; also when there is
/// no line of the version that is written now.
pub fn check_read<T: Stored>(written: &str) -> Result<(), String> {
    let mut has_current = false;
    for (number, line) in (1..).zip(written.lines()) {
        let told = |why: String| format!("{}, line {number}: {why}; {HELP}", T::KIND);
        let record = T::from_bytes(line.as_bytes()).map_err(|error| told(error.to_string()))?;
        let again = record.to_bytes().map_err(|failure| told(failure.message))?;
        T::from_bytes(&again).map_err(|error| told(format!("written again, it {error}")))?;
        if version(line) == Some(T::VERSION) {
            has_current = true;
            let (before, after) = (value(line.as_bytes()), value(&again));
            if let Some(place) = before.zip(after).and_then(|(one, two)| difference(&one, &two)) {
                return Err(told(format!("{place} is lost or another value")));
            }
        }
    }
    match has_current {
        true => Ok(()),
        false => Err(format!("{}: no record of version {}; {HELP}", T::KIND, T::VERSION)),
    }
}

/// Whether `T` reads the records in `written` also with a field that only a later release knows.
///
/// # Errors
/// The number of the line that is not read then.
pub fn check_foreign<T: Stored>(written: &str) -> Result<(), String> {
    for (number, line) in (1..).zip(written.lines()) {
        let Some(members) = line.strip_suffix('}') else {
            return Err(format!("{}, line {number}: is no object; {HELP}", T::KIND));
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
    parts(line.as_bytes()).map(|(version, _)| version)
}

fn value(record: &[u8]) -> Option<Value> {
    serde_json::from_slice(parts(record)?.1).ok()
}

/// Where `after` does not say what `before` says; what it says besides does not count.
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
