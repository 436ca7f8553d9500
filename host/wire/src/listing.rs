//! A listing as JSON text. A listing may be long, and a value in memory takes ten times its text.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The names of a listing, and what is told of each.
#[derive(Clone)]
pub struct Listing {
    /// A JSON list of texts, in order.
    pub keys: String,
    /// A JSON object with a member for each key; `None` where nothing is told of them.
    pub key_info: Option<String>,
    /// Number of keys.
    pub entries: usize,
    /// The room that the texts take, for as long as they are held.
    pub room: Option<Arc<dyn Any + Send + Sync>>,
}

impl Listing {
    /// Bytes of its text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.len() + self.key_info.as_ref().map_or(0, String::len)
    }

    /// Writes it as the JSON object that is the `data` of an answer.
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

/// Two listings are equal if their texts are.
impl PartialEq for Listing {
    fn eq(&self, other: &Self) -> bool {
        (&self.keys, &self.key_info) == (&other.keys, &other.key_info)
    }
}

/// Shows how long it is, never what is in it.
impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listing({} keys, {} bytes)", self.entries, self.bytes())
    }
}
