//! Claims that a role binds to values.
//!
//! The attacks this file stops: a bound claim without values that every token meets, a claim of
//! another type that counts as equal, and a pattern that matches a part of a claim.

use crate::claims;
use bulkhead_sdk::wire::failure::quoted;
use bulkhead_sdk::wire::json;
use bulkhead_sdk::{Call, Failure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of bound claims of a role, and of values of a claim.
const MOST: usize = 1_000;

/// Comparison of bound values with claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClaimComparison {
    /// As whole values.
    #[default]
    String,
    /// As patterns, in which `*` stands for any text, also for none.
    Glob,
}

impl ClaimComparison {
    /// Reads a comparison.
    ///
    /// # Errors
    /// Invalid request for another word.
    pub(crate) fn read(word: &str) -> Result<Self, Failure> {
        match word {
            "" | "string" => Ok(Self::String),
            "glob" => Ok(Self::Glob),
            other => Err(Failure::invalid(format!(
                "bound_claims_type {} is neither string nor glob",
                quoted(other)
            ))),
        }
    }

    fn matches(self, bound: &Value, claim: &Value) -> bool {
        match (bound, claims::text_of(claim)) {
            (Value::String(bound), Some(text)) if self == Self::Glob => is_match(bound, &text),
            (Value::String(bound), Some(text)) => *bound == text,
            // A bound flag or number is met by a flag or number, and by no text.
            (bound, Some(_)) => bound == claim,
            (_, None) => false,
        }
    }
}

/// Bound values by the name of their claim, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundClaims(Map<String, Value>);

impl BoundClaims {
    /// Reads the field of a call: an object or its JSON text, with a value or a list of values for
    /// each claim.
    ///
    /// # Errors
    /// Invalid request that names the claim.
    pub(crate) fn read(call: &Call) -> Result<Self, Failure> {
        let wrong = || {
            Failure::invalid(
                "bound_claims is not an object: give a value or a list of values for each claim, \
                 such as {\"project\": [\"web\", \"ops\"]}",
            )
        };
        let bound = match call.fields.get("bound_claims") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(object)) => object.clone(),
            Some(Value::String(text)) => json::object(text.as_bytes()).map_err(|_| wrong())?,
            Some(_) => return Err(wrong()),
        };
        Ok(Self(bound))
    }

    /// Checks that each claim has values that the comparison can meet.
    ///
    /// # Errors
    /// Invalid request that names the claim.
    pub(crate) fn check(&self, comparison: ClaimComparison) -> Result<(), Failure> {
        if self.0.len() > MOST {
            return Err(Failure::invalid(format!("bound_claims: there may be at most {MOST}")));
        }
        for (name, bound) in &self.0 {
            let unfit = |why: &str| {
                let name = quoted(name);
                Err(Failure::invalid(format!("bound_claims: the claim {name} {why}")))
            };
            let values = claims::members(bound);
            if values.is_empty() || values.len() > MOST {
                return unfit("has no value or more than 1000 values; no token could match");
            }
            if values.iter().any(|value| claims::text_of(value).is_none()) {
                return unfit("has a value that is not a text, flag or whole number");
            }
            if comparison == ClaimComparison::Glob && !values.iter().all(Value::is_string) {
                return unfit("has a value that is not text; give patterns as texts");
            }
        }
        Ok(())
    }

    /// Tells if no claim is bound.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bound values as written.
    pub(crate) fn shown(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the claims of a token that this role binds, each under the name in the role.
    pub(crate) fn named(&self, all: &Map<String, Value>) -> Map<String, Value> {
        let names = self.0.keys();
        names.filter_map(|name| Some((name.clone(), claims::find(all, name)?.clone()))).collect()
    }

    /// Checks each bound claim of a token, as [`BoundClaims::named`] returns the claims, against
    /// the bound values. If a claim is a list, any member may match.
    ///
    /// # Errors
    /// Invalid request that names the first claim without a match, and shows no value.
    pub(crate) fn hold(
        &self,
        comparison: ClaimComparison,
        named: &Map<String, Value>,
    ) -> Result<(), Failure> {
        for (name, bound) in &self.0 {
            let Some(claim) = named.get(name) else {
                let name = quoted(name);
                return Err(Failure::invalid(format!("the token has no claim {name}")));
            };
            let (values, found) = (claims::members(bound), claims::members(claim));
            let is_met = |value: &Value| found.iter().any(|one| comparison.matches(value, one));
            if !values.iter().any(is_met) {
                return Err(Failure::invalid(format!(
                    "the token's claim {} matches none of the bound values of the role",
                    quoted(name)
                )));
            }
        }
        Ok(())
    }
}

