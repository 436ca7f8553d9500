//! A URL of a provider, put together of parts that cannot leave their place.

use crate::http::encoded;
use bulkhead_wire::failure::{Failure, quoted};

/// A URL of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    text: String,
    has_query: bool,
}

impl Url {
    /// The root of an origin such as `https://compute.example.com`, that a program or an operator
    /// names.
    #[must_use]
    pub fn of(origin: &str) -> Self {
        Self { text: origin.trim_end_matches('/').to_owned(), has_query: false }
    }

    /// With these segments at its end, each of them encoded.
    ///
    /// # Errors
    /// Invalid request for a segment that is empty, or leads to where the path came from.
    pub fn path(mut self, segments: &[&str]) -> Result<Self, Failure> {
        for segment in segments {
            if matches!(*segment, "" | "." | "..") {
                let segment = quoted(segment);
                return Err(Failure::invalid(format!("{segment} is no name of anything there")));
            }
            self.text.push('/');
            self.text.push_str(&encoded(segment));
        }
        Ok(self)
    }

    /// With what is to be done to the resource, behind a colon as Google spells it: a word of the
    /// program.
    #[must_use]
    pub fn verb(mut self, word: &'static str) -> Self {
        self.text.push(':');
        self.text.push_str(word);
        self
    }

    /// With one more parameter, encoded.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(&encoded(name));
        self.text.push('=');
        self.text.push_str(&encoded(value));
        self
    }

    /// As it is sent.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
