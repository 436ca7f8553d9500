//! The caller's own words, which an answer may repeat for all secrets of the call.

use super::runs::{SecretRuns, letters};
use super::spelling;
use crate::bindings::secrets_engine::bulkhead::plugin::types::Call;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use zeroize::Zeroizing;

/// The words of a request.
pub(super) struct CallerWords {
    /// Names from the path.
    captures: Vec<String>,
    /// One JSON object. Most calls have nothing to hide, and never parse the object.
    fields: Zeroizing<String>,
}

impl CallerWords {
    /// Copies the words of a call.
    pub(super) fn of(call: &Call) -> Self {
        let captures = call.captures.iter().map(|(_, text)| text.clone()).collect();
        Self { captures, fields: call.fields.clone().into() }
    }

    /// Returns the runs of all words except the values `secrets`, which come from fields marked
    /// secret.
    pub(super) fn runs(&self, secrets: &[Zeroizing<String>]) -> SecretRuns {
        let mut words = self.captures.clone();
        if let Ok(fields) = serde_json::from_str(&self.fields) {
            collect(
                &fields,
                &|text| !secrets.iter().any(|secret| secret.as_str() == text),
                &mut words,
            );
        }
        let mut runs = SecretRuns::default();
        for word in &words {
            runs.add(&letters(word));
            for spelled in spelling::others(word) {
                runs.add(&letters(&spelled));
            }
        }
        runs
    }
}

/// Collects names, texts and numbers, and the claims of tokens.
fn collect(value: &Value, is_open: &dyn Fn(&str) -> bool, words: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            claims(text).iter().for_each(|part| collect(part, &|_| true, words));
            if is_open(text) {
                words.push(without_login(text).to_owned());
            }
        }
        Value::Number(number) => words.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_open, words)),
        Value::Object(map) => {
            for (name, item) in map {
                words.push(name.clone());
                collect(item, is_open, words);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns header and claims of a signed token, and nothing for any other text.
fn claims(text: &str) -> Vec<Value> {
    let parts: Vec<&str> = text.split('.').collect();
    let [header, claims, _] = parts.as_slice() else { return Vec::new() };
    let read = |part: &&str| {
        let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    [header, claims].into_iter().filter_map(read).collect()
}

/// Cuts the login out of a URL: an answer must not repeat the password in the login.
fn without_login(text: &str) -> &str {
    let url = text.find("://").and_then(|at| text.get(at..));
    let place = url.and_then(|url| url.get(url.rfind('@')?..));
    place.unwrap_or(text)
}