/// Tells if the pattern matches the whole text.
fn is_match(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = text.strip_prefix(first).and_then(|text| text.strip_suffix(last));
    let Some(mut left) = inner else { return false };
    middle.split('*').all(|part| {
        let behind = left.split_once(part).map(|(_, behind)| behind);
        left = behind.unwrap_or_default();
        behind.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(comparison: ClaimComparison, bound: &Value, claim: &Value) -> bool {
        let bound = BoundClaims(json!({"c": bound}).as_object().unwrap().clone());
        bound.hold(comparison, json!({"c": claim}).as_object().unwrap()).is_ok()
    }

    #[test]
    fn star_matches_any_text_and_pattern_whole_text() {
        for (pattern, text, is_it) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*b*c", "abc", true),
            ("*b*", "abc", true),
            ("**", "", true),
            ("a**b", "axb", true),
            ("a*bc*bc", "abc", false),
            ("a*bc*bc", "abcbc", true),
            ("refs/heads/*", "refs/heads/main", true),
            ("refs/heads/*", "refs/tags/refs/heads/main", false),
            ("a?c", "abc", false),
            ("[ab]", "a", false),
            ("A*", "ab", false),
            ("ä*ö", "äxö", true),
        ] {
            assert_eq!(is_match(pattern, text), is_it, "{pattern} {text}");
        }
    }

    #[test]
    fn any_list_member_meets_any_bound_value() {
        use ClaimComparison::{Glob, String};
        for (comparison, bound, claim, is_it) in [
            (String, json!("a"), json!("a"), true),
            (String, json!("a"), json!("A"), false),
            (String, json!("a"), json!("ab"), false),
            (String, json!("a*"), json!("ab"), false),
            (String, json!(["a", "b"]), json!("b"), true),
            (String, json!("b"), json!(["a", "b"]), true),
            (String, json!(["b", "c"]), json!(["a", "b"]), true),
            (String, json!(["c"]), json!(["a", "b"]), false),
            (String, json!([]), json!(["a"]), false),
            (String, json!("a"), json!([]), false),
            (String, json!([]), json!([]), false),
            (String, json!("a"), json!([["a"]]), false),
            (String, json!("a"), json!({"a": "a"}), false),
            (Glob, json!("a*"), json!(["b", "ab"]), true),
            (Glob, json!("*"), json!({"a": "a"}), false),
        ] {
            assert_eq!(holds(comparison, &bound, &claim), is_it, "{bound} {claim}");
        }
    }

    #[test]
    fn flag_and_number_match_text_but_not_reverse() {
        for (bound, claim, is_it) in [
            (json!("true"), json!(true), true),
            (json!("1"), json!(true), false),
            (json!("7"), json!(7), true),
            (json!("7.0"), json!(7.0), false),
            (json!(true), json!(true), true),
            (json!(true), json!("true"), false),
            (json!(7), json!(7), true),
            (json!(7), json!("7"), false),
            (json!(7), json!(7.0), false),
            (json!(1), json!(true), false),
            (json!("null"), json!(null), false),
            (json!("9007199254740993"), json!(9_007_199_254_740_993_u64), true),
            (json!("9007199254740992"), json!(9_007_199_254_740_993_u64), false),
            (json!("1e30"), json!(1e30), false),
        ] {
            assert_eq!(holds(ClaimComparison::String, &bound, &claim), is_it, "{bound} {claim}");
        }
    }
}
