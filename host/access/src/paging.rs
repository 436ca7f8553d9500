//! Parameters for a part of a listing (decision H5), and listings under construction.

mod listings;

pub use listings::{ListingSlots, ListingText, SortedNames};

use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value};

/// Names of the fields that ask for a part of a listing.
pub const FIELDS: [&str; 2] = ["after", "limit"];

/// A part of a sorted listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// Only names greater than this text; empty: from the first name.
    pub after: String,
    /// Maximum number of names.
    pub limit: usize,
}

impl Paging {
    /// Reads the fields `after` and `limit`. A limit that is missing, `max`, 0 or less means no
    /// limit.
    ///
    /// # Errors
    /// 400 for a limit that is not a number, and for a field that has no single value.
    pub fn of(fields: &Map<String, Value>) -> Result<Self, Failure> {
        let number = single_text(fields, "limit")?;
        let limit = match number.as_str() {
            "" | "max" => 0,
            number => number.parse::<i64>().map_err(|_| {
                Failure::invalid(format!("limit {} is not a whole number", quoted(number)))
            })?,
        };
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        Ok(Self { after: single_text(fields, "after")?, limit })
    }
}

/// Returns a field as text; empty if the field is missing.
fn single_text(fields: &Map<String, Value>, name: &str) -> Result<String, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => {
            Err(Failure::invalid(format!("{name} must be one text or number; send a single value")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_wire::failure::FailureKind;
    use serde_json::json;

    #[test]
    fn a_limit_is_a_number_or_none() {
        let limit = |limit: &str| {
            Paging::of(json!({"limit": limit}).as_object().unwrap()).map(|paging| paging.limit)
        };
        for none in ["", "max", "0", "-1"] {
            assert_eq!(limit(none), Ok(usize::MAX), "{none:?}");
        }
        assert_eq!(limit("7"), Ok(7));
        for wrong in ["seven", "7.5", "99999999999999999999"] {
            assert!(limit(wrong).unwrap_err().message.starts_with("limit "), "{wrong}");
        }
    }

    #[test]
    fn a_part_is_asked_for_by_one_value() {
        let of = |fields: Value| Paging::of(fields.as_object().unwrap());
        let part = Paging { after: "5".to_owned(), limit: 7 };
        assert_eq!(of(json!({"after": 5, "limit": 7})), Ok(part));
        for twice in [json!({"limit": ["1", "2"]}), json!({"after": {}}), json!({"limit": true})] {
            assert_eq!(of(twice.clone()).unwrap_err().kind, FailureKind::InvalidRequest, "{twice}");
        }
    }

    #[test]
    fn without_fields_a_listing_is_whole() {
        assert_eq!(Paging::of(&Map::new()), Ok(Paging { after: String::new(), limit: usize::MAX }));
    }
}
