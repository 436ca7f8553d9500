//! Listings as JSON text. A listing may be long, and parsed values take ten times the memory of
//! text.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The names of a listing, with optional details for each name.
#[derive(Clone)]
pub struct Listing {
    /// A JSON list of texts, in order.
    pub keys: String,
    /// A JSON object with a member for each key; `None` if there are no details.
    pub key_info: Option<String>,
    /// Number of keys.
    pub entries: usize,
    /// Reservation for the memory of the texts, held as long as the listing.
    pub room: Option<Arc<dyn Any + Send + Sync>>,
}

impl Listing {
    /// Returns the size of the text, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.len() + self.key_info.as_ref().map_or(0, String::len)
    }

    /// Appends the JSON object for the `data` of an answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(info) = &self.key_info {
            out.extend_from_slice(b"\"key_info\":");
            out.extend_from_slice(info.as_bytes());
            out.push(b',');
        }
        out.extend_from_slice(b"\"keys\":");
        out.extend_from_slice(self.keys.as_bytes());
        out.push(b'}');
    }
}

/// Compares the texts only.
impl PartialEq for Listing {
    fn eq(&self, other: &Self) -> bool {
        (&self.keys, &self.key_info) == (&other.keys, &other.key_info)
    }
}

/// Shows the size, never the content.
impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listing({} keys, {} bytes)", self.entries, self.bytes())
    }
}
