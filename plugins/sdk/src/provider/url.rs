//! URL of a provider, built from parts that cannot change the meaning of other parts.

use crate::http::encoded;
use bulkhead_wire::failure::{Failure, quoted};

/// A URL of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderUrl {
    text: String,
    has_query: bool,
}

impl ProviderUrl {
    /// Returns the root of an origin such as `https://compute.example.com`, which comes from the
    /// program or an operator.
    #[must_use]
    pub fn of(origin: &str) -> Self {
        Self { text: origin.trim_end_matches('/').to_owned(), has_query: false }
    }

    /// Appends path segments, each of them encoded.
    ///
    /// # Errors
    /// Invalid request if a segment is empty, `.` or `..`.
    pub fn path(mut self, segments: &[&str]) -> Result<Self, Failure> {
        for segment in segments {
            if matches!(*segment, "" | "." | "..") {
                let segment = quoted(segment);
                return Err(Failure::invalid(format!("{segment} is not a name of anything there")));
            }
            self.text.push('/');
            self.text.push_str(&encoded(segment));
        }
        Ok(self)
    }

    /// Appends a custom method after a colon, as in Google's APIs. `word` is a constant of the
    /// program.
    #[must_use]
    pub fn verb(mut self, word: &'static str) -> Self {
        self.text.push(':');
        self.text.push_str(word);
        self
    }

    /// Appends a query parameter, encoded.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(&encoded(name));
        self.text.push('=');
        self.text.push_str(&encoded(value));
        self
    }

    /// Returns the URL as sent.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
